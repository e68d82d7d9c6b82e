"""The client of the gRPC cases: prints what it saw of each, and what the server saw, as JSON."""

import json
import queue
import sys
import threading
import zlib

import grpc

V4, V6, PORT, DECLARED, CLOSED = sys.argv[1:]
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 131072),
    ("grpc.enable_http_proxy", 0),
]
LIMIT = 20

channel = grpc.insecure_channel("%s:%s" % (V4, PORT), options=OPTIONS)
seen = {}


def pairs(metadata):
    # In the order of names: order among different names means nothing (RFC 9110, section 5.3).
    both = [[k, v.hex() if isinstance(v, bytes) else v] for k, v in metadata or ()]
    return sorted(both, key=lambda pair: pair[0])


def digest(message):
    return "%d bytes, %x" % (len(message), zlib.crc32(message))


def call(kind, over=None):
    over = over or channel
    shape = {"Unary": "unary_unary", "ServerStream": "unary_stream", "ClientStream": "stream_unary", "BothStream": "stream_stream"}
    return getattr(over, shape[kind])("/leno.Cases/" + kind)


def end(lines, rpc):
    """The end of a call, as everything the API tells of it."""
    lines.append("begin %s" % pairs(rpc.initial_metadata()))
    lines.append("end %s %s %r" % (rpc.code().name, pairs(rpc.trailing_metadata()), rpc.details()))


def unary(case, order, rest=b"", over=None, metadata=None, timeout=LIMIT, **more):
    lines = seen.setdefault(case, [])
    request = json.dumps(dict(order, case=case)).encode() + b"\n" + rest
    try:
        answer, rpc = call("Unary", over).with_call(request, timeout=timeout, metadata=metadata, **more)
        lines.append(digest(answer))
    except grpc.RpcError as error:
        rpc = error
    end(lines, rpc)


def server_stream(case, order, cancel_after=None):
    lines = seen.setdefault(case, [])
    rpc = call("ServerStream")(json.dumps(dict(order, case=case)).encode(), timeout=LIMIT)
    count = 0
    try:
        for message in rpc:
            count += 1
            lines.append(digest(message))
            if count == cancel_after:
                rpc.cancel()
    except grpc.RpcError:
        pass
    end(lines, rpc)


def client_stream(case, order, count, size):
    lines = seen.setdefault(case, [])

    def requests():
        yield json.dumps(dict(order, case=case)).encode()
        for number in range(count):
            yield bytes([number % 251]) * size

    try:
        answer, rpc = call("ClientStream").with_call(requests(), timeout=LIMIT)
        lines.append(digest(answer))
    except grpc.RpcError as error:
        rpc = error
    end(lines, rpc)


def both_stream(case, order, count, size):
    """Each message is sent when the answer to the one before is there."""
    lines = seen.setdefault(case, [])
    outgoing = queue.Queue()
    outgoing.put(json.dumps(dict(order, case=case)).encode())
    rpc = call("BothStream")(iter(outgoing.get, None), timeout=LIMIT)
    try:
        lines.append(digest(next(rpc)))
        for number in range(count):
            outgoing.put(bytes([number % 251]) * size + b"x")
            lines.append(digest(next(rpc)))
        outgoing.put(None)
        for message in rpc:
            lines.append("more: " + digest(message))
    except grpc.RpcError:
        pass
    outgoing.put(None)
    end(lines, rpc)


def codes():
    for code in range(17):
        order = {"code": code, "trailing": True, "details": "caf\u00e9 100%, \u2603\nnew line"}
        unary("code %d, trailers only" % code, order)
        unary("code %d, head and trailers" % code, dict(order, head=True))
        server_stream("code %d, after three messages" % code, dict(order, count=3, size=10))


def shapes():
    for size in (0, 1, 1000, 16384, 1 << 20, 16 << 20):
        unary("unary, echo of %d bytes" % size, {"echo": True}, b"e" * size)
    unary("unary, compressed", {"echo": True}, b"e" * 100000, compression=grpc.Compression.Gzip)
    server_stream("server stream, 1,000 messages", {"count": 1000, "size": 100})
    server_stream("server stream, no message", {"count": 0})
    server_stream("server stream, 10 of 1 MiB", {"count": 10, "size": 1 << 20, "head": True})
    client_stream("client stream, 1,000 messages", {}, 1000, 100)
    client_stream("client stream, 10 of 1 MiB", {"head": True, "trailing": True}, 10, 1 << 20)
    client_stream("client stream, refused early", {"early": 3, "code": 8}, 10, 10)
    both_stream("both stream, 200 in turn", {"trailing": True}, 200, 10)
    both_stream("both stream, 5 of 1 MiB", {}, 5, 1 << 20)
    both_stream("both stream, an error at the end", {"code": 13, "head": True, "trailing": True}, 3, 10)


def metadata():
    several = [("x-a", "1"), ("x-b", ""), ("x-a", "2"), ("x-bytes-bin", bytes(range(256))), ("x-empty-bin", b"")]
    unary("metadata, several and binary", {"head": True, "trailing": True}, metadata=several)
    unary("metadata, 60 KiB", {}, metadata=[("x-long", "v" * 60000)])
    unary("an unknown kind of order", {"code": 12}, metadata=[("te-like", "trailers")])


def limits():
    unary("deadline", {"wait": True}, timeout=3)
    server_stream("cancelled in the stream", {"count": 3, "wait": True}, cancel_after=3)
    lines = seen.setdefault("a method nobody has", [])
    try:
        channel.unary_unary("/leno.Cases/None")(b"", timeout=LIMIT)
    except grpc.RpcError as error:
        end(lines, error)
    lines = seen.setdefault("a port nobody listens at", [])
    with grpc.insecure_channel("%s:%s" % (V4, CLOSED), options=OPTIONS) as over:
        try:
            call("Unary", over)(b"{}\n", timeout=LIMIT)
        except grpc.RpcError as error:
            # The words are whose they are; the code is what a client acts on.
            lines.append(error.code().name)


def ways():
    for name, target in (("declared h2c", "%s:%s" % (V4, DECLARED)), ("over IPv6", "[%s]:%s" % (V6, PORT))):
        with grpc.insecure_channel(target, options=OPTIONS) as over:
            unary(name, {"echo": True}, b"hello", over=over)
    names = ["side by side, %d" % number for number in range(50)]
    threads = [threading.Thread(target=unary, args=(name, {"echo": True}, name.encode())) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for group in (codes, shapes, metadata, limits, ways):
    group()

# What the server saw; a cancelled call may reach it a moment later.
wanted = {"deadline", "cancelled in the stream"}
waiting = threading.Event()
for _ in range(1000):
    log = json.loads(channel.unary_unary("/leno.Cases/Log")(b"", timeout=LIMIT))
    if all("cancelled" in log.get(case, []) for case in wanted):
        break
    waiting.wait(0.02)
seen.update({case + ", server": lines for case, lines in log.items()})
print(json.dumps(seen))
