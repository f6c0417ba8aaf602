"""leased's own API on three nodes: waiters on any of them, leaders and holders killed, never two holders."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from lock_witness import Witness

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.native import Native, want

HANDOVERS = either(80, 10_000)
LEADER_KILL_EVERY = either(50, 2000)
# Of a thousand holds, and of a thousand waits.
DEATHS = either(40, 8)
TTL_SECONDS = 1
STALL_SECONDS_MAX = 60
N_WORKERS = 4
HERE = pathlib.Path(__file__).parent
CALL_SECONDS = 30


class Workers:
    """Processes of native_worker.py, each started again when it has killed itself."""

    def __init__(self, cluster, witness):
        self.cluster = cluster
        self.witness = witness
        self.seed = 0
        self.deaths = 0
        self.processes = [self.start() for _ in range(N_WORKERS)]

    def start(self):
        self.seed += 1
        endpoints = [server.endpoint for server in self.cluster.servers]
        command = [sys.executable, HERE / "native_worker.py", "lock", self.witness.path, str(self.seed),
                   str(TTL_SECONDS), str(DEATHS), *endpoints]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen(command, env=env, stderr=subprocess.PIPE)

    def tend(self):
        for index, process in enumerate(self.processes):
            if process.poll() is None:
                continue
            assert process.returncode == -signal.SIGKILL, process.stderr.read().decode()
            process.stderr.close()
            self.deaths += 1
            self.processes[index] = self.start()

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stderr.close()


def no_two_holders(witness):
    wrong = pathlib.Path(witness.path + ".wrong")
    assert not wrong.exists(), wrong.read_text(encoding="utf-8")


@pytest.mark.seconds_max(120 + HANDOVERS // 2)
def test_never_two_holders(tmp_path):
    witness = Witness(str(tmp_path / "witness"))
    with Cluster() as cluster:
        workers = Workers(cluster, witness)
        began = time.monotonic()
        next_kill, kills = LEADER_KILL_EVERY, 0
        last, moved_at = 0, began
        try:
            while witness.holders() < HANDOVERS:
                workers.tend()
                no_two_holders(witness)
                if witness.holders() >= next_kill:
                    next_kill += LEADER_KILL_EVERY
                    kills += 1
                    leader = cluster.leader()
                    cluster.kill(leader)
                    cluster.restart(leader)
                if witness.holders() != last:
                    last, moved_at = witness.holders(), time.monotonic()
                assert time.monotonic() - moved_at < STALL_SECONDS_MAX, "nobody gets the resource"
                time.sleep(0.02)
        finally:
            workers.stop()
        no_two_holders(witness)
        report("native hand-overs", holders=witness.holders(), killed_clients=workers.deaths, killed_leaders=kills,
               seconds=round(time.monotonic() - began, 1))  # fmt: skip
        # Nothing is left but what sessions of killed clients hold, for their time.
        native = Native(cluster.rpc(cluster.leader()).channel)
        wait_for(lambda: not native.call("Sessions/List").sessions, CALL_SECONDS, "the end of all sessions")
        assert not native.call("Resources/List").states
        cluster.wait_equal()
    witness.close()


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    with Cluster() as cluster:
        yield cluster


def test_a_call_waits_across_a_change_of_the_leader(cluster):
    leader = cluster.leader()
    member = next(index for index in range(3) if index != leader)
    native = Native(cluster.rpc(member).channel)
    one, two = native.session("one"), native.session("two")
    held = native.acquire(one, want("n"))
    stream = native.stream("Resources/Acquire", session_id=two, wants=[want("n")], wait_ms=-1)
    place = next(stream)
    assert place.position == 1 and 0 < place.holder_remaining_ms <= 61_000, "asked of the leader"
    cluster.kill(leader)
    cluster.leader()
    wait_for(lambda: native.resource("n").waiting == 1, CALL_SECONDS, "the queue")
    native.release(held)
    told = next(stream).acquisition
    assert told.id == place.acquisition.id and told.token > held.token
    cluster.restart(leader)
    # Through another member, and a waiter of a third.
    other = Native(cluster.rpc(leader).channel)
    waiting = other.begin_acquire(other.session(), want("n"))
    wait_for(lambda: native.resource("n").waiting == 1, CALL_SECONDS, "a waiter")
    Native(cluster.rpc(cluster.leader()).channel).call("Sessions/End", session_id=two)
    assert waiting.result(timeout=CALL_SECONDS).acquisition.token > told.token


def test_a_member_that_stops_ends_its_calls(cluster):
    leader = cluster.leader()
    member = next(index for index in range(3) if index != leader)
    native = Native(cluster.rpc(leader).channel)
    native.acquire(native.session(), want("stop"))
    other = Native(cluster.rpc(member).channel)
    session = native.session("waiter")
    waiting = other.begin_acquire(session, want("stop"))
    wait_for(lambda: native.resource("stop").waiting == 1, CALL_SECONDS, "a waiter")
    assert cluster.stop(member) == 0, cluster[member].log_tail()
    assert waiting.exception(timeout=CALL_SECONDS) is not None
    # Its session lives: it may ask at another member.
    assert native.call("Sessions/Get", session_id=session).session.id == session
    cluster.restart(member)
