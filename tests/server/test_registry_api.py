"""The registry's own API: a registration is a lease, a successor is never replaced, watchers hear of their service."""
import json

import grpc
import pytest

from harness import Server
from harness.native import ask
from harness.registry import Registry
from harness.wait import wait_for

PASSING, WARNING, CRITICAL = range(3)
STARTING, UP, DRAINING = 1, 2, 3
GONE_SECONDS = 60.0


@pytest.fixture(scope="module", name="server")
def _server():
    with Server("leased") as running:
        yield running


@pytest.fixture(scope="module", name="registry")
def _registry(server):
    with grpc.insecure_channel(server.endpoint) as channel:
        yield Registry(channel)


@pytest.fixture(name="name")
def _name(request):
    return request.node.name


def refused(code, call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == code
    return caught.value.details()


# Registering


def test_an_instance_is_listed_as_it_was_registered(registry, name):
    done = registry.register(
        name, "a", port=8080, tags=["v2", "blue"], metadata=[{"key": "k", "value": "v"}], zone="z", version="1.2",
        weight=5, node="n", owner="o",
    )  # fmt: skip
    (shown,) = registry.discover(name).instances
    assert (shown.id, shown.address, shown.port, list(shown.tags)) == ("a", "10.0.0.1", 8080, ["v2", "blue"])
    assert [(each.key, each.value) for each in shown.metadata] == [("k", "v")]
    assert (shown.zone, shown.version, shown.weight, shown.node, shown.owner) == ("z", "1.2", 5, "n", "o")
    assert (shown.state, shown.health, shown.serving, shown.kept) == (UP, PASSING, True, False)
    assert (shown.token, shown.lease_id, shown.ttl_ms) == (done.token, done.lease_id, 60_000)
    assert done.replaced_token == 0


def test_a_later_registration_replaces_and_the_older_process_is_refused(registry, name):
    first = registry.register(name, "a")
    second = registry.register(name, "a", port=81)
    assert second.token > first.token and second.replaced_token == first.token
    assert list(registry.renew(first.lease_id, second.lease_id).ended) == [first.lease_id]
    code = grpc.StatusCode.FAILED_PRECONDITION
    assert "newer registration" in refused(code, lambda: registry.register(name, "a", previous_token=first.token))
    refused(code, lambda: registry.call("DeregisterInstance", service=name, id="a", token=first.token))
    refused(code, lambda: registry.call("SetState", service=name, id="a", token=first.token, state=DRAINING))
    (shown,) = registry.discover(name).instances
    assert (shown.token, shown.port, shown.state) == (second.token, 81, UP)
    registry.call("DeregisterInstance", service=name, id="a", token=second.token)
    assert not registry.ids(name)


def test_an_instance_that_is_not_renewed_goes(registry, name):
    with registry.watch(name) as watch:
        assert next(watch).whole
        registry.register(name, "short", ttl_ms=1000)
        assert [each.id for each in next(watch).instances] == ["short"]
        assert list(next(watch).removed) == ["short"]
    (lost,) = registry.call("Events", service=name).events
    assert (lost.kind, lost.id) == (1, "short")


def test_many_are_renewed_by_one_message(registry, name):
    leases = [registry.register(name, f"i{i:02}", ttl_ms=60_000).lease_id for i in range(20)]
    registry.call("DeregisterInstance", service=name, id="i03")
    answer = registry.renew(*leases, 424242)
    assert (answer.renewed, answer.sequence) == (19, 7)
    assert list(answer.ended) == [leases[3], 424242]


def test_draining_before_it_goes(registry, name):
    done = registry.register(name, "a")
    registry.call("DeregisterInstance", service=name, id="a", token=done.token, drain_ms=1000)
    assert not registry.ids(name)
    shown = registry.discover(name, with_unhealthy=True).instances
    assert [each.state for each in shown] in ([DRAINING], [])  # the latter on a machine that stood still
    wait_for(lambda: not registry.ids(name, with_unhealthy=True), GONE_SECONDS, "drained")


def test_an_operators_word_goes_before_the_instances_own(registry, name):
    registry.register(name, "a")
    registry.call("SetState", service=name, id="a", state=DRAINING, override=True)
    assert not registry.ids(name)
    again = registry.register(name, "a")
    assert not registry.ids(name), "a new process does not take it back"
    registry.call("SetState", service=name, id="a", override=True)
    assert registry.ids(name) == ["a"]
    registry.call("SetState", service=name, id="a", token=again.token, state=STARTING)
    assert not registry.ids(name)


def test_metadata_is_changed_key_by_key(registry, name):
    registry.register(name, "a", metadata=[{"key": "k", "value": "v"}, {"key": "l", "value": "w"}])
    registry.call(
        "SetMetadata", service=name, id="a", metadata=[{"key": "k", "value": ""}, {"key": "m", "value": "x"}]
    )
    (shown,) = registry.discover(name).instances
    assert {each.key: each.value for each in shown.metadata} == {"l": "w", "m": "x"}


# Checks


def test_a_ttl_check_hides_an_instance_until_it_is_reported(registry, name):
    check = {"id": "alive", "kind": 1, "ttl_ms": 60_000, "health": CRITICAL}
    token = registry.register(name, "a", checks=[check]).token
    assert not registry.ids(name)
    report = {"service": name, "id": "a", "check": "alive", "token": token, "health": PASSING, "output": "well"}
    registry.call("Report", reports=[report])
    (shown,) = registry.discover(name, with_checks=True).instances
    assert [(each.id, each.health, each.output) for each in shown.checks] == [("alive", PASSING, "well")]
    before = registry.discover(name).header.revision
    registry.call("Report", reports=[report])
    assert registry.discover(name).header.revision == before, "the same again is a renewal, and no change"
    registry.call("Report", reports=[report | {"health": CRITICAL}])
    assert not registry.ids(name) and registry.ids(name, with_unhealthy=True) == ["a"]
    stale = report | {"token": token - 1}
    refused(grpc.StatusCode.NOT_FOUND, lambda: registry.call("Report", reports=[stale]))


def test_checks_are_added_and_taken_away(registry, name):
    registry.register(name, "a")
    registry.call("PutCheck", service=name, id="a", check={"id": "m", "kind": 7, "health": CRITICAL})
    assert not registry.ids(name)
    registry.call("DeleteCheck", service=name, id="a", check="m")
    assert registry.ids(name) == ["a"]
    refused(grpc.StatusCode.NOT_FOUND, lambda: registry.call("DeleteCheck", service=name, id="a", check="m"))


def test_a_ttl_check_that_is_silent_becomes_critical(registry, name):
    with registry.watch(name) as watch:
        next(watch)
        registry.register(name, "a", checks=[{"id": "alive", "kind": 1, "ttl_ms": 1000, "health": PASSING}])
        states = []
        while states[-1:] != [CRITICAL]:
            states += [each.health for each in next(watch).instances]
    assert states[0] == PASSING


# Discovery


def test_queries(registry, name):
    for i, (zone, tag) in enumerate([("a", "x"), ("b", "x"), ("b", "y"), ("c", "y")]):
        registry.register(name, f"i{i}", zone=zone, tags=[tag, "all"], version=tag, metadata=[{"key": "n", "value": zone}])
    assert registry.ids(name, tags=["all"]) == ["i0", "i1", "i2", "i3"]
    assert registry.ids(name, tags=["all", "y"]) == ["i2", "i3"]
    assert registry.ids(name, zone="b") == ["i1", "i2"]
    assert registry.ids(name, version="y", metadata=[{"key": "n", "value": "c"}]) == ["i3"]
    assert registry.ids(name, near_zone="c")[0] == "i3"
    subset = registry.ids(name, subset_of="client", limit=2)
    assert len(subset) == 2 and subset == registry.ids(name, subset_of="client", limit=2, local=True)
    assert sorted(registry.ids(name, seed=9)) == ["i0", "i1", "i2", "i3"]
    assert registry.discover(name, limit=1).total == 4


def test_a_watch_tells_the_whole_first_and_then_what_changed(registry, name):
    registry.register(name, "a")
    with registry.watch(name) as watch:
        first = next(watch)
        assert first.whole and [each.id for each in first.instances] == ["a"]
        registry.register(f"{name}-other", "x")
        registry.register(name, "b")
        change = next(watch)
        assert not change.whole and [each.id for each in change.instances] == ["b"]
        assert change.service.live == 2 and change.service.revision > first.service.revision
        registry.call("DeregisterInstance", service=name, id="a")
        assert list(next(watch).removed) == ["a"]


def test_services_are_listed_in_pages(registry):
    names = [f"list-{i}" for i in range(5)]
    for each in names:
        registry.register(each, "a")
    first = registry.call("ListServices", prefix="list-", limit=3)
    assert [each.name for each in first.services] == names[:3] and first.more
    rest = registry.call("ListServices", prefix="list-", after=names[2])
    assert [each.name for each in rest.services] == names[3:] and not rest.more


def test_settings_and_the_guard(registry, name):
    registry.call("SetService", service=name, settings={"guard_minimum": 2, "guard_percent": 50, "grace_ms": 100})
    shown = registry.call("GetService", service=name).service
    assert (shown.settings.guard_minimum, shown.settings.grace_ms, shown.settings.guard_hold_ms) == (2, 100, 300_000)
    assert registry.register(name, "stays").ttl_ms == 60_100
    with registry.watch(name) as watch:
        for each in ("b", "c"):
            registry.register(name, each, ttl_ms=1000)
        while not next(watch).service.guarded:
            pass
    shown = {each.id: each.kept for each in registry.discover(name).instances}
    assert shown == {"stays": False, "b": True, "c": True}
    assert [each.kind for each in registry.call("Events", service=name).events][-1] == 2
    registry.register(name, "b")
    registry.register(name, "c")
    wait_for(lambda: not registry.call("GetService", service=name).service.guarded, GONE_SECONDS, "guard off")
    assert not any(each.kept for each in registry.discover(name).instances)


# What is refused


@pytest.mark.parametrize(
    "fields",
    [
        {"service": ""}, {"id": ""}, {"id": "i\n"}, {"service": "s" * 256}, {"ttl_ms": 999}, {"port": 65536},
        {"weight": -2}, {"weight": 65536}, {"tags": ["t", "t"]}, {"tags": [str(i) for i in range(65)]},
        {"metadata": [{"key": "k", "value": ""}] * 2}, {"checks": [{"id": "c", "kind": 2, "interval_ms": 1000}]},
        {"checks": [{"id": "c", "kind": 7}] * 2}, {"checks": [{"kind": 7}]}, {"address": "a" * 5000},
    ],
    ids=str,
)  # fmt: skip
def test_registrations_that_are_refused(registry, fields):
    fields = {"service": "refused", "id": "i", **fields}
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: registry.register(fields.pop("service"), fields.pop("id"), **fields))


