"""Too much, too slow, or never reading: floods, half-open and slow clients, windows that stay
closed, thousands of watches and of idle connections. Memory stays bounded and a well-behaved
client is served all the time."""
import contextlib
import resource
import socket
import struct
import subprocess
import threading
import time

import pytest
from bystander import Bystander, is_sanitized
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, hpack, wait_for
from harness.acceptance import either, report
from harness.http2_frames import (
    CONTINUATION, HEADERS, PREFACE, Connection, Ended, Reset, call, frame,
    headers, ping, rst_stream, settings, window_update,
)  # fmt: skip
from harness.kinds import lease_tool
from harness.rpc import Rpc
from harness.watch_messages import WatchRequest

MIB = 1024 * 1024
RANGE = b"/etcdserverpb.KV/Range"
WATCH = b"/etcdserverpb.Watch/Watch"
IDLE_CONNECTIONS = either(2000, 10_000)
WATCHES = either(3000, 20_000)
UNREAD_BYTES = either(30, 100) * MIB
# What the server may hold for clients that do not read, however many bytes they asked for.
GROWTH_MAX = 160 * MIB
# The same where three waves of hoarders may overlap before the first is thrown out.
HOARDED_MAX = 400 * MIB
FLOOD_SECONDS_MAX = 20.0


@pytest.fixture
def server():
    """A fresh one each: what one flood left behind must not be counted for the next."""
    with Server(KIND_LEASED) as running, Bystander(running) as working:
        yield running
        working.check_served()
        assert running.is_running()
        assert working.longest_s < 10


def grown(server, before):
    return 0 if is_sanitized(server) else server.rss_bytes() - before


def flood(connection, data, count):
    """Sends as often as told, or until the server has had enough; answers whether it had."""
    deadline = time.monotonic() + FLOOD_SECONDS_MAX
    connection.socket.settimeout(FLOOD_SECONDS_MAX)
    try:
        for _ in range(count):
            connection.send(data)
            if time.monotonic() > deadline:
                break
    except (Ended, TimeoutError):
        return True
    return False


def drained(connection):
    """Reads in the background what the server says, as a flooder with manners would."""
    def read():
        with contextlib.suppress(Ended, TimeoutError, OSError, ValueError):
            while True:
                connection.receive(FLOOD_SECONDS_MAX)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


FLOODS = {
    "pings": ping() * 500,
    "settings": settings(header_table_size=4096) * 500,
    "empty settings": settings() * 1000,
    "window updates": window_update(0, 1) * 500,
    "unknown frames": frame(0x77, 0, 0, b"?") * 500,
    "priorities": b"".join(
        frame(2, 0, 2 * number + 1, struct.pack(">IB", 0, 1)) for number in range(500)
    ),
}


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "deaf"])
@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_of_frames_is_borne_or_ended(server, what, reads):
    before = server.rss_bytes()
    with Connection(server, polite=False) as connection:
        if reads:
            drained(connection)
        ended = flood(connection, FLOODS[what], 400)
        print(f"{what}: {'ended by the server' if ended else 'borne'}")
        assert grown(server, before) < GROWTH_MAX


def test_a_flood_of_resets_is_borne_or_ended(server):
    before = server.rss_bytes()
    request = etcdrpc.RangeRequest(key=b"k").SerializeToString()
    with Connection(server, polite=False) as connection:
        drained(connection)
        deadline = time.monotonic() + FLOOD_SECONDS_MAX
        with contextlib.suppress(Ended, TimeoutError):
            for stream in range(1, 200_000, 2):
                connection.send(call(stream, RANGE, request) + rst_stream(stream))
                if time.monotonic() > deadline:
                    break
        assert grown(server, before) < GROWTH_MAX


def test_headers_without_end_are_ended(server):
    before = server.rss_bytes()
    with Connection(server) as connection:
        connection.send(frame(HEADERS, 0, 1, hpack.grpc_request(RANGE)))
        block = hpack.literal(b"x", b"y" * 15_000)
        assert flood(connection, frame(CONTINUATION, 0, 1, block), 10_000)
        assert grown(server, before) < GROWTH_MAX


def test_empty_continuations_without_end_are_ended(server):
    with Connection(server) as connection:
        connection.send(frame(HEADERS, 0, 1, hpack.grpc_request(RANGE)))
        assert flood(connection, frame(CONTINUATION, 0, 1) * 1000, 2000)


