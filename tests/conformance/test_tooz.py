"""tooz, OpenStack's library for coordination: its own tests, and members that die, at leased and at the original.

Four of its drivers reach five doors: kazoo, redis-py, etcd over gRPC and over the JSON gateway, python3-consul.
"""
import collections
import concurrent.futures
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

import pytest

from harness import zookeeper
from harness.consul import is_served
from harness.kinds import KIND_ETCD, KIND_LEASED, clean_environment
from harness.ports import free_ports
from harness.process import Process
from harness.redis import RedisServer, answers_ping
from harness.server import Server
from harness.wait import wait_for

HERE = pathlib.Path(__file__).parent
SUITE = pathlib.Path(importlib.util.find_spec("tooz").submodule_search_locations[0], "tests", "test_coordination.py")
# One asks for a server that is not there, the other for a machine that does little else.
LEFT_OUT = ("test_connection_error_bad_host", "test_timeout")
SUITE_SECONDS = 200
PASSED_MIN = 40
START_SECONDS = 60.0
# After the time at which what a dead member had is free.
GONE_SECONDS = 40.0
AT_ONCE = 6

# What a driver wants behind the address; how long it keeps what a dead member had, at least and at most. Consul waits for
# another 15 s, the lock-delay that the driver asks for; its members are keys that nothing ends.
Driver = collections.namedtuple("Driver", "scheme options seconds members_go")
DRIVERS = {
    "zookeeper": Driver("zookeeper", "?timeout=5", (1.0, 5.0), True),
    "redis": Driver("redis", "?timeout=5", (1.0, 5.0), True),
    "etcd3": Driver("etcd3", "?timeout=5", (1.0, 5.0), True),
    "etcd3gw": Driver("etcd3+http", "?api_version=v3&timeout=5", (1.0, 5.0), True),
    "consul": Driver("consul", "?ttl=10", (15.0, 25.0), False),
}
PRESENT = {entry.name for entry in importlib.metadata.entry_points(group="tooz.backends")}
NAMES = [name for name, driver in DRIVERS.items() if driver.scheme in PRESENT]


def environment():
    return {**clean_environment(), "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}


def run_suite(url, folder):
    """The outcome of each test."""
    report = os.path.join(folder, "report.xml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tooz_gaps", f"--junitxml={report}",
         "-k", " and ".join(["TestAPI", *(f"not {name}" for name in LEFT_OUT)]), str(SUITE)],
        env={**environment(), "TOOZ_TEST_URL": url}, cwd=folder, capture_output=True, text=True, timeout=SUITE_SECONDS,
        check=False,
    )  # fmt: skip
    assert os.path.exists(report), done.stdout + done.stderr
    cases = ET.parse(report).getroot().iter("testcase")
    outcomes = {case.get("name"): "passed" if len(case) == 0 else case[0].tag for case in cases}
    return outcomes, done.stdout


class Member:
    """A process of tooz_member.py."""

    def __init__(self, url, name, folder):
        self.path = os.path.join(folder, name)
        command = [sys.executable, str(HERE / "tooz_member.py"), url, os.path.basename(folder), name]
        self.process = Process(command, self.path, env=environment(), cwd=folder)

    def sees(self):
        """The last that it has told."""
        assert self.process.is_running(), self.text()
        lines = [line for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return json.loads(lines[-1]) if lines else {}

    def text(self):
        return pathlib.Path(self.path).read_text(encoding="utf-8", errors="replace")

    def wait_until(self, seconds, **expected):
        """Facts that the driver does not tell are None, and are not waited for."""

        def is_so():
            seen = self.sees()
            return seen and all(seen[name] in (value, None) for name, value in expected.items())

        try:
            wait_for(is_so, seconds, f"{expected}")
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.text()}") from error


