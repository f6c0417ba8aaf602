"""Medians, ratios and verdicts of tools/bench, from results made up here."""
import pathlib
import sys
import types
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from benchmark import measures, plot, report  # noqa: E402
from benchmark.measures import ETCD_35, LEASED  # noqa: E402


def result(measure, server, number=0, **values):
    return {"measure": measure, "server": server, "round": number, "result": values,
            "command": "build/lease bench put --endpoints 127.0.0.1:4711 --server-pid 99",
            "server_command": "build/leased --data-dir $DIR/data"}  # fmt: skip


def rates(measure, leased, etcd):
    return [result(measure, LEASED, i, ops_per_second=rate) for i, rate in enumerate(leased)] + [
        result(measure, ETCD_35, i, ops_per_second=rate) for i, rate in enumerate(etcd)]  # fmt: skip


def test_a_figure_is_the_median_of_its_rounds():
    figures = report.Figures(rates("put", [90, 100, 5000], [10, 20, 12]))
    assert figures.median("put", LEASED, "ops_per_second") == 100
    assert figures.ratio("put", "ops_per_second") == pytest.approx(100 / 12)
    assert figures.spread("put", ETCD_35, "ops_per_second") == 2


@pytest.mark.parametrize("leased, says", [(500, "yes"), (499, "**no**")])
def test_a_target_is_met_or_not(leased, says):
    figures = report.Figures(rates("put", [leased], [100]))
    assert report.at_least(figures, "puts", "put", "ops_per_second", 5)[-1] == says


def test_what_was_not_measured_is_not_met():
    figures = report.Figures(rates("put", [500], []))
    assert report.at_least(figures, "puts", "put", "ops_per_second", 5)[-1] == "not measured"
    for row in report.must_show(report.Figures([])):
        assert row[-1] == "not measured"


def test_a_smaller_mass_is_not_called_a_million():
    results = [result("expire-mass", LEASED, leases=5000, last_delete_after_last_due_seconds=0.1)]
    titles = [row[0] for row in report.must_show(report.Figures(results))]
    assert "5,000 leases due in one second, all gone" in titles


def test_smaller_is_better_for_times():
    results = [result("lock", LEASED, latency_ms={"p50": 1.0}),
               result("lock", ETCD_35, latency_ms={"p50": 1.9})]  # fmt: skip
    row = report.at_most(report.Figures(results), "lock", "lock", "latency_ms.p50", 0.5, "≤ ½")
    assert row[-1] == "**no**"


@pytest.mark.parametrize("values, says", [((100, 60, 51), "yes"), ((100, 60, 49), "**no**")])
def test_flat_is_within_twice(values, says):
    results = [result(f"keepalive-{count}", LEASED, ops_per_server_cpu_second=value)
               for count, value in zip((1000, 10000, 100000), values)]  # fmt: skip
    assert report.flat(report.Figures(results))[-1] == says


def test_an_error_is_no_figure():
    failed = {"measure": "put", "server": LEASED, "round": 0, "error": "RuntimeError: gone"}
    figures = report.Figures([failed])
    assert figures.median("put", LEASED, "ops_per_second") is None
    assert figures.errors == [failed]


def test_the_document_is_whole_and_names_no_port_or_pid(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "machine", lambda runner: "- a machine\n")
    latency = {"p50": 1.0, "p90": 2.0, "p99": 3.0, "p99_9": 4.0, "max": 5.0}
    results = rates("put", [500], [100])
    results += [result("put-rate", server, ops_per_second=2000, latency_ms=latency)
                for server in (LEASED, ETCD_35)]  # fmt: skip
    results += [result(f"keepalive-{count}", LEASED, ops_per_server_cpu_second=10**6)
                for count in (1000, 10000)]  # fmt: skip
    runner = types.SimpleNamespace(results=results, size=measures.QUICK, missing={})
    shown = report.write(runner, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert shown in text
    assert "4711" not in text and "--server-pid 99" not in text
    pictures = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert pictures == ["growth-leases.svg", "latency.svg", "overview.svg"]
    for name in pictures:
        assert f"benchmarks/{name}" in text
        xml.etree.ElementTree.parse(tmp_path / "benchmarks" / name)


def test_the_readme_gets_the_table_once():
    before = "# leased\n\ntext\n\n## Where things are\n\nmore\n"
    once = report.readme(before, "| a |\n")
    twice = report.readme(once, "| b |\n")
    assert once.count("## Beside etcd") == twice.count("## Beside etcd") == 1
    assert "| a |" in once and "| a |" not in twice and "| b |" in twice
    assert twice.endswith("## Where things are\n\nmore\n")
    assert report.readme(twice, "| b |\n") == twice


@pytest.mark.parametrize("number, text", [(950, "950"), (1500, "1.5k"), (2e6, "2M"), (0.25, "0.25")])
def test_numbers_on_axes_are_short(number, text):
    assert plot.short(number) == text


def test_each_measure_has_a_name_of_its_own():
    for size in (measures.FULL, measures.QUICK):
        names = [one.name for one in measures.measures(size)]
        assert len(names) == len(set(names))


def test_a_full_run_has_three_rounds_of_what_must_be_shown():
    rounds = {one.name: one.rounds for one in measures.measures(measures.FULL)}
    for name in ("grant", "put", "range", "watch", "lock", "keepalive-100000", "memory", "lateness",
                 "three-grant", "three-put", "failover", "grant-one", "put-one"):  # fmt: skip
        assert rounds[name] >= 3
