"""Every request of the Eureka API by everybody, as test_auth_matrix.py does it for the other requests: without a user, by
one without the right, by one who may only read or only write, by root; at the leader and at a member that forwards. The
right to an application is that to leased/services/NAME.
"""
import json

import pytest

from harness import auth
from harness.auth import DENIED, OK, READ, UNKNOWN_CALLER, WRITE
from harness.auth_matrix import CALM, listed_requests
from harness.cluster import Cluster
from harness.eureka import DOORS, Eureka, instance
from harness.rpc import Rpc
from harness.wait import wait_for

PASSWORDS = {"root": "root's", "worker": "worker's", "reader": "reader's", "writer": "writer's", "guest": "guest's"}
WAIT_SECONDS = 30
# These show services that nobody but root may see here.
WHOLE = ("/apps", "/apps/", "/apps/delta", "/vips/{vip}", "/svips/{vip}")

LISTED = listed_requests("eureka")


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        rpc = Rpc(self.servers[0])
        for name, kind in {"worker": 2, "reader": READ, "writer": WRITE}.items():
            auth.add_user(rpc, name, PASSWORDS[name], [auth.permission(b"leased/services/job", b"", kind)])
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/services/guest")])
        auth.enable(rpc, PASSWORDS["root"])
        auth.log_in(Rpc(self.servers[1]), "guest", PASSWORDS["guest"])  # the other member knows it, too
        self.tokens = {name: auth.log_in(rpc, name, word) for name, word in PASSWORDS.items()}
        rpc.close()

    def client(self, at, identity, prefix="/eureka"):
        word = PASSWORDS.get(identity)
        return Eureka(self.servers[at].client_port, prefix, user=identity, password=word)

    def prepare(self):
        with self.client(0, "root") as root:
            assert root.register("job", "j-1", vipAddress="front", secureVipAddress="safe") == 204
        for at in range(2):
            with self.client(at, "root") as root:
                wait_for(lambda: root.json("/apps/JOB/j-1"), WAIT_SECONDS, "the instance is known")

    def outcome(self, at, name, identity):
        method, path = name.split(" ")
        prefix = "/eureka/v2" if path.startswith("/eureka/v2/") else "/eureka"
        path = path[len(prefix):].replace("{app}", "JOB").replace("{rest...}", "batch")
        path = path.replace("{vip}", "safe" if "svips" in path else "front").replace("{id}", "j-1")
        body = json.dumps(instance("job", "j-1", vipAddress="front", secureVipAddress="safe")) if method == "POST" else None
        path += {"status": "?value=UP", "metadata": "?a=b"}.get(path.rsplit("/", 1)[1], "")
        with self.client(at, identity, prefix) as eureka:
            method = "POST" if method == "*" else method
            status, _, text = eureka.ask(method, path, body, {"Content-Type": "application/json"} if body else None)
        if status == 401:
            return UNKNOWN_CALLER
        assert status in (200, 204, 403, 501), (name, identity, status, text)
        return DENIED if status == 403 else OK


@pytest.fixture(name="matrix", scope="module")
def a_matrix():
    with Cluster(extra_flags=["--doors", DOORS], timing_flags=CALM) as cluster:
        yield Matrix(cluster)


def expected(name, identity):
    if identity is None:
        return UNKNOWN_CALLER
    if identity == "root" or LISTED[name] == "user":
        return OK
    if identity == "guest" or name.split(" ")[1].replace("/v2", "").removeprefix("/eureka") in WHOLE:
        return DENIED
    return OK if identity == "worker" or (identity == "reader") == (LISTED[name] == "read") else DENIED


@pytest.mark.parametrize("name", LISTED)
def test_request(matrix, name):
    matrix.prepare()
    for at in range(2):
        for identity in (None, "guest", "reader", "writer", "worker", "root"):
            assert matrix.outcome(at, name, identity) == expected(name, identity), f"{identity} at member {at}"
            if name.startswith("DELETE") and expected(name, identity) == OK:
                matrix.prepare()


def test_rights_are_known():
    assert {right for right in LISTED.values()} == {"read", "write", "user"}
    assert len([name for name in LISTED if name.split(" ")[1].startswith("/eureka/v2/")]) == len(LISTED) / 2


def test_wrong_passwords_and_tokens(matrix):
    matrix.prepare()
    port = matrix.servers[0].client_port
    with Eureka(port, user="worker", password="another") as eureka:
        status, headers, _ = eureka.ask("GET", "/apps/JOB")
        assert status == 401 and "Basic" in headers["WWW-Authenticate"]
    with Eureka(port, bearer="worker.nonsense") as eureka:
        assert eureka.status("GET", "/apps/JOB") == 401
    with Eureka(port, bearer=matrix.tokens["worker"]) as eureka:
        assert eureka.status("GET", "/apps/JOB") == 200
    with Eureka(port) as eureka:  # only routes of the Consul API take a token in the query
        assert eureka.status("GET", f"/apps/JOB?token={matrix.tokens['worker']}") == 401
    with Eureka(port, bearer=matrix.tokens["guest"]) as eureka:
        assert eureka.status("GET", "/instances/j-1") == 403
