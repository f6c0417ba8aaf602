"""One client does its worst with connections, frames and messages; see test_one_client.py."""
import contextlib
import socket
import struct
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import (
    MIB, attacked, check_memory_returns, connect, fill_keys, reading, send_all,
)  # fmt: skip

from harness import KIND_LEASED, Server, hpack
from harness.acceptance import either, report
from harness.http2_frames import (
    DATA, FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PRIORITY, HEADERS, PREFACE, PRIORITY, call, frame,
    headers, message, rst_stream, settings, window_update,
)  # fmt: skip
from harness.rpc import Rpc

KEEP_ALIVE = b"/etcdserverpb.Lease/LeaseKeepAlive"
PUT = b"/etcdserverpb.KV/Put"
RANGE = b"/etcdserverpb.KV/Range"
WATCH = b"/etcdserverpb.Watch/Watch"
WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
CLOSED = PREFACE + settings(initial_window_size=0)
MANY = either(100, 1000)
LOOP_MS_MAX = 100


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


def get(stream, path):
    fields = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")]
    block = b"".join(hpack.literal(name, value) for name, value in fields)
    return frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, stream, block)


def test_chains_of_priorities(server):
    """Every stream depends on the one before it, and the first moves to and fro (RFC 7540, 5.3)."""
    length = either(5000, 15_000)
    opening, moving = [], []
    for number in range(length):
        stream = 1 + 2 * number
        block = struct.pack(">IB", max(0, stream - 2), 1) + hpack.grpc_request(WATCH)
        opening.append(frame(HEADERS, FLAG_END_HEADERS | FLAG_PRIORITY, stream, block))
    for number in range(20_000):
        stream = 1 + 2 * (number % (length - 1))
        moving.append(frame(PRIORITY, 0, stream, struct.pack(">IB", 0x80000000, number % 256)))
    with attacked(server, f"{length} streams, each depending on another"):
        with connect(server, WIDE_OPEN) as connection:
            reading(connection)
            send_all(connection, b"".join(opening))
            send_all(connection, b"".join(moving))
            time.sleep(1)


def test_settings_that_change_the_windows_of_many_streams(server):
    """Each costs the server a look at every open stream."""
    opening = b"".join(headers(1 + 2 * number, hpack.grpc_request(WATCH)) for number in range(8000))
    changing = (settings(initial_window_size=1) + settings(initial_window_size=2**20)) * 10_000
    with attacked(server, "windows of 8,000 streams changed 20,000 times"):
        for _ in range(3):
            with connect(server, WIDE_OPEN) as connection:
                reading(connection)
                send_all(connection, opening)
                send_all(connection, changing)
                time.sleep(0.5)


@pytest.mark.parametrize("path", [b"/metrics", b"/nowhere"])
def test_pages_that_nobody_takes(server, path):
    """Answers for which there is no window, on as many streams as may be."""
    before = server.rss_bytes()
    with attacked(server, f"{path.decode()} without a window"):
        with contextlib.ExitStack() as stack:
            for _ in range(either(6, 60)):
                connection = stack.enter_context(connect(server, CLOSED))
                reading(connection)
                send_all(connection, b"".join(get(1 + 2 * n, path) for n in range(8000)), 2)
            time.sleep(0.5)
    check_memory_returns(server, before)


def test_pages_over_http1_that_nobody_takes(server):
    before = server.rss_bytes()
    request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 3000
    with attacked(server, "/metrics over HTTP/1.1, not read"):
        with contextlib.ExitStack() as stack:
            for _ in range(either(40, 400)):
                connection = stack.enter_context(connect(server, b"", receive_buffer=4096))
                send_all(connection, request, 0.1)
            time.sleep(0.5)
    check_memory_returns(server, before)


def test_messages_that_are_never_finished(server):
    """Two megabytes were announced and all but one byte of it came, on many streams; another client's
    large put is taken all the same."""
    before = server.rss_bytes()
    size = 1_900_000
    start = message(b"", size=size)
    body = b"x" * 16_384
    with attacked(server, "unfinished messages"):
        with contextlib.ExitStack() as stack:
            for _ in range(either(20, 120)):
                connection = stack.enter_context(connect(server, WIDE_OPEN))
                reading(connection)
                for number in range(40):
                    stream = 1 + 2 * number
                    part = headers(stream, hpack.grpc_request(PUT)) + frame(DATA, 0, stream, start)
                    # No more than the window of a stream: the rest would wait for the server.
                    connection.send(part + frame(DATA, 0, stream, body) * 15)
            with Rpc(server) as rpc:
                for number in range(5):
                    rpc.put(b"/large", bytes([number]) * MIB)
    check_memory_returns(server, before)


def test_requests_of_many_headers_on_many_streams(server):
    """What the headers of open calls hold."""
    before = server.rss_bytes()
    extra = [(b"x-%d" % number, b"y" * 1000) for number in range(14)]
    block = hpack.grpc_request(WATCH, *extra)
    with attacked(server, "headers of 14 KB on every stream"):
        with contextlib.ExitStack() as stack:
            for _ in range(either(4, 16)):
                connection = stack.enter_context(connect(server, WIDE_OPEN))
                reading(connection)
                send_all(connection, b"".join(headers(1 + 2 * n, block) for n in range(8000)))
            time.sleep(0.5)
    check_memory_returns(server, before)


