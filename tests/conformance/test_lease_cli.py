"""Our own `lease`, against etcd and against leased: the same words, the same answers."""
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from harness import PROJECT_ROOT, Server
from harness.kinds import clean_environment

COMMAND_SECONDS = 20.0


def lease(*words, server=None, env=None):
    """Runs `lease` to its end; a server is named by --endpoint."""
    path = os.environ.get("LEASE", str(PROJECT_ROOT / "build" / "lease"))
    where = ["--endpoint", server.endpoint] if server else []
    return subprocess.run(
        [path] + where + [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        env={**clean_environment(), **(env or {})},
        check=False,
    )


def lease_json(server, *words):
    done = lease(*words, "--json", server=server)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def ids(server):
    return {row["id"]: row for row in lease_json(server, "ls")["leases"]}


# What it shows


def test_status_tells_version_leader_and_leases(server):
    lease_json(server, "grant", "100")
    (status,) = lease_json(server, "status")["endpoints"]
    assert status["endpoint"] == server.endpoint
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", status["version"])
    assert status["member_id"] == status["leader"] != "0"
    assert status["revision"] >= 1
    assert status["raft_term"] >= 1
    assert status["leases"] == len(ids(server))
    assert status["latency_ms"] > 0


def test_status_is_an_aligned_table(server):
    done = lease("status", server=server)
    assert done.returncode == 0
    title, row = done.stdout.splitlines()
    assert title.split()[:3] == ["ENDPOINT", "VERSION", "MEMBER"]
    assert row.startswith(server.endpoint)
    assert title.index("VERSION") == row.index(row.split()[1])


def test_status_shows_the_living_and_fails_for_the_dead(server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, never listening
        dead = f"127.0.0.1:{unused.getsockname()[1]}"
        done = lease("-e", f"{dead},{server.endpoint}", "status")
    assert done.returncode == 1
    assert server.endpoint in done.stdout
    assert f"{dead} cannot be reached: connection refused" in done.stderr


def test_status_is_delayed_once_by_any_number_of_endpoints_that_hang(server):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
    hung = [f"127.0.0.1:{one.getsockname()[1]}" for one in listeners]
    try:
        begun = time.monotonic()
        done = lease("-e", ",".join([*hung, server.endpoint]), "--timeout", "1s", "status")
        took_seconds = time.monotonic() - begun
    finally:
        for one in listeners:
            one.close()
    assert took_seconds < 3, "they were asked one after the other"
    assert done.returncode == 1
    assert server.endpoint in done.stdout
    reported = [line for line in done.stderr.splitlines() if line.startswith("lease: ")]
    assert [endpoint for endpoint in hung if any(endpoint in line for line in reported)] == hung


def test_ls_shows_a_granted_lease_with_its_keys(server, prefix):
    granted = lease_json(server, "grant", "5m", "--key", prefix + "k", "--value", "v")
    assert granted["ttl"] == 300
    assert granted["revision"] >= 2
    row = ids(server)[granted["id"]]
    assert row["granted_ttl"] == 300
    assert 290 <= row["remaining_ttl"] <= 300
    assert row["keys"] == 1
    table = lease("ls", server=server).stdout.splitlines()
    assert table[0].split() == ["ID", "TTL", "REMAINING", "KEYS"]
    assert any(line.split()[:2] == [granted["id"], "5m"] for line in table)


def test_ls_lists_more_leases_than_it_asks_for_at_once(server):
    before = len(ids(server))
    count = 600
    filled = lease("bench", "fill", "--leases", count, "--ttl", "300", server=server)
    assert filled.returncode == 0, filled.stderr
    rows = lease_json(server, "ls")["leases"]
    assert len(rows) == before + count
    remaining = [row["remaining_ttl"] for row in rows]
    assert remaining == sorted(remaining)


# What it does


def test_grant_takes_an_id_and_refuses_it_twice(server):
    assert lease("grant", "60s", "--id", "beef", server=server).stdout.startswith(
        "lease beef granted, ttl 1m")
    again = lease("grant", "60s", "--id", "beef", server=server)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "lease: etcdserver: lease already exists\n"


def test_grant_takes_a_negative_id_in_hex(server):
    granted = lease_json(server, "grant", "60", "--id", "fffffffffffffff0")
    assert granted["id"] == "fffffffffffffff0"
    assert granted["id"] in ids(server)


def test_a_grant_whose_key_is_refused_leaves_no_lease():
    # Room for a lease but not for this value: the grant is done, then the put refused.
    with Server("etcd", extra_flags=["--quota-backend-bytes", "100000"]) as small:
        done = lease("grant", "60", "--key", "k", "--value", "v" * 90_000, server=small)
        assert done.returncode == 1
        assert done.stderr.startswith("lease: etcdserver: mvcc: database space exceeded; delete keys")
        assert ids(small) == {}


def test_a_ttl_that_is_too_large_is_the_servers_to_refuse(server):
    done = lease("grant", "9000000001", server=server)
    assert done.returncode == 1
    assert done.stderr == "lease: etcdserver: too large lease TTL\n"


@pytest.mark.parametrize("ttl, says", [
    ("1500ms", "whole seconds; 2s is the next longer one"),
    ("0", "at least a second"),
    ("soon", "TTL soon is not a time; give 10, 10s, 5m"),
    ("99999999999999999999", "too long"),
])
def test_a_ttl_that_cannot_be_is_refused_before_connecting(ttl, says):
    done = lease("grant", ttl, "-e", "127.0.0.1:1")
    assert done.returncode == 2
    assert says in done.stderr
    assert "usage: lease grant TTL" in done.stderr


# Where it goes


def test_the_environment_names_the_server(server):
    for name in ("LEASED_ENDPOINT", "ETCDCTL_ENDPOINTS"):
        done = lease("status", "--json", env={name: server.client_url})
        assert json.loads(done.stdout)["endpoints"][0]["endpoint"] == server.endpoint


def test_the_next_endpoint_is_tried(server):
    done = lease("-e", f"127.0.0.1:1,{server.endpoint}", "ls", "--json")
    assert done.returncode == 0
    assert "leases" in json.loads(done.stdout)


def test_a_name_is_resolved(server):
    done = lease("-e", f"localhost:{server.client_port}", "status", "--json")
    assert done.returncode == 0


# What goes wrong


class OddServer:
    """Accepts, says one thing and then keeps quiet."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.answer = answer
        self.peers = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.peers.append(peer)
            peer.sendall(self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for peer in self.peers:
            peer.close()


@pytest.mark.parametrize("answer, says", [
    (b"", "accepted the connection but sent no SETTINGS"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answered with HTTP/1"),
    (b"-ERR unknown command\r\n", "does not speak HTTP/2"),
])
def test_a_server_that_is_none_is_told(answer, says):
    with OddServer(answer) as odd:
        done = lease("ls", "--timeout", "500ms", server=odd)
    assert (done.returncode, done.stdout) == (1, "")
    assert odd.endpoint in done.stderr
    assert says in done.stderr


def test_an_answer_that_does_not_come_ends_at_the_timeout(server):
    server.pause()
    try:
        done = lease("status", "--timeout", "300ms", server=server)
    finally:
        server.resume()
    assert done.returncode == 1
    assert server.endpoint in done.stderr


@pytest.mark.parametrize("words", [
    [], ["frob"], ["grant"], ["grant", "1", "2"], ["ls", "--what"], ["--timeout"],
    ["ls", "--timeout", "0"], ["ls", "-e", "ftp://a"], ["ls", "-e", "a:99999"],
    ["grant", "10", "--id", "xyz"], ["grant", "10", "--id", "0"], ["grant", "10", "--value", "v"],
    ["grant", "10", "--key", ""],
])
def test_a_wrong_command_line_is_exit_code_two(words):
    done = lease(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_help_and_version_are_answers():
    assert lease("--version").stdout.startswith("lease ")
    text = lease("--help").stdout
    for name in ("status", "grant", "ls", "--endpoint", "LEASED_ENDPOINT"):
        assert name in text
    assert lease("grant", "--help").stdout.startswith("usage: lease grant TTL")


def test_a_missing_or_unexpected_argument_is_named():
    assert "missing argument TTL" in lease("grant").stderr
    assert "unexpected argument 2" in lease("grant", "1", "2").stderr
