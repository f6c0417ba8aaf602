"""One list of odd requests, asked of etcd and of leased: the answers are the same.

Debian's etcd may be 3.4. What only 3.5 answers as leased does is compared with what etcd 3.5 answered
when RECORDED was written, and with etcd itself where it is 3.5: that of `tools/bench` in build/bench, or
one named in ETCD. LEASED_RECORD=1 writes RECORDED anew. What differs on purpose is in docs/doors/etcd.md.
"""
import json
import os
import pathlib

import pytest
from same_answers import keys, leases, maintenance, transactions, watches  # noqa: F401
from same_answers.case import CASES, Talk

from harness import KIND_ETCD, KIND_LEASED, Server, kinds
from harness.kinds import PROJECT_ROOT
from harness.rpc import Rpc

ETCD_35 = PROJECT_ROOT / "build" / "bench" / "peers" / "etcd-3.5" / "usr" / "bin" / "etcd"
RECORDED = pathlib.Path(__file__).with_name("same_answers") / "etcd-3.5.json"

# Run on servers that have seen nothing yet.
FIRST_CASES = ("compaction_of_nothing",)


def version_of(server):
    text = json.loads(server.http_get("/version")[1])["etcdserver"]
    return tuple(int(part) for part in text.split(".")[:2])


@pytest.fixture(scope="module")
def pair():
    if set(kinds()) != {KIND_ETCD, KIND_LEASED}:
        pytest.skip("compares both servers")
    etcd = Server(KIND_ETCD)
    if "ETCD" not in os.environ and os.access(ETCD_35, os.X_OK):
        etcd.binary = str(ETCD_35)
    with etcd, Server(KIND_LEASED) as leased:
        yield etcd, leased


def answers(server, case):
    with Rpc(server) as rpc:
        talk = Talk(rpc, case.__name__)
        case(talk)
        return talk.lines


def cases():
    return sorted(CASES, key=lambda case: case.__name__ not in FIRST_CASES)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.__name__)
def test_same(pair, case):
    etcd, leased = pair
    recorded = json.loads(RECORDED.read_text())
    expected = recorded.get(case.__name__)
    if version_of(etcd) >= case.since:
        expected = answers(etcd, case)
        if case.since > (3, 4) and os.environ.get("LEASED_RECORD"):
            recorded[case.__name__] = expected
            RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        assert recorded.get(case.__name__, expected) == expected
    assert answers(leased, case) == expected


def test_ids_are_derived_as_in_etcd():
    """The same peer URLs and the same token make the same ids, one after the other."""
    ids = []
    etcd = Server(KIND_ETCD)
    leased = Server(KIND_LEASED)
    leased.peer_port = etcd.peer_port
    for server in (etcd, leased):
        with server, Rpc(server) as rpc:
            header = rpc.put(b"k").header
            ids.append((f"{header.cluster_id:x}", f"{header.member_id:x}"))
    assert ids[0] == ids[1]
