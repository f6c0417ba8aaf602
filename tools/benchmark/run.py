"""Goes through the measures, alternating between the servers, and writes each result at once."""
import json
import pathlib
import shlex
import subprocess
import sys
import time
import types

from benchmark import measures as table
from benchmark import locks, others, peers
from benchmark.servers import EtcdLike, clean_environment, free_ports

MEASURE_SECONDS_MAX = 900
IDLE_SECONDS = 10.0


class Runner:
    """`folder` holds the peers, the servers' data and the results."""

    def __init__(self, root, build, folder, size, log=sys.stderr):
        self.root = root
        self.leased = build / "leased"
        self.lease = build / "lease"
        self.library = build / "src" / "lease" / "liblease.so.0"
        self.folder = folder
        self.size = size
        self.log = log
        self.results_path = folder / "results.jsonl"
        self.results = []
        self.binaries = {table.LEASED: self.leased}
        self.missing = {}

    # Peers

    def prepare(self, names):
        """Gets what these measures need; a peer that cannot be had is told and left out."""
        folder = self.folder / "peers"
        folder.mkdir(parents=True, exist_ok=True)
        getters = {table.ETCD_35: peers.etcd_35, table.ETCD_34: peers.etcd_34,
                   table.REDIS: peers.redis, table.ZOOKEEPER: peers.zookeeper}  # fmt: skip
        for name in names:
            if name in getters:
                try:
                    self.binaries[name] = getters[name](folder)
                except peers.PeerMissing as error:
                    self.missing[name] = str(error)
                    print(f"bench: without {name}: {error}", file=self.log)

    def versions(self):
        found = {}
        for name, binary in self.binaries.items():
            if name in (table.ETCD_34, table.ETCD_35):
                found[name] = peers.etcd_version(binary)
            elif name in (table.REDIS, table.ZOOKEEPER):
                found[name] = peers.package_version(self.folder / "peers", name)
        found[table.LEASED] = subprocess.run(
            [self.leased, "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=self.root,
                                capture_output=True, text=True, check=False)  # fmt: skip
        found[table.LEASED] += f", commit {commit.stdout.strip()}" if commit.stdout else ""
        return found

    # Results

    def load(self):
        """What an earlier run with the same size has measured already."""
        if self.results_path.is_file():
            lines = self.results_path.read_text().splitlines()
            self.results = [json.loads(line) for line in lines]

    def forget(self, chosen):
        """These are measured anew."""
        names = {one.name for one in chosen}
        self.results = [one for one in self.results if one["measure"] not in names]
        with open(self.results_path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in self.results)

    def _has(self, measure, server, number):
        return any(one["measure"] == measure.name and one["server"] == server
                   and one["round"] == number and "result" in one for one in self.results)  # fmt: skip

    def _keep(self, entry):
        self.results.append(entry)
        with open(self.results_path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    # One measurement

    def _words(self, measure):
        words = list(measure.words)
        if measure.timed:
            words += ["--duration", f"{self.size.seconds}s", "--warm-up", "1s"]
        return words

    def _bench(self, measure, server):
        command = [str(self.lease), "bench", *self._words(measure), "--json", "--endpoints",
                   ",".join(server.endpoints), "--server-pid", server.pids]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=MEASURE_SECONDS_MAX, env=clean_environment())  # fmt: skip
        if not done.stdout.strip():
            raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1]), command

    def _idle(self, server):
        time.sleep(1.0)
        before = server.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        share = (server.cpu_seconds() - before) / IDLE_SECONDS
        return {"server_rss_bytes": server.rss_bytes(), "cpu_share": share}

    def _locks(self, measure, name, data):
        seconds = self.size.seconds
        env = {**clean_environment(), "PYTHONPATH": str(self.root / "python"), "LEASE_LIBRARY": str(self.library)}
        if name == table.REDIS:
            flags = others.SYNCED if measure.name == table.LOCKS else ()
            with others.redis_server(self.binaries[name], data, flags) as (node, port, _):
                return locks.measure(name, f"127.0.0.1:{port}", node.pid, seconds, env)
        if name == table.ZOOKEEPER:
            with others.zookeeper_server(self.binaries[name], data) as (node, port):
                return locks.measure(name, f"127.0.0.1:{port}", node.pid, seconds, env)
        with EtcdLike(self.binaries[name], self.lease, data) as server:
            kind = "leased-awaited" if measure.name == table.LOCKS_AWAITED else name
            return locks.measure(kind, server.endpoints[0], int(server.pids), seconds, env)

    def _door(self, measure, name, data):
        """A port of another protocol than etcd's, driven by `lease bench`."""
        if name == table.LEASED:
            address = f"127.0.0.1:{free_ports(1)[0]}"
            flag = "--listen-redis" if table.REDIS in measure.servers else "--listen-zookeeper"
            with EtcdLike(self.leased, self.lease, data, flags=[flag, address]) as server:
                return *self._bench(measure, types.SimpleNamespace(endpoints=[address], pids=server.pids)), []
        serve = others.redis_server if name == table.REDIS else others.zookeeper_server
        with serve(self.binaries[name], data) as (node, port, *_):
            server = types.SimpleNamespace(endpoints=[f"127.0.0.1:{port}"], pids=str(node.pid))
            return *self._bench(measure, server), []

    def _measure(self, measure, name):
        data = self.folder / "data"
        if measure.name in (table.LOCKS, table.LOCKS_AWAITED, table.LOCKS_UNSYNCED):
            return self._locks(measure, name, data), [], []
        if measure.name.startswith("door-"):
            return self._door(measure, name, data)
        if name == table.REDIS:
            return others.redis(self.binaries[name], data, self.size.seconds), [], []
        if name == table.ZOOKEEPER:
            return others.zookeeper(self.binaries[name], data, self.size.seconds), [], []
        flags = [*measure.flags]
        if name == table.ETCD_34:
            flags += ["--logger", "zap"]  # its older logger knows no level
        with EtcdLike(self.binaries[name], self.lease, data, measure.nodes, flags) as server:
            if measure.name == "idle":
                return self._idle(server), [], server.argvs[0]
            result, command = self._bench(measure, server)
            return result, command, server.argvs[0]

    def _public(self, words):
        """The command as somebody else would type it."""
        text = shlex.join(str(word) for word in words)
        for path, name in [(self.folder, "$DIR"), (self.leased, "build/leased"),
                           (self.lease, "build/lease")]:  # fmt: skip
            text = text.replace(str(path), name)
        return text

    def _one(self, measure, name, number, where):
        begun = time.monotonic()
        entry = {"measure": measure.name, "server": name, "round": number}
        try:
            result, command, argv = self._measure(measure, name)
            entry |= {"result": result, "command": self._public(command),
                      "server_command": self._public(argv)}  # fmt: skip
            said = headline(result)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            entry["error"] = f"{type(error).__name__}: {error}"
            said = entry["error"].splitlines()[0]
        self._keep(entry)
        print(f"{where} {measure.name:24} {name:10} round {number + 1}: {said}"
              f"  ({time.monotonic() - begun:.0f} s)", file=self.log, flush=True)  # fmt: skip

    def run(self, chosen):
        todo = []
        for measure in chosen:
            servers = [name for name in measure.servers if name in self.binaries]
            for number in range(measure.rounds):
                # Who goes first changes, so that neither always gets the disk as the other left it.
                turn = servers if number % 2 == 0 else servers[::-1]
                todo += [(measure, name, number) for name in turn]
        todo = [one for one in todo if not self._has(*one)]
        begun = time.monotonic()
        for index, one in enumerate(todo):
            minutes = (time.monotonic() - begun) / 60
            if minutes > self.size.minutes_max:
                print(f"bench: {len(todo) - index} measurements left out after {minutes:.0f} min; "
                      "--resume goes on", file=self.log)  # fmt: skip
                break
            self._one(*one, f"[{index + 1}/{len(todo)}, {minutes:.1f} min]")
        print(f"bench: {len(todo)} measurements in {(time.monotonic() - begun) / 60:.1f} min",
              file=self.log)  # fmt: skip


def headline(result):
    """A few words for the line of progress."""
    for key, form in [("gap_ms", "gap {:.0f} ms"), ("late_median_ms", "late by {:.1f} ms"),
                      ("last_delete_after_last_due_seconds", "last {:.2f} s late"),
                      ("bytes_per_lease_with_keys", "{:.0f} bytes a lease with a key"),
                      ("ops_per_second", "{:,.0f}/s"), ("cpu_share", "{:.3%} of a core")]:  # fmt: skip
        if key in result:
            text = form.format(result[key])
            if key == "ops_per_second" and "ops_per_server_cpu_second" in result:
                text += f", {result['ops_per_server_cpu_second']:,.0f} per CPU second"
            if key == "ops_per_second" and "latency_ms" in result:
                text += f", p50 {result['latency_ms']['p50']:.2f} ms"
            return text
    return "done"


def folder_of(build, quick):
    return pathlib.Path(build) / ("bench-quick" if quick else "bench")
