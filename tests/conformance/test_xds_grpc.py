"""gRPC's own xds:/// clients unmodified, Debian's python3-grpcio and npm's @grpc/grpc-js-xds, with traffic to real gRPC
servers while instances come, fall ill, drain and go, and while the registry restarts."""
import collections
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import time

import pytest

from harness.kinds import PROJECT_ROOT
from harness.ports import free_ports
from harness.process import Process
from harness.wait import wait_for
from harness.xds import MANUAL, Registry, leased_with_xds

HERE = PROJECT_ROOT / "tests" / "harness"
JS = pathlib.Path(__file__).parent / "js"
SECONDS = 30.0
INSTALL_SECONDS = 300


def start_instance(port, folder):
    process = Process([sys.executable, str(HERE / "grpc_instance.py"), str(port)], str(folder / f"{port}.log"))
    wait_for(lambda: "ready" in (folder / f"{port}.log").read_text(), SECONDS, f"instance at {port}")
    return process


def bootstrap(path, *endpoints, zone=""):
    servers = [
        {"server_uri": at, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]} for at in endpoints
    ]
    path.write_text(json.dumps({"xds_servers": servers, "node": {"id": "python", "locality": {"zone": zone}}}))
    return path


class Calls:
    """Calls of another process, counted for each target and whom they reached."""

    def __init__(self, argv, bootstrap_path, log_path):
        environment = {**os.environ, "GRPC_XDS_BOOTSTRAP": str(bootstrap_path)}
        self._log = open(log_path, "wb")  # pylint: disable=consider-using-with
        self._child = subprocess.Popen(  # pylint: disable=consider-using-with
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            self._lines.put(line.split())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._child.kill()
        self._child.wait()
        self._log.close()

    def until(self, target, reached, rounds=20):
        """Waits until that many calls in a row reach exactly these, each of them at least once."""
        last = collections.deque(maxlen=rounds)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                of, said = self._lines.get(timeout=1)
            except queue.Empty:
                continue
            if of == target:
                last.append(said)
                if len(last) == rounds and set(last) == {str(at) for at in reached}:
                    return
        raise AssertionError(f"{target} reached {list(last)}, not {reached}")

    def stay(self, target, reached, n=50):
        """The next calls reach these and no other, and none fails."""
        while not self._lines.empty():
            self._lines.get()
        seen = [self._lines.get(timeout=SECONDS) for _ in range(n)]
        assert {said for of, said in seen if of == target} <= {str(at) for at in reached}


@pytest.fixture(scope="module")
def instances(tmp_path_factory):
    folder = tmp_path_factory.mktemp("instances")
    ports = free_ports(3)
    running = {port: start_instance(port, folder) for port in ports}
    yield ports
    for process in running.values():
        process.kill()


def python():
    return [sys.executable, str(HERE / "grpc_calls.py")]


def node():
    path = shutil.which("node") or shutil.which("nodejs")
    assert path, "no node: install Debian's nodejs and npm"
    installed = JS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (JS / "package-lock.json").stat().st_mtime:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, capture_output=True, text=True,
                              timeout=INSTALL_SECONDS, check=False)  # fmt: skip
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
    return [path, str(JS / "xds_calls.js")]


@pytest.mark.parametrize("client", [python, node])
def test_calls_follow_the_registry(instances, tmp_path, client):
    first, second, third = instances
    with leased_with_xds() as server:
        registry = Registry(server.endpoint)
        registry.register("web", first, checks=[MANUAL], tags=["v1"])
        argv = [*client(), "xds:///web", "xds:///web;tag=v2", "xds:///late"]
        with Calls(argv, bootstrap(tmp_path / "b.json", server.endpoint), tmp_path / "calls.log") as calls:
            calls.until("xds:///web", [first])
            # Nobody has the tag, and nobody registered the other service, yet: a clear error, and then an answer.
            calls.until("xds:///late", ["UNAVAILABLE"], 3)
            registry.register("late", third)
            calls.until("xds:///late", [third])
            registry.register("web", second, tags=["v2"])
            calls.until("xds:///web", [first, second])
            calls.until("xds:///web;tag=v2", [second])
            registry.report("web", f"web-{first}", "manual", "CRITICAL")
            calls.until("xds:///web", [second])
            registry.report("web", f"web-{first}", "manual", "PASSING")
            calls.until("xds:///web", [first, second])
            registry.set_state("web", f"web-{second}", "DRAINING")
            calls.until("xds:///web", [first])
            # The registry is away, and comes back: nothing changes.
            server.restart()
            calls.stay("xds:///web", [first])
            registry.set_state("web", f"web-{second}", "UP")
            calls.until("xds:///web", [first, second])
            registry.deregister("web", f"web-{first}")
            calls.until("xds:///web", [second])


def test_the_near_zone_is_preferred(instances, tmp_path):
    first, second, _ = instances
    with leased_with_xds() as server:
        registry = Registry(server.endpoint)
        registry.register("web", first, zone="a", checks=[MANUAL])
        registry.register("web", second, zone="b")
        path = bootstrap(tmp_path / "b.json", server.endpoint, zone="a")
        argv = [*python(), "xds:///web"]
        with Calls(argv, path, tmp_path / "calls.log") as calls:
            calls.until("xds:///web", [first])
            registry.report("web", f"web-{first}", "manual", "CRITICAL")
            calls.until("xds:///web", [second])


def test_the_example_runs(instances, tmp_path):
    """examples/grpc-xds, with its bootstrap at another port."""
    first, _, _ = instances
    example = PROJECT_ROOT / "examples" / "grpc-xds"
    (port,) = free_ports(1)
    with leased_with_xds(["--listen-xds", f"127.0.0.1:{port}"]) as server:
        Registry(server.endpoint).register("web", first)
        path = tmp_path / "bootstrap.json"
        path.write_text((example / "bootstrap.json").read_text().replace("18000", str(port)))
        with Calls([sys.executable, str(example / "client.py"), "web"], path, tmp_path / "calls.log") as calls:
            calls.until("served", [first], 2)
