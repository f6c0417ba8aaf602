"""Near first: DNS by the client's network, by dig; ?near= of the Consul API, by python3-consul. One server, two zones."""
import re

import consul as python_consul
import pytest

from harness.consul import Consul, leased_with_consul
from harness.dns import dig, dig_header
from harness.instances import Registry
from harness.ports import free_ports

ZONES = "127.0.0.2/32=a,127.0.0.3/32=b,10.0.0.0/8=a,10.2.0.0/16=b,fd00:b::/32=b"
A = ["10.1.0.1", "10.1.0.2"]
B = ["10.2.0.1", "10.2.0.2"]
LARGE = 400


@pytest.fixture(scope="module")
def server():
    dns_port = free_ports(1)[0]
    flags = ["--listen-dns", f"127.0.0.1:{dns_port}", "--dns-zones", ZONES, "--consul-zones", ZONES]
    with leased_with_consul(flags) as started, Registry(started) as registry:
        started.dns_port = dns_port
        for zone, addresses in (("b", B), ("a", A)):
            for i, address in enumerate(addresses):
                registry.register("web", f"{zone}-{i}", address, 8000 + i, zone=zone, node=f"machine-{zone}")
        registry.register("web", "nowhere", "10.3.0.1", 8009, node="machine-c")
        for i in range(LARGE):
            registry.register("large", f"large-{i:03}", f"10.4.{i // 250}.{i % 250}", 80, zone="ab"[i % 2])
        yield started


# DNS


def addresses(server, *arguments):
    return dig(server, "+short", "web.service.consul", *arguments).split()


def answers(text):
    return re.findall(r"^[^;].*\sIN\s+A\s+(\S+)", text, re.M)


def targets(server, *arguments):
    """{priority: sorted addresses}, and the order in which they came."""
    found = []
    for priority, name in re.findall(r"^(\d+) \d+ \d+ (\w{8})\.addr", dig(server, "+short", *arguments, "SRV"), re.M):
        found.append((int(priority), ".".join(str(byte) for byte in bytes.fromhex(name))))
    return found


def test_the_clients_zone_comes_first(server):
    for transport in ("+notcp", "+tcp"):
        assert sorted(addresses(server, "-b", "127.0.0.2", transport)[:2]) == A
        assert sorted(addresses(server, "-b", "127.0.0.3", transport)[:2]) == B
        assert len(addresses(server, "-b", "127.0.0.3", transport)) == 5


def test_srv_records_have_priorities(server):
    found = targets(server, "web.service.consul", "-b", "127.0.0.3")
    assert sorted(address for priority, address in found if priority == 1) == B
    assert [priority for priority, _ in found] == [1, 1, 2, 2, 2]


def test_a_client_of_no_zone_and_a_zone_without_instances(server):
    assert {priority for priority, _ in targets(server, "web.service.consul", "-b", "127.0.0.9")} == {1}
    with Registry(server) as registry:
        registry.register("only-a", "one", "10.1.0.1", zone="a")
        assert {priority for priority, _ in targets(server, "only-a.service.consul", "-b", "127.0.0.3")} == {1}


def test_the_subnet_that_a_resolver_names_goes_before_its_own(server):
    for subnet, expected in (("10.2.7.0/24", B), ("10.9.0.0/16", A), ("fd00:b:1::/48", B), ("10.2.0.1/32", B)):
        text = dig(server, "web.service.consul", "-b", "127.0.0.2", f"+subnet={subnet}")
        assert sorted(answers(text)[:2]) == expected, subnet
        # The answer holds for this network: the scope is as long as the prefix.
        address, length = subnet.split("/")
        shown = re.search(r"CLIENT-SUBNET: (\S+)/(\d+)/(\d+)", text)
        assert (shown[2], shown[3]) == (length, length), text
    # More than an entry's network: nobody knows.
    assert {priority for priority, _ in targets(server, "web.service.consul", "+subnet=10.0.0.0/7")} == {1}


def test_who_does_not_want_to_be_located_is_not(server):
    text = dig(server, "web.service.consul", "-b", "127.0.0.3", "+subnet=0.0.0.0/0")
    assert "CLIENT-SUBNET: 0.0.0.0/0/0" in text
    assert sorted(answers(text)[:2]) == B  # the resolver itself


def test_names_that_are_no_services_have_no_scope(server):
    assert "CLIENT-SUBNET: 10.2.0.0/16/0" in dig(server, "missing.service.consul", "+subnet=10.2.0.0/16")
    assert "CLIENT-SUBNET: 10.2.0.0/16/0" in dig(server, "consul", "SOA", "+subnet=10.2.0.0/16")


def test_what_is_cut_off_is_far(server):
    answer = dig_header(server, "large.service.consul", "+ignore", "+bufsize=512", "-b", "127.0.0.3", "+subnet=10.2.0.0/16")
    assert "tc" in answer["flags"] and answer["size"] <= 512
    last = [int(address.split(".")[-1]) for address in answers(answer["text"])]
    assert last and all(number % 2 == 1 for number in last)


@pytest.mark.parametrize("option", ["0001", "000110", "00011800", "00012100" + "00" * 5, "0001180a00000001", "000118000a000001", "00010900ffff"])
def test_a_malformed_subnet_is_a_format_error(server, option):
    assert dig_header(server, "web.service.consul", f"+ednsopt=8:{option}", "+noall", "+comments", "+stats")["status"] == "FORMERR"


