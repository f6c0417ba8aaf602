"""Kills, stops, storms and cuts at once, with snapshots all the time: libraft is not to break."""
import os
import random
import time

import pytest
from clients import Churner, Load
from register import SEED, Register
from troubles import chaos

from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.network import Network

SECONDS = float(os.environ.get("LEASED_CHAOS_SECONDS", either(6.0, 120.0)))
# So little that the log is cut every few seconds, and who was away is sent a snapshot.
FLAGS = ("--snapshot-log-bytes", 256 * 1024)
TTL_SECONDS = 60


def newest_snapshot(server):
    """The index of the newest snapshot on disk, 0 without one."""
    names = os.listdir(os.path.join(server.data_dir, "raft"))
    return max((int(name.split("-")[1]) for name in names if name.startswith("snap-")), default=0)


@pytest.mark.parametrize("size", either([3], [3, 5]))
@pytest.mark.seconds_max(180 + SECONDS)
def test_nothing_breaks_whatever_comes_together(size):
    with Network(size) as network, Cluster(size, network=network, extra_flags=FLAGS) as cluster:
        load = Load(cluster, ttl_s=TTL_SECONDS)
        load.clients.append(Churner(cluster, range(size), "churner"))
        with load:
            with Register(cluster, clients=3) as register:
                until = time.monotonic() + SECONDS
                done = chaos(cluster, random.Random(SEED), until)
                cluster.leader()
        load.check_all(cluster)
        snapshots = [newest_snapshot(server) for server in cluster.servers]
        term = cluster.status(0).raftTerm
    report(f"chaos of {size}", seconds=SECONDS, **done, terms=term, newest_snapshots=snapshots,
           acknowledged=len(load.acknowledged()), **register.check())  # fmt: skip
    assert min(snapshots) > 0, "nothing was cut, nothing was shown"
