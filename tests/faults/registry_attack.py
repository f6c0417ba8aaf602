"""A server with every door of the registry and many instances in it, and what attackers of those doors are made of."""
import contextlib
import json
import socket
import threading
import time

import hostile_client
from bystander import is_sanitized
from hostile_client import READ_SECONDS_MAX, WAIT_SECONDS_MAX

from harness import KIND_LEASED, Server
from harness.acceptance import either
from harness.dns import add_listener

INSTANCES = either(6_000, 100_000)
# How long an attack goes on.
SECONDS = either(0.6, 5)
DOORS = "etcd,native,registry,consul,eureka,xds"
CONNECTIONS = 4
FILLERS = 400
ITERATION_MS_MAX = 250
REGISTER = "/lease/v1/registry/register"


def attacked(server, name):
    """As hostile_client's. In `make test` check_iterations() is the exact one of the two bounds: the disk may be busy."""
    return hostile_client.attacked(server, name, wait_max=WAIT_SECONDS_MAX)


def registry_server(*flags):
    return add_listener(Server(KIND_LEASED, extra_flags=["--doors", DOORS, *flags]))


def request(path, body=None, method=None, headers=""):
    """One of HTTP/1.1, as bytes."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    method = method or ("GET" if body is None else "PUT")
    length = f"Content-Length: {len(data)}\r\n" if body is not None else ""
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}{length}\r\n".encode() + data


def registration(service, id, **fields):  # pylint: disable=redefined-builtin
    instance = {"service": service, "id": id, "address": "10.0.0.1", "port": 80, "ttl_ms": 3_600_000, **fields}
    return request(REGISTER, {"instance": instance}, "POST")


def many_instances(count=INSTANCES, service="web"):
    """Their registrations; every one has another node, another address and two tags, one of which is its own."""
    return (
        registration(
            service if isinstance(service, str) else service(i), f"{service if isinstance(service, str) else 'i'}-{i}",
            address=f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", node=f"node-{i}", tags=["all", f"tag-{i}"],
            metadata=[{"key": "number", "value": str(i)}],
        )
        for i in range(count)
    )  # fmt: skip


def fill(server, requests):
    """Sends all of them on many connections, so that many are written to the log at once, and sees that each succeeds."""
    requests = iter(requests)
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(socket.create_connection((server.host, server.client_port), READ_SECONDS_MAX))
            for _ in range(FILLERS)
        ]
        while asked := [(side, one) for side, one in zip(sides, requests)]:
            for side, one in asked:
                side.sendall(one)
            for side, _ in asked:
                answer = side.recv(16 * 1024)
                assert answer.startswith(b"HTTP/1.1 200"), answer[:1000]


def check_iterations(server):
    """No iteration of the loop, in which all others wait, has taken longer than a put may wait: measured in the processor's
    time, which a busy machine does not stretch."""
    if is_sanitized(server):
        return
    longest = server.metric("leased_loop_cpu_milliseconds_max")
    print(f"the longest iteration: {longest:.0f} ms")
    assert longest < ITERATION_MS_MAX, f"an iteration of the loop took {longest} ms"


class Flood:
    """Connections that send the same requests without end, and read the answers or do not."""

    def __init__(self, server, requests, connections=CONNECTIONS, reads=True, port=None, receive_buffer=None):
        self.statuses = {}
        self._over = threading.Event()
        self._threads = []
        self._sockets = []
        for number in range(connections):
            side = socket.socket()
            if receive_buffer:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            side.connect((server.host, port or server.client_port))
            self._sockets.append(side)
            mine = requests[number % len(requests):] + requests[:number % len(requests)]
            self._start(self._send, side, b"".join(mine))
            if reads:
                self._start(self._read, side)

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _send(self, side, data):
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                side.sendall(data)

    def _read(self, side):
        with contextlib.suppress(OSError):
            while data := side.recv(1024 * 1024):
                at = data.find(b"HTTP/1.1 ")
                while at >= 0:
                    status = data[at + 9: at + 12]
                    self.statuses[status] = self.statuses.get(status, 0) + 1
                    at = data.find(b"HTTP/1.1 ", at + 9)

    def __enter__(self):
        return self

    def run(self, seconds=SECONDS):
        time.sleep(seconds)
        return self.statuses

    def __exit__(self, *_):
        self._over.set()
        for side in self._sockets:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()
        for thread in self._threads:
            thread.join(READ_SECONDS_MAX)