def test_a_family_that_nobody_knows_is_ignored(server):
    assert dig_header(server, "web.service.consul", "+ednsopt=8:00090800aa")["status"] == "NOERROR"


# Consul


def ids(entries):
    return [entry["Service"]["ID"] if "Service" in entry and isinstance(entry["Service"], dict) else entry["ServiceID"] for entry in entries]


@pytest.fixture
def client(server):
    return python_consul.Consul(port=server.consul_port)


def raw(server, path, source, **query):
    """As a client of another address."""
    with Consul(server.consul_port) as consul:
        consul.connection.source_address = (source, 0)
        return consul.get(path, **query).json


def register_node(server, node, zone):
    with Consul(server.consul_port) as consul:
        body = {"Node": node, "Address": "10.8.0.1", "NodeMeta": {"zone": zone}, "Service": {"Service": "of-node", "ID": node}}
        assert consul.put("catalog/register", body).status == 200


def test_near_a_node(client, server):
    # By id without ?near=.
    assert ids(client.health.service("web")[1]) == ["a-0", "a-1", "b-0", "b-1", "nowhere"]
    assert ids(client.health.service("web", near="machine-b")[1]) == ["b-0", "b-1", "a-0", "a-1", "nowhere"]
    assert ids(client.catalog.service("web", near="machine-c")[1]) == ["nowhere", "a-0", "a-1", "b-0", "b-1"]
    assert ids(client.catalog.service("web", near="machine-zzz")[1]) == ["a-0", "a-1", "b-0", "b-1", "nowhere"]


def test_near_the_zone_of_a_node(client, server):
    register_node(server, "gateway", "b")
    register_node(server, "neighbour", "b")
    register_node(server, "another", "a")
    assert ids(client.health.service("web", near="gateway")[1]) == ["b-0", "b-1", "a-0", "a-1", "nowhere"]
    # A service that says nothing of its zone is in its node's.
    assert ids(client.catalog.service("of-node", near="gateway")[1]) == ["gateway", "neighbour", "another"]
    assert ids(client.catalog.service("of-node", near="another")[1]) == ["another", "gateway", "neighbour"]
    nodes = [node["Node"] for node in client.catalog.nodes(near="gateway")[1]]
    assert nodes[:2] == ["gateway", "neighbour"] and sorted(nodes) == sorted(node["Node"] for node in client.catalog.nodes()[1])


def test_near_the_client(client, server):
    assert ids(raw(server, "health/service/web", "127.0.0.2", near="_agent"))[:2] == ["a-0", "a-1"]
    assert ids(raw(server, "health/service/web", "127.0.0.3", near="_agent"))[:2] == ["b-0", "b-1"]
    assert ids(raw(server, "catalog/service/web", "127.0.0.9", near="_agent")) == ["a-0", "a-1", "b-0", "b-1", "nowhere"]
    # What is at the client's own address is nearest.
    with Consul(server.consul_port) as consul:
        for id, zone in (("1", "b"), ("2", "b"), ("3", "a")):
            body = {"Name": "local", "ID": id, "Address": f"127.0.0.{id}", "Meta": {"zone": zone}}
            assert consul.put("agent/service/register", body).status == 200
    assert ids(raw(server, "health/service/local", "127.0.0.3", near="_agent")) == ["3", "1", "2"]
    assert ids(raw(server, "health/service/local", "127.0.0.2", near="_agent")) == ["2", "3", "1"]
    assert ids(client.health.service("local", near="_agent")[1]) == ["1", "2", "3"]


def test_checks_near_first(client, server):
    with Consul(server.consul_port) as consul:
        for id, zone in (("x", "a"), ("y", "b")):
            body = {"Name": "checked", "ID": id, "Locality": {"Region": "r", "Zone": zone}, "Check": {"TTL": "1h", "Status": "passing"}}
            assert consul.put("agent/service/register", body).status == 200
        assert consul.get("agent/service/x").json["Locality"] == {"Region": "r", "Zone": "a"}
    assert ids(raw(server, "health/checks/checked", "127.0.0.3", near="_agent")) == ["y", "x"]
    state = [check["ServiceID"] for check in raw(server, "health/state/passing", "127.0.0.3", near="_agent")]
    assert state.index("y") < state.index("x")


def test_a_long_list_is_put_in_order(client, server):
    def zones(entries):
        return "".join("ab"[int(id[-1]) % 2] for id in ids(entries))

    # With records of ids, checks and indexes this is more than is written on the loop.
    with Registry(server) as registry:
        for i in range(1500):
            registry.register("long", f"long-{i:04}", "10.5.0.1", 1 + i, zone="ab"[i % 2])
    entries = raw(server, "health/service/long", "127.0.0.3", near="_agent", passing=True)
    assert zones(entries) == "b" * 750 + "a" * 750
    assert ids(entries) == [f"long-{i:04}" for i in (*range(1, 1500, 2), *range(0, 1500, 2))]
    assert zones(raw(server, "catalog/service/large", "127.0.0.2", near="_agent")) == "a" * 200 + "b" * 200


def test_the_native_api_has_the_same(server):
    with Registry(server) as registry:
        found = [instance["id"] for instance in registry.discover("web", near_zone="b")]
    assert found == ["b-0", "b-1", "a-0", "a-1", "nowhere"]
