"""Three nodes started and stopped over and over on a busy machine: every stop is clean and soon over.

SIGTERM comes at a random moment: while they start, elect, or serve. Several clusters do so at once, so that the machine
has more to do than it can. LEASED_STOP_CYCLES and LEASED_STOP_LOOPS change how many cycles there are, and how many
clusters at once.
"""
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from register import SEED

from harness import wait_for
from harness.acceptance import either, report
from harness.certificates import Authority
from harness.cluster import Cluster

LOOPS = int(os.environ.get("LEASED_STOP_LOOPS", 8))
PLAIN_CYCLES = int(os.environ.get("LEASED_STOP_CYCLES", either(18, 1000)))
TLS_CYCLES = int(os.environ.get("LEASED_STOP_CYCLES", either(12, 1000)))
STOP_SECONDS_MAX = 15.0
# After all three heed signals. Ready they are after about half a second when nothing else runs.
DELAY_SECONDS_MAX = 1.2
START_SECONDS = 20.0
CYCLE_SECONDS_MAX = 40.0


def heeds_signals(server):
    """Whether SIGTERM has a handler: before that it ends any process."""
    if not server.is_running():
        return True
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


class Loop(threading.Thread):
    """One cluster, started and stopped until nothing is left of the cycles that all loops share."""

    def __init__(self, cycles, choose, authority):
        super().__init__(daemon=True)
        self._cycles = cycles
        self._choose = choose
        self._cluster = Cluster(authority=authority)
        self.seconds = []
        self.wrong = []

    def run(self):
        try:
            for number in self._cycles:
                self._cycle(number)
        except Exception as error:  # pylint: disable=broad-except
            self.wrong.append(repr(error))
        finally:
            self._cluster.close()

    def _cycle(self, number):
        servers = self._cluster.servers
        for server in servers:
            server.launch()
        for server in servers:
            wait_for(lambda: heeds_signals(server), START_SECONDS, "a handler of SIGTERM")  # pylint: disable=cell-var-from-loop
        time.sleep(self._choose.uniform(0, DELAY_SECONDS_MAX))
        for server in self._choose.sample(servers, len(servers)):
            server.process.signal(signal.SIGTERM)
        begun = time.monotonic()
        for server in servers:
            self._wait_end(number, server, begun + STOP_SECONDS_MAX)
        self.seconds.append(time.monotonic() - begun)

    def _wait_end(self, number, server, deadline):
        try:
            code = server.process.wait(max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            server.process.kill()
            code = "none in time"
        if code != 0:
            self.wrong.append(f"cycle {number}, {server.name}: exit code {code}: {server.log_tail(1500)}")


class Cycles:
    """Numbers that several loops take from."""

    def __init__(self, count):
        self._left = iter(range(count))
        self._lock = threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            return next(self._left)


def run_loops(count, authority=None):
    print(f"seed {SEED}")
    cycles = Cycles(count)
    loops = [Loop(cycles, random.Random(SEED + number), authority) for number in range(LOOPS)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    wrong = [text for loop in loops for text in loop.wrong]
    seconds = [one for loop in loops for one in loop.seconds]
    report("stops over TLS" if authority else "stops", cycles=len(seconds), loops=LOOPS, wrong=len(wrong),
           slowest_s=round(max(seconds, default=0), 2))  # fmt: skip
    assert not wrong, f"{len(wrong)} of {3 * count} stops: " + "\n".join(wrong[:3])
    assert len(seconds) == count


@pytest.mark.seconds_max(60 + CYCLE_SECONDS_MAX * PLAIN_CYCLES / LOOPS)
def test_every_stop_is_clean():
    run_loops(PLAIN_CYCLES)


@pytest.mark.seconds_max(60 + CYCLE_SECONDS_MAX * TLS_CYCLES / LOOPS)
def test_every_stop_is_clean_over_tls():
    with Authority() as authority:
        run_loops(TLS_CYCLES, authority)
