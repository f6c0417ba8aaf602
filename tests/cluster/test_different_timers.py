"""Members whose --election-timeout differs, as in the middle of a rolling change of the flag.

The leader has the long one. Cut off, it must not answer by its own timeout while the others elect by
theirs.
"""
import json
import threading
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc
from test_disks import make_leader

from harness import wait_for
from harness.acceptance import report
from harness.cluster import QUICK_RECONNECT, Cluster
from harness.etcdctl import call
from harness.network import Network
from harness.ops import created_is, put_op
from harness.rpc import Rpc

LONG_FLAGS = ("--heartbeat-interval", "50", "--election-timeout", "3000")
TTL_SECONDS = 3
LOCK = b"/lock"
KEY = b"/newest"
# Longer than the long timeout and the TTL together.
LOOK_SECONDS = 7.0
READ_SECONDS = 0.5


@pytest.fixture
def cluster():
    with Network(3) as network:
        made = Cluster(network=network)
        made[0].extra_flags += LONG_FLAGS  # given twice, the last one counts
        with made:
            make_leader(made, 0)
            yield made


class OldReader(threading.Thread):
    """Reads linearizably from one node over and over; notes (asked, value) of each answer."""

    def __init__(self, cluster, node):
        super().__init__(daemon=True)
        self.answers = []
        self.done = threading.Event()
        self._rpc = cluster.new_rpc(node)

    def run(self):
        while not self.done.is_set():
            asked_at = time.monotonic()
            try:
                request = etcdrpc.RangeRequest(key=KEY)
                answer = self._rpc.kv.Range(request, timeout=READ_SECONDS)
                self.answers.append((asked_at, answer.kvs[0].value))
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error
            self.done.wait(0.01)

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


class LockHolder(threading.Thread):
    """Holds a lock through one node: until so long after the last renewal it sent that was acknowledged."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self._rpc = Rpc(server, QUICK_RECONNECT)
        self.done = threading.Event()
        sent_at = time.monotonic()
        self.lease = self._rpc.grant(TTL_SECONDS).ID
        self.token = take_lock(self._rpc, self.lease)
        assert self.token is not None
        self.until = sent_at + TTL_SECONDS

    def run(self):
        while not self.done.is_set():
            sent_at = time.monotonic()
            requests = iter([etcdrpc.LeaseKeepAliveRequest(ID=self.lease)])
            try:
                for answer in self._rpc.lease.LeaseKeepAlive(requests, timeout=READ_SECONDS):
                    if answer.TTL > 0:
                        self.until = sent_at + TTL_SECONDS
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error
            self.done.wait(0.02)

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


def take_lock(rpc, lease):
    """The token, or None: somebody else has it, or nobody answered."""
    try:
        answer = rpc.txn(compare=[created_is(LOCK, 0)], success=[put_op(LOCK, b"", lease=lease)])
    except grpc.RpcError as error:
        assert error.code() in EXCUSES, error
        return None
    return answer.header.revision if answer.succeeded else None


def test_a_leader_with_a_longer_timeout_serves_nothing_once_another_may_lead(cluster):
    rpc = cluster.rpc(1)
    rpc.put(KEY, b"old")
    lease = rpc.grant(60).ID
    reader, holder = OldReader(cluster, 0), LockHolder(cluster[0])
    reader.start()
    holder.start()
    try:
        wait_for(lambda: len(reader.answers) > 5, 10, "reads")
        cluster.network.isolate(0)
        cut_at = time.monotonic()

        def written():
            try:
                rpc.kv.Put(etcdrpc.PutRequest(key=KEY, value=b"new"), timeout=0.3)
                return True
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error
                return False

        wait_for(written, 20, "a write through the others")
        written_at = time.monotonic()
        token = wait_for(lambda: take_lock(rpc, lease), 20, "the lock")
        taken_at = time.monotonic()
        time.sleep(max(0.0, cut_at + LOOK_SECONDS - time.monotonic()))
    finally:
        reader.stop()
        holder.stop()
    stale = [asked - cut_at for asked, value in reader.answers if asked > written_at and value == b"old"]
    cluster.network.heal()
    wait_for(lambda: cluster.rpc(0).range(KEY).kvs[0].value == b"new", 20, "the return of the old leader")
    cluster.wait_equal()
    report("a longer timeout", written_ms=round((written_at - cut_at) * 1000),
           taken_ms=round((taken_at - cut_at) * 1000), held_ms=round((holder.until - cut_at) * 1000),
           stale=len(stale))  # fmt: skip
    assert not stale, f"{len(stale)} old values were read, the last one {stale[-1]:.2f} s after the cut"
    assert token > holder.token
    assert holder.until <= taken_at, f"two holders for {holder.until - taken_at:.2f} s"


def told_errors(server):
    """What `etcdctl endpoint status` shows as errors of one node."""
    (row,) = json.loads(call(server, "endpoint", "status", "-w", "json").stdout)
    return row["Status"].get("errors", [])


def test_a_member_with_other_timers_is_named_by_the_others_and_names_them():
    made = Cluster()
    made[0].extra_flags += LONG_FLAGS
    with made:
        made.leader()
        other = made.status(0).header.member_id
        long_ones = f"leased: member {other:x} runs with --heartbeat-interval=50 --election-timeout=3000"
        for node in (1, 2):
            wait_for(lambda: told_errors(made[node]) == [long_ones], 20, "the other timers")  # pylint: disable=cell-var-from-loop
        wait_for(lambda: len(told_errors(made[0])) == 2, 20, "the timers of both others")
        assert all(long_ones not in text for text in told_errors(made[0]))
        assert "a member runs with other timers than this one" in made[1].log_tail(100000)
