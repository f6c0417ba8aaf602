"""`lease status` answers for every node that is up, whether or not there is a leader."""
import json
import subprocess
import time

import pytest

from harness import wait_for
from harness.cluster import Cluster
from harness.kinds import clean_environment, lease_tool

# Far less than the five seconds after which a node gives up waiting for a leader.
ANSWER_SECONDS_MAX = 3.0


def lease_status(endpoints, *words):
    return subprocess.run(
        [lease_tool(), "--endpoints", endpoints, "status", *words],
        env=clean_environment(), capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip


def rows(done):
    return {row["endpoint"]: row for row in json.loads(done.stdout)["endpoints"]}


@pytest.mark.parametrize("survivor", ["leader", "follower"])
def test_one_of_three_is_shown_quickly_and_without_a_leader(survivor):
    with Cluster() as cluster:
        leader = cluster.leader()
        cluster.rpc(leader).grant(300)
        done = lease_status(cluster.endpoints, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert {row["leases"] for row in rows(done).values()} == {1}
        alone = leader if survivor == "leader" else cluster.followers()[0]
        for node in range(3):
            if node != alone:
                cluster.kill(node)

        begun = time.monotonic()
        done = lease_status(cluster.endpoints, "--json")
        took_seconds = time.monotonic() - begun
        assert took_seconds < ANSWER_SECONDS_MAX
        assert done.returncode == 1
        assert set(rows(done)) == {cluster[alone].endpoint}, "whoever is up is shown at once"
        assert rows(done)[cluster[alone].endpoint]["leases"] in (1, None)

        wait_for(lambda: rows(lease_status(cluster.endpoints, "--json"))
                 [cluster[alone].endpoint]["leader"] is None, 10, "no leader")  # fmt: skip
        begun = time.monotonic()
        done = lease_status(cluster.endpoints)
        assert time.monotonic() - begun < ANSWER_SECONDS_MAX
        assert done.returncode == 1
        _, row = done.stdout.splitlines()
        cells = row.split()
        assert cells[0] == cluster[alone].endpoint and cells[3] == "none"
        assert cells[-3] == "-", "the number of leases is a read that needs a quorum"
        assert f"{cluster[alone].endpoint} knows no leader" in done.stderr
        assert done.stderr.count("cannot be reached: connection refused") == 2

        cluster.restart(*[node for node in range(3) if node != alone])
        cluster.leader()
        wait_for(lambda: lease_status(cluster.endpoints).returncode == 0, 10, "all is well again")
