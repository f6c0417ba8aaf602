"""One client watches, waits and names more than anybody needs, at the doors of the registry; see test_registry_hostile.py."""
import contextlib
import json
import socket
import time

import pytest
from hostile_client import Sender, check_memory_returns, connect
from registry_attack import (
    SECONDS, Flood, attacked, check_iterations, fill, many_instances, registration, registry_server, request,
)  # fmt: skip

from harness import hpack, registry, xds
from harness.acceptance import either
from harness.http2_frames import PREFACE, headers, message, settings, window_update
from harness.wait import wait_for

pytestmark = pytest.mark.alone

# Of one service.
INSTANCES = either(6_000, 50_000)

WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
CLOSED = PREFACE + settings(initial_window_size=10)
STREAMS = 100  # of one connection
NAMES = 4096  # of one request


@pytest.fixture(scope="module")
def full():
    """A service of many instances."""
    with registry_server() as server:
        fill(server, many_instances(INSTANCES))
        yield server


@contextlib.contextmanager
def calls(server, path, messages, connections, hello=WIDE_OPEN):
    """Each connection makes a call for each message, and leaves it open."""
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            connection = connect(server, hello)
            stack.enter_context(connection)
            sender = Sender(connection)
            for n, one in enumerate(messages):
                connection.send(headers(1 + 2 * n, hpack.grpc_request(path.encode())))
                assert sender.send(1 + 2 * n, message(one)) == len(message(one))
        yield


def changes(server, seconds=SECONDS):
    """One instance after another changes, as fast as the log takes it."""
    deadline, n = time.monotonic() + seconds, 0
    with socket.create_connection((server.host, server.client_port), 60) as side:
        while time.monotonic() < deadline:
            side.sendall(registration("web", "changing", metadata=[{"key": "n", "value": str(n)}]))
            assert side.recv(16384).startswith(b"HTTP/1.1 200")
            n += 1
    return n


def subscription(names, zone=""):
    asked = xds.Request(type_url=xds.ENDPOINTS, resource_names=names)
    asked.node.id = "n" * 10_000
    asked.node.locality.zone = zone
    return asked.SerializeToString()


XDS_STREAM = xds.AGGREGATED + "StreamAggregatedResources"
SUBSCRIPTIONS = {
    "names that stand for nothing of a large service": lambda: [
        subscription([f"web?tag=none-{i}" for i in range(NAMES)])],
    "names that all stand for a large service": lambda: [
        subscription(["web"] + [f"web?tag=all&tag=all{'&tag=all' * (i % 2)}" for i in range(2)], f"zone-{n}")
        for n in range(STREAMS)],
    "names of services that are not there": lambda: [
        subscription([f"none-{i}-{n}" for i in range(NAMES)]) for n in range(8)],
}  # fmt: skip


@pytest.mark.parametrize("hello", ["read", "not read"])
@pytest.mark.parametrize("what", SUBSCRIPTIONS)
def test_xds_subscriptions(full, what, hello):
    before = full.rss_bytes()
    with attacked(full, f"xDS: {what}, {hello}"):
        with calls(full, XDS_STREAM, SUBSCRIPTIONS[what](), either(2, 8), WIDE_OPEN if hello == "read" else CLOSED):
            assert full.metric("leased_xds_subscriptions") > 0
            changes(full)
    check_memory_returns(full, before)
    check_iterations(full)


@pytest.mark.parametrize("hello", ["read", "not read"])
def test_watches_of_a_large_service(full, hello):
    before = full.rss_bytes()
    asked = registry.request_of("WatchService", service="web", with_checks=True).SerializeToString()
    with attacked(full, f"watches of {INSTANCES} instances, {hello}"):
        with calls(full, registry.path_of("WatchService"), [asked] * STREAMS, either(2, 8),
                   WIDE_OPEN if hello == "read" else CLOSED):
            changes(full)
    check_memory_returns(full, before)
    check_iterations(full)


FETCHES = {
    "native discover": [request("/lease/v1/registry/discover", {"service": "web"}, "POST")],
    "xds fetch": [request("/v3/discovery:endpoints", {"resource_names": ["web"]}, "POST")],
    "xds fetch of one name many times": [
        request("/v3/discovery:endpoints", {"resource_names": ["web"] * NAMES}, "POST")],
}  # fmt: skip


@pytest.mark.parametrize("what", FETCHES)
def test_large_answers(full, what):
    before = full.rss_bytes()
    with attacked(full, f"{what} of {INSTANCES} instances"):
        with Flood(full, FETCHES[what]) as flood:
            print(what, flood.run())
    check_memory_returns(full, before)
    check_iterations(full)


