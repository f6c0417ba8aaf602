"""The registry over DNS, by dig and by dnspython."""
import socket
import struct
import time

import dns.flags
import dns.message
import dns.name
import dns.rdatatype
import pytest

from harness.dns import dig, dig_header, dig_short, leased, query, status, values
from harness.instances import Registry
from harness.wait import wait_for

LARGE = 200


@pytest.fixture(scope="module")
def server():
    with leased() as started, Registry(started) as registry:
        started.registry = registry
        registry.register("web", "web-1", "10.0.0.1", 8001, tags=["v1", "Blue"], metadata={"color": "blue", "empty": ""},
                          node="machine-1", weight=10)  # fmt: skip
        registry.register("web", "web-2", "10.0.0.2", 8002, tags=["v2", "a.b"], node="machine-2", weight=30)
        registry.register("web", "web-6", "2001:db8::6", 8006, tags=["v6"], node="machine-1")
        registry.register("old", "old-1", "10.0.0.9", 80, state="DRAINING")
        registry.register("out", "out-1", "10.0.0.9", 80, state="OUT_OF_SERVICE")
        registry.register("named", "named-1", "db.example.org", 5432)
        registry.register("Capital", "C-1", "10.0.0.7", 7)
        for i in range(LARGE):
            registry.register("large", f"large-{i}", f"10.1.0.{i}", 9000 + i)
        yield started


# Names and types


def test_addresses(server):
    assert dig_short(server, "web.service.consul") == ["10.0.0.1", "10.0.0.2"]
    assert dig_short(server, "web.service.consul", "AAAA") == ["2001:db8::6"]
    assert dig_short(server, "web.service.dc1.consul", "+tcp") == ["10.0.0.1", "10.0.0.2"]


def test_tags_and_ids(server):
    assert dig_short(server, "v1.web.service.consul") == ["10.0.0.1"]
    assert dig_short(server, "BLUE.web.service.consul") == ["10.0.0.1"]
    assert dig_short(server, "a.b.web.service.consul") == ["10.0.0.2"]
    assert dig_short(server, "web-2.web.service.consul") == ["10.0.0.2"]
    assert dig_header(server, "v9.web.service.consul")["status"] == "NXDOMAIN"


def test_services(server):
    expected = ["1 1 8006 20010db8000000000000000000000006.addr.dc1.consul.", "1 10 8001 0a000001.addr.dc1.consul.",
                "1 30 8002 0a000002.addr.dc1.consul."]  # fmt: skip
    for name in ("web.service.consul", "_web._tcp.service.consul", "_web._tcp.service.dc1.consul"):
        assert dig_short(server, name, "SRV") == expected
    assert dig_short(server, "_web._v2.service.consul", "SRV") == expected[-1:]
    assert dig_short(server, "_web._tcp.v1.service.consul", "SRV") == expected[1:2]
    # The addresses of the targets come along, and can be asked for.
    answer = query(server, "web.service.consul", "SRV")
    found = {rrset.name.to_text(): rrset[0].to_text() for rrset in answer.additional}
    assert found == {
        "0a000001.addr.dc1.consul.": "10.0.0.1",
        "0a000002.addr.dc1.consul.": "10.0.0.2",
        "20010db8000000000000000000000006.addr.dc1.consul.": "2001:db8::6",
    }
    assert dig_short(server, "0a000001.addr.dc1.consul") == ["10.0.0.1"]
    assert dig_short(server, "20010db8000000000000000000000006.addr.dc1.consul", "AAAA") == ["2001:db8::6"]


def test_host_names(server):
    assert dig_short(server, "named.service.consul", "SRV") == ["1 1 5432 db.example.org."]
    answer = query(server, "named.service.consul", "A")
    assert [rrset.rdtype for rrset in answer.answer] == [dns.rdatatype.CNAME]
    assert values(answer) == ["db.example.org."]


def test_texts(server):
    assert dig_short(server, "web.service.consul", "TXT") == ['"color=blue" "empty="']


def test_reverse_and_nodes(server):
    wait_for(lambda: dig_short(server, "-x", "10.0.0.1"), 30, "the index")
    assert dig_short(server, "-x", "10.0.0.1") == ["machine-1.node.dc1.consul.", "web.service.dc1.consul."]
    assert dig_short(server, "-x", "2001:db8::6") == ["machine-1.node.dc1.consul.", "web.service.dc1.consul."]
    assert dig_header(server, "-x", "10.9.9.9")["status"] == "NXDOMAIN"
    assert dig_short(server, "machine-1.node.consul") == ["10.0.0.1"]
    assert dig_short(server, "MACHINE-1.node.dc1.consul", "AAAA") == ["2001:db8::6"]
    assert dig_header(server, "machine-9.node.consul")["status"] == "NXDOMAIN"


