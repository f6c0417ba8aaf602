"""How leased starts, refuses to start, and stops."""
import json
import os
import signal
import socket
import subprocess

import pytest

from harness import KIND_LEASED, Process, Server, binary_of, wait_for
from harness.etcdctl import call
from harness.exit_codes import EXIT_CODES
from harness.kinds import clean_environment

EXIT_SECONDS = 10.0


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


def run(*flags, env=None, cwd=None):
    """Runs leased to its end; for what must not start."""
    return subprocess.run(
        [binary_of(KIND_LEASED), *flags],
        capture_output=True, text=True, timeout=EXIT_SECONDS, check=False, cwd=cwd,
        env={**clean_environment(), **(env or {})},
    )  # fmt: skip


def beside(server, **changes):
    """The flags of a second process like this one, with other values for some."""
    flags = server.flags()
    for name, value in changes.items():
        flag = "--" + name.replace("_", "-")
        flags[flags.index(flag) + 1] = value
    return flags


def text_of(server):
    with open(server.log_path, encoding="utf-8") as log:
        return log.read()


def test_version_names_the_libraries():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "leased 0.3.0"
    for library in ("libraft 0.", "libuv 1.", "nghttp2 1."):
        assert library in done.stdout


def test_help_is_readable_on_a_terminal():
    done = run("--help")
    assert done.returncode == 0
    assert "--data-dir" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


@pytest.mark.parametrize("flags, words", [
    (["--data-dri", "x"], "did you mean --data-dir?"),
    (["--cert-file", "server.crt"], "--key-file is missing"),
    (["--listen-client-urls", "http://0.0.0.0:2379"], "--allow-insecure"),
    (["--config-file", "etcd.yml"], "No such file"),
    (["--name", "a", "--initial-cluster", "c=http://127.0.0.1:1,b=http://127.0.0.1:2"],
     "does not name this member"),
])  # fmt: skip
def test_what_cannot_be_done_as_asked_is_refused_with_a_reason(flags, words, tmp_path):
    done = run(*flags, cwd=tmp_path)
    assert done.returncode == EXIT_CODES["USAGE"]
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_start_tells_where_the_data_lies_and_what_to_try(server):
    text = wait_for(lambda: "Try" in text_of(server) and text_of(server), 5, "the welcome")
    assert f"Data directory: {server.data_dir}\n" in text
    assert f"etcdctl --endpoints={server.endpoint} put" in text
    lease = os.path.join(os.path.dirname(binary_of(KIND_LEASED)), "lease")
    assert f"  {lease} --endpoint={server.endpoint} status\n" in text


def test_the_environment_starts_it_too(tmp_path):
    with Server(KIND_LEASED) as first:
        flags = first.flags()
        first.stop()
    env = {
        "ETCD_" + flag.lstrip("-").replace("-", "_").upper(): value
        for flag, value in zip(flags[::2], flags[1::2])
    }
    env["LEASED_DATA_DIR"] = str(tmp_path / "ours")
    process = Process(
        [binary_of(KIND_LEASED)], tmp_path / "log", env={**clean_environment(), **env}
    )
    try:
        wait_for(lambda: "ready" in process.log_tail(), 10, "ready")
        assert (tmp_path / "ours" / "identity").exists()
    finally:
        assert process.terminate() == 0


def test_a_second_process_is_kept_out_of_the_data_dir(server):
    done = run(*beside(server, listen_client_urls="http://127.0.0.1:1"))
    assert done.returncode == EXIT_CODES["DATA_DIR_IN_USE"]
    assert f"in use by another leased, process {server.pid}" in done.stderr
    assert server.is_healthy()


def test_a_port_that_is_taken_is_named(server, tmp_path):
    done = run(*beside(server, data_dir=str(tmp_path / "other"),
                       listen_peer_urls="http://127.0.0.1:1"))  # fmt: skip
    assert done.returncode == EXIT_CODES["FAILED"]
    assert "address already in use" in done.stderr.lower()
    assert str(server.client_port) in done.stderr
    assert "listen on another port" in done.stderr


