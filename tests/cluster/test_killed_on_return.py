"""kill -9 at each file call of a member that cuts its log, or takes a snapshot: it always starts again.

The calls are those that change what a folder holds or that make it last. One after the other is the process's
last, until a return has no more of them. Of the calls around a snapshot, which take seconds each, a run tries a few
that its seed chooses; LEASED_RETURN_KILLS tries so many of either kind, from the first on.
"""
import os
import random
import time

import pytest
from left_behind import (
    Ledger,
    follower_behind_a_snapshot,
    leader_with_a_suffix,
    shimmed_cluster,
    start_again,
    wait_returned_or_ended,
)
from register import SEED

from harness import wait_for
from harness.acceptance import either, report
from harness.fault_shim import RENAME, SYNC, TRUNCATE, UNLINK

KINDS = RENAME | UNLINK | SYNC | TRUNCATE
SUFFIX_KILLS_MAX = int(os.environ.get("LEASED_RETURN_KILLS", either(12, 40)))
SNAPSHOT_KILLS_MAX = int(os.environ.get("LEASED_RETURN_KILLS", either(0, 60)))
SNAPSHOT_KILLS_CHOSEN = 2
SNAPSHOT_CALLS_USUAL = 7
QUIET_SECONDS = 0.3
END_SECONDS = 5.0
SNAPSHOT_FLAGS = ("--snapshot-log-bytes", 64 * 1024)


def wait_quiet(shim):
    """What was applied may not be on disk yet: until there were no calls for a while."""
    quiet = [shim.calls, time.monotonic()]

    def is_quiet():
        if shim.calls != quiet[0]:
            quiet[:] = [shim.calls, time.monotonic()]
        return shim.fired or time.monotonic() - quiet[1] > QUIET_SECONDS

    wait_for(is_quiet, 20, "the last file call")


def kill_at_each_call(cluster, leave_behind, calls):
    """Answers how many calls were the last one."""
    ledger = Ledger(cluster)
    ledger.put(0, count=5)
    kills = 0
    for nth in calls:
        node = leave_behind(cluster, ledger)
        shim = cluster.shims[node]
        shim.kill(KINDS, nth=nth)
        cluster.network.heal()
        wait_returned_or_ended(cluster, node)
        wait_quiet(shim)
        print(f"call {nth}: {'killed' if shim.fired else 'all well'}")
        code = None
        if shim.fired or not cluster[node].is_running():
            code = cluster.wait_end(node, END_SECONDS)
            assert code == -9 and shim.fired, f"call {nth}: {code}: {cluster[node].log_tail()}"
            start_again(cluster, node)
        shim.disarm()
        ledger.put(node)
        cluster.wait_equal()
        ledger.check()
        if code is None:
            break
        kills += 1
    return kills


@pytest.mark.seconds_max(120 + 10 * SUFFIX_KILLS_MAX)
def test_killed_at_any_call_while_its_log_is_cut():
    with shimmed_cluster() as cluster:
        kills = kill_at_each_call(cluster, leader_with_a_suffix, range(1, SUFFIX_KILLS_MAX + 1))
    assert kills > 0
    report("killed while the log is cut", kills=kills)


@pytest.mark.seconds_max(120 + 10 * SNAPSHOT_KILLS_MAX)
def test_killed_at_any_call_while_a_snapshot_is_installed():
    print(f"seed {SEED}")
    chosen = sorted(random.Random(SEED).sample(range(1, SNAPSHOT_CALLS_USUAL + 1), SNAPSHOT_KILLS_CHOSEN))
    calls = range(1, SNAPSHOT_KILLS_MAX + 1) if SNAPSHOT_KILLS_MAX else chosen
    with shimmed_cluster(SNAPSHOT_FLAGS) as cluster:
        kills = kill_at_each_call(cluster, follower_behind_a_snapshot, calls)
    assert kills > 0
    report("killed while a snapshot is installed", kills=kills)
