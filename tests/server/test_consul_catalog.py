"""Nodes of the Consul API's catalog, transactions that change them, and what else Consul's own api tests ask for."""
import itertools
import subprocess
import threading
import uuid

import pytest

from harness.consul import Consul, leased_with_consul
from harness.kinds import KIND_LEASED, binary_of

NODE_ID = "11111111-2222-3333-4444-555555555555"
_names = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    flags = ["--consul-node-id", NODE_ID, "--consul-node-meta", "rack:r1,zone:a"]
    with leased_with_consul(flags) as server:
        yield server


@pytest.fixture
def consul(server):
    with Consul(server.consul_port) as client:
        yield client


@pytest.fixture
def name():
    return f"thing{next(_names)}"


def ids(answer):
    assert answer.status == 200, answer.text
    return [(service["Node"], service["ServiceID"]) for service in answer.json]


# Nodes


def test_the_node_of_all_members_has_what_an_agent_has(consul):
    (node,) = consul.get("catalog/nodes", filter='Node == "leased"').json
    assert node["ID"] == NODE_ID == consul.get("agent/self").json["Config"]["NodeID"]
    assert node["Meta"] == {"rack": "r1", "zone": "a", "consul-network-segment": ""}
    assert node["TaggedAddresses"] == {name: "127.0.0.1" for name in ("lan", "lan_ipv4", "wan", "wan_ipv4")}
    found = consul.get("catalog/node/leased").json
    assert found["Node"] == node and found["Services"]["consul"]["Port"] == 8300
    listed = consul.get("catalog/node-services/leased").json
    assert listed["Node"] == node and "consul" in [service["ID"] for service in listed["Services"]]


def test_the_node_of_all_members_is_found_by_its_meta(consul, name):
    consul.put("agent/service/register", {"Name": name, "Check": {"TTL": "600s"}})
    for query, is_found in ({"node-meta": "rack:r1"}, True), ({"node-meta": "rack:r2"}, False):
        assert [n["Node"] for n in consul.get("catalog/nodes", **query).json] == ["leased"] * is_found
        assert ("consul" in consul.get("catalog/services", **query).json) == is_found
        assert len(consul.get("catalog/service/consul", **query).json) == is_found
        assert len(consul.get("health/service/consul", **query).json) == is_found
        assert len(consul.get(f"health/checks/{name}", **query).json) == is_found
        assert bool(consul.get("health/state/any", **query).json) == is_found


def test_a_registered_node_keeps_what_it_was_given(consul, name):
    node = {"Node": f"n-{name}", "ID": str(uuid.uuid4()), "Address": "10.2.2.2", "NodeMeta": {"os": "linux"},
            "TaggedAddresses": {"lan": "10.2.2.2", "wan": "198.18.0.2"}}  # fmt: skip
    service = {"Node": f"n-{name}", "SkipNodeUpdate": True, "Service": {"Service": name, "Port": 1}}
    # Whichever comes first: the node is one thing, and all its services show it as it is.
    assert consul.put("catalog/register", service).text == "true"
    assert consul.put("catalog/register", node).text == "true"
    (shown,) = consul.get("catalog/nodes", filter=f'Node == "n-{name}"').json
    assert {key: shown[key] for key in ("ID", "Address", "Meta", "TaggedAddresses")} == {
        "ID": node["ID"], "Address": "10.2.2.2", "Meta": {"os": "linux"}, "TaggedAddresses": node["TaggedAddresses"]
    }  # fmt: skip
    (entry,) = consul.get(f"health/service/{name}", filter="Node.Meta.os == linux").json
    assert entry["Node"] == shown
    (row,) = consul.get(f"catalog/service/{name}").json
    assert (row["ID"], row["NodeMeta"], row["Address"]) == (node["ID"], {"os": "linux"}, "10.2.2.2")
    assert consul.put("catalog/register", {"Node": "x", "Address": "1.1.1.1", "ID": "short"}).status == 400


