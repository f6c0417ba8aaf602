"""Every request of the xDS API by everybody, as test_auth_matrix.py does it for the other requests: without an
identity, with a wrong one, by a user without the right, by one who has it; at the leader and at a member that forwards. The right
to a service is that to leased/services/NAME.
"""
import grpc
import pytest

from harness import auth
from harness.auth import DENIED, OK, READ, UNKNOWN_CALLER
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.rpc import CALL_SECONDS, Rpc
from harness.xds import CLUSTERS, ENDPOINTS, LISTENERS, OWN, ROUTES, DeltaRequest, Registry, Request, post, single

PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}
MINE, OTHER = "job", "secret"
TYPES = {"Clusters": CLUSTERS, "Endpoints": ENDPOINTS, "Listeners": LISTENERS, "Routes": ROUTES, "Resources": ENDPOINTS}

LISTED = listed_requests("xds")


def type_of(name):
    return next(url for ending, url in TYPES.items() if name.endswith(ending))


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        self.rpcs = [Rpc(server) for server in self.servers]
        registry = Registry(self.servers[0].endpoint)
        for service in (MINE, OTHER):
            registry.register(service, 1)
        rpc = self.rpcs[0]
        mine = auth.permission(f"leased/services/{MINE}".encode(), kind=READ)
        auth.add_user(rpc, "worker", PASSWORDS["worker"], [mine])
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/services/guest")])
        root = auth.enable(rpc, PASSWORDS["root"])
        self.tokens = {name: auth.log_in(self.rpcs[1], name, PASSWORDS[name]) for name in PASSWORDS}
        self.tokens["wrong"] = root[:-1] + ("A" if root[-1] != "A" else "B")

    def outcome(self, at, name, identity, service=MINE):
        if name.startswith("POST"):
            return self.rest_outcome(at, name.split(" ")[1], identity, service)
        if "/Delta" in name:
            request = DeltaRequest(type_url=type_of(name), resource_names_subscribe=[service])
        else:
            request = Request(type_url=type_of(name), resource_names=[service])
        stream = self.rpcs[at].channel.stream_stream(name)(
            iter([request.SerializeToString()]), metadata=self.metadata(identity), timeout=CALL_SECONDS
        )
        try:
            next(iter(stream))
        except grpc.RpcError as error:
            return auth.outcome_of_text(error.details())
        finally:
            stream.cancel()
        return OK

    def rest_outcome(self, at, path, identity, service):
        token = self.tokens.get(identity)
        headers = {"Authorization": token} if token else {}
        status, answer = post(self.servers[at].endpoint, path, {"resource_names": [service]}, headers=headers)
        return {200: OK, 401: UNKNOWN_CALLER, 403: DENIED}.get(status, answer)

    def metadata(self, identity):
        token = self.tokens.get(identity)
        return [("token", token)] if token else None


@pytest.fixture(name="matrix", scope="module")
def a_matrix():
    with Cluster(extra_flags=["--doors", "etcd,native,registry,xds"]) as cluster:
        made = Matrix(cluster)
        yield made
        for rpc in made.rpcs:
            rpc.close()


def test_every_request_is_known_here():
    assert set(LISTED.values()) == {"read"}
    routes = {f"POST /v3/discovery:{what}" for what in ("clusters", "endpoints", "listeners", "routes")}
    own = {path.format(form) for path in OWN.values() for form in ("Stream", "Delta", "Fetch")}
    aggregated = {name for name in LISTED if "Aggregated" in name}
    assert len(aggregated) == 2 and set(LISTED) == routes | own | aggregated


@pytest.mark.parametrize("name", LISTED)
def test_request(matrix, name):
    wanted = {None: UNKNOWN_CALLER, "wrong": UNKNOWN_CALLER, "guest": DENIED, "worker": OK, "root": OK}
    for at in (0, 1):
        got = {identity: matrix.outcome(at, name, identity) for identity in wanted}
        assert got == wanted, f"{name} at member {at}"
        assert matrix.outcome(at, name, "worker", OTHER) == DENIED


@pytest.mark.parametrize("delta", [False, True])
def test_a_wildcard_shows_what_the_caller_may_read(matrix, delta):
    wanted = {"root": {MINE, OTHER}, "worker": {MINE}, "guest": set()}
    for identity, services in wanted.items():
        with single(matrix.servers[1].endpoint, CLUSTERS, delta, credentials=matrix.metadata(identity)) as stream:
            stream.ask(CLUSTERS)
            answer = stream.receive()
            assert len(answer.resources) == len(services), identity
    with single(matrix.servers[1].endpoint, CLUSTERS, delta) as stream:
        stream.ask(CLUSTERS)
        with pytest.raises(grpc.RpcError):
            stream.receive()


def test_what_changes_after_a_right_was_taken_away_is_not_shown(matrix):
    token = matrix.tokens["root"]
    auth.add_user(matrix.rpcs[0], "leaver", "x", [auth.permission(f"leased/services/{MINE}".encode())], token)
    credentials = [("token", auth.log_in(matrix.rpcs[1], "leaver", "x"))]
    with single(matrix.servers[0].endpoint, ENDPOINTS, credentials=credentials) as stream:
        stream.ask(ENDPOINTS, [MINE])
        stream.receive()
        key = f"leased/services/{MINE}".encode()
        auth.auth(matrix.rpcs[0], "RoleRevokePermission", auth.etcdrpc.AuthRoleRevokePermissionRequest(
            role="leaver", key=key), token)
        instance = {"service": MINE, "id": "2", "address": "127.0.0.1", "port": 2, "ttl_ms": -1}
        status, _ = post(matrix.servers[0].endpoint, "/lease/v1/registry/register", {"instance": instance},
                         headers={"Authorization": token})  # fmt: skip
        assert status == 200
        with pytest.raises(grpc.RpcError) as raised:
            stream.receive()
        assert raised.value.code() == grpc.StatusCode.PERMISSION_DENIED
