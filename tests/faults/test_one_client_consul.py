"""One client of the Consul API does its worst with few and small requests: see test_one_client.py."""
import pytest
from hostile_client import MIB, attacked, check_memory_returns

from harness.consul import Consul, leased_with_consul

OPS_MAX = 128
N_LARGE = 20
LARGE_SIZE = 500 * 1024


@pytest.fixture(scope="module", name="server")
def a_server():
    with leased_with_consul() as server:
        with Consul(server.consul_port) as consul:
            for number in range(N_LARGE):
                assert consul.put(f"kv/large/{number}", b"x" * LARGE_SIZE).status == 200
        yield server


def txn(consul, *ops):
    return consul.put("txn", [{"KV": op} for op in ops])


def test_a_tree_that_one_transaction_reads_many_times(server):
    """The answer is refused for its size before it has been gathered."""
    before = server.rss_bytes()
    tree = {"Verb": "get-tree", "Key": "large/"}
    with attacked(server, "consul: one tree, many times", growth_max=64 * MIB):
        with Consul(server.consul_port) as consul:
            for _ in range(3):
                assert txn(consul, *[tree] * OPS_MAX).status == 413
            # What fails is said all the same.
            answer = txn(consul, *[tree] * 10, {"Verb": "get", "Key": "missing"})
            assert answer.status == 409
            assert [error["OpIndex"] for error in answer.json["Errors"]] == [10]
    check_memory_returns(server, before)
