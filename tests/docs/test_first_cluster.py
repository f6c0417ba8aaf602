"""Runs the commands of docs/first-cluster.md: certificates, three members with its settings, users, a backup."""
import re
import subprocess
import time

import page
import pytest
from harness import KIND_LEASED, Process, binary_of
from harness.kinds import clean_environment, lease_tool
from harness.ports import free_ports

PAGE = "docs/first-cluster.md"
MINE = "run by tests/docs/test_first_cluster.py"
MEMBERS = (1, 2, 3)
SECONDS = 60


class Place:
    """The page's machines and folders, on this machine."""

    def __init__(self, folder):
        self.folder = folder
        ports = iter(free_ports(2 * len(MEMBERS)))
        self.addresses = {f"10.0.0.{n}:{port}": f"127.0.0.1:{next(ports)}" for n in MEMBERS for port in (2379, 2380)}

    def here(self, text):
        for there, here in self.addresses.items():
            text = text.replace(there, here)
        return text.replace("/etc/leased/ca.crt", str(self.folder / "ca.crt"))

    def settings(self, number):
        """/etc/default/leased of a member, as the page says: name and own addresses differ."""
        lines = []
        for line in ini_blocks()[0]:
            name, _, value = line.partition("=")
            if name == "LEASED_NAME":
                value = f"n{number}"
            elif name != "LEASED_INITIAL_CLUSTER":
                value = value.replace("10.0.0.1:", f"10.0.0.{number}:")
            value = value.replace("/etc/leased/node", str(self.folder / f"n{number}"))
            lines.append((name, self.here(value)))
        return dict(lines)


def ini_blocks():
    return [block.splitlines() for block in re.findall(r"```ini\n(.*?)```", page.text_of(PAGE), re.DOTALL)]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def run_block(place, block):
    (place.folder / "config").write_text(place.here("\n".join(ini_blocks()[1])))
    environment = dict(clean_environment(), LEASE_CONFIG=str(place.folder / "config"))
    tool = lease_tool()
    script = f"set -e\nlease() {{ {tool} \"$@\"; }}\n" + place.here("\n".join(block.lines))
    done = subprocess.run(["bash", "-c", script], cwd=place.folder, env=environment, capture_output=True, text=True,
                          timeout=SECONDS)  # fmt: skip
    assert done.returncode == 0, f"{block.where}: {done.stdout}{done.stderr}"
    return done.stdout


def start(place, number):
    environment = dict(clean_environment(), **place.settings(number), LEASED_DATA_DIR=str(place.folder / f"data{number}"))
    return Process([binary_of(KIND_LEASED)], place.folder / f"n{number}.log", env=environment)


def wait_until_ready(place):
    logs = [place.folder / f"n{number}.log" for number in MEMBERS]
    for _ in range(SECONDS * 10):
        if all("ready to serve client requests" in log.read_text() for log in logs):
            return
        time.sleep(0.1)
    raise AssertionError("".join(log.read_text() for log in logs))


def test_a_cluster_is_made_as_the_page_says(place):
    certificates, first_look, users, backup = [one for one in page.blocks(PAGE) if one.how == MINE]
    run_block(place, certificates)
    members = [start(place, number) for number in MEMBERS]
    try:
        wait_until_ready(place)
        said = run_block(place, first_look)
        assert len(re.findall(r"^127\.0\.0\.1:", said, re.MULTILINE)) == len(MEMBERS) and "itself" in said
        assert "mine, token " in said
        assert "itself" in run_block(place, users)
        run_block(place, backup)
        (saved,) = place.folder.glob("leased-*.db")
        assert saved.stat().st_size > 0
        assert not any("WARN" in line and "authentication" in line for log in place.folder.glob("n*.log")
                       for line in log.read_text().splitlines())  # fmt: skip
    finally:
        for member in members:
            member.terminate()
