"""What clients of the ZooKeeper API ask for and do not take: see test_one_client.py."""
import contextlib
import time

import pytest
from hostile_client import MIB, attacked, check_memory_returns

from harness import jute, zookeeper
from harness.acceptance import either
from harness.zookeeper_client import Client

LONG = 60_000
LARGE = b"x" * 1_000_000
BAD_ARGUMENTS = -8
ANSWERING_SECONDS = either(0.7, 3.0)  # less than it takes until clients that take nothing are closed


@pytest.fixture(name="server")
def a_server():
    with zookeeper.leased() as server:
        yield server


def create_long_names(client, first, count, at_once=4):
    for number in range(first, first + count + at_once):
        if number < first + count:
            client.post(jute.CREATE, jute.create(f"/{number:06}-".ljust(LONG, "n")))
        if number >= first + at_once:
            assert client.receive().error == 0


def test_lists_of_long_names(server):
    """Each client asks for one after the other, and takes none. Who asks for little is answered, who asks for much
    does not wait until they have gone by themselves."""
    names = 500
    with Client(server.address) as client, contextlib.ExitStack() as stack:
        client.connect(40_000)
        create_long_names(client, 0, names)
        client.create("/large", LARGE)
        client.create("/small", b"y")
        clients = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(24)]
        before = server.rss_bytes()
        with attacked(server, "zookeeper: lists of long names", growth_max=256 * MIB):
            for each in clients:
                for _ in range(4):
                    each.post(jute.GET_CHILDREN, jute.watched("/"))
            time.sleep(ANSWERING_SECONDS)
            assert client.get("/small")[0] == b"y"
            client.socket.settimeout(either(20.0, 5.0))
            assert client.get("/large")[0] == LARGE
        stack.close()
        assert len(client.children("/")) == names + 3
        # More than one answer has.
        create_long_names(client, names, 100)
        assert client.ask(jute.GET_CHILDREN, jute.watched("/")).error == BAD_ARGUMENTS
    check_memory_returns(server, before)


@pytest.mark.parametrize("behind_a_change", [False, True], ids=["alone", "behind a change"])
def test_large_nodes_that_nobody_takes(server, behind_a_change):
    """By many connections. Behind a change that makes them large, reads cannot wait."""
    count = 40 if behind_a_change else either(200, 400)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(count)]
        for number, client in enumerate(clients):
            client.create(f"/{number}")
        clients[0].create("/large", LARGE)
        before = server.rss_bytes()
        with attacked(server, f"zookeeper: large nodes that nobody takes{', behind a change' * behind_a_change}",
                      growth_max=256 * MIB):  # fmt: skip
            for number, client in enumerate(clients):
                if behind_a_change:
                    client.post(jute.SET_DATA, jute.set_data(f"/{number}", LARGE))
                for _ in range(30 if behind_a_change else 4):
                    client.post(jute.GET_DATA, jute.watched(f"/{number}" if behind_a_change else "/large"))
                if behind_a_change:
                    client.post(jute.SET_DATA, jute.set_data(f"/{number}", b""))
            time.sleep(ANSWERING_SECONDS)
            other = stack.enter_context(Client(server.address)).connect(40_000)
            other.socket.settimeout(either(20.0, 5.0))
            assert other.get("/large")[0] == LARGE
    check_memory_returns(server, before)
