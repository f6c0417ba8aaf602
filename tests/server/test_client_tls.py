"""Clients over TLS: etcdctl, python3-etcd3, curl and openssl against https:// listeners."""
import os
import re
import subprocess

import etcd3
import pytest
from etcd3 import etcdrpc

from harness import Server
from harness.certificates import Authority
from harness.etcdctl import etcdctl_path
from harness.exit_codes import EXIT_CODES
from harness.kinds import KIND_LEASED, binary_of, clean_environment, kinds
from harness.rpc import Rpc
from harness.tls_server import TlsServer, server_files
from harness.wait import wait_for

COMMAND_SECONDS = 20
RELOAD_SECONDS = 10
ETCDCTL_ENVIRONMENT = {"ETCDCTL_API": "3"}


def run(*command, stdin=""):
    return subprocess.run(
        [str(word) for word in command],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        env={**clean_environment(), **ETCDCTL_ENVIRONMENT},
        check=False,
    )


def etcdctl(server, *words, flags=None, url=None):
    how = server.client_flags() if flags is None else flags
    return run(etcdctl_path(), "--endpoints", url or server.client_url, *how, *words)


def is_let_in(server, client=None):
    """Whether somebody with this certificate gets an answer; curl tries only once."""
    files = ["--cert", client[0], "--key", client[1]] if client else []
    return "etcdserver" in run("curl", "-s", "--cacert", server.trusted, *files,
                               f"{server.client_url}/version").stdout  # fmt: skip


def s_client(server, *flags, stdin="GET /version HTTP/1.0\r\n\r\n"):
    """openssl's own client; quiet until the server has answered and closed."""
    return run("openssl", "s_client", "-connect", server.endpoint, "-ign_eof", *flags, stdin=stdin)


def subject_of(server):
    shown = run("openssl", "s_client", "-connect", server.endpoint).stdout
    return re.search(r"^subject=(.*)$", shown, re.M).group(1)


@pytest.fixture(name="authority", scope="module")
def an_authority():
    with Authority() as made:
        yield made


@pytest.fixture(name="other", scope="module")
def another_authority():
    with Authority() as made:
        yield made


@pytest.fixture(name="alice", scope="module")
def a_client(authority):
    return authority.sign("alice", common_name="alice", alternative_names="DNS:alice.example")


@pytest.fixture(name="bob", scope="module")
def another_client(authority):
    return authority.sign("bob", common_name="bob", alternative_names="DNS:bob.example")


@pytest.fixture(name="server", scope="module")
def a_server(authority):
    with TlsServer(KIND_LEASED, server_files(authority, "shared"), authority.certificate) as one:
        yield one


def strict_flags(authority, *flags):
    return [*server_files(authority), "--trusted-ca-file", authority.certificate, *flags]


def assert_only(server, allowed, refused):
    """The first may, the second may not."""
    done = etcdctl(server, "put", "a", "b", flags=server.client_flags(allowed))
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert not is_let_in(server, refused)


# Clients


def test_etcdctl_works_over_tls(server):
    assert etcdctl(server, "put", "/tls/a", "1").stdout == "OK\n"
    assert etcdctl(server, "get", "/tls/a", "--print-value-only").stdout == "1\n"
    assert "granted with TTL(60s)" in etcdctl(server, "lease", "grant", "60").stdout
    assert etcdctl(server, "lock", "/tls/lock", "echo", "held").stdout == "held\n"
    assert etcdctl(server, "endpoint", "health").returncode == 0


def test_etcdctl_verifies_unless_it_is_told_not_to(server, other):
    limits = ["--dial-timeout", "500ms", "--command-timeout", "500ms"]
    done = etcdctl(server, "get", "/tls/b", flags=["--cacert", other.certificate, *limits])
    assert done.returncode != 0
    skip = ["--insecure-skip-tls-verify", "--insecure-transport=false"]
    done = etcdctl(server, "put", "/tls/b", "1", flags=skip)
    assert done.stdout == "OK\n"


def test_python_etcd3_works_over_tls(server):
    with etcd3.client(host="127.0.0.1", port=server.client_port, timeout=COMMAND_SECONDS,
                      ca_cert=server.trusted) as client:  # fmt: skip
        lease = client.lease(60)
        client.put("/tls/python", "value", lease)
        assert client.get("/tls/python")[0] == b"value"
        with client.lock("/tls/lock", ttl=10):
            assert client.transaction(
                compare=[client.transactions.value("/tls/python") == "value"],
                success=[client.transactions.delete("/tls/python")],
                failure=[],
            )[0]
        lease.revoke()


