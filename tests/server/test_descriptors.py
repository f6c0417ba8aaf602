"""File descriptors: clients never take those that the log, the members and snapshots need."""
import re
import socket
import subprocess
import urllib.request

import pytest

from harness import KIND_LEASED, Server, wait_for
from harness.exit_codes import EXIT_CODES
from harness.ports import free_ports
from harness.rpc import Rpc

TLS_ALERT_INTERNAL_ERROR = bytes([21, 3, 1, 0, 2, 2, 80])
LIMIT = 300
IDLE_CLIENTS = 400
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
FRAME_SETTINGS, FRAME_GOAWAY, ENHANCE_YOUR_CALM = 4, 7, 11


def limited(limit, extra_flags=()):
    server = Server(KIND_LEASED, extra_flags=extra_flags)
    server.command_prefix = ["prlimit", f"--nofile={limit}:{limit}"]
    return server


def metrics_at(url):
    with urllib.request.urlopen(url + "/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.e+]+)$", text, re.MULTILINE)}


@pytest.fixture
def idle_clients():
    """Opens connections that never say anything; answers the list, which grows."""
    sockets = []

    def open_many(server, count):
        for _ in range(count):
            sockets.append(socket.create_connection((server.host, server.client_port), timeout=5))
        return sockets

    yield open_many
    for one in sockets:
        one.close()


def received(connection):
    """Everything until the server closes."""
    parts = []
    try:
        while part := connection.recv(4096):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_writes_go_on_while_clients_take_every_descriptor_they_can(idle_clients):
    (port,) = free_ports(1)
    metrics_url = f"http://127.0.0.1:{port}"
    # So small that segments are made and snapshots written while the clients are there.
    flags = ["--listen-metrics-urls", metrics_url, "--snapshot-log-bytes", "65536"]
    with limited(LIMIT, flags) as server, Rpc(server) as rpc:
        rpc.put(b"/before", b"x")
        idle_clients(server, IDLE_CLIENTS)
        refused = wait_for(
            lambda: metrics_at(metrics_url)["leased_connections_refused_total"], 5, "refusals"
        )
        lease = rpc.grant(60).ID
        for number in range(100):
            rpc.put(b"/key/%d" % number, b"v" * 4000, lease=lease)
        shown = wait_for(
            lambda: (now := metrics_at(metrics_url))["leased_raft_snapshots_total"] > 0 and now,
            10, "a snapshot while the clients are there",
        )  # fmt: skip
        assert shown["process_max_fds"] == LIMIT
        assert shown["leased_connections_max"] < LIMIT
        assert shown["leased_connections"] == shown["leased_connections_max"]
        assert refused + shown["leased_connections_max"] > IDLE_CLIENTS - 20
        # What is left is the reserve, and it is not used up.
        assert shown["process_open_fds"] <= LIMIT - 32
        assert rpc.range(b"/before").kvs[0].value == b"x"
        assert "clients refused" in server.log_tail(100000)
        assert server.stop() == 0


def test_there_is_room_again_when_clients_leave(idle_clients):
    with limited(LIMIT) as server:
        sockets = idle_clients(server, IDLE_CLIENTS)
        for one in sockets:
            one.close()
        sockets.clear()
        with Rpc(server) as rpc:
            wait_for(server.is_healthy, 5, "room for a client")
            rpc.put(b"/key", b"value")
            assert server.metric("leased_connections_refused_total") > 0