def test_an_id_is_unique_on_its_node_alone(consul, name):
    for node, address in ("a", "10.0.0.1"), ("b", "10.0.0.2"):
        body = {"Node": f"{node}-{name}", "Address": address, "Service": {"Service": name, "ID": "one", "Port": 80},
                "Check": {"CheckID": "alive", "Status": "passing", "ServiceID": "one"}}  # fmt: skip
        assert consul.put("catalog/register", body).text == "true"
    assert ids(consul.get(f"catalog/service/{name}")) == [(f"a-{name}", "one"), (f"b-{name}", "one")]
    assert list(consul.get(f"catalog/node/a-{name}").json["Services"]) == ["one"]
    (check,) = consul.get(f"health/node/b-{name}").json
    assert (check["CheckID"], check["ServiceID"], check["Name"]) == ("alive", "one", "")
    # Under another name it is another service in the place of the first.
    renamed = {"Node": f"a-{name}", "Address": "10.0.0.1", "Service": {"Service": f"{name}-2", "ID": "one"}}
    assert consul.put("catalog/register", renamed).text == "true"
    assert ids(consul.get(f"catalog/service/{name}")) == [(f"b-{name}", "one")]
    assert consul.put("catalog/deregister", {"Node": f"b-{name}", "ServiceID": "one"}).text == "true"
    assert ids(consul.get(f"catalog/service/{name}")) == []
    assert ids(consul.get(f"catalog/service/{name}-2")) == [(f"a-{name}", "one")]


def test_a_registration_of_the_catalog_is_one_revision(consul, name):
    checks = [{"CheckID": f"{name}-{i}", "Status": "passing"} for i in range(3)]
    checks.append({"CheckID": f"{name}-s", "Status": "passing", "ServiceID": name})
    body = {"Node": f"n-{name}", "Address": "10.0.0.1", "Service": {"Service": name}, "Checks": checks}
    assert consul.put("catalog/register", body).text == "true"
    shown = consul.get(f"health/node/n-{name}").json
    assert len(shown) == 4 and len({check["ModifyIndex"] for check in shown}) == 1
    (row,) = consul.get(f"catalog/service/{name}").json
    assert row["ModifyIndex"] == shown[0]["ModifyIndex"]


def test_a_check_of_the_catalog_says_who_runs_it(consul, name):
    definition = {"UDP": "1.1.1.1:1", "Interval": "5s", "Timeout": "10s", "HTTP": "", "TLSSkipVerify": False}
    body = {"Node": f"n-{name}", "Address": "10.0.0.1", "Check": {"CheckID": "c", "Definition": definition}}
    assert consul.put("catalog/register", body).text == "true"
    (check,) = consul.get(f"health/node/n-{name}").json
    assert (check["Type"], check["Status"]) == ("udp", "critical")
    assert check["Definition"] == {"UDP": "1.1.1.1:1", "Interval": "5s", "Timeout": "10s"}


# Transactions


def op(subject, verb, thing, **more):
    return {subject: {"Verb": verb, subject: thing, **more}}


def txn(consul, *operations):
    answer = consul.put("txn", list(operations))
    assert answer.status in (200, 409), answer.text
    return answer.json["Results"] if answer.status == 200 else [error["What"] for error in answer.json["Errors"]]


def test_a_transaction_changes_keys_and_the_catalog_at_once(consul, name):
    node = f"n-{name}"
    results = txn(
        consul,
        {"KV": {"Verb": "set", "Key": name, "Value": "dg=="}},
        op("Node", "set", {"Node": node, "Address": "10.0.0.9", "Meta": {"k": "v"}}),
        op("Service", "set", {"ID": "s", "Service": name, "Port": 7}, Node=node),
        op("Check", "set", {"Node": node, "CheckID": "c", "ServiceID": "s", "Status": "warning"}),
        op("Check", "set", {"Node": node, "CheckID": "own", "Status": "passing"}),
        op("Service", "get", {"ID": "s"}, Node=node),
        op("Check", "get", {"Node": node, "CheckID": "own"}),
        op("Node", "get", {"Node": "leased"}),
    )
    assert [next(iter(result)) for result in results] == [
        "KV", "Node", "Service", "Check", "Check", "Service", "Check", "Node"
    ]  # fmt: skip
    assert results[1]["Node"]["Meta"] == {"k": "v"} and results[7]["Node"]["ID"] == NODE_ID
    assert results[5] == results[2] and results[5]["Service"]["ID"] == "s" and results[5]["Service"]["Port"] == 7
    assert (results[3]["Check"]["ServiceID"], results[3]["Check"]["Status"]) == ("s", "warning")
    indexes = {list(result.values())[0]["ModifyIndex"] for result in results[:5]}
    assert len(indexes) == 1, "one revision"
    (entry,) = consul.get(f"health/service/{name}").json
    assert {check["CheckID"]: check["Status"] for check in entry["Checks"]} == {
        "serfHealth": "passing", "c": "warning", "own": "passing"
    }  # fmt: skip


