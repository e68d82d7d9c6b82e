"""A receiver of OTLP over gRPC: each message as one line of hexadecimal digits on standard output."""

import sys
from concurrent import futures

import grpc


def export(message, _context):
    print("export", message.hex(), flush=True)
    # An ExportTraceServiceResponse without fields.
    return b""


# One thread, because `print` writes its words one by one: the lines of two threads would mix.
server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
service = "opentelemetry.proto.collector.trace.v1.TraceService"
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
server.add_insecure_port("[::]:" + sys.argv[1])
server.start()
print("listening", flush=True)
server.wait_for_termination()
