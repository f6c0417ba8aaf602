"""One client floods the doors of the registry with queries and bodies that look small; see test_registry_hostile.py."""
import contextlib
import gzip
import socket
import struct
import threading
import time

import pytest
from hostile_client import check_memory_returns
from registry_attack import (
    INSTANCES, SECONDS, Flood, attacked, check_iterations, fill, many_instances, registration, registry_server, request,
)  # fmt: skip

from harness.acceptance import either

pytestmark = pytest.mark.alone

A, TXT, SRV, OPT = 1, 16, 33, 41


@pytest.fixture(scope="module")
def full():
    """A service of many instances."""
    with registry_server() as server:
        fill(server, many_instances())
        yield server


def query(name, kind):
    """One of DNS, by a client that takes the largest answer there is."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b".")) + b"\0"
    edns = b"\0" + struct.pack(">HHIH", OPT, 65535, 0, 0)
    return struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 1) + labels + struct.pack(">HH", kind, 1) + edns


QUERIES = [query(name, kind) for name in ("web.service.consul", "all.web.service.consul", "none.web.service.consul")
           for kind in (A, SRV, TXT)]  # fmt: skip


@contextlib.contextmanager
def datagrams(server, messages):
    """Sends them without end."""
    over = threading.Event()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as side:
            side.connect((server.host, server.dns_port))
            while not over.is_set():
                for message in messages:
                    with contextlib.suppress(OSError):
                        side.send(message)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("transport", ["UDP", "TCP", "TCP, not read"])
def test_dns_queries_of_a_large_service(full, transport):
    """It changes all the time, so what was read of it is soon old."""
    before = full.rss_bytes()
    with attacked(full, f"DNS over {transport}: {INSTANCES} instances"):
        with contextlib.ExitStack() as stack:
            if transport == "UDP":
                stack.enter_context(datagrams(full, QUERIES))
            else:
                framed = [struct.pack(">H", len(one)) + one for one in QUERIES]
                stack.enter_context(Flood(full, framed, either(16, 50), transport == "TCP", full.dns_port))
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                fill(full, [registration("web", "changing", metadata=[{"key": "n", "value": str(time.monotonic())}])])
    # What it keeps of the service is bounded (docs/doors/dns.md), and may be more than the allocator gives back.
    check_memory_returns(full, before + 64 * 1024 * 1024)
    check_iterations(full)


@pytest.mark.parametrize("transport", ["UDP", "TCP"])
def test_dns_queries_of_a_node_with_many_instances(transport):
    with registry_server() as server:
        fill(server, (registration(f"s{i}", f"i{i}", address=f"2001:db8::{i + 1:x}", node="crowd") for i in range(256)))
        # None of these addresses is of kind A, so each is compared and none fills the answer.
        messages = [query("crowd.node.consul", A)] * 9
        with attacked(server, f"DNS over {transport}: a node with 256 instances"):
            with contextlib.ExitStack() as stack:
                if transport == "UDP":
                    stack.enter_context(datagrams(server, messages))
                else:
                    framed = [struct.pack(">H", len(one)) + one for one in messages]
                    stack.enter_context(Flood(server, framed, either(16, 50), True, server.dns_port))
                time.sleep(SECONDS)
        check_iterations(server)


def test_blocking_queries_with_long_filters(full):
    """Each expression takes much more memory than its text."""
    count = either(1500, 5000)
    text = "+and+".join(['"\\""+in+ServiceTags'] * 130)
    fill(full, [registration("some", "one")])
    before = full.rss_bytes()
    with attacked(full, f"{count} blocking queries with filters of {len(text)} bytes"):
        with contextlib.ExitStack() as stack:
            for number in range(count):
                side = stack.enter_context(socket.create_connection((full.host, full.client_port), 60))
                side.sendall(request(f"/v1/catalog/service/some?index={10**9 + number}&wait=300s&filter={text}"))
            time.sleep(SECONDS)
    check_memory_returns(full, before)
    check_iterations(full)


def wide(count):
    return b",".join(b'"k%d":"v"' % i for i in range(count))


XML, GZIP = "Content-Type: application/xml\r\n", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
BODIES = {
    "deep": [
        request("/v1/agent/service/register", b"[" * 500_000),
        request("/v1/session/create", b'{"a":' * 100_000),
        request("/v1/txn", b"[" * 500_000),
        request("/eureka/apps/WEB", b"<a>" * 20_000, "POST", XML),
        request("/v3/discovery:endpoints", b"[" * 500_000, "POST"),
        request("/lease/v1/registry/register", b'{"a":' * 100_000, "POST"),
    ],
    "wide": [
        request("/v1/agent/service/register", b'{"Name":"x","Meta":{' + wide(70_000) + b"}}"),
        request("/eureka/apps/WEB", b'{"instance":{' + wide(5_000) + b"}}", "POST", "Content-Type: application/json\r\n"),
        request("/eureka/apps/WEB", b"<i " + b" ".join(b'a%d="b"' % i for i in range(5_000)) + b"/>", "POST", XML),
    ],
    "compressed": [request("/eureka/apps/WEB", gzip.compress(b" " * 60_000_000, 9)[:60_000], "POST", GZIP)],
}  # fmt: skip


@pytest.mark.parametrize("what", BODIES)
def test_bodies(full, what):
    before = full.rss_bytes()
    with attacked(full, f"{what} bodies"):
        with Flood(full, BODIES[what], connections=either(8, 50)) as flood:
            print(what, flood.run())
    check_memory_returns(full, before)
    check_iterations(full)


def test_transactions_of_what_is_not_there(full):
    operations = {
        "Node": lambda i: {"Verb": "delete", "Node": {"Node": f"none-{i}"}},
        "Check": lambda i: {"Verb": "get", "Check": {"Node": f"node-{i}", "CheckID": f"none-{i}"}},
    }
    asked = [request("/v1/txn", [{kind: make(i)} for i in range(128)]) for kind, make in operations.items()]
    before = full.rss_bytes()
    with attacked(full, f"transactions of 128 operations, {INSTANCES} instances"):
        with Flood(full, asked, connections=either(8, 50)) as flood:
            print(flood.run())
    check_memory_returns(full, before)
    check_iterations(full)


def test_a_check_whose_name_has_many_parts(full):
    """Each of them may be where the id of a service ends."""
    with attacked(full, "a check with thousands of colons in its id"):
        with Flood(full, [request("/v1/agent/check/pass/service:" + "a:" * 3000, b"")], connections=8) as flood:
            print(flood.run())
    check_iterations(full)


@pytest.mark.parametrize("what", ["near=zoned", "node-meta=a:b", "filter=Node.Node+==+none"])
def test_lists_of_a_node_that_has_much_to_say(what):
    """Little or nothing is shown, but of every instance all that its node says is read."""
    with registry_server() as server:
        meta = {f"k{i}": "" for i in range(900)}
        fill(server, [request("/v1/catalog/register", {"Node": "fat", "Address": "10.0.0.1", "NodeMeta": meta}),
                      request("/v1/catalog/register", {"Node": "zoned", "Address": "10.0.0.2", "NodeMeta": {"zone": "a"}})])  # fmt: skip
        fill(server, (registration("web", f"web-{i}", node="fat") for i in range(900)))
        with attacked(server, f"lists with {what}"):
            with Flood(server, [request(f"/v1/catalog/service/web?{what}")]) as flood:
                print(flood.run())
        check_iterations(server)
