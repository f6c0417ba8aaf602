"""Members that speak TLS with each other, and those whose certificates are not right."""
import socket
import time

import pytest
from clients import Load
from etcd3 import etcdrpc
from test_catch_up import FLAGS, KEYS, WRITTEN_BYTES, revision_of, write_much

from harness import KIND_LEASED, Server, wait_for
from harness.acceptance import either, report
from harness.certificates import Authority
from harness.cluster import TIMING_FLAGS, Cluster

CATCH_UP_SECONDS_MAX = either(30.0, 10.0)


@pytest.fixture(name="authority")
def an_authority():
    with Authority() as made:
        yield made


def log_of(server):
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        return log.read()


def wait_for_line(server, *words, timeout_s=20):
    """The first line of a server's log with all these words in it."""

    def line():
        return next((one for one in log_of(server).splitlines() if all(w in one for w in words)), None)

    return wait_for(line, timeout_s, f"{words} in the log of {server.name}")


# All is well


def test_members_with_certificates_serve_and_fail_over(authority):
    with Cluster(authority=authority) as cluster:
        with Load(cluster) as load:
            for _ in range(2):
                leader = cluster.leader()
                wait_for(lambda: len(load.acknowledged()) > 50, 20, "writes")
                killed = time.monotonic()
                cluster.kill(leader)
                load.next_acknowledged(killed + 0.05, 10)
                cluster.restart(leader)
        load.check_kept(cluster.rpc(0))
        for holder in load.holders:
            holder.check_held(cluster.rpc(1))
        members = cluster.rpc(0).cluster.MemberList(etcdrpc.MemberListRequest()).members
        assert sorted(url for one in members for url in one.peerURLs) == sorted(
            server.peer_url for server in cluster.servers
        )
        assert all(server.peer_url.startswith("https://") for server in cluster.servers)
        cluster.wait_equal()


def test_a_member_that_was_away_catches_up_by_a_snapshot_over_tls(authority):
    with Cluster(extra_flags=FLAGS, authority=authority) as cluster:
        leader = cluster.leader()
        absent, other = [node for node in range(3) if node != leader]
        cluster.kill(absent)
        write_much(cluster.rpc(other))
        assert cluster[leader].metric("leased_raft_snapshots_total") > 0
        leader = cluster.leader()
        rss_before = cluster[leader].rss_bytes()
        begun = time.monotonic()
        cluster.restart(absent)
        revision = cluster.rpc(leader).revision()
        wait_for(lambda: revision_of(cluster, absent) >= revision, 60, "the absent node's return")
        seconds = time.monotonic() - begun
        assert cluster.rpc(absent).range(b"/big/", b"/big0", count_only=True).count == KEYS
        cluster.wait_equal()
        # The snapshot itself may be in memory twice for a moment, and entries beside it, but not tenfold.
        assert cluster[leader].rss_bytes() < rss_before + 5 * WRITTEN_BYTES
        report("catching up over TLS", megabytes=WRITTEN_BYTES >> 20, seconds=round(seconds, 2),
               leader_rss_mb=cluster[leader].rss_bytes() >> 20)  # fmt: skip
    assert seconds < CATCH_UP_SECONDS_MAX


def test_members_may_have_names(authority):
    cluster = Cluster()
    for server in cluster.servers:
        server.peer_host = "localhost"
        server.use_peer_tls(authority.flags(server.name, alternative_names="DNS:localhost"))
    members = ",".join(f"{server.name}={server.peer_url}" for server in cluster.servers)
    for server in cluster.servers:
        server.initial_cluster = members
    with cluster:
        cluster.rpc(cluster.leader()).put(b"/key", b"value")
        cluster.wait_equal()


def test_a_stop_is_not_held_up(authority):
    with Cluster(authority=authority) as cluster:
        leader = cluster.leader()
        # One that neither reads nor goes away.
        cluster.pause((leader + 1) % 3)
        begun = time.monotonic()
        assert cluster.stop(leader) == 0
        assert time.monotonic() - begun < 8
        cluster.resume((leader + 1) % 3)
        cluster.leader()


# All is not well


def stranger_in_place_of(cluster, victim, flags, scheme="https"):
    """Everything is that of the member but what is said here."""
    stranger = Server(KIND_LEASED, name=cluster[victim].name, extra_flags=TIMING_FLAGS)
    stranger.client_port = cluster[victim].client_port
    stranger.peer_port = cluster[victim].peer_port
    stranger.peer_scheme = scheme
    if scheme == cluster[victim].peer_scheme:
        # Without it a member that may ask the others is told that it lost its data.
        stranger.data_dir = cluster[victim].data_dir
    stranger.initial_cluster = cluster[victim].initial_cluster.replace(
        cluster[victim].peer_scheme + "://", scheme + "://"
    )
    stranger.extra_flags += flags
    return stranger


