"""Many that wait for one name: a hand-over costs the same messages and the same time as with one that waits."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading

import lease
import pytest
from harness import KIND_LEASED, PROJECT_ROOT, Server
from harness.acceptance import ACCEPTANCE, either, report
from harness.wait import wait_for

PROCESSES = either(2, 10)
SESSIONS = either(10, 100)  # of each
HAND_OVERS = either(100, 2000)
SECONDS = 100.0
# Renewals come with time, not with hand-overs.
NOT_OF_HAND_OVERS = "Renew"
SLOWER_MAX = 1.5


def messages(server):
    """All that were sent and received by the native API."""
    text = server.http_get("/metrics", timeout_s=30)[1].decode()
    found = re.findall(r'^grpc_server_msg_(?:sent|received)_total\{grpc_method="(\w+)",grpc_service="leased\.v1\S*\} (\d+)', text,
                       re.MULTILINE)  # fmt: skip
    return sum(int(count) for method, count in found if method != NOT_OF_HAND_OVERS)


class Waiters:
    """Processes whose lines are collected. They wait in turns, one behind the other: with the next in its own process, a
    client would still be busy with the call before, and that is not the hand-over's time."""

    def __init__(self, server, client, name, processes, sessions):
        program = pathlib.Path(__file__).with_name("waiter.py")
        env = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT / "python")}
        self.lines = []
        self.processes = [
            subprocess.Popen([sys.executable, str(program), server.endpoint, name, str(sessions)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
            for _ in range(processes)
        ]  # fmt: skip
        for process in self.processes:
            threading.Thread(target=self._read, args=[process.stdout], daemon=True).start()
        for number in range(processes * sessions):
            stream = self.processes[number % processes].stdin
            stream.write("\n")
            stream.flush()
            wait_for(lambda: client.resource(name).waiting == number + 1, SECONDS, "one more waits")

    def _read(self, stream):
        for line in stream:
            if len(words := line.split()) == 3:
                self.lines.append(tuple(map(int, words)))

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()


def hand_over(server, client, name, processes, sessions):
    """(messages for each, median in ms, tokens) of hand-overs between these, all of whom wait but one."""
    with client.session() as session:
        hold = session.lock(name)
        waiters = Waiters(server, client, name, processes, sessions)
        try:
            before = messages(server)
            hold.release()
            wait_for(lambda: len(waiters.lines) >= HAND_OVERS, SECONDS, "hand-overs")
            counted = messages(server) - before
            lines = sorted(waiters.lines)
        finally:
            waiters.close()
    took = [(after[1] - given[2]) / 1e6 for given, after in zip(lines, lines[1:])]
    return counted / len(lines), statistics.median(took)


@pytest.mark.seconds_max(600)
def test_a_hand_over_does_not_depend_on_how_many_wait():
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client:
        few_messages, few_ms = hand_over(server, client, "few", 2, 1)
        many_messages, many_ms = hand_over(server, client, "many", PROCESSES, SESSIONS)
    report("hand-over", waiting=PROCESSES * SESSIONS, messages=round(many_messages, 2), messages_of_two=round(few_messages, 2),
           p50_ms=round(many_ms, 3), p50_ms_of_two=round(few_ms, 3))  # fmt: skip
    # Lines and messages are counted while it goes on.
    assert abs(many_messages - few_messages) < 1.5
    assert not ACCEPTANCE or many_ms <= few_ms * SLOWER_MAX
