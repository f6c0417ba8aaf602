"""Data moves from etcd to leased and back, with its revisions, history, leases and users.

In acceptance mode (`tools/accept etcd-data`) with etcd 3.5, 100,000 keys and 10,000 leases.
"""
import os

import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_ETCD, KIND_LEASED, Server, backup
from harness.acceptance import either, report
from harness.auth import add_user, auth, enable, permission
from harness.cluster import LEADER_SECONDS, Cluster
from harness.rpc import CALL_SECONDS, Rpc
from harness.wait import wait_for

KEYS = either(1_000, 100_000)
LEASES = either(100, 10_000)
OPS_PER_TXN = 100
UNDER_WAY_MAX = 200
FILL_SECONDS = either(60, 600)
QUICK_HASHES = ("--bcrypt-cost", "4")


def call_all(method, requests):
    """Some at a time: etcd refuses more than 5,000."""
    answers = []
    for start in range(0, len(requests), UNDER_WAY_MAX):
        calls = [method.future(each, timeout=FILL_SECONDS) for each in requests[start : start + UNDER_WAY_MAX]]
        answers += [call.result() for call in calls]
    return answers


def put_all(rpc, value, leases=()):
    """Every key, in transactions; with one of the leases if there are some."""
    requests = []
    for start in range(0, KEYS, OPS_PER_TXN):
        txn = etcdrpc.TxnRequest()
        for i in range(start, min(start + OPS_PER_TXN, KEYS)):
            put = txn.success.add().request_put
            put.key, put.value = b"key/%08d" % i, b"%s %d" % (value, i)
            put.lease = leases[i % len(leases)] if leases and i % 3 == 0 else 0
        requests.append(txn)
    call_all(rpc.kv.Txn, requests)


def fill(server):
    """Answers three revisions to look at, and some leases."""
    with Rpc(server) as rpc:
        grants = [etcdrpc.LeaseGrantRequest(TTL=3600, ID=1000 + i) for i in range(LEASES)]
        leases = [answer.ID for answer in call_all(rpc.lease.LeaseGrant, grants)]
        put_all(rpc, b"first", leases)
        rpc.put(b"large", b"x" * 100_000)
        rpc.delete(b"key/00000000", b"key/00000050")
        compacted = rpc.put(b"again", b"1").header.revision
        put_all(rpc, b"second")
        rpc.kv.Compact(etcdrpc.CompactionRequest(revision=compacted, physical=True), timeout=FILL_SECONDS)
        rpc.delete(b"key/00000100", b"key/00000150")
        middle = rpc.put(b"again", b"2", lease=leases[0]).header.revision
        rpc.put(b"key/00000120", b"back")
        last = rpc.delete(b"key/00000160").header.revision
        add_user(rpc, "alice", "secret", [permission(b"key/", b"key0")])
        enable(rpc)
    return [compacted + 1, middle, last], [leases[0], leases[1], leases[-1]]


@pytest.fixture(scope="module", name="origin")
def fixture_origin(tmp_path_factory):
    """An etcd that was filled, saved and stopped."""
    path = tmp_path_factory.mktemp("origin") / "etcd.db"
    with Server(KIND_ETCD, extra_flags=QUICK_HASHES) as etcd:
        what = (*fill(etcd), ["root", "alice"], ["root", "alice"])
        held = backup.contents(etcd, *what)
        backup.save(etcd, path)
    return path, what, held


def may_log_in(server, name, password):
    with Rpc(server) as rpc:
        request = etcdrpc.AuthenticateRequest(name=name, password=password)
        try:
            auth(rpc, "Authenticate", request)
            return True
        except grpc.RpcError:
            return False


def test_from_etcd_to_leased_and_back(origin, tmp_path):
    path, what, held = origin
    leased = Server(KIND_LEASED)
    backup.restore(leased, path)
    with leased:
        assert backup.contents(leased, *what) == held
        assert may_log_in(leased, "alice", "secret")
        assert not may_log_in(leased, "alice", "wrong")
        saved = backup.save(leased, tmp_path / "leased.db")
    assert backup.status(saved)["revision"] == what[0][-1]
    etcd = Server(KIND_ETCD, extra_flags=QUICK_HASHES)
    backup.restore(etcd, saved)
    with etcd:
        assert backup.contents(etcd, *what) == held
        assert may_log_in(etcd, "alice", "secret")
        # etcd goes on with it, and what it then saves is taken again.
        backup.ctl(etcd, "put", "later", "1")
        again = backup.save(etcd, tmp_path / "again.db")
    back = Server(KIND_LEASED)
    backup.restore(back, again)
    with back:
        assert "later" in backup.ctl(back, "get", "later")
    report("data both ways", keys=KEYS, leases=LEASES, file_bytes=os.path.getsize(path))


def test_three_members_from_one_file(origin):
    path, what, held = origin
    cluster = Cluster(3)
    for server in cluster.servers:
        backup.restore(server, path)
    with cluster:
        for server in cluster.servers:
            assert backup.contents(server, *what) == held
        # They are one cluster: what one takes the others have, and two of them go on.
        backup.ctl(cluster[0], "put", "key/new", "1")
        cluster.kill(0)
        wait_for(lambda: may_log_in(cluster[1], "alice", "secret"), LEADER_SECONDS, "two members go on")
        assert "key/new" in backup.ctl(cluster[1], "get", "key/new")
        backup.ctl(cluster[2], "put", "key/new", "2")


def test_a_raised_revision_is_compacted_as_by_etcdutl(origin):
    path, what, _ = origin
    leased = Server(KIND_LEASED)
    backup.restore(leased, path, "--bump-revision", "1000", "--mark-compacted")
    with leased:
        answer = backup.without_ids(backup.ctl(leased, "get", "again", "-w", "json"))
        assert answer["header"]["revision"] == what[0][-1] + 1000
        with Rpc(leased) as rpc, pytest.raises(grpc.RpcError, match="compacted"):
            token = auth_token(rpc)
            request = etcdrpc.RangeRequest(key=b"again", revision=what[0][-1])
            rpc.kv.Range(request, metadata=[("token", token)], timeout=CALL_SECONDS)
        backup.ctl(leased, "put", "again", "3")


def auth_token(rpc):
    request = etcdrpc.AuthenticateRequest(name="root", password="root's")
    return etcdrpc.AuthenticateResponse.FromString(auth(rpc, "Authenticate", request)).token
