"""One client asks with few bytes for answers that are large: keys of a lease, the value of a leader, a role, pages; see
test_one_client.py."""
import contextlib
import selectors
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import attacked, check_memory_returns, connect, reading, send_all

from harness import KIND_LEASED, Server, hpack
from harness.acceptance import either
from harness.http2_frames import (
    FLAG_END_HEADERS, FLAG_END_STREAM, PREFACE, call, headers, settings, window_update,
)  # fmt: skip
from harness.rpc import Rpc

CLOSED = PREFACE + settings(initial_window_size=0)
# As much as a lease may have.
KEYS, KEY_SIZE = either((255, 100_000), (33, 1_000_000))
CONNECTIONS = either(20, 200)
PAGE_READERS = either(100, 1_000)
PAGE_SECONDS = either(0.5, 4)
PAGE = b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"
WINDOW_MAX = 2**31 - 1


@pytest.fixture(scope="module", name="server")
def a_server():
    with Server(KIND_LEASED) as server:
        yield server


def ask(server, path, request, each=4):
    """Connections that take nothing ask for it."""
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(connect(server, CLOSED))
            reading(connection)
            send_all(connection, b"".join(call(1 + 2 * n, path, request) for n in range(each)))
        time.sleep(either(0.5, 4))


def test_long_keys_of_a_lease(server):
    with Rpc(server) as rpc:
        lease = rpc.grant(600).ID
        for number in range(KEYS):
            rpc.put(b"%d" % number + b"x" * KEY_SIZE, b"", lease=lease)
    before = server.rss_bytes()
    request = etcdrpc.LeaseTimeToLiveRequest(ID=lease, keys=True).SerializeToString()
    with attacked(server, "long keys of a lease"):
        ask(server, b"/etcdserverpb.Lease/LeaseTimeToLive", request)
    check_memory_returns(server, before)


def test_a_large_value_of_a_leader(server):
    with Rpc(server) as rpc:
        lease = rpc.grant(600).ID
        rpc.put(b"election/%x" % lease, bytes(1_400_000), lease=lease)
    before = server.rss_bytes()
    with attacked(server, "a large value of a leader"):
        ask(server, b"/v3electionpb.Election/Leader", b"\x0a\x08election")
    check_memory_returns(server, before)


def ask_for_pages(opened, first, again):
    """Each sends `first`, and `again` whenever it has read about as much as one page is."""
    selector = selectors.DefaultSelector()
    for each in opened:
        send_all(each, first)
        each.socket.setblocking(False)
        selector.register(each.socket, selectors.EVENT_READ)
    end = time.monotonic() + PAGE_SECONDS
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            with contextlib.suppress(OSError):
                if not key.fileobj.recv(128 * 1024):
                    selector.unregister(key.fileobj)
                elif again:
                    key.fileobj.send(again)


def test_pages_by_many_connections_at_once(server):
    before = server.rss_bytes()
    with attacked(server, "pages by many connections at once"):
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(server, b"")) for _ in range(PAGE_READERS)]
            for _ in range(either(3, 20)):
                for each in opened:
                    send_all(each, PAGE)
            time.sleep(PAGE_SECONDS)
    check_memory_returns(server, before)


def test_pages_that_many_connections_read(server):
    before = server.rss_bytes()
    with attacked(server, "pages that many connections read"):
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(server, b"")) for _ in range(PAGE_READERS)]
            ask_for_pages(opened, PAGE * 8, PAGE)
    check_memory_returns(server, before)


@pytest.mark.parametrize("are_read", [False, True], ids=["unread", "read"])
def test_pages_over_http2(server, are_read):
    before = server.rss_bytes()
    hello = PREFACE + settings(initial_window_size=WINDOW_MAX) + window_update(0, WINDOW_MAX - 65535)
    fields = {b":method": b"GET", b":scheme": b"http", b":path": b"/metrics", b":authority": b"a"}
    block = b"".join(hpack.literal(name, value) for name, value in fields.items())
    first = b"".join(
        headers(number, block, FLAG_END_HEADERS | FLAG_END_STREAM) for number in range(1, 41, 2)
    )
    with attacked(server, f"pages over HTTP/2, {'read' if are_read else 'unread'}"):
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(server, hello)) for _ in range(PAGE_READERS)]
            if are_read:
                ask_for_pages(opened, first, b"")
            else:
                for each in opened:
                    send_all(each, first)
                time.sleep(PAGE_SECONDS)
    check_memory_returns(server, before)
