"""Every request of leased's own API by everybody, as test_auth_matrix.py does it for the other requests: without an
identity, with a wrong one, by a user without the right, by one who has it; at the leader and at a member that forwards;
over gRPC and as JSON. Rights to names are those to the keys leased/resources/NAME and leased/pools/NAME.
"""
import urllib.parse

import grpc
import pytest
from google.protobuf import json_format

from harness import auth, gateway
from harness.auth import DENIED, OK, UNKNOWN_CALLER
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.native import METHODS, Native, path_of, request_of, slots_of, want
from harness.ops import end_of
from harness.rpc import CALL_SECONDS, Rpc

PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}
SESSION, OTHER_SESSION, FOREIGN_SESSION = 79, 80, 81
HELD = "job/held"

# How each method is asked, and what it may say to one who has the right. A function is given the matrix.
REQUESTS = {
    "Sessions/Create": {"owner": "o"},
    "Sessions/Renew": {"session_id": SESSION},
    "Sessions/Change": {"session_id": SESSION, "ttl_ms": 600_000},
    "Sessions/End": {"session_id": SESSION},
    "Sessions/Get": {"session_id": SESSION},
    "Sessions/List": {},
    "Resources/Acquire": {"session_id": SESSION, "wants": [want("job/a")]},
    "Resources/Wait": {"session_id": SESSION, "wants": [want("job/b", shared=True), slots_of("job/pool")]},
    "Resources/Release": lambda matrix: {"session_id": SESSION, "acquisition_id": matrix.held.id},
    "Resources/Transfer": lambda matrix: {
        "session_id": SESSION, "acquisition_id": matrix.held.id, "to_session_id": OTHER_SESSION,
    },
    "Resources/Proclaim": lambda matrix: {"session_id": SESSION, "acquisition_id": matrix.held.id, "value": "v"},
    "Resources/Get": {"resource": HELD, "with_remaining": True},
    "Resources/List": {"prefix": "job/"},
    "Resources/Observe": {"resource": HELD},
    "Pools/Set": {"pool": {"name": "job/pool", "slots": ["1", "2", "3"]}},
    "Pools/Remove": {"name": "job/pool"},
    "Pools/Get": {"name": "job/pool"},
    "Pools/List": {},
    "Fences/Check": {"resource": "job/fence", "token": 7},
    "Fences/Get": {"resource": "job/fence"},
    "History/Why": {"resource": HELD},
    "History/Events": {"prefix": "job/", "start_revision": 2},
}  # fmt: skip

GETS = {
    "GET /lease/v1/sessions": "Sessions/List",
    "GET /lease/v1/sessions/{session_id}": "Sessions/Get",
    "GET /lease/v1/resources": "Resources/List",
    "GET /lease/v1/resources/{resource...}": "Resources/Get",
    "GET /lease/v1/pools": "Pools/List",
    "GET /lease/v1/pools/{name...}": "Pools/Get",
    "GET /lease/v1/fences/{resource...}": "Fences/Get",
    "GET /lease/v1/history": "History/Why",
}

LISTED = listed_requests("native")


