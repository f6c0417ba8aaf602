"""Requests and frames that are wrong, too large or too many. Each ends in a clear status or a
closed connection, and a well-behaved client beside it notices nothing."""
import os
import random
import socket
import struct
import time

import pytest
from bystander import Bystander, is_sanitized

from harness import KIND_LEASED, Server, hpack
from harness.http2_frames import (
    CONTINUATION, DATA, FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, GOAWAY, HEADERS, PING,
    PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection, Ended, Reset,
    call, frame, headers, message, ping, rst_stream, settings,
)  # fmt: skip

SEED = int(os.environ.get("LEASED_HOSTILE_SEED", random.SystemRandom().randrange(10**6)))
MIB = 1024 * 1024
# An attack may make the server remember things, but never what an attacker sends without end.
GROWTH_MAX = 64 * MIB
RANGE = b"/etcdserverpb.KV/Range"
PUT = b"/etcdserverpb.KV/Put"
KEEP_ALIVE = b"/etcdserverpb.Lease/LeaseKeepAlive"
UNARY = [
    RANGE, PUT, b"/etcdserverpb.KV/DeleteRange", b"/etcdserverpb.KV/Txn",
    b"/etcdserverpb.KV/Compact", b"/etcdserverpb.Lease/LeaseGrant",
    b"/etcdserverpb.Lease/LeaseRevoke", b"/etcdserverpb.Lease/LeaseTimeToLive",
    b"/etcdserverpb.Maintenance/Alarm", b"/etcdserverpb.Maintenance/HashKV",
]  # fmt: skip
STREAMS = [KEEP_ALIVE, b"/etcdserverpb.Watch/Watch"]
# Their requests have no fields, so whatever is in them is not looked at.
WITHOUT_FIELDS = [
    b"/etcdserverpb.Lease/LeaseLeases", b"/etcdserverpb.Cluster/MemberList",
    b"/etcdserverpb.Maintenance/Status", b"/etcdserverpb.Maintenance/Defragment",
    b"/etcdserverpb.Maintenance/Snapshot",
]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED) as running:
        yield running


@pytest.fixture(scope="module")
def bystander(server):
    with Bystander(server) as working:
        yield working


@pytest.fixture(autouse=True)
def undisturbed(server, bystander):
    """Around every attack: somebody else is served, the process lives and stays small."""
    before = server.rss_bytes()
    yield
    bystander.check_served()
    assert server.is_running()
    grown = server.rss_bytes() - before
    assert grown < GROWTH_MAX or is_sanitized(server), f"{grown / MIB:.0f} MiB more than before"


def field(number, wire_type, content):
    return bytes([number << 3 | wire_type]) + content


def nested_txn(depth):
    """A transaction in a transaction in a transaction."""
    inner = b""
    for _ in range(depth):
        operation = field(4, 2, varint(len(inner)) + inner)
        inner = field(2, 2, varint(len(operation)) + operation)
    return inner


def varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes(out) + bytes([number])


