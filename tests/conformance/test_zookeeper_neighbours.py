"""What clients of the ZooKeeper protocol do at their worst, and how long a put of another protocol waits meanwhile."""
import json
import subprocess
import sys
import threading

import pytest

from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.wait import wait_for
from harness.zookeeper_client import Client

# The promised bound is for an idle machine.
WAIT_SECONDS_MAX = either(10.0, 0.25)
CONNECTIONS = either(4, 50)
MULTIS = either(2, 10)
OPERATIONS = 2000
CHILDREN = either(8000, 100_000)
LISTS = either(10, 100)
COUNTED = either(20_000, 100_000)
SESSIONS = either(50, 10_000)
EPHEMERALS = 10
# All are made before the first is silent for so long.
SESSION_MS = either(4000, 40_000)
GONE_SECONDS = 120.0

# Puts one key after the other until its input ends; then tells how long they took. A process of its own: threads of
# this one would wait for each other.
PUTS = """
import http.client, json, sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
connection = http.client.HTTPConnection(sys.argv[1], timeout=60)
times = []
while not done.is_set():
    begin = time.monotonic()
    connection.request("POST", "/v3/kv/put", '{"key": "bmVpZ2hib3Vy", "value": "eA=="}')
    assert connection.getresponse().read()
    times.append(time.monotonic() - begin)
    if len(times) == 1:
        print("begun", flush=True)
times.sort()
print(json.dumps({"puts": len(times), "p99": times[len(times) * 99 // 100], "longest": times[-1]}))
"""


class Neighbour:
    """Somebody who puts keys; `with` measures and checks."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PUTS, self.server.endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, kind, *_):
        told, _ = self.process.communicate(timeout=90)
        if kind is None:
            figures = json.loads(told)
            report(f"zookeeper neighbours: {self.name}", puts=figures["puts"], p99_ms=round(figures["p99"] * 1000, 1),
                   longest_ms=round(figures["longest"] * 1000, 1))  # fmt: skip
            assert figures["longest"] < WAIT_SECONDS_MAX


@pytest.fixture(scope="module", name="server")
def a_server():
    with zookeeper.leased() as running:
        yield running


def in_threads(count, work):
    failures = []

    def run(number):
        try:
            work(number)
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GONE_SECONDS)
        assert not thread.is_alive()
    assert not failures, failures[0]


def test_large_multis_of_many(server):
    with Client(server.address).connect() as client:
        for number in range(CONNECTIONS):
            client.create(f"/m{number}")

    def attack(number):
        grow = jute.multi([(jute.CREATE, jute.create(f"/m{number}/{each}")) for each in range(OPERATIONS)])
        shrink = jute.multi([(jute.DELETE, jute.versioned(f"/m{number}/{each}")) for each in range(OPERATIONS)])
        with Client(server.address).connect(40_000) as client:
            for _ in range(MULTIS):
                client.post(jute.MULTI, grow)
                client.post(jute.MULTI, shrink)
            for _ in range(2 * MULTIS):
                assert client.receive().error in (0, -127)

    with Neighbour(server, f"{CONNECTIONS} pipelines of multis"):
        in_threads(CONNECTIONS, attack)


def test_lists_of_many_children(server):
    with Client(server.address).connect(40_000) as client:
        client.create("/list")
        for first in range(0, CHILDREN, OPERATIONS):
            client.multi([(jute.CREATE, jute.create(f"/list/child-{number:08}"))
                          for number in range(first, first + OPERATIONS)])  # fmt: skip

        def attack(_):
            with Client(server.address).connect(40_000) as reader:
                for _ in range(LISTS):
                    reader.post(jute.GET_CHILDREN2, jute.watched("/list"))
                for _ in range(LISTS):
                    assert reader.receive().error in (0, -127)

        with Neighbour(server, f"pipelines of lists of {CHILDREN}"):
            in_threads(4, attack)
        for first in range(0, CHILDREN, OPERATIONS):
            client.multi([(jute.DELETE, jute.versioned(f"/list/child-{number:08}"))
                          for number in range(first, first + OPERATIONS)])  # fmt: skip
        client.end()


def test_statistics_of_many_nodes(server):
    """They are counted when they are read: in parts, and not at all where an answer has to be made at once."""
    stats = "/zookeeper/quota/counted/zookeeper_stats"
    with Client(server.address).connect(40_000) as client:
        client.create("/counted", b"own")
        client.create("/counted/below")
        for path in ("/zookeeper/quota/counted", "/zookeeper/quota/counted/zookeeper_limits", stats):
            client.create(path)
        for first in range(0, COUNTED, OPERATIONS):
            client.multi([(jute.CREATE, jute.create(f"/counted/below/{number}", b"12"))
                          for number in range(first, first + OPERATIONS)])  # fmt: skip
        counted = f"count={COUNTED + 2},bytes={2 * COUNTED + 3}".encode()

        def attack(_):
            with Client(server.address).connect(40_000) as reader:
                for _ in range(LISTS):
                    reader.post(jute.GET_DATA, jute.watched(stats))
                for _ in range(LISTS):
                    assert reader.receive().body.buffer() == counted

        with Neighbour(server, f"pipelines of statistics of {COUNTED}"):
            in_threads(4, attack)
        reads = [(jute.GET_DATA, jute.watched(path)) for path in (stats, "/counted")]
        answers = client.request(jute.MULTI_READ, jute.multi(reads)).multi()
        assert answers[0] == (jute.ERROR, -127)
        assert answers[1][1][0] == b"own"
        client.end()


def test_many_sessions_end_at_once(server):
    """Each with ephemerals below parents of its own."""
    with Client(server.address).connect(40_000) as observer:
        observer.create("/end")
        clients = [Client(server.address) for _ in range(SESSIONS)]
        for client in clients:
            client.send_frame(jute.connect(SESSION_MS))
        for number, client in enumerate(clients):
            client.receive_frame()
            made = [(jute.CREATE, jute.create(f"/end/{number}-{each}")) for each in range(EPHEMERALS)]
            made += [(jute.CREATE, jute.create(f"/end/{number}-{each}/e", flags=jute.EPHEMERAL))
                     for each in range(EPHEMERALS)]  # fmt: skip
            client.post(jute.MULTI, jute.multi(made))
        for client in clients:
            assert client.receive().error == 0
            client.ping()
        with Neighbour(server, f"{SESSIONS} sessions end"):
            for client in clients:
                client.close()
            last = f"/end/{SESSIONS - 1}-{EPHEMERALS - 1}/e"

            def gone():
                observer.ping()
                return observer.exists(last) is None

            wait_for(gone, GONE_SECONDS, "the sessions gone")
        assert observer.exists(f"/end/{SESSIONS - 1}-0")["children"] == 0
