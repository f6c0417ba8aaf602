"""TLS, passwords and tokens."""
import pytest

import lease
from harness import Server
from harness.auth import add_user, enable, log_in, permission
from harness.certificates import Authority
from harness.kinds import KIND_LEASED
from harness.rpc import Rpc
from harness.tls_server import TlsServer, server_files

NAME = "locks/a"


@pytest.fixture(scope="module")
def guarded():
    """Users "ann", who may use locks/, and "bob", who may not."""
    with Authority() as authority:
        server = TlsServer(KIND_LEASED, server_files(authority), trusted=authority.certificate)
        with server, Rpc(server) as rpc:
            root = enable(rpc)
            add_user(rpc, "ann", "ann's", [permission(b"locks/", b"locks0")], root)
            add_user(rpc, "bob", "bob's", [], root)
            server.ann_token = log_in(rpc, "ann", "ann's")
            yield server


def open_client(server, **how):
    return lease.Client(server.client_url, ca_file=server.trusted, protocol=lease.Protocol.ETCD, **how)


def test_a_user_with_a_password_locks_over_tls(guarded):
    with open_client(guarded, user="ann", password="ann's") as client, client.lock(NAME) as lock:
        assert lock.token > 0
        lock.session.renew()


def test_a_token_is_enough(guarded):
    with open_client(guarded, token=guarded.ann_token) as client, client.lock(NAME) as lock:
        assert lock.token > 0


def test_a_wrong_password_is_told(guarded):
    with open_client(guarded, user="ann", password="wrong") as client:
        with pytest.raises(lease.Error) as caught:
            client.lock(NAME)
        assert caught.value.status == lease.Status.DENIED


def test_a_user_without_the_right_is_refused(guarded):
    with open_client(guarded, user="bob", password="bob's") as client:
        with pytest.raises(lease.Error) as caught:
            client.lock(NAME)
        assert caught.value.status == lease.Status.DENIED


def test_an_unknown_authority_is_told(guarded):
    with Authority() as other:
        with lease.Client(guarded.client_url, ca_file=other.certificate, request_timeout=0.5) as client:
            with pytest.raises(lease.Error) as caught:
                client.connect()
            assert "authority" in str(caught.value)


def test_a_file_that_is_not_there_is_told():
    with pytest.raises(lease.Error) as caught:
        lease.Client("https://127.0.0.1:1", ca_file="/nowhere/ca.crt")
    assert "/nowhere/ca.crt" in str(caught.value)


def test_plain_text_to_a_tls_port_is_told(guarded):
    with lease.Client(guarded.endpoint, request_timeout=0.5) as client:
        with pytest.raises(lease.Error) as caught:
            client.connect()
        assert "this port speaks TLS: use https://" in str(caught.value)


def test_plain_text_at_a_tls_server_is_told(guarded):
    with Server(KIND_LEASED) as plain:
        endpoint = f"https://{plain.endpoint}"
        with lease.Client(endpoint, ca_file=guarded.trusted, request_timeout=0.5) as client:
            with pytest.raises(lease.Error) as caught:
                client.connect()
            assert "TLS" in str(caught.value)
