"""xDS on the wire: subscriptions, acknowledgements, refusals, delta, wildcards, zones, REST; hostile requests."""
import itertools
import queue

import grpc
import pytest

from harness.cluster import Cluster
from harness.envoy import get
from harness.wait import wait_for
from harness.xds import (
    CLUSTERS,
    DRAINING,
    ENDPOINTS,
    HEALTHY,
    LISTENERS,
    MANAGER,
    MANUAL,
    ROUTES,
    UNHEALTHY,
    Registry,
    aggregated,
    endpoints_of,
    fetch,
    kind_of,
    leased_with_xds,
    opened,
    ports_of,
    single,
)

_numbers = itertools.count(1)
BOTH = pytest.mark.parametrize("delta", [False, True], ids=["whole", "delta"])


@pytest.fixture(scope="module")
def server():
    with leased_with_xds() as running:
        yield running


@pytest.fixture
def registry(server):
    return Registry(server.endpoint)


@pytest.fixture
def name():
    return f"svc{next(_numbers)}"


def resources(answer, delta):
    return [opened(at.resource if delta else at) for at in answer.resources]


# What a client is given


@BOTH
def test_a_grpc_client_finds_its_way_from_the_listener_to_the_endpoints(server, registry, name, delta):
    registry.register(name, 8001)
    with aggregated(server.endpoint, delta) as stream:
        stream.ask(LISTENERS, [name])
        (listener,) = resources(stream.receive(), delta)
        assert listener.api_listener.api_listener.type_url == MANAGER
        manager = kind_of("HttpConnectionManager").FromString(listener.api_listener.api_listener.value)
        stream.ask(ROUTES, [manager.rds.route_config_name])
        (routes,) = resources(stream.receive(), delta)
        cluster_name = routes.virtual_hosts[0].routes[0].route.cluster
        stream.ask(CLUSTERS, [cluster_name])
        (cluster,) = resources(stream.receive(), delta)
        assert cluster.type == 3 and cluster.eds_cluster_config.eds_config.HasField("ads")
        stream.ask(ENDPOINTS, [cluster.eds_cluster_config.service_name])
        (assignment,) = resources(stream.receive(), delta)
        assert endpoints_of(assignment) == {("127.0.0.1", 8001): (HEALTHY, 1, "", 0)}


@BOTH
def test_instances_come_change_and_go(server, registry, name, delta):
    with single(server.endpoint, ENDPOINTS, delta) as stream:
        stream.ask(ENDPOINTS, [name])
        stream.until(lambda found: ports_of(found) == {}, [name])
        registry.register(name, 1, checks=[MANUAL], weight=7)
        stream.until(lambda found: ports_of(found) == {1: HEALTHY}, [name])
        registry.register(name, 2)
        stream.until(lambda found: ports_of(found) == {1: HEALTHY, 2: HEALTHY}, [name])
        registry.report(name, f"{name}-1", "manual", "CRITICAL")
        stream.until(lambda found: ports_of(found) == {1: UNHEALTHY, 2: HEALTHY}, [name])
        registry.report(name, f"{name}-1", "manual", "PASSING")
        stream.until(lambda found: endpoints_of(found)["127.0.0.1", 1][:2] == (HEALTHY, 7), [name])
        registry.set_state(name, f"{name}-2", "DRAINING")
        stream.until(lambda found: ports_of(found) == {1: HEALTHY, 2: DRAINING}, [name])
        registry.set_state(name, f"{name}-2", "OUT_OF_SERVICE")
        stream.until(lambda found: ports_of(found) == {1: HEALTHY}, [name])
        registry.deregister(name, f"{name}-1")
        stream.until(lambda found: ports_of(found) == {}, [name])


def test_tags_choose_instances(server, registry, name):
    registry.register(name, 1, tags=["v1", "eu"])
    registry.register(name, 2, tags=["v2", "eu"])
    with single(server.endpoint, ENDPOINTS) as stream:
        names = [name, f"{name}?tag=v2", f"{name}?tag=eu&tag=v1", f"{name};tag=v1;tag=eu", f"{name};tag=no"]
        stream.ask(ENDPOINTS, names)
        found = {at.cluster_name: set(ports_of(at)) for at in resources(stream.receive(), False)}
        assert found == dict(zip(names, [{1, 2}, {2}, {1}, {1}, set()]))