@pytest.mark.parametrize("flag, version", [("--http1.1", "1.1"), ("--http2", "2")])
def test_curl_keeps_its_connection(server, flag, version):
    url = f"{server.client_url}/version"
    done = run("curl", "-s", flag, "--cacert", server.trusted, "-w",
               r"\n%{http_version} %{num_connects}\n", url, url)  # fmt: skip
    assert done.returncode == 0
    answers = [line for line in done.stdout.splitlines() if line and line[0].isdigit()]
    assert answers == [f"{version} 1", f"{version} 0"]


@pytest.mark.parametrize("offered, chosen", [
    ("h2,http/1.1", "ALPN protocol: h2"),
    ("http/1.1", "ALPN protocol: http/1.1"),
    ("spdy/3", "No ALPN negotiated"),
])  # fmt: skip
def test_the_application_protocol_is_negotiated(server, offered, chosen):
    assert chosen in s_client(server, "-alpn", offered).stdout


def test_the_answer_ends_with_the_goodbye_of_tls(server):
    done = s_client(server, "-verify_return_error", "-CAfile", server.trusted)
    assert "HTTP/1.1 200 OK" in done.stdout
    assert "unexpected eof" not in done.stderr


# Client certificates


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("flag", ["--client-cert-auth", "--client-cert-auth=false"])
def test_an_authority_alone_demands_certificates(kind, flag, authority, other, alice):
    flags = strict_flags(authority, flag)
    with TlsServer(kind, flags, authority.certificate, client=alice) as server:
        assert etcdctl(server, "put", "a", "b").stdout == "OK\n"
        assert is_let_in(server, alice)
        assert not is_let_in(server)
        assert not is_let_in(server, other.sign("alice", common_name="alice"))
        with etcd3.client(host="127.0.0.1", port=server.client_port, timeout=COMMAND_SECONDS,
                          ca_cert=server.trusted, cert_cert=alice[0], cert_key=alice[1]) as client:  # fmt: skip
            client.put("c", "d")


def test_only_allowed_common_names_get_in(authority, alice, bob):
    flags = strict_flags(authority, "--client-cert-allowed-cn", "carol,alice")
    with TlsServer(KIND_LEASED, flags, authority.certificate, client=alice) as server:
        assert_only(server, alice, bob)
        text = "rejected connection on client endpoint reason=\"the peer's certificate bears another name"
        wait_for(lambda: text in server.log_tail(), 5, "the reason in the log")


@pytest.mark.parametrize("kind", kinds())
def test_only_allowed_host_names_get_in(kind, authority, alice, bob):
    flags = strict_flags(authority, "--client-cert-allowed-hostname", "alice.example")
    with TlsServer(kind, flags, authority.certificate, client=alice) as server:
        assert_only(server, alice, bob)


def test_revoked_certificates_are_refused_without_a_restart():
    with Authority() as authority:
        alice = authority.sign("alice")
        bob = authority.sign("bob")
        carol = authority.sign("carol")
        flags = strict_flags(authority, "--client-crl-file", authority.revoke(bob[0]))
        with TlsServer(KIND_LEASED, flags, authority.certificate, client=alice) as server:
            assert_only(server, alice, bob)
            assert is_let_in(server, carol)
            authority.revoke(carol[0])
            wait_for(lambda: not is_let_in(server, carol), RELOAD_SECONDS, "the new list")
            assert_only(server, alice, carol)


# The server's own certificate


def test_auto_tls_keeps_a_certificate_of_its_own(authority):
    with TlsServer(KIND_LEASED, ["--auto-tls"]) as server:
        server.trusted = server.own_certificate
        assert etcdctl(server, "put", "a", "b").stdout == "OK\n"
        url = f"https://localhost:{server.client_port}"
        assert etcdctl(server, "get", "a", "--print-value-only", url=url).stdout == "b\n"
        key = os.path.join(os.path.dirname(server.own_certificate), "key.pem")
        assert os.stat(key).st_mode & 0o777 == 0o600
        with open(server.own_certificate, encoding="utf-8") as file:
            before = file.read()
        server.restart()
        with open(server.own_certificate, encoding="utf-8") as file:
            assert file.read() == before
        assert etcdctl(server, "get", "a", "--print-value-only").stdout == "b\n"
        server.trusted = authority.certificate
        assert not is_let_in(server)


