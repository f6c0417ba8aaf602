"""A member that is cut off for a moment and comes back to a log or a state that is not its own.

The cluster is on a network of its own (harness.network), each server with a FaultShim, so that its disk can
be made to fail, or the process to end, at any file call of its return.
"""
import contextlib
import os

import grpc
from clients import EXCUSES
from etcd3 import etcdrpc

from harness import wait_for
from harness.cluster import Cluster
from harness.fault_shim import FaultShim
from harness.network import Network
from harness.ops import end_of

SUFFIX_ENTRIES = 4
SUFFIX_VALUE_BYTES = 3000
SUFFIX_SECONDS = 1.0
SUFFIX_ATTEMPTS_MAX = 5
LEADER_SECONDS = 20.0
RETURN_SECONDS = 20.0
# More than a leader keeps for those who are a little late.
BULK_VALUE_BYTES = 250 * 1024
BULK_PUTS = 56
BULK_KEYS = 2


@contextlib.contextmanager
def shimmed_cluster(extra_flags=()):
    """A cluster whose links can be cut, with `shims`, one for each server."""
    with Network(3) as network:
        cluster = Cluster(network=network, extra_flags=extra_flags)
        cluster.shims = [FaultShim(server) for server in cluster.servers]
        with cluster:
            yield cluster


class Ledger:
    """Puts one key after the other, notes what was acknowledged, and says what is missing."""

    PREFIX = b"/ledger/"

    def __init__(self, cluster):
        self._cluster = cluster
        self.acknowledged = {}

    def put(self, node, count=1, value=b"v"):
        """Through one node; tried again, as the node may not know the leader yet."""
        for _ in range(count):
            key = self.PREFIX + b"%06d" % len(self.acknowledged)
            wait_for(lambda: self._put(node, key, value), LEADER_SECONDS, f"a put through {node}")  # pylint: disable=cell-var-from-loop

    def _put(self, node, key, value):
        try:
            request = etcdrpc.PutRequest(key=key, value=value)
            answer = self._cluster.rpc(node).kv.Put(request, timeout=2, wait_for_ready=True)
        except grpc.RpcError as error:
            assert error.code() in EXCUSES, error
            return False
        self.acknowledged[key] = answer.header.revision
        return True

    def check(self):
        """On every node that answers."""
        for node in self._cluster.answering():
            kvs = self._cluster.rpc(node).range(self.PREFIX, end_of(self.PREFIX)).kvs
            there = {kv.key: kv.mod_revision for kv in kvs}
            lost = [key for key in self.acknowledged if key not in there]
            assert not lost, f"node {node} lost {len(lost)} of {len(self.acknowledged)}: {lost[:5]}"
            assert there == self.acknowledged, f"node {node} holds other revisions than were told"


def revision_of(cluster, node):
    """What the node has applied; None: it does not answer."""
    try:
        request = etcdrpc.RangeRequest(key=b"~nothing", serializable=True)
        return cluster.rpc(node).kv.Range(request, timeout=1).header.revision
    except grpc.RpcError:
        return None


def _cut_off_with_a_suffix(cluster, old, others):
    """Whether it was still the leader when the entries came; they are never acknowledged."""
    for other in others:
        cluster.network.deafen(other, old)
    for number in range(SUFFIX_ENTRIES):
        request = etcdrpc.PutRequest(key=b"/suffix/%d" % number, value=os.urandom(SUFFIX_VALUE_BYTES))
        cluster.rpc(old).kv.Put.future(request, timeout=LEADER_SECONDS)

    def has_suffix():
        last = cluster[old].metric("leased_raft_last_index")
        return last > cluster[old].metric("leased_raft_applied_index")

    try:
        wait_for(has_suffix, SUFFIX_SECONDS, "entries that nobody else has")
    except TimeoutError:
        return False
    cluster.network.deafen(old, *others)
    return True


def leader_with_a_suffix(cluster, ledger):
    """Cuts the leader off with entries in its log that nobody else has, and has the others write
    other ones in their places; answers the index of the former leader."""
    for _ in range(SUFFIX_ATTEMPTS_MAX):
        old = cluster.leader()
        others = [node for node in range(len(cluster)) if node != old]
        if _cut_off_with_a_suffix(cluster, old, others):
            new = cluster.leader(among=others)
            ledger.put(new, count=SUFFIX_ENTRIES + 2)
            return old
        cluster.network.heal()
    raise AssertionError("no leader took entries after it was cut off")


def snapshots_of(server):
    return server.metric("leased_raft_snapshots_total")


def put_bulk(rpc, count):
    """Much log, little state: few keys, and their history is compacted."""
    value = os.urandom(BULK_VALUE_BYTES)
    calls = [
        rpc.kv.Put.future(
            etcdrpc.PutRequest(key=b"/bulk/%d" % (number % BULK_KEYS), value=value), timeout=20
        )
        for number in range(count)
    ]
    rpc.compact(max(call.result().header.revision for call in calls))


def let_the_others_forget(cluster, behind, ledger):
    """Has the others write until they no longer hold the entries that this node lacks."""
    others = [node for node in range(len(cluster)) if node != behind]
    leader = cluster.leader(among=others)
    put_bulk(cluster.rpc(leader), BULK_PUTS)
    snapshots = {node: snapshots_of(cluster[node]) for node in others}

    def trimmed():
        """All has been written: one more snapshot lets go of it."""
        put_bulk(cluster.rpc(leader), 1)
        return all(snapshots_of(cluster[node]) > snapshots[node] for node in others)

    wait_for(trimmed, RETURN_SECONDS, "snapshots of the others")
    ledger.put(leader, count=2)


def follower_behind_a_snapshot(cluster, ledger):
    """A follower that is cut off, and can be given nothing but a snapshot; answers its index."""
    behind = cluster.followers()[0]
    cluster.kill(behind)
    let_the_others_forget(cluster, behind, ledger)
    # It has started, and nobody has spoken to it yet.
    cluster.network.isolate(behind)
    cluster.launch(behind)
    cluster[behind].wait_listening()
    return behind


def wait_returned_or_ended(cluster, node):
    """After heal(): until the node has what the others have, or has ended; answers its exit code,
    None while it runs."""
    others = [one for one in cluster.answering() if one != node]
    target = max(revision_of(cluster, one) or 0 for one in others)

    def done():
        if not cluster[node].is_running():
            return True
        revision = revision_of(cluster, node)
        return revision is not None and revision >= target

    wait_for(done, RETURN_SECONDS, f"the return of {node}")
    return cluster[node].process.exit_code()


def start_again(cluster, node):
    """A node that has ended, without any fault of its disk."""
    cluster.shims[node].disarm()
    cluster.restart(node)
