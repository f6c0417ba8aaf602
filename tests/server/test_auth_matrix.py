"""Every request of every protocol, by everybody: without an identity, with a wrong one, by a user without
the right, by one who has it; asked of the leader and of a member that forwards.

How each request is made is in harness/auth_matrix.py. Those of leased's own API are in
test_auth_matrix_native.py; callers with certificates are in test_auth_matrix_tls.py.
"""
import secrets

import pytest
from etcd3 import etcdrpc

from harness import auth
from harness import peer_protocol as protocol
from harness.auth import DENIED, OK, UNKNOWN_CALLER
from harness.auth_matrix import (
    CALM, GATEWAY, KEY, LEASE, LEASE_OF_OTHERS, LISTED, MORE, PASSWORDS, REQUESTS, WORK, Matrix, check, message, unary,
)  # fmt: skip
from harness.cluster import Cluster
from harness.lock_messages import encoded
from harness.rpc import CALL_SECONDS
from harness.wait import wait_for


@pytest.fixture(name="matrix", scope="module")
def a_matrix(tmp_path_factory):
    path = tmp_path_factory.mktemp("matrix") / "secret"
    path.touch(mode=0o600)
    secret = secrets.token_hex(16).encode()
    path.write_bytes(secret)
    with Cluster(extra_flags=["--peer-secret-file", str(path)], timing_flags=CALM) as cluster:
        made = Matrix(cluster, secret)
        yield made
        made.close()


def test_every_request_is_known_here():
    older = {name: right for name, right in LISTED.items() if name.startswith("POST /v3beta/")}
    assert set(REQUESTS) == set(LISTED) - set(older)
    assert older == {name.replace("/v3/", "/v3beta/"): LISTED[name] for name in GATEWAY}
    # What is asked as JSON needs the right of the method that is asked.
    assert {name: LISTED[name] for name in GATEWAY} == {name: LISTED[of] for name, of in GATEWAY.items()}
    assert set(LISTED.values()) <= {"none", "user", "read", "write", "read_write", "root"}
    nobody_needs = {name for name, right in LISTED.items() if right == "none"}
    assert nobody_needs == {
        "GET /health", "GET /livez", "GET /livez/{check}", "GET /readyz", "GET /readyz/{check}", "/etcdserverpb.Auth/Authenticate",
        "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
        "POST /v3/auth/authenticate", "POST /v3beta/auth/authenticate",
    }  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_request(matrix, name):
    check(matrix, name, name, REQUESTS[name], LISTED[name])


@pytest.mark.parametrize("name", MORE)
def test_request_that_needs_more(matrix, name):
    right, method, recipe = MORE[name]
    check(matrix, name, method, recipe, right)


def test_a_lease_of_others_is_not_for_everybody(matrix):
    """A key that the worker may not write is attached to it."""
    requests = {
        "/etcdserverpb.Lease/LeaseRevoke": unary(message("LeaseRevokeRequest", ID=LEASE_OF_OTHERS)),
        "/etcdserverpb.Lease/LeaseKeepAlive": ("stream", message("LeaseKeepAliveRequest", ID=LEASE_OF_OTHERS), ()),
        "/etcdserverpb.Lease/LeaseTimeToLive": unary(
            message("LeaseTimeToLiveRequest", ID=LEASE_OF_OTHERS, keys=True)
        ),
        "/etcdserverpb.KV/Put": unary(message("PutRequest", key=KEY, lease=LEASE_OF_OTHERS)),
        "/v3lockpb.Lock/Lock": unary(encoded("LockRequest", name=WORK + b"lock", lease=LEASE_OF_OTHERS)),
    }
    for method, recipe in requests.items():
        for at in (0, 1):
            assert matrix.outcome(at, method, recipe, "worker") == DENIED, f"{method} at member {at}"


def test_a_token_opens_http_too(matrix):
    for server in matrix.servers:
        assert auth.get(server, "/metrics", bearer=matrix.tokens["guest"])[0] == 200
        assert auth.get(server, "/metrics", bearer=matrix.wrong_token())[0] == 401


def test_members_with_a_secret_are_not_warned_of(matrix):
    for server in matrix.servers:
        assert "need not prove who they are" not in server.log_tail(1000000)


# Members


def test_the_peer_port_tells_nothing_without_the_secret(matrix):
    before = matrix.state()
    for server in matrix.servers:
        with pytest.raises(protocol.Refused):
            protocol.ask(server)
        with pytest.raises(protocol.Refused):
            protocol.ask(server, b"wrong")
        with protocol.connect(server) as connection:
            connection.sendall(protocol.propose([protocol.put_command(KEY, b"stolen")]))
            connection.settimeout(CALL_SECONDS)
            # Whatever it is told, it is no answer.
            with pytest.raises((ConnectionError, EOFError)):
                while connection.recv(4096):
                    pass
                raise EOFError
    assert matrix.state() == before


def member_id(matrix, at):
    answer = matrix.call(at, "/etcdserverpb.Maintenance/Status", b"", matrix.tokens["root"])
    return etcdrpc.StatusResponse.FromString(answer).header.member_id


def test_a_member_that_forgets_the_caller_is_refused(matrix):
    """One of another make, that knows the secret: a command without a caller is nobody's."""
    leader = matrix.servers[0]
    before = matrix.state()
    shape = protocol.ask(leader, matrix.secret)
    to_id, from_id = member_id(matrix, 0), member_id(matrix, 1)
    stopped = matrix.cluster.servers.index(matrix.servers[1])
    matrix.cluster.stop(stopped)
    try:
        with protocol.greet_soon(leader, shape, from_id, to_id, matrix.secret) as link:
            link.sendall(protocol.propose([protocol.put_command(KEY, b"stolen")]))
            link.sendall(protocol.propose([protocol.grant_command(99, 60000)], sequence=2))
            # The next one of the same link that is allowed comes behind them in the log.
            caller = bytes([15, 2, 0, 0])  # as a server's own work
            link.sendall(protocol.propose([caller + protocol.put_command(b"/last", b"")], sequence=3))
            last = message("RangeRequest", key=b"/last")

            def is_last_there():
                answer = matrix.call(0, "/etcdserverpb.KV/Range", last, matrix.tokens["root"])
                return etcdrpc.RangeResponse.FromString(answer).count == 1

            wait_for(is_last_there, CALL_SECONDS, "what the member proposed last")
    finally:
        matrix.cluster.restart(stopped)
    delete = message("DeleteRangeRequest", key=b"/last")
    matrix.call(0, "/etcdserverpb.KV/DeleteRange", delete, matrix.tokens["root"])
    assert matrix.state() == before


# The end of it


def test_root_switches_it_off(matrix):
    matrix.call(1, "/etcdserverpb.Auth/AuthDisable", b"", matrix.tokens["root"])
    method = "/etcdserverpb.KV/Range"
    for at in (0, 1):
        assert matrix.outcome(at, method, REQUESTS[method], None) == OK
        # Tokens are not looked at while it is off, and none of before is good when it is on again.
        assert matrix.outcome(at, method, REQUESTS[method], "root") == OK
        assert matrix.outcome(at, method, REQUESTS[method], "wrong") == OK
    matrix.call(0, "/etcdserverpb.Auth/AuthEnable", b"")
    # A login waits until the member knows.
    auth.log_in(matrix.rpcs[1], "guest", PASSWORDS["guest"])
    for at in (0, 1):
        for identity in (None, "root", "worker"):
            assert matrix.outcome(at, method, REQUESTS[method], identity) == UNKNOWN_CALLER