def test_a_certificate_is_replaced_under_load():
    with Authority() as authority:
        flags = server_files(authority)
        with TlsServer(KIND_LEASED, flags, authority.certificate) as server:
            with Rpc(server) as rpc:
                lease = rpc.grant(60).ID
                stream = rpc.keep_alive()
                for round_number in range(3):
                    name = f"round {round_number}"
                    authority.sign("server", common_name=name)

                    def shown():
                        rpc.put(b"/load", name.encode(), lease=lease)
                        stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
                        assert stream.receive().TTL == 60
                        return subject_of(server) == f"CN = {name}"

                    wait_for(shown, RELOAD_SECONDS, "the new certificate")
                # The client saw nothing of it: one connection, from the beginning.
                assert server.metric("leased_tls_failures_total") == 0
                assert rpc.range(b"/load").kvs[0].value == b"round 2"


def test_a_broken_certificate_leaves_the_old_one_in_use():
    with Authority() as authority:
        flags = server_files(authority)
        with TlsServer(KIND_LEASED, flags, authority.certificate) as server:
            with open(flags[1], "w", encoding="utf-8") as file:
                file.write("not a certificate\n")
            wait_for(lambda: subject_of(server) and "the old ones are kept" in server.log_tail(),
                     RELOAD_SECONDS, "the warning")  # fmt: skip
            assert etcdctl(server, "put", "a", "b").stdout == "OK\n"


