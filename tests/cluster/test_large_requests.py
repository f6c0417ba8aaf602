"""--max-request-bytes beyond etcd's 1.5 MiB: the log, the links, forwarding, watches and snapshots follow."""
import base64
import contextlib
import hashlib
import json
import threading
import time

import grpc
from clients import EXCUSES
from etcd3 import etcdrpc
from membership import add_member, new_server, remove_member
from test_hostile_peers import Known

from harness import KIND_LEASED, Server, gateway, wait_for
from harness import peer_protocol as protocol
from harness.acceptance import report
from harness.cluster import Cluster
from harness.rpc import Rpc, refused

MIB = 1024 * 1024
LIMIT = 12 * MIB
VALUE_BYTES = 10 * MIB
SNAPSHOT_FLAGS = ("--snapshot-log-bytes", 2 * MIB)
LIMIT_FLAGS = ("--max-request-bytes", LIMIT)
# Links and disks that are busy with large requests do not make members stand for election.
TIMING_FLAGS = ("--heartbeat-interval", "100", "--election-timeout", "3000")
TOO_LARGE = "etcdserver: request is too large"
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
# A machine that is busy with other tests writes slowly.
SECONDS = 60.0
FLOOD_SECONDS = 2.0
RSS_BYTES_MAX = 150 * MIB


def flags_of(*groups):
    return [str(word) for group in groups for word in group]


def value_of(key, size=VALUE_BYTES):
    """Different for each key, and nothing that could be compressed away."""
    return hashlib.shake_128(key).digest(size)


def put(rpc, key):
    """Until it is accepted: leaders change when disks are slow."""

    def is_put():
        try:
            rpc.kv.Put(etcdrpc.PutRequest(key=key, value=value_of(key)), timeout=SECONDS)
            return True
        except grpc.RpcError as error:
            assert error.code() in EXCUSES, error
            return False

    wait_for(is_put, SECONDS, f"a put of {key}")


def put_json(server, key):
    body = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value_of(key)).decode()}
    status, answer = gateway.post(server, "/v3/kv/put", json.dumps(body), timeout=SECONDS)[:2]
    assert status == 200, answer


def has_all(rpc, keys):
    with contextlib.suppress(grpc.RpcError):
        return all(
            [kv.value for kv in rpc.range(key, serializable=True).kvs] == [value_of(key)] for key in keys
        )
    return False


def cluster_version(cluster):
    return min(cluster[index].metric("leased_cluster_version") for index in range(3))


def lead(cluster, index):
    """Makes this member the leader."""

    def leads():
        leader = cluster.leader()
        if leader == index:
            return True
        target = cluster.status(index).header.member_id
        with contextlib.suppress(grpc.RpcError):
            cluster.rpc(leader).maintenance.MoveLeader(etcdrpc.MoveLeaderRequest(targetID=target), timeout=5)
        return False

    wait_for(leads, SECONDS, f"member {index} as leader")


def test_one_server_takes_requests_up_to_its_limit():
    with Server(KIND_LEASED, extra_flags=flags_of(LIMIT_FLAGS, SNAPSHOT_FLAGS)) as server:
        with Rpc(server) as rpc, rpc.watch() as watch:
            watch.create(b"a", b"z")
            rpc.put(b"a", value_of(b"a"))
            put_json(server, b"b")
            events = watch.events(2, SECONDS)
            assert [event.kv.value for event in events] == [value_of(b"a"), value_of(b"b")]
            rpc.put(b"nearly", bytes(LIMIT - 100))
            with refused(INVALID, TOO_LARGE):
                rpc.put(b"more", bytes(LIMIT))
            with refused(EXHAUSTED):
                rpc.put(b"more", bytes(LIMIT + MIB))
            wait_for(lambda: server.metric("leased_raft_snapshots_total") > 0, SECONDS, "a snapshot")
            rpc.put(b"c", value_of(b"c"))
        server.restart()
        with Rpc(server) as rpc:
            assert has_all(rpc, (b"a", b"b", b"c"))
            assert rpc.range(b"nearly").kvs[0].value == bytes(LIMIT - 100)
            assert rpc.range(b"more").count == 0


def test_the_largest_request_and_the_smallest_limit():
    with Server(KIND_LEASED, extra_flags=flags_of(("--max-request-bytes", 16 * MIB))) as server:
        with Rpc(server) as rpc:
            rpc.put(b"largest", bytes(16 * MIB - 20))
            with refused(INVALID, TOO_LARGE):
                rpc.put(b"largest", bytes(16 * MIB))
        server.kill()
        server.extra_flags[:] = flags_of(("--max-request-bytes", 1024))
        server.start()
        with Rpc(server) as rpc:
            assert rpc.range(b"largest").kvs[0].value == bytes(16 * MIB - 20)
            rpc.put(b"small", bytes(900))
            with refused(INVALID, TOO_LARGE):
                rpc.put(b"small", bytes(1024))
        # etcd has no lower bound either.
        server.kill()
        server.extra_flags[:] = flags_of(("--max-request-bytes", 256))
        server.start()
        with Rpc(server) as rpc:
            rpc.put(b"small", bytes(100))
            with refused(INVALID, TOO_LARGE):
                rpc.put(b"small", bytes(1024))


