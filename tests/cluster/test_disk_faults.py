"""One file call of one member fails: that member says so and is gone, or goes on correctly.

Whatever happens to it, the others go on, nothing acknowledged is lost, and all three start again with
the same keys.
"""
import errno
import time

import pytest
from clients import Load
from left_behind import (
    Ledger,
    leader_with_a_suffix,
    shimmed_cluster,
    start_again,
    wait_returned_or_ended,
)

from harness import wait_for
from harness.acceptance import report
from harness.cluster import Cluster
from harness.fault_shim import RENAME, SYNC, TRUNCATE, UNLINK, WRITE, FaultShim

END_SECONDS = 15.0
GAP_SECONDS_MAX = 8.0
# Which call of the former leader's return fails, and how.
RETURN_FAULTS = (
    (RENAME | TRUNCATE, errno.ENOSPC, 1),
    (RENAME | TRUNCATE, errno.ENOSPC, 2),
    (RENAME | TRUNCATE | UNLINK, errno.EIO, 3),
    (WRITE | SYNC, errno.ENOSPC, 1),
)


# As the C library and libuv put it.
TEXTS = {
    errno.ENOSPC: ("no space left on device",),
    errno.EIO: ("input/output error", "i/o error"),
}


def check_told(cluster, node, code, error):
    """It ended by itself, and its last error says why."""
    log = cluster[node].log_tail(4000)
    assert code is not None and code > 0, f"ended with {code}:\n{log}"
    errors = [line.lower() for line in log.splitlines() if " ERROR " in line]
    assert errors and any(text in errors[-1] for text in TEXTS[error]), f"no reason is told:\n{log}"


def restart_all(cluster):
    for node in list(cluster.answering()):
        assert cluster.stop(node) == 0
    cluster.restart(*range(len(cluster)))
    cluster.leader()


# The first or the second call from now on: one of them may be the write, the other the sync.
@pytest.mark.parametrize("who, nth", [("leader", 1), ("follower", 2)])
def test_a_failed_log_write_ends_one_member_and_nobody_else(who, nth):
    cluster = Cluster()
    shims = [FaultShim(server) for server in cluster.servers]
    with cluster:
        leader = cluster.leader()
        node = leader if who == "leader" else (leader + 1) % 3
        with Load(cluster, writers=2, holders=2) as load:
            wait_for(lambda: len(load.acknowledged()) > 20, 20, "writes")
            shims[node].fail(WRITE | SYNC, errno.EIO, nth=nth)
            shims[node].wait_fired(END_SECONDS)
            code = cluster.wait_end(node, END_SECONDS)
            ended_at = time.monotonic()
            check_told(cluster, node, code, errno.EIO)
            gap = load.next_acknowledged(ended_at, 30) - ended_at
            shims[node].disarm()
            cluster.restart(node)
            cluster.leader()
        load.check_all(cluster)
    report(f"EIO on the {who}'s log", next_write_ms=round(gap * 1000), kept=len(load.acknowledged()))
    assert gap < GAP_SECONDS_MAX


def test_a_former_leader_whose_disk_fails_while_it_returns_harms_nobody():
    ended = []
    with shimmed_cluster() as cluster:
        ledger = Ledger(cluster)
        ledger.put(0, count=5)
        for kinds, error, nth in RETURN_FAULTS:
            old = leader_with_a_suffix(cluster, ledger)
            cluster.shims[old].fail(kinds, error, nth=nth)
            cluster.network.heal()
            code = wait_returned_or_ended(cluster, old)
            ledger.put((old + 1) % 3, count=3)
            # What it took wrongly would be seen by the next ones only.
            code = wait_returned_or_ended(cluster, old) if code is None else code
            ended.append(code)
            if code is not None:
                cluster.forget(old)
                check_told(cluster, old, code, error)
                start_again(cluster, old)
            cluster.shims[old].disarm()
            ledger.put(old)
            cluster.wait_equal()
        restart_all(cluster)
        ledger.put(0)
        ledger.check()
        cluster.wait_equal()
    report("a former leader's disk", faults=len(ended), ended=sum(code is not None for code in ended))