def test_blocking_queries_that_all_wake(full):
    """Of one service, which changes: each of them has a list of it to get."""
    before = full.rss_bytes()
    fill(full, (registration("some", f"i-{i}") for i in range(100)))
    with contextlib.ExitStack() as stack:
        sides = []
        for _ in range(either(200, 5000)):
            side = socket.socket()
            side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            side.connect((full.host, full.client_port))
            stack.enter_context(side)
            side.sendall(request("/v1/health/service/some"))
            head = side.recv(4096)
            index = int(head.lower().partition(b"x-consul-index: ")[2].split()[0])
            sides.append((side, index))
        with attacked(full, f"{len(sides)} blocking queries that wake together"):
            for side, index in sides:
                side.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while side.recv(1 << 20):
                        pass
                side.sendall(request(f"/v1/health/service/some?index={index}&wait=300s"))
            for _ in range(3):
                fill(full, [registration("some", f"i-{time.monotonic_ns()}")])
                time.sleep(SECONDS)
    check_memory_returns(full, before)
    check_iterations(full)


def test_small_services_do_not_wait_for_large_ones(full):
    """Those are written by workers, of which there are few."""
    fill(full, [registration("little", "one")])
    took = []
    with Flood(full, [request("/lease/v1/registry/discover", {"service": "web", "limit": 1}, "POST")], connections=64):
        time.sleep(SECONDS)
        with socket.create_connection((full.host, full.client_port), 60) as side:
            for _ in range(11):
                began = time.monotonic()
                side.sendall(request("/lease/v1/registry/discover", {"service": "little"}, "POST"))
                assert side.recv(16384).startswith(b"HTTP/1.1 200")
                took.append(time.monotonic() - began)
    assert sorted(took)[5] < 0.1, took


def version_of(server, kind, body):
    status, answer = xds.fetch(f"{server.host}:{server.client_port}", kind, **body)
    assert status == 200, answer
    return answer["version_info"]


@contextlib.contextmanager
def waiting(server, kind, body, count):
    """So many REST requests of one client that wait for a change."""
    known = {**body, "version_info": version_of(server, kind, body)}
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            side = stack.enter_context(socket.create_connection((server.host, server.client_port), 60))
            side.sendall(request(f"/v3/discovery:{kind}", known, "POST", "Prefer: wait=60\r\n"))
        yield


def test_rest_requests_that_all_wake():
    """Each of them lists all services when it comes, and again when there is another one."""
    with registry_server() as server:
        fill(server, (registration(f"service-{i}", "one") for i in range(8000)))
        with attacked(server, "REST requests of xDS that wait for any service"):
            with waiting(server, "clusters", {}, 400):
                time.sleep(SECONDS)
                fill(server, [registration("another", "one")])
                time.sleep(SECONDS)
        check_iterations(server)


def test_what_waiting_rest_requests_hold_is_counted(full):
    """A watch for each name: beyond their share of what all clients may hold, requests are answered at once."""
    count = 600

    def asked():
        return full.metric("leased_xds_waiting"), full.metric("leased_xds_not_modified_total")

    before = asked()[1]
    with waiting(full, "endpoints", {"resource_names": ["none"] * 1024}, count):
        wait_for(lambda: sum(asked()) - before >= count, 30, "all have come")
        assert 100 < asked()[0] < count
    wait_for(lambda: full.metric("leased_xds_waiting") == 0, 60, "nobody waits")


def test_aliases_of_a_large_service(full):
    count = either(100, 1000)
    before = full.rss_bytes()
    fill(full, (request("/v1/agent/service/register", {
        "Name": "alias", "ID": f"alias-{i}", "Check": {"AliasService": "web"}}) for i in range(count)))  # fmt: skip
    # By the id of a service only: without one they stand for all of it.
    fill(full, (request("/lease/v1/registry/register", {"instance": {
        "service": "aliases", "id": f"a-{i}", "address": "10.0.0.1", "port": 80, "ttl_ms": 3_600_000,
        }, "checks": [{"id": "c", "alias": {"service": "web"}}]}, "POST") for i in range(count)))  # fmt: skip
    with attacked(full, f"{2 * count} checks that are as {INSTANCES} instances are, which change"):
        changes(full, 2 * SECONDS)
    check_memory_returns(full, before)
    check_iterations(full)


def test_one_id_in_many_services():
    """The agent's API names a service by its id, which others may have used as well."""
    count = either(3000, 100_000)
    with registry_server() as server:
        fill(server, (registration(f"s-{i}", "same") for i in range(count)))
        asked = [
            request("/v1/agent/service/register", {"Name": "web", "ID": "same"}),
            request("/v1/agent/check/register", {"Name": "c", "ServiceID": "same", "TTL": "10s"}),
            request("/eureka/instances/same"),
        ]
        with attacked(server, f"an id that {count} services have"):
            with Flood(server, asked, connections=16) as flood:
                print(flood.run())
        check_iterations(server)


def test_sessions_that_are_bound_to_checks():
    count = either(500, 5_000)
    with registry_server() as server:
        checks = [{"Name": f"c-{i}", "CheckID": f"c-{i}", "TTL": "3600s", "Status": "passing"} for i in range(16)]
        fill(server, [request("/v1/agent/service/register", {"Name": "web", "Checks": checks})])
        body = json.dumps({"ServiceChecks": [{"ID": f"c-{i}"} for i in range(16)], "NodeChecks": []}).encode()
        fill(server, (request("/v1/session/create", body) for _ in range(count)))
        with attacked(server, f"{count} sessions, each bound to 16 checks"):
            time.sleep(SECONDS)
        check_iterations(server)