def test_what_is_not_there(registry, name):
    code = grpc.StatusCode.NOT_FOUND
    refused(code, lambda: registry.call("DeregisterInstance", service=name, id="i"))
    refused(code, lambda: registry.call("SetState", service=name, id="i", state=UP))
    refused(code, lambda: registry.call("SetMetadata", service=name, id="i", metadata=[{"key": "k", "value": "v"}]))
    refused(code, lambda: registry.call("PutCheck", service=name, id="i", check={"id": "m", "kind": 7}))
    assert not registry.ids(name) and registry.call("GetService", service=name).service.revision > 0


def test_json(server, name):
    body = {"instance": {"service": name, "id": "a", "address": "10.0.0.1", "port": 80, "ttl_ms": 60_000}}
    status, text = ask(server, "POST", "/lease/v1/registry/register", body)
    assert status == 200 and int(json.loads(text)["token"]) > 0
    status, text = ask(server, "GET", f"/lease/v1/services/{name}?with_unhealthy=true")
    assert [each["id"] for each in json.loads(text)["instances"]] == ["a"]
    status, text = ask(server, "GET", f"/lease/v1/services?prefix={name}")
    assert [each["name"] for each in json.loads(text)["services"]] == [name]
    status, text = ask(server, "POST", "/lease/v1/registry/deregister", {"service": name, "id": "b"})
    assert status == 404 and "no such instance" in text


def test_metrics(server, registry):
    registry.register("metrics", "a")
    status, text = ask(server, "GET", "/metrics")
    assert status == 200
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("leased_registry_"))
    assert int(figures["leased_registry_instances"]) > 0 and int(figures["leased_registry_registered_total"]) > 0