def test_headers_that_grow_when_they_are_read_are_refused(server):
    """A few bytes that each stand for 4000: the header bomb of RFC 7541, 7.3."""
    before = server.rss_bytes()
    with Connection(server) as connection:
        bomb = hpack.literal_indexed(b"x", b"y" * 3900) + hpack.indexed(62) * 10_000
        try:
            connection.send(headers(1, hpack.grpc_request(RANGE) + bomb[:15_000]))
            answer = connection.wait_answer(1)
            assert answer.http_status == 431 or answer.grpc_status not in (None, 0)
        except (Ended, Reset):
            pass
        assert grown(server, before) < GROWTH_MAX


def test_http1_headers_without_end_are_ended(server):
    before = server.rss_bytes()
    with socket.create_connection(("127.0.0.1", server.client_port), timeout=20) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for number in range(1_000_000):
                raw.sendall(b"x-%d: " % number + b"y" * 1000 + b"\r\n")
    assert grown(server, before) < GROWTH_MAX


def test_http1_requests_whose_answers_nobody_reads_are_bounded(server):
    before = server.rss_bytes()
    with socket.create_connection(("127.0.0.1", server.client_port), timeout=2) as raw:
        with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
            for _ in range(20_000):
                raw.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 10)
        assert grown(server, before) < GROWTH_MAX


def test_silent_and_slow_clients_are_closed_in_time(server):
    address = ("127.0.0.1", server.client_port)
    with contextlib.ExitStack() as stack:
        def connect(first=b""):
            raw = stack.enter_context(socket.create_connection(address, timeout=30))
            raw.sendall(first)
            return raw

        silent = [connect() for _ in range(100)]
        halves = [connect(PREFACE[:10]), connect(b"GET /hea"), connect(b"P")]
        slow = connect()
        deadline = time.monotonic() + 25
        sent = b"GET /health HTTP/1.1\r\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for number in range(250):
                slow.sendall(sent[number: number + 1] or b"x")
                time.sleep(0.1)
                assert time.monotonic() < deadline + 5
        for raw in silent + halves:
            raw.settimeout(max(1, deadline - time.monotonic()))
            with contextlib.suppress(ConnectionResetError):
                while raw.recv(100):
                    pass
        # A slow client that is still within its time is served.
        patient = connect()
        for byte in PREFACE + settings():
            patient.sendall(bytes([byte]))
            time.sleep(0.02)
        assert patient.recv(9)


def test_answers_that_nobody_takes_are_bounded(server):
    """Streams whose windows stay closed, each with an answer of a megabyte."""
    with Rpc(server) as rpc:
        rpc.put(b"/large", b"v" * MIB)
    before = server.rss_bytes()
    request = etcdrpc.RangeRequest(key=b"/large").SerializeToString()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            hello = PREFACE + settings(initial_window_size=0)
            connection = stack.enter_context(Connection(server, hello=hello))
            connection.socket.settimeout(1)
            with contextlib.suppress(Ended, TimeoutError):
                for stream in range(1, 201, 2):
                    connection.send(call(stream, RANGE, request))
        wait_for(lambda: server.is_healthy(), 20, "healthy")
        time.sleep(1)  # what was sent is worked off by then; more only grows later
        held = grown(server, before)
        report("2,000 unread answers of 1 MiB", held_mib=round(held / MIB))
        assert held < GROWTH_MAX


class Reader(threading.Thread):
    """Reads 100 KB again and again, and keeps when each read began and how it ended."""

    def __init__(self, server, key):
        super().__init__(daemon=True)
        self.results = []  # (begun, None or the failure)
        self._key = key
        self._rpc = Rpc(server)
        self._done = threading.Event()

    def run(self):
        while not self._done.wait(0.01):
            begun = time.monotonic()
            failure = None
            try:
                assert len(self._rpc.range(self._key).kvs[0].value) == 100_000
            except Exception as error:  # pylint: disable=broad-except
                failure = error
            self.results.append((begun, failure))

    def count_since(self, begun):
        return sum(when >= begun for when, _ in self.results)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self.join(60)
        self._rpc.close()


def hoard(server, request):
    """A connection that asks for 40 answers and has no window for any of them."""
    connection = Connection(server, hello=PREFACE + settings(initial_window_size=0))
    with contextlib.suppress(Ended, TimeoutError):
        connection.send(b"".join(call(1 + 2 * number, RANGE, request) for number in range(40)))
    drained(connection)  # it answers PINGs, so it seems to live
    return connection


