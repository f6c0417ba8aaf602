"""One client does its worst with small requests about much that is stored: the registry, alias checks, trees of
Consul, pools of slots; see test_one_client.py."""
import contextlib
import socket
import threading
import time

import pytest
from hostile_client import MIB, attacked, check_memory_returns, connect, reading, restart_seconds, send_all

from harness import KIND_LEASED, Server, registry
from harness.acceptance import either, report
from harness.consul import Consul, leased_with_consul
from harness.http2_frames import PREFACE, call, settings, window_update
from harness.native import Native, encoded, path_of, slots_of
from harness.rpc import Rpc
from harness.wait import wait_for

WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
HOUR_MS = 3_600_000
CHECKS_MAX = 16
SLOTS_MAX = 1024
OPS_MAX = 128
# A start reads what was written, and no more of the attack than was let through.
RESTART_SECONDS_MAX = either(20.0, 2.0)
CALM_SECONDS = either(1.0, 5.0)


@pytest.fixture(name="server")
def a_server():
    with Server(KIND_LEASED) as server:
        yield server


def flood(server, path, payloads, connections=1, seconds=CALM_SECONDS):
    """All of them at once over each connection; then there is time for what they cause."""
    data = b"".join(call(1 + 2 * number, path, payload) for number, payload in enumerate(payloads))
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connect(server, WIDE_OPEN)) for _ in range(connections)]
        threads = [threading.Thread(target=send_all, args=(each, data)) for each in opened]
        for each in opened:
            reading(each)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(seconds)


def check_restart(server, name):
    seconds = restart_seconds(server)
    report(name, restart_s=round(seconds, 2))
    assert seconds < RESTART_SECONDS_MAX


def states(count):
    """SetState of s/i, which differ from one to the next."""
    ones = [registry.request_of("SetState", service="s", id="i", state=state, override=True).SerializeToString()
            for state in ("UP", "OUT_OF_SERVICE")]  # fmt: skip
    return [ones[number % 2] for number in range(count)]


# Alias checks: each event of a service concerns all that are as its instances are.


def test_a_service_with_many_aliases_that_changes_often(server):
    n_instances, n_changes = either(250, 6000), either(500, 6000)
    checks = [{"id": f"c{number:02}", "kind": "CHECK_ALIAS", "alias_service": "s", "interval_ms": HOUR_MS}
              for number in range(CHECKS_MAX)]  # fmt: skip
    with Rpc(server) as rpc:
        calls = registry.Registry(rpc.channel)
        calls.register("s", "i", ttl_ms=HOUR_MS)
        calls.register("first", "i", ttl_ms=HOUR_MS, checks=checks)
        for number in range(n_instances):
            calls.register("o", str(number), ttl_ms=HOUR_MS, checks=checks)
        calls.register("last", "i", ttl_ms=HOUR_MS, checks=checks)

        def set_state(state):
            calls.call("SetState", service="s", id="i", state=state, override=True)
            wait_for(lambda: [calls.ids(name) for name in ("first", "last")] == [["i"] * (state == "UP")] * 2, 60,
                     f"all are as the instance is: {state}")  # fmt: skip

        set_state("OUT_OF_SERVICE")
        set_state("UP")
        before = server.rss_bytes()
        with attacked(server, f"registry: {n_changes} changes of a service with {n_instances * CHECKS_MAX} aliases"):
            flood(server, registry.path_of("SetState").encode(), states(n_changes))
        # Each is as the last change says.
        set_state("OUT_OF_SERVICE")
        set_state("UP")
    check_memory_returns(server, before)


# The registry: a few bytes about an instance of a megabyte.


def test_changes_of_a_large_instance(server):
    def pairs(letter):
        return [{"key": f"{letter}{number:02}", "value": letter * 4000} for number in range(15)]

    checks = [{"id": f"c{number:02}", "kind": "CHECK_MANUAL", "headers": pairs("h")} for number in range(CHECKS_MAX)]
    with Rpc(server) as rpc:
        registry.Registry(rpc.channel).register("s", "i", ttl_ms=HOUR_MS, metadata=pairs("m"), checks=checks)
        before = server.rss_bytes()
        with attacked(server, "registry: states of a large instance"):
            flood(server, registry.path_of("SetState").encode(), states(either(500, 4000)), connections=4)
    check_restart(server, "registry: states of a large instance")
    check_memory_returns(server, before + 128 * MIB)  # history


# Trees of Consul: looked at as a whole by each attempt to delete them.


@pytest.fixture(name="consul_server")
def a_consul_server():
    with leased_with_consul() as server:
        yield server


def ask_at_once(server, request, connections):
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", server.consul_port)))
                  for _ in range(connections)]  # fmt: skip
        for each in opened:
            each.sendall(request)
        time.sleep(CALM_SECONDS)


def http(method, path, body=b""):
    return b"%s /v1/%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (method, path, len(body), body)


