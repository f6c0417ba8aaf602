"""kill -9 at random moments while many clients write; then everybody compares notes.

LEASED_CRASH_ROUNDS says how often, LEASED_CRASH_SEED repeats a run's choices.
"""
import os
import random
import shutil
import subprocess
import threading
import time

import pytest
from crash_checks import (
    check_deleted, check_ends, check_leases, check_pair, check_puts, check_revision, check_tokens,
    check_watched, forget_round,
)  # fmt: skip
from crash_history import CLIENTS, History
from crash_watcher import Watcher

from harness import KIND_LEASED, Server, wait_for
from harness.acceptance import ACCEPTANCE, either, report
from harness.kinds import lease_tool
from harness.rpc import Rpc

ROUNDS = int(os.environ.get("LEASED_CRASH_ROUNDS", either(8, 200)))
SEED = int(os.environ.get("LEASED_CRASH_SEED", random.SystemRandom().randrange(10**6)))
ROUND_SECONDS = (0.1, 1.5)
# Small enough that snapshots are taken, and cut short, in most rounds.
SNAPSHOT_LOG_BYTES = 256 * 1024
# A start that is killed too: somewhere between exec and ready.
START_KILL_SECONDS_MAX = 0.1
START_KILL_SHARE = 0.25
WATCH_ATTEMPTS_MAX = 50

RESTART_LEASES = 100_000
RESTART_SECONDS_MAX = either(10.0, 1.0)


def start_again(server, choose):
    """Starts the server, now and then over the dead body of another start."""
    while choose.random() < START_KILL_SHARE:
        server.launch()
        time.sleep(choose.uniform(0, START_KILL_SECONDS_MAX))
        server.kill()
    server.launch()
    server.wait_ready()


def one_round(server, history, number, choose):
    killed = threading.Event()
    clients = [
        kind(server, history, killed, number * len(CLIENTS) + index)
        for index, kind in enumerate(CLIENTS)
    ]
    for client in clients:
        client.start()
    time.sleep(choose.uniform(*ROUND_SECONDS))
    snapshots = server.metric("leased_raft_snapshots_total")
    killed.set()
    server.kill()
    for client in clients:
        client.join(60)
        assert not client.is_alive(), f"{type(client).__name__} hangs"
    assert not history.unexpected, history.unexpected[:3]
    return snapshots


def check(server, history, watcher):
    with Rpc(server) as rpc:
        revision = check_revision(rpc, history, watcher)
        check_leases(rpc, history)
        check_puts(rpc, history)
        check_pair(rpc, history)
        check_deleted(rpc, history)
        check_tokens(history)
        watcher.wait_until(revision)
        forget_round(rpc, history)
        # Leases end meanwhile, so the two are compared until nothing came in between.
        for _ in range(WATCH_ATTEMPTS_MAX):
            if check_watched(rpc, watcher):
                break
        else:
            raise AssertionError("the store never stood still")
        check_ends(history)
        rpc.compact(watcher.revision)


@pytest.mark.seconds_max(120 + 15 * ROUNDS)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed():
    choose = random.Random(SEED)
    print(f"seed {SEED}, {ROUNDS} rounds")
    history = History()
    watcher = Watcher(history)
    snapshots = 0
    with Server(KIND_LEASED, extra_flags=["--snapshot-log-bytes", SNAPSHOT_LOG_BYTES]) as server:
        for number in range(ROUNDS):
            watcher.connect(server)
            check(server, history, watcher)
            snapshots += one_round(server, history, number, choose)
            watcher.disconnect()
            start_again(server, choose)
        watcher.connect(server)
        check(server, history, watcher)
        with Rpc(server) as rpc:
            short = {lease.id for lease in history.leases.values() if lease.ttl < 60}
            wait_for(lambda: not short & set(rpc.leases()), 30, "the end of abandoned leases")
        check_ends(history)
        watcher.disconnect()
    report("kill -9", rounds=ROUNDS, seed=SEED, snapshots=int(snapshots), events=watcher.events,
           tokens=len(history.tokens), **history.acknowledged)  # fmt: skip
    assert snapshots > 0, "no snapshot was taken: the test is too gentle"
    assert min(history.acknowledged[kind] for kind in ("puts", "grants", "renewals", "txns")) > 0


def test_the_comparison_notices_what_is_lost(tmp_path):
    """The same checks against a server that was put back to an older state must fail."""
    choose = random.Random(SEED)
    history = History()
    watcher = Watcher(history)
    with Server(KIND_LEASED) as server:
        one_round(server, history, 0, choose)
        shutil.copytree(server.data_dir, tmp_path / "old")
        server.restart()
        one_round(server, history, 1, choose)
        shutil.rmtree(server.data_dir)
        shutil.copytree(tmp_path / "old", server.data_dir)
        server.restart()
        with Rpc(server) as rpc:
            for one in (check_puts, check_pair, check_leases):
                with pytest.raises(AssertionError):
                    one(rpc, history)
            with pytest.raises(AssertionError, match="revision is gone"):
                check_revision(rpc, history, watcher)


def first_answer_seconds(server):
    """From exec to the first linearizable read that was answered."""
    begun = time.monotonic()
    server.launch()
    server.wait_listening()
    while True:
        with Rpc(server) as rpc:
            try:
                rpc.range(b"key")
                return time.monotonic() - begun
            except Exception:  # pylint: disable=broad-except
                assert time.monotonic() - begun < 60 and server.is_running()


def test_a_hundred_thousand_leases_are_back_at_once():
    with Server(KIND_LEASED) as server:
        subprocess.run(
            [lease_tool(), "bench", "fill", "--leases", str(RESTART_LEASES),
             "--keys-per-lease", "1", "--endpoint", server.endpoint],
            check=True, timeout=60, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        seconds = []
        for _ in range(3):
            server.kill()
            seconds.append(first_answer_seconds(server))
            assert server.metric("leased_leases") == RESTART_LEASES
            assert server.metric("leased_keys") == RESTART_LEASES
    report("restart with 100,000 leases and keys", seconds=[round(one, 3) for one in seconds])
    bound = max(seconds) if ACCEPTANCE else min(seconds)
    assert bound < RESTART_SECONDS_MAX
