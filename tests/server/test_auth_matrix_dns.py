"""Every kind of name that DNS answers, by everybody: without a user, as a user without the right, as one who has it; at the leader
and at another member. Queries have the rights of --dns-user; those to a service are rights to the key leased/services/NAME.
"""
import pytest

from harness import auth, dns
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.instances import Registry
from harness.rpc import Rpc
from harness.wait import wait_for

# How each is asked, and the answer to one who may.
REQUESTS = {
    "query SERVICE.service": ("job.service.consul", "A", ["10.0.0.1"]),
    "query NODE.node": ("machine.node.consul", "A", ["10.0.0.1"]),
    "query in-addr.arpa": ("1.0.0.10.in-addr.arpa", "PTR", ["job.service.dc1.consul.", "machine.node.dc1.consul."]),
    "query ns": ("ns.consul", "A", ["127.0.0.1"]),
    "query HEX.addr": ("0a000001.addr.consul", "A", ["10.0.0.1"]),
    "query domain": ("consul", "NS", ["ns.consul."]),
}

LISTED = listed_requests("dns")
USERS = ("nobody", "guest", "worker")


@pytest.fixture(scope="module")
def servers():
    """Three members, each of which answers as another user; what they may is the same on all."""
    cluster = Cluster()
    for member, user in zip(cluster.servers, USERS):
        dns.add_listener(member, *([] if user == "nobody" else ["--dns-user", user]))
    with cluster:
        rpc = Rpc(cluster[cluster.leader()])
        auth.add_user(rpc, "worker", "worker's", [auth.permission(b"leased/services/job")])
        auth.add_user(rpc, "guest", "guest's", [auth.permission(b"leased/services/guest")])
        with Registry(cluster[0]) as registry:
            registry.register("job", "job-1", "10.0.0.1", 1, node="machine", ttl_ms=3_600_000)
        for server in cluster.servers:
            wait_for(lambda s=server: dns.values(dns.query(s, "machine.node.consul")), 60, "the registration")
        auth.enable(rpc, "root's")
        rpc.close()
        for server in cluster.servers[:2]:
            refused = lambda s=server: dns.status(dns.query(s, "job.service.consul")) == "REFUSED"  # noqa: E731
            wait_for(refused, 60, "authentication")
        yield dict(zip(USERS, cluster.servers))


def test_every_request_is_known():
    assert set(REQUESTS) == set(LISTED)


@pytest.mark.parametrize("name", REQUESTS)
def test_request(servers, name):
    question, kind, expected = REQUESTS[name]
    # A guest is known, and has no right to that service.
    hidden = {"query SERVICE.service": "REFUSED"}.get(name, "NXDOMAIN")
    allowed = {"none": USERS, "user": USERS[1:], "read": USERS[2:]}[LISTED[name]]
    for user, server in servers.items():
        for tcp in (False, True):
            answer = dns.query(server, question, kind, tcp=tcp)
            if user in allowed:
                assert (dns.status(answer), dns.values(answer)) == ("NOERROR", expected), user
            else:
                assert dns.status(answer) == ("REFUSED" if user == "nobody" else hidden), user
                assert dns.values(answer) == [], user


def test_what_does_not_exist_is_refused_alike(servers):
    for user in ("nobody", "guest"):
        assert dns.status(dns.query(servers[user], "nothing.service.consul")) == "REFUSED"