def test_the_zone_of_the_client_has_priority(server, registry, name):
    registry.register(name, 1, zone="a")
    registry.register(name, 2, zone="b")
    both = {"a": 0, "b": 0}
    for zone, wanted in (("a", {"a": 0, "b": 1}), ("b", {"a": 1, "b": 0}), ("c", both), ("", both)):
        with single(server.endpoint, ENDPOINTS, zone=zone) as stream:
            stream.ask(ENDPOINTS, [name])
            (assignment,) = resources(stream.receive(), False)
            assert {at.locality.zone: at.priority for at in assignment.endpoints} == wanted
            assert all(at.load_balancing_weight.value == 1 for at in assignment.endpoints)


def test_an_instance_that_clients_would_refuse_is_left_out(server, registry, name):
    registry.register(name, 1, address="web.example")
    registry.register(name, 2, instance_id="one")
    registry.register(name, 2, instance_id="two")
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [name])
        (assignment,) = resources(stream.receive(), False)
        (endpoint,) = [at for zone in assignment.endpoints for at in zone.lb_endpoints]
        assert endpoint.metadata.filter_metadata["leased"].fields["id"].string_value == "two"


# Acknowledgements


def test_what_is_accepted_or_refused_is_not_sent_again(server, registry, name):
    registry.register(name, 1)
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [name])
        first = stream.receive()
        stream.acknowledge(first, [name])
        assert stream.is_quiet()
        registry.register(name, 2)
        second = stream.receive()
        assert (second.version_info, second.nonce) != (first.version_info, first.nonce)
        stream.ask(ENDPOINTS, [name], nonce=second.nonce, version=first.version_info, error="not for me")
        assert stream.is_quiet()
        registry.register(name, 3)
        assert set(ports_of(resources(stream.receive(), False)[0])) == {1, 2, 3}
    assert any("not for me" in line and "refused" in line for line in open(server.log_path, encoding="utf-8"))


def test_an_answer_to_an_older_response_changes_nothing(server, registry, name):
    registry.register(name, 1)
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [name])
        first = stream.receive()
        registry.register(name, 2)
        stream.receive()
        stream.ask(ENDPOINTS, [], nonce=first.nonce, version=first.version_info)
        assert stream.is_quiet()
        registry.register(name, 3)
        stream.receive()


def test_names_are_added_and_removed(server, registry, name):
    other = f"{name}-other"
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [name])
        first = stream.receive()
        stream.acknowledge(first, [name, other])
        second = stream.receive()
        assert [at.cluster_name for at in resources(second, False)] == [other]
        # The answer to a name that is added with the same request says that the removal was taken.
        stream.acknowledge(second, [other, f"{name}-third"])
        third = stream.receive()
        stream.acknowledge(third, [other, f"{name}-third"])
        registry.register(name, 1)
        assert stream.is_quiet()
        registry.register(other, 1)
        fourth = stream.receive()
        stream.acknowledge(fourth, [name, other])
        assert [at.cluster_name for at in resources(stream.receive(), False)] == [name]


def test_only_its_own_service_wakes_a_stream(server, registry, name):
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [name])
        stream.acknowledge(stream.receive(), [name])
        registry.register(f"{name}x", 1)
        registry.register(name[:-1], 1)
        assert stream.is_quiet()


def metric(server, name):
    status, text = get(server.client_port, "/metrics")
    assert status == 200
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_a_change_is_encoded_once_for_all_streams(server, registry, name):
    streams = [single(server.endpoint, ENDPOINTS, delta=number % 2 == 1) for number in range(40)]
    try:
        for stream in streams:
            stream.ask(ENDPOINTS, [name])
            stream.acknowledge(stream.receive(), [name])
        before = metric(server, "leased_xds_encoded_total")
        registry.register(name, 1)
        for stream in streams:
            stream.until(lambda found: ports_of(found) == {1: HEALTHY}, [name])
        assert metric(server, "leased_xds_encoded_total") == before + 1
    finally:
        for stream in streams:
            stream.close()


