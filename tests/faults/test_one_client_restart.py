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


def test_small_changes_of_a_large_value_are_applied_again_in_bounded_memory():
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            assert resp("SET", "big", "x" * 1_000_000) == ("+", b"OK")
        with attacked(server, "redis: SETRANGE of a large value before a start"):
            with connections(server) as opened:
                flood(opened, request("SETRANGE", "big", "0", "x") * 100, either(5.0, 20.0))
        server.kill()
        begun = time.monotonic()
        server.launch()
        server.wait_ready()
        took, peak = time.monotonic() - begun, peak_mib(server)
        report("a start after SETRANGE of a large value", seconds=round(took, 2), peak_mib=round(peak))
        assert peak < PEAK_MIB_MAX
        assert not ACCEPTANCE or took < START_SECONDS_MAX
        with Resp(server.redis_port) as resp:
            assert resp("STRLEN", "big") == (":", b"1000000")
