"""Runs the commands of docs/migrating-from-etcd.md, each as it is written there but for addresses and folders."""
import pathlib
import re

import pytest

from harness import KIND_ETCD, KIND_LEASED, Server, backup
from harness.etcdctl import etcdctl_path
from harness.kinds import binary_of
from harness.rpc import Rpc

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "migrating-from-etcd.md"
TOKEN = "etcd-cluster"


def sections():
    """Commands by heading."""
    found, heading, in_block = {}, None, False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("```"):
            in_block = line == "```sh"
        elif in_block:
            found.setdefault(heading, []).append(line)
    return found


class Machine:
    """What the page's words stand for here."""

    def __init__(self, folder):
        self.folder = folder
        self.hashes = []
        self.etcd = Server(KIND_ETCD, name="default")
        self.leased = Server(KIND_LEASED, name="default")
        self.members = [Server(KIND_LEASED, name=f"n{i}") for i in (1, 2, 3)]
        self.etcd.token = self.leased.token = TOKEN
        self.serving = self.etcd
        self.starting = [self.leased]

    def close(self):
        for server in (self.etcd, self.leased, *self.members):
            server.close()

    def words_of(self, line):
        for i, member in enumerate(self.members, start=1):
            line = line.replace(f"http://10.0.0.{i}:2380", member.peer_url)
        for server in (self.etcd, self.leased):
            server.client_port, server.peer_port = self.etcd.client_port, self.etcd.peer_port
        line = line.replace("127.0.0.1:2379", self.serving.endpoint).replace("http://127.0.0.1:2380", self.etcd.peer_url)
        line = line.replace("/var/lib/etcd/default.etcd", str(self.folder / "etcd-data"))
        line = line.replace("/var/lib", str(self.folder))
        words = line.split()
        words[0] = {"etcdctl": etcdctl_path(), "leased": binary_of(KIND_LEASED)}[words[0]]
        return words

    def run(self, line):
        if line == "systemctl stop etcd":
            self.etcd.stop()
        elif line == "systemctl stop leased":
            self.serving.stop()
        elif line in ("systemctl start leased", "systemctl start etcd"):
            for server in self.starting:
                server.launch()
            for server in self.starting:
                server.wait_ready()
            self.serving = self.starting[0]
        else:
            done = backup.run(self.words_of(line), cwd=self.folder)
            assert done.returncode == 0, f"{line}: {done.stderr.decode()}"
            hashed = re.search(r"^\S+, (\d+)$", done.stdout.decode(), re.MULTILINE)
            if "hashkv" in line:
                self.hashes.append(hashed[1])


@pytest.fixture(name="machine")
def fixture_machine(tmp_path):
    machine = Machine(tmp_path)
    try:
        yield machine
    finally:
        machine.close()


def test_every_command_of_the_page(machine, tmp_path):
    commands = sections()
    (tmp_path / "leased").mkdir()
    (tmp_path / "etcd").mkdir()
    machine.etcd.data_dir = str(tmp_path / "etcd-data")
    machine.etcd.start()
    with Rpc(machine.etcd) as rpc:
        for i in range(20):
            rpc.put(b"key %d" % (i % 7), b"%d" % i)
        rpc.delete(b"key 3")

    machine.leased.data_dir = str(tmp_path / "leased" / "data")
    for line in commands.pop("To leased, one member"):
        machine.run(line)
    with Rpc(machine.leased) as rpc:
        assert rpc.range(b"key 6").kvs[0].value == b"13"
        rpc.put(b"on leased", b"1")

    machine.starting = [machine.etcd]
    machine.etcd.data_dir = str(tmp_path / "etcd" / "back")
    for line in commands.pop("Back to etcd"):
        machine.run(line)
    with Rpc(machine.etcd) as rpc:
        assert rpc.range(b"on leased").kvs[0].value == b"1"
    machine.etcd.stop()

    machine.starting = machine.members
    for member in machine.members:
        member.data_dir = str(tmp_path / "leased" / member.name)
        member.token = "moved"
        member.initial_cluster = ",".join(f"{each.name}={each.peer_url}" for each in machine.members)
    for line in commands.pop("To leased, three members"):
        machine.run(line)
    assert not commands, "commands of the page that are not run"
    before, after, saved, back, three = machine.hashes
    assert before == after == three
    assert saved == back != before
