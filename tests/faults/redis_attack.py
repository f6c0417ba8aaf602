"""What attackers that speak the Redis protocol are made of."""
import contextlib
import functools
import socket
import threading
import time

from hostile_client import attacked as attacked_for, reading, send_all

from harness.acceptance import either
from harness.redis import Resp
from harness.rpc import Rpc

MIB = 1024 * 1024
# What was promised, and what several attackers in a process of Python leave of two busy processors.
attacked = functools.partial(attacked_for, wait_max=either(4.0, 0.25))
ATTACK_SECONDS = either(0.4, 5.0)
CONNECTIONS = either(4, 20)


def request(*words):
    encoded = [word if isinstance(word, bytes) else str(word).encode("latin1") for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def fill(resp, commands):
    for first in range(0, len(commands), 16):
        part = commands[first: first + 16]
        for command in part:
            resp.send(*command)
        for _ in part:
            assert resp.reply()[0] != "-"


@contextlib.contextmanager
def connections(server, n=CONNECTIONS, reads=True):
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(n):
            each = stack.enter_context(contextlib.closing(Resp(server.redis_port)))
            stack.callback(shut, each)
            if reads:
                reading(each)
            opened.append(each)
        yield opened


def shut(connection):
    with contextlib.suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


def flood(opened, data, seconds=ATTACK_SECONDS):
    """All of them send the same, again and again."""
    end = time.monotonic() + seconds

    def send(connection):
        while time.monotonic() < end:
            if send_all(connection, data, end - time.monotonic()) < len(data):
                break

    threads = [threading.Thread(target=send, args=(each,)) for each in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def compact(server):
    """Ends history that an attack has made: it is kept on purpose, for an hour or up to --history-bytes."""
    with Rpc(server) as rpc:
        rpc.compact(rpc.put(b"/now", b"").header.revision)
