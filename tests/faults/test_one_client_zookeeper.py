"""One client of the ZooKeeper API does its worst with one small request: see test_one_client.py."""
import pytest
from hostile_client import MIB, attacked, check_memory_returns

from harness import jute, zookeeper
from harness.zookeeper_client import Client

OPERATIONS_MAX = 2000
LARGE = b"x" * 1_000_000


@pytest.fixture(name="server")
def a_server():
    with zookeeper.leased() as server:
        yield server


def read(client, op, path, count):
    client.post(jute.MULTI_READ, jute.multi([(op, jute.watched(path))] * count))
    return client.receive()


def test_one_node_that_is_read_many_times(server):
    with Client(server.address) as client:
        client.connect()
        client.create("/large", LARGE)
        before = server.rss_bytes()
        with attacked(server, "zookeeper: one node, many times in one request", growth_max=64 * MIB):
            for _ in range(2):
                assert read(client, jute.GET_DATA, "/large", OPERATIONS_MAX).error == -8
        # As much as clients take at once, and more.
        answer = read(client, jute.GET_DATA, "/large", 3)
        assert answer.error == 0 and len(answer.body.rest()) > 3 * len(LARGE)
        assert read(client, jute.GET_CHILDREN, "/", OPERATIONS_MAX).error == 0
    check_memory_returns(server, before)
