"""Clients over Unix sockets, plain and with TLS."""
import os
import stat
import subprocess

import pytest

from harness import Server
from harness.certificates import Authority
from harness.etcdctl import etcdctl_path
from harness.exit_codes import EXIT_CODES
from harness.kinds import KIND_LEASED, binary_of, clean_environment
from harness.tls_server import server_files

COMMAND_SECONDS = 20


def run(*command):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        env={**clean_environment(), "ETCDCTL_API": "3"},
        check=False,
    )


class UnixServer(Server):
    """Serves a Unix socket besides its port."""

    def __init__(self, scheme="unix", flags=()):
        super().__init__(KIND_LEASED, extra_flags=flags)
        self.path = os.path.join(self.home, "clients.sock")
        self.scheme = scheme

    def flags(self):
        flags = super().flags()
        urls = flags.index("--listen-client-urls") + 1
        flags[urls] += f",{self.scheme}://{self.path}"
        return flags


@pytest.fixture(name="server", scope="module")
def a_server():
    with UnixServer() as one:
        yield one


def test_etcdctl_and_curl_are_served(server):
    url = f"unix://{server.path}"
    assert run(etcdctl_path(), "--endpoints", url, "put", "a", "b").stdout == "OK\n"
    assert run(etcdctl_path(), "--endpoints", url, "get", "a", "--print-value-only").stdout == "b\n"
    for flag in ("--http1.1", "--http2-prior-knowledge"):
        done = run("curl", "-s", flag, "--unix-socket", server.path, "http://localhost/version")
        assert "etcdserver" in done.stdout


def test_only_the_owner_may_connect(server):
    mode = os.lstat(server.path).st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_the_socket_is_removed_at_the_end_and_replaced_after_a_crash():
    with UnixServer() as server:
        assert server.stop() == 0
        assert not os.path.exists(server.path)
        server.restart()
        server.kill()
        assert os.path.exists(server.path)
        server.restart()
        done = run("curl", "-s", "--unix-socket", server.path, "http://localhost/health")
        assert done.returncode == 0


def test_a_socket_in_use_and_a_file_are_left_alone(server, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for path, words in ((server.path, "in use"), (file, "no socket")):
        done = run(binary_of(KIND_LEASED), "--data-dir", tmp_path / "data", "--listen-client-urls",
                   f"unix://{path}", "--listen-peer-urls", "http://127.0.0.1:2")  # fmt: skip
        assert done.returncode == EXIT_CODES["FAILED"]
        assert words in done.stderr
    assert file.read_text() == "mine"
    assert server.is_healthy()


def test_tls_is_spoken_over_a_unix_socket():
    with Authority() as authority:
        flags = server_files(authority, alternative_names="DNS:localhost")
        with UnixServer("unixs", flags) as server:
            done = run("curl", "-s", "--cacert", authority.certificate, "--unix-socket",
                       server.path, "https://localhost/version")  # fmt: skip
            assert "etcdserver" in done.stdout
            plain = run("curl", "-s", "--unix-socket", server.path, "http://localhost/version")
            assert plain.stdout == "this port speaks TLS: use https://\n"
