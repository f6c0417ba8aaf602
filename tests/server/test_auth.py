"""Users of one server: what outlasts a restart, what ends with a change, and other ways to be known."""
import shutil
import subprocess
import time

import etcd3
import grpc
import pytest
from etcd3 import etcdrpc

from harness import Server, auth
from harness.auth import DENIED, OK, UNKNOWN_CALLER
from harness.certificates import Authority
from harness.etcdctl import etcdctl_path
from harness.kinds import KIND_LEASED, clean_environment
from harness.rpc import CALL_SECONDS, Rpc, WatchStream
from harness.tls_server import TlsServer, server_files
from harness.wait import wait_for

A, B = b"/a/", b"/a0"


@pytest.fixture(name="server")
def a_server():
    with Server(KIND_LEASED, extra_flags=["--snapshot-log-bytes", "65536"]) as one:
        yield one


@pytest.fixture(name="rpc")
def a_client(server):
    with Rpc(server) as one:
        yield one


@pytest.fixture(name="root")
def root_token(rpc):
    """Of user root; and there is a user u who may read and write /a/…"""
    auth.add_user(rpc, "u", "u's", [auth.permission(A, B)])
    return auth.enable(rpc)


def put(rpc, key, token, size=1):
    request = etcdrpc.PutRequest(key=key, value=b"v" * size)
    return auth.outcome_of(
        lambda: rpc.kv.Put(request, metadata=[("token", token)] if token else None, timeout=CALL_SECONDS)
    )


# What lasts


def test_users_and_tokens_outlast_a_restart(server, rpc, root):
    token = auth.log_in(rpc, "u", "u's")
    server.restart()
    with Rpc(server) as again:
        for shown in (token, auth.log_in(again, "u", "u's")):
            assert put(again, b"/a/x", shown) == OK
            assert put(again, b"/b/x", shown) == DENIED
        assert put(again, b"/a/x", None) == UNKNOWN_CALLER
        assert put(again, b"/b/x", root) == OK


def test_users_and_tokens_are_in_snapshots(server, rpc, root):
    token = auth.log_in(rpc, "u", "u's")

    def is_taken():
        for _ in range(20):
            assert put(rpc, b"/a/x", token, size=100000) == OK
        _status, body = auth.get(server, "/metrics", bearer=root)
        return b"\nleased_raft_snapshots_total 0\n" not in body

    wait_for(is_taken, 60, "a snapshot")
    server.restart()
    with Rpc(server) as again:
        assert put(again, b"/a/x", token) == OK
        assert put(again, b"/b/x", token) == DENIED
        assert put(again, b"/b/x", root) == OK


# What ends


def test_tokens_end_when_a_cluster_is_forced_new(server, rpc, root):
    token = auth.log_in(rpc, "u", "u's")
    assert put(rpc, b"/a/x", token) == OK
    server.stop()
    server.extra_flags.append("--force-new-cluster")
    server.restart()
    server.extra_flags.remove("--force-new-cluster")
    with Rpc(server) as again:
        for shown in (token, root):
            wait_for(lambda shown=shown: put(again, b"/a/x", shown) == UNKNOWN_CALLER, 20, "the end of a token")
        assert put(again, b"/a/x", auth.log_in(again, "u", "u's")) == OK


def test_a_token_does_not_fit_a_user_of_a_restored_directory(server, rpc, root):
    """A copy of the directory is put back: the user added next gets the number of another one."""
    server.stop()
    copy = server.data_dir + ".copy"
    shutil.copytree(server.data_dir, copy)
    try:
        server.restart()
        with Rpc(server) as before:
            auth.add_user(before, "bob", "bob's", [auth.permission(A, B)], token=root)
            token = auth.log_in(before, "bob", "bob's")
            assert put(before, b"/a/x", token) == OK
        server.stop()
        shutil.rmtree(server.data_dir)
        shutil.move(copy, server.data_dir)
        server.restart()
        with Rpc(server) as again:
            auth.add_user(again, "eve", "eve's", [auth.permission(A, B)], token=root)
            assert put(again, b"/a/x", auth.log_in(again, "eve", "eve's")) == OK
            assert put(again, b"/a/x", token) == UNKNOWN_CALLER
    finally:
        shutil.rmtree(copy, ignore_errors=True)



