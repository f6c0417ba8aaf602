"""tools/pytest-lanes: every test runs once, whatever fails is counted, and an interrupted run leaves nothing behind."""
import os
import signal
import subprocess
import sys

import pytest

from harness import PROJECT_ROOT, wait_for

LANES = os.path.join(PROJECT_ROOT, "tools", "pytest-lanes")
COUNT = os.path.join(PROJECT_ROOT, "tools", "count-tests")
RUN_SECONDS = 60.0

NOTE = """
import os, pathlib
def note(name):
    with pathlib.Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(name + "\\n")
"""


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Where the tests of a run write that they ran."""
    path = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(path))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone: by itself\n")
    return path


def command(folder):
    return [sys.executable, LANES, "--lanes", "3", str(folder), str(folder)]


def run(folder):
    done = subprocess.run(command(folder), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    count = subprocess.run(
        [sys.executable, COUNT, "pytest", str(folder / "pytest.xml"), str(done.returncode)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return done, count.split()


def test_each_test_runs_once_and_each_failure_counts(tmp_path, notes):
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text(f"""{NOTE}
import pytest
def test_good(): note("good {number}")
def test_bad(): note("bad {number}"); assert {number} != 4
@pytest.mark.skip(reason="to see")
def test_skipped(): note("skipped")
@pytest.mark.alone
def test_alone(): note("alone {number}")
""")
    done, count = run(tmp_path)
    ran = notes.read_text().splitlines()
    assert sorted(ran) == sorted(f"{kind} {number}" for kind in ("good", "bad", "alone") for number in range(6))
    assert {name.split()[0] for name in ran[-6:]} == {"alone"}, "what runs alone comes last"
    assert count == ["17", "1"]
    assert done.returncode == 1
    assert "assert 4 != 4" in done.stdout


def test_a_lane_that_dies_is_a_failure(tmp_path, notes):
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    (tmp_path / "test_dies.py").write_text("import os\ndef test_dies(): os._exit(0)\n")
    done, count = run(tmp_path)
    assert not notes.exists()
    assert int(count[1]) >= 1, done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
def test_an_interrupted_run_ends_what_it_started(tmp_path, notes, number):
    (tmp_path / "test_long.py").write_text(f"""{NOTE}
import time
def test_long():
    note(str(os.getpid()))
    time.sleep(600)
""")
    with subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: notes.exists() and notes.read_text().endswith("\n"), RUN_SECONDS, "the test to begin")
        process.send_signal(number)
        assert process.wait(RUN_SECONDS) == 130
    pid = int(notes.read_text())
    assert not os.path.exists(f"/proc/{pid}")