def test_an_index_follows_its_instances(server):
    registry = server.registry
    registry.register("moving", "m", "10.2.0.1", 1, node="first")
    wait_for(lambda: dig_short(server, "-x", "10.2.0.1"), 30, "the new address")
    registry.register("moving", "m", "10.2.0.2", 1, node="second")
    wait_for(lambda: dig_short(server, "-x", "10.2.0.2"), 30, "the next address")
    assert dig_header(server, "-x", "10.2.0.1")["status"] == "NXDOMAIN"
    assert dig_short(server, "second.node.consul") == ["10.2.0.2"]
    assert dig_header(server, "first.node.consul")["status"] == "NXDOMAIN"
    registry.deregister("moving", "m")
    wait_for(lambda: dig_header(server, "-x", "10.2.0.2")["status"] == "NXDOMAIN", 30, "it is gone")


def test_capital_letters(server):
    wait_for(lambda: dig_short(server, "capital.service.consul"), 30, "the index")
    assert dig_short(server, "CAPITAL.service.consul") == ["10.0.0.7"]
    # What was asked comes back letter by letter, so that a client can tell forgers.
    answer = query(server, "wEb.SerVice.cOnsuL", "A")
    assert answer.question[0].name.to_text() == "wEb.SerVice.cOnsuL."
    assert {rrset.name.to_text() for rrset in answer.answer} == {"wEb.SerVice.cOnsuL."}


def test_zone(server):
    soa = dig_short(server, "consul", "SOA")[0].split()
    assert soa[:2] == ["ns.consul.", "hostmaster.consul."]
    assert dig_short(server, "consul", "NS") == ["ns.consul."]
    assert dig_short(server, "ns.consul") == ["127.0.0.1"]


# What there is not


def test_missing_names_and_missing_types(server):
    for name in ("nothing.service.consul", "old.service.consul", "out.service.consul", "web.service.dc9.consul",
                 "web.consul", "x.query.consul"):  # fmt: skip
        header = dig_header(server, name)
        assert (header["status"], header["ANSWER"], header["AUTHORITY"]) == ("NXDOMAIN", 0, 1), name
        assert "SOA" in header["text"]
    for arguments in (("v1.web.service.consul", "AAAA"), ("v2.web.service.consul", "TXT"), ("service.consul", "A"),
                      ("web.service.consul", "MX"), ("consul", "A")):  # fmt: skip
        header = dig_header(server, *arguments)
        assert (header["status"], header["ANSWER"], header["AUTHORITY"]) == ("NOERROR", 0, 1), arguments


def test_refused(server):
    assert dig_header(server, "web.service.consul", "ANY", "+notcp")["status"] == "REFUSED"
    assert dig_header(server, "web.service.consul", "ANY", "+tcp")["status"] == "REFUSED"
    assert "Transfer failed" in dig(server, "consul", "AXFR")
    assert dig_header(server, "example.org")["status"] == "REFUSED"
    assert dig_header(server, "web.service.consul", "-c", "CH")["status"] == "REFUSED"
    assert dig_header(server, "web.service.consul", "+opcode=NOTIFY")["status"] == "NOTIMP"
    assert dig_header(server, "web.service.consul", "+edns=7", "+noednsneg")["status"] == "BADVERS"
    flags = dig_header(server, "web.service.consul", "+recurse")["flags"]
    assert "rd" in flags and "aa" in flags and "ra" not in flags


# Sizes


def test_a_large_answer_is_cut_and_whole_over_tcp(server):
    name = "large.service.consul"
    for arguments, size in ((("+noedns",), 512), (("+bufsize=600",), 600), (("+bufsize=4096",), 1232)):
        header = dig_header(server, name, "SRV", "+ignore", *arguments)
        assert "tc" in header["flags"] and header["size"] <= size, arguments
        assert header["ANSWER"] == (size - (38 if arguments == ("+noedns",) else 55)) // 44
    whole = dig_header(server, name, "SRV", "+tcp")
    assert "tc" not in whole["flags"] and whole["ANSWER"] == LARGE
    # dig asks again by itself.
    assert len(dig_short(server, name, "SRV")) == LARGE
    assert len(dig_short(server, name)) == LARGE


def test_the_order_is_drawn_by_weight(server):
    first = [query(server, "web.service.consul", "A").answer[0][0].to_text() for _ in range(200)]
    # 30 of 40; less than 3 in a billion runs are beyond these.
    assert 105 <= first.count("10.0.0.2") <= 185


def test_queries_one_behind_another(server):
    """RFC 7766: a client need not wait, and a message may come in pieces."""
    kinds = ["A", "SRV", "TXT", "AAAA", "SOA"] * 20
    messages = [dns.message.make_query("large.service.consul", kind) for kind in kinds]
    stream = b"".join(struct.pack("!H", len(m.to_wire())) + m.to_wire() for m in messages)
    with socket.create_connection((server.host, server.dns_port), timeout=60) as connection:
        for i in range(0, len(stream), 777):
            connection.sendall(stream[i : i + 777])
        reader = connection.makefile("rb")
        for message in messages:
            (size,) = struct.unpack("!H", reader.read(2))
            answer = dns.message.from_wire(reader.read(size), one_rr_per_rrset=True)
            assert answer.id == message.id and message.is_response(answer)


