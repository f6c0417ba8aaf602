"""The leader is killed or asked to go while clients work through the others."""
import statistics
import time

import pytest
from clients import Load

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

KILLS = either(4, 200)
STORMS = either(5, 20)
WORK_SECONDS = 0.5
AWAY_SECONDS = 0.7
FAILOVER_SECONDS_MAX = either(10.0, 1.0)
HANDOVER_SECONDS_MAX = either(5.0, 0.3)  # less than an election takes to begin


@pytest.mark.seconds_max(120 + 10 * KILLS)
def test_nothing_is_lost_when_the_leader_is_killed():
    gaps = []
    with Cluster() as cluster:
        with Load(cluster) as load:
            for _ in range(KILLS):
                time.sleep(WORK_SECONDS)
                leader = cluster.leader()
                # The write before the kill, so that the gap is that of clients of the others too.
                killed_at = time.monotonic()
                cluster.kill(leader)
                gaps.append(load.next_acknowledged(killed_at, 30) - killed_at)
                time.sleep(AWAY_SECONDS)
                cluster.restart(leader)
            time.sleep(WORK_SECONDS)
        load.check_all(cluster)
        report(
            "leader killed", kills=KILLS, acknowledged=len(load.acknowledged()),
            failures=load.failures(), renewals=sum(holder.renewals for holder in load.holders),
            p50_ms=round(statistics.median(gaps) * 1000), max_ms=round(max(gaps) * 1000),
        )  # fmt: skip
    assert max(gaps) < FAILOVER_SECONDS_MAX


def test_a_leader_that_is_asked_to_go_hands_over():
    gaps = []
    with Cluster() as cluster:
        with Load(cluster) as load:
            for _ in range(3):
                time.sleep(WORK_SECONDS)
                leader = cluster.leader()
                term = cluster.status(leader).raftTerm
                begun = time.monotonic()
                assert cluster.stop(leader) == 0, cluster[leader].log_tail()
                ended = time.monotonic()
                cluster.leader()
                led = time.monotonic()
                # Handed over, not found out: one election, at once.
                assert cluster.status(cluster.answering()[0]).raftTerm > term
                gaps.append(load.next_acknowledged(begun, 30) - begun)
                report("leader stopped", exit_ms=round((ended - begun) * 1000),
                       next_leader_ms=round((led - begun) * 1000),
                       next_write_ms=round(gaps[-1] * 1000))  # fmt: skip
                assert led - begun < HANDOVER_SECONDS_MAX
                cluster.restart(leader)
        load.check_all(cluster)


@pytest.mark.seconds_max(120 + 10 * STORMS)
def test_nothing_is_lost_when_all_are_killed_again_and_again():
    with Cluster() as cluster:
        # Nobody can renew while nobody is there, and a start may take its time: no holders.
        with Load(cluster, holders=0) as load:
            for number in range(STORMS):
                before = len(load.acknowledged())
                wait_for(lambda: len(load.acknowledged()) > before + 20, 30, "writes")  # pylint: disable=cell-var-from-loop
                for node in range(len(cluster)):
                    cluster.kill((node + number) % len(cluster))
                cluster.restart(*range(len(cluster)))
        check = load.check_kept(cluster.rpc(0))
        cluster.leader()
        for node in range(len(cluster)):
            load.check_kept(cluster.rpc(node))
        cluster.wait_equal()
        report("all killed", rounds=STORMS, acknowledged=check, failures=load.failures())
