"""Services, checks, catalog, health and events of the Consul API on the wire."""
import itertools
import time

import pytest

from harness.consul import Consul, leased_with_consul
from harness.instances import Registry
from harness.wait import wait_for

WAIT_SECONDS = 20.0
_names = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with leased_with_consul() as server:
        yield server


@pytest.fixture
def consul(server):
    with Consul(server.consul_port) as client:
        yield client


@pytest.fixture
def name():
    return f"svc{next(_names)}"


def register(consul, name, **facts):
    answer = consul.put("agent/service/register", {"Name": name, **facts})
    assert (answer.status, answer.body) == (200, b""), answer.text


def statuses(consul, name):
    entries = consul.get(f"health/service/{name}").json
    return {c["CheckID"]: c["Status"] for entry in entries for c in entry["Checks"] if c["CheckID"] != "serfHealth"}


def passing(consul, name):
    return [entry["Service"]["ID"] for entry in consul.get(f"health/service/{name}", passing=True).json]


def test_a_service_is_seen_everywhere(consul, name):
    register(consul, name, ID=f"{name}-1", Port=80, Address="10.0.0.1", Tags=["a", "b"], Meta={"k": "v"},
             EnableTagOverride=True, Weights={"Passing": 10, "Warning": 2},
             TaggedAddresses={"lan": {"Address": "10.0.0.1", "Port": 80}})  # fmt: skip
    service = consul.get("agent/services").json[f"{name}-1"]
    assert {key: service[key] for key in ("ID", "Service", "Tags", "Meta", "Port", "Address", "Weights")} == {
        "ID": f"{name}-1", "Service": name, "Tags": ["a", "b"], "Meta": {"k": "v"}, "Port": 80, "Address": "10.0.0.1",
        "Weights": {"Passing": 10, "Warning": 2},
    }  # fmt: skip
    assert service["EnableTagOverride"] is True and service["TaggedAddresses"]["lan"]["Port"] == 80
    assert consul.get(f"agent/service/{name}-1").json == service
    assert sorted(consul.get("catalog/services").json[name]) == ["a", "b"]
    (node,) = consul.get(f"catalog/service/{name}").json
    assert (node["ServiceID"], node["ServiceAddress"], node["ServicePort"]) == (f"{name}-1", "10.0.0.1", 80)
    assert node["Node"] == "leased" and node["ServiceMeta"] == {"k": "v"}
    (entry,) = consul.get(f"health/service/{name}").json
    assert entry["Service"]["ID"] == f"{name}-1" and entry["Node"]["Node"] == "leased"
    assert [check["CheckID"] for check in entry["Checks"]] == ["serfHealth"]
    assert f"{name}-1" in consul.get("catalog/node/leased").json["Services"]
    assert f"{name}-1" in [s["ID"] for s in consul.get("catalog/node-services/leased").json["Services"]]
    assert consul.get("catalog/node/none").json is None
    assert consul.get("catalog/datacenters").json == ["dc1"]
    assert consul.put(f"agent/service/deregister/{name}-1").status == 200
    assert consul.get(f"catalog/service/{name}").json == []
    answer = consul.put(f"agent/service/deregister/{name}-1")
    assert answer.status == 404
    assert answer.text == f'Unknown service ID "{name}-1". Ensure that the service ID is passed, not the service name.'
    answer = consul.get(f"agent/service/{name}-1")
    assert (answer.status, answer.text) == (404, f"unknown service ID: {name}-1")


def test_without_an_address_it_is_the_clients(consul, name):
    register(consul, name)
    (entry,) = consul.get(f"health/service/{name}").json
    assert entry["Service"]["Address"] == "" and entry["Node"]["Address"] == "127.0.0.1"
    assert entry["Service"]["ID"] == name


def test_an_id_under_another_name_replaces_the_older(consul, name):
    register(consul, name, ID=name)
    register(consul, f"{name}b", ID=name)
    assert consul.get(f"catalog/service/{name}").json == []
    assert [s["ServiceID"] for s in consul.get(f"catalog/service/{name}b").json] == [name]