def test_a_refused_client_is_told_why_in_its_protocol(idle_clients):
    (port,) = free_ports(1)
    metrics_url = f"http://127.0.0.1:{port}"
    flags = ["--max-connections", "2", "--listen-metrics-urls", metrics_url]

    def wait_connections(count):
        wait_for(lambda: metrics_at(metrics_url)["leased_connections"] == count, 5, f"{count} clients")

    with Server(KIND_LEASED, extra_flags=flags) as server:
        wait_connections(0)  # whoever asked for /health has left
        idle_clients(server, 2)
        wait_connections(2)
        with socket.create_connection((server.host, server.client_port), timeout=5) as http1:
            http1.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = received(http1).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)
            assert b"too many connections" in body
        with socket.create_connection((server.host, server.client_port), timeout=5) as http2:
            # In two parts: the first alone does not tell the protocol.
            http2.sendall(HTTP2_PREFACE[:3])
            http2.sendall(HTTP2_PREFACE[3:])
            frames = received(http2)
            assert frames[3] == FRAME_SETTINGS
            goaway = frames[9:]
            assert goaway[3] == FRAME_GOAWAY and int.from_bytes(goaway[:3], "big") == len(goaway) - 9
            assert int.from_bytes(goaway[9:13], "big") == 0, "a stream was taken"
            assert int.from_bytes(goaway[13:17], "big") == ENHANCE_YOUR_CALM
            assert b"too many connections" in goaway
        with socket.create_connection((server.host, server.client_port), timeout=5) as other:
            other.sendall(b"\x00 what is this?")
            assert received(other) == b""
        with socket.create_connection((server.host, server.client_port), timeout=5) as tls:
            tls.sendall(b"\x16\x03\x01 what is this?")
            assert received(tls) == TLS_ALERT_INTERNAL_ERROR
        with socket.create_connection((server.host, server.client_port), timeout=5) as silent:
            assert received(silent) == b"", "it was not closed after a second"
        assert server.stop() == 0


def metrics_from(source, server):
    """Read by a client of another address."""
    where = (server.host, server.client_port)
    with socket.create_connection(where, timeout=30, source_address=(source, 0)) as other:
        other.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = received(other).decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.e+]+)$", text, re.MULTILINE)}


def test_one_address_cannot_lock_others_out(idle_clients):
    """Its own connections beyond the bound are refused; another address is served."""
    share = 20
    with Server(KIND_LEASED, extra_flags=["--max-connections-per-address", str(share)]) as server:
        where = (server.host, server.client_port)

        def is_full():
            """The test's own question is one of another address; the harness's questions have ended."""
            if metrics_from("127.0.0.2", server)["leased_connections"] == share + 1:
                return True
            idle_clients(server, 1)
            return False

        idle_clients(server, share)
        wait_for(is_full, 30, "as many connections from 127.0.0.1 as it may have")
        with socket.create_connection(where, timeout=30) as refused:
            refused.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = received(refused).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)
            assert b"--max-connections-per-address" in body
        with socket.create_connection(where, timeout=30) as refused:
            refused.sendall(HTTP2_PREFACE)
            goaway = received(refused)[9:]
            assert goaway[3] == FRAME_GOAWAY and int.from_bytes(goaway[:3], "big") == len(goaway) - 9
            assert goaway.endswith(b"--max-connections-per-address")
        assert metrics_from("127.0.0.2", server)["leased_connections_refused_address_total"] >= 2
        said = "as many connections from one address as allowed"
        wait_for(lambda: said in server.log_tail(100000), 30, "the log, which another thread writes")
        for one in idle_clients(server, 0):
            one.close()
        wait_for(server.is_healthy, 30, "room for a client of that address")


def test_stopping_while_refused_clients_are_being_told_is_clean(idle_clients):
    with Server(KIND_LEASED, extra_flags=["--max-connections", "2"]) as server:
        idle_clients(server, 40)
        assert server.stop() == 0, server.log_tail()


def test_a_limit_too_small_to_work_is_refused_with_a_sentence():
    server = limited(100)
    try:
        server.launch()
        assert server.process.wait(10) == EXIT_CODES["USAGE"]
        log = server.log_tail()
        assert "the limit of open files is 100" in log and "LimitNOFILE" in log
    finally:
        server.close()


def test_the_soft_limit_is_raised_to_the_hard_limit():
    server = Server(KIND_LEASED)
    server.command_prefix = ["prlimit", "--nofile=64:1000"]
    with server:
        limits = subprocess.run(
            ["prlimit", "--pid", str(server.pid), "--nofile", "--output=SOFT,HARD", "--noheadings"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        assert limits == ["1000", "1000"]
        assert server.metric("leased_connections_max") == 1000 - 208
