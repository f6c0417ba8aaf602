"""Patroni, unchanged, keeps a PostgreSQL primary and a standby by leased: through the JSON gateway of etcd's API, the
ZooKeeper protocol (its own kazoo) and the Consul API (its own python3-consul)."""
import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import etcd3
import pytest

from harness import zookeeper
from harness.consul import Consul, leased_with_consul
from harness.kinds import KIND_LEASED, clean_environment
from harness.ports import free_ports
from harness.process import Process
from harness.server import Server
from harness.wait import wait_for
from harness.zookeeper_client import Client

SCOPE = "conformance"
TTL_SECONDS = 5
START_SECONDS = 120  # a machine with much else to do
PROGRAMS = "patroni and postgresql (tools/setup test)"


def postgres_programs():
    """The newest version's folder: Debian keeps initdb out of PATH."""
    folders = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    assert folders, f"no initdb: install {PROGRAMS}"
    return os.path.dirname(max(folders, key=lambda path: int(path.split("/")[4])))


class Etcd:
    """Where Patroni keeps what it knows, through the JSON gateway."""

    def __init__(self, stack):
        self.server = stack.enter_context(Server(KIND_LEASED))

    def configuration(self):
        return {"etcd3": {"host": self.server.endpoint}}

    def get(self, path):
        with etcd3.client(host="127.0.0.1", port=self.server.client_port) as client:
            return client.get(f"/service/{path}")[0]


class ZooKeeper:
    def __init__(self, stack):
        self.server = stack.enter_context(zookeeper.leased())

    def configuration(self):
        return {"zookeeper": {"hosts": [self.server.address]}}

    def get(self, path):
        with Client(self.server.address).connect() as client:
            value = client.get(f"/service/{path}")[0]
            client.end()
        return value


class ConsulStore:
    def __init__(self, stack):
        # It asks for half of the time that it means, as Consul gives twice as much.
        self.server = stack.enter_context(leased_with_consul(["--consul-session-ttl-multiplier", "2"]))

    def configuration(self):
        return {"consul": {"host": f"127.0.0.1:{self.server.consul_port}", "register_service": True}}

    def get(self, path):
        with Consul(self.server.consul_port) as client:
            return client.get(f"kv/service/{path}", raw=True).body

    def services(self):
        """The ports of those that Patroni has registered and that are healthy."""
        with Consul(self.server.consul_port) as client:
            found = client.get(f"health/service/{SCOPE}", passing=True).json
        return sorted(one["Service"]["Port"] for one in found)


STORES = {"etcd3": Etcd, "zookeeper": ZooKeeper, "consul": ConsulStore}


class Nobody:
    """PostgreSQL refuses to be root: then it is the user that its package made."""

    def __init__(self):
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    def own(self, path):
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def command(self, *words):
        if not self.user:
            return list(words)
        return ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", *words]


class Node:
    """A Patroni and its PostgreSQL."""

    def __init__(self, name, folder, store, nobody):
        self.name, self.nobody, self.folder = name, nobody, os.path.join(folder, name)
        self.port, self.api_port = free_ports(2)
        os.mkdir(self.folder, 0o700)
        nobody.own(self.folder)
        self.data = os.path.join(self.folder, "data")
        self.configuration_path = os.path.join(self.folder, "patroni.yml")
        with open(self.configuration_path, "w", encoding="utf-8") as file:
            json.dump({**self.configuration(), **store.configuration()}, file)  # JSON is YAML
        os.chmod(self.configuration_path, 0o644)
        self.process = Process(
            nobody.command("/usr/bin/patroni", self.configuration_path),
            os.path.join(folder, f"{name}.log"),
            env={**clean_environment(), "HOME": self.folder, "PATH": "/usr/bin:/bin"},
            cwd=self.folder,
        )

    def configuration(self):
        quick = {"fsync": "off", "unix_socket_directories": self.folder, "shared_buffers": "16MB", "max_wal_senders": 5}
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.api_port}", "connect_address": f"127.0.0.1:{self.api_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL_SECONDS,
                    "loop_wait": 1,
                    "retry_timeout": 2,
                    "postgresql": {"parameters": {"wal_level": "replica", "hot_standby": "on"}},
                },
                "initdb": ["no-sync", {"auth": "trust"}, {"encoding": "UTF8"}, {"locale": "C"}],
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": self.data,
                "bin_dir": postgres_programs(),
                "pgpass": os.path.join(self.folder, "pgpass"),
                "authentication": {"superuser": {"username": "boss"}, "replication": {"username": "copier"}},
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "parameters": quick,
            },
        }  # fmt: skip

    def is_(self, role):
        """Whether Patroni says so of itself."""
        assert self.process.is_running(), self.log()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api_port}/{role}", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def wait_until(self, role):
        try:
            wait_for(lambda: self.is_(role), START_SECONDS, f"{self.name} is {role}")
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.log()}") from error

    def log(self):
        with open(self.process.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def sql(self, text):
        command = ["/usr/bin/psql", "-h", self.folder, "-p", str(self.port), "-U", "boss", "-d", "postgres",
                   "-XAtqc", text]  # fmt: skip
        done = subprocess.run(
            self.nobody.command(*command), capture_output=True, text=True, timeout=60, check=False, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def members(self):
        """What patronictl, which asks the store, says of the roles."""
        done = subprocess.run(
            ["/usr/bin/patronictl", "-c", self.configuration_path, "list", "-f", "json"], capture_output=True, text=True,
            timeout=60, check=False, cwd=self.folder, env=clean_environment(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return {one["Member"]: one["Role"] for one in json.loads(done.stdout)}

    def kill(self):
        """As a machine that loses its power: Patroni first, or it would tell."""
        self.process.kill()
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as file:
                os.kill(int(file.readline()), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            pass


@pytest.fixture(name="store", params=STORES)
def a_store(request):
    with contextlib.ExitStack() as stack:
        yield STORES[request.param](stack)


@pytest.fixture(name="nodes")
def two_nodes(store):
    """Made by name; all of them end with the test."""
    nobody, nodes = Nobody(), []
    folder = tempfile.mkdtemp(prefix="leased-patroni-")
    os.chmod(folder, 0o755)

    def make(name):
        nodes.append(Node(name, folder, store, nobody))
        return nodes[-1]

    try:
        yield make
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def leader(store):
    return store.get(f"{SCOPE}/leader").decode()


def test_a_primary_is_elected_and_replaced(store, nodes):
    first = nodes("first")
    first.wait_until("leader")
    assert leader(store) == "first"
    second = nodes("second")
    second.wait_until("replica")
    first.sql("CREATE TABLE kept (x int); INSERT INTO kept VALUES (7)")
    wait_for(lambda: second.sql("SELECT to_regclass('kept')") == "kept", START_SECONDS, "the standby has the table")
    assert second.sql("SELECT pg_is_in_recovery()") == "t"
    assert second.members() == {"first": "Leader", "second": "Replica"}
    if hasattr(store, "services"):
        wait_for(lambda: store.services() == sorted([first.port, second.port]), START_SECONDS, "both registered")
    first.kill()
    second.wait_until("leader")
    assert leader(store) == "second"
    wait_for(lambda: second.sql("SELECT pg_is_in_recovery()") == "f", START_SECONDS, "the standby was promoted")
    assert second.sql("INSERT INTO kept VALUES (8); SELECT sum(x) FROM kept") == "15"