def test_a_ttl_check_reports(consul, name):
    register(consul, name, Check={"TTL": "30s"})
    check = f"service:{name}"
    assert statuses(consul, name) == {check: "critical"} and passing(consul, name) == []
    for path, status in (("pass", "passing"), ("warn", "warning"), ("fail", "critical"), ("pass", "passing")):
        assert consul.put(f"agent/check/{path}/service%3A{name}", note=path).body == b""
        assert statuses(consul, name) == {check: status}
        assert consul.get("agent/checks").json[check]["Output"] == path
    before = consul.get(f"health/service/{name}").index
    consul.put(f"agent/check/pass/{check}", note="pass")  # the same again is a renewal, and changes nothing
    assert consul.get(f"health/service/{name}").index == before
    assert consul.put(f"agent/check/update/{check}", {"Status": "warning", "Output": "hm"}).status == 200
    assert statuses(consul, name) == {check: "warning"} and passing(consul, name) == []
    assert consul.put(f"agent/check/update/{check}", {"Status": "ill"}).text == "Invalid check status: 'ill'"
    answer = consul.put("agent/check/pass/none")
    assert answer.status == 404 and answer.text.startswith('Unknown check ID "none".')
    register(consul, name, Check={"TTL": "30s"})  # registering again keeps what is known
    assert statuses(consul, name) == {check: "warning"}


def test_a_silent_ttl_check_turns_critical(consul, name):
    register(consul, name, Check={"TTL": "1s", "Status": "passing"})
    assert passing(consul, name) == [name]
    index = consul.get(f"health/service/{name}").index
    answer = consul.get(f"health/service/{name}", index=index, wait="30s", passing=True)
    assert answer.json == [] and answer.index > index


def test_checks_of_all_kinds(consul, name):
    register(consul, name, Checks=[
        {"HTTP": "http://127.0.0.1:1/h", "Interval": "10s", "Timeout": "2s", "Method": "POST", "Header": {"A": ["b"]},
         "Status": "passing", "DeregisterCriticalServiceAfter": "90m"},
        {"TCP": "127.0.0.1:1", "Interval": "10s", "Name": "tcp"}, {"GRPC": "127.0.0.1:1/x", "Interval": "1m30s"},
        {"CheckID": f"mine-{name}", "TTL": "10s"}, {"AliasService": name},
    ])  # fmt: skip
    checks = consul.get("agent/checks").json
    http = checks[f"service:{name}:1"]
    assert (http["Type"], http["Interval"], http["Timeout"], http["Status"]) == ("http", "10s", "2s", "passing")
    assert http["Name"] == f"Service '{name}' check" and http["ServiceName"] == name
    assert http["Definition"]["DeregisterCriticalServiceAfter"] == "1h30m0s"
    assert checks[f"service:{name}:2"]["Name"] == "tcp" and checks[f"service:{name}:3"]["Type"] == "grpc"
    assert checks[f"mine-{name}"]["Type"] == "ttl"
    assert consul.put(f"agent/check/pass/mine-{name}").status == 200
    assert statuses(consul, name)[f"mine-{name}"] == "passing"
    answer = consul.put(f"agent/check/pass/service:{name}:1")
    assert (answer.status, answer.text) == (500, f'CheckID "service:{name}:1" does not have associated TTL')


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "Missing service name"),
        ({"Name": ""}, "Missing service name"),
        ({"Name": "x", "Address": "0.0.0.0"}, "Invalid service address"),
        ({"Name": "x", "Port": 70000}, "Request decode failed"),
        ({"Name": "x", "Tags": [1]}, "Request decode failed"),
        ({"Name": "x", "Weights": {"Passing": 0}}, "Invalid Weights: Passing must be greater than 0"),
        ({"Name": "x", "Check": {"HTTP": "http://h/"}}, "Invalid check: Interval must be > 0"),
        ({"Name": "x", "Check": {"Name": "c"}}, "Invalid check: TTL must be > 0 for TTL checks"),
        ({"Name": "x", "Check": {"TTL": "soon"}}, "Invalid check: time: invalid duration"),
        ({"Name": "x", "Check": {"TTL": "10s", "Status": "fine"}}, "Status for checks must 'passing', 'warning', 'critical'"),
        ({"Name": "x", "Check": {"DockerContainerID": "d", "Interval": "1s"}}, "Invalid check: DockerContainerID"),
        ({"Name": "x", "Meta": {"k": "v" * 513}}, "Invalid Service Meta"),
        ({"Name": "x\u0000"}, "Validation failed"),
        ([], "Request decode failed"),
    ],
)  # fmt: skip
def test_services_that_are_refused(consul, facts, text):
    answer = consul.put("agent/service/register", facts)
    assert answer.status == 400 and answer.text.startswith(text), answer.text


