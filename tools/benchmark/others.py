"""Redis and ZooKeeper, for what they share with leased: taking something that ends by itself.

Redis: `SET key value NX PX ms`, every write synced before it is acknowledged, driven by its own
redis-benchmark. ZooKeeper: the creation of ephemeral nodes, driven by a few pipelining sessions over
plain sockets: requests are packed beforehand and answers only counted and checked, so that Python
is not what is measured.
"""
import contextlib
import csv
import io
import os
import selectors
import shutil
import socket
import struct
import subprocess
import time

from benchmark.servers import Node, cpu_seconds, free_ports, rss_bytes, wait_until

CLIENTS = 100
# What is run below, as somebody else would type it.
COMMANDS = f"""\
redis-server --appendonly yes --appendfsync always --save '' --loglevel warning
redis-benchmark -c {CLIENTS} -n COUNT -r 1000000000 --csv SET lock:__rand_int__ holder NX PX 300000
java -Xmx2g -cp JARS org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg   # logs errors only; \
driven by tools/benchmark/others.py"""


def _answers(port, request, expected):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            connection.sendall(request)
            return expected in connection.recv(4000)
    except OSError:
        return False


def _result(node, operations, seconds, cpu, rss_before, latency_ms):
    return {
        "operations": operations, "seconds": seconds, "ops_per_second": operations / seconds,
        "server_cpu_seconds": cpu, "ops_per_server_cpu_second": operations / cpu if cpu else 0.0,
        "latency_ms": latency_ms, "server_rss_bytes": rss_bytes(node.pid),
        "bytes_each": (rss_bytes(node.pid) - rss_before) / operations,
    }  # fmt: skip


SYNCED = ("--appendonly", "yes", "--appendfsync", "always")


@contextlib.contextmanager
def redis_server(root, folder, flags=SYNCED):
    """(node, port, environment of its own programs)."""
    (port,) = free_ports(1)
    shutil.rmtree(folder, ignore_errors=True)
    library = os.pathsep.join(str(path) for path in (root / "usr/lib").glob("*-linux-gnu"))
    env = {**os.environ, "LD_LIBRARY_PATH": library}
    node = Node([root / "usr/bin/redis-server", "--port", port, "--bind", "127.0.0.1", "--dir",
                 folder, *flags, "--save", "", "--loglevel", "warning"], folder, env)  # fmt: skip
    try:
        wait_until(lambda: _answers(port, b"PING\r\n", b"PONG"), [node], "redis")
        yield node, port, env
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def redis(root, folder, seconds):
    """SET NX PX by CLIENTS clients, each with one request under way."""
    with redis_server(root, folder) as (node, port, env):

        def drive(count):
            done = subprocess.run(
                [root / "usr/bin/redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-n",
                 str(count), "-r", "1000000000", "--csv", "SET", "lock:__rand_int__", "holder",
                 "NX", "PX", "300000"],
                capture_output=True, text=True, check=True, env=env,
            )  # fmt: skip
            return list(csv.DictReader(io.StringIO(done.stdout)))[-1]

        rate = float(drive(20000)["rps"])
        count = max(20000, int(rate * seconds))
        before, rss_before = cpu_seconds(node.pid), rss_bytes(node.pid)
        row = drive(count)
        cpu = cpu_seconds(node.pid) - before
        latency = {"p50": float(row["p50_latency_ms"]), "p99": float(row["p99_latency_ms"]),
                   "max": float(row["max_latency_ms"])}  # fmt: skip
        return _result(node, count, count / float(row["rps"]), cpu, rss_before, latency)


# --- ZooKeeper ------------------------------------------------------------------------------------

CREATE = 1
EPHEMERAL = 1
SESSIONS = 4
BLOCK = 4096
# One ACL: everybody may do everything.
OPEN_ACL = struct.pack(">ii", 1, 31) + struct.pack(">i", 5) + b"world" + struct.pack(">i", 6) + b"anyone"