def test_a_peer_port_that_is_taken_is_named_and_worth_a_restart():
    server = Server(KIND_LEASED)
    try:
        server.initial_cluster = f"{server.name}={server.peer_url},other=http://127.0.0.1:1"
        with socket.create_server((server.host, server.peer_port)):
            server.launch()
            assert server.process.wait(EXIT_SECONDS) == EXIT_CODES["FAILED"], server.log_tail()
        log = server.log_tail().lower()
        assert "address already in use" in log and str(server.peer_port) in log
    finally:
        server.close()


def test_a_file_is_not_a_data_dir(tmp_path):
    (tmp_path / "file").write_text("x")
    done = run("--data-dir", str(tmp_path / "file"))
    assert done.returncode == EXIT_CODES["DISK_FAILED"]
    assert "is a file, not a directory" in done.stderr


def test_a_corrupt_identity_stops_the_start(server):
    server.stop()
    path = os.path.join(server.data_dir, "identity")
    with open(path, "r+b") as identity:
        identity.seek(30)
        identity.write(b"?")
    done = run(*server.flags())
    assert done.returncode == EXIT_CODES["DATA_CORRUPT"]
    assert "identity is corrupt" in done.stderr


def test_ids_stay_over_a_restart_and_a_new_name(server):
    def member():
        return json.loads(call(server, "member", "list", "-w", "json").stdout)

    before = member()
    server.name = "renamed"
    server.restart()
    after = member()
    assert after["members"][0]["ID"] == before["members"][0]["ID"]
    assert after["header"]["cluster_id"] == before["header"]["cluster_id"]
    assert after["members"][0]["name"] == "renamed"


def test_sigterm_ends_it_cleanly_while_clients_watch(server, tmp_path):
    watch = Process(
        ["etcdctl", "--endpoints", server.endpoint, "watch", "key"], tmp_path / "watch",
        env={**clean_environment(), "ETCDCTL_API": "3"},
    )  # fmt: skip
    try:
        wait_for(lambda: server.metric("leased_etcd_watch_streams") == 1, 30, "a watch")
        assert call(server, "put", "key", "value").returncode == 0
        assert server.stop() == 0
        assert "stopped" in text_of(server).splitlines()[-1]
    finally:
        watch.kill()
    server.restart()
    assert call(server, "get", "key").stdout == b"key\nvalue\n"


def test_two_signals_at_once_are_one_stop(server):
    server.pause()
    server.process.signal(signal.SIGTERM)
    server.process.signal(signal.SIGINT)
    server.resume()
    assert server.process.wait(EXIT_SECONDS) == 0


def test_sighup_is_ignored(server):
    server.process.signal(signal.SIGHUP)
    assert call(server, "put", "key", "value").returncode == 0
    assert server.is_running()


def test_the_service_manager_is_told(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(10)
        env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}
        with Server(KIND_LEASED, env=env) as server:
            assert manager.recv(100) == b"READY=1"
            assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            assert server.stop() == 0
        manager.setblocking(False)
        messages = []
        while b"STOPPING=1" not in messages:
            messages.append(manager.recv(100))


def test_json_logs_are_json_and_nothing_else_is_printed():
    with Server(KIND_LEASED, extra_flags=["--log-format", "json", "--pre-vote"]) as server:
        server.stop()
        lines = [json.loads(line) for line in text_of(server).splitlines()]
    assert any("--pre-vote" in str(line) for line in lines)
    assert any("ready to serve client requests" in line.values() for line in lines)


def test_the_file_limit_is_raised(server):
    with open(f"/proc/{server.pid}/limits", encoding="ascii") as limits:
        words = next(line for line in limits if line.startswith("Max open files")).split()
    assert words[3] == words[4]


def test_an_idle_server_is_small(server):
    assert server.rss_bytes() <= 15 * 1024 * 1024