def test_names_in_any_case(consul, name):
    assert consul.put("agent/service/register", {"name": name, "id": name, "port": 1, "enable_tag_override": True,
                                                 "check": {"ttl": "10s", "status": "passing"}}).status == 200
    service = consul.get("agent/services").json[name]
    assert service["Port"] == 1 and service["EnableTagOverride"] is True
    assert statuses(consul, name) == {f"service:{name}": "passing"}


def test_maintenance_of_a_service(consul, name):
    register(consul, name)
    assert consul.put(f"agent/service/maintenance/{name}", enable="true", reason="why").status == 200
    (check,) = [c for c in consul.get(f"health/checks/{name}").json if c["CheckID"].startswith("_service_maintenance")]
    assert (check["Status"], check["Notes"], check["Name"]) == ("critical", "why", "Service Maintenance Mode")
    assert passing(consul, name) == []
    consul.put(f"agent/service/maintenance/{name}", enable="false")
    assert passing(consul, name) == [name]
    assert consul.put(f"agent/service/maintenance/{name}").text == "Missing value for enable"
    assert consul.put("agent/service/maintenance/none", enable="true").status == 404


def test_checks_of_the_node_concern_all_its_services(server, consul, name):
    register(consul, name)
    index = consul.get(f"health/service/{name}").index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"health/service/{name}", index=index, wait="30s", passing=True)
        assert consul.put("agent/check/register", {"Name": "disk", "TTL": "30s"}).status == 200
        waiter.answer()
    assert passing(consul, name) == []
    consul.put("agent/check/pass/disk")
    assert passing(consul, name) == [name]
    assert "disk" in [c["CheckID"] for c in consul.get("health/node/leased").json]
    assert consul.put("agent/check/deregister/disk").status == 200
    assert consul.put("agent/maintenance", enable="true").status == 200
    assert passing(consul, name) == []
    assert consul.put("agent/maintenance", enable="false").status == 200
    assert passing(consul, name) == [name]
    assert "_node" not in consul.get("catalog/services").json
    assert "_node" not in [s["Service"] for s in consul.get("agent/services").json.values()]


def test_a_check_of_a_service_that_is_registered_later(consul, name):
    register(consul, name)
    assert consul.put("agent/check/register", {"Name": "extra", "ID": f"x-{name}", "ServiceID": name, "TTL": "30s",
                                               "Status": "passing"}).status == 200
    assert statuses(consul, name) == {f"x-{name}": "passing"}
    assert consul.put(f"agent/check/deregister/x-{name}").status == 200
    assert statuses(consul, name) == {}
    answer = consul.put("agent/check/register", {"Name": "c", "ServiceID": "none", "TTL": "1s"})
    assert (answer.status, answer.text) == (500, 'ServiceID "none" does not exist')
    assert consul.put("agent/check/register", {"TTL": "1s"}).text == "Missing check name"


def test_the_catalog_takes_services_of_other_nodes(consul, name):
    node = f"node-{name}"
    body = {"Node": node, "Address": "10.1.1.1", "NodeMeta": {"rack": name}, "Service": {"Service": name, "Port": 5},
            "Check": {"CheckID": f"c-{name}", "Name": "c", "Status": "passing", "ServiceID": name}}  # fmt: skip
    assert consul.put("catalog/register", body).text == "true"
    (entry,) = consul.get(f"health/service/{name}", passing=True).json
    assert entry["Node"]["Address"] == "10.1.1.1" and entry["Node"]["Meta"] == {"rack": name}
    assert [n["Node"] for n in consul.get("catalog/nodes", **{"node-meta": f"rack:{name}"}).json] == [node]
    assert [n["Node"] for n in consul.get("catalog/nodes").json].count(node) == 1
    assert name not in consul.get("agent/services").json
    body["Check"]["Status"] = "critical"
    assert consul.put("catalog/register", body).text == "true"
    assert passing(consul, name) == []
    assert [c["CheckID"] for c in consul.get("health/state/critical").json if c["Node"] == node] == [f"c-{name}"]
    assert consul.put("catalog/deregister", {"Node": node, "CheckID": f"c-{name}"}).text == "true"
    assert passing(consul, name) == [name]
    assert consul.put("catalog/deregister", {"Node": node, "ServiceID": name}).text == "true"
    assert consul.get(f"catalog/service/{name}").json == []
    assert node in [n["Node"] for n in consul.get("catalog/nodes").json]
    assert consul.put("catalog/deregister", {"Node": node}).text == "true"
    assert node not in [n["Node"] for n in consul.get("catalog/nodes").json]
    later = {"Node": node, "SkipNodeUpdate": True, "Service": {"Service": name, "ID": f"{name}-2"}}
    assert consul.put("catalog/register", later).text == "true"  # makes a node without an address
    assert consul.get(f"catalog/node/{node}").json["Node"]["Address"] == ""
    consul.put("catalog/register", {"Node": node, "Address": "10.1.1.1", "NodeMeta": {"rack": name}})
    assert consul.put("catalog/register", later).text == "true"
    (entry,) = consul.get(f"health/service/{name}", **{"node-meta": f"rack:{name}"}).json
    assert entry["Node"]["Address"] == "10.1.1.1" and entry["Service"]["ID"] == f"{name}-2"
    assert consul.put("catalog/register", {"Address": "1.1.1.1"}).text == "Must provide node"
    assert consul.put("catalog/deregister", {}).status == 400