def check_refused(cluster, flags, of_stranger, of_member, scheme="https", before=None):
    """A stranger takes the place of a member: both say why that does not work, and all else goes on.
    `before` is called when the member is gone and the stranger is not there yet."""
    leader = cluster.leader()
    victim = (leader + 1) % 3
    cluster.rpc(leader).put(b"/key", b"value")
    term = cluster.status(leader).raftTerm
    cluster.kill(victim)
    if before is not None:
        before([node for node in range(3) if node != victim])
    stranger = stranger_in_place_of(cluster, victim, flags, scheme)
    try:
        stranger.launch()
        print(wait_for_line(stranger, "peer", of_stranger))
        print(wait_for_line(cluster[leader], "peer", of_member))
        lines = len(log_of(cluster[leader]).splitlines())
        time.sleep(1.0)
        assert not stranger.is_healthy()
        assert stranger.is_running(), stranger.log_tail()
        # It comes ten times a second; a line for each would fill the disk.
        assert len(log_of(cluster[leader]).splitlines()) < lines + 5
        status = cluster.status(leader)
        assert (status.raftTerm, status.leader) == (term, status.header.member_id)
        cluster.rpc(leader).put(b"/key", b"more")
    finally:
        stranger.close()
    cluster.restart(victim)
    assert cluster.rpc(victim).range(b"/key").kvs[0].value == b"more"
    cluster.wait_equal()


def test_a_certificate_of_another_authority_is_refused(authority):
    with Authority() as other, Cluster(authority=authority) as cluster:
        check_refused(
            cluster, other.flags("stranger", trusted=authority),
            "the peer does not know the authority that signed our certificate",
            "the peer's certificate is signed by an unknown authority",
        )  # fmt: skip


def test_an_expired_certificate_is_refused(authority):
    with Cluster(authority=authority) as cluster:
        check_refused(
            cluster, authority.flags("stranger", days=-1),
            "the peer says that our certificate has expired",
            "the peer's certificate has expired",
        )  # fmt: skip


def test_a_certificate_for_another_host_is_refused(authority):
    with Cluster(authority=authority) as cluster:
        check_refused(
            cluster, authority.flags("stranger", alternative_names="IP:127.0.0.2,DNS:localhost"),
            "the peer refuses our certificate",
            "the peer's certificate is not for the host that was dialled",
        )  # fmt: skip


def test_a_member_without_tls_is_refused(authority):
    with Cluster(authority=authority) as cluster:
        check_refused(
            cluster, [], "the peer speaks TLS, and this node does not",
            "the peer does not speak TLS, and this node does", scheme="http",
        )  # fmt: skip


def test_a_member_with_tls_is_refused_where_nobody_else_has_it(authority):
    with Cluster() as cluster:
        check_refused(
            cluster, authority.flags("stranger"),
            "the peer hung up before TLS was agreed on; does it speak TLS?",
            "it speaks TLS, and this node does not",
        )  # fmt: skip


def test_a_certificate_that_is_revoked_while_members_run_is_refused(authority):
    revoked = ["--peer-crl-file", authority.revoke()]
    flags = authority.flags("stranger")
    with Cluster(extra_flags=revoked, authority=authority) as cluster:

        def revoke(members):
            authority.revoke(flags[1])
            for member in members:
                wait_for_line(cluster[member], "certificates reloaded")

        check_refused(
            cluster, flags + revoked, "the peer says that our certificate was revoked",
            "the peer's certificate was revoked", before=revoke,
        )  # fmt: skip


def test_a_new_certificate_is_used_without_a_restart(authority):
    with Cluster(authority=authority) as cluster:
        leader = cluster.leader()
        node = (leader + 1) % 3
        name = cluster[node].name
        cluster.kill(node)
        authority.sign(name, days=-1)
        cluster.launch(node)
        wait_for_line(cluster[node], "own certificate is not valid today")
        wait_for_line(cluster[leader], "the peer's certificate has expired")
        assert not cluster[node].is_healthy()
        authority.sign(name)
        cluster[node].wait_ready()
        wait_for_line(cluster[node], "certificates reloaded")
        cluster.wait_equal()


def test_strangers_on_a_tls_port_disturb_nobody(authority):
    """Silent ones, those who begin and stop, and those who send rubbish."""
    beginnings = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00", b"\x16\x03\x01\xff\xff" + b"r" * 70000,
                  b"leasedpr", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000)  # fmt: skip
    with Cluster(authority=authority) as cluster:
        leader = cluster.leader()
        term = cluster.status(leader).raftTerm
        with Load(cluster) as load:
            strangers = []
            for number in range(40 * len(beginnings)):
                one = socket.create_connection(("127.0.0.1", cluster[number % 3].peer_port), 5)
                one.setblocking(False)
                strangers.append(one)
                try:
                    one.send(beginnings[number % len(beginnings)])
                except OSError:
                    pass  # it hung up on us, as it should
            before = len(load.acknowledged())
            wait_for(lambda: len(load.acknowledged()) > before + 50, 20, "writes")
            for one in strangers:
                one.close()
        assert load.failures() == 0
        assert cluster.leader() == leader and cluster.status(leader).raftTerm == term
        # Members that come back find room among them.
        follower = cluster.followers()[0]
        cluster.kill(follower)
        cluster.restart(follower)
        load.check_kept(cluster.rpc(follower))
