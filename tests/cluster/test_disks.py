"""One node's disk is full, breaks or is slow, while the others' are well."""
import os
import threading
import time

import grpc
import pytest
from clients import EXCUSES, Abandoned, Load
from etcd3 import etcdrpc

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.exit_codes import EXIT_CODES
from harness.small_disk import SmallDisk

MIB = 1024 * 1024
DISK_MIB = 256
FREE_BYTES = 36 * MIB
FLAGS = ("--snapshot-log-bytes", 4 * MIB)
VALUE_BYTES = 64 * 1024
STOP_SECONDS = 60.0
TRANSFER_SECONDS = 2.0
SLOW_WRITES_A_SECOND = 1
SLOW_SECONDS = either(6.0, 30.0)
TTLS_SECONDS = (2, 4)
LATE_SECONDS_MAX = either(8.0, 4.0)


@pytest.fixture
def disk_and_cluster():
    """The first of three nodes has its data on a small disk."""
    with SmallDisk(DISK_MIB) as disk:
        cluster = Cluster(extra_flags=FLAGS)
        cluster[0].data_dir = os.path.join(disk.path, "data")
        with cluster:
            yield disk, cluster


def make_leader(cluster, node):
    """Hands leadership over to this node."""

    def leads():
        leader = cluster.leader()
        if leader == node:
            return True
        to = cluster.status(node).header.member_id
        try:
            cluster.rpc(leader).maintenance.MoveLeader(
                etcdrpc.MoveLeaderRequest(targetID=to), timeout=TRANSFER_SECONDS
            )
        except grpc.RpcError as error:
            assert error.code() in (*EXCUSES, grpc.StatusCode.FAILED_PRECONDITION), error
        return False

    wait_for(leads, 20, f"leadership of {node}")


class Bulk(threading.Thread):
    """Overwrites a few large values through one node, until told to stop."""

    def __init__(self, cluster, node):
        super().__init__(daemon=True)
        self.done = threading.Event()
        self._rpc = cluster.new_rpc(node)

    def run(self):
        number = 0
        while not self.done.is_set():
            number += 1
            key = b"/bulk/%d" % (number % 10)
            request = etcdrpc.PutRequest(key=key, value=os.urandom(VALUE_BYTES))
            try:
                self._rpc.kv.Put(request, timeout=2)
            except grpc.RpcError:
                self.done.wait(0.05)

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_full_disk_stops_one_node_and_nobody_else(disk_and_cluster, who):
    disk, cluster = disk_and_cluster
    make_leader(cluster, 0 if who == "leader" else 1)
    with Load(cluster, writers=2) as load:
        wait_for(lambda: all(holder.renewals for holder in load.holders), 20, "renewals")
        bulk = Bulk(cluster, 1)
        disk.leave(FREE_BYTES)
        bulk.start()
        code = cluster.wait_end(0, STOP_SECONDS)
        ended_at = time.monotonic()
        log = cluster[0].log_tail(4000)
        gap = load.next_acknowledged(ended_at, 30) - ended_at
        bulk.stop()
        # It is away for longer than anybody's lease lasts.
        time.sleep(max(0.0, ended_at + 3.5 - time.monotonic()))
        disk.make_room()
        cluster.restart(0)
        cluster.leader()
    load.check_all(cluster)
    report(f"disk of the {who} full", next_write_ms=round(gap * 1000), kept=len(load.acknowledged()))
    assert code == EXIT_CODES["DISK_FULL"], log
    assert "space" in log.lower() and cluster[0].data_dir in log, log


def test_a_disk_that_breaks_stops_one_node_and_nobody_else(disk_and_cluster):
    disk, cluster = disk_and_cluster
    make_leader(cluster, 0)
    with Load(cluster, writers=2) as load:
        wait_for(lambda: all(holder.renewals for holder in load.holders), 20, "renewals")
        disk.fail_writes()
        bulk = Bulk(cluster, 1)
        bulk.start()
        code = cluster.wait_end(0, STOP_SECONDS)
        ended_at = time.monotonic()
        log = cluster[0].log_tail(4000)
        gap = load.next_acknowledged(ended_at, 30) - ended_at
        bulk.stop()
        disk.mend()
        cluster.restart(0)
        cluster.leader()
    load.check_all(cluster)
    report("disk of the leader broken", next_write_ms=round(gap * 1000), kept=len(load.acknowledged()))
    assert code == EXIT_CODES["DISK_FAILED"], log
    assert cluster[0].data_dir in log, log


@pytest.mark.seconds_max(120 + SLOW_SECONDS)
def test_a_leader_whose_disk_is_slow_ends_no_lease_early(disk_and_cluster):
    disk, cluster = disk_and_cluster
    make_leader(cluster, 0)
    term = cluster.status(0).raftTerm
    with Abandoned(cluster, TTLS_SECONDS) as abandoned:
        with Load(cluster, writers=3, holders=6) as load:
            wait_for(lambda: all(holder.renewals for holder in load.holders), 20, "renewals")
            pid = cluster[0].pid
            group = disk.slow_down(pid, SLOW_WRITES_A_SECOND)
            try:
                slow_at = time.monotonic()
                before, writes = len(load.acknowledged()), disk.writes()
                time.sleep(SLOW_SECONDS)
                written = len(load.acknowledged()) - before
                device_writes = disk.writes() - writes
                gap = load.next_acknowledged(slow_at + SLOW_SECONDS, 30) - slow_at - SLOW_SECONDS
            finally:
                disk.speed_up(group, pid)
        late = abandoned.check(60)
    load.check_all(cluster)
    report("slow disk", written=written, device_writes=device_writes, at_the_end_ms=round(gap * 1000), failures=load.failures(),
           terms=cluster.status(0).raftTerm - term,
           abandoned_late_s=[round(one, 2) for one in late])  # fmt: skip
    assert written > 4 * device_writes > 0, "the disk was not slow"
    assert max(late) < LATE_SECONDS_MAX
