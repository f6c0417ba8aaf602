"""One client asks the doors of the registry for what takes long, again and again; see test_one_client.py."""
import contextlib
import time

import hostile_client
import pytest
from hostile_client import check_memory_returns
from registry_attack import (
    INSTANCES, SECONDS, Flood, attacked, check_iterations, fill, many_instances, registry_server, request,
)  # fmt: skip

from harness.acceptance import either

pytestmark = pytest.mark.alone

KEYS = either(10_000, 100_000)
DOORS = ("consul", "eureka")
JSON = "Accept: application/json\r\n"
COMPRESSED_GROWTH_MAX = either(64, 144) * hostile_client.MIB


@pytest.fixture(scope="module")
def full():
    """A service of many instances, each on a node of its own, and many keys of the Consul API."""
    with registry_server() as server:
        fill(server, many_instances())
        fill(server, (request(f"/v1/kv/many/{i:06}", b"v" * 100) for i in range(KEYS)))
        yield server


LISTS = {
    "consul health": [request("/v1/health/service/web")],
    "consul health, passing": [request("/v1/health/service/web?passing&stale")],
    "consul health, filtered": [request("/v1/health/service/web?filter=Service.Port==81")],
    "consul catalog": [request("/v1/catalog/service/web?tag=all")],
    "consul checks": [request("/v1/health/checks/web")],
    "consul services": [request("/v1/catalog/services")],
    "consul nodes": [request("/v1/catalog/nodes")],
    "consul node": [request("/v1/catalog/node/node-1")],
    "consul state": [request("/v1/health/state/any")],
    "consul agent": [request("/v1/agent/services"), request("/v1/agent/checks"),
                     request("/v1/agent/health/service/name/web")],
    "consul keys and values": [request("/v1/kv/many?recurse")],
    "consul keys": [request("/v1/kv/many?keys")],
    "eureka": [request("/eureka/apps", headers=JSON), request("/eureka/apps"),
               request("/eureka/apps/WEB", headers="Accept-Encoding: gzip\r\n"), request("/eureka/apps/delta")],
}  # fmt: skip


# In `make test` all of a door are asked for in turn.
CASES = either({door: sum((asked for name, asked in LISTS.items() if name.startswith(door)), []) for door in DOORS}, LISTS)


@pytest.mark.parametrize("what", CASES)
def test_long_lists(full, what):
    before = full.rss_bytes()
    with attacked(full, f"{what} of {INSTANCES} instances, {KEYS} keys"):
        with Flood(full, CASES[what]) as flood:
            statuses = flood.run()
    print(what, statuses)
    check_memory_returns(full, before)
    check_iterations(full)


@pytest.mark.parametrize("what", either(DOORS, ("consul health", "consul keys and values", "eureka")))
def test_long_lists_that_nobody_takes(full, what):
    before = full.rss_bytes()
    with attacked(full, f"{what} that nobody takes"):
        with Flood(full, CASES[what], connections=40, reads=False, receive_buffer=4096) as flood:
            flood.run()
    check_memory_returns(full, before)
    check_iterations(full)


def test_compressed_lists_by_many_connections(full):
    """Of a thousand, sixteen are made at a time; those that wait hold no memory of zlib's."""
    before = full.rss_bytes()
    asked = request("/eureka/apps", headers="Accept-Encoding: gzip\r\n")
    with hostile_client.attacked(full, "compressed lists", growth_max=COMPRESSED_GROWTH_MAX):
        with contextlib.ExitStack() as stack:
            for _ in range(1_000):
                hostile_client.send_all(stack.enter_context(hostile_client.connect(full, b"")), asked)
            time.sleep(SECONDS)
    check_memory_returns(full, before)
    check_iterations(full)


LOOKS = {
    "checks that are not there": [request(f"/v1/agent/check/pass/none-{i}", b"") for i in range(4)],
    "sessions of checks that are not there": [
        request("/v1/session/create", {"Checks": [f"none-{i}" for i in range(60)]})],
    "nodes that are not there": [request("/v1/catalog/deregister", {"Node": "none"})],
}  # fmt: skip


@pytest.mark.parametrize("what", LOOKS)
def test_what_is_looked_for_everywhere(full, what):
    with attacked(full, f"{what}, {INSTANCES} instances"):
        with Flood(full, LOOKS[what], connections=either(16, 100)) as flood:
            statuses = flood.run()
    print(what, statuses)
    check_iterations(full)


def test_large_values_of_few_keys(full):
    """Less than a hundred keys make an answer of 40 MB."""
    fill(full, (request(f"/v1/kv/large/{i}", b"v" * 500_000) for i in range(60)))
    before = full.rss_bytes()
    with attacked(full, "60 keys of 500 kB, read"):
        with Flood(full, [request("/v1/kv/large?recurse")], connections=8) as flood:
            print(flood.run())
    check_memory_returns(full, before)
    check_iterations(full)
    with attacked(full, "60 keys of 500 kB that nobody takes"):
        with Flood(full, [request("/v1/kv/large?recurse")], connections=40, reads=False, receive_buffer=4096) as flood:
            flood.run()
    check_memory_returns(full, before)
    check_iterations(full)


def test_a_restart_takes_no_longer(full):
    begun = time.monotonic()
    full.restart()
    assert time.monotonic() - begun < either(20.0, 10.0)


def test_all_doors_stop_cleanly():
    """Timers of the doors may be due at any moment of it."""
    for _ in range(either(3, 20)):
        with registry_server() as server:
            fill(server, many_instances(10))
            server.stop()
            assert server.process.exit_code() == 0
