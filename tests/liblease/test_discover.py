"""Discovery: keys that are attached to leases, in a cache that is watched and knows its age."""
import queue
import subprocess

import pytest
from etcd3 import etcdrpc

import lease
from harness import KIND_LEASED, Server, wait_for
from harness.acceptance import either
from harness.cluster import Cluster
from harness.kinds import lease_tool
from harness.network import Network
from harness.rpc import Rpc

SECONDS = 60.0
AGE_SECONDS = either(2.0, 10.0)


@pytest.fixture
def rpc(any_server):
    with Rpc(any_server) as opened:
        yield opened


def put(rpc, key, value, lease_id=0):
    return rpc.kv.Put(etcdrpc.PutRequest(key=key, value=value, lease=lease_id)).header.revision


def values(directory):
    return {key: entry.value for key, entry in directory.entries().items()}


def test_entries_come_change_and_go(any_server, rpc):
    put(rpc, b"/web/1", b"10.0.0.1:80")
    put(rpc, b"/wec", b"not under the prefix")
    told = queue.Queue()
    with lease.Client(any_server.endpoint) as client:
        with client.discover("/web/", lambda directory, error: told.put(error)) as directory:
            directory.wait(SECONDS)
            assert values(directory) == {b"/web/1": b"10.0.0.1:80"}
            assert told.get(timeout=SECONDS) is None
            put(rpc, b"/web/2", b"")
            revision = put(rpc, b"/web/1", b"with\0a NUL")
            wait_for(lambda: values(directory) == {b"/web/1": b"with\0a NUL", b"/web/2": b""}, SECONDS, "both")
            assert directory.entries()[b"/web/1"].revision == revision
            assert told.get(timeout=SECONDS) is None
            rpc.kv.DeleteRange(etcdrpc.DeleteRangeRequest(key=b"/web/1", range_end=b"/web/2"))
            wait_for(lambda: list(directory.entries()) == [b"/web/2"], SECONDS, "one of them goes")
            rpc.kv.DeleteRange(etcdrpc.DeleteRangeRequest(key=b"/web/", range_end=b"/web0"))
            wait_for(lambda: not directory.entries(), SECONDS, "the other")


def test_a_service_that_does_not_renew_goes(any_server):
    grant = [lease_tool(), "--endpoint", any_server.endpoint, "grant", "2s", "--key", "/dies/1", "--value", "here"]
    with lease.Client(any_server.endpoint) as client, client.discover("/dies/") as directory:
        directory.wait(SECONDS)
        subprocess.run(grant, check=True, timeout=SECONDS, capture_output=True)
        wait_for(lambda: b"/dies/1" in directory.entries(), SECONDS, "it is there")
        assert directory.entries()[b"/dies/1"].lease_id != 0
        wait_for(lambda: not directory.entries(), SECONDS, "it is gone")


def test_all_keys_and_none(any_server, rpc):
    put(rpc, b"a-first", b"1")
    with lease.Client(any_server.endpoint) as client:
        with client.discover("") as everything, client.discover("/nothing/") as nothing:
            everything.wait(SECONDS)
            nothing.wait(SECONDS)
            assert everything.entries()[b"a-first"].value == b"1"
            assert nothing.entries() == {} and nothing.age >= 0


def test_its_age_grows_while_no_server_answers():
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client, Rpc(server) as rpc:
        put(rpc, b"/web/1", b"x")
        with client.discover("/web/") as directory:
            directory.wait(SECONDS)
            wait_for(lambda: directory.age < 1.5, SECONDS, "it is asked every second")
            server.pause()
            try:
                wait_for(lambda: directory.age > AGE_SECONDS, SECONDS, "nobody says that it is current")
                assert values(directory) == {b"/web/1": b"x"}, "what is known stays"
            finally:
                server.resume()
            wait_for(lambda: directory.age < 1.5, SECONDS, "current again")


def test_a_server_that_has_forgotten_history_is_read_again():
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client, Rpc(server) as rpc:
        put(rpc, b"/web/1", b"x")
        with client.discover("/web/") as directory:
            directory.wait(SECONDS)
            server.kill()
            server.restart()
            with Rpc(server) as again:
                put(again, b"/web/1", b"y")
                last = put(again, b"/web/2", b"z")
                again.kv.Compact(etcdrpc.CompactionRequest(revision=last))
            wait_for(lambda: values(directory) == {b"/web/1": b"y", b"/web/2": b"z"}, SECONDS, "all of it")


def test_a_member_that_is_cut_off_does_not_call_its_entries_current():
    """Its watch goes on and tells nothing, as if nothing had happened."""
    with Network(3) as network, Cluster(network=network) as cluster:
        lonely = cluster.followers()[0]
        others = [index for index in range(3) if index != lonely]
        put(cluster.rpc(others[0]), b"/web/1", b"old")
        with lease.Client(cluster[lonely].endpoint) as client, client.discover("/web/") as directory:
            directory.wait(SECONDS)
            network.cut(lonely, *others)
            wait_for(lambda: directory.age > AGE_SECONDS, SECONDS, "nobody says that it is current")
            assert values(directory) == {b"/web/1": b"old"}
            network.heal()
            put(cluster.rpc(others[0]), b"/web/1", b"new")
            wait_for(lambda: values(directory) == {b"/web/1": b"new"} and directory.age < 5, SECONDS, "current again")


def test_a_prefix_that_is_too_long_is_refused(any_server):
    with lease.Client(any_server.endpoint) as client:
        with pytest.raises(lease.Error) as caught:
            client.discover("x" * 2000)
        assert caught.value.status == lease.Status.INVALID
