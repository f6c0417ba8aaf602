"""python3-consul and npm's consul, unmodified, against the Consul API."""
import json
import pathlib
import shutil
import subprocess
import threading

import consul as python_consul
import pytest

from harness.consul import leased_with_consul

JS = pathlib.Path(__file__).parent / "js"
SCENARIO_SECONDS = 100
INSTALL_SECONDS = 300


@pytest.fixture(scope="module")
def server():
    with leased_with_consul() as server:
        yield server


@pytest.fixture
def client(server):
    return python_consul.Consul(port=server.consul_port)


@pytest.fixture(scope="module")
def node():
    """Path of node, with the packages of js/ in place."""
    path = shutil.which("node") or shutil.which("nodejs")
    assert path, "no node: install Debian's nodejs and npm"
    installed = JS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (JS / "package-lock.json").stat().st_mtime:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, capture_output=True, text=True,
                              timeout=INSTALL_SECONDS, check=False)
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
    return path


def test_npm_consul(node, server):
    done = subprocess.run([node, str(JS / "consul_scenario.js"), str(server.consul_port)], capture_output=True,
                          text=True, timeout=SCENARIO_SECONDS, check=False)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    seen = json.loads(done.stdout)
    assert seen["keys"] == {
        "set": True, "value": "1", "missing": True, "keys": ["js/a", "js/b"], "tree": [0, 7], "cas": [False, True],
        "txn": 2, "deleted": True,
    }  # fmt: skip
    assert seen["locks"] == {
        "acquired": True, "refused": False, "renewed": "15s", "listed": True, "next": True, "holder": True,
        "gone": True,
    }  # fmt: skip
    assert seen["services"] == {
        "watched": "js:1", "services": ["js:1"], "status": "passing", "catalog": 80, "names": True, "maintained": 0,
        "left": 0, "leader": True, "event": "payload",
    }  # fmt: skip
    assert seen["catalog"] == {
        "kinds": ["Node", "Service", "Check", "KV"], "services": ["one"], "meta": ["js-node"], "passing": "10.7.7.7",
        "checks": ["alive"], "failed": 409, "left": 0,
    }  # fmt: skip


def test_python_keys(client):
    index, data = client.kv.get("py/a")
    assert data is None and int(index) >= 1
    assert client.kv.put("py/a", "bar", flags=3) is True
    index, data = client.kv.get("py/a")
    assert data["Value"] == b"bar" and data["Flags"] == 3
    assert client.kv.put("py/a", "x", cas=data["ModifyIndex"]) is True
    client.kv.put("py/b/c", "1")
    assert client.kv.get("py/", keys=True, separator="/")[1] == ["py/a", "py/b/"]
    assert len(client.kv.get("py/", recurse=True)[1]) == 2
    assert client.kv.delete("py/", recurse=True) is True
    assert client.kv.get("py/", recurse=True)[1] is None


def test_python_waits(client, server):
    index, _ = client.kv.get("py/wait")
    writer = threading.Timer(0.1, lambda: python_consul.Consul(port=server.consul_port).kv.put("py/wait", "now"))
    writer.start()
    index, data = client.kv.get("py/wait", index=index, wait="30s")
    writer.join()
    assert data["Value"] == b"now"
    client.kv.delete("py/wait")


def test_python_locks(client):
    first = client.session.create(name="py", ttl=10, lock_delay=0)
    second = client.session.create(behavior="delete", lock_delay=0)
    assert client.kv.put("py/lock", "1", acquire=first) is True
    assert client.kv.put("py/lock", "2", acquire=second) is False
    assert client.session.renew(first)["ID"] == first
    assert client.session.info(first)[1]["Name"] == "py"
    assert {first, second} <= {session["ID"] for session in client.session.list()[1]}
    assert client.session.destroy(first) is True
    with pytest.raises(python_consul.NotFound):
        client.session.renew(first)
    assert client.kv.put("py/lock", "2", acquire=second) is True
    client.session.destroy(second)
    assert client.kv.get("py/lock")[1] is None


