"""leased starts on a data directory that etcd's own tool has restored, and on no other directory of etcd's.

The tool is etcdctl 3.4; in acceptance mode (`tools/accept etcd-data`) etcdutl of etcd 3.5.
"""
import hashlib
import os
import pathlib

import pytest

from harness import KIND_ETCD, KIND_LEASED, Server, backup
from harness.auth import add_user, enable, permission
from harness.cluster import LEADER_SECONDS, Cluster
from harness.exit_codes import EXIT_CODES
from harness.rpc import Rpc
from harness.wait import wait_for

LOG = "member/wal/0000000000000000-0000000000000000.wal"
LOG_BYTES = 64 * 1024  # of it; the rest is zeros
LEASE = 1234


@pytest.fixture(scope="module", name="origin")
def fixture_origin(tmp_path_factory):
    """A backup of an etcd with keys, history, a lease and users; and what it held."""
    path = tmp_path_factory.mktemp("origin") / "etcd.db"
    with Server(KIND_ETCD, extra_flags=["--bcrypt-cost", "4"]) as etcd:
        with Rpc(etcd) as rpc:
            rpc.grant(3600, LEASE)
            for i in range(30):
                rpc.put(b"key %d" % (i % 7), b"%d" % i, lease=LEASE if i % 2 else 0)
            last = rpc.delete(b"key 3").header.revision
            add_user(rpc, "alice", "secret", [permission(b"key", b"kez")])
            enable(rpc)
        what = ([last - 9, last], [LEASE], ["root", "alice"], ["root", "alice"])
        held = backup.contents(etcd, *what)
        backup.save(etcd, path)
    return path, what, held


def restore_by(tool, server, path):
    done = backup.run([*backup.restore_tool(tool), path, *backup.restore_flags(server)])
    assert done.returncode == 0, done.stderr.decode()


def restore_by_etcd(server, path):
    restore_by(KIND_ETCD, server, path)


def digest(server):
    """Of all of etcd's files, by name; of the log, what is not zero."""
    folder = pathlib.Path(server.data_dir, "member")
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                content = file.read(LOG_BYTES) if path.suffix in (".wal", ".tmp") else file.read()
            found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def check_refused(server, *words):
    """It ends, says why, and leaves the directory as it was but for its own lock."""
    before = digest(server)
    server.launch()
    wait_for(lambda: server.process.exit_code() is not None, LEADER_SECONDS, "the end")
    assert server.process.exit_code() in (EXIT_CODES["USAGE"], EXIT_CODES["DATA_CORRUPT"])
    for word in (*words, "etcdctl snapshot save FILE", "leased restore FILE"):
        assert word in server.log_tail()
    assert digest(server) == before
    assert sorted(os.listdir(server.data_dir)) == ["lock", "member"]


def test_three_members_start_on_what_etcd_restored(origin):
    path, what, held = origin
    cluster = Cluster(3)
    for server in cluster.servers:
        restore_by_etcd(server, path)
    before = [digest(server) for server in cluster.servers]
    with cluster:
        for server in cluster.servers:
            assert backup.contents(server, *what) == held
        # They are one cluster, a change of its leader included, and a restart finds what was written.
        backup.ctl(cluster[0], "auth", "disable")
        leader = cluster.leader()
        cluster.rpc(leader).put(b"key new", b"1")
        cluster.kill(leader)
        cluster.leader()
        cluster.restart(leader)
        cluster.wait_equal()
        assert cluster.rpc(leader).range(b"key new").kvs[0].value == b"1"
        assert [digest(server) for server in cluster.servers] == before


@pytest.mark.parametrize("tool", [KIND_ETCD, KIND_LEASED])
def test_a_member_joins_what_was_restored(origin, tool):
    cluster = Cluster(1)
    restore_by(tool, cluster[0], origin[0])
    with cluster:
        backup.ctl(cluster[0], "auth", "disable")
        joiner = Server(KIND_LEASED, name="joiner")
        joiner.cluster_state = "existing"
        joiner.initial_cluster = f"{cluster[0].initial_cluster},joiner={joiner.peer_url}"
        backup.ctl(cluster[0], "member", "add", "joiner", f"--peer-urls={joiner.peer_url}")
        cluster.restart(cluster.add(joiner))
        assert cluster.rpc(1).range(b"key 6").kvs[0].value == b"27"
        cluster.wait_equal()


def test_an_interrupted_take_over_is_finished(origin):
    path, what, held = origin
    server = Server(KIND_LEASED)
    restore_by_etcd(server, path)
    # As a crash leaves it: files that were not finished, then finished ones whose owner is not written down yet.
    os.mkdir(os.path.join(server.data_dir, "raft.taking-over"))
    pathlib.Path(server.data_dir, "raft.taking-over", "meta.1").write_bytes(b"cut off")
    with server:
        assert not os.path.exists(os.path.join(server.data_dir, "raft.taking-over"))
        server.kill()
        os.unlink(os.path.join(server.data_dir, "identity"))
        server.start()
        assert backup.contents(server, *what) == held
        server.stop()
        # What was begun is not begun again.
        os.rename(os.path.join(server.data_dir, "raft"), os.path.join(server.data_dir, "elsewhere"))
        server.launch()
        wait_for(lambda: server.process.exit_code() is not None, LEADER_SECONDS, "the end")
        assert server.process.exit_code() == EXIT_CODES["DATA_CORRUPT"]
        assert "raft is missing" in server.log_tail()


def test_a_directory_on_which_etcd_has_run_is_refused(origin):
    etcd, leased = Server(KIND_ETCD, extra_flags=["--bcrypt-cost", "4"]), Server(KIND_LEASED)
    restore_by_etcd(etcd, origin[0])
    leased.data_dir = etcd.data_dir
    try:
        etcd.start()
        leased.launch()
        wait_for(lambda: leased.process.exit_code() is not None, LEADER_SECONDS, "the end")
        assert "etcd is running on it" in leased.log_tail()
        etcd.stop()
        check_refused(leased, "its log is not one that a restore has just written")
        etcd.start()
        backup.ctl(etcd, "put", "key", "etcd goes on")
    finally:
        leased.close()
        etcd.close()


def test_a_damaged_log_is_refused(origin):
    server = Server(KIND_LEASED)
    restore_by_etcd(server, origin[0])
    path = os.path.join(server.data_dir, LOG)
    try:
        with open(path, "r+b") as log:
            content = bytearray(log.read(LOG_BYTES))
            at = content.index(b"peerURLs")
            log.seek(at)
            log.write(b"PEERurls")
        check_refused(server, "its log is damaged: a checksum is wrong")
        with open(path, "r+b") as log:
            log.seek(at)
            log.write(b"peerURLs")
        with server:
            assert "key 6" in backup.ctl(server, "get", "key 6")
    finally:
        server.close()


def test_a_damaged_database_is_refused(origin):
    server = Server(KIND_LEASED)
    restore_by_etcd(server, origin[0])
    try:
        os.truncate(os.path.join(server.data_dir, "member", "snap", "db"), 100)
        check_refused(server, "member/snap/db")
    finally:
        server.close()
