"""`lease bench` on a cluster: work through every node, and the gap that the leader's end leaves."""
import json
import subprocess

import pytest

from harness.cluster import Cluster
from harness.kinds import clean_environment, lease_tool

RUN_SECONDS = 60.0


def bench(cluster, *words):
    pids = ",".join(str(server.pid) for server in cluster.servers)
    done = subprocess.run(
        [lease_tool(), "bench", *words, "--json", "--endpoints", cluster.endpoints,
         "--server-pid", pids],
        capture_output=True, text=True, timeout=RUN_SECONDS, env=clean_environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_connections_are_dealt_out_to_the_endpoints():
    with Cluster() as cluster:
        cluster.leader()
        before = [server.metric("leased_connections_total") for server in cluster.servers]
        seen = bench(cluster, "put", "--clients", "6", "--connections", "6",
                     "--duration", "500ms", "--warm-up", "100ms")  # fmt: skip
        assert seen["operations"] > 0
        # All three were measured, not the first alone.
        assert seen["server_rss_bytes"] > 2 * cluster.servers[0].rss_bytes()
        for server, count in zip(cluster.servers, before):
            # Asking for the metrics is a connection too.
            assert server.metric("leased_connections_total") >= count + 3


@pytest.mark.parametrize("by_command", [False, True], ids=["by-pid", "by-command"])
def test_the_leader_is_killed_and_the_gap_is_told(by_command):
    with Cluster() as cluster:
        leader = cluster.leader()
        words = ["--kill", f"kill -9 {cluster.servers[leader].pid}"] if by_command else []
        seen = bench(cluster, "failover", "--warm-up", "300ms", "--duration", "300ms", *words)
        assert cluster.wait_end(leader, 5) == -9
        assert seen["killed_endpoint"] == leader
        # An election takes at least its timeout, and the others had promised the old leader to wait.
        assert 100 < seen["gap_ms"] <= seen["longest_gap_ms"] < 20_000
        assert seen["operations"] > 0
