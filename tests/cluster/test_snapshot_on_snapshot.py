"""A follower gets the leader's state while clients ask for its own (Maintenance.Snapshot)."""
import os
import threading

import grpc
from clients import EXCUSES
from etcd3 import etcdrpc
from left_behind import (
    Ledger,
    follower_behind_a_snapshot,
    shimmed_cluster,
    wait_returned_or_ended,
)

from harness import wait_for
from harness.acceptance import either, report
from harness.ops import put_op

FLAGS = ("--snapshot-log-bytes", 64 * 1024)
# A state of many small keys takes a while to write down.
BALLAST_TXNS = 350
TXN_PUTS = 128
IN_FLIGHT = 16
ROUNDS = int(os.environ.get("LEASED_SNAPSHOT_ROUNDS", either(2, 30)))
# As many as a node serves at once.
READERS = 2
# A node may have too much to do, or give up on a state that is no longer its own.
REFUSALS = (*EXCUSES, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED)


class Reader(threading.Thread):
    """Asks for the whole state over and over and hangs up on the first of it, so that the node
    is always about to write it down."""

    def __init__(self, cluster, node):
        super().__init__(daemon=True)
        self._rpc = cluster.new_rpc(node)
        self.done = threading.Event()
        self.begun = 0
        self.wrong = []

    def run(self):
        while not self.done.is_set():
            answers = self._rpc.maintenance.Snapshot(etcdrpc.SnapshotRequest(), timeout=20)
            try:
                next(answers)
                self.begun += 1
            except grpc.RpcError as error:
                if error.code() not in REFUSALS:
                    self.wrong.append(str(error))
                    return
                self.done.wait(0.005)
            finally:
                answers.cancel()

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


def put_ballast(rpc):
    calls = []
    for number in range(BALLAST_TXNS):
        puts = [put_op(b"/ballast/%d/%d" % (number, one), b"b" * 20) for one in range(TXN_PUTS)]
        calls.append(rpc.kv.Txn.future(etcdrpc.TxnRequest(success=puts), timeout=20))
        if len(calls) > IN_FLIGHT:
            calls.pop(0).result()
    for call in calls:
        call.result()


def return_while_read(cluster, ledger):
    """Answers how many snapshots were begun meanwhile."""
    node = follower_behind_a_snapshot(cluster, ledger)
    readers = [Reader(cluster, node) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        wait_for(lambda: any(reader.begun for reader in readers), 20, "a snapshot")
        cluster.network.heal()
        code = wait_returned_or_ended(cluster, node)
        assert code is None, f"ended with {code}: {cluster[node].log_tail()}"
        begun = sum(reader.begun for reader in readers)
        wait_for(lambda: sum(reader.begun for reader in readers) > begun, 20, "another snapshot")
    finally:
        for reader in readers:
            reader.stop()
    wrong = [text for reader in readers for text in reader.wrong]
    assert not wrong, wrong[:3]
    ledger.put(node)
    cluster.wait_equal()
    return begun


def test_clients_read_the_state_of_a_follower_that_is_given_another():
    with shimmed_cluster(FLAGS) as cluster:
        put_ballast(cluster.rpc(0))
        ledger = Ledger(cluster)
        ledger.put(0, count=5)
        begun = [return_while_read(cluster, ledger) for _ in range(ROUNDS)]
        report("snapshots on a snapshot", begun=begun)
        ledger.check()
