"""The two servers of the Redis protocol, redis-server and leased, and a client that shows what is on the wire."""
import contextlib
import os
import shutil
import socket
import tempfile

from harness.kinds import KIND_LEASED
from harness.ports import free_ports
from harness.process import Process
from harness.server import Server
from harness.wait import wait_for

KIND_REDIS = "redis"
REPLY_SECONDS = 30.0
START_SECONDS = 20.0


class RespError(Exception):
    """The server closed the connection, or what it sent is no reply."""


class Resp:
    """One connection. A reply is a tuple of its type letter and its value, as it is on the wire."""

    def __init__(self, port, host="127.0.0.1", timeout_s=REPLY_SECONDS):
        self.socket = socket.create_connection((host, port), timeout_s)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, *words):
        encoded = [word if isinstance(word, bytes) else str(word).encode("latin1") for word in words]
        self.socket.sendall(
            b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))

    def send_raw(self, data):
        self.socket.sendall(data)

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise RespError("the connection was closed")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def _bytes(self, size):
        while len(self.buffer) < size + 2:
            self._more()
        data, self.buffer = self.buffer[:size], self.buffer[size + 2:]
        return data

    def reply(self):
        line = self._line()
        letter, rest = chr(line[0]), line[1:]
        if letter in "+-:,#_(":
            return letter, rest
        if letter in "$=!":
            size = int(rest)
            return (letter, None) if size < 0 else (letter, self._bytes(size))
        if letter in "*~>":
            n = int(rest)
            return (letter, None) if n < 0 else (letter, [self.reply() for _ in range(n)])
        if letter in "%|":
            pairs = [(self.reply(), self.reply()) for _ in range(int(rest))]
            # An attribute belongs to the value behind it.
            return (letter, pairs) if letter == "%" else ("|", pairs, self.reply())
        raise RespError(f"no reply begins with {line[:40]!r}")


def plain(reply):
    """A reply without attributes."""
    while reply[0] == "|":
        reply = reply[2]
    if reply[0] in "*~>" and reply[1] is not None:
        return reply[0], [plain(value) for value in reply[1]]
    if reply[0] == "%":
        return reply[0], [(plain(key), plain(value)) for key, value in reply[1]]
    return reply


class RedisServer:
    """Debian's redis-server, without files of its own."""

    kind = KIND_REDIS

    def __init__(self, flags=()):
        self.home = tempfile.mkdtemp(prefix="redis-test-")
        (self.redis_port,) = free_ports(1)
        self.flags = list(flags)
        self.log_path = os.path.join(self.home, "redis.log")
        self.process = None

    def launch(self):
        path = shutil.which("redis-server")
        assert path, "no redis-server: install Debian's redis-server"
        self.process = Process(
            [path, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", self.home,
             *self.flags], self.log_path, cwd=self.home)

    def wait_ready(self):
        wait_for(lambda: answers_ping(self.redis_port), START_SECONDS, "redis-server ready")

    def start(self):
        self.launch()
        self.wait_ready()
        return self

    def kill(self):
        return self.process.kill()

    def is_running(self):
        return self.process is not None and self.process.is_running()

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


def answers_ping(port, host="127.0.0.1"):
    try:
        with Resp(port, host, timeout_s=2.0) as connection:
            return connection("PING") == ("+", b"PONG")
    except (OSError, RespError):
        return False


@contextlib.contextmanager
def leased_with_redis(flags=()):
    """A leased of its own whose `redis_port` speaks the Redis protocol."""
    (port,) = free_ports(1)
    with Server(KIND_LEASED, extra_flags=["--listen-redis", f"127.0.0.1:{port}", *flags]) as server:
        server.redis_port = port
        wait_for(lambda: answers_ping(port), START_SECONDS, "leased speaks Redis")
        yield server


def redis_server_of(kind, flags=()):
    """A context manager that gives a server of either kind."""
    return leased_with_redis(flags) if kind == KIND_LEASED else RedisServer()