def test_a_tree_that_is_too_large_to_be_deleted(consul_server):
    n_keys, server = either(5000, 20_000), consul_server
    with Consul(server.consul_port) as consul:
        for first in range(0, n_keys, OPS_MAX):
            answer = consul.put("txn", [{"KV": {"Verb": "set", "Key": f"t/{number:06}", "Value": "dg=="}}
                                        for number in range(first, min(first + OPS_MAX, n_keys))])  # fmt: skip
            assert answer.status == 200, answer.text
        before = server.rss_bytes()
        with attacked(server, f"consul: deletions of a tree of {n_keys} keys"):
            ask_at_once(server, http(b"DELETE", b"kv/t/?recurse"), either(50, 800))
        tree = b'[{"KV":{"Verb":"get-tree","Key":"t/"}},{"KV":{"Verb":"get","Key":"missing"}}]'
        with attacked(server, f"consul: transactions that read a tree of {n_keys} keys"):
            ask_at_once(server, http(b"PUT", b"txn", tree), either(50, 800))
        # Paced, not refused: one at a time is answered as before.
        assert consul("DELETE", "kv/t/", recurse=True).status == 413
        assert len(consul.get("kv/t/", keys=True).json) == n_keys
    check_memory_returns(server, before)
    check_restart(server, "consul: deletions of a tree")


def test_registrations_that_keep_large_checks(consul_server):
    server = consul_server
    headers = {f"h{number:02}": ["x" * 4000] for number in range(15)}
    with Consul(server.consul_port) as consul:
        checks = [{"CheckID": f"c{number:02}", "Name": "c", "HTTP": "http://127.0.0.1:1/", "Interval": "1h",
                   "Header": headers} for number in range(CHECKS_MAX - 4)]  # fmt: skip
        answer = consul.put("agent/service/register", {"Name": "s", "ID": "i", "Checks": checks})
        assert answer.status == 200, answer.text
        before = server.rss_bytes()
        with attacked(server, "consul: registrations that keep large checks"):
            ask_at_once(server, b"".join(http(b"PUT", b"agent/service/register",
                                              b'{"Name":"s","ID":"i","Port":%d}' % number)
                                         for number in range(1, either(5, 20))), either(20, 200))  # fmt: skip
        assert len(consul.get("health/checks/s").json) == len(checks)
    check_restart(server, "consul: registrations that keep large checks")
    check_memory_returns(server, before + 128 * MIB)  # history


# Pools: read as a whole by whoever asks for one slot.


def long_slots():
    return ["s" * 100 + f"{number:04}" for number in range(SLOTS_MAX)]


def test_acquisitions_of_full_pools(server):
    n_pools, n_asked = 9, either(300, 3000)
    names = [f"p{number}" for number in range(n_pools)]
    with Rpc(server) as rpc:
        native = Native(rpc.channel)
        for name in names:
            native.call("Pools/Set", pool={"name": name, "slots": long_slots()})
        for name in names:
            native.acquire(native.session(ttl_ms=HOUR_MS), slots_of(name, SLOTS_MAX))
        one = encoded("Resources/Wait", session_id=native.session(ttl_ms=HOUR_MS),
                      wants=[slots_of(name) for name in names])  # fmt: skip
        before = server.rss_bytes()
        with attacked(server, f"native: {n_asked} refused acquisitions of {n_pools} full pools"):
            flood(server, path_of("Resources/Wait").encode(), [one] * n_asked)
    check_memory_returns(server, before)
    check_restart(server, "native: refused acquisitions of full pools")


def test_acquisitions_that_wait_for_full_pools(server):
    n_pools, n_asked = 9, either(100, 1000)
    names = [f"p{number}" for number in range(n_pools)]
    with Rpc(server) as rpc:
        native = Native(rpc.channel)
        for name in names:
            native.call("Pools/Set", pool={"name": name, "slots": long_slots()})
            native.acquire(native.session(ttl_ms=HOUR_MS), slots_of(name, SLOTS_MAX))
        sessions = [native.session(ttl_ms=HOUR_MS) for _ in range(4)]
        asked = [encoded("Resources/Wait", session_id=sessions[number % len(sessions)], wait_ms=-1,
                         request_id=str(number), wants=[slots_of(name) for name in names])
                 for number in range(n_asked)]  # fmt: skip
        before = server.rss_bytes()
        # They leave the queues when the connection ends.
        with attacked(server, f"native: {n_asked} acquisitions that wait for {n_pools} full pools"):
            flood(server, path_of("Resources/Wait").encode(), asked, seconds=either(2.0, 20.0))
            wait_for(lambda: native.call("Pools/Get", name=names[0]).state.waiting == 0, 60, "empty queues")
    check_restart(server, "native: acquisitions that wait for full pools")
    check_memory_returns(server, before)


def test_an_acquisition_of_many_slots_that_is_asked_for_again(server):
    n_asked = either(300, 3000)
    with Rpc(server) as rpc:
        native = Native(rpc.channel)
        native.call("Pools/Set", pool={"name": "p", "slots": long_slots()})
        session = native.session(ttl_ms=HOUR_MS)
        native.acquire(session, slots_of("p", SLOTS_MAX))
        again = encoded("Resources/Wait", session_id=session, wants=[slots_of("p", SLOTS_MAX)])
        before = server.rss_bytes()
        with attacked(server, f"native: {n_asked} times the same acquisition of {SLOTS_MAX} slots"):
            flood(server, path_of("Resources/Wait").encode(), [again] * n_asked)
    check_restart(server, "native: the same acquisition again")
    check_memory_returns(server, before + 128 * MIB)  # history