def test_tags_and_filters(consul, name):
    register(consul, name, ID=f"{name}1", Tags=["a", "b"], Meta={"v": "1"}, Port=1)
    register(consul, name, ID=f"{name}2", Tags=["b"], Meta={"v": "2", "x-y": "z"}, Port=2)

    def ids(**query):
        answer = consul.get(f"health/service/{name}", **query)
        assert answer.status == 200, answer.text
        return [entry["Service"]["ID"].removeprefix(name) for entry in answer.json]

    assert ids(tag="a") == ["1"] and ids(tag="b") == ["1", "2"] and ids(tag="c") == []
    many = consul.get(f"health/service/{name}?" + "tag=a&" * 129)
    assert (many.status, many.text) == (400, "Invalid query: more than 128 parameters")
    for expression, wanted in {
        'Service.Meta.v == "1"': ["1"], "Service.Meta.v != 1": ["2"], 'Service.Meta["x-y"] == z': ["2"],
        '"a" in Service.Tags': ["1"], "a not in Service.Tags": ["2"], "Service.Tags contains a": ["1"],
        "Service.Tags not contains a": ["2"], "Service.Port == 2 or Service.Port == 1": ["1", "2"],
        'not (Service.Port == 2) and Node.Node == "leased"': ["1"], "Service.Meta contains `x-y`": ["2"],
        "Service.Meta.none == 1": [], "Service.Tags is not empty": ["1", "2"], "Service.Tags is empty": [],
    }.items():  # fmt: skip
        assert ids(filter=expression) == wanted, expression
    for expression in ("Service.Port ==", "(Service.Port == 1", "a b c", "Service.Port matches 1", "x", '"', "not",
                       "None == 1", "(" * 200, "not " * 500 + "a == b"):  # fmt: skip
        answer = consul.get(f"health/service/{name}", filter=expression)
        assert answer.status == 400 and "boolean expression" in answer.text, expression
    assert [s["ServiceID"] for s in consul.get(f"catalog/service/{name}", filter="ServicePort == 1").json] == [f"{name}1"]
    assert list(consul.get("agent/services", filter=f'Service == "{name}" and Port == 2').json) == [f"{name}2"]


def test_a_query_wakes_for_its_own_service_alone(server, consul, name):
    register(consul, name)
    register(consul, f"{name}-other")
    index = consul.get(f"health/service/{name}").index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"health/service/{name}", index=index, wait="30s")
        for port in range(1, 4):
            register(consul, f"{name}-other", Port=port)
        woken = consul.get(f"health/service/{name}", index=index, wait="100ms")
        assert woken.index == index
        register(consul, name, Port=7)
        answer = waiter.answer()
    assert answer.json[0]["Service"]["Port"] == 7 and answer.index > index


def test_a_query_for_a_service_that_comes_and_goes(server, consul, name):
    index = consul.get(f"health/service/{name}").index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"health/service/{name}", index=index, wait="30s")
        register(consul, name)
        came = waiter.answer()
        assert len(came.json) == 1 and came.index > index
        waiter.send("GET", f"catalog/service/{name}", index=came.index, wait="30s")
        consul.put(f"agent/service/deregister/{name}")
        gone = waiter.answer()
        assert gone.json == [] and gone.index > came.index