MALFORMED = {
    "a number that never ends": field(1, 0, b"\xff" * 11),
    "a length beyond the end": field(1, 2, b"\xff\xff\xff\xff\x0f"),
    "a length of 2^63": field(1, 2, b"\xff" * 9 + b"\x7f"),
    "a wire type that is none": b"\x0f",
    "field number 0": b"\x00\x01",
    "a tag cut short": b"\x80",
    "a fixed number cut short": field(15, 1, b"1234"),
    "a group that ends and never began": b"\x0c",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_message_is_refused_by_every_method(server, what):
    with Connection(server) as connection:
        for number, path in enumerate(UNARY + STREAMS):
            stream = 2 * number + 1
            connection.send(call(stream, path, MALFORMED[what]))
            try:
                answer = connection.wait_answer(stream)
            except Reset:
                continue
            assert answer.grpc_status not in (None, 0), f"{path}: {what} was taken"
        assert connection.is_alive()


def test_random_messages_do_no_harm(server):
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    with Connection(server) as connection:
        for number in range(600):
            payload = choose.randbytes(choose.randrange(60))
            path = choose.choice(UNARY + WITHOUT_FIELDS + [KEEP_ALIVE])
            connection.send(call(2 * number + 1, path, payload))
        for number in range(600):
            try:
                connection.wait_answer(2 * number + 1, 20)
            except Reset:
                pass
        assert connection.is_alive()


@pytest.mark.parametrize("depth", [17, 1000, 50_000])
def test_transactions_nested_too_deep_are_refused(server, depth):
    with Connection(server) as connection:
        connection.send(headers(1, hpack.grpc_request(b"/etcdserverpb.KV/Txn")))
        payload = message(nested_txn(depth))
        assert len(payload) < 2 * MIB
        connection.send_data(1, payload)
        assert connection.wait_answer(1).grpc_status != 0
        assert connection.is_alive()


@pytest.mark.parametrize("size", [2 * MIB + 1, 1024 * MIB, 2**32 - 1])
def test_a_message_that_is_announced_too_large_is_refused_before_it_comes(server, size):
    with Connection(server) as connection:
        connection.send(headers(1, hpack.grpc_request(PUT)))
        connection.send(frame(DATA, 0, 1, message(b"x" * 100, size=size)))
        answer = connection.wait_answer(1)
        assert answer.grpc_status == 8
        assert connection.is_alive()


def test_a_value_over_the_limit_is_refused(server):
    key_and_value = field(1, 2, b"\x01k") + field(2, 2, varint(1600 * 1024) + b"v" * 1600 * 1024)
    with Connection(server) as connection:
        connection.send(headers(1, hpack.grpc_request(PUT)))
        connection.send_data(1, message(key_and_value))
        answer = connection.wait_answer(1)
        assert (answer.grpc_status, answer.grpc_message) == (3, "etcdserver: request is too large")
        assert connection.is_alive()


@pytest.mark.parametrize("encoding, status", [(b"gzip", 13), (b"deflate", 12), (b"x" * 200, 12), (b"identity", 13)])
def test_a_compressed_message_that_is_none_is_refused(server, encoding, status):
    with Connection(server) as connection:
        connection.send(headers(1, hpack.grpc_request(PUT, (b"grpc-encoding", encoding))))
        connection.send(frame(DATA, FLAG_END_STREAM, 1, message(b"\x1f\x8b", compressed=1)))
        assert connection.wait_answer(1).grpc_status == status
        assert connection.is_alive()


WRONG_FRAMES = {
    "data on no stream": frame(DATA, 0, 0, b"x"),
    "data on a stream that was never opened": frame(DATA, 0, 5, b"x"),
    "headers on an even stream": headers(2, hpack.grpc_request(RANGE)),
    "headers on no stream": headers(0, hpack.grpc_request(RANGE)),
    "settings on a stream": frame(SETTINGS, 0, 1),
    "settings of a wrong size": frame(SETTINGS, 0, 0, b"12345"),
    "a window that is too large": settings(initial_window_size=2**31),
    "a frame size that is too small": settings(max_frame_size=1),
    "a ping of a wrong size": frame(PING, 0, 0, b"1"),
    "a ping on a stream": frame(PING, 0, 1, b"12345678"),
    "a window update of nothing": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0)),
    "a window update past the end": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1)) * 2,
    "a window update of a wrong size": frame(WINDOW_UPDATE, 0, 0, b"1"),
    "a reset of a wrong size": frame(RST_STREAM, 0, 1, b"1"),
    "a reset of a stream that was never opened": rst_stream(7),
    "a continuation of nothing": frame(CONTINUATION, FLAG_END_HEADERS, 1, b""),
    "something between headers and their continuation":
        frame(HEADERS, 0, 1, hpack.grpc_request(RANGE)) + ping(),
    "a push from a client": frame(PUSH_PROMISE, FLAG_END_HEADERS, 1, struct.pack(">I", 2)),
    "more padding than frame": frame(HEADERS, FLAG_PADDED | FLAG_END_HEADERS, 1, b"\xff123"),
    "a header table index that is none": headers(1, hpack.indexed(5000)),
    "an index of 0": headers(1, b"\x80"),
    "a string that never ends": headers(1, b"\x00\x7f\xff\xff\xff\x7f"),
    "a huffman code that is none": headers(1, b"\x00\x84\xff\xff\xff\xff\x01x"),
    "a header table larger than allowed": headers(1, hpack.integer(2**20, 5, 0x20)),
    "a frame larger than allowed": frame(DATA, 0, 1, b"", size=2**24 - 1) + b"x" * 70000,
    "priority of a wrong size": frame(PRIORITY, 0, 1, b"1"),
    "a goaway of a wrong size": frame(GOAWAY, 0, 0, b"1"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_FRAMES)