def test_streams_without_number(server):
    before = server.rss_bytes()
    opening = b"".join(headers(1 + 2 * number, hpack.grpc_request(WATCH)) for number in range(16_000))
    with attacked(server, "16,000 idle streams on each connection"):
        with contextlib.ExitStack() as stack:
            for _ in range(either(6, 60)):
                connection = stack.enter_context(connect(server, WIDE_OPEN))
                reading(connection)
                send_all(connection, opening)
            report("streams", open=int(server.metric("leased_calls")))
    check_memory_returns(server, before)


def test_a_flood_of_connections(server):
    """Opened and reset at once, as fast as this client can."""
    with attacked(server, "connections without number"):
        deadline = time.monotonic() + either(1.5, 6.0)
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((server.host, server.client_port), timeout=5)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
    # The loop's own share of what others wait, however busy the machine is.
    assert server.metric("leased_loop_cpu_milliseconds_max") <= LOOP_MS_MAX


# A thousand connections that all ask at once.


def at_once(server, name, data, seconds=either(1.5, 5.0), count=MANY):
    """Connections are opened first; then each gets its bytes, in turns, until the time is over."""
    with attacked(server, name):
        with contextlib.ExitStack() as stack:
            connections = []
            for _ in range(count):
                connection = connect(server, WIDE_OPEN)
                stack.enter_context(connection)
                connection.socket.setblocking(False)
                connections.append([connection.socket, memoryview(data)])
            deadline = time.monotonic() + seconds
            while connections and time.monotonic() < deadline:
                for one in list(connections):
                    try:
                        one[1] = one[1][one[0].send(one[1][:65536]):]
                        while one[0].recv(2**20):
                            pass
                    except BlockingIOError:
                        pass
                    except OSError:
                        connections.remove(one)
                        continue
                    if not one[1]:
                        connections.remove(one)
            time.sleep(1)


def test_many_connections_that_renew(server):
    with Rpc(server) as rpc:
        lease = rpc.grant(600).ID
    renewal = etcdrpc.LeaseKeepAliveRequest(ID=lease).SerializeToString()
    data = call(1, KEEP_ALIVE, renewal, flags=0) + frame(DATA, 0, 1, message(renewal) * 800) * 3
    at_once(server, f"{MANY} connections that renew", data)


def test_many_connections_that_put(server):
    request = etcdrpc.PutRequest(key=b"k", value=b"v" * 100).SerializeToString()
    data = b"".join(call(1 + 2 * number, PUT, request) for number in range(300))
    at_once(server, f"{MANY} connections that put", data)


def test_many_connections_that_read_much(server):
    fill_keys(server, 2000, b"v" * 100)
    request = etcdrpc.RangeRequest(key=b"/", range_end=b"0").SerializeToString()
    data = b"".join(call(1 + 2 * number, RANGE, request) for number in range(200))
    at_once(server, f"{MANY} connections that read much", data)


def test_many_connections_with_nonsense(server):
    data = b"".join(
        call(1 + 2 * number, b"/no.such/Method", b"") + rst_stream(1 + 2 * number)
        for number in range(400)
    )
    at_once(server, f"{MANY} connections with resets", data)


def test_large_puts_one_behind_the_other(server):
    """Everything that one client has under way lies before what another asks next."""
    request = etcdrpc.PutRequest(key=b"/large", value=b"v" * 1_400_000).SerializeToString()
    with attacked(server, "large puts", 1024 * MIB):
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(connect(server, WIDE_OPEN)) for _ in range(16)]
            for connection in connections:
                reading(connection)
            for number in range(either(3, 12)):
                for connection in connections:
                    stream = 1 + 2 * number
                    connection.send(headers(stream, hpack.grpc_request(PUT)))
                    body = message(request)
                    parts = [body[at: at + 16_384] for at in range(0, len(body), 16_384)]
                    send_all(connection, b"".join(frame(DATA, 0, stream, p) for p in parts))
                    connection.send(frame(DATA, FLAG_END_STREAM, stream))


def test_events_as_json_that_nobody_reads(server):
    """Of an answer that is taken in part, only the rest may be kept."""
    body = b'{"create_request":{"key":"AA==","range_end":"AA==","prev_kv":true}}'
    head = b"POST /v3/watch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    before = server.rss_bytes()
    with attacked(server, "events as JSON that nobody reads"):
        with contextlib.ExitStack() as stack:
            for _ in range(500):
                address = ("127.0.0.1", server.client_port)
                watcher = stack.enter_context(socket.create_connection(address, timeout=10))
                watcher.sendall(head + body)
                watcher.recv(1)
            with Rpc(server) as rpc:
                for _ in range(30):
                    rpc.put(b"/large", b"x" * 500_000)
    check_memory_returns(server, before)
