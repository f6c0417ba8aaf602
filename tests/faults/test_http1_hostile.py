"""HTTP/1.1 requests that a proxy and a server could read differently, or that never end: a clear
4xx and a closed connection, and a well-behaved client beside it notices nothing."""
import contextlib
import re
import socket
import threading
import time

import pytest
from bystander import Bystander

from harness import KIND_LEASED, Server

MIB = 1024 * 1024
GROWTH_MAX = 64 * MIB
PATIENCE_SECONDS = 15.0
HOST = b"Host: test\r\n"


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
    assert server.rss_bytes() - before < GROWTH_MAX


def connect(server):
    return socket.create_connection(("127.0.0.1", server.client_port), timeout=PATIENCE_SECONDS)


def read_to_end(raw):
    """What the server says until it closes; fails if it does not close."""
    said = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        raw.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = raw.recv(65536)
        except ConnectionResetError:
            return said
        if not data:
            return said
        said += data


def statuses(said):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


def refused(server, request):
    """The only status that comes back before the connection is closed."""
    with connect(server) as raw:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            raw.sendall(request)
        said = read_to_end(raw)
    assert said.count(b"HTTP/1.1 ") == 1, said
    assert b"\r\nConnection: close\r\n" in said
    return statuses(said)[0]


POST = b"POST /health HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"0\r\n\r\nGET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"

AMBIGUOUS = {
    "two lengths that differ": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "the same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a length with a sign": POST + b"Content-Length: +3\r\n\r\nabc",
    "a hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length beyond all numbers": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a length before an encoding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "an encoding before a length": CHUNKED + b"Content-Length: 5\r\n\r\n" + SMUGGLED,
    "two encodings": CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + SMUGGLED,
    "chunked and something behind it": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + SMUGGLED,
    "an encoding nobody knows": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + SMUGGLED,
    "an encoding with a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + SMUGGLED,
    "an encoding behind a tab": POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + SMUGGLED,
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + SMUGGLED,
    "an encoding in HTTP/1.0": b"POST /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "a folded header": POST + b"A: b\r\n c\r\n\r\n",
    "a header without a colon": POST + b"A\r\n\r\n",
    "a header without a name": POST + b": b\r\n\r\n",
    "a zero byte in a name": POST + b"A\0: b\r\n\r\n",
    "a zero byte in a value": POST + b"A: b\0c\r\n\r\n",
    "a zero byte in the target": b"GET /heal\0th HTTP/1.1\r\n" + HOST + b"\r\n",
    "a bare line feed": b"GET /health HTTP/1.1\n" + HOST + b"\r\n",
    "a bare line feed behind a header": POST + b"A: b\n\r\n",
    "a bare carriage return": POST + b"A: b\rC: d\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\n" + HOST + b"Host: other\r\n\r\n",
    "a host that is a path": b"GET /health HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a target with a space": b"GET /hea lth HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target of another scheme": b"GET ftp://test/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a target without a slash": b"GET health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a chunk that is longer than it says": CHUNKED + b"\r\n3\r\nabcdef\r\n0\r\n\r\n",
    "a chunk size that is none": CHUNKED + b"\r\nsize\r\n",
    "a negative chunk size": CHUNKED + b"\r\n-1\r\n",
    "a chunk size beyond all numbers": CHUNKED + b"\r\nfffffffffffffffff\r\n",
    "a chunk size with a bare line feed": CHUNKED + b"\r\n3\nabc\r\n0\r\n\r\n",
    "a folded trailer": CHUNKED + b"\r\n0\r\nA: b\r\n c\r\n\r\n",
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(server, what):
    assert 400 <= refused(server, AMBIGUOUS[what]) < 500


def test_an_absolute_target_is_understood(server):
    """RFC 9112, 3.2.2: a server must accept it."""
    with connect(server) as raw:
        raw.sendall(b"GET http://test/livez HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert read_to_end(raw).endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize("header", [b"x-%d: y\r\n", b"x: y\r\n"])
def test_a_hundred_thousand_headers_are_refused(server, header):
    many = b"".join(header % number if b"%d" in header else header for number in range(100_000))
    assert refused(server, b"GET /health HTTP/1.1\r\n" + HOST + many + b"\r\n") == 431


def test_a_hundred_thousand_trailers_are_refused(server):
    assert refused(server, CHUNKED + b"\r\n0\r\n" + b"x: y\r\n" * 100_000 + b"\r\n") == 431


def test_one_header_without_end_is_refused(server):
    assert refused(server, b"GET /health HTTP/1.1\r\n" + HOST + b"x: " + b"y" * MIB) == 431


def test_a_target_without_end_is_refused(server):
    assert refused(server, b"GET /" + b"y" * MIB) == 414


@pytest.mark.parametrize("start", [POST + b"Content-Length: 1000000000000\r\n\r\n", CHUNKED + b"\r\n"])
def test_a_body_without_end_is_refused(server, start):
    piece = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    with connect(server) as raw:
        raw.sendall(start)
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 256 * MIB:
                raw.sendall(piece)
                sent += len(piece)
        assert sent < 256 * MIB
        assert statuses(read_to_end(raw)) == [405]


def test_a_chunk_extension_without_end_is_refused(server):
    assert refused(server, CHUNKED + b"\r\n1;" + b"e" * MIB) == 400


def test_requests_ahead_of_their_time_are_not_kept(server):
    """A client that only asks, and one whose requests come faster than it reads the answers."""
    with connect(server) as raw:
        raw.settimeout(1.0)
        sent = 0
        with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
            while sent < 256 * MIB:
                sent += raw.send((b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n") * 1000)
        assert sent < 256 * MIB


def test_every_pipelined_request_is_answered_in_order(server):
    paths = [b"/livez", b"/version", b"/nowhere", b"/health"] * 500
    requests = b"".join(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n" for path in paths)
    last = b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    with connect(server) as raw:
        sender = threading.Thread(target=raw.sendall, args=(requests + last,), daemon=True)
        sender.start()
        said = read_to_end(raw)
        sender.join(PATIENCE_SECONDS)
    expected = [404 if path == b"/nowhere" else 200 for path in paths] + [200]
    assert statuses(said) == expected


def test_a_half_closed_client_is_answered(server):
    with connect(server) as raw:
        raw.sendall(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\nGET /readyz HTTP/1.1\r\n" + HOST + b"\r\n")
        raw.shutdown(socket.SHUT_WR)
        assert statuses(read_to_end(raw)) == [200, 200]


def test_gRPC_over_http1_is_told_to_use_http2(server):
    body = b"\0\0\0\0\0"
    request = (b"POST /etcdserverpb.KV/Range HTTP/1.1\r\n" + HOST + b"Content-Type: application/grpc\r\n"
               b"Connection: close\r\nContent-Length: 5\r\n\r\n" + body)  # fmt: skip
    assert refused(server, request) == 505