class Session:
    """A connection with a fixed number of creations under way."""

    def __init__(self, port, index, depth):
        self.index = index
        self.depth = depth
        self.next_xid = 1
        self.answered = 0
        self.pending = []  # when each was sent, in order
        self.latencies = []
        self.received = b""
        self.queued = b""
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        hello = struct.pack(">iqiqi", 0, 0, 30000, 0, 16) + b"\0" * 16 + b"\0"
        self.socket.sendall(struct.pack(">i", len(hello)) + hello)
        size = struct.unpack(">i", self._exactly(4))[0]
        self._exactly(size)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _exactly(self, size):
        got = b""
        while len(got) < size:
            part = self.socket.recv(size - len(got))
            if not part:
                raise RuntimeError("ZooKeeper closed the connection")
            got += part
        return got

    def send(self, count, now):
        requests = []
        for xid in range(self.next_xid, self.next_xid + count):
            path = b"/lock-%x-%08x" % (self.index, xid)
            body = (struct.pack(">iii", xid, CREATE, len(path)) + path + b"\0\0\0\x06holder"
                    + OPEN_ACL + struct.pack(">i", EPHEMERAL))  # fmt: skip
            requests.append(struct.pack(">i", len(body)) + body)
        self.next_xid += count
        self.pending += [now] * count
        self.queued += b"".join(requests)
        self.flush()

    def flush(self):
        if self.queued:
            try:
                sent = self.socket.send(self.queued)
            except BlockingIOError:
                sent = 0
            self.queued = self.queued[sent:]

    def receive(self, now):
        """Counts what came, and sends as many again."""
        self.received += self.socket.recv(1 << 18)
        at, count = 0, 0
        while len(self.received) - at >= 4:
            (size,) = struct.unpack_from(">i", self.received, at)
            if len(self.received) - at - 4 < size:
                break
            xid, _, error = struct.unpack_from(">iqi", self.received, at + 4)
            at += 4 + size
            if xid > 0:
                if error:
                    raise RuntimeError(f"ZooKeeper refused a creation: {error}")
                count += 1
        self.received = self.received[at:]
        self.latencies += [now - sent for sent in self.pending[:count]]
        del self.pending[:count]
        self.answered += count
        if count:
            self.send(count, now)


def _drive(sessions, seconds):
    with selectors.DefaultSelector() as selector:
        for session in sessions:
            selector.register(session.socket, selectors.EVENT_READ, session)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for key, _ in selector.select(0.1):
                key.data.flush()
                key.data.receive(time.monotonic())


@contextlib.contextmanager
def zookeeper_server(root, folder):
    """(node, port)."""
    (port,) = free_ports(1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={folder}/data\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        "4lw.commands.whitelist=srvr\n"
    )
    (folder / "log4j.properties").write_text("log4j.rootLogger=ERROR\n")
    jars = ":".join(f"{base}/usr/share/java/*" for base in (root, ""))
    node = Node(["java", "-Xmx2g", "-cp", f"{folder}:{jars}",
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", folder / "zoo.cfg"],
                folder / "process")  # fmt: skip
    try:
        wait_until(lambda: _answers(port, b"srvr", b"Mode"), [node], "ZooKeeper")
        yield node, port
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def zookeeper(root, folder, seconds):
    """Ephemeral nodes by a few sessions, CLIENTS creations under way in all."""
    with zookeeper_server(root, folder) as (node, port):
        sessions = [Session(port, index, CLIENTS // SESSIONS) for index in range(SESSIONS)]
        for session in sessions:
            session.send(session.depth, time.monotonic())
        _drive(sessions, min(4.0, seconds))  # a Java server needs to warm up
        for session in sessions:
            session.answered, session.latencies = 0, []
        before, rss_before, begun = cpu_seconds(node.pid), rss_bytes(node.pid), time.monotonic()
        own = time.process_time()
        _drive(sessions, seconds)
        elapsed = time.monotonic() - begun
        cpu = cpu_seconds(node.pid) - before
        latencies = sorted(one for session in sessions for one in session.latencies)
        latency = {name: latencies[int(share * (len(latencies) - 1))] * 1000
                   for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}  # fmt: skip
        answered = sum(session.answered for session in sessions)
        result = _result(node, answered, elapsed, cpu, rss_before, latency)
        return {**result, "client_cpu_seconds": time.process_time() - own}
