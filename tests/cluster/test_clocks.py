"""Clocks that jump by a day, on one node or on all, and clocks that run too fast or too slow."""
import datetime
import random
import re
import time

import pytest
from clients import Abandoned, Load
from register import SEED, Register
from troubles import kill_and_stop

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.fake_clock import FakeClock

JUMPS = ("+1d", "-1d", "+0")
SETTLE_SECONDS = either(1.5, 4.0)
ROUNDS = either(1, 5)
TTLS_SECONDS = (2, 4)
LATE_SECONDS_MAX = either(5.0, 0.5)
FAILOVER_SECONDS_MAX = either(10.0, 3.0)
TERMS_A_KILL_MAX = 3
RATES = (1.01, 0.99, 1.0)
DRIFT_SECONDS = either(8.0, 60.0)
DRIFT_LATE_SECONDS = 0.01 * max(TTLS_SECONDS)


@pytest.fixture
def clocks_and_cluster():
    """A cluster each of whose nodes has a wall clock of its own."""
    cluster = Cluster()
    clocks = [FakeClock(server) for server in cluster.servers]
    with cluster:
        yield clocks, cluster


def days_told(server):
    """Which days the server's own log is from, relative to today."""
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        dates = set(re.findall(r"^(\d{4}-\d\d-\d\d)T", log.read(), re.MULTILINE))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return {(datetime.date.fromisoformat(date) - today).days for date in dates}


def who_jumps(cluster, who):
    leader = cluster.leader()
    return {"leader": [leader], "follower": cluster.followers()[:1], "all": range(3)}[who]


@pytest.mark.parametrize("who", ["leader", "follower", "all"])
@pytest.mark.seconds_max(120 + 3 * ROUNDS * SETTLE_SECONDS)
def test_jumps_of_a_day_end_no_lease_and_elect_nobody(clocks_and_cluster, who):
    clocks, cluster = clocks_and_cluster
    term = cluster.status(cluster.leader()).raftTerm
    with Load(cluster) as load:
        for _ in range(ROUNDS):
            with Abandoned(cluster, TTLS_SECONDS) as abandoned:
                for offset in JUMPS:
                    for node in who_jumps(cluster, who):
                        clocks[node].jump(offset)
                    time.sleep(SETTLE_SECONDS)
                late = abandoned.check(30)
    load.check_all(cluster)
    terms = cluster.status(0).raftTerm - term
    report(f"clocks jump by a day, {who}", rounds=ROUNDS, terms=terms, failures=load.failures(),
           abandoned_late_s=[round(one, 3) for one in late])  # fmt: skip
    assert terms == 0, "a clock's jump cost an election"
    assert max(late) < LATE_SECONDS_MAX


@pytest.mark.seconds_max(120 + 20 * ROUNDS)
def test_clocks_that_jump_during_an_election_change_nothing(clocks_and_cluster):
    clocks, cluster = clocks_and_cluster
    term = cluster.status(cluster.leader()).raftTerm
    gaps, kills = [], 0
    with Load(cluster) as load:
        wait_for(lambda: all(holder.renewals for holder in load.holders), 20, "renewals")
        for _ in range(ROUNDS):
            for offset in ("+1d", "-1d"):
                leader = cluster.leader()
                begun = time.monotonic()
                cluster.kill(leader)
                for number, clock in enumerate(clocks):
                    clock.jump(offset if number != leader else "+0")
                gaps.append(load.next_acknowledged(begun, 30) - begun)
                cluster.restart(leader)
                kills += 1
    load.check_all(cluster)
    terms = cluster.status(0).raftTerm - term
    # The nodes did believe it.
    assert any({1, -1} & days_told(server) for server in cluster.servers)
    report("clocks jump in elections", kills=kills, terms=terms,
           next_write_ms=[round(gap * 1000) for gap in gaps])  # fmt: skip
    assert max(gaps) < FAILOVER_SECONDS_MAX
    assert terms <= TERMS_A_KILL_MAX * kills, "elections went on and on"


@pytest.mark.seconds_max(120 + DRIFT_SECONDS)
def test_clocks_that_drift_apart_by_two_percent_make_no_history_odd():
    cluster = Cluster()
    for server, rate in zip(cluster.servers, RATES):
        FakeClock(server, rate)
    with cluster:
        with Register(cluster) as register, Load(cluster, writers=1, ttl_s=10) as load:
            troubles = kill_and_stop(cluster, random.Random(SEED), time.monotonic() + DRIFT_SECONDS)
        load.check_all(cluster)
        # A clock that runs fast is early by what it runs fast, and by no more.
        with Abandoned(cluster, TTLS_SECONDS) as abandoned:
            late = abandoned.check(30, early_s_max=DRIFT_LATE_SECONDS)
    report("drifting clocks", rates=RATES, **register.check(), **troubles,
           abandoned_late_s=[round(one, 3) for one in late])  # fmt: skip
    assert max(late) < LATE_SECONDS_MAX + DRIFT_LATE_SECONDS
