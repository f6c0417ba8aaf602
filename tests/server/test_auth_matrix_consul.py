"""Every request of the Consul API by everybody, as test_auth_matrix.py does it for the other requests: without a token,
with a wrong one, by a user without the right, by one who has it, by root; at the leader and at a member that forwards.
The right to a key is that to leased/consul/kv/KEY, that to a service the one to leased/services/NAME.
"""
import pytest

from harness import auth
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.consul import Consul
from harness.ops import end_of
from harness.rpc import Rpc

PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}
DENIED, UNKNOWN = (403, "Permission denied"), (403, "ACL not found")
DEFINITION = {"Name": "job-web", "ID": "w1", "Check": {"TTL": "600s", "Status": "passing"}}
CATALOG = {"Node": "job-node", "Address": "10.0.0.1", "Service": {"Service": "job-db"}}

# Values of parameters, bodies and queries where the path alone is not enough.
PARAMETERS = {"{key...}": "job/a", "{service...}": "job-web", "{id...}": "w1", "{check...}": "service:w1",
              "{node...}": "leased", "{state...}": "any", "{name...}": "job-event", "{address...}": "x", "{rest...}": "x"}  # fmt: skip
BODIES = {
    "PUT /v1/txn": [{"KV": {"Verb": "set", "Key": "job/t", "Value": ""}}, {"KV": {"Verb": "get", "Key": "job/t"}}],
    "PUT /v1/session/create": {},
    "PUT /v1/agent/service/register": DEFINITION,
    "PUT /v1/agent/check/register": {"Name": "job-check", "ServiceID": "w1", "TTL": "600s"},
    "PUT /v1/agent/check/update/{check...}": {"Status": "passing"},
    "PUT /v1/catalog/register": CATALOG,
    "PUT /v1/catalog/deregister": {"Node": "job-node", "ServiceID": "job-db"},
    "PUT /v1/kv/{key...}": "v",
}
QUERIES = {
    "PUT /v1/agent/service/maintenance/{id...}": {"enable": "false"},
    "PUT /v1/agent/maintenance": {"enable": "false"},
}
# They concern all services: the right to some is not enough.
WHOLE = {
    "GET /v1/agent/services", "GET /v1/agent/checks", "GET /v1/catalog/nodes", "GET /v1/catalog/services",
    "GET /v1/catalog/node/{node...}", "GET /v1/catalog/node-services/{node...}", "GET /v1/health/node/{node...}",
    "GET /v1/health/state/{state...}", "PUT /v1/agent/maintenance", "PUT /v1/catalog/register",
}  # fmt: skip

LISTED = listed_requests("consul")


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.ports = [cluster[leader].client_port, cluster[next(i for i in range(3) if i != leader)].client_port]
        rpc = Rpc(cluster[leader])
        grants = [auth.permission(prefix, end_of(prefix)) for prefix in (b"leased/consul/kv/job/", b"leased/services/job-")]
        auth.add_user(rpc, "worker", PASSWORDS["worker"], grants)
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/consul/kv/guest")])
        auth.enable(rpc, PASSWORDS["root"])
        self.tokens = {name: auth.log_in(rpc, name, password) for name, password in PASSWORDS.items()}
        other = Rpc(cluster[next(i for i in range(3) if i != leader)])
        auth.log_in(other, "guest", PASSWORDS["guest"])  # the other member knows it, too
        other.close()
        rpc.close()
        self.clients = {}
        self.session = self.client(0, "worker").session()

    def client(self, at, identity):
        if (at, identity) not in self.clients:
            token = self.tokens.get(identity, identity)
            self.clients[at, identity] = Consul(self.ports[at], token=token)
        return self.clients[at, identity]

    def prepare(self):
        """What requests need to be there."""
        root = self.client(0, "root")
        root.put("agent/service/register", DEFINITION)
        root.put("catalog/register", CATALOG)
        root.put("kv/job/a", "v")

    def ask(self, name, at, identity):
        method, _, pattern = name.partition(" /v1/")
        path = pattern
        for parameter, value in PARAMETERS.items():
            path = path.replace("{id...}" if parameter == "{id...}" and "session" in path else parameter,
                                self.session if parameter == "{id...}" and "session" in path else value)
        answer = self.client(at, identity)(method, path, BODIES.get(name), **QUERIES.get(name, {}))
        return answer.status, answer.text


@pytest.fixture(scope="module")
def matrix():
    with Cluster(extra_flags=["--doors", "etcd,native,consul"]) as cluster:
        yield Matrix(cluster)