def test_a_client_that_does_not_read_gets_the_newest_state_and_nothing_queues(server, registry, name):
    instances, changes = 150, 100
    filler = [{"key": f"filler{number}", "value": "x" * 240} for number in range(16)]
    for port in range(1, instances):
        registry.register(name, port, metadata=filler)
    with grpc.insecure_channel(server.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        method = channel.stream_stream("/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints")
        asked = queue.Queue()
        asked.put(kind_of("DiscoveryRequest")(resource_names=[name]).SerializeToString())
        call = method(iter(asked.get, None))
        wait_for(lambda: metric(server, "leased_xds_subscriptions") > 0, 10, "it is subscribed")
        for port in range(instances, instances + changes):
            registry.register(name, port)
        received = 0
        for message in call:
            received += 1
            (assignment,) = resources(kind_of("DiscoveryResponse").FromString(message), False)
            if len(ports_of(assignment)) == instances + changes - 1:
                break
        assert received < changes / 2, "what it had not read was kept for it"
        call.cancel()
        asked.put(None)


# Delta


def test_delta_tells_what_changed_and_versions_are_known_again(server, registry, name):
    other = f"{name}-other"
    registry.register(name, 1)
    registry.register(other, 1)
    with single(server.endpoint, ENDPOINTS, True) as stream:
        stream.ask(ENDPOINTS, [name, other])
        first = stream.receive()
        versions = {at.name: at.version for at in first.resources}
        assert set(versions) == {name, other}
        stream.acknowledge(first)
        registry.register(name, 2)
        second = stream.receive()
        assert [at.name for at in second.resources] == [name]
        stream.acknowledge(second)
        # Asked again, it is sent again.
        stream.ask(ENDPOINTS, [other])
        assert [at.name for at in stream.receive().resources] == [other]
    with single(server.endpoint, ENDPOINTS, True) as stream:
        stream.ask(ENDPOINTS, [name, other], initial_resource_versions=versions)
        assert [at.name for at in stream.receive().resources] == [name]
        # The answer to a name that is added with the same request says that the removal was taken.
        stream.ask(ENDPOINTS, [f"{name}-third"], resource_names_unsubscribe=[name])
        assert [at.name for at in stream.receive().resources] == [f"{name}-third"]
        registry.register(other, 2)
        assert [at.name for at in stream.receive().resources] == [other]
        registry.register(name, 3)
        assert stream.is_quiet()


def test_delta_says_that_nothing_can_have_a_name(server):
    with single(server.endpoint, ENDPOINTS, True) as stream:
        stream.ask(ENDPOINTS, ["xdstp://authority/cluster", "x" * 300])
        assert sorted(stream.receive().removed_resources) == ["xdstp://authority/cluster", "x" * 300]


# Wildcards


@BOTH
@pytest.mark.parametrize("star", [False, True], ids=["nothing", "star"])
def test_a_wildcard_is_every_service_there_is(server, registry, name, delta, star):
    kept = f"{name}-kept"
    registry.register(kept, 1)
    with single(server.endpoint, CLUSTERS, delta) as stream:
        names = ["*"] if star else []
        stream.ask(CLUSTERS, names)
        first = stream.receive()
        assert kept in {at.name for at in resources(first, delta)}
        stream.acknowledge(first, names)
        registry.register(name, 1)
        second = stream.receive()
        found = {at.name for at in resources(second, delta)}
        assert found == {name} if delta else {name, kept} <= found
        stream.acknowledge(second, names)
        registry.deregister(name, f"{name}-1")
        third = stream.receive()
        if delta:
            assert list(third.removed_resources) == [name]
        else:
            found = {at.name for at in resources(third, delta)}
            assert kept in found and name not in found


def test_delta_tells_a_client_that_comes_back_what_has_gone(server, registry, name):
    registry.register(name, 1)
    with single(server.endpoint, CLUSTERS, True) as stream:
        stream.ask(CLUSTERS, initial_resource_versions={name: "1", "gone": "1"})
        answer = stream.receive()
        assert list(answer.removed_resources) == ["gone"]
        assert name not in [at.name for at in answer.resources]


# After a restart


@BOTH
def test_after_a_restart_the_whole_state_and_never_an_empty_one(registry, name, delta):
    with leased_with_xds() as own:
        Registry(own.endpoint).register(name, 1)
        for _ in range(2):
            own.restart()
            with aggregated(own.endpoint, delta) as stream:
                stream.ask(CLUSTERS)
                stream.ask(ENDPOINTS, [name])
                first, second = stream.receive(), stream.receive()
                assert [at.name for at in resources(first, delta)] == [name]
                assert ports_of(resources(second, delta)[0]) == {1: HEALTHY}


def test_a_member_without_a_leader_waits_and_then_sends_its_clients_away(name):
    with Cluster(extra_flags=["--doors", "etcd,native,registry,xds"]) as cluster:
        leader = cluster.leader()
        left, *others = [leader, *(index for index in range(3) if index != leader)]
        endpoint = cluster[left].endpoint
        Registry(endpoint).register(name, 1)
        with single(endpoint, ENDPOINTS) as old, single(endpoint, ENDPOINTS) as new:
            old.ask(ENDPOINTS, [name])
            old.acknowledge(old.receive(), [name])
            for index in others:
                cluster[index].kill()
            wait_for(lambda: get(cluster[left].client_port, "/health")[0] != 200, 20, "the leader gives up")
            new.ask(ENDPOINTS, [name])
            for stream in (old, new):
                with pytest.raises(grpc.RpcError) as raised:
                    stream.receive(30)
                assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
        for index in others:
            cluster[index].start()
        cluster.leader()
        with single(endpoint, ENDPOINTS) as stream:
            stream.ask(ENDPOINTS, [name])
            assert ports_of(resources(stream.receive(), False)[0]) == {1: HEALTHY}


# REST


def test_rest_gives_the_same_as_json_and_304_when_nothing_is_new(server, registry, name):
    registry.register(name, 1, zone="a", weight=3)
    status, answer = fetch(server.endpoint, "endpoints", resource_names=[name], node={"id": "n"})
    assert status == 200 and answer["type_url"] == ENDPOINTS
    (assignment,) = answer["resources"]
    assert assignment["@type"] == ENDPOINTS and assignment["cluster_name"] == name
    (zone,) = assignment["endpoints"]
    assert zone["locality"] == {"zone": "a"} and zone["load_balancing_weight"] == 3
    (endpoint,) = zone["lb_endpoints"]
    assert endpoint["health_status"] == "HEALTHY" and endpoint["load_balancing_weight"] == 3
    assert endpoint["endpoint"]["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 1}
    again = {"resource_names": [name], "version_info": answer["version_info"]}
    assert fetch(server.endpoint, "endpoints", **again) == (304, "")
    registry.register(f"{name}-other", 1)
    assert fetch(server.endpoint, "endpoints", **again) == (304, "")
    registry.register(name, 2)
    assert fetch(server.endpoint, "endpoints", **again)[0] == 200
    for what, url in (("clusters", CLUSTERS), ("listeners", LISTENERS), ("routes", ROUTES)):
        status, answer = fetch(server.endpoint, what, resourceNames=[name])
        assert status == 200 and [at["@type"] for at in answer["resources"]] == [url]
    status, answer = fetch(server.endpoint, "clusters")
    assert status == 200 and name in [at["name"] for at in answer["resources"]]


def test_fetch_over_grpc(server, registry, name):
    registry.register(name, 1)
    with grpc.insecure_channel(server.endpoint) as channel:
        method = channel.unary_unary("/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints")
        request = kind_of("DiscoveryRequest")(resource_names=[name]).SerializeToString()
        answer = kind_of("DiscoveryResponse").FromString(method(request, timeout=10))
        assert ports_of(resources(answer, False)[0]) == {1: HEALTHY}


# Hostile requests


def refused(stream):
    with pytest.raises(grpc.RpcError) as raised:
        stream.receive()
    return raised.value.code()


def test_too_many_names_are_refused(server):
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(ENDPOINTS, [f"n{number}" for number in range(5000)])
        assert refused(stream) == grpc.StatusCode.RESOURCE_EXHAUSTED
    with single(server.endpoint, ENDPOINTS, True) as stream:
        for start in range(0, 6000, 3000):
            stream.ask(ENDPOINTS, [f"n{number}" for number in range(start, start + 3000)])
        with pytest.raises(grpc.RpcError):
            while True:
                stream.receive()


def test_a_type_that_does_not_fit_the_method_is_refused(server):
    with single(server.endpoint, ENDPOINTS) as stream:
        stream.ask(CLUSTERS)
        assert refused(stream) == grpc.StatusCode.INVALID_ARGUMENT
    with aggregated(server.endpoint) as stream:
        stream.ask("")
        assert refused(stream) == grpc.StatusCode.INVALID_ARGUMENT


def test_a_type_that_is_not_served_is_not_answered(server, name):
    with aggregated(server.endpoint) as stream:
        stream.ask("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", ["certificate"])
        assert stream.is_quiet()
        stream.ask(ROUTES, [name])
        stream.receive()


def test_what_is_no_message_is_refused(server):
    with grpc.insecure_channel(server.endpoint) as channel:
        method = channel.stream_stream("/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints")
        with pytest.raises(grpc.RpcError) as raised:
            next(method(iter([b"\x0a\xff\xff"])))
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert fetch(server.endpoint, "endpoints", resource_names=7)[0] == 400
