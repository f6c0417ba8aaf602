"""Medians, ratios, targets and pictures out of the results: benchmarks.md."""
import os
import pathlib
import platform
import re
import statistics
import tempfile
import time

from benchmark import plot
from benchmark.measures import ETCD_34, ETCD_35, FULL, LEASED, LOCKS, LOCKS_AWAITED, LOCKS_UNSYNCED, REDIS, ZOOKEEPER, measures
from benchmark.others import COMMANDS

PER_CPU = "ops_per_server_cpu_second"
PER_SECOND = "ops_per_second"
P50 = "latency_ms.p50"
FLAGS = {one.name: one.flags for one in measures(FULL)}
README_BEGIN = "<!-- written by tools/bench: begin -->"
README_END = "<!-- written by tools/bench: end -->"
KEPT_TITLES = (
    "## Ten thousand connections, plain and over TLS", "## What the checks of a request cost", "## Beside other programs",
    "## The registry",
)  # fmt: skip
README_BEFORE = "## Where things are"
LOCKS_TITLE = "## Locks beside redis-py and kazoo"


class Figures:
    """What was measured, by measure and server."""

    def __init__(self, results):
        self.results = [one for one in results if "result" in one]
        self.errors = [one for one in results if "error" in one]

    def all(self, measure, server, key):
        found = []
        for one in self.results:
            if (one["measure"], one["server"]) == (measure, server):
                value = one["result"]
                for part in key.split("."):
                    value = value.get(part) if isinstance(value, dict) else None
                if value is not None:
                    found.append(value)
        return found

    def median(self, measure, server, key):
        """None when nothing was measured."""
        found = self.all(measure, server, key)
        return statistics.median(found) if found else None

    def ratio(self, measure, key, above=LEASED, below=ETCD_35):
        high, low = self.median(measure, above, key), self.median(measure, below, key)
        return high / low if high is not None and low else None

    def spread(self, measure, server, key):
        found = self.all(measure, server, key)
        return max(found) / min(found) if found and min(found) > 0 else None

    def counts(self, prefix):
        """Measures named prefix + a number, in order of the number."""
        numbers = {int(match[1]) for one in self.results
                   if (match := re.fullmatch(re.escape(prefix) + r"(\d+)", one["measure"]))}  # fmt: skip
        return sorted(numbers)


# --- how numbers are written ----------------------------------------------------------------------


def number(value, digits=3):
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def times(value):
    return "–" if value is None else f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"


def verdict(holds):
    return "not measured" if holds is None else "yes" if holds else "**no**"


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# --- what must be shown ---------------------------------------------------------------------------


def at_least(figures, title, measure, key, target):
    ratio = figures.ratio(measure, key)
    holds = None if ratio is None else ratio >= target
    return [title, f"≥ {target}×", number(figures.median(measure, LEASED, key)),
            number(figures.median(measure, ETCD_35, key)), times(ratio), verdict(holds)]  # fmt: skip


def at_most(figures, title, measure, key, target, said):
    ratio = figures.ratio(measure, key)
    holds = None if ratio is None else ratio <= target
    return [title, said, number(figures.median(measure, LEASED, key)),
            number(figures.median(measure, ETCD_35, key)), times(ratio), verdict(holds)]  # fmt: skip


def bound(figures, title, measure, key, target, unit, beside=None):
    value = figures.median(measure, LEASED, key)
    holds = None if value is None else value <= target
    rival = figures.median(beside or measure, ETCD_35, key)
    return [title, f"≤ {target:,} {unit}", f"{number(value)} {unit}",
            f"{number(rival)} {unit}" if rival is not None else "–", "", verdict(holds)]  # fmt: skip


def flat(figures):
    values = {count: figures.median(f"keepalive-{count}", LEASED, PER_CPU)
              for count in figures.counts("keepalive-")}  # fmt: skip
    if len(values) < 2:
        return ["renewals per CPU second, from 1,000 leases to 1,000,000", "within 2×", "–", "–", "",
                verdict(None)]  # fmt: skip
    factor = max(values.values()) / min(values.values())
    return [f"renewals per CPU second, from {min(values):,} leases to {max(values):,}", "within 2×",
            f"{number(min(values.values()))} to {number(max(values.values()))}", "–", times(factor),
            verdict(factor <= 2)]  # fmt: skip


