"""A seed must give the same run every time: a failure that cannot be replayed cannot be found."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("LEASED_BUILD_ROOT", Path(__file__).resolve().parents[2] / "build"))
SIM = ROOT / "lease-sim"


def run(*arguments):
    return subprocess.run([str(SIM), *arguments], stdout=subprocess.PIPE, text=True, timeout=120)


@pytest.fixture(autouse=True)
def built():
    assert SIM.is_file(), f"{SIM} is not built"


def test_a_seed_replays_bit_by_bit():
    first = run("--seeds", "1-12", "--hash")
    again = run("--seeds", "1-12", "--hash")
    assert first.returncode == 0
    assert first.stdout == again.stdout
    hashes = [line.split()[2] for line in first.stdout.splitlines()[:-1]]
    assert len(set(hashes)) == 12


def test_the_trace_does_not_depend_on_being_printed():
    quiet = run("--seed", "7", "--hash").stdout.splitlines()
    verbose = run("--seed", "7", "--hash", "--verbose").stdout.splitlines()
    assert quiet[0] in verbose


def test_the_rule_of_the_sample_door_is_carried_out():
    lines = run("--seeds", "1-8", "--verbose").stdout.splitlines()
    tickets = [int(line.split()[-2]) for line in lines if line.endswith(" tickets")]
    assert len(tickets) == 8
    assert sum(tickets) > 100


def test_the_rules_of_the_doors_are_carried_out():
    lines = run("--seeds", "3001-3004", "--doors", "--verbose").stdout.splitlines()
    for protocol in ("Redis", "ZooKeeper", "Consul"):
        found = [line.split() for line in lines if f" locks of {protocol}" in line]
        assert len(found) == 4, protocol
        assert sum(int(words[1]) for words in found) > 20, protocol


def test_nothing_real_is_called():
    """What is not simulated would come from the real libraries, and write into our stand-ins."""
    listing = subprocess.run(["nm", "--format=posix", str(SIM)],
                             stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
    kinds = {}
    for line in listing.splitlines():
        name, kind = line.split()[:2]
        kinds[name.split("@")[0]] = kind
    assert "raft_step" in kinds, "libraft itself is the real one"
    missing = [name for name, kind in kinds.items() if kind == "U"]
    real = ("uv_", "pthread_create", "pwrite", "socket", "clock_gettime")
    assert [name for name in missing if name.startswith(real)] == []


def test_wrong_arguments_are_refused():
    assert run("--nodes", "4").returncode == 2
    assert run("--seeds", "x").returncode == 2
