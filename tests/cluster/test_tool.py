"""tools/cluster, as README.md shows it: three nodes on loopback in one command, and etcdctl through any of them."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from harness import KIND_LEASED, PROJECT_ROOT, Process, binary_of, wait_for
from harness.etcdctl import etcdctl_path
from harness.kinds import clean_environment
from harness.ports import free_block

NODES = 3
PORT_STEP = 10
START_SECONDS = 30.0


def launch(tmp_path, first, leased=None):
    env = {**clean_environment(), "LEASED": str(leased or binary_of(KIND_LEASED))}
    # A process group of its own, as the foreground job of a shell has: Ctrl-C is sent to the group.
    command = ["setsid", PROJECT_ROOT / "tools" / "cluster", "--port", first, "--dir", tmp_path / "data"]
    return Process([str(word) for word in command], tmp_path / "log", env=env)


@pytest.fixture
def tool(tmp_path):
    """(process, endpoints) of a running tools/cluster."""
    first = free_block(PORT_STEP * NODES)
    process = launch(tmp_path, first)
    try:
        yield process, [f"127.0.0.1:{first + PORT_STEP * node}" for node in range(NODES)]
    finally:
        if process.is_running():
            process.terminate()


def etcdctl(endpoints, *words, check=True):
    return subprocess.run(
        [etcdctl_path(), "--endpoints", endpoints, *words],
        env={**clean_environment(), "ETCDCTL_API": "3"},
        capture_output=True, timeout=20, check=check, text=True,
    )  # fmt: skip


def leaders(endpoints):
    """Who leads, as each of the nodes tells; None while not all of them answer."""
    done = etcdctl(",".join(endpoints), "endpoint", "status", "--write-out=json", check=False)
    if done.returncode != 0:
        return None
    statuses = [one["Status"] for one in json.loads(done.stdout)]
    told = {status.get("leader", 0) for status in statuses}
    members = {status["header"]["member_id"] for status in statuses}
    return told if len(members) == NODES and told <= members else None


def text_of(process):
    with open(process.log_path, encoding="utf-8") as log:
        return log.read()


def pids(process):
    """The nodes' process ids, in order, as the tool prints them."""
    found = re.findall(r"^n\d+: pid (\d+) serves", text_of(process), re.MULTILINE)
    return [int(pid) for pid in found] if len(found) == NODES else None


def wait_started(process, endpoints):
    wait_for(lambda: leaders(endpoints), START_SECONDS, "three nodes that know a leader")
    return pids(process)


def is_served(endpoints, value):
    done = etcdctl(",".join(endpoints), "put", "/key", value, check=False)
    return done.returncode == 0


def test_one_command_starts_three_nodes_and_any_of_them_serves(tool, tmp_path):
    process, endpoints = tool
    told = wait_for(lambda: leaders(endpoints), START_SECONDS, "three nodes that know a leader")
    assert len(told) == 1, "endpoint status shows several leaders"
    table = etcdctl(",".join(endpoints), "endpoint", "status", "--write-out=table").stdout
    rows = [line for line in table.splitlines() if "127.0.0.1" in line]
    assert len(rows) == NODES
    # ENDPOINT, ID, VERSION, DB SIZE, IS LEADER, …
    assert [row.split("|")[5].strip() for row in rows].count("true") == 1
    for number, writer in enumerate(endpoints):
        etcdctl(writer, "put", "/key", f"value{number}")
        lease = etcdctl(writer, "lease", "grant", "60").stdout.split()[1]
        reader = endpoints[number - 1]
        assert etcdctl(reader, "get", "/key").stdout == f"/key\nvalue{number}\n"
        assert "remaining" in etcdctl(reader, "lease", "timetolive", lease).stdout
        etcdctl(reader, "lease", "keep-alive", "--once", lease)
    assert_clean_end(process, endpoints, tmp_path, signal.SIGTERM)


def assert_clean_end(process, endpoints, tmp_path, number):
    """Ctrl-C sends its signal to the whole group; every node must stop in order all the same."""
    os.killpg(process.pid, number)
    assert process.wait(20) == 0, process.log_tail()
    for endpoint in endpoints:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(endpoint.split(":")[1]))) != 0
    for node in range(1, NODES + 1):
        lines = (tmp_path / "data" / f"n{node}.log").read_text().splitlines()
        assert json.loads(lines[-1])["msg"] == "closed etcd server", lines[-1]


def test_ctrl_c_stops_every_node_in_order(tool, tmp_path):
    process, endpoints = tool
    wait_started(process, endpoints)
    assert_clean_end(process, endpoints, tmp_path, signal.SIGINT)


def test_two_nodes_go_on_when_the_leader_is_killed(tool):
    """The fail-over demonstration of the README."""
    process, endpoints = tool
    nodes = wait_started(process, endpoints)
    etcdctl(endpoints[0], "put", "/kept", "before")
    statuses = json.loads(
        etcdctl(",".join(endpoints), "endpoint", "status", "--write-out=json").stdout
    )
    leader = next(
        index for index, one in enumerate(statuses)
        if one["Status"]["leader"] == one["Status"]["header"]["member_id"]
    )  # fmt: skip
    os.kill(nodes[leader], signal.SIGKILL)
    others = [endpoint for index, endpoint in enumerate(endpoints) if index != leader]
    wait_for(lambda: is_served(others, "after"), START_SECONDS, "a write through the two others")
    for endpoint in others:
        assert etcdctl(endpoint, "get", "/kept").stdout == "/kept\nbefore\n"
    name = f"n{leader + 1}"
    wait_for(lambda: "nodes still run" in text_of(process), 5, "the report of the end")
    text = text_of(process)
    assert f"cluster: {name} (pid {nodes[leader]}) was killed by SIGKILL" in text
    assert "2 of 3 nodes still run" in text
    assert f"--name' '{name}'" in text.rpartition("again:")[2], "no command to start it again"
    assert process.is_running()
    # Nothing restarts it: its port stays closed while the others have long elected another leader.
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(endpoints[leader].split(":")[1]))) != 0
    for index, pid in enumerate(nodes):
        if index != leader:
            os.kill(pid, 0)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 0, process.log_tail()


def test_each_of_two_ends_at_once_is_reported_and_the_third_goes_on(tool):
    process, endpoints = tool
    nodes = wait_started(process, endpoints)
    os.kill(nodes[0], signal.SIGKILL)
    os.kill(nodes[1], signal.SIGKILL)
    wait_for(lambda: "1 of 3 nodes still run" in text_of(process), 10, "both reports")
    for pid in nodes[:2]:
        assert f"(pid {pid}) was killed by SIGKILL" in text_of(process)
    os.kill(nodes[2], signal.SIGTERM)
    assert process.wait(20) == 1
    assert "every node has ended" in text_of(process)


def test_a_node_that_cannot_start_is_named_with_its_reason(tmp_path):
    first = free_block(PORT_STEP * NODES)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        process = launch(tmp_path, first)
        try:
            wait_for(lambda: "nodes still run" in text_of(process), START_SECONDS, "the report")
            text = text_of(process)
            assert re.search(r"cluster: n1 \(pid \d+\) ended with exit code 1", text)
            assert "address already in use" in text.lower() and str(first) in text
            others = [f"127.0.0.1:{first + PORT_STEP * node}" for node in (1, 2)]
            wait_for(lambda: is_served(others, "x"), START_SECONDS, "a write through the others")
        finally:
            assert process.terminate() == 0
