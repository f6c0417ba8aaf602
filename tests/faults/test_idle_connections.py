"""What a client that holds its connection and says little costs: memory of each, and processor time of pings."""
import contextlib
import resource
import select
import socket
import time

import pytest

from harness import jute, zookeeper
from harness.acceptance import ACCEPTANCE, either, report
from harness.redis import leased_with_redis
from harness.zookeeper_client import Client

# As many as the hard limit of open files here allows the server, which keeps some of it for itself.
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
CONNECTIONS = min(either(1000, 100_000), HARD_LIMIT * 16 // 20)
BYTES_MAX = 4096
SESSION_MS = 30_000
# 100,000 sessions, each of which pings three times in the time of its session.
PINGS_A_SECOND = 100_000 * 3 * 1000 // SESSION_MS
PING_SECONDS = 20.0
PINGED_AFTER = 4000
CORES_MAX = 0.25
# What the server takes once, whoever comes first, is not counted.
FIRST = 200
FLAGS = ["--max-connections", str(HARD_LIMIT), "--max-connections-per-address", str(HARD_LIMIT)]


@pytest.fixture(autouse=True)
def many_open_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD_LIMIT, HARD_LIMIT))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def local(number):
    """Addresses of our own: one has 28,000 ports."""
    return (f"127.0.0.{2 + number % 8}", 0)


def test_idle_connections_of_the_redis_protocol_are_small():
    with leased_with_redis(FLAGS) as server, contextlib.ExitStack() as stack:
        before = 0
        for number in range(FIRST + CONNECTIONS):
            if number == FIRST:
                before = server.rss_bytes()
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.redis_port), source_address=local(number)))  # fmt: skip
            connection.sendall(b"PING\r\n")
            assert connection.recv(64) == b"+PONG\r\n"
        size = (server.rss_bytes() - before) / CONNECTIONS
    report("idle Redis connections", connections=CONNECTIONS, bytes_each=round(size))
    assert size <= BYTES_MAX


def ping_all(clients, server):
    """(pings answered a second, server's CPU seconds a second), the clients taking turns."""
    poll = select.epoll()
    by_descriptor = {client.socket.fileno(): client.socket for client in clients}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    ping = jute.frame(jute.integer(jute.XID_PING) + jute.integer(jute.PING))
    begun, before, sent, answered = time.monotonic(), server.cpu_seconds(), 0, 0
    while (passed := time.monotonic() - begun) < PING_SECONDS:
        for number in range(sent, int(passed * PINGS_A_SECOND)):
            clients[number % len(clients)].send(ping)
            sent = number + 1
        for descriptor, _ in poll.poll(0.001, 1024):
            answered += by_descriptor[descriptor].recv(4096).count(jute.integer(jute.XID_PING))
    return answered / passed, (server.cpu_seconds() - before) / passed


def test_idle_sessions_of_the_zookeeper_protocol_are_small_and_cheap():
    with zookeeper.leased(FLAGS) as server, contextlib.ExitStack() as stack:
        before = 0
        clients = []
        for number in range(FIRST + CONNECTIONS):
            if number == FIRST:
                before = server.rss_bytes()
            clients.append(stack.enter_context(Client(server.address, local=local(number)).connect(SESSION_MS)))
            if number % PINGED_AFTER == PINGED_AFTER - 1:  # else the first would end before the last is there
                for client in clients:
                    client.ping()
        size = (server.rss_bytes() - before) / CONNECTIONS
        assert size <= BYTES_MAX
        if not ACCEPTANCE:
            return
        pings, cores = ping_all(clients, server)
        report("idle ZooKeeper sessions", sessions=CONNECTIONS, bytes_each=round(size),
               pings_a_second=round(pings), cores=round(cores, 3))  # fmt: skip
        assert pings >= 0.95 * PINGS_A_SECOND
        assert cores <= CORES_MAX