def test_a_change_of_the_password_ends_tokens(rpc, root):
    token, other = auth.log_in(rpc, "u", "u's"), auth.log_in(rpc, "root", "root's")
    request = etcdrpc.AuthUserChangePasswordRequest(name="u", password="new")
    auth.auth(rpc, "UserChangePassword", request, root)
    assert put(rpc, b"/a/x", token) == UNKNOWN_CALLER
    assert put(rpc, b"/a/x", other) == OK
    with pytest.raises(grpc.RpcError) as failure:
        auth.log_in(rpc, "u", "u's")
    assert failure.value.details() == "etcdserver: authentication failed, invalid user ID or password"
    assert put(rpc, b"/a/x", auth.log_in(rpc, "u", "new")) == OK


def test_a_user_that_is_deleted_and_added_again_is_another(rpc, root):
    token = auth.log_in(rpc, "u", "u's")
    auth.auth(rpc, "UserDelete", etcdrpc.AuthUserDeleteRequest(name="u"), root)
    assert put(rpc, b"/a/x", token) == UNKNOWN_CALLER
    auth.auth(rpc, "UserAdd", etcdrpc.AuthUserAddRequest(name="u", password="u's"), root)
    assert put(rpc, b"/a/x", token) == UNKNOWN_CALLER
    assert put(rpc, b"/a/x", auth.log_in(rpc, "u", "u's")) == DENIED


def test_a_watch_ends_with_its_right(rpc, root):
    token = auth.log_in(rpc, "u", "u's")
    stream = WatchStream(rpc.channel, metadata=[("token", token)])
    assert stream.create(A, B).created
    assert put(rpc, b"/a/x", root) == OK
    assert len(stream.receive().events) == 1
    revoke = etcdrpc.AuthRoleRevokePermissionRequest(role="u", key=A.decode(), range_end=B.decode())
    auth.auth(rpc, "RoleRevokePermission", revoke, root)
    assert put(rpc, b"/a/secret", root) == OK
    answer = stream.receive()
    assert answer.canceled and not answer.events
    assert DENIED in answer.cancel_reason
    answer = stream.create(A, B)
    assert answer.created and answer.canceled


def test_a_watch_of_nobody_ends_when_authentication_begins(rpc):
    auth.add_user(rpc, "root", "root's")
    stream = WatchStream(rpc.channel)
    assert stream.create(A, B).created
    auth.auth(rpc, "AuthEnable")
    assert put(rpc, b"/a/x", auth.log_in(rpc, "root", "root's")) == OK
    answer = stream.receive()
    assert answer.canceled and not answer.events


# Attempts


def test_passwords_cannot_be_tried_for_ever(server, rpc, root):
    assert root
    outcomes = [auth.outcome_of(lambda: auth.log_in(rpc, "u", f"guess {i}")) for i in range(15)]
    assert outcomes[0] == "etcdserver: authentication failed, invalid user ID or password"
    assert outcomes[-1] == "etcdserver: too many requests"
    # Neither is the right one looked at now, and others are not concerned.
    assert auth.outcome_of(lambda: auth.log_in(rpc, "u", "u's")) == "etcdserver: too many requests"
    assert auth.log_in(rpc, "root", "root's")
    log = server.log_tail(bytes_max=100000)
    assert "authentication failed user=u address=127.0.0.1" in log
    assert "guess" not in log


def test_nobody_takes_as_long_as_somebody(rpc, root):
    assert root

    def seconds(name):
        start = time.monotonic()
        auth.outcome_of(lambda: auth.log_in(rpc, name, "wrong"))
        return time.monotonic() - start

    somebody = min(seconds("u") for _ in range(4))
    nobody = min(seconds("nobody") for _ in range(4))
    assert nobody > somebody / 3


def test_requests_go_on_while_passwords_are_hashed(rpc, root):
    """Hashing is slow by design, and done elsewhere."""
    name = "/etcdserverpb.Auth/Authenticate"
    payload = etcdrpc.AuthenticateRequest(name="u", password="u's").SerializeToString()
    calls = [rpc.channel.unary_unary(name).future(payload, timeout=60) for _ in range(30)]
    longest = 0
    while not all(call.done() for call in calls):
        start = time.monotonic()
        assert put(rpc, b"/a/x", root) == OK
        longest = max(longest, time.monotonic() - start)
    assert {call.code() for call in calls} <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert longest < 1.0


# HTTP


