"""Registrations that renew themselves, and services in memory: through the Python module."""
import queue

import grpc
import pytest

import lease
from harness import KIND_LEASED, Server
from harness.registry import Registry
from harness.wait import wait_for
from lease.services import Health, InstanceState, RegistrationEvent

SECONDS = 60.0


@pytest.fixture(name="server", scope="module")
def a_server():
    with Server(KIND_LEASED) as running:
        yield running


@pytest.fixture(name="client")
def a_client(server):
    with lease.Client(server.endpoint) as opened:
        yield opened


@pytest.fixture(name="registry", scope="module")
def a_registry(server):
    with grpc.insecure_channel(server.endpoint) as channel:
        yield Registry(channel)


@pytest.fixture(name="name")
def _name(request):
    return request.node.name


def test_an_instance_comes_changes_and_goes(client, name):
    told = queue.Queue()
    with client.service(name, with_unhealthy=True, on_change=told.put) as service:
        service.wait(SECONDS)
        assert service.instances() == [] and service.age is not None
        with pytest.raises(lease.Error, match="no instance"):
            service.pick()
        with client.register(name, "10.0.0.1", 80, id="i", tags=["t"], metadata={"k": "v"}, zone="a", ttl=5) as it:
            wait_for(service.instances, SECONDS, "registered")
            (one,) = service.instances()
            assert (one.id, one.address, one.port, one.tags, one.metadata) == ("i", "10.0.0.1", 80, ("t",), {"k": "v"})
            assert one.serving and not one.expired and one.ttl == 5 and one.token == it.token and it.is_valid
            assert service.pick() == one
            it.set_state(InstanceState.DRAINING)
            wait_for(lambda: service.instances()[0].state == InstanceState.DRAINING, SECONDS, "draining")
            with pytest.raises(lease.Error, match="no instance"):
                service.pick()
            it.deregister()
            wait_for(lambda: not service.instances(), SECONDS, "gone")
    assert told.get(timeout=SECONDS) is None


def test_one_whose_lease_ended_registers_again_with_its_token(client, registry, name):
    told = queue.Queue()
    with client.register(name, "h", 1, id="i", ttl=1, on_event=lambda event, _: told.put(event)) as it:
        token = it.token
        registry.call("DeregisterInstance", service=name, id="i")
        assert told.get(timeout=SECONDS) == RegistrationEvent.AGAIN
        assert it.token > token and registry.ids(name) == ["i"]
        it.deregister()


def test_a_successor_is_never_replaced(client, registry, name):
    told = queue.Queue()
    with client.register(name, "h", 1, id="i", ttl=1, on_event=lambda event, _: told.put(event)) as it:
        successor = registry.register(name, "i", port=2)
        assert told.get(timeout=SECONDS) == RegistrationEvent.REPLACED
        assert not it.is_valid
        for call in (it.deregister, lambda: it.set_state(InstanceState.UP)):
            with pytest.raises(lease.Stale):
                call()
        (one,) = registry.discover(name).instances
        assert (one.port, one.token) == (2, successor.token)


def test_a_check_that_the_client_reports(client, name):
    check = {"id": b"alive", "kind": 1, "ttl_ms": 60_000, "health": Health.CRITICAL}
    with client.register(name, "h", 1, id="i", checks=[check]) as it, client.service(name) as service:
        service.wait(SECONDS)
        assert service.instances() == []
        it.report("alive", Health.PASSING, "well")
        wait_for(service.instances, SECONDS, "healthy")
        it.deregister()


def test_near_and_weighted(client, registry, name):
    for i, (zone, weight) in enumerate([("a", 1), ("b", 1), ("b", 9), ("b", -1)]):
        registry.register(name, f"i{i}", zone=zone, weight=weight, tags=["x"])
    with client.service(name, zone="b", tags=["x"]) as service:
        service.wait(SECONDS)
        assert [each.id for each in service.instances()] == ["i1", "i2", "i3", "i0"]
        picked = [service.pick().id for _ in range(500)]
        assert set(picked) == {"i1", "i2"} and picked.count("i2") > 3 * picked.count("i1")
        registry.call("DeregisterInstance", service=name, id="i1")
        registry.call("DeregisterInstance", service=name, id="i2")
        wait_for(lambda: service.pick().id == "i0", SECONDS, "the next zone")


def test_what_is_older_than_its_lease_is_marked_and_not_picked():
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client:
        with grpc.insecure_channel(server.endpoint) as channel:
            registry = Registry(channel)
            registry.register("web", "short", ttl_ms=1500)
            registry.register("web", "long", ttl_ms=600_000)
            with client.service("web") as service, client.service("web", picks_expired=True) as brave:
                for each in (service, brave):
                    each.wait(SECONDS)
                server.kill()
                expired = lambda: {one.id for one in service.instances() if one.expired}  # noqa: E731
                wait_for(lambda: expired() == {"short"}, SECONDS, "expired")
                assert service.age > 1.5
                assert {service.pick().id for _ in range(50)} == {"long"}
                assert {brave.pick().id for _ in range(200)} == {"short", "long"}
