"""`lease` over TLS and Unix sockets, against etcd and against leased, with etcdctl's options."""
import json
import os
import socket
import struct
import threading

import pytest
from test_lease_cli import lease

from harness import Server
from harness.certificates import Authority
from harness.kinds import KIND_ETCD, kinds
from harness.tls_server import TlsServer, server_files


@pytest.fixture(name="authority", scope="module")
def an_authority():
    with Authority() as made:
        yield made


@pytest.fixture(name="other", scope="module")
def another_authority():
    with Authority() as made:
        yield made


@pytest.fixture(name="server", scope="module", params=kinds())
def a_server(request, authority):
    with TlsServer(request.param, server_files(authority)) as one:
        yield one


@pytest.fixture(name="strict", scope="module", params=kinds())
def a_server_that_wants_certificates(request, authority):
    flags = [*server_files(authority), "--trusted-ca-file", authority.certificate, "--client-cert-auth"]
    with TlsServer(request.param, flags, client=authority.sign("probe")) as one:
        yield one


def granted_id(done):
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["id"]


def failure(done):
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.strip()


# It works


def test_commands_work_over_tls(server, authority):
    where = ["-e", server.client_url, "--cacert", authority.certificate]
    lease_id = granted_id(lease(*where, "grant", "5m", "--json"))
    listed = json.loads(lease(*where, "ls", "--json").stdout)["leases"]
    assert lease_id in [row["id"] for row in listed]
    (status,) = json.loads(lease(*where, "status", "--json").stdout)["endpoints"]
    assert status["endpoint"] == server.endpoint


def test_an_endpoint_without_a_scheme_is_tls_when_an_option_says_so(server, authority):
    granted_id(lease("-e", server.endpoint, "--cacert", authority.certificate, "grant", "5m", "--json"))
    granted_id(lease("-e", server.endpoint, "--insecure-transport=false", "--cacert",
                     authority.certificate, "grant", "5m", "--json"))  # fmt: skip


@pytest.mark.parametrize("prefix", ["LEASED_", "ETCDCTL_"])
def test_the_environment_may_say_it_all(server, authority, prefix):
    env = {prefix + "ENDPOINTS": server.client_url, prefix + "CACERT": authority.certificate}
    granted_id(lease("grant", "5m", "--json", env=env))


def test_verification_can_be_switched_off(server):
    granted_id(lease("-e", server.client_url, "--insecure-skip-tls-verify", "grant", "5m", "--json"))


def test_a_client_certificate_is_shown_where_it_is_wanted(strict, authority):
    certificate, key = authority.sign("client", common_name="client")
    where = ["-e", strict.client_url, "--cacert", authority.certificate]
    granted_id(lease(*where, "--cert", certificate, "--key", key, "grant", "5m", "--json"))
    # Behind the command, grant's own --key is meant.
    done = lease(*where, "--cert", certificate, "--key", key, "grant", "5m", "--key", "/k", "--json")
    granted_id(done)
    env = {"ETCDCTL_CERT": certificate, "ETCDCTL_KEY": key}
    granted_id(lease(*where, "grant", "5m", "--json", env=env))


@pytest.mark.parametrize("kind", kinds())
def test_a_certificate_that_the_server_made_itself_can_be_trusted(kind):
    with TlsServer(kind, ["--auto-tls"]) as one:
        granted_id(lease("-e", one.client_url, "--cacert", one.own_certificate, "grant", "5m", "--json"))
        assert "not signed by an authority" in failure(lease("-e", one.client_url, "grant", "5m"))


def test_the_benchmark_renews_over_tls(server, authority):
    done = lease("bench", "keepalive", "--connections", "40", "--clients", "80", "--leases", "200",
                 "--duration", "300ms", "--warm-up", "100ms", "--json",
                 "-e", server.client_url, "--cacert", authority.certificate)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["connections"] == 40


# It does not