@pytest.mark.parametrize("flags, words", [
    (["--cert-file", "none.crt", "--key-file", "none.key"], "none.crt cannot be used"),
    (["--auto-tls", "--cipher-suites", "TLS_NONE"], "TLS_NONE"),
    (["--auto-tls", "--tls-min-version", "TLS1.3", "--tls-max-version", "TLS1.2"], "TLS1.3"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_with_a_reason(flags, words, tmp_path):
    done = run(binary_of(KIND_LEASED), "--data-dir", tmp_path / "data", "--listen-client-urls",
               "https://127.0.0.1:1", "--listen-peer-urls", "http://127.0.0.1:2", *flags)  # fmt: skip
    assert done.returncode == EXIT_CODES["USAGE"]
    assert words in done.stderr


# Versions, suites, resumption


def protocol_of(server, *flags):
    """(version, suite), or None: no agreement."""
    shown = s_client(server, *flags).stdout
    agreed = re.search(r"^New, (TLSv[\d.]+), Cipher is (\S+)$", shown, re.M)
    return agreed and (agreed.group(1), agreed.group(2))


def test_versions_can_be_limited(authority):
    new = [*server_files(authority), "--tls-min-version", "TLS1.3"]
    with TlsServer(KIND_LEASED, new, authority.certificate) as server:
        assert protocol_of(server)[0] == "TLSv1.3"
        assert protocol_of(server, "-tls1_2") is None
        assert etcdctl(server, "put", "a", "b").stdout == "OK\n"
    old = [*server_files(authority), "--tls-max-version", "TLS1.2"]
    with TlsServer(KIND_LEASED, old, authority.certificate) as server:
        assert protocol_of(server)[0] == "TLSv1.2"
        assert etcdctl(server, "put", "a", "b").stdout == "OK\n"


def test_versions_before_1_2_are_never_spoken(server):
    assert protocol_of(server, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0") is None


def test_cipher_suites_can_be_limited(authority):
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    flags = [*server_files(authority), "--tls-max-version", "TLS1.2", "--cipher-suites", suite]
    with TlsServer(KIND_LEASED, flags, authority.certificate) as server:
        assert protocol_of(server) == ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")
        assert protocol_of(server, "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256") is None
        assert etcdctl(server, "put", "a", "b").stdout == "OK\n"


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_sessions_are_resumed(server, version, tmp_path):
    session = tmp_path / "session"
    assert "\nNew, TLSv" in s_client(server, version, "-sess_out", session).stdout
    done = s_client(server, version, "-sess_in", session)
    assert "\nReused, TLSv" in done.stdout
    assert "HTTP/1.1 200 OK" in done.stdout


def test_renegotiation_is_refused(server):
    done = s_client(server, "-tls1_2", stdin="R\n")
    assert "no renegotiation" in done.stderr or "RENEGOTIATING" not in done.stdout


# The wrong one of the two


def test_plain_text_to_a_tls_listener_is_told_so(server):
    done = run("curl", "-si", f"http://{server.endpoint}/version")
    assert done.stdout.startswith("HTTP/1.1 400 Bad Request\n")
    assert done.stdout.endswith("\nthis port speaks TLS: use https://\n")
    done = etcdctl(server, "get", "a", flags=["--command-timeout", "500ms"],
                   url=f"http://{server.endpoint}")  # fmt: skip
    assert done.returncode != 0

    def is_logged():
        # At most one line a second.
        run("curl", "-s", f"http://{server.endpoint}/version")
        return "the client speaks plain HTTP" in server.log_tail()

    wait_for(is_logged, 5, "the reason in the log")


def test_tls_to_a_plain_listener_is_told_so():
    with Server(KIND_LEASED) as server:
        done = run("curl", "-s", "-S", f"https://{server.endpoint}/version")
        assert "alert unexpected message" in done.stderr
        assert "a client speaks TLS to a listener that does not" in server.log_tail()


# Metrics


class OneAddress(TlsServer):
    """http:// and https:// on one port."""

    def flags(self):
        flags = super().flags()
        at = flags.index("--listen-client-urls") + 1
        flags[at] = f"http://{self.endpoint},{flags[at]}"
        return flags


def test_both_are_spoken_on_one_address(authority, other):
    with OneAddress(KIND_LEASED, server_files(authority), authority.certificate) as server:
        done = etcdctl(server, "put", "k", "over TLS")
        assert (done.stdout, done.stderr) == ("OK\n", "")
        done = etcdctl(server, "get", "k", "--print-value-only", flags=[], url=f"http://{server.endpoint}")
        assert (done.stdout, done.stderr) == ("over TLS\n", "")
        assert "etcdserver" in run("curl", "-s", f"http://{server.endpoint}/version").stdout
        assert is_let_in(server)
        wrong = run("curl", "-s", "--cacert", other.certificate, f"{server.client_url}/version")
        assert wrong.stdout == "" and wrong.returncode != 0


def test_the_host_of_plain_text_is_looked_at_beside_tls(authority):
    flags = [*server_files(authority), "--host-whitelist", "leased.example"]
    with OneAddress(KIND_LEASED, flags, authority.certificate) as server:
        status = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
        assert run(*status, f"http://{server.endpoint}/version").stdout == "421"
        named = [*status, "-H", "Host: leased.example"]
        assert run(*named, f"http://{server.endpoint}/version").stdout == "200"
        assert run(*status, "--cacert", server.trusted, f"{server.client_url}/version").stdout == "200"


def test_metrics_listeners_speak_tls_too(authority, alice):
    with Server(KIND_LEASED) as probe:
        probe.stop()
        url = f"https://127.0.0.1:{probe.peer_port}"
    flags = strict_flags(authority, "--listen-metrics-urls", url)
    with TlsServer(KIND_LEASED, flags, authority.certificate, client=alice) as server:
        curl = ["curl", "-s", "--cacert", server.trusted]
        done = run(*curl, "--cert", alice[0], "--key", alice[1], f"{url}/metrics")
        assert "leased_tls_handshakes_total" in done.stdout
        assert run(*curl, f"{url}/metrics").returncode != 0


@pytest.mark.parametrize("certificate, key, words", [
    ("alice", "bob", "the key .* cannot be used: it does not belong to the certificate"),
    ("neither", "bob", "the certificate .* cannot be used: it is not in PEM form"),
    ("alice", "neither", "the key .* cannot be used: it is not in PEM form"),
    ("alice", "missing", "the key .* cannot be used: No such file or directory"),
])  # fmt: skip
def test_files_that_cannot_be_used_are_told_in_plain_words(alice, bob, tmp_path, certificate, key, words):
    (tmp_path / "neither").write_text("neither\n")
    files = {"alice": alice, "bob": bob}
    chosen = [files[name][at] if name in files else tmp_path / name for at, name in enumerate((certificate, key))]
    done = run(binary_of(KIND_LEASED), "--data-dir", tmp_path / "data", "--listen-client-urls", "https://127.0.0.1:1",
               "--cert-file", chosen[0], "--key-file", chosen[1])  # fmt: skip
    assert done.returncode == EXIT_CODES["USAGE"]
    assert re.search(words, done.stderr), done.stderr
