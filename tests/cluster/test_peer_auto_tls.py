"""Members with certificates of their own making: encrypted, and proven by the shared secret alone."""
import os
import ssl
import stat
import time

import pytest
from clients import Load

from harness import auth, wait_for
from harness import peer_protocol as peers
from harness.cluster import Cluster

SECRET = b"a secret that all members share"
UNPROVEN = "members need not prove who they are"


@pytest.fixture(name="secret_file")
def a_secret_file(tmp_path):
    path = tmp_path / "peer-secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return str(path)


def auto_cluster(*flags, size=3):
    cluster = Cluster(size=size)
    for server in cluster.servers:
        server.use_peer_tls(["--peer-auto-tls", *flags])
    members = ",".join(f"{server.name}={server.peer_url}" for server in cluster.servers)
    for server in cluster.servers:
        server.initial_cluster = members
    return cluster


def connect_with_tls(server):
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    return context.wrap_socket(peers.connect(server))


def test_members_serve_and_fail_over(secret_file):
    with auto_cluster("--peer-secret-file", secret_file) as cluster:
        with Load(cluster) as load:
            wait_for(lambda: len(load.acknowledged()) > 50, 20, "writes")
            killed = time.monotonic()
            leader = cluster.leader()
            cluster.kill(leader)
            load.next_acknowledged(killed + 0.05, 10)
            cluster.restart(leader)
        load.check_kept(cluster.rpc(0))
        cluster.wait_equal()
        for server in cluster.servers:
            folder = os.path.join(server.data_dir, "fixtures", "peer")
            assert stat.S_IMODE(os.stat(os.path.join(folder, "key.pem")).st_mode) == 0o600
            with connect_with_tls(server) as stranger:
                assert stranger.version() == "TLSv1.3"


def test_the_certificate_is_kept_over_a_restart():
    with auto_cluster(size=1) as cluster:
        (server,) = cluster.servers
        path = os.path.join(server.data_dir, "fixtures", "peer", "cert.pem")
        with open(path, "rb") as file:
            before = file.read()
        server.restart()
        with open(path, "rb") as file:
            assert file.read() == before


def test_versions_and_suites_are_those_of_the_flags():
    flags = ["--tls-max-version", "TLS1.2", "--cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    with auto_cluster(*flags) as cluster:
        cluster.rpc(cluster.leader()).put(b"/key", b"value")
        with connect_with_tls(cluster[0]) as stranger:
            assert stranger.cipher()[:2] == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2")


def test_a_proof_that_does_not_cover_the_connection_is_refused(secret_file):
    """One in the middle could pass on a proof that both sides would believe in plain text."""
    with auto_cluster("--peer-secret-file", secret_file) as cluster:
        said = peers.hello(0, 0, 0, peers.TO_ASK)
        with connect_with_tls(cluster[0]) as stranger:
            stranger.sendall(said)
            challenge = stranger.recv(1 + peers.NONCE_SIZE)
            assert challenge[0] == peers.CHALLENGE
            stranger.sendall(peers.proof_of_caller(SECRET, said, challenge[1:]))
            assert stranger.recv(1)[0] == peers.NOT_PROVEN
        # Nor is anybody heard in plain text.
        with peers.connect(cluster[0]) as stranger:
            stranger.sendall(said)
            assert stranger.recv(1)[0] == 0x15  # a TLS alert


def test_certificates_of_their_own_prove_nothing_to_users():
    """With authentication on, each member warns that the others need no proof; again after a restart."""
    with auto_cluster() as cluster:
        rpc = cluster.rpc(cluster.leader())
        auth.enable(rpc)
        for server in cluster.servers:
            wait_for(lambda server=server: UNPROVEN in server.log_tail(100000), 20, "a warning")
        cluster.stop(0)
        n_warned = cluster[0].log_tail(100000).count(UNPROVEN)
        cluster.restart(0)
        wait_for(lambda: cluster[0].log_tail(100000).count(UNPROVEN) > n_warned, 20, "a warning at the start")
