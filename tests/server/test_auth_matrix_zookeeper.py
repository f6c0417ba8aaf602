"""Every request of the ZooKeeper API by everybody: without a password, with a wrong one, by a user without the right, by one
who has it; at the leader and at a member that forwards. Rights to paths are those to the keys leased/zookeeper/PATH.
"""
import base64
import http.client

import pytest
from etcd3 import etcdrpc

from harness import auth, jute, zookeeper
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.rpc import Rpc
from harness.wait import wait_for
from harness.zookeeper_client import Client, Closed, Failed

PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}
NO_AUTH, AUTH_FAILED = -102, -115
PATH = "/job/node"

# How each request is made: its number and what follows.
REQUESTS = {
    "create": (1, jute.create("/job/new")),
    "create2": (15, jute.create("/job/new")),
    "createContainer": (19, jute.create("/job/new", flags=4)),
    "createTTL": (21, jute.create_ttl("/job/new", flags=5, ttl_ms=60_000)),
    "delete": (2, jute.versioned("/job/old")),
    "setData": (5, jute.set_data(PATH, b"x")),
    "setACL": (7, jute.set_acl(PATH, jute.OPEN_ACL)),
    "multi": (14, jute.multi([(13, jute.versioned(PATH)), (5, jute.set_data(PATH, b"y"))])),
    "check": (13, jute.versioned(PATH)),
    "exists": (3, jute.watched(PATH)),
    "getData": (4, jute.watched(PATH)),
    "getACL": (6, jute.text(PATH)),
    "getChildren": (8, jute.watched(PATH)),
    "getChildren2": (12, jute.watched(PATH)),
    "getAllChildrenNumber": (104, jute.text(PATH)),
    "sync": (9, jute.text(PATH)),
    "addWatch": (106, jute.text(PATH) + jute.integer(1)),
}

# Come before a password can be shown, or need none: what they change is the client's own session.
OPEN = {"connect", "ping", "auth", "closeSession"}
# For every user: what they show is the client's own, or they are refused to everybody.
OWN = {
    "whoAmI": (107, b"", 0),
    "getEphemerals": (103, jute.text("/"), 0),
    "removeWatches": (18, jute.text(PATH) + jute.integer(3), -121),
    "checkWatches": (17, jute.text(PATH) + jute.integer(3), -121),
    "reconfig": (16, b"", -123),
    "sasl": (102, b"", -6),
}
# Answered for every user; what a user may not read is not in the answer.
FILTERED = {"multiRead", "setWatches", "setWatches2"}
WORDS = {"none": {"ruok", "isro", "srvr", "mntr", "wchs"},
         "root": {"stat", "cons", "dump", "wchc", "wchp", "conf", "envi", "crst", "srst"}}  # fmt: skip
ROUTES = {"GET /commands", "GET /commands/{command}"}

LISTED = listed_requests("zookeeper")


@pytest.fixture(scope="module")
def servers():
    """The leader and another member, with users."""
    cluster = Cluster()
    for server in cluster.servers:
        zookeeper.add_listener(server)
    with cluster:
        leader = cluster.leader()
        chosen = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        rpc = Rpc(chosen[0])
        work = [auth.permission(key, key[:-1] + b"0") for key in (b"leased/zookeeper/job/",)]
        auth.add_user(rpc, "worker", PASSWORDS["worker"], work)
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/zookeeper/guest")])
        with Client(chosen[0].address).connect() as client:
            client.create("/job")
            client.create("/guest")
            client.create(PATH, b"secret")
        auth.enable(rpc, PASSWORDS["root"])
        rpc.close()
        yield chosen


def client_of(server, name):
    client = Client(server.address).connect(40_000)
    if name is not None:
        client.authenticate("digest", f"{name}:{PASSWORDS[name]}".encode())
    return client


def prepare(server):
    with client_of(server, "root") as client:
        if client.exists("/job/new"):
            client.delete("/job/new")
        if not client.exists("/job/old"):
            client.create("/job/old")


def test_every_request_is_known():
    asked = set(REQUESTS) | OPEN | set(OWN) | FILTERED | WORDS["none"] | WORDS["root"] | ROUTES
    assert asked == set(LISTED)
    assert {name for name, right in LISTED.items() if right == "none"} == OPEN | WORDS["none"]
    assert {name for name, right in LISTED.items() if right == "user"} == set(OWN)
    assert {name for name, right in LISTED.items() if right == "root"} == ROUTES | WORDS["root"]


def error_of(server, who, op, payload):
    """What one request is told. A connection that is lost with a leader, on a busy machine, is made again."""

    def attempt():
        try:
            if op in (1, 2, 15, 19, 21):  # creations and the deletion
                prepare(server)
            with client_of(server, who) as client:
                answer = client.ask(op, payload)
                client.end()
                return [answer.error]
        except (Closed, OSError):
            return None

    return wait_for(attempt, 60.0, "an answer")[0]


