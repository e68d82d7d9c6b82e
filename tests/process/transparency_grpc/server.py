"""The server of the gRPC cases: each request is JSON that says what to do."""

import json
import sys
import threading
from concurrent import futures

import grpc

saw = {}
lock = threading.Lock()


def note(case, line):
    with lock:
        saw.setdefault(case, []).append(line)


def begin(context, order):
    """Notes the call's metadata and says the initial metadata, as ordered."""
    # In the order of names: order among different names means nothing (RFC 9110, section 5.3).
    metadata = [[k, v.hex() if isinstance(v, bytes) else v] for k, v in context.invocation_metadata()]
    metadata.sort(key=lambda pair: pair[0])
    limited = context.time_remaining() is not None
    note(order["case"], json.dumps({"metadata": metadata, "deadline": limited}))
    trailing = [("x-end", "1"), ("x-end", "2"), ("x-end-bin", b"\x00\xff\x80")]
    context.set_trailing_metadata(trailing if order.get("trailing") else [])
    if order.get("head"):
        context.send_initial_metadata([("x-begin", "1"), ("x-begin", "2"), ("x-begin-bin", b"\xff\x00")])


def finish(context, order):
    code = order.get("code", 0)
    if code:
        codes = {c.value[0]: c for c in grpc.StatusCode}
        context.abort(codes[code], order.get("details", "because 100%"))


def body(order):
    return bytes(i % 251 for i in range(min(order.get("size", 0), 251))) * (order.get("size", 0) // 251 + 1)


def answer(order):
    return body(order)[: order.get("size", 0)]


def unary(request, context):
    head, _, rest = request.partition(b"\n")
    order = json.loads(head)
    begin(context, order)
    note(order["case"], "%d bytes" % len(rest))
    if order.get("wait"):
        ended = threading.Event()
        # False: the call is over already, and nobody will call.
        if not context.add_callback(ended.set):
            ended.set()
        if not ended.wait(10):
            note(order["case"], "FAILED: the call was not cancelled")
        note(order["case"], "cancelled")
        return b""
    finish(context, order)
    return rest if order.get("echo") else answer(order)


def server_stream(request, context):
    order = json.loads(request)
    begin(context, order)
    ended = threading.Event()

    def over():
        note(order["case"], "cancelled")
        ended.set()

    # Before the first message: a call that is cancelled while it is with the library never comes back here.
    # False: the call is over already, and nobody will call.
    if order.get("wait") and not context.add_callback(over):
        over()
    for number in range(order.get("count", 0)):
        yield b"%d " % number + answer(order)
    if order.get("wait"):
        if not ended.wait(10):
            note(order["case"], "FAILED: not cancelled")
        return
    finish(context, order)


def client_stream(requests, context):
    order = json.loads(next(requests))
    begin(context, order)
    count = size = 0
    for request in requests:
        if order.get("early") and count == order["early"]:
            finish(context, order)
            return b"early"
        count += 1
        size += len(request)
    note(order["case"], "%d messages, %d bytes" % (count, size))
    finish(context, order)
    return b"%d %d" % (count, size)


def both_stream(requests, context):
    order = json.loads(next(requests))
    begin(context, order)
    yield b"ready"
    for request in requests:
        yield request[::-1]
    finish(context, order)


def log(request, context):
    with lock:
        return json.dumps({case: sorted(lines) for case, lines in saw.items()}).encode()


def main():
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 131072)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64), options=options)
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "BothStream": grpc.stream_stream_rpc_method_handler(both_stream),
        "Log": grpc.unary_unary_rpc_method_handler(log),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("leno.Cases", handlers),))
    for port in sys.argv[1:]:
        server.add_insecure_port("[::]:%s" % port)
    server.start()
    print("listening", flush=True)
    server.wait_for_termination()


main()