def test_who_hoards_answers_does_not_keep_others_from_reading(server):
    """40 connections, 40 answers of 1 MiB each, and who is thrown out comes back."""
    with Rpc(server) as rpc:
        rpc.put(b"/large", b"v" * MIB)
        rpc.put(b"/medium", b"v" * 100_000)
    before = server.rss_bytes()
    request = etcdrpc.RangeRequest(key=b"/large").SerializeToString()
    most = 0
    begun = time.monotonic()
    with contextlib.ExitStack() as stack, Reader(server, b"/medium") as reader:
        for _ in range(3):
            for _ in range(40):
                stack.enter_context(hoard(server, request))
            for _ in range(20):
                most = max(most, grown(server, before))
                time.sleep(0.1)
        # They stay connected, and the reader goes on.
        quiet = time.monotonic()
        wait_for(lambda: reader.count_since(quiet) >= 50, 30, "the reader")
        # Who still holds much is closed when its time is up, and so memory comes back.
        wait_for(lambda: server.metric("leased_queued_bytes") <= 40 * MIB, 30, "room")
        refused = [(round(when - begun, 2), failure) for when, failure in reader.results if failure]
        report("40 hoarders of 40 MiB, three times", most_mib=round(most / MIB),
               reads=len(reader.results), refused=len(refused))  # fmt: skip
        assert all(when < 2 for when, _ in refused), refused
        assert most < HOARDED_MAX
    wait_for(lambda: server.metric("leased_queued_bytes") == 0, 20, "the end of the hoarders")
    with Connection(server) as connection:
        connection.send(call(1, RANGE, request))
        assert connection.wait_answer(1).grpc_status == 0


@pytest.mark.parametrize("closed", ["the window", "the socket"])
def test_watchers_that_never_read_are_bounded(server, closed):
    create = WatchRequest(create_request={"key": b"/unread", "prev_kv": True}).SerializeToString()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            hello = settings(initial_window_size=0) if closed == "the window" else \
                settings(initial_window_size=2**31 - 1) + window_update(0, 2**30)
            connection = Connection(server, polite=False, hello=PREFACE + hello, receive_buffer=4096)
            stack.enter_context(connection)
            connection.send(call(1, WATCH, create, flags=0))
        wait_for(lambda: server.metric("leased_watchers") >= 20, 10, "the watches")
        before = server.rss_bytes()
        most = 0
        with Rpc(server) as rpc:
            for number in range(UNREAD_BYTES // MIB):
                answer = rpc.put(b"/unread", bytes([number % 256]) * MIB)
                most = max(most, grown(server, before))
                if number % 8 == 7:
                    rpc.compact(answer.header.revision)
        report(f"{UNREAD_BYTES // MIB} MiB past 20 deaf watchers, {closed} closed",
               most_mib=round(most / MIB))  # fmt: skip
        assert most < GROWTH_MAX


@pytest.mark.seconds_max(240)
def test_thousands_of_watches_on_one_stream_are_served(server):
    with Rpc(server) as rpc, rpc.watch() as stream:
        for number in range(WATCHES):
            stream.ask(b"/watched/%d" % (number % 10))
        accepted = sum(not stream.receive(60).canceled for _ in range(WATCHES))
        assert accepted > 0
        rpc.put(b"/watched/3", b"x")
        wanted = sum(number % 10 == 3 for number in range(accepted))
        seen = set()
        while len(seen) < wanted:
            response = stream.receive(60)
            assert len(response.events) == 1
            assert response.watch_id not in seen
            seen.add(response.watch_id)
        report("watches on one stream", asked=WATCHES, accepted=accepted, events=len(seen))


@pytest.fixture
def many_files():
    """This process and its children may open as many files as the system lets them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE_CONNECTIONS + 100:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_cost_little_and_hold_nobody_up(many_files, server):
    before = server.rss_bytes()
    load = subprocess.Popen(
        [lease_tool(), "bench", "connections", "--connections", str(IDLE_CONNECTIONS),
         "--duration", "8s", "--endpoint", server.endpoint], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for(
            lambda: server.metric("leased_connections") >= IDLE_CONNECTIONS, 60, "connections"
        )
        held = grown(server, before)
        with Rpc(server) as rpc:
            assert rpc.put(b"/among/many", b"x").header.revision > 0
        assert server.is_healthy()
        report("idle connections", count=IDLE_CONNECTIONS,
               bytes_each=held // IDLE_CONNECTIONS)  # fmt: skip
        assert held / IDLE_CONNECTIONS < 32 * 1024
        assert load.wait(60) == 0, load.stdout.read()
        wait_for(lambda: server.metric("leased_connections") < 50, 30, "their end")
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