def test_metrics_count_refusals(server, rpc, root):
    assert put(rpc, b"/a/x", None) == UNKNOWN_CALLER
    assert put(rpc, b"/b/x", auth.log_in(rpc, "u", "u's")) == DENIED
    assert auth.get(server, "/metrics")[0] == 401
    status, body = auth.get(server, "/metrics", ("u", "u's"))
    assert status == 200
    counted = dict(line.split() for line in body.decode().splitlines() if line.startswith("leased_"))
    assert counted["leased_requests_unauthenticated_total"] == "1"
    assert counted["leased_requests_denied_total"] == "1"
    assert counted["leased_auth_enabled"] == "1"
    assert auth.get(server, "/metrics", bearer=root)[0] == 200
    for header in ("Basic", "Basic %%%", "Basic " + "A" * 3000, "Bearer ", "Nonsense x", "x"):
        assert http_status(server, header) == 401


def http_status(server, authorization):
    result = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: {authorization}",
         f"{server.client_url}/metrics"],
        capture_output=True, text=True, timeout=20, check=True, env=clean_environment(),
    )  # fmt: skip
    return int(result.stdout)


# Clients


def test_python_etcd3_logs_in():
    """It sends credentials over TLS alone."""
    with Authority() as authority, TlsServer(
        KIND_LEASED, server_files(authority), authority.certificate
    ) as server:
        with Rpc(server) as rpc:
            auth.add_user(rpc, "u", "u's", [auth.permission(A, B)])
            auth.enable(rpc)
        with etcd3.client(
            host="127.0.0.1", port=server.client_port, ca_cert=server.trusted, user="u", password="u's",
            timeout=CALL_SECONDS,
        ) as client:  # fmt: skip
            client.put("/a/python", "value")
            assert client.get("/a/python")[0] == b"value"
            with pytest.raises(grpc.RpcError) as failure:
                client.get("/b/python")
            assert failure.value.code() == grpc.StatusCode.PERMISSION_DENIED


def test_a_certificate_is_an_identity():
    with Authority() as authority:
        flags = [*server_files(authority), "--client-cert-auth", "--trusted-ca-file", authority.certificate]
        alice = authority.sign("alice", common_name="alice")
        spiffe = authority.sign(
            "robot", common_name="unknown", alternative_names="URI:spiffe://example/robot"
        )
        nobody = authority.sign("nobody", common_name="nobody")
        with TlsServer(KIND_LEASED, flags, authority.certificate, client=alice) as server:

            def etcdctl(client, *words):
                return subprocess.run(
                    [etcdctl_path(), "--endpoints", server.client_url, *map(str, server.client_flags(client)), *words],
                    capture_output=True, text=True, timeout=20, check=False,
                    env={**clean_environment(), "ETCDCTL_API": "3"},
                )  # fmt: skip

            with Rpc(server) as rpc:
                for name, key in (("alice", b"/alice"), ("spiffe://example/robot", b"/robot")):
                    auth.auth(rpc, "UserAdd", no_password(name))
                    auth.auth(rpc, "RoleAdd", etcdrpc.AuthRoleAddRequest(name=name))
                    auth.auth(rpc, "UserGrantRole", etcdrpc.AuthUserGrantRoleRequest(user=name, role=name))
                    grant = etcdrpc.AuthRoleGrantPermissionRequest(name=name, perm=auth.permission(key))
                    auth.auth(rpc, "RoleGrantPermission", grant)
                root = auth.enable(rpc)
                # A token counts before the certificate.
                assert put(rpc, b"/elsewhere", root) == OK
                assert put(rpc, b"/elsewhere", None) == DENIED
                assert put(rpc, b"/elsewhere", root[:-1]) == UNKNOWN_CALLER
                # Who has no password cannot log in with one.
                assert "authentication failed" in auth.outcome_of(lambda: auth.log_in(rpc, "alice", "x"))
                assert "authentication failed" in auth.outcome_of(lambda: auth.log_in(rpc, "alice", ""))
            assert etcdctl(alice, "put", "/alice", "1").stdout == "OK\n"
            assert DENIED in etcdctl(alice, "put", "/robot", "1").stderr
            assert etcdctl(spiffe, "put", "/robot", "1").stdout == "OK\n"
            assert DENIED in etcdctl(spiffe, "put", "/alice", "1").stderr
            assert "user name is empty" in etcdctl(nobody, "put", "/alice", "1").stderr


def no_password(name):
    request = etcdrpc.AuthUserAddRequest(name=name)
    # options.no_password, which this client's description does not have
    request.MergeFromString(b"\x1a\x02\x08\x01")
    return request