def is_refused_by_leader(cluster, asked, leader):
    """Asks one member for more than the leader allows; None: another one led meanwhile."""
    try:
        cluster.rpc(asked).put(b"no", value_of(b"no"))
        told = None
    except grpc.RpcError as error:
        told = error.details()
    if cluster.leader() != leader or (told is not None and told != TOO_LARGE):
        lead(cluster, leader)
        return None
    return told == TOO_LARGE


def test_a_member_with_a_smaller_limit_takes_what_others_accepted():
    small = 2
    cluster = Cluster(extra_flags=flags_of(SNAPSHOT_FLAGS), timing_flags=TIMING_FLAGS)
    for index in (0, 1):
        cluster[index].extra_flags += flags_of(LIMIT_FLAGS)
    with cluster:
        wait_for(lambda: cluster_version(cluster) >= 3, SECONDS, "the version of the cluster")
        lead(cluster, 0)
        with cluster.new_rpc(small) as rpc, rpc.watch() as watch:
            watch.create(b"0", b"9")
            put(cluster.rpc(0), b"0")
            put(cluster.rpc(1), b"1")
            put_json(cluster[1], b"2")
            keys = [b"0", b"1", b"2"]
            assert [event.kv.value for event in watch.events(3, SECONDS)] == [value_of(key) for key in keys]
        wait_for(lambda: has_all(cluster.rpc(small), keys), SECONDS, "all values")
        with refused(INVALID, TOO_LARGE):
            cluster.rpc(small).put(b"no", bytes(1600 * 1024))
        # What the leader does not allow it does not propose for others.
        lead(cluster, small)
        told = []

        def is_told():
            told[:] = [is_refused_by_leader(cluster, 0, small)]
            return told != [None]

        wait_for(is_told, SECONDS, "an answer while it leads")
        assert told == [True]
        # A member whose disk was lost gets all of it, by a snapshot or from the log.
        lead(cluster, 0)
        cluster.kill(small)
        name = cluster[small].name
        remove_member(cluster[0], name)
        replacement = new_server(cluster, name, flags_of(SNAPSHOT_FLAGS))
        add_member(cluster, cluster[0], replacement)
        new = cluster.add(replacement)
        cluster.forget(small)
        cluster.restart(new)
        wait_for(lambda: has_all(cluster.rpc(new), keys), SECONDS, "all values")
        for index in (0, 1, new):
            cluster.kill(index)
        cluster.restart(0, 1, new)
        cluster.wait_equal(SECONDS)
        assert all(has_all(cluster.rpc(index), keys) for index in (0, 1, new))


def test_a_flood_of_the_largest_proposals_is_bounded_in_memory():
    """Of one that is taken for a member. The lease does not exist, so nothing of it stays in the keys."""
    flags = flags_of(("--max-request-bytes", 16 * MIB))
    flood = protocol.propose([protocol.put_command(b"/forged", bytes(16 * 1000 * 1000), lease=0x4711)], 7)
    with Cluster(extra_flags=flags, timing_flags=TIMING_FLAGS) as cluster:
        known = Known(cluster)
        cluster.kill(known.absent)
        leader = known.present[0]
        before, largest, sent, puts = cluster[leader].rss_bytes(), 0, 0, 0
        index = cluster.status(leader).raftIndex
        is_over = threading.Event()

        def flood_it():
            nonlocal sent
            while not is_over.is_set():
                with contextlib.suppress(ConnectionError), known.greet(leader) as connection:
                    connection.settimeout(SECONDS)
                    while not is_over.is_set():
                        connection.sendall(flood)
                        sent += len(flood)

        flooding = threading.Thread(target=flood_it, daemon=True)
        flooding.start()
        end = time.monotonic() + FLOOD_SECONDS
        while time.monotonic() < end or puts == 0:
            cluster.rpc(leader).kv.Put(etcdrpc.PutRequest(key=b"/k", value=b"v"), timeout=SECONDS)
            puts += 1
            largest = max(largest, cluster[leader].rss_bytes())
        is_over.set()
        flooding.join()
        report("a flood of the largest proposals", sent_mb=sent >> 20, puts=puts, rss_mb=largest >> 20)
        assert largest - before < RSS_BYTES_MAX
        assert cluster.rpc(leader).range(b"/forged").count == 0
        assert cluster.status(leader).raftIndex > index + puts, "nothing of it was proposed"
