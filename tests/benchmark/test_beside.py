"""What a build gained over another (`tools/bench --beside`), from results made up here."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from benchmark import beside, measures  # noqa: E402
from benchmark.beside import OTHER  # noqa: E402
from benchmark.measures import LEASED  # noqa: E402


def results(measure, ours, theirs):
    return [{"measure": measure, "server": server, "round": number, "result": one}
            for server, made in ((LEASED, ours), (OTHER, theirs)) for number, one in enumerate(made)]  # fmt: skip


def gain(measure, ours, theirs):
    [(name, _, _, _, found)] = beside.rows(results(measure, ours, theirs))
    assert name == measure
    return found


def test_more_per_second_is_a_gain():
    rates = [[{"ops_per_second": rate} for rate in made] for made in ((100, 120, 9000), (60, 10, 80))]
    assert gain("put", *rates) == pytest.approx(2)


def test_less_time_is_a_gain():
    times = [[{"ops_per_second": 1, "latency_ms": {"p50": time}}] for time in (0.2, 0.3)]
    assert gain("put-one", *times) == pytest.approx(1.5)
    assert gain("failover", [{"gap_ms": 400}], [{"gap_ms": 200}]) == pytest.approx(0.5)


def test_renewals_are_compared_by_what_they_cost_the_server():
    costs = [[{"ops_per_second": 7, "ops_per_server_cpu_second": rate}] for rate in (50, 100)]
    assert gain("keepalive-10000", *costs) == pytest.approx(0.5)


def test_a_measure_that_only_one_build_has_is_not_shown():
    assert list(beside.rows(results("put", [{"ops_per_second": 5}], []))) == []


def test_only_the_two_builds_are_measured():
    chosen = beside.builds_only(measures.measures(measures.FULL))
    assert {one.servers for one in chosen} == {(LEASED, OTHER)}
    names = {one.name for one in chosen}
    assert {"put", "watch", "three-put", "failover-quick"} <= names
    assert not names & {"locks", "redis", "zookeeper", "door-redis-50", "memory", "idle"}