def test_python_services(client):
    check = python_consul.Check.ttl("30s")
    assert client.agent.service.register("py-web", service_id="py1", port=80, tags=["t"], check=check) is True
    assert client.health.service("py-web", passing=True)[1] == []
    assert client.agent.check.ttl_pass("service:py1") is True
    (entry,) = client.health.service("py-web", passing=True)[1]
    assert entry["Service"]["Port"] == 80 and entry["Service"]["Tags"] == ["t"]
    assert client.agent.services()["py1"]["Service"] == "py-web"
    assert client.agent.checks()["service:py1"]["Status"] == "passing"
    assert "py-web" in client.catalog.services()[1]
    assert client.catalog.service("py-web", tag="t")[1][0]["ServiceID"] == "py1"
    assert client.agent.service.maintenance("py1", "true", "why") is True
    assert [c["Status"] for c in client.health.checks("py-web")[1]].count("critical") == 1
    assert client.agent.service.maintenance("py1", "false") is True
    assert client.agent.check.register("py-node", python_consul.Check.ttl("30s")) is True
    assert client.agent.check.ttl_warn("py-node") is True
    assert "py-node" in [c["CheckID"] for c in client.health.state("warning")[1]]
    assert client.agent.check.deregister("py-node") is True
    assert client.agent.service.deregister("py1") is True
    assert client.catalog.register("py-other", "10.9.9.9", service={"service": "py-db"}) is True
    assert client.catalog.node("py-other")[1]["Services"]["py-db"]["Service"] == "py-db"
    assert "py-other" in [n["Node"] for n in client.catalog.nodes()[1]]
    assert client.catalog.deregister("py-other") is True
    assert client.status.leader() in client.status.peers()
    assert client.agent.self()["Config"]["Datacenter"] == "dc1"
    assert client.event.fire("py-event", "body")["Name"] == "py-event"
    assert client.event.list("py-event")[1][0]["Payload"] == b"body"
    with pytest.raises(python_consul.ConsulException):
        client.kv.put("py/lock", "1", acquire="11111111-2222-3333-4444-555555555555")


def test_python_lock_delay(client):
    """It follows the end of a session, never a release."""
    first, second, third = (client.session.create(lock_delay=60) for _ in range(3))
    assert client.kv.put("py/delay", "1", acquire=first) is True
    assert client.kv.put("py/given", "1", acquire=third) is True
    assert client.kv.put("py/given", "1", release=third) is True
    assert client.kv.put("py/given", "2", acquire=second) is True
    assert client.session.destroy(first) is True
    assert "Session" not in client.kv.get("py/delay")[1]
    assert client.kv.put("py/delay", "2", acquire=second) is False
    for session in second, third:
        client.session.destroy(session)
    client.kv.delete("py/delay")
    client.kv.delete("py/given")


def test_python_fencing(client):
    """LockIndex begins again when the key is deleted; ModifyIndex is the token."""
    session = client.session.create(lock_delay=0)
    seen = []
    for _ in range(2):
        assert client.kv.put("py/fence", "1", acquire=session) is True
        entry = client.kv.get("py/fence")[1]
        seen.append((entry["LockIndex"], entry["ModifyIndex"]))
        client.kv.delete("py/fence")
    assert [lock for lock, _ in seen] == [1, 1] and seen[0][1] < seen[1][1]
    client.session.destroy(session)


def test_python_session_ends_with_its_check(client):
    assert client.agent.service.register("py-bound", check=python_consul.Check.ttl("600s")) is True
    with pytest.raises(python_consul.ConsulException, match="critical"):
        client.session.create(checks=["serfHealth", "service:py-bound"])
    assert client.agent.check.ttl_pass("service:py-bound") is True
    session = client.session.create(checks=["serfHealth", "service:py-bound"], behavior="delete", lock_delay=0)
    assert session in [each["ID"] for each in client.session.node("leased")[1]]
    assert client.kv.put("py/bound", "1", acquire=session) is True
    assert client.agent.check.ttl_fail("service:py-bound") is True
    index, data = client.kv.get("py/bound")
    while data is not None:
        index, data = client.kv.get("py/bound", index=index, wait="30s")
    assert client.session.info(session)[1] is None
    client.agent.service.deregister("py-bound")


def test_python_waits_for_a_service_and_an_event(client, server):
    other = python_consul.Consul(port=server.consul_port)
    client.agent.service.register("py-late", check=python_consul.Check.ttl("600s"))
    index, entries = client.health.service("py-late", passing=True)
    assert entries == []
    passing = threading.Timer(0.1, other.agent.check.ttl_pass, ["service:py-late"])
    passing.start()
    index, entries = client.health.service("py-late", passing=True, index=index, wait="60s")
    assert [entry["Service"]["ID"] for entry in entries] == ["py-late"]
    client.event.fire("py-news", "1")
    index, events = client.event.list("py-news")
    firing = threading.Timer(0.1, other.event.fire, ["py-news", "2"])
    firing.start()
    _, events = client.event.list("py-news", index=index, wait="60s")
    assert [event["Payload"] for event in events] == [b"1", b"2"]
    passing.join()
    firing.join()
    client.agent.service.deregister("py-late")


def test_python_nodes(client):
    service, check = {"service": "py-cache", "id": "one", "port": 1}, {"name": "up", "status": "passing"}
    for node in "py-n1", "py-n2":
        assert client.catalog.register(node, "10.8.8.8", service=service, check=check) is True
    assert sorted(each["Node"] for each in client.catalog.service("py-cache")[1]) == ["py-n1", "py-n2"]
    assert [each["CheckID"] for each in client.health.node("py-n1")[1]] == ["up"]
    assert client.catalog.deregister("py-n1", service_id="one") is True
    assert [each["Node"] for each in client.catalog.service("py-cache")[1]] == ["py-n2"]
    for node in "py-n1", "py-n2":
        assert client.catalog.deregister(node) is True
    with pytest.raises(python_consul.ConsulException, match="No path to datacenter"):
        client.catalog.nodes(dc="dc9")
