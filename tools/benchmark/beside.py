"""Another build of leased beside this one: whether a change made anything slower, told on one machine in one run.

A ratio to etcd moves with the machine, because the two use it differently. Two builds of one program do not: what
differs between them is the change.
"""
import dataclasses
import statistics

from benchmark import measures as table

OTHER = "other build"
PER_CPU = "per server CPU second"
PER_SECOND = "per second"
P50 = "p50 ms"
GAP = "gap ms"


def builds_only(chosen):
    """The measures that one server of ours can take, for the two builds and nobody else."""
    return [dataclasses.replace(one, servers=(table.LEASED, OTHER)) for one in chosen
            if one.words and one.timed and table.LEASED in one.servers and not one.name.startswith("door-")
            or one.name.startswith("failover")]  # fmt: skip


def figure(measure, result):
    """(value, unit) of what docs/benchmarks.md promises of this measure."""
    if "gap_ms" in result:
        return result["gap_ms"], GAP
    if measure == "lock" or measure.endswith("-one"):
        return result["latency_ms"]["p50"], P50
    if measure.startswith(("keepalive", "range", "watch")):
        return result["ops_per_server_cpu_second"], PER_CPU
    return result["ops_per_second"], PER_SECOND


def rows(results):
    """For each measure: name, unit, medians of this build and of the other, and this one's gain (above 1 is better)."""
    seen = {}
    for one in results:
        if "result" in one and one["server"] in (table.LEASED, OTHER):
            value, unit = figure(one["measure"], one["result"])
            seen.setdefault((one["measure"], unit), {}).setdefault(one["server"], []).append(value)
    for (measure, unit), values in seen.items():
        if len(values) == 2:
            ours, theirs = statistics.median(values[table.LEASED]), statistics.median(values[OTHER])
            gain = theirs / ours if unit in (P50, GAP) else ours / theirs
            yield measure, unit, ours, theirs, gain


def text(results):
    lines = [f"{'measure':24} {'this build':>14} {'other build':>14}  gain  unit"]
    for measure, unit, ours, theirs, gain in rows(results):
        form = ",.2f" if unit in (P50, GAP) else ",.0f"
        lines.append(f"{measure:24} {ours:>14{form}} {theirs:>14{form}}  {gain:4.2f}  {unit}")
    return "\n".join(lines)