def test_a_transaction_that_fails_says_why_and_changes_nothing(consul, name):
    node = f"n-{name}"
    assert consul.put("catalog/register", {"Node": node, "Address": "10.0.0.9", "Service": {"Service": name}}).text
    index = consul.get(f"catalog/service/{name}").json[0]["ModifyIndex"]
    errors = txn(
        consul,
        {"KV": {"Verb": "set", "Key": name, "Value": "dg=="}},
        {"KV": {"Verb": "lock", "Key": name}},
        op("Service", "set", {"Service": f"{name}-new"}, Node=node),
        op("Node", "get", {"Node": "nowhere"}),
        op("Service", "get", {"ID": "none"}, Node=node),
        op("Service", "cas", {"ID": name, "Service": name, "ModifyIndex": index - 1}, Node=node),
        op("Service", "cas", {"ID": name, "Service": name, "ModifyIndex": 0}, Node=node),
        op("Check", "delete-cas", {"Node": node, "CheckID": "c", "ModifyIndex": 1}),
    )
    assert errors == [
        "missing session", 'node "nowhere" doesn\'t exist', f'service "none" on node "{node}" doesn\'t exist',
        f'failed to set service "{name}" on node "{node}", index is stale',
        f'failed to set service "{name}" on node "{node}", index is stale',
        f'failed to delete check "c" on node "{node}", index is stale',
    ]  # fmt: skip
    assert consul.get(f"kv/{name}").status == 404
    assert ids(consul.get(f"catalog/service/{name}-new")) == []
    assert txn(consul, op("Service", "set", {"Service": name}, Node="nowhere")) == ["Missing node registration"]
    assert txn(consul, op("Service", "turn", {"Service": name}, Node=node)) == ['unknown verb "turn"']
    assert txn(consul, {"Intention": {}}, op("Node", "get", {"Node": "leased"})) == [
        "only KV, Node, Service and Check operations are served"
    ]


def test_a_transaction_compares_and_deletes(consul, name):
    node = f"n-{name}"
    body = {"Node": node, "Address": "10.0.0.9", "Service": {"Service": name},
            "Checks": [{"CheckID": "c", "ServiceID": name}, {"CheckID": "d"}]}  # fmt: skip
    assert consul.put("catalog/register", body).text == "true"
    index = consul.get(f"catalog/service/{name}").json[0]["ModifyIndex"]
    (result,) = txn(consul, op("Service", "cas", {"Service": name, "Port": 9, "ModifyIndex": index}, Node=node))
    assert result["Service"]["Port"] == 9 and result["Service"]["ModifyIndex"] > index
    assert txn(consul, op("Check", "delete", {"Node": node, "CheckID": "c"})) == []
    assert [check["CheckID"] for check in consul.get(f"health/node/{node}").json] == ["d"]
    gone = txn(consul, op("Check", "delete", {"Node": node, "CheckID": "d"}),
               op("Check", "get", {"Node": node, "CheckID": "d"}))  # fmt: skip
    assert gone == [f'check "d" on node "{node}" doesn\'t exist'], "later operations see earlier ones"
    assert txn(consul, op("Node", "delete", {"Node": node})) == []
    assert consul.get(f"catalog/node/{node}").json is None and ids(consul.get(f"catalog/service/{name}")) == []


# Sessions, events, caches, members