def test_a_server_of_another_authority_is_refused(server, other):
    done = lease("-e", server.client_url, "--cacert", other.certificate, "status")
    assert failure(done) == (
        f"lease: the certificate of {server.endpoint} is not signed by the authority in "
        f"{other.certificate}"
    )


def test_a_server_for_another_host_is_refused(server, authority):
    url = f"https://localhost:{server.client_port}"
    done = lease("-e", url, "--cacert", authority.certificate, "status")
    assert failure(done) == (
        f"lease: the certificate of localhost:{server.client_port} is for another host, not for "
        "localhost"
    )


@pytest.mark.parametrize("kind", kinds())
def test_an_expired_server_is_refused(kind, authority):
    with TlsServer(kind, server_files(authority, days=-1)) as one:
        done = lease("-e", one.client_url, "--cacert", authority.certificate, "status")
    assert failure(done) == f"lease: the certificate of {one.endpoint} has expired"


def test_a_missing_client_certificate_is_told(strict, authority, other):
    where = ["-e", strict.client_url, "--cacert", authority.certificate]
    missing = failure(lease(*where, "status"))
    assert missing in (
        f"lease: {strict.endpoint} wants a client certificate (--cert and --key)",
        f"lease: {strict.endpoint} refuses the client certificate, or wants one",
    )
    certificate, key = other.sign("client", common_name="client")
    wrong = failure(lease(*where, "--cert", certificate, "--key", key, "status"))
    assert wrong in (
        f"lease: {strict.endpoint} does not know the authority that signed the client certificate",
        f"lease: {strict.endpoint} refuses the client certificate, or wants one",
    )


def test_a_scheme_that_does_not_fit_is_told(server, authority):
    plain = failure(lease("-e", f"http://{server.endpoint}", "status"))
    assert plain.startswith(f"lease: {server.endpoint} ") and "use https://" in plain
    with Server(server.kind) as without:
        url = f"https://{without.endpoint}"
        over_tls = failure(lease("-e", url, "--cacert", authority.certificate, "status"))
    assert over_tls.startswith(f"lease: {without.endpoint} ") and "use http://" in over_tls


@pytest.mark.parametrize("scheme, other", [("https", "http"), ("http", "https")])
def test_a_connection_that_is_reset_at_once_is_told_like_one_that_is_closed(authority, scheme, other):
    """So ends a server that speaks something else and does not read everything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset():
            connection, _ = listener.accept()
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=reset, daemon=True)
        thread.start()
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        flags = ("--cacert", authority.certificate) if scheme == "https" else ()
        told = failure(lease("-e", url, *flags, "status"))
        thread.join(10)
    assert f"use {other}://" in told, told


def test_files_that_cannot_be_used_are_named(authority):
    missing = os.path.join(authority.folder, "missing.pem")
    done = lease("-e", "https://127.0.0.1:1", "--cacert", missing, "status")
    assert failure(done) == f"lease: the authority {missing} cannot be used: No such file or directory"
    done = lease("-e", "https://127.0.0.1:1", "--cert", authority.certificate, "status")
    assert done.returncode == 2
    assert "--cert and --key belong together: --key is missing before the command" in done.stderr


# Unix sockets


@pytest.mark.parametrize("kind", kinds())
def test_a_unix_socket_is_an_endpoint(kind):
    with Server(kind) as one:
        path = os.path.join(one.home, "clients:1")
        # etcd takes names that look like host:port, in its own folder.
        name = "clients:1" if kind == KIND_ETCD else path
        one.extra_flags += ["--listen-client-urls", f"{one.client_url},unix://{name}"]
        one.restart()
        lease_id = granted_id(lease("-e", f"unix://{path}", "grant", "5m", "--json"))
        listed = json.loads(lease("-e", one.endpoint, "ls", "--json").stdout)["leases"]
        assert lease_id in [row["id"] for row in listed]


def test_a_socket_that_is_not_there_is_told(tmp_path):
    done = lease("-e", f"unix://{tmp_path}/none", "status")
    assert failure(done) == f"lease: {tmp_path}/none cannot be reached: no such file or directory"
