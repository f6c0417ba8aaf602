"""Who may listen where for peers, and what a file with a secret must be."""
import contextlib
import socket
import ssl

import pytest

from harness import KIND_LEASED, Server, ServerFailed
from harness import peer_protocol as protocol
from harness.certificates import Authority
from harness.exit_codes import EXIT_CODES
from harness.kinds import binary_of, clean_environment
from harness.ports import free_ports
from harness.process import Process
from harness.wait import wait_for

SECRET = b"0123456789abcdef"


@pytest.fixture
def server():
    """Not started. Its peer port is not on loopback: anybody could reach it there."""
    made = Server(KIND_LEASED)
    made.flags_before = made.flags
    made.flags = lambda: [*made.flags_before(), "--listen-peer-urls", f"http://0.0.0.0:{made.peer_port}"]
    yield made
    made.close()


def secret_file(folder, data=SECRET, mode=0o600):
    path = folder / "secret"
    path.touch()
    path.chmod(mode)
    path.write_bytes(data)
    return str(path)


def check_refused(server, *words):
    with pytest.raises(ServerFailed):
        server.start()
    assert server.process.exit_code() == EXIT_CODES["USAGE"], server.log_tail()
    log = server.log_tail()
    for word in words:
        assert word in log, log


def test_a_peer_port_that_others_reach_needs_a_proof_or_a_word(server):
    check_refused(server, "--listen-peer-urls", "--peer-cert-file", "--peer-secret-file", "--allow-insecure")


@pytest.fixture
def certificate_flags():
    """TLS between members, and no authority named: the system's are trusted."""
    with Authority() as authority:
        certificate, key = authority.sign("member")
        yield ["--peer-cert-file", certificate, "--peer-key-file", key]


def use_https(server):
    url = f"https://0.0.0.0:{server.peer_port}"
    advertised = f"https://127.0.0.1:{server.peer_port}"
    server.extra_flags += ["--initial-advertise-peer-urls", advertised]
    server.extra_flags += ["--initial-cluster", f"default={advertised}", "--name", "default"]
    server.flags = lambda: [*server.flags_before(), "--listen-peer-urls", url, *server.extra_flags]


def test_a_certificate_of_anybody_is_no_proof(server, certificate_flags):
    use_https(server)
    server.extra_flags += certificate_flags
    check_refused(server, "could act as a member", "--peer-trusted-ca-file")


def test_a_certificate_with_a_name_is_a_proof(server, certificate_flags):
    use_https(server)
    server.extra_flags += [*certificate_flags, "--peer-cert-allowed-cn", "member"]
    server.start()


def test_with_a_secret_it_may_be_reached(server, tmp_path):
    server.extra_flags += ["--peer-secret-file", secret_file(tmp_path)]
    server.start()


def test_who_allows_it_may_be_reached_by_anybody(server):
    server.extra_flags += ["--allow-insecure"]
    server.start()


@pytest.mark.parametrize(
    "data, mode, word", [(SECRET[:-1], 0o600, "16"), (b"", 0o600, "16"), (SECRET, 0o644, "chmod")],
    ids=["short", "empty", "readable by others"],
)  # fmt: skip
def test_a_secret_that_is_none_is_refused_and_never_shown(server, tmp_path, data, mode, word):
    path = secret_file(tmp_path, data, mode)
    server.extra_flags += ["--peer-secret-file", path]
    check_refused(server, path, word)
    assert not data or data.decode() not in server.log_tail()


def test_a_secret_that_is_not_there_is_refused(server, tmp_path):
    path = str(tmp_path / "none")
    server.extra_flags += ["--peer-secret-file", path]
    check_refused(server, path)


def is_listening(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def one_of_two(folder, urls, *flags):
    """A member that waits for the other."""
    client, other = free_ports(2)
    scheme = urls[0].partition(":")[0]
    command = [binary_of(KIND_LEASED), "--name", "a", "--data-dir", str(folder / "data"),
               "--listen-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", ",".join(urls),
               "--initial-advertise-peer-urls", urls[0],
               "--initial-cluster", f"a={urls[0]},b={scheme}://127.0.0.1:{other}", *flags]  # fmt: skip
    process = Process(command, folder / "log", env=clean_environment())
    try:
        yield process
    finally:
        process.kill()


def test_members_are_heard_on_every_listed_url(tmp_path):
    ports = free_ports(2)
    with one_of_two(tmp_path, [f"http://127.0.0.1:{port}" for port in ports]):
        for port in ports:
            wait_for(lambda port=port: is_listening(port), 60, f"port {port} is listened on")


def test_a_caller_that_refuses_our_certificate_is_told_of_in_etcds_words(tmp_path):
    words = ("rejected connection on peer endpoint", "remote error: tls: bad certificate")

    def is_told():
        lines = (tmp_path / "log").read_text().splitlines()
        return any(all(word in line for word in words) for line in lines)

    (port,) = free_ports(1)
    with Authority() as authority:
        certificate, key = authority.sign("member")
        context = ssl.create_default_context(cafile=authority.certificate)
        flags = ["--peer-cert-file", certificate, "--peer-key-file", key, "--peer-cert-allowed-cn", "member"]
        with one_of_two(tmp_path, [f"https://127.0.0.1:{port}"], *flags):
            wait_for(lambda: is_listening(port), 60, "the port is listened on")
            with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(raw, server_hostname="another")
            wait_for(is_told, 60, "the line")


def test_a_node_that_is_alone_listens_and_believes_nobody_to_be_a_member():
    with Server(KIND_LEASED) as server:
        found = protocol.ask(server)
        (own,) = [member.id for member in found.members]
        for claimed in (own, own + 1):
            with pytest.raises(protocol.Refused):
                protocol.greet(server, found, claimed, own).close()
        wait_for(lambda: "rejected connection on peer endpoint" in server.log_tail(), 60, "the line")
        assert server.is_healthy()


def test_a_node_that_is_alone_tells_whom_it_rejects(tmp_path):
    (client,), (port,) = free_ports(1), free_ports(1)
    with Authority() as authority:
        url = f"https://127.0.0.1:{port}"
        command = [binary_of(KIND_LEASED), "--data-dir", str(tmp_path / "data"), "--listen-client-urls",
                   f"http://127.0.0.1:{client}", "--listen-peer-urls", url, *authority.flags("default")]  # fmt: skip
        process = Process(command, tmp_path / "log", env=clean_environment())
        try:
            wait_for(lambda: is_listening(port), 60, "the port is listened on")
            with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
                stranger.sendall(b"GET /members HTTP/1.1\r\n\r\n")
                words = "rejected connection on peer endpoint"
                wait_for(lambda: words in (tmp_path / "log").read_text(), 60, "the line")
        finally:
            process.kill()