def test_a_session_shows_the_checks_it_is_bound_to(consul, name):
    node = f"n-{name}"
    body = {"Node": node, "Address": "10.0.0.9", "Service": {"Service": name},
            "Checks": [{"CheckID": "alive", "Status": "passing"},
                       {"CheckID": "s", "Status": "passing", "ServiceID": name}]}  # fmt: skip
    assert consul.put("catalog/register", body).text == "true"
    session = consul.session(Node=node, NodeChecks=["alive"], ServiceChecks=[{"ID": "s"}])
    (shown,) = consul.get(f"session/info/{session}").json
    assert shown["NodeChecks"] == ["alive"] and shown["ServiceChecks"] == [{"ID": "s", "Namespace": ""}]
    (shown,) = consul.get(f"session/info/{consul.session(Node=node, NodeChecks=['alive'])}").json
    assert shown["NodeChecks"] == ["alive"] and shown["ServiceChecks"] is None
    assert consul.put("session/create", {"Node": node, "NodeChecks": ["none"]}).status == 500


def index_of(event_id):
    """As Consul's clients make it of the id."""
    digits = event_id.replace("-", "")
    return int(digits[:16], 16) ^ int(digits[16:], 16)


def test_the_index_of_events_is_made_of_the_last_one(server, consul, name):
    first = consul.put(f"event/fire/{name}").json["ID"]
    answer = consul.get("event/list", name=name)
    assert answer.index == index_of(first)
    assert consul.get("event/list", name=name, index=answer.index, wait="1ms").index == answer.index
    assert consul.get("event/list", name=name, index=12345, wait="600s").index == answer.index, "not this one: at once"
    with Consul(server.consul_port) as waiting:
        answers = []
        waiting.send("GET", "event/list", name=name, index=answer.index, wait="600s")
        thread = threading.Thread(target=lambda: answers.append(waiting.answer()))
        thread.start()
        second = consul.put(f"event/fire/{name}").json["ID"]
        thread.join(30)
    assert [event["ID"] for event in answers[0].json] == [first, second] and answers[0].index == index_of(second)


def test_the_cache_is_this_members_copy(consul, name):
    consul.put("agent/service/register", {"Name": name})
    answer = consul.get(f"catalog/service/{name}", cached=True)
    assert ids(answer) == [("leased", name)]
    assert (answer.headers["x-cache"], answer.headers["age"]) == ("HIT", "0")
    assert "x-cache" not in consul.get(f"catalog/service/{name}").headers
    assert consul.get(f"catalog/service/{name}", cached=True, consistent=True).status == 400


def test_members_are_joined_already(consul):
    address = consul.get("agent/self").json["DebugConfig"]["SerfAdvertiseAddrLAN"].removeprefix("tcp://")
    assert consul.put(f"agent/join/{address}").status == 200
    assert consul.put("agent/join/192.0.2.1:8301").status == 501
    assert consul.put("agent/force-leave/leased").status == 200, "it lives, so it stays"
    assert consul.put("agent/force-leave/nobody").status == 501
    answer = consul("DELETE", "operator/raft/peer", address="192.0.2.1:8300")
    assert (answer.status, answer.text) == (500, 'address "192.0.2.1:8300" was not found in the Raft configuration')
    assert consul("DELETE", "operator/raft/peer", address=address).status == 501
    assert consul.get("coordinate/datacenters").json == [{"Datacenter": "dc1", "AreaID": "wan", "Coordinates": []}]


def test_there_is_no_connect(consul, name):
    """Programs that wait for its root certificates are told that there is one that is none."""
    roots = consul.get("agent/connect/ca/roots").json
    assert roots["ActiveRootID"] and [root["RootCert"] for root in roots["Roots"]] == [""]
    for path in "connect/ca/roots", "agent/connect/ca/leaf/web", "catalog/connect/web", "health/connect/web":
        answer = consul.get(path)
        assert answer.status == 501 and "Connect must be enabled" in answer.text


@pytest.mark.parametrize("flag, value", [("--consul-node-id", "x"), ("--consul-node-meta", "a"), ("--consul-node-meta", ":a")])
def test_flags_of_the_node_are_read(tmp_path, flag, value):
    process = subprocess.run([binary_of(KIND_LEASED), "--data-dir", tmp_path, flag, value],
                             capture_output=True, text=True, timeout=20)  # fmt: skip
    assert process.returncode != 0 and flag in process.stderr