def post_path(method):
    return f"/lease/v1/{method.lower()}"


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        self.rpcs = [Rpc(server) for server in self.servers]
        rpc = self.rpcs[0]
        mine = [b"leased/resources/job/", b"leased/pools/", b"leased/fences/job/"]
        auth.add_user(rpc, "worker", PASSWORDS["worker"], [auth.permission(key, end_of(key)) for key in mine])
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/resources/guest")])
        root = auth.enable(rpc, PASSWORDS["root"])
        self.tokens = {name: auth.log_in(self.rpcs[1], name, PASSWORDS[name]) for name in PASSWORDS}
        self.tokens["root"] = root
        self.root = Native(rpc.channel, root)
        self.worker = Native(rpc.channel, self.tokens["worker"])
        self.held = None

    def prepare(self):
        """What the requests are about is there, whatever the last one did."""
        for session in (SESSION, OTHER_SESSION, FOREIGN_SESSION):
            try:
                self.root.call("Sessions/End", session_id=session)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.NOT_FOUND
            owner = self.root if session == FOREIGN_SESSION else self.worker
            owner.session(id=session, ttl_ms=600_000)
        self.root.call("Pools/Set", pool={"name": "job/pool", "slots": ["1", "2"]})
        self.held = self.root.acquire(SESSION, want(HELD))
        self.root.acquire(FOREIGN_SESSION, want("foreign"))

    def state(self):
        """What requests could change, as root sees it."""
        sessions = self.root.call("Sessions/List", with_acquisitions=True)
        resources, pools = self.root.call("Resources/List"), self.root.call("Pools/List")
        fence = self.root.call("Fences/Get", resource="job/fence")
        for each in (sessions, resources, pools, fence):
            each.ClearField("header")
        return sessions, resources, pools, fence

    def token(self, identity):
        wrong = self.tokens["root"][:-1] + ("A" if self.tokens["root"][-1] != "A" else "B")
        return {None: None, "wrong": wrong}.get(identity, self.tokens.get(identity))

    def request(self, method):
        fields = REQUESTS[method]
        return request_of(method, **(fields(self) if callable(fields) else fields))

    def outcome(self, at, name, identity):
        if name.startswith("/"):
            return self.grpc_outcome(at, name.removeprefix("/leased.v1."), identity)
        return self.json_outcome(at, name, identity)

    def grpc_outcome(self, at, method, identity):
        token = self.token(identity)
        stream = self.rpcs[at].channel.stream_stream(path_of(method))(
            iter([self.request(method).SerializeToString()]), metadata=[("token", token)] if token else None,
            timeout=CALL_SECONDS,
        )  # fmt: skip
        try:
            next(iter(stream))
        except grpc.RpcError as error:
            return auth.outcome_of_text(error.details())
        finally:
            stream.cancel()
        return OK

    def json_outcome(self, at, name, identity):
        verb, path = name.split(" ")
        token = self.token(identity)
        headers = {"Authorization": token} if token else {}
        if verb == "POST":
            method = next(each for each in METHODS if post_path(each) == path)
            body = json_format.MessageToJson(self.request(method), preserving_proto_field_name=True)
        else:
            method, body = GETS[name], None
            fields = json_format.MessageToDict(self.request(method), preserving_proto_field_name=True)
            for field in list(fields):
                for pattern in ("{%s}" % field, "{%s...}" % field):
                    if pattern in path:
                        path = path.replace(pattern, urllib.parse.quote(str(fields.pop(field))))
            path += "?" + urllib.parse.urlencode({key: str(value).lower() for key, value in fields.items()})
        status, answer = gateway.post(self.servers[at], path, body, headers, method=verb)
        text = gateway.error_text(answer)
        assert bool(text) == (status != 200)
        return auth.outcome_of_text(text) if text else OK


@pytest.fixture(name="matrix", scope="module")
def a_matrix():
    with Cluster() as cluster:
        made = Matrix(cluster)
        yield made
        for rpc in made.rpcs:
            rpc.close()


def expected(right, identity):
    """Of one who must be refused; None: of one who must not be."""
    if identity in ("root", "worker") or (right == "user" and identity == "guest"):
        return None
    return DENIED if identity == "guest" else UNKNOWN_CALLER


def test_every_request_is_known_here():
    assert set(REQUESTS) == set(METHODS)
    routes = {f"POST {post_path(method)}": method for method in METHODS} | GETS
    assert set(LISTED) == {path_of(method) for method in METHODS} | set(routes)
    assert {name: LISTED[name] for name in routes} == {name: LISTED[path_of(of)] for name, of in routes.items()}
    assert set(LISTED.values()) <= {"user", "read", "write", "read_write"}


@pytest.mark.parametrize("name", LISTED)
def test_request(matrix, name):
    matrix.prepare()
    before = matrix.state()
    refused = [who for who in (None, "wrong", "guest") if expected(LISTED[name], who) is not None]
    for at in (0, 1):
        for identity in refused:
            outcome = matrix.outcome(at, name, identity)
            assert outcome == expected(LISTED[name], identity), f"{name} by {identity} at member {at}"
    assert matrix.state() == before, f"{name} was refused, and yet something changed"
    for at in (0, 1):
        for identity in ("guest", "worker"):
            if identity not in refused:
                matrix.prepare()
                assert matrix.outcome(at, name, identity) == OK, f"{name} by {identity} at member {at}"


def test_what_is_of_others_is_not_for_everybody(matrix):
    """The session has something whose name the worker may not write."""
    matrix.prepare()
    worker = Native(matrix.rpcs[1].channel, matrix.tokens["worker"])
    for method, fields in {
        "Sessions/End": {}, "Sessions/Change": {"ttl_ms": 1000}, "Resources/Wait": {"wants": [want("job/c")]},
    }.items():  # fmt: skip
        with pytest.raises(grpc.RpcError) as caught:
            worker.call(method, session_id=FOREIGN_SESSION, **fields)
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED, method
    for name in ("foreign", "job"):
        with pytest.raises(grpc.RpcError) as caught:
            worker.acquire(SESSION, want(name))
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED, name
    with pytest.raises(grpc.RpcError) as caught:
        worker.call("Resources/List")
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


def test_names_that_a_user_may_not_read_are_not_shown(matrix):
    matrix.prepare()
    matrix.root.acquire(SESSION, want("job/seen"), want("secret"))
    worker = Native(matrix.rpcs[0].channel, matrix.tokens["worker"])
    shown = worker.call("Sessions/Get", session_id=SESSION).acquisitions
    assert [[each.resource for each in acquisition.wants] for acquisition in shown] == [[HELD], ["job/seen"]]
    guest = Native(matrix.rpcs[0].channel, matrix.tokens["guest"])
    assert not guest.call("Sessions/Get", session_id=SESSION).acquisitions
