"""Members that reach each other by Unix sockets, as etcd's own tests start them."""
import os
import shutil
import socket
import stat
import tempfile

import pytest
from clients import Load
from etcd3 import etcdrpc
from membership import ctl, members, new_server

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import Cluster

READY_SECONDS = 30


@pytest.fixture(name="folder")
def a_folder():
    # A path of pytest's may be longer than a socket's can be.
    path = tempfile.mkdtemp(prefix="peers-")
    yield path
    shutil.rmtree(path)


def unix_cluster(folder, scheme="unix", flags=(), size=3):
    cluster = Cluster(size=size, extra_flags=flags)
    for server in cluster.servers:
        server.peer_scheme, server.peer_path = scheme, f"{folder}/{server.name}:2380"
    names = ",".join(f"{server.name}={server.peer_url}" for server in cluster.servers)
    for server in cluster.servers:
        server.initial_cluster = names
    return cluster


def test_members_serve_fail_over_and_take_in_another(folder):
    with unix_cluster(folder) as cluster:
        with Load(cluster) as load:
            wait_for(lambda: len(load.acknowledged()) > 20, READY_SECONDS, "writes")
            leader = cluster.leader()
            cluster.kill(leader)  # leaves its socket behind
            assert stat.S_ISSOCK(os.stat(cluster[leader].peer_path).st_mode)
            cluster.restart(leader)
        joiner = new_server(cluster, "joiner")
        joiner.peer_scheme, joiner.peer_path = "unix", f"{folder}/joiner"
        joiner.initial_cluster = ",".join(f"{one.name}={one.peer_url}" for one in [*cluster.servers, joiner])
        # etcdctl 3.4 takes no such URL.
        request = etcdrpc.MemberAddRequest(peerURLs=[joiner.peer_url])
        cluster.rpc(cluster.leader()).cluster.MemberAdd(request, timeout=READY_SECONDS)
        cluster.restart(cluster.add(joiner))
        listed = members(joiner)
        assert listed["joiner"]["peerURLs"] == [f"unix://{folder}/joiner"]
        assert listed["n0"]["peerURLs"] == [f"unix://{folder}/n0:2380"]
        load.check_kept(cluster.rpc(3))
        cluster.wait_equal()
        for server in cluster.servers:
            assert stat.S_IMODE(os.stat(server.peer_path).st_mode) == 0o600
        cluster.forget(3)
        joiner.stop()
        assert sorted(os.listdir(folder)) == ["n0:2380", "n1:2380", "n2:2380"]  # it removed its own


def test_tls_and_the_secret_work_over_unix_sockets(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a secret that all members share")
    flags = ["--peer-auto-tls", "--peer-secret-file", str(secret)]
    with unix_cluster(folder, "unixs", flags) as cluster:
        ctl(cluster[0], "put", "k", "v")
        cluster.wait_equal()


def test_a_socket_that_another_process_serves_is_not_taken_over(folder):
    path = f"{folder}/served"
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(path)
        served.listen()
        server = Server(KIND_LEASED)
        server.peer_scheme, server.peer_path = "unix", path
        server.initial_cluster = f"node1={server.peer_url},other=unix://{folder}/other"
        try:
            server.launch()
            wait_for(lambda: server.process.exit_code() is not None, READY_SECONDS, "the end")
            assert server.process.exit_code() != 0
            assert f"cannot listen for peers on unix://{path}" in server.log_tail()
        finally:
            server.close()
        assert stat.S_ISSOCK(os.stat(path).st_mode)
