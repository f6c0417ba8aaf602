"""What does not belong to the cluster and talks to it all the same."""
import os
import random
import socket
import struct
import time

from clients import Load

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import TIMING_FLAGS, Cluster

SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(10**6)))
GARBAGE_ROUNDS = 40
GARBAGE_BYTES_MAX = 100_000
IDLE_CONNECTIONS = 50
REFUSAL = "the peer belongs to another cluster"


def log_of(server):
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        return log.read()


def test_a_node_of_another_cluster_is_refused():
    with Cluster() as cluster:
        leader = cluster.leader()
        victim = (leader + 1) % 3
        cluster.rpc(leader).put(b"/key", b"value")
        term = cluster.status(leader).raftTerm
        cluster.kill(victim)
        # It takes the place of a member, with everything right but the token.
        stranger = Server(KIND_LEASED, name=cluster[victim].name, extra_flags=TIMING_FLAGS)
        try:
            stranger.client_port = cluster[victim].client_port
            stranger.peer_port = cluster[victim].peer_port
            stranger.initial_cluster = cluster[victim].initial_cluster
            stranger.token = "another"
            stranger.launch()
            wait_for(lambda: REFUSAL in log_of(stranger), 15, "the stranger is told")
            wait_for(lambda: REFUSAL in log_of(cluster[leader]), 15, "a member says so")
            time.sleep(1.0)
            assert not stranger.is_healthy()
            assert stranger.is_running(), stranger.log_tail()
            status = cluster.status(leader)
            assert (status.raftTerm, status.leader) == (term, status.header.member_id)
            cluster.rpc(leader).put(b"/key", b"more")
        finally:
            stranger.close()
        cluster.restart(victim)
        assert cluster.rpc(victim).range(b"/key").kvs[0].value == b"more"
        cluster.wait_equal()


def garbage(choose):
    kind = choose.randrange(4)
    noise = choose.randbytes(choose.randrange(1, GARBAGE_BYTES_MAX))
    if kind == 0:
        return noise
    if kind == 1:
        return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise
    if kind == 2:
        # What raft's own transport would say: protocol, id, length of the address.
        return struct.pack("<QQQ", 1, choose.getrandbits(64), choose.getrandbits(63)) + noise
    return b"\0" * len(noise)


def test_garbage_on_the_peer_port_disturbs_nobody():
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    with Cluster() as cluster:
        leader = cluster.leader()
        term = cluster.status(leader).raftTerm
        idle = [
            socket.create_connection(("127.0.0.1", cluster[n % 3].peer_port), 5)
            for n in range(IDLE_CONNECTIONS)
        ]
        with Load(cluster) as load:
            for number in range(GARBAGE_ROUNDS):
                port = cluster[number % 3].peer_port
                with socket.create_connection(("127.0.0.1", port), 5) as stranger:
                    stranger.settimeout(5)
                    try:
                        stranger.sendall(garbage(choose))
                        if choose.randrange(2):
                            stranger.shutdown(socket.SHUT_WR)
                            stranger.recv(100)
                    except OSError:
                        pass  # it hung up on us, as it should
            before = len(load.acknowledged())
            wait_for(lambda: len(load.acknowledged()) > before + 20, 20, "writes")
        for one in idle:
            one.close()
        assert load.failures() == 0
        assert cluster.leader() == leader and cluster.status(leader).raftTerm == term
        load.check_kept(cluster.rpc(0))
        cluster.wait_equal()