def must_show(figures):
    f = figures
    mass_leases = int(f.median("expire-mass", LEASED, "leases") or FULL.mass_leases)
    return [
        at_least(f, "renewals per server CPU second, 10,000 leases", "keepalive-10000", PER_CPU, 10),
        at_least(f, "renewals per server CPU second, 100,000 leases", "keepalive-100000", PER_CPU, 10),
        flat(f),
        at_least(f, "grants/s, 100 clients", "grant", PER_SECOND, 10),
        at_least(f, "puts/s of 256 B, 100 clients", "put", PER_SECOND, 5),
        at_least(f, "puts/s of 256 B, 1,000 clients", "put-1000", PER_SECOND, 5),
        at_least(f, "linearizable ranges per server CPU second", "range", PER_CPU, 8),
        at_least(f, "watch deliveries per server CPU second, 1,000 streams", "watch", PER_CPU, 2),
        at_most(f, "lock hand-over p50, ms", "lock", P50, 0.5, "≤ ½"),
        bound(f, "bytes a lease", "memory", "bytes_per_lease", 128, "B"),
        bound(f, "bytes a lease with a key", "memory", "bytes_per_lease_with_keys", 300, "B"),
        bound(f, f"{mass_leases:,} leases due in one second, all gone", "expire-mass",
              "last_delete_after_last_due_seconds", 5, "s"),
        bound(f, "a single expiry late by, median", "lateness", "late_median_ms", 10, "ms"),
        at_least(f, "three nodes: grants/s", "three-grant", PER_SECOND, 4),
        at_least(f, "three nodes: puts/s", "three-put", PER_SECOND, 4),
        at_most(f, "failover p50, each with its default timers, ms", "failover", "gap_ms", 0.5, "≤ ½"),
        # Who waits for the same timeout cannot be twice as fast; the figure is there to be seen.
        at_most(f, "failover p50, both with heartbeat 50 and election 300, ms", "failover-quick",
                "gap_ms", 1.0, "no worse"),
        at_most(f, "one grant at a time, p50, ms", "grant-one", P50, 1.0, "no worse"),
        at_most(f, "one put at a time, p50, ms", "put-one", P50, 1.0, "no worse"),
    ]  # fmt: skip


# --- the other tables -----------------------------------------------------------------------------

WORKLOADS = [
    ("grant", "grant, 100 clients"), ("put", "put, 100 clients"), ("put-1000", "put, 1,000 clients"),
    ("range", "range, linearizable"), ("range-serializable", "range, serializable"),
    ("txn", "compare and swap"), ("keepalive-10000", "renewals, 10,000 leases"),
    ("keepalive-100000", "renewals, 100,000 leases"), ("watch", "watch deliveries"),
    ("lock", "lock hand-overs"), ("mixed", "fleet"), ("grant-one", "one grant at a time"),
    ("put-one", "one put at a time"), ("put-rate", "puts at 2,000/s, open loop"),
    ("three-grant", "three nodes: grant"), ("three-put", "three nodes: put"),
    ("three-keepalive", "three nodes: renewals"),
]  # fmt: skip


def every_workload(figures):
    rows = []
    for measure, title in WORKLOADS:
        for server in (LEASED, ETCD_35, ETCD_34):
            rate = figures.median(measure, server, PER_SECOND)
            if rate is None:
                continue
            own = figures.median(measure, server, "client_cpu_seconds")
            cpu = figures.median(measure, server, "server_cpu_seconds")
            rss = figures.median(measure, server, "server_rss_bytes")
            spread = figures.spread(measure, server, PER_SECOND)
            latencies = [number(figures.median(measure, server, f"latency_ms.{name}"))
                         for name in ("p50", "p99", "p99_9", "max")]  # fmt: skip
            rows.append([title, server, number(rate), times(spread),
                         number(figures.median(measure, server, PER_CPU)), *latencies,
                         number(rss / 1e6 if rss else None),
                         f"{own / cpu:.0%}" if own and cpu else "–"])  # fmt: skip
    titles = ["workload", "server", "per second", "spread", "per server CPU second", "p50 ms",
              "p99 ms", "p99.9 ms", "max ms", "RSS MB", "tool's CPU"]  # fmt: skip
    return table(titles, rows)


def others(figures):
    rows = [["leased", "lease granted", *landmark(figures, "grant", LEASED)],
            ["redis", "SET NX PX, appendfsync always", *landmark(figures, "redis", REDIS)],
            ["zookeeper", "ephemeral node created", *landmark(figures, "zookeeper", ZOOKEEPER)]]  # fmt: skip
    titles = ["server", "operation, 100 under way", "per second", "per server CPU second", "p50 ms",
              "p99 ms"]  # fmt: skip
    return table(titles, rows)


