"""--max-request-bytes beyond etcd's 1.5 MiB: the log, the links, forwarding and snapshots follow."""
import contextlib
import hashlib

import grpc
from clients import EXCUSES

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import Cluster
from harness.rpc import Rpc, refused

MIB = 1024 * 1024
LIMIT = 8 * MIB
VALUE_BYTES = 4 * 1000 * 1000
SNAPSHOT_FLAGS = ("--snapshot-log-bytes", 2 * MIB)
LIMIT_FLAGS = ("--max-request-bytes", LIMIT)
TOO_LARGE = "etcdserver: request is too large"
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
# A machine that is busy with other tests writes slowly.
SECONDS = 60.0


def flags_of(*groups):
    return [str(word) for group in groups for word in group]


def value_of(key, size=VALUE_BYTES):
    """Different for each key, and nothing that could be compressed away."""
    return hashlib.shake_128(key).digest(size)


def put(rpc, key):
    """Until it is accepted: leaders change when disks are slow."""

    def is_put():
        with contextlib.suppress(grpc.RpcError):
            try:
                rpc.put(key, value_of(key))
                return True
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error
        return False

    wait_for(is_put, SECONDS, f"a put of {key}")


def has_all(rpc, keys):
    with contextlib.suppress(grpc.RpcError):
        return all(
            [kv.value for kv in rpc.range(key, serializable=True).kvs] == [value_of(key)] for key in keys
        )
    return False


def cluster_version(cluster):
    return min(cluster[index].metric("leased_cluster_version") for index in range(3))


def test_one_server_takes_requests_up_to_its_limit():
    flags = flags_of(LIMIT_FLAGS, SNAPSHOT_FLAGS)
    with Server(KIND_LEASED, extra_flags=flags) as server:
        with Rpc(server) as rpc:
            rpc.put(b"a", value_of(b"a"))
            rpc.put(b"b", value_of(b"b"))
            rpc.put(b"nearly", value_of(b"nearly", LIMIT - 100))
            with refused(INVALID, TOO_LARGE):
                rpc.put(b"more", bytes(LIMIT))
            with refused(EXHAUSTED):
                rpc.put(b"more", bytes(LIMIT + MIB))
            wait_for(lambda: server.metric("leased_raft_snapshots_total") > 0, SECONDS, "a snapshot")
            rpc.put(b"c", value_of(b"c"))
        server.restart()
        with Rpc(server) as rpc:
            assert has_all(rpc, (b"a", b"b", b"c"))
            assert rpc.range(b"nearly").kvs[0].value == value_of(b"nearly", LIMIT - 100)
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


def test_a_member_with_a_smaller_limit_takes_what_others_accepted():
    small = 2
    cluster = Cluster(extra_flags=flags_of(SNAPSHOT_FLAGS))
    for index in (0, 1):  # one of them at least forwards to the leader
        cluster[index].extra_flags += flags_of(LIMIT_FLAGS)
    with cluster:
        wait_for(lambda: cluster_version(cluster) >= 3, SECONDS, "the version of the cluster")
        put(cluster.rpc(0), b"0")
        put(cluster.rpc(1), b"1")
        wait_for(lambda: has_all(cluster.rpc(small), (b"0", b"1")), SECONDS, "both values")
        with refused(INVALID, TOO_LARGE):
            cluster.rpc(small).put(b"no", bytes(1600 * 1024))
        # More than the log keeps: it comes back by a snapshot.
        cluster.kill(small)
        keys = [b"%d" % number for number in range(6)]
        for key in keys[2:]:
            put(cluster.rpc(0), key)
        cluster.restart(small)
        wait_for(lambda: has_all(cluster.rpc(small), keys), SECONDS, "all values")
        for index in range(3):
            cluster.kill(index)
        cluster.restart(0, 1, 2)
        cluster.wait_equal()
        for index in range(3):
            assert has_all(cluster.rpc(index), keys)
