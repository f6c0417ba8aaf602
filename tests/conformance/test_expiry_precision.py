"""A lease ends when it is due: never before, and in leased at most 20 ms after.

LEASED_PRECISION_RUNS leases (5 unless told otherwise) are granted one after the
other and run out one after the other; nothing else happens on the server. etcd is
measured in the same way with the bound that its half-second scan allows.
"""
import os
import threading
import time

import pytest

from harness import KIND_ETCD, KIND_LEASED
from harness.ops import end_of
from harness.rpc import Rpc

TTL_SECONDS = 5
LATE_SECONDS_MAX = {KIND_LEASED: 0.020, KIND_ETCD: 1.5}
# Far enough apart that no lease waits for its neighbour.
STAGGER_SECONDS = 0.1

# While other work keeps the processors busy, nobody can be on time to the millisecond.
# Such a round is played again; when none was quiet, a wider bound must do, which still
# tells a timing wheel from a scan twice a second.
BUSY_SHARE_MAX = 0.25
OWN_LATE_SECONDS_MAX = 0.005
ROUNDS_MAX = 4
BUSY_LATE_SECONDS_MAX = {KIND_LEASED: 0.250, KIND_ETCD: 3.0}


class Control(threading.Thread):
    """Sleeps until a moment and remembers how late it woke."""

    def __init__(self, moment):
        super().__init__(daemon=True)
        self._moment = moment
        self.late_s = None
        self.start()

    def run(self):
        time.sleep(max(0.0, self._moment - time.monotonic()))
        self.late_s = time.monotonic() - self._moment


def processor_ticks():
    """(busy, all) of the whole machine so far. Waiting for the disk counts as busy."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3], sum(ticks)


def play_round(client, observer, prefix, runs):
    """Answers, for each lease, how late it was at least, at most, and our own timer beside it."""
    timings, controls = {}, {}
    with observer.watch() as stream:
        stream.create(prefix, end_of(prefix))
        for number in range(runs):
            key = prefix + b"%d" % number
            asked = time.monotonic()
            lease = client.grant(TTL_SECONDS).ID
            answered = time.monotonic()
            client.put(key, lease=lease)
            controls[key] = Control(answered + TTL_SECONDS)
            timings[key] = (asked, answered)
            time.sleep(STAGGER_SECONDS)
        late = {}
        while len(late) < runs:
            for event in stream.receive(TTL_SECONDS + 5).events:
                if event.type == 0:
                    continue
                asked, answered = timings[event.kv.key]
                # The server counts from its answer, which it gave between these two.
                at_most = stream.received_at - asked - TTL_SECONDS
                at_least = stream.received_at - answered - TTL_SECONDS
                controls[event.kv.key].join()
                late[event.kv.key] = (at_least, at_most, controls[event.kv.key].late_s)
    return list(late.values())


@pytest.mark.alone
def test_a_lease_ends_on_time(server, prefix):
    runs = int(os.environ.get("LEASED_PRECISION_RUNS", "5"))
    worst_s = []
    with Rpc(server) as client, Rpc(server) as observer:
        for number in range(1, ROUNDS_MAX + 1):
            busy_before, all_before = processor_ticks()
            late = play_round(client, observer, f"{prefix}{number}/".encode(), runs)
            busy_after, all_after = processor_ticks()
            busy_share = (busy_after - busy_before) / max(1, all_after - all_before)
            own_s = max(control for _, _, control in late)
            worst_s.append(max(at_least for at_least, _, _ in late))
            shown = ", ".join(f"{1000 * at_least:.1f}" for at_least, _, _ in late)
            print(
                f"{server.kind}: late by {shown} ms; own timers by up to {1000 * own_s:.1f} ms, "
                f"processors {100 * busy_share:.0f} % busy"
            )
            # Too early is wrong however busy the machine is.
            for _, at_most, _ in late:
                assert at_most >= 0, f"ended {-1000 * at_most:.1f} ms before its time"
            if worst_s[-1] <= LATE_SECONDS_MAX[server.kind]:
                return
            # etcd takes seconds now and then, when a revocation of its own is tried again.
            is_quiet = busy_share <= BUSY_SHARE_MAX and own_s <= OWN_LATE_SECONDS_MAX
            if is_quiet and server.kind == KIND_LEASED:
                pytest.fail(f"late by {shown} ms on a quiet machine")
    assert min(worst_s) <= BUSY_LATE_SECONDS_MAX[server.kind]
