"""tools/cluster: three nodes on loopback in one command, and etcdctl through any of them."""
import json
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


@pytest.fixture
def tool(tmp_path):
    """(process, endpoints) of a running tools/cluster."""
    first = free_block(PORT_STEP * NODES)
    env = {**clean_environment(), "LEASED": binary_of(KIND_LEASED)}
    command = [PROJECT_ROOT / "tools" / "cluster", "--port", first, "--dir", tmp_path / "data"]
    process = Process([str(word) for word in command], tmp_path / "log", env=env)
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


def test_one_command_starts_three_nodes_and_any_of_them_serves(tool):
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
    process.signal(signal.SIGINT)
    assert process.wait(20) == 0
    for endpoint in endpoints:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(endpoint.split(":")[1]))) != 0
