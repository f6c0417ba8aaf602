"""Every request of the registry's own API by everybody, as test_auth_matrix_native.py does it: without an identity, with
a wrong one, by a user without the right, by one who has it; at the leader and at a member that forwards; over gRPC and
as JSON. The right to a service is that to the key leased/services/NAME.
"""
import urllib.parse

import grpc
import pytest
from etcd3 import etcdrpc
from google.protobuf import json_format

from harness import auth, gateway
from harness.auth import DENIED, OK, UNKNOWN_CALLER
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.ops import end_of
from harness.registry import METHODS, Registry, instance, path_of, request_of
from harness.rpc import CALL_SECONDS, Rpc

PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}
SERVICE, ID = "shop-web", "i"
TARGET = {"service": SERVICE, "id": ID}

# How each method is asked. A function is given the matrix.
REQUESTS = {
    "RegisterInstance": {"instance": instance(SERVICE, "j")},
    "Renew": lambda matrix: {"lease_ids": [matrix.lease_id]},
    "DeregisterInstance": TARGET,
    "SetState": {**TARGET, "state": 3},
    "SetMetadata": {**TARGET, "metadata": [{"key": "k", "value": "v"}]},
    "Report": {"reports": [{**TARGET, "check": "m", "health": 2}]},
    "PutCheck": {**TARGET, "check": {"id": "n", "kind": 7, "health": 2}},
    "DeleteCheck": {**TARGET, "check": "m"},
    "Discover": {"service": SERVICE},
    "WatchService": {"service": SERVICE},
    "ListServices": {"prefix": "shop-"},
    "GetService": {"service": SERVICE},
    "SetService": {"service": SERVICE, "settings": {"grace_ms": 1000}},
    "Events": {"service": SERVICE},
}

POSTS = {
    "POST /lease/v1/registry/register": "RegisterInstance",
    "POST /lease/v1/registry/renew": "Renew",
    "POST /lease/v1/registry/deregister": "DeregisterInstance",
    "POST /lease/v1/registry/set-state": "SetState",
    "POST /lease/v1/registry/set-metadata": "SetMetadata",
    "POST /lease/v1/registry/report": "Report",
    "POST /lease/v1/registry/put-check": "PutCheck",
    "POST /lease/v1/registry/delete-check": "DeleteCheck",
    "POST /lease/v1/registry/discover": "Discover",
    "POST /lease/v1/registry/watch": "WatchService",
    "POST /lease/v1/registry/list": "ListServices",
    "POST /lease/v1/registry/get": "GetService",
    "POST /lease/v1/registry/set": "SetService",
    "POST /lease/v1/registry/events": "Events",
}
GETS = {"GET /lease/v1/services": "ListServices", "GET /lease/v1/services/{service...}": "Discover"}

LISTED = listed_requests("registry")


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        self.rpcs = [Rpc(server) for server in self.servers]
        mine, others = b"leased/services/shop-", b"leased/services/guest"
        auth.add_user(self.rpcs[0], "worker", PASSWORDS["worker"], [auth.permission(mine, end_of(mine))])
        auth.add_user(self.rpcs[0], "guest", PASSWORDS["guest"], [auth.permission(others)])
        root = auth.enable(self.rpcs[0], PASSWORDS["root"])
        self.tokens = {name: auth.log_in(self.rpcs[1], name, PASSWORDS[name]) for name in PASSWORDS}
        self.tokens["root"] = root
        self.root = Registry(self.rpcs[0].channel, root)
        self.lease_id = 0

    def prepare(self):
        """What the requests are about is there, whatever the last one did."""
        checks = [{"id": "m", "kind": 7}]
        self.lease_id = self.root.register(SERVICE, ID, ttl_ms=600_000, checks=checks).lease_id

    def state(self):
        """What requests could change, as root sees it."""
        found = self.root.discover(SERVICE, with_unhealthy=True, with_checks=True)
        found.ClearField("header")
        return found

    def token(self, identity):
        wrong = self.tokens["root"][:-1] + ("A" if self.tokens["root"][-1] != "A" else "B")
        return {None: None, "wrong": wrong}.get(identity, self.tokens.get(identity))

    def request(self, method):
        fields = REQUESTS[method]
        return request_of(method, **(fields(self) if callable(fields) else fields))

    def outcome(self, at, name, identity):
        if name.startswith("/"):
            return self.grpc_outcome(at, name.rpartition("/")[2], identity)
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
            body = json_format.MessageToJson(self.request(POSTS[name]), preserving_proto_field_name=True)
        else:
            body = None
            fields = json_format.MessageToDict(self.request(GETS[name]), preserving_proto_field_name=True)
            if "{service...}" in path:
                path = path.replace("{service...}", urllib.parse.quote(fields.pop("service")))
            path += "?" + urllib.parse.urlencode(fields)
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


def test_every_request_is_known_here():
    assert set(REQUESTS) == set(METHODS) == set(POSTS.values())
    routes = POSTS | GETS
    assert set(LISTED) == {path_of(method) for method in METHODS} | set(routes)
    assert {name: LISTED[name] for name in routes} == {name: LISTED[path_of(of)] for name, of in routes.items()}
    assert set(LISTED.values()) == {"read", "write"}


@pytest.mark.parametrize("name", LISTED)
def test_request(matrix, name):
    matrix.prepare()
    before = matrix.state()
    for at in (0, 1):
        for identity in (None, "wrong", "guest"):
            expected = DENIED if identity == "guest" else UNKNOWN_CALLER
            assert matrix.outcome(at, name, identity) == expected, f"{name} by {identity} at member {at}"
    assert matrix.state() == before, f"{name} was refused, and yet something changed"
    for at in (0, 1):
        matrix.prepare()
        assert matrix.outcome(at, name, "worker") == OK, f"{name} at member {at}"


def test_services_of_others_are_not_for_everybody(matrix):
    worker = Registry(matrix.rpcs[1].channel, matrix.tokens["worker"])
    for ask in (
        lambda: worker.call("ListServices"), lambda: worker.call("ListServices", prefix="sho"),
        lambda: worker.call("Events"), lambda: worker.register("other", "i"), lambda: worker.discover("other"),
        lambda: worker.call("Report", reports=[{**TARGET, "check": "m"}, {"service": "other", "id": "i", "check": "m"}]),
    ):  # fmt: skip
        with pytest.raises(grpc.RpcError) as caught:
            ask()
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


def test_a_watch_ends_when_the_right_is_taken_away(matrix):
    matrix.prepare()
    with Registry(matrix.rpcs[0].channel, matrix.tokens["worker"]).watch(SERVICE) as watch:
        assert next(watch).whole
        rpc = matrix.rpcs[0]
        request = etcdrpc.AuthUserRevokeRoleRequest(name="worker", role="worker")
        auth.auth(rpc, "UserRevokeRole", request, matrix.tokens["root"])
        matrix.prepare()  # a change that it must not be told
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
