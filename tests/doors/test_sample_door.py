"""The sample door, as docs/doors/README.md shows it: lines and HTTP, on the main port and on its own."""
import base64
import errno
import http.client
import json
import os
import socket
import ssl
import subprocess
from types import SimpleNamespace

import pytest

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import Cluster
from harness.etcdctl import call
from harness.kinds import binary_of
from harness.ports import free_ports

TTL_SECONDS = 2
ANSWER_SECONDS = 10.0


def sample_binary():
    """`leased` with the sample door in its list; the build puts it beside `leased`."""
    return os.path.join(os.path.dirname(os.path.abspath(binary_of(KIND_LEASED))), "leased-sample")


def sample_server(*flags):
    server = Server(KIND_LEASED, extra_flags=["--doors", "etcd,sample", "--sample-ttl", f"{TTL_SECONDS}s"])
    server.binary = sample_binary()
    (server.sample_port,) = free_ports(1)
    server.extra_flags += ["--listen-sample", f"127.0.0.1:{server.sample_port}", *flags]
    return server


@pytest.fixture(scope="module")
def server():
    with sample_server() as running:
        take(running.sample_port, "warm-up")  # rules may be used once the cluster's version is raised
        yield running


def exchange(port, sent, host="127.0.0.1"):
    """Sends bytes, ends its side, and gives all that came back."""
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


def take(port, queue):
    """One ticket over lines; waits while the cluster cannot give one yet."""

    def ticket():
        answer = json.loads(exchange(port, f"TAKE {queue}\n".encode()))
        return answer if "number" in answer else None

    return wait_for(ticket, ANSWER_SECONDS, f"a ticket of {queue}")


def post(port, path, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_numbers_count_up_and_tokens_grow_over_both_wires(server):
    first = take(server.sample_port, "bakery")
    status, body = post(server.client_port, "/tickets/bakery")
    third = take(server.client_port, "bakery")  # the main port tells lines from HTTP
    assert status == 201
    tickets = [first, json.loads(body), third]
    assert [ticket["number"] for ticket in tickets] == [1, 2, 3]
    assert tickets[0]["token"] < tickets[1]["token"] < tickets[2]["token"]
    assert len({ticket["lease"] for ticket in tickets}) == 3
    assert take(server.sample_port, "butcher")["number"] == 1


def test_lines_sent_at_once_are_answered_in_their_order(server):
    answers = exchange(server.sample_port, b"TAKE many\n" * 200).decode().splitlines()
    assert [json.loads(line)["number"] for line in answers] == list(range(1, 201))


def test_a_line_in_pieces_is_put_together(server):
    with socket.create_connection(("127.0.0.1", server.client_port), timeout=ANSWER_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"T", b"AKE pie", b"ces\nTAKE pie", b"ces\n"):
            connection.sendall(piece)
        received = b""
        while received.count(b"\n") < 2:
            received += connection.recv(65536)
    assert [json.loads(line)["number"] for line in received.splitlines()] == [1, 2]


def test_a_ticket_ends_with_its_lease(server):
    before = server.metric("leased_leases")
    take(server.sample_port, "short")
    assert server.metric("leased_leases") >= before
    wait_for(lambda: server.metric("leased_leases") == 0, TTL_SECONDS + ANSWER_SECONDS, "the end of all tickets")
    assert take(server.sample_port, "short")["number"] == 2  # the counter stays


@pytest.mark.parametrize("sent", [
    b"\n", b"TAKE\n", b"TAKE \n", b"take x\n", b"TAKE " + b"x" * 65 + b"\n", b"TAKE " + b"x" * 100_000,
    b"\0" * 1000,
], ids=["empty", "no name", "empty name", "small letters", "long name", "no end", "zeros"])  # fmt: skip
def test_what_is_no_request_ends_the_connection(server, sent):
    try:
        answer = exchange(server.sample_port, sent)
    except OSError as error:
        # It may be gone before all is sent, or before this side is shut.
        assert error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN), error
        answer = b""
    assert answer == b"" or "error" in json.loads(answer)
    assert take(server.sample_port, "after")["number"] > 0


def test_its_own_port_serves_nothing_else(server):
    status, body = post(server.sample_port, "/tickets/own-port")
    assert (status, json.loads(body)["number"]) == (201, 1)
    assert post(server.sample_port, "/health")[0] == 404
    refused = call(SimpleNamespace(endpoint=f"127.0.0.1:{server.sample_port}"), "put", "a", "b")
    assert refused.returncode != 0
    assert b"Unimplemented" in refused.stderr


