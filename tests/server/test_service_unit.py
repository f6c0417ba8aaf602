"""The unit that is installed: systemd takes it, and it confines the server."""
import re
import shutil
import subprocess

import pytest

from harness.kinds import PROJECT_ROOT

EXPOSURE_MAX = 2.0

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def unit(tmp_path):
    text = (PROJECT_ROOT / "packaging" / "leased.service").read_text(encoding="utf-8")
    path = tmp_path / "leased.service"
    path.write_text(text.replace("@bindir@/leased", "/bin/true"), encoding="utf-8")
    return path


def settings(unit):
    lines = unit.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Za-z]+=", line))


@needs_systemd
def test_systemd_takes_every_line(unit):
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "leased.service" in line]
    assert complaints == []


@needs_systemd
def test_the_server_is_confined(unit):
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", str(unit)],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    level = re.search(r"exposure level for leased.service: ([0-9.]+)", done.stdout)
    if level is None:
        pytest.skip("this systemd cannot judge a unit that is not installed")
    assert float(level.group(1)) <= EXPOSURE_MAX


def test_memory_tasks_and_dumps_are_limited_and_nobody_else_dies_first(unit):
    given = settings(unit)
    assert {"MemoryMax", "TasksMax"} <= set(given)
    assert given["LimitCORE"] == "0"
    assert given["ProcSubset"] == "pid"
    assert "OOMScoreAdjust" not in given
