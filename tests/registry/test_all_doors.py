"""One instance seen through every protocol at once: registered by one of them, resolved by DNS, listed by Eureka, balanced by xDS, watched
by etcdctl, and gone from all of them in the revision in which its lease ends.
"""
import base64
import http.client
import json
import subprocess
import threading

import pytest

from harness import dns
from harness.etcdctl import etcdctl_path
from harness.eureka import Eureka
from harness.instances import Keeper, Registry
from harness.kinds import KIND_LEASED, clean_environment
from harness.server import Server
from harness.wait import wait_for

DOORS = "etcd,native,registry,consul,eureka,xds"
TTL_MS = 3000
ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


def etcdctl(server, *words):
    return {"args": [etcdctl_path(), f"--endpoints={server.endpoint}", *words], "text": True, "stdout": subprocess.PIPE,
            "env": {**clean_environment(), "ETCDCTL_API": "3"}}  # fmt: skip


def etcd_values(server, *words):
    """What etcdctl get says: the instances as they are written there."""
    output = subprocess.run(**etcdctl(server, "get", "--print-value-only", *words), check=True, timeout=60).stdout
    return [json.loads(line) for line in output.split("\n")[:-1]]


def ask(server, method, path, body=None):
    """An HTTP request whose answer is JSON, or empty."""
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=60)
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, (path, answer.status, text)
        return json.loads(text or b"null")
    finally:
        connection.close()


class EtcdWatch:
    """etcdctl watch of the read-only view: (type, key, revision) as they come."""

    def __init__(self, server):
        self.events = []
        self.process = subprocess.Popen(**etcdctl(server, "watch", "--prefix", "leased/services/", "-w", "json"))
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for line in self.process.stdout:
            for event in json.loads(line)["Events"]:
                key = base64.b64decode(event["kv"]["key"]).decode()
                self.events.append((event.get("type", 0), key, event["kv"]["mod_revision"]))

    def wait_for(self, kind, key):
        def found():
            return [event for event in self.events if event[:2] == (kind, key)]

        return wait_for(found, 60, f"etcd's event of {key}")[-1][2]

    def close(self):
        self.process.terminate()
        self.process.wait(10)


class Views:
    """Where an instance of the service is, as each protocol says: address and port, or nothing."""

    def __init__(self, server, registry, eureka):
        self.server, self.registry, self.eureka = server, registry, eureka

    def native(self, service):
        return {(found["address"], found["port"]) for found in self.registry.discover(service)}

    def dns(self, service):
        answer = dns.query(self.server, f"_{service}._tcp.service.consul", "SRV")
        address = {rrset.name: rrset[0].to_text() for rrset in answer.additional}
        return {(address[rrset[0].target], rrset[0].port) for rrset in answer.answer}

    def eureka_api(self, service):
        found = self.eureka.json(f"/apps/{service.upper()}")
        instances = found["application"]["instance"] if found is not None else []
        instances = instances if isinstance(instances, list) else [instances]
        return {(one["ipAddr"], int(one["port"]["$"])) for one in instances if one["status"] == "UP"}

    def consul(self, service):
        found = ask(self.server, "GET", f"/v1/health/service/{service}?passing")
        return {(one["Service"]["Address"], one["Service"]["Port"]) for one in found}

    def xds(self, service):
        body = {"resource_names": [service], "type_url": ENDPOINTS, "node": {"id": "test"}}
        answer = ask(self.server, "POST", "/v3/discovery:endpoints", body)
        found = [
            (endpoint["endpoint"]["address"], endpoint.get("health_status"))
            for resource in answer.get("resources", [])
            for place in resource.get("endpoints", [])
            for endpoint in place.get("lb_endpoints", [])
        ]
        return {
            (address["socket_address"]["address"], address["socket_address"]["port_value"])
            for address, health in found
            if health in (None, "HEALTHY", "UNKNOWN")
        }

    def etcd(self, service):
        found = etcd_values(self.server, "--prefix", f"leased/services/{service}/")
        return {(one["address"], one["port"]) for one in found}

    ALL = (native, dns, consul, eureka_api, xds, etcd)

    def shown(self, service):
        return {view.__name__: view(self, service) for view in self.ALL}


def expected(place):
    return {view.__name__: place for view in Views.ALL}


@pytest.fixture(scope="module")
def stage():
    server = dns.add_listener(Server(KIND_LEASED, extra_flags=["--doors", DOORS]))
    with server, Registry(server) as registry, Eureka(server.client_port) as eureka:
        watch = EtcdWatch(server)
        # Its beginning cannot be seen: a key that it reports says that it has begun.
        registry.register("beginning", "x", "127.0.0.1", 1)

        def has_begun():
            registry.register("beginning", "x", "127.0.0.1", 1)
            return watch.events

        wait_for(has_begun, 60, "etcdctl watches")
        try:
            yield server, registry, eureka, watch
        finally:
            watch.close()


def by_native(stage, service):
    _, registry, _, _ = stage
    return registry.register(service, "one", "10.0.0.1", 8080, ttl_ms=TTL_MS)["lease_id"]


def by_eureka(stage, service):
    server, _, eureka, _ = stage
    lease = {"renewalIntervalInSecs": 1, "durationInSecs": TTL_MS // 1000}
    assert eureka.register(service, "one", leaseInfo=lease) == 204
    return None


def by_consul(stage, service):
    server, *_ = stage
    body = {"Name": service, "ID": "one", "Address": "10.0.0.1", "Port": 8080}
    ask(server, "PUT", "/v1/agent/service/register", body)


def end_by_consul(stage):
    """Such a registration lasts until somebody takes it back."""
    ask(stage[0], "PUT", "/v1/agent/service/deregister/one")


@pytest.mark.parametrize("register", [by_native, by_eureka, by_consul])
def test_one_instance_through_all_doors(stage, register):
    server, registry, eureka, watch = stage
    views = Views(server, registry, eureka)
    service = register.__name__.replace("_", "-")
    lease_id = register(stage, service)
    made = watch.wait_for(0, f"leased/services/{service}/one")
    place = {("10.0.0.1", 8080)}
    # It beats until it was seen everywhere.
    with Keeper(server) as keeper:
        if lease_id is not None:
            keeper.keep(lease_id)
        assert views.shown(service) == expected(place)
    if register is by_consul:
        end_by_consul(stage)
    ended = watch.wait_for(1, f"leased/services/{service}/one")
    # Nothing is waited for: it is gone from all of them in that revision.
    assert views.shown(service) == expected(set())
    assert ended > made
    before = etcd_values(server, f"leased/services/{service}/one", f"--rev={ended - 1}")
    assert [one["address"] for one in before] == ["10.0.0.1"]


def test_draining_is_seen_through_all_doors(stage):
    server, registry, eureka, watch = stage
    views = Views(server, registry, eureka)
    registry.register("draining", "one", "10.0.0.1", 8080, ttl_ms=600_000)
    registry.register("draining", "two", "10.0.0.2", 8080, ttl_ms=600_000)
    both = {("10.0.0.1", 8080), ("10.0.0.2", 8080)}
    assert views.shown("draining") == expected(both)
    registry.call("set-state", service="draining", id="one", state="DRAINING")
    shown = views.shown("draining")
    # What etcd's clients see is the record; the others give no new work to it.
    assert shown.pop("etcd") == both
    assert set(map(frozenset, shown.values())) == {frozenset({("10.0.0.2", 8080)})}
    registry.deregister("draining", "one")
    watch.wait_for(1, "leased/services/draining/one")
    assert views.shown("draining") == expected({("10.0.0.2", 8080)})
