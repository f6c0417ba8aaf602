"""Many `lease lock` on one name: served in the order in which they came, and nothing is left of those that are killed."""
import os
import signal
import time

from cli_tool import Running, lease_json
from harness import Server
from harness.acceptance import either, report
from harness.wait import wait_for

WAITING = either(8, 1000)
KILLED_EVERY = either(4, 10)
SECONDS = either(100.0, 900.0)


def descendants(pids):
    """Processes whose parents are among these, and theirs."""
    found = set(pids)
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii") as stat:
                    parents[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - set(pids)
        found |= more


def test_those_who_wait_are_served_in_order():
    with Server("leased") as server:
        first = Running("lock", "many", "--", "sh", "-c", 'echo "$LEASE_TOKEN"; exec sleep 6000', server=server)
        waiting = []
        try:
            tokens = [int(first.line())]
            for _ in range(WAITING):
                one = Running("lock", "many", "--verbose", "--", "sh", "-c", "echo $LEASE_TOKEN", server=server)
                assert "waiting for many" in one.error_line(SECONDS)
                waiting.append(one)
            killed = waiting[::KILLED_EVERY]
            for one in killed:
                one.process.kill()
                one.wait()
            # A closed connection is told from one whose client has only finished writing after a moment.
            wait_for(lambda: lease_json(server, "get", "many")["waiting"] == WAITING - len(killed), SECONDS, "they left")
            left = descendants([first.process.pid])
            begun = time.monotonic()
            first.signal(signal.SIGTERM)
            for one in waiting:
                if one not in killed:
                    tokens.append(int(one.line(SECONDS)))
            seconds = time.monotonic() - begun
            assert tokens == sorted(set(tokens)), "somebody overtook another"
            for one in waiting:
                one.wait(SECONDS)
            wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in left), SECONDS, "nothing left behind")
        finally:
            for one in [first, *waiting]:
                one.__exit__()
    report("many locks", waiting=WAITING, killed=len(killed), ms_per_hand_over=round(seconds * 1000 / (len(tokens) - 1), 2))
