"""REST requests that wait until something changes, as Envoy's do."""
import http.client
import itertools
import json
import re
import threading
import time

import pytest

from harness.envoy import get
from harness.wait import wait_for
from harness.xds import Registry, fetch, leased_with_xds, post

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with leased_with_xds() as running:
        yield running


@pytest.fixture
def registry(server):
    return Registry(server.endpoint)


@pytest.fixture
def name():
    return f"rest{next(_numbers)}"


class Held:
    """A REST request that waits; `headers` say how long."""

    def __init__(self, server, what, headers, **body):
        self.asked = time.monotonic()
        self.took = self.answer = None
        arguments = (server.endpoint, f"/v3/discovery:{what}", body, 60, headers.items())
        self.thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self.thread.start()

    def _run(self, *arguments):
        self.answer = post(*arguments)
        self.took = time.monotonic() - self.asked

    def result(self):
        self.thread.join(60)
        return self.answer


def waiting(server):
    return int(re.search(r"^leased_xds_waiting (\d+)$", get(server.client_port, "/metrics")[1], re.M)[1])


ENVOY_2S = {"x-envoy-expected-rq-timeout-ms": "2000"}
MINUTE = {"Prefer": "wait=60"}


def version_of(server, what="endpoints", **body):
    status, answer = fetch(server.endpoint, what, **body)
    assert status == 200
    return answer["version_info"]


def test_rest_waits_for_a_change(server, registry, name):
    registry.register(name, 1)
    known = {"resource_names": [name], "version_info": version_of(server, resource_names=[name])}
    held = [Held(server, "endpoints", MINUTE, **known) for _ in range(20)]
    wait_for(lambda: waiting(server) == 20, 20, "all of them wait")
    # Neither another service nor a version that stays the same wakes anybody.
    registry.register(f"{name}-other", 1)
    assert waiting(server) == 20
    changed = time.monotonic()
    registry.register(name, 2)
    for one in held:
        status, answer = one.result()
        assert status == 200 and answer["version_info"] != known["version_info"]
        assert one.asked + one.took - changed < 5
    wait_for(lambda: waiting(server) == 0, 20, "nobody waits")


def test_rest_waits_as_long_as_envoy_does_less_a_tenth(server, registry, name):
    registry.register(name, 1)
    known = {"resource_names": [name], "version_info": version_of(server, resource_names=[name])}
    held = Held(server, "endpoints", ENVOY_2S, **known)
    assert held.result() == (304, "") and 1.7 <= held.took < 10
    for headers in ({}, {"x-envoy-expected-rq-timeout-ms": "50"}, {"x-envoy-expected-rq-timeout-ms": "x"},
                    {"x-envoy-expected-rq-timeout-ms": "9" * 30}, {"Prefer": "wait="}, {"Prefer": "respond-async"}):
        assert post(server.endpoint, "/v3/discovery:endpoints", known, headers=headers.items()) == (304, "")
    # Whoever has another version, or none, is answered at once.
    for body in ({"resource_names": [name]}, {**known, "version_info": "older"}):
        assert post(server.endpoint, "/v3/discovery:endpoints", body, headers=MINUTE.items())[0] == 200


def test_rest_waits_for_a_service_that_comes_and_one_that_goes(server, registry, name):
    known = {"version_info": version_of(server, "clusters")}
    held = Held(server, "clusters", MINUTE, **known)
    wait_for(lambda: waiting(server) == 1, 20, "it waits")
    registry.register(name, 1)
    status, answer = held.result()
    assert status == 200 and name in [at["name"] for at in answer["resources"]]
    held = Held(server, "clusters", MINUTE, version_info=answer["version_info"])
    wait_for(lambda: waiting(server) == 1, 20, "it waits")
    registry.deregister(name, f"{name}-1")
    status, answer = held.result()
    assert status == 200 and name not in [at["name"] for at in answer["resources"]]


def test_a_rest_client_that_gives_up_is_forgotten(server, registry, name):
    registry.register(name, 1)
    known = {"resource_names": [name, name], "version_info": version_of(server, resource_names=[name, name])}
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=30)
    connection.request("POST", "/v3/discovery:endpoints", json.dumps(known), {"Prefer": "wait=60"})
    wait_for(lambda: waiting(server) == 1, 20, "it waits")
    connection.close()
    wait_for(lambda: waiting(server) == 0, 20, "nobody waits")
    registry.register(name, 2)


def test_a_server_that_stops_answers_who_waits(name):
    with leased_with_xds() as server:
        Registry(server.endpoint).register(name, 1)
        held = Held(server, "endpoints", MINUTE, resource_names=[name],
                    version_info=version_of(server, resource_names=[name]))  # fmt: skip
        wait_for(lambda: waiting(server) == 1, 20, "it waits")
        server.stop()
        assert held.result() == (304, "") and held.took < 30
