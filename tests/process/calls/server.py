"""A gRPC server that does what the method asks for, and says each call on standard output."""

import sys
import time
from concurrent import futures

import grpc

count = {}


def answer(method):
    def handle(request, context):
        count[method] = count.get(method, 0) + 1
        left = context.time_remaining()
        metadata = dict(context.invocation_metadata())
        print("call", method, "%.1f" % left if left is not None else "-", "leno-deadline-ms" in metadata, flush=True)
        if method == "Slow":
            time.sleep(8)
        if method == "Busy" or (method == "Once" and count[method] == 1):
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        if method == "Pushback":
            context.set_trailing_metadata([("grpc-retry-pushback-ms", "-1")])
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        return b"yes"

    return grpc.unary_unary_rpc_method_handler(handle)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
methods = {name: answer(name) for name in ("Ok", "Slow", "Once", "Busy", "Pushback")}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("leno.Calls", methods),))
server.add_insecure_port("[::]:" + sys.argv[1])
server.start()
print("listening", flush=True)
server.wait_for_termination()
