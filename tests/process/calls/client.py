"""One gRPC call: prints its code and how long it took, in milliseconds."""

import sys
import time

import grpc

address, method, deadline = sys.argv[1:]
channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)])
began = time.monotonic()
try:
    channel.unary_unary("/leno.Calls/" + method)(b"x", timeout=float(deadline) or None)
    code = "OK"
except grpc.RpcError as error:
    code = error.code().name
print(code, int((time.monotonic() - began) * 1000))