DOORS = [
    ("door-redis-50", REDIS, "lock taken with SET NX PX and given back by a script, 50 connections"),
    ("door-zookeeper-100", ZOOKEEPER, "ephemeral node created, 100 sessions, one under way of each"),
    ("door-zookeeper-1000", ZOOKEEPER, "ephemeral node created, 20 sessions, 50 under way of each"),
]


def doors(figures):
    rows = []
    for measure, other, title in DOORS:
        ours, theirs = (figures.median(measure, server, PER_SECOND) for server in (LEASED, other))
        for server in (LEASED, other):
            ratio = times(ours / theirs) if server == LEASED and ours and theirs else ""
            rows.append([title, server, *landmark(figures, measure, server), ratio])
    return table(["operation", "server", "per second", "per server CPU second", "p50 ms", "p99 ms", "leased to it"],
                 rows)  # fmt: skip


def locks(figures):
    rows = [["leased, python3-lease", *lock_cells(figures, LOCKS, LEASED)],
            ["leased, python3-lease, release() that waits", *lock_cells(figures, LOCKS_AWAITED, LEASED)],
            ["ZooKeeper, kazoo's Lock", *lock_cells(figures, LOCKS, ZOOKEEPER)],
            ["Redis that syncs every write, redis-py's Lock", *lock_cells(figures, LOCKS, REDIS)],
            ["Redis that writes nothing, redis-py's Lock", *lock_cells(figures, LOCKS_UNSYNCED, REDIS)]]  # fmt: skip
    titles = ["server and client", "alone: taken and given back, per second", "spread", "p50 ms", "p99 ms",
              "hand-over p50 ms", "hand-over p99 ms"]  # fmt: skip
    return table(titles, rows)


def lock_cells(figures, measure, server):
    keys = (P50, "latency_ms.p99", "hand_over_ms.p50", "hand_over_ms.p99")
    return [number(figures.median(measure, server, PER_SECOND)), times(figures.spread(measure, server, PER_SECOND)),
            *(number(figures.median(measure, server, key)) for key in keys)]  # fmt: skip


def landmark(figures, measure, server):
    return [number(figures.median(measure, server, key))
            for key in (PER_SECOND, PER_CPU, P50, "latency_ms.p99")]  # fmt: skip


def growth(figures, prefix, key):
    rows, series = [], {LEASED: [], ETCD_35: []}
    for count in figures.counts(prefix):
        cells = [f"{count:,}"]
        for server, points in series.items():
            value = figures.median(f"{prefix}{count}", server, key)
            cells.append(number(value))
            if value:
                points.append((count, value))
        cells.append(times(figures.ratio(f"{prefix}{count}", key)))
        rows.append(cells)
    return rows, {name: points for name, points in series.items() if points}


GROWTHS = [
    ("keepalive-", PER_CPU, "leases", "renewals per server CPU second", "growth-leases.svg"),
    ("put-connections-", PER_SECOND, "connections", "puts/s of 1,000 clients",
     "growth-connections.svg"),
    ("keepalive-keys-", PER_CPU, "attached keys of each of 1,000 leases",
     "renewals per server CPU second", "growth-keys.svg"),
]  # fmt: skip


# Each further step is a further nine.
SHARES = {2: "p50", 10: "p90", 100: "p99", 1000: "p99_9", 10000: "max"}


def latencies(figures, pictures):
    """The open loop at one rate: what a client waits that does not wait for others."""
    series = {}
    for server in (LEASED, ETCD_35):
        points = [(share, figures.median("put-rate", server, f"latency_ms.{name}"))
                  for share, name in SHARES.items()]  # fmt: skip
        if all(value for _, value in points):
            series[server] = points
    if not series:
        return ""
    title = "milliseconds of a put at 2,000 puts/s, by percentile"
    plot.lines(pictures / "latency.svg", title, "percentile", series,
               lambda share: SHARES[share].replace("_", "."))  # fmt: skip
    return f"![{title}](benchmarks/latency.svg)\n"