def test_what_is_no_query_gets_no_answer(server):
    answer = dns.message.make_response(dns.message.make_query("web.service.consul", "A")).to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(30)
        client.connect((server.host, server.dns_port))
        client.send(answer)
        client.send(b"\0")
        question = dns.message.make_query("web.service.consul", "A")
        client.send(question.to_wire())
        # The first that comes is for the question.
        assert dns.message.from_wire(client.recv(4096)).id == question.id
    with socket.create_connection((server.host, server.dns_port), timeout=60) as connection:
        connection.sendall(struct.pack("!H", len(answer)) + answer)
        assert connection.recv(1) == b""
    with socket.create_connection((server.host, server.dns_port), timeout=60) as connection:
        connection.sendall(b"\xff\xff")
        assert connection.recv(1) == b""


# Health and time


def test_only_what_should_get_work(server):
    registry = server.registry
    name = "ill.service.consul"
    check = {"id": "c", "kind": "CHECK_MANUAL"}
    registry.register("ill", "a", "10.3.0.1", 1, checks=[check])
    registry.register("ill", "b", "10.3.0.2", 2)
    assert dig_short(server, name) == ["10.3.0.1", "10.3.0.2"]
    registry.call("report", reports=[{"service": "ill", "id": "a", "check": "c", "health": "CRITICAL"}])
    assert dig_short(server, name) == ["10.3.0.2"]
    registry.call("report", reports=[{"service": "ill", "id": "a", "check": "c", "health": "WARNING"}])
    assert dig_short(server, name) == ["10.3.0.1", "10.3.0.2"]
    registry.call("set-state", service="ill", id="b", state="DRAINING")
    assert dig_short(server, name, "SRV") == ["1 1 1 0a030001.addr.dc1.consul."]
    registry.call("set-state", service="ill", id="a", state="OUT_OF_SERVICE", override=True)
    assert status(query(server, name)) == "NXDOMAIN"
    registry.call("set-state", service="ill", id="a", state="INSTANCE_STATE_NONE", override=True)
    registry.deregister("ill", "b")
    assert dig_short(server, name) == ["10.3.0.1"]
    registry.register("ill", "c", "10.3.0.3", 1, weight=-1)
    assert dig_short(server, name) == ["10.3.0.1"]


def test_answers_are_not_kept(server):
    for kind in ("A", "SRV", "TXT"):
        assert {rrset.ttl for rrset in query(server, "web.service.consul", kind).answer} == {0}


def test_an_answer_is_kept_no_longer_than_a_lease(server):
    with leased("--dns-ttl", "30s", "--dns-domain", "Lab.Example.org", "--dns-datacenter", "north") as other:
        with Registry(other) as registry:
            registry.register("web", "long", "10.0.0.1", 1, ttl_ms=600_000)
            name = "web.service.north.lab.example.ORG"
            assert query(other, name).answer[0].ttl == 30
            registry.register("web", "short", "10.0.0.2", 1, ttl_ms=20_000)
            assert {5 < rrset.ttl <= 20 for rrset in query(other, name).answer} == {True}
        assert status(query(other, "web.service.consul")) == "REFUSED"
        assert [rrset.name for rrset in query(other, name).answer][0] == dns.name.from_text(name)


def test_flags_are_checked():
    for flags in (("--dns-domain", "a..b"), ("--dns-datacenter", "a.b")):
        server = leased(*flags)
        try:
            server.launch()
            assert wait_for(lambda: not server.process.is_running(), 30, "its end")
            assert "--dns-domain has to be" in server.log_tail()
        finally:
            server.close()


# Services that a worker reads


@pytest.fixture(scope="module")
def huge(server):
    """One whose instances are more than is kept of all other services together."""
    metadata = {f"key-{i}": 300 * "v" for i in range(60)}
    for i in range(4200):
        server.registry.register("huge", f"huge-{i}", "10.2.0.1", 1 + i, metadata=metadata, ttl_ms=600_000)
    wait_for(lambda: dig_header(server, "huge.service.consul", "+tcp")["status"] == "NOERROR", 20, "it was read")
    return server


def test_a_huge_service_stays_known_while_others_are_read(huge):
    answers = set()
    for i in range(10):
        huge.registry.register("changing", f"changing-{i}", "10.2.0.2")
        assert dig_header(huge, "changing.service.consul")["status"] == "NOERROR"
        answers.add(dig_header(huge, "huge-7.huge.service.consul", "+tcp")["status"])
    assert answers == {"NOERROR"}


def test_what_was_true_long_ago_is_not_told(huge):
    assert dig_short(huge, "huge-7.huge.service.consul") == ["10.2.0.1"]
    huge.registry.call("set-state", service="huge", id="huge-7", state="DRAINING")
    time.sleep(10.5)
    assert dig_short(huge, "huge-7.huge.service.consul") == []
    wait_for(lambda: dig_header(huge, "huge-7.huge.service.consul")["status"] == "NXDOMAIN", 20, "it was read again")