def test_a_session_ends_when_its_check_turns_critical(server, consul, name):
    register(consul, name, Check={"TTL": "60s", "Status": "passing"})
    check = f"service:{name}"
    session = consul.session(ServiceChecks=[{"ID": check}], LockDelay="0s")
    assert consul.get(f"session/info/{session}").json[0]["ServiceChecks"] == [{"ID": check, "Namespace": ""}]
    assert consul.acquire(f"lock-{name}", session)
    consul.put(f"agent/check/warn/{check}")
    assert consul.entry(f"lock-{name}")["Session"] == session
    consul.put(f"agent/check/fail/{check}")
    wait_for(lambda: consul.get(f"session/info/{session}").json == [], WAIT_SECONDS, "the session has ended")
    assert "Session" not in consul.entry(f"lock-{name}")
    answer = consul.put("session/create", {"ServiceChecks": [{"ID": check}]})
    assert (answer.status, answer.text) == (500, f"Check '{check}' is in critical state")
    answer = consul.put("session/create", {"NodeChecks": ["none"]})
    assert (answer.status, answer.text) == (500, "Missing check 'none' registration")


def test_a_session_ends_when_its_service_goes(consul, name):
    register(consul, name, Check={"TTL": "60s", "Status": "passing"})
    session = consul.session(Checks=["serfHealth", f"service:{name}"])
    consul.put(f"agent/service/deregister/{name}")
    wait_for(lambda: consul.get(f"session/info/{session}").json == [], WAIT_SECONDS, "the session has ended")


def test_one_word_for_load_balancers(consul, name):
    register(consul, name, Check={"TTL": "60s", "Status": "passing"})
    for report, code, word in (("pass", 200, "passing"), ("warn", 429, "warning"), ("fail", 503, "critical")):
        consul.put(f"agent/check/{report}/service:{name}")
        for path in (f"agent/health/service/name/{name}", f"agent/health/service/id/{name}"):
            assert consul.get(path).status == code
            answer = consul.get(path, format="text")
            assert (answer.status, answer.text) == (code, word)
    assert consul.get(f"agent/health/service/name/{name}").json[0]["AggregatedStatus"] == "critical"
    assert consul.get("agent/health/service/name/none").status == 404


def test_events(server, consul, name):
    index = consul.get("event/list", name=name).index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", "event/list", name=name, index=index, wait="30s")
        consul.put(f"event/fire/{name}-other", "x")
        event = consul.put(f"event/fire/{name}", "payload", node="n").json
        answer = waiter.answer()
    assert (event["Name"], event["Payload"], event["NodeFilter"]) == (name, "cGF5bG9hZA==", "n")
    assert [e["ID"] for e in answer.json] == [event["ID"]] and answer.index > index


def test_what_the_cluster_says_of_itself(consul):
    leader = consul.get("status/leader").json
    assert leader in consul.get("status/peers").json
    assert consul.get("agent/self").json["Config"]["NodeName"] == "leased"
    assert len(consul.get("agent/members").json) == 1
    gauges = {gauge["Name"]: gauge["Value"] for gauge in consul.get("agent/metrics").json["Gauges"]}
    assert gauges["consul.server.isLeader"] == 1 and gauges["consul.runtime.alloc_bytes"] > 0
    assert consul.get("agent/metrics", format="prometheus").status == 415
    assert consul.get("operator/raft/configuration").json["Servers"][0]["Leader"] is True
    assert "consul" in consul.get("catalog/services").json
    assert consul.get("health/service/consul").json[0]["Service"]["Service"] == "consul"
    assert consul.get("acl/token/self").status == 401
    assert consul.put("agent/join/x").status == 501
    assert consul.get("coordinate/nodes").json == []
    assert consul.get("nothing").status == 404


def test_a_service_that_stays_critical_is_deregistered(consul, name):
    register(consul, name, Check={"TTL": "60s", "Status": "passing", "DeregisterCriticalServiceAfter": "1s"})
    consul.put(f"agent/check/fail/service:{name}")
    began = time.monotonic()
    wait_for(lambda: consul.get(f"catalog/service/{name}").json == [], WAIT_SECONDS, "it is gone")
    assert time.monotonic() - began > 0.5


def test_a_session_of_a_check_whose_name_many_services_have(server, consul):
    """"service:many" is a check of the node, and the name of the check that each of many instances would have."""
    with Registry(server) as registry:
        for i in range(1001):
            registry.register(f"of-many-{i}", "many")
    check = {"Name": "n", "CheckID": "service:many", "TTL": "1h", "Status": "passing"}
    assert consul.put("agent/check/register", check).status == 200
    session = consul.session(NodeChecks=["service:many"])
    assert [one["ID"] for one in consul.get("session/list").json] == [session]