def growths(figures, pictures):
    parts = []
    for prefix, key, what, of, name in GROWTHS:
        rows, series = growth(figures, prefix, key)
        if not rows:
            continue
        plot.lines(pictures / name, f"{of}, against {what}", what, series)
        parts.append(f"### {of[0].upper()}{of[1:]}, against {what}\n\n"
                     f"![{of} against {what}](benchmarks/{name})\n\n"
                     + table([what, LEASED, ETCD_35, "ratio"], rows))  # fmt: skip
    return "\n".join(parts)


def failovers(figures):
    rows = []
    for measure, title in (("failover", "default timers"), ("failover-quick", "heartbeat 50 ms, election 300 ms")):
        for server in (LEASED, ETCD_35):
            gaps = sorted(figures.all(measure, server, "gap_ms"))
            if gaps:
                rows.append([title, server, len(gaps), number(statistics.median(gaps)),
                             number(gaps[0]), number(gaps[-1])])  # fmt: skip
    return table(["timers", "server", "kills", "p50 ms", "min ms", "max ms"], rows)


def ends(figures):
    rows = []
    for server in (LEASED, ETCD_35):
        for measure in ("expire", "expire-mass"):
            late = figures.median(measure, server, "last_delete_after_last_due_seconds")
            if late is None:
                continue
            rows.append([server, number(figures.median(measure, server, "leases")),
                         f"{late:.3f}", number(figures.median(measure, server, "early")),
                         number(figures.median(measure, server, "puts_during.p99_ms")),
                         number(figures.median(measure, server, "puts_during.max_ms"))])  # fmt: skip
    titles = ["server", "leases with a key", "last gone, s after the last was due", "early",
              "another client's puts meanwhile: p99 ms", "max ms"]  # fmt: skip
    text = table(titles, rows)
    rows = []
    for server in (LEASED, ETCD_35):
        rss = figures.median("idle", server, "server_rss_bytes")
        share = figures.median("idle", server, "cpu_share")
        if rss:
            rows.append([server, number(rss / 1e6), f"{share:.2%}"])
    return text + "\n" + table(["idle", "RSS MB", "of a core"], rows)


# --- the machine ----------------------------------------------------------------------------------


def syncs_per_second(folder):
    """fdatasync of 4 KiB, one after the other: what the disk lets any of them do."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        count, begun = 0, time.monotonic()
        while time.monotonic() - begun < 1.0:
            os.pwrite(file.fileno(), b"x" * 4096, 4096 * (count % 256))
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.monotonic() - begun)


def machine(runner):
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    versions = runner.versions()
    lines = [
        f"- {time.strftime('%Y-%m-%d', time.gmtime())}, load average {os.getloadavg()[2]:.1f} over the last "
        "quarter of an hour, the benchmark's own included",
        f"- {os.cpu_count()} cores, {cpu[1].strip() if cpu else platform.machine()}; "
        f"{int(memory[1]) / 1e6:.0f} GB of memory; Linux {platform.release()}",
        f"- the disk takes {syncs_per_second(runner.folder):,.0f} fdatasync calls of 4 KiB a second, one "
        "after the other",
        *[f"- {name}: {version}" for name, version in versions.items()],
        *[f"- {name} is missing here: {reason}" for name, reason in runner.missing.items()],
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def commands(results):
    seen, lines = set(), []
    for one in results:
        if one.get("command") and one["measure"] not in seen and one["server"] == LEASED:
            seen.add(one["measure"])
            words = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", one["command"])
            words = re.sub(r"--server-pid \S+", "--server-pid PID", words)
            flags = FLAGS.get(one["measure"], ())
            beside = f"   # servers with {' '.join(flags)}" if flags else ""
            lines.append(f"{one['measure']:22} {words}{beside}")
    servers = {}
    for one in results:
        if one.get("server_command") and one["server"] not in servers:
            servers[one["server"]] = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", one["server_command"])
    return "```\n" + "\n".join([*servers.values(), COMMANDS, "", *lines]) + "\n```\n"


# --- the document ---------------------------------------------------------------------------------


def overview(figures, pictures):
    rows = []
    for name, measure, key, target in [
        ("renewals per CPU second, 10k leases", "keepalive-10000", PER_CPU, 10),
        ("renewals per CPU second, 100k leases", "keepalive-100000", PER_CPU, 10),
        ("grants/s", "grant", PER_SECOND, 10), ("puts/s, 100 clients", "put", PER_SECOND, 5),
        ("puts/s, 1,000 clients", "put-1000", PER_SECOND, 5),
        ("linearizable ranges per CPU second", "range", PER_CPU, 8),
        ("watch deliveries per CPU second", "watch", PER_CPU, 2),
        ("three nodes: grants/s", "three-grant", PER_SECOND, 4),
        ("three nodes: puts/s", "three-put", PER_SECOND, 4),
    ]:  # fmt: skip
        ratio = figures.ratio(measure, key)
        if ratio:
            rows.append((name, ratio, target))
    plot.bars(pictures / "overview.svg", "leased beside etcd 3.5", rows)


def readme(text, shown):
    """The project's README with the table of what was promised put in, or put in anew."""
    section = f"""{README_BEGIN}
## Beside etcd

`make bench` on one machine, in one run; more in [docs/benchmarks.md](docs/benchmarks.md).

![leased beside etcd 3.5](docs/benchmarks/overview.svg)

{shown}{README_END}
"""
    if README_BEGIN in text:
        head, rest = text.split(README_BEGIN, 1)
        return head + section + rest.split(README_END, 1)[1].removeprefix("\n")
    return text.replace(README_BEFORE, f"{section}\n{README_BEFORE}", 1)