def test_clients_of_etcd_see_nothing_of_it(server):
    take(server.sample_port, "hidden")
    assert call(server, "get", "", "--prefix", "--keys-only").stdout == b""
    assert call(server, "del", "", "--prefix").stdout == b"0\n"
    assert take(server.sample_port, "hidden")["number"] == 2


def test_counters_and_tokens_go_on_after_a_restart():
    with sample_server() as server:
        first = take(server.sample_port, "bakery")
        server.kill()
        server.restart()
        second = take(server.sample_port, "bakery")
    assert (first["number"], second["number"]) == (1, 2)
    assert second["token"] > first["token"]


def test_its_own_listeners_may_speak_tls_or_be_unix_sockets():
    server = sample_server("--auto-tls")
    path = os.path.join(server.home, "sample.sock")
    (tls_port,) = free_ports(1)
    server.extra_flags += ["--listen-sample", f"tls://127.0.0.1:{tls_port},unix://{path}"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with server:
        with socket.create_connection(("127.0.0.1", tls_port), timeout=ANSWER_SECONDS) as plain:
            with context.wrap_socket(plain) as connection:
                connection.sendall(b"TAKE secure\n")
                assert json.loads(connection.recv(65536))["number"] == 1
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(path)
            connection.sendall(b"TAKE secure\n")
            assert json.loads(connection.recv(65536))["number"] == 2


def test_with_authentication_on_nothing_is_anonymous():
    with sample_server() as server:
        take(server.sample_port, "bakery")
        for words in (["user", "add", "root:secret"], ["user", "grant-role", "root", "root"], ["auth", "enable"]):
            assert call(server, *words).returncode == 0
        assert "error" in json.loads(exchange(server.sample_port, b"TAKE bakery\n"))
        assert post(server.client_port, "/tickets/bakery")[0] == 401
        wrong = {"Authorization": "Basic " + base64.b64encode(b"root:wrong").decode()}
        assert post(server.client_port, "/tickets/bakery", wrong)[0] == 401
        right = {"Authorization": "Basic " + base64.b64encode(b"root:secret").decode()}
        status, body = post(server.client_port, "/tickets/bakery", right)
        assert (status, json.loads(body)["number"]) == (201, 2)


def test_root_of_etcd_sees_and_deletes_nothing_of_it():
    """The role root has the range of everything, of etcd's own space alone."""
    with sample_server() as server:
        first = take(server.sample_port, "hidden")
        for words in (["user", "add", "root:secret"], ["user", "grant-role", "root", "root"], ["auth", "enable"]):
            assert call(server, *words).returncode == 0
        as_root = ["--user", "root:secret"]
        for everything in (["", "--prefix"], ["", "--from-key"]):
            assert call(server, *as_root, "get", *everything, "--keys-only").stdout == b""
            assert call(server, *as_root, "del", *everything).stdout == b"0\n"
        assert call(server, *as_root, "lease", "revoke", first["lease"]).returncode != 0
        right = {"Authorization": "Basic " + base64.b64encode(b"root:secret").decode()}
        status, body = post(server.client_port, "/tickets/hidden", right)
        assert (status, json.loads(body)["number"]) == (201, 2)


def test_every_member_gives_out_the_same_numbers_once():
    cluster = Cluster(extra_flags=["--doors", "etcd,sample"])
    for server in cluster.servers:
        server.binary = sample_binary()
    with cluster:
        tickets = [take(cluster[i % 3].client_port, "bakery") for i in range(9)]
        assert [ticket["number"] for ticket in tickets] == list(range(1, 10))
        tokens = [ticket["token"] for ticket in tickets]
        assert tokens == sorted(set(tokens))


def test_a_door_that_is_not_chosen_is_not_spoken():
    server = Server(KIND_LEASED)
    server.binary = sample_binary()
    with server:
        assert exchange(server.client_port, b"TAKE bakery\n") == b""
        assert post(server.client_port, "/tickets/bakery")[0] == 404


def test_the_table_makes_flags_and_the_list_of_requests():
    help_text = subprocess.run([sample_binary(), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--listen-sample" in help_text
    assert "--sample-ttl  (10s)" in help_text
    listed = subprocess.run([sample_binary(), "--list-requests"], capture_output=True, text=True, check=True).stdout
    assert "sample\tTAKE\twrite\n" in listed
    assert "sample\tPOST /tickets/{queue}\twrite\n" in listed