def kill_a_member(url, driver, folder):
    """What the other one sees at the end, and how long after that it had the lock."""
    first = Member(url, "first", folder)
    first.wait_until(START_SECONDS, has_lock=True, leads=True)
    second = Member(url, "second", folder)
    second.wait_until(START_SECONDS, members=["first", "second"])
    time.sleep(1.0)
    assert not second.sees()["has_lock"] and not second.sees()["leads"], second.text()
    begin = time.monotonic()
    first.process.signal(signal.SIGKILL)
    first.process.wait(GONE_SECONDS)
    second.wait_until(driver.seconds[1] + GONE_SECONDS, has_lock=True)
    taken = time.monotonic() - begin
    members = ["second"] if driver.members_go else ["first", "second"]
    left = ["first"] if driver.members_go else []
    second.wait_until(GONE_SECONDS, leads=True, members=members, left=left)
    end = second.sees()
    assert second.process.terminate(GONE_SECONDS) == 0, second.text()
    return end, taken


def start_leased(stack):
    """Where each driver finds it."""
    zookeeper_port, redis_port, consul_port = free_ports(3)
    flags = [word for name, port in (("zookeeper", zookeeper_port), ("redis", redis_port), ("consul", consul_port))
             for word in (f"--listen-{name}", f"127.0.0.1:{port}")]  # fmt: skip
    server = stack.enter_context(Server(KIND_LEASED, extra_flags=flags))
    wait_for(lambda: answers_ping(redis_port) and is_served(consul_port), START_SECONDS, "leased serves")
    return {
        "zookeeper": f"127.0.0.1:{zookeeper_port}", "redis": f"127.0.0.1:{redis_port}", "etcd3": server.endpoint,
        "etcd3gw": server.endpoint, "consul": f"127.0.0.1:{consul_port}",
    }  # fmt: skip


def start_originals(stack):
    etcd = stack.enter_context(Server(KIND_ETCD))
    return {
        "zookeeper": stack.enter_context(zookeeper.ZooKeeper()).address,
        "redis": f"127.0.0.1:{stack.enter_context(RedisServer()).redis_port}",
        "etcd3": etcd.endpoint,
        "etcd3gw": etcd.endpoint,
    }


@pytest.fixture(scope="module", name="results")
def all_results():
    """Futures by what was done, driver and server. They wait more than they work, so several run at once."""
    folder = tempfile.mkdtemp(prefix="leased-tooz-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = {"leased": start_leased(stack), "original": start_originals(stack)}
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(AT_ONCE))
        results = {}

        def begin(what, name, kind, function, *more):
            if name in servers[kind]:
                own = os.path.join(folder, f"{what}-{name}-{kind}")
                os.mkdir(own)
                url = f"{DRIVERS[name].scheme}://{servers[kind][name]}{DRIVERS[name].options}"
                results[what, name, kind] = pool.submit(function, url, *more, own)

        for name in reversed(NAMES):  # the longest first
            for kind in servers:
                begin("death", name, kind, kill_a_member, DRIVERS[name])
        for name in NAMES:
            for kind in servers:
                begin("suite", name, kind, run_suite)
        yield results


@pytest.mark.parametrize("name", NAMES)
def test_its_own_tests(results, name):
    own, text = results["suite", name, "leased"].result()
    failed = {test for test, outcome in own.items() if outcome in ("failure", "error")}
    allowed = set()
    if ("suite", name, "original") in results:
        other, _ = results["suite", name, "original"].result()
        allowed = {test for test, outcome in other.items() if outcome in ("failure", "error")}
        assert {test for test, outcome in own.items() if outcome == "skipped"} == {
            test for test, outcome in other.items() if outcome == "skipped"
        }
    assert failed <= allowed, text
    assert sum(outcome == "passed" for outcome in own.values()) >= PASSED_MIN, text


@pytest.mark.parametrize("name", NAMES)
def test_a_member_that_is_killed(results, name):
    least, most = DRIVERS[name].seconds
    own, seconds = results["death", name, "leased"].result()
    assert least <= seconds <= most + GONE_SECONDS
    if ("death", name, "original") in results:
        assert own == results["death", name, "original"].result()[0]
