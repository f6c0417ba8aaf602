"""One client of the Consul API does its worst with few and small requests: see test_one_client.py."""
import base64
import itertools

import pytest
from hostile_client import MIB, attacked, check_memory_returns

from harness.acceptance import either
from harness.consul import Consul, leased_with_consul

OPS_MAX = 128
N_LARGE = 20
LARGE_SIZE = 500 * 1024
N_MEETING = either(21_000, 60_000)


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


def names_that_meet(count):
    """Of which FNV-1a is the same modulo 256: its last eight bits depend on those of its input alone."""
    def rest(text):
        value = 0xC5
        for byte in text:
            value = (value ^ byte) * 0x93 & 0xFF
        return value

    names = (b"meet/%d" % number for number in itertools.count())
    return [name.decode() for name in itertools.islice((name for name in names if rest(name) == 0), count)]


def test_keys_whose_plain_hashes_are_equal(server):
    """A tree of as many keys as a transaction may look at, and of more."""
    names = names_that_meet(N_MEETING)
    value = base64.b64encode(b"v").decode()
    with Consul(server.consul_port) as consul:
        for first in range(0, len(names), OPS_MAX):
            answer = txn(consul, *[{"Verb": "set", "Key": name, "Value": value}
                                   for name in names[first: first + OPS_MAX]])  # fmt: skip
            assert answer.status == 200, answer.text
        with attacked(server, "consul: keys whose plain hashes are equal"):
            for _ in range(3):
                assert txn(consul, {"Verb": "get-tree", "Key": "meet/"}).status in (200, 413)