def kept(target):
    """The sections that are entered by hand; they stay as they are."""
    path = pathlib.Path(target) / "benchmarks.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = [(title, text.split(title, 1)[1].split("\n## ", 1)[0]) for title in KEPT_TITLES if title in text]
    return "".join(f"{title}{section}\n" for title, section in sections)


def write(runner, target):
    """Writes benchmarks.md and its pictures; gives the table of what must be shown."""
    figures = Figures(runner.results)
    pictures = pathlib.Path(target) / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    overview(figures, pictures)
    shown = table(["what", "target", LEASED, ETCD_35, "ratio", "met"],
                  must_show(figures))  # fmt: skip
    failed = "".join(f"- {one['measure']}, {one['server']}: {one['error'].splitlines()[0]}\n"
                     for one in figures.errors)  # fmt: skip
    text = f"""# Benchmarks

Written by `make bench`, which measures leased beside its peers on one machine, in one run, with one
client (`lease bench`, see [lease-cli.md](lease-cli.md)). Every figure is the median of the rounds
({runner.size.rounds} as a rule); the servers take turns, each round on a fresh server with an empty
folder on the same disk. A server's start, its filling and the warm-up are not measured, and nobody logs
more than errors. CPU seconds are the server processes' own, from `/proc`.

![leased beside etcd 3.5](benchmarks/overview.svg)

## What was promised

{shown}
The instructions that the hot paths take have a recorded budget, which `make test` holds them to
(`tests/budget`); that line of the promise is not timed.

## The machine

{machine(runner)}
## Every workload

*spread* is the fastest round over the slowest. *tool's CPU* is what `lease bench` used, beside what the
server used: above 100 % the tool itself may be what holds the server back.

{every_workload(figures)}
{latencies(figures, pictures)}
## Growth

{growths(figures, pictures)}
## Leases that end, and idling

{ends(figures)}
## Failover

From `kill -9` of the leader of three to the next acknowledged put, asked of every node each 5 ms.

{failovers(figures)}
{kept(target)}## Beside Redis and ZooKeeper

They do something else; this is what they share with a lease server: something is taken that ends by
itself. Redis syncs each write (`appendfsync always`) and is driven by redis-benchmark; ZooKeeper is driven
by four pipelining sessions, which costs less than what it measures.

{others(figures)}
The doors beside the servers whose protocols they speak, both driven by `lease bench` (`tools/bench --only door`); Redis with
`appendfsync always`:

{doors(figures)}
{LOCKS_TITLE}

What a program in Python gets of the usual library for each (`tools/bench --only locks`). *Alone*: one client takes a lock
that nobody else wants, and gives it back, again and again, by a `with` block. In redis-py and kazoo the end of the
block waits for the server. In python3-lease it sends the release and does not wait, and the next request comes behind it; the
second row has `release()`, which waits. *Hand-over*: from the moment before the holder gives it back
until the one who waits has it, the holder having kept it for 30 to 130 ms. redis-py asks every 100 ms whether the lock
is free. leased, ZooKeeper and the Redis that syncs (`appendonly yes`, `appendfsync always`) have on disk what they
acknowledge; a Redis that writes nothing forgets its locks when it ends.

{locks(figures)}
## Commands

{commands(runner.results)}{"## What failed" + chr(10) * 2 + failed if failed else ""}"""
    (pathlib.Path(target) / "benchmarks.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    return shown
