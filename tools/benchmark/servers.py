"""One server, or a cluster of three, for one measurement: free ports, an empty data folder on the
disk that all share, ended by its pid."""
import os
import pathlib
import shutil
import socket
import subprocess
import time

START_SECONDS = 30.0


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def clean_environment():
    ambient = ("ETCD_", "ETCDCTL_", "LEASED_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ambient)}


class Node:
    """A process whose output goes to a file beside its data."""

    def __init__(self, argv, folder, env=None):
        self.argv = [str(word) for word in argv]
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, cwd=folder,
                                            env=env or clean_environment())  # fmt: skip

    @property
    def pid(self):
        return self.process.pid

    def check(self):
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.argv[0]} ended with {self.process.returncode}:\n{tail}")

    def stop(self):
        """Its data is thrown away, so it need not put anything in order."""
        self.process.kill()
        self.process.wait()


def wait_until(ready, nodes, what):
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        for node in nodes:
            node.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} is not ready after {START_SECONDS:.0f} s")
        time.sleep(0.05)


class EtcdLike:
    """leased or etcd, of one node or of three; both take the same flags."""

    def __init__(self, binary, lease, folder, size=1, flags=()):
        self.lease = lease
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        ports = free_ports(2 * size)
        self.endpoints = [f"127.0.0.1:{port}" for port in ports[:size]]
        peers = [f"http://127.0.0.1:{port}" for port in ports[size:]]
        cluster = ",".join(f"n{i}={peer}" for i, peer in enumerate(peers))
        self.argvs = [
            [binary, "--name", f"n{i}", "--data-dir", self.folder / f"n{i}" / "data",
             "--listen-client-urls", f"http://{endpoint}",
             "--advertise-client-urls", f"http://{endpoint}",
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", cluster, "--initial-cluster-state", "new",
             "--log-level", "error", *flags]
            for i, (endpoint, peer) in enumerate(zip(self.endpoints, peers))
        ]  # fmt: skip
        self.nodes = [Node(argv, self.folder / f"n{i}") for i, argv in enumerate(self.argvs)]

    def __enter__(self):
        try:
            wait_until(self._is_ready, self.nodes, self.argvs[0][0])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_ready(self):
        done = subprocess.run(
            [self.lease, "status", "--json", "-t", "2s", "-e", ",".join(self.endpoints)],
            capture_output=True, text=True, check=False, env=clean_environment(),
        )  # fmt: skip
        # With several nodes each must know the leader: a first put may then not be refused.
        return done.returncode == 0 and '"leader":"0' not in done.stdout

    @property
    def pids(self):
        return ",".join(str(node.pid) for node in self.nodes)

    def cpu_seconds(self):
        return sum(cpu_seconds(node.pid) for node in self.nodes)

    def rss_bytes(self):
        return sum(rss_bytes(node.pid) for node in self.nodes)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
