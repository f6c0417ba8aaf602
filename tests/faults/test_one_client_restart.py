"""What one client has done does not make the next start slow or large."""
import re
import time
from pathlib import Path

from redis_attack import attacked, connections, flood, request

from harness.acceptance import ACCEPTANCE, either, report
from harness.redis import Resp, leased_with_redis

PEAK_MIB_MAX = 512
START_SECONDS_MAX = 2.0  # two snapshots of the history that is kept, and what came after them


def peak_mib(server):
    """The most that the process has had resident."""
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def start_again(server, name):
    """A start after a kill: how long it takes, and the most memory that it takes."""
    server.kill()
    begun = time.monotonic()
    server.launch()
    server.wait_ready()
    took, peak = time.monotonic() - begun, peak_mib(server)
    report(name, seconds=round(took, 2), peak_mib=round(peak))
    assert peak < PEAK_MIB_MAX
    assert not ACCEPTANCE or took < START_SECONDS_MAX


def test_small_changes_of_a_large_value_are_applied_again_in_bounded_memory():
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            assert resp("SET", "big", "x" * 1_000_000) == ("+", b"OK")
        with attacked(server, "redis: SETRANGE of a large value before a start"):
            with connections(server) as opened:
                flood(opened, request("SETRANGE", "big", "0", "x") * 100, either(5.0, 20.0))
        start_again(server, "a start after SETRANGE of a large value")
        with Resp(server.redis_port) as resp:
            assert resp("STRLEN", "big") == (":", b"1000000")


def test_scripts_that_are_much_work_are_not_all_run_again():
    """Each is a hundred bytes of the log."""
    script = 'for i = 1, 100000 do end return redis.call("INCR", KEYS[1])'
    with leased_with_redis() as server:
        with attacked(server, "redis: scripts that are much work before a start"):
            with connections(server) as opened:
                flood(opened, request("EVAL", script, "1", "count") * 50, either(3.0, 15.0))
        with Resp(server.redis_port) as resp:
            before = int(resp("GET", "count")[1])
        start_again(server, "a start after scripts that are much work")
        with Resp(server.redis_port) as resp:
            assert int(resp("GET", "count")[1]) >= before  # some were still on their way