@pytest.mark.parametrize("name", LISTED)
def test_request(matrix, name):
    right = LISTED[name]
    for at in (0, 1):
        matrix.prepare()
        assert matrix.ask(name, at, None) == DENIED, "without a token"
        assert matrix.ask(name, at, "bm8=.dG9rZW4=") == UNKNOWN, "with a wrong token"
        guest = matrix.ask(name, at, "guest")
        if right == "user" and "session" not in name:
            assert guest[0] != 403, guest
        elif "session/" in name:
            # Of others they are shown, and not changed.
            assert (guest[0] == 403) == ("destroy" in name or "renew" in name), guest
        else:
            assert guest == DENIED, "without the right"
        worker = matrix.ask(name, at, "worker")
        assert worker[0] == (403 if name in WHOLE else worker[0]), worker
        assert name in WHOLE or worker[0] in (200, 401, 501), worker
        matrix.prepare()
        if "destroy" in name:
            matrix.session = matrix.client(0, "worker").session()
        root = matrix.ask(name, at, "root")
        assert root[0] in (200, 401, 501), root
        if "destroy" in name:
            matrix.session = matrix.client(0, "worker").session()


def test_a_transaction_needs_the_rights_to_all_it_names(matrix):
    """Also to what its operations on the catalog change, one of which alone would be refused."""
    matrix.prepare()

    def service(name, verb="set"):
        return {"Service": {"Verb": verb, "Node": "leased", "Service": {"Service": name, "ID": name}}}

    key = {"KV": {"Verb": "set", "Key": "job/both", "Value": ""}}
    for at in (0, 1):
        assert matrix.client(at, "worker").put("txn", [key, service("job-a")]).status == 200
        for others in [service("other")], [service("other"), service("job-b")], [service("job-b"), service("other", "delete")]:
            answer = matrix.client(at, "worker").put("txn", [key, *others])
            assert (answer.status, answer.text) == DENIED
            answer = matrix.client(at, "guest").put("txn", [key, service("job-a")])
            assert (answer.status, answer.text) == DENIED
        assert matrix.client(at, "root").get("catalog/service/job-b").json == []
        assert matrix.client(at, "guest").put("txn", [service("job-a", "get")]).status == 403
        assert matrix.client(at, "worker").put("txn", [service("job-a", "get")]).status == 200


def test_every_way_to_show_a_token(matrix):
    matrix.prepare()
    token = matrix.tokens["worker"]
    with Consul(matrix.ports[0]) as client:
        assert client.get("kv/job/a").status == 403
        assert client.get("kv/job/a", token=token).status == 200
        assert client("GET", "kv/job/a", headers={"X-Consul-Token": token}).status == 200
        assert client("GET", "kv/job/a", headers={"Authorization": f"Bearer {token}"}).status == 200
        assert client("GET", "kv/job/a", headers={"Authorization": "Bearer x"}).text == "ACL not found"


def test_rights_to_prefixes(matrix):
    worker = matrix.client(0, "worker")
    assert worker.get("kv/job/", recurse=True).status == 200
    for prefix in ("", "job", "jo", "guest"):
        assert worker.get(f"kv/{prefix}", keys=True).status == 403, prefix
        assert worker("DELETE", f"kv/{prefix}", recurse=True).status == 403, prefix
    mixed = [{"KV": {"Verb": "set", "Key": "job/t", "Value": ""}}, {"KV": {"Verb": "set", "Key": "guest", "Value": ""}}]
    assert worker.put("txn", mixed).status == 403
    assert matrix.client(0, "guest").put("kv/guest", "v").status == 200


def test_a_session_belongs_to_its_user(matrix):
    worker, guest, root = (matrix.client(1, name) for name in ("worker", "guest", "root"))
    session = worker.session()
    assert guest.put("kv/guest", "v", acquire=session).status == 403
    assert guest.put(f"session/renew/{session}").status == 403
    assert guest.put(f"session/destroy/{session}").status == 403
    assert worker.put("kv/job/lock", "v", acquire=session).json is True
    assert worker.put(f"session/renew/{session}").status == 200
    assert root.put(f"session/destroy/{session}").text == "true"
    assert worker.get(f"session/info/{session}").json == []


def test_a_user_waits_for_its_own_keys(matrix):
    worker = matrix.client(0, "worker")
    matrix.prepare()
    index = worker.get("kv/job/a").index
    with Consul(matrix.ports[0], token=matrix.tokens["worker"]) as waiter:
        waiter.send("GET", "kv/job/a", index=index, wait="30s")
        matrix.client(0, "root").put("kv/job/a", "changed")
        assert waiter.answer().index > index
