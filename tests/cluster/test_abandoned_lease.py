"""A lease that nobody renews ends, however often the leader changes, and not before its time."""
import threading
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

TTL_SECONDS = 10
LATEST_SECONDS = either(20.0, 16.0)
CHANGES = 20
MOVE_SECONDS = 0.4  # a change takes some ten milliseconds
# After an election clients get a moment to come back before anything ends.
AFTER_ELECTION_SECONDS = either(6.0, 2.0)
KEY = b"/abandoned"
# What passes between the grant and the first change, at worst: until half of its TTL no leader knows
# that a lease is not renewed.
FIRST_CHANGES_SECONDS = either([0.0, 4.5], [0.0, 1.0, 2.0, 3.0, 4.0, 4.5, 4.9])


class Watch:
    """Notes when the key went, through whichever node answers."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.ended_at = None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def _look(self):
        rpcs = [self.cluster.new_rpc(node) for node in range(len(self.cluster))]
        while not self.is_over.is_set():
            for rpc in rpcs:
                try:
                    # Not serializable: a node that was just started does not know the key yet.
                    if rpc.kv.Range(etcdrpc.RangeRequest(key=KEY), timeout=1).count == 0:
                        self.ended_at = time.monotonic()
                        self.is_over.set()
                        break
                except grpc.RpcError:
                    pass
            self.is_over.wait(0.01)
        for rpc in rpcs:
            rpc.close()


def move_leader(cluster):
    time.sleep(MOVE_SECONDS)
    leader = cluster.leader()
    follower = cluster.status((leader + 1) % len(cluster)).header.member_id
    try:
        cluster.rpc(leader).maintenance.MoveLeader(
            etcdrpc.MoveLeaderRequest(targetID=follower), timeout=2
        )
    except grpc.RpcError as error:
        # It may have lost the leadership since it was asked who leads.
        assert error.code() in (*EXCUSES, grpc.StatusCode.FAILED_PRECONDITION), error


def kill_leader(cluster):
    leader = cluster.leader()
    cluster.kill(leader)
    cluster.launch(leader)


def change_leaders(cluster, change, first_change_s):
    rpc = cluster.rpc(cluster.leader())
    lease = rpc.grant(TTL_SECONDS).ID
    granted_at = time.monotonic()
    rpc.put(KEY, b"x", lease=lease)
    watch = Watch(cluster)
    changes = 0
    term = cluster.status(cluster.leader()).raftTerm
    time.sleep(max(0.0, granted_at + first_change_s - time.monotonic()))
    try:
        while changes < CHANGES and not watch.is_over.is_set():
            change(cluster)
            changes += 1
        last_change_at = time.monotonic()
        watch.is_over.wait(2 * LATEST_SECONDS)
    finally:
        watch.is_over.set()
        watch.thread.join()
    terms = cluster.status(cluster.leader()).raftTerm - term
    assert watch.ended_at is not None, "it never ended"
    return {"ended_s": round(watch.ended_at - granted_at, 2), "changes": changes, "terms": terms,
            "after_last_change_s": round(watch.ended_at - last_change_at, 2)}  # fmt: skip


@pytest.mark.seconds_max(300)
@pytest.mark.parametrize("change", [move_leader, kill_leader])
def test_a_lease_nobody_renews_ends_through_twenty_leaders(change):
    with Cluster() as cluster:
        seen = []
        for first_change_s in FIRST_CHANGES_SECONDS:
            one = change_leaders(cluster, change, first_change_s)
            seen.append(one)
            last_change_s = one["ended_s"] - one["after_last_change_s"]
            latest_s = max(LATEST_SECONDS, last_change_s + AFTER_ELECTION_SECONDS)
            assert TTL_SECONDS <= one["ended_s"] <= latest_s, seen
            assert one["terms"] >= min(10, one["changes"] // 2), seen
            wait_for(lambda: cluster.leader() is not None, 20, "a leader")
        report(change.__name__, rounds=seen)
