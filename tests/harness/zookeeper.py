"""Debian's ZooKeeper on its own port and folder, and leased with its ZooKeeper listener: two of a kind.

Both have `address` (host:port of the ZooKeeper protocol), `kind`, `log_tail()` and the life of a Server.
"""
import os
import pathlib
import shutil
import socket
import tempfile

from harness.kinds import KIND_LEASED
from harness.ports import free_ports
from harness.process import Process
from harness.server import Server, ServerFailed
from harness.wait import wait_for

KIND_ZOOKEEPER = "zookeeper"
# A JVM on a busy machine.
START_SECONDS = 90.0
JAVA = "/usr/bin/java"
JAR = "/usr/share/java/zookeeper.jar"
CLASS_PATH = f"{JAR}:/usr/share/java/slf4j-simple.jar"
CLIENT_SCRIPT = "/usr/share/zookeeper/bin/zkCli.sh"
C_CLIENT = "/usr/lib/zookeeper/bin/cli_mt"

# The session times of both; leased takes the same two flags.
TIMEOUT_MS_MIN = 100
TIMEOUT_MS_MAX = 40000

CONTAINER_FLAGS = ("--zookeeper-container-check-interval", "200ms")

SETTINGS = """
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=2000
minSessionTimeout={timeout_min}
maxSessionTimeout={timeout_max}
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
"""

JVM_FLAGS = (
    "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
    "-Dzookeeper.extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=200",
    "-Dzookeeper.enforceQuota=false", "-Djava.net.preferIPv4Stack=true",
)  # fmt: skip


def word(address, letters, timeout_s=30.0):
    """The answer to a four-letter word."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(letters.encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


class ZooKeeper:
    """Use as a context manager. Its data survives restart()."""

    kind = KIND_ZOOKEEPER

    def __init__(self, settings="", jvm_flags=(), heap=None):
        assert os.access(JAVA, os.X_OK) and os.path.exists(JAR), "Debian's zookeeper is not installed: tools/setup test"
        self.home = tempfile.mkdtemp(prefix="zookeeper-test-")
        self.port = free_ports(1)[0]
        self.log_path = os.path.join(self.home, "log")
        self.process = None
        self._jvm_flags = [*JVM_FLAGS, *([f"-Xmx{heap}"] if heap else []), *jvm_flags]
        pathlib.Path(self.home, "zoo.cfg").write_text(
            SETTINGS.format(
                data=os.path.join(self.home, "data"), port=self.port, timeout_min=TIMEOUT_MS_MIN,
                timeout_max=TIMEOUT_MS_MAX,
            ) + settings,
            encoding="ascii",
        )  # fmt: skip

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self):
        return self.address

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.process = Process(
            [JAVA, *self._jvm_flags, "-cp", CLASS_PATH, "org.apache.zookeeper.server.ZooKeeperServerMain",
             os.path.join(self.home, "zoo.cfg")],
            self.log_path, cwd=self.home,
        )  # fmt: skip
        try:
            wait_for(self._ready, START_SECONDS, "zookeeper ready")
        except TimeoutError as error:
            raise ServerFailed(f"{error}:\n{self.log_tail()}") from None
        return self

    def _ready(self):
        if not self.process.is_running():
            raise ServerFailed(f"zookeeper ended:\n{self.log_tail()}")
        try:
            return "Mode: " in word(self.address, "srvr", timeout_s=2.0)  # "ruok" is answered before sessions are
        except OSError:
            return False

    def restart(self):
        if self.process.is_running():
            self.process.terminate()
        return self.start()

    def rss_bytes(self):
        return self.process.rss_bytes()

    def cpu_seconds(self):
        return self.process.cpu_seconds()

    def is_running(self):
        return self.process is not None and self.process.is_running()

    def log_tail(self, bytes_max=2000):
        return self.process.log_tail(bytes_max) if self.process else "(never started)"

    def close(self):
        if self.is_running():
            self.process.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()


def add_listener(server):
    """Gives a Server of leased that is not started yet its ZooKeeper listener; `address` is where."""
    port = free_ports(1)[0]
    server.extra_flags += ["--listen-zookeeper", f"{server.host}:{port}"]
    server.address = f"{server.host}:{port}"
    return server


def leased(extra_flags=()):
    """A leased that is not started yet; it looks for empty containers as often as ZooKeeper does here."""
    return add_listener(Server(KIND_LEASED, extra_flags=[*CONTAINER_FLAGS, *extra_flags]))
