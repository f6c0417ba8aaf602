"""One client asks with few bytes for answers that are large: keys of a lease, the value of a leader, a role, pages; see
test_one_client.py."""
import contextlib
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import attacked, check_memory_returns, connect, reading, send_all

from harness import KIND_LEASED, Server
from harness.acceptance import either
from harness.http2_frames import PREFACE, call, settings
from harness.rpc import Rpc

CLOSED = PREFACE + settings(initial_window_size=0)
KEYS = 255
KEY_SIZE = either(100_000, 1_000_000)
CONNECTIONS = either(20, 200)


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


def test_pages_by_many_connections_at_once(server):
    before = server.rss_bytes()
    with attacked(server, "pages by many connections at once"):
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(server, b"")) for _ in range(either(100, 1_000))]
            for _ in range(either(3, 20)):
                for each in opened:
                    send_all(each, b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n")
            time.sleep(either(0.5, 4))
    check_memory_returns(server, before)