@pytest.mark.parametrize("name", REQUESTS)
def test_request(servers, name):
    for server in servers:
        for who, expected in ((None, NO_AUTH), ("guest", NO_AUTH), ("worker", 0), ("root", 0)):
            assert error_of(server, who, *REQUESTS[name]) == expected, (who, server.name)


def test_a_wrong_password_closes_the_connection(servers):
    for server in servers:
        with Client(server.address).connect() as client:
            with pytest.raises(Failed) as failed:
                client.authenticate("digest", b"worker:wrong")
            assert failed.value.code == AUTH_FAILED
            with pytest.raises(Closed):
                client.ping()


def test_what_several_paths_show_is_the_callers_own(servers):
    read = (22, jute.multi([(4, jute.watched(PATH))]))
    watch = (101, jute.set_watches(0, data=[PATH]))
    for server in servers:
        with client_of(server, None) as client:
            assert [client.ask(*request).error for request in (read, watch)] == [NO_AUTH, NO_AUTH]
            client.end()
        for who, expected in (("guest", NO_AUTH), ("worker", 0)):
            with client_of(server, who) as client:
                body = client.request(*read)
                kind, done, error = body.integer(), body.boolean(), body.integer()
                assert (kind, done, error) == ((4, False, 0) if expected == 0 else (-1, False, expected)), who
                # A node that changed since: told only to one who may read it.
                client.request(*watch)
                assert bool(client.events) == (expected == 0), who
                client.end()


@pytest.mark.parametrize("name", OWN)
def test_request_about_the_client_itself(servers, name):
    op, payload, expected = OWN[name]
    for server in servers:
        for who, error in ((None, NO_AUTH), ("guest", expected)):
            assert error_of(server, who, op, payload) == error, who


def test_a_session_needs_no_password(servers):
    with Client(servers[1].address).connect() as client:
        client.ping()
        assert client.end().error == 0


def test_words(servers):
    for word in WORDS["none"]:
        assert "whitelist" not in zookeeper.word(servers[0].address, word)
    for word in WORDS["root"]:
        assert "whitelist" in zookeeper.word(servers[0].address, word)


def http_status(server, path, user=None):
    headers = {}
    if user is not None:
        headers["authorization"] = "Basic " + base64.b64encode(f"{user}:{PASSWORDS[user]}".encode()).decode()
    connection = http.client.HTTPConnection(server.address, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_commands_over_http(servers):
    for path in ("/commands", "/commands/stats"):
        assert http_status(servers[0], path) in (401, 403)
        assert http_status(servers[0], path, "worker") == 403
        assert http_status(servers[0], path, "root") == 200


def test_watches_of_a_user_without_rights(servers):
    """They are told nothing more: of a user whose role was taken away, and of one who was removed."""
    rpc = Rpc(servers[0])
    token = auth.log_in(rpc, "root", PASSWORDS["root"])
    work = [auth.permission(b"leased/zookeeper/job", b"leased/zookeeper/job0")]
    PASSWORDS.update(leaver="leaver's", mover="mover's")
    for name in ("leaver", "mover"):
        auth.add_user(rpc, name, PASSWORDS[name], work, token)
    for server in servers:
        # The member may not have heard of them yet.
        wait_for(lambda server=server: error_of(server, "mover", *REQUESTS["exists"]) == 0, 60.0, "the rights")
    watchers = [client_of(server, name) for server in servers for name in ("leaver", "mover", "worker")]
    for watcher in watchers:
        watcher.request(jute.ADD_WATCH, jute.text("/job/node") + jute.integer(1))
        watcher.get(PATH, watch=True)
    with client_of(servers[0], "root") as client:
        client.create(PATH + "/first")
        for watcher in watchers:
            assert watcher.next_event().path == PATH + "/first"
        auth.auth(rpc, "UserDelete", etcdrpc.AuthUserDeleteRequest(name="leaver"), token)
        auth.auth(rpc, "UserRevokeRole", etcdrpc.AuthUserRevokeRoleRequest(name="mover", role="mover"), token)
        client.create(PATH + "/second")
        client.set(PATH, b"changed")
        client.delete(PATH + "/first")
        client.delete(PATH + "/second")
    for number, watcher in enumerate(watchers):
        if number % 3 == 2:
            while watcher.next_event() != (2, 3, PATH + "/second", -1):
                pass
    for number, watcher in enumerate(watchers):
        if number % 3 != 2:
            watcher.ping()
            assert not watcher.events, number
        watcher.end()
    rpc.close()
