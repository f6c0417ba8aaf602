"""The Lock service and the libraries' Mutex on one name: never two holders, whoever dies."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import grpc
import pytest
from lock_witness import Witness

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.etcdctl import etcdctl_path
from harness.lock_messages import Locks
from harness.ops import end_of

HANDOVERS = either(150, 10_000)
LEADER_KILL_EVERY = either(80, 2000)
# Of a thousand holds, and of a thousand waits.
DEATHS = 8
TTL_SECONDS = 1
STALL_SECONDS_MAX = 60
WORKERS = ["server", "library", "server", "library", "server"]
HERE = pathlib.Path(__file__).parent
CALL_SECONDS = 30


class Workers:
    """Processes of lock_worker.py, each started again when it has killed itself, and one loop of etcdctl lock."""

    def __init__(self, cluster, name, witness):
        self.cluster = cluster
        self.name = name
        self.witness = witness
        self.seed = 0
        self.deaths = 0
        self.processes = [self.start(kind) for kind in WORKERS]
        self.etcdctl = self.start_etcdctl()

    def start(self, kind):
        self.seed += 1
        endpoints = [server.endpoint for server in self.cluster.servers]
        command = [sys.executable, HERE / "lock_worker.py", kind, self.name, self.witness.path,
                   str(self.seed), str(TTL_SECONDS), str(DEATHS), *endpoints]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1"}
        return kind, subprocess.Popen(command, env=env, stderr=subprocess.PIPE)

    def start_etcdctl(self):
        """The library itself. It may fail when the leader is killed; it never holds beside others."""
        endpoints = ",".join(server.endpoint for server in self.cluster.servers)
        script = (
            'while :; do ETCDCTL_API=3 "$0" --endpoints "$1" lock --ttl 5 "$2" -- "$3" "$4" "$5" 3 || sleep 0.1; '
            "done >/dev/null 2>&1"
        )
        return subprocess.Popen(
            ["sh", "-c", script, etcdctl_path(), endpoints, self.name, sys.executable,
             HERE / "lock_witness.py", self.witness.path], start_new_session=True,
        )  # fmt: skip

    def tend(self):
        for index, (kind, process) in enumerate(self.processes):
            if process.poll() is None:
                continue
            assert process.returncode == -signal.SIGKILL, process.stderr.read().decode()
            process.stderr.close()
            self.deaths += 1
            self.processes[index] = self.start(kind)

    def stop(self):
        os.killpg(self.etcdctl.pid, signal.SIGKILL)
        self.etcdctl.wait()
        for _, process in self.processes:
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
        workers = Workers(cluster, "lock", witness)
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
                assert time.monotonic() - moved_at < STALL_SECONDS_MAX, "nobody gets the lock"
                time.sleep(0.05)
        finally:
            workers.stop()
        no_two_holders(witness)
        report("lock hand-overs", holders=witness.holders(), killed_clients=workers.deaths, killed_leaders=kills,
               seconds=round(time.monotonic() - began, 1))  # fmt: skip
        # Nothing is left but what leases of killed clients hold, for their time.
        wait_for(lambda: cluster.rpc(cluster.leader()).range(b"lock/", end_of(b"lock/")).count == 0,
                 CALL_SECONDS, "an empty queue")  # fmt: skip
        cluster.wait_equal()
    witness.close()


# Waiting


def keys_of(cluster, name):
    return cluster.rpc(cluster.leader()).range(name + b"/", end_of(name + b"/")).kvs


def test_a_call_waits_across_a_change_of_the_leader():
    """Of a member that does not lead; the holder's lease lives on as well."""
    with Cluster() as cluster:
        leader = cluster.leader()
        member = next(i for i in range(3) if i != leader)
        locks = Locks(cluster.rpc(member).channel)
        held = locks.lock(b"n").key
        waiting = locks.begin_lock(b"n")
        wait_for(lambda: len(keys_of(cluster, b"n")) == 2, CALL_SECONDS, "a waiter")
        cluster.kill(leader)
        cluster.leader()
        wait_for(lambda: len(keys_of(cluster, b"n")) == 2, CALL_SECONDS, "the queue")
        assert not waiting.done()
        locks.unlock(held)
        key = waiting.result(timeout=CALL_SECONDS).key
        assert key != held
        cluster.restart(leader)
        # Through another member, and a waiter of a third.
        other = Locks(cluster.rpc(leader).channel).begin_lock(b"n")
        wait_for(lambda: len(keys_of(cluster, b"n")) == 2, CALL_SECONDS, "a waiter")
        Locks(cluster.rpc(cluster.leader()).channel).unlock(key)
        assert other.result(timeout=CALL_SECONDS).key != key


def test_a_member_that_stops_ends_its_calls_and_leaves_nothing():
    with Cluster() as cluster:
        leader = cluster.leader()
        member = next(i for i in range(3) if i != leader)
        held = Locks(cluster.rpc(leader).channel).lock(b"n").key
        waiting = Locks(cluster.rpc(member).channel).begin_lock(b"n")
        # The member itself knows the place: before that there is nothing that it could give back.
        wait_for(lambda: cluster.rpc(member).range(b"n/", end_of(b"n/"), serializable=True).count == 2,
                 CALL_SECONDS, "a waiter")  # fmt: skip
        assert cluster.stop(member) == 0, cluster[member].log_tail()
        error = waiting.exception(timeout=CALL_SECONDS)
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        # What it gave back on its way out may still be on its way through the log.
        wait_for(lambda: [kv.key for kv in keys_of(cluster, b"n")] == [held], CALL_SECONDS, "the place is given back")