def test_a_wrong_frame_ends_its_connection(server, what):
    with Connection(server) as connection:
        try:
            connection.send(WRONG_FRAMES[what])
            code = connection.wait_end()
        except Ended as ended:
            code = ended.goaway
        assert code != 0, "closed as if all were well"


def test_what_a_later_version_may_send_is_ignored(server):
    with Connection(server) as connection:
        connection.send(frame(0x77, 0xFF, 0, b"unknown") + frame(0x78, 0, 3, b"unknown"))
        connection.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 0x7777, 7)))
        connection.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 3, 7)))
        assert connection.is_alive()
        connection.send(call(1, RANGE, field(1, 2, b"\x01k")))
        assert connection.wait_answer(1).grpc_status == 0


WRONG_REQUESTS = {
    "an unknown method": [(b":method", b"POST"), (b":path", b"/no.Such/Method")],
    "no path": [(b":method", b"POST")],
    "a relative path": [(b":method", b"POST"), (b":path", b"etcdserverpb.KV/Range")],
    "a method that is none": [(b":method", b"BREW"), (b":path", RANGE)],
    "no content type": [(b":method", b"POST"), (b":path", RANGE), (b"content-type", b"text/html")],
    "letters that may not be": [(b":method", b"POST"), (b":path", RANGE), (b"Upper", b"x")],
    "a line break in a value": [(b":method", b"POST"), (b":path", RANGE), (b"x", b"a\r\nb: c")],
    "connection headers": [(b":method", b"POST"), (b":path", RANGE), (b"connection", b"close")],
    "two paths": [(b":method", b"POST"), (b":path", RANGE), (b":path", PUT)],
    "a pseudo header that is none": [(b":method", b"POST"), (b":path", RANGE), (b":x", b"y")],
    "a timeout that is none": [
        (b":method", b"POST"), (b":path", RANGE), (b"content-type", b"application/grpc"),
        (b"grpc-timeout", b"soon"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_REQUESTS)
def test_a_wrong_request_ends_alone(server, what):
    fields = [(b":scheme", b"http"), (b":authority", b"test")] + WRONG_REQUESTS[what]
    fields.sort(key=lambda pair: not pair[0].startswith(b":"))
    block = b"".join(hpack.literal(name, value) for name, value in fields)
    with Connection(server) as connection:
        connection.send(headers(1, block) + frame(DATA, FLAG_END_STREAM, 1, message(b"")))
        try:
            answer = connection.wait_answer(1)
            assert answer.http_status != 200 or answer.grpc_status not in (None, 0)
        except Reset:
            pass
        assert connection.is_alive()


GARBAGE = {
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 500,
    "an ssh greeting": b"SSH-2.0-OpenSSH_9.2\r\n",
    "zeros": bytes(4096),
    "a preface that goes wrong": PREFACE[:18] + b"XX\r\n\r\n",
    "a request line that is none": b"GET / and so on\r\n\r\n",
    "a method in small letters": b"get / HTTP/1.1\r\n\r\n",
    "frames without a preface": settings() + ping(),
    "a preface without settings": PREFACE + ping(),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_instead_of_a_protocol_is_closed(server, what):
    with socket.create_connection(("127.0.0.1", server.client_port), timeout=10) as raw:
        raw.sendall(GARBAGE[what])
        check_closed(raw)


def check_closed(raw, timeout_s=10.0):
    """Reads until the server closes; answers what it said before."""
    said = b""
    deadline = time.monotonic() + timeout_s
    while True:
        raw.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = raw.recv(65536)
        except ConnectionResetError:
            return said
        if not data:
            return said
        said += data
