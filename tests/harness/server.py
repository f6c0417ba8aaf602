"""One etcd or leased, started with the very same flags; cluster.py makes several into one.

It listens on loopback, or, with another `host` and a `command_prefix`, wherever network.py put it. Ports and data directory are chosen anew for each server and stay its own over
restart(). Ready means: /health answered that it is healthy.
"""
import http.client
import itertools
import json
import os
import shutil
import socket
import tempfile

from harness.kinds import binary_of, clean_environment
from harness.ports import free_ports
from harness.process import Process
from harness.wait import wait_for

START_SECONDS = 20.0
START_ATTEMPTS_MAX = 3

_names = itertools.count(1)
_servers = []


class ServerFailed(Exception):
    """The server ended or stayed unready; the message holds the end of its log."""


class Server:
    """Use as a context manager, or call start() and close()."""

    def __init__(self, kind, name="node1", extra_flags=(), env=None):
        self.kind = kind
        self.name = name
        self.extra_flags = list(extra_flags)
        self.env = dict(env or {})
        self.process = None
        self.binary = None  # another program than that of its kind
        self.home = tempfile.mkdtemp(prefix=f"{kind}-test-")
        self.data_dir = os.path.join(self.home, "data")
        self.log_path = os.path.join(self.home, f"{kind}-{next(_names)}.log")
        self.client_port, self.peer_port = free_ports(2)
        self.host = "127.0.0.1"
        self.command_prefix = []
        self.initial_cluster = None  # itself alone
        self.token = "conformance"
        self.peer_scheme = "http"
        self.peer_host = None  # a name for self.host
        self.peer_path = None  # of a Unix socket; peer_scheme says unix or unixs
        self.cluster_state = "new"
        _servers.append(self)

    # Where it is

    @property
    def endpoint(self):
        return f"{self.host}:{self.client_port}"

    @property
    def client_url(self):
        return f"http://{self.endpoint}"

    @property
    def peer_url(self):
        if self.peer_path is not None:
            return f"{self.peer_scheme}://{self.peer_path}"
        return f"{self.peer_scheme}://{self.peer_host or self.host}:{self.peer_port}"

    def grpc_credentials(self):
        """Of a client over TLS; None: plain text."""
        return None

    def use_peer_tls(self, flags):
        """Members speak TLS; before the members are told each other's URLs."""
        self.peer_scheme = "https"
        self.extra_flags += flags

    def flags(self):
        """etcd's own flags; both kinds get exactly these."""
        return [
            "--name", self.name,
            "--data-dir", self.data_dir,
            "--listen-client-urls", self.client_url,
            "--advertise-client-urls", self.client_url,
            "--listen-peer-urls", self.peer_url,
            "--initial-advertise-peer-urls", self.peer_url,
            "--initial-cluster", self.initial_cluster or f"{self.name}={self.peer_url}",
            "--initial-cluster-token", self.token,
            "--initial-cluster-state", self.cluster_state,
        ] + self.extra_flags  # fmt: skip

    # Its life

    def start(self):
        """Starts and waits until healthy. Other ports are tried if somebody took ours."""
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            self.launch()
            try:
                self.wait_ready()
                return self
            except ServerFailed:
                collided = "address already in use" in self.log_tail().lower()
                if not collided or os.path.exists(os.path.join(self.data_dir, "member")):
                    raise
                if attempt == START_ATTEMPTS_MAX:
                    raise
                self.client_port, self.peer_port = free_ports(2)
        raise AssertionError("unreachable")

    def launch(self):
        """Starts the process and waits for nothing."""
        assert self.process is None or not self.process.is_running()
        self.process = Process(
            [*self.command_prefix, self.binary or binary_of(self.kind)] + [str(flag) for flag in self.flags()],
            self.log_path,
            env={**clean_environment(), **self.env},
            cwd=self.home,
        )

    def wait_ready(self, timeout_s=START_SECONDS):
        def ready():
            code = self.process.exit_code()
            if code is not None:
                raise ServerFailed(f"{self.kind} ended with {code}:\n{self.log_tail()}")
            return self.is_healthy()

        try:
            wait_for(ready, timeout_s, f"{self.kind} healthy")
        except TimeoutError as error:
            self.process.kill()
            raise ServerFailed(f"{error}:\n{self.log_tail()}") from None

    def wait_listening(self, timeout_s=START_SECONDS):
        """Until the client port takes connections: earlier than healthy."""

        def listening():
            assert self.is_running(), self.log_tail()
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                return probe.connect_ex((self.host, self.client_port)) == 0

        wait_for(listening, timeout_s, f"{self.kind} listening")

    def is_healthy(self):
        try:
            status, body = self.http_get("/health")
        except (OSError, http.client.HTTPException):
            return False
        try:
            return status == 200 and json.loads(body).get("health") == "true"
        except ValueError:
            return False

    def stop(self):
        """SIGTERM and wait; answers the exit code."""
        return self.process.terminate()

    def kill(self):
        """SIGKILL and wait."""
        return self.process.kill()

    def pause(self):
        self.process.pause()

    def resume(self):
        self.process.resume()

    def restart(self):
        """Same ports, same data. A server still running is stopped politely first."""
        if self.process.is_running():
            self.stop()
        self.launch()
        self.wait_ready()

    def close(self):
        """Ends the process whatever its state, and removes its files."""
        if self in _servers:
            _servers.remove(self)
        if self.process is not None and self.process.is_running():
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

    # What can be asked about it

    @property
    def pid(self):
        return self.process.pid

    def is_running(self):
        return self.process is not None and self.process.is_running()

    def rss_bytes(self):
        return self.process.rss_bytes()

    def cpu_seconds(self):
        return self.process.cpu_seconds()

    def metric(self, name):
        """One number of /metrics; `name` with its labels, if it has any."""
        for line in self.http_get("/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split(" ")[1])
        raise KeyError(name)

    def log_tail(self, bytes_max=2000):
        return self.process.log_tail(bytes_max) if self.process else "(never started)"

    def http_get(self, path, timeout_s=2.0):
        """(status, body) of a plain GET on the client port."""
        connection = http.client.HTTPConnection(self.host, self.client_port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def open_servers():
    """Servers not yet closed, oldest first: whose logs matter when a test fails."""
    return list(_servers)
