"""A data directory of release 0.1.0 is taken over: everything is there, and stays there."""
import pytest
from harness.fixtures import unpack
from harness.kinds import KIND_LEASED
from harness.rpc import Rpc
from harness.server import Server

LEASES = {"legacy-log": 4711, "legacy-snapshot": 4712}


def assert_all_there(server, facts, lease_id):
    with Rpc(server) as rpc:
        answer = rpc.range(b"key-", b"key.")
        values = [(pair.key, pair.value) for pair in answer.kvs]
        n_puts = facts["keys"] - 1
        assert values == [
            (f"key-{n:04}".encode(), f"value-{n}-".encode().ljust(40, b"v"))
            for n in range(1, n_puts + 1)
        ]  # fmt: skip
        assert [pair.lease for pair in rpc.range(f"leased-{lease_id}".encode()).kvs] == [lease_id]
        assert rpc.leases() == [lease_id]
        return answer.header.revision


@pytest.mark.parametrize("name", sorted(LEASES))
def test_all_of_it_is_there_and_stays_there(name):
    server = Server(KIND_LEASED)
    facts = unpack(name, server.data_dir)
    with server:
        assert assert_all_there(server, facts, LEASES[name]) == facts["revision"]
        with Rpc(server) as rpc:
            rpc.put(b"new", b"of this release")
        for restart in (server.restart, lambda: (server.kill(), server.start())):
            restart()
            assert assert_all_there(server, facts, LEASES[name]) == facts["revision"] + 1
            with Rpc(server) as rpc:
                assert rpc.range(b"new").kvs[0].value == b"of this release"
