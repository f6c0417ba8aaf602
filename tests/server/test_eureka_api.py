"""The Eureka API, request by request, as raw HTTP. Its clients are in tests/conformance/test_eureka_npm.py."""
import gzip
import http.client
import json
import re
import shlex
import subprocess
import sys
import time

import pytest

from harness import PROJECT_ROOT
from harness.eureka import Eureka, instance, leased_with_eureka
from harness.wait import wait_for

WAIT_SECONDS = 20
XML = """<?xml version="1.0" encoding="UTF-8"?>
<instance><instanceId>x-1</instanceId><hostName>h1</hostName><app>ShOp</app><ipAddr>10.0.0.9</ipAddr><status>UP</status>
<overriddenstatus>UNKNOWN</overriddenstatus><port enabled="true">8081</port><securePort enabled="false">443</securePort>
<countryId>1</countryId><dataCenterInfo class="com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"><name>MyOwn</name>
</dataCenterInfo><leaseInfo><renewalIntervalInSecs>5</renewalIntervalInSecs><durationInSecs>15</durationInSecs></leaseInfo>
<metadata><management__port>9</management__port><a>x &amp; y</a></metadata><vipAddress>shop,store</vipAddress></instance>"""


@pytest.fixture(name="server", scope="module")
def a_server():
    with leased_with_eureka() as server:
        yield server


@pytest.fixture(name="eureka")
def a_client(server):
    with Eureka(server.eureka_port) as eureka:
        yield eureka


def test_json_has_the_shape_that_clients_expect(eureka):
    before_ms = int(time.time() * 1000) - 1000
    assert eureka.register("shape", "s-1", homePageUrl="http://h/", asgName="g", metadata={"a_b": "1"}) == 204
    found = eureka.json("/apps/SHAPE")
    assert list(found) == ["application"]
    assert found["application"]["name"] == "SHAPE"
    (one,) = found["application"]["instance"]
    lease = one.pop("leaseInfo")
    assert lease.pop("registrationTimestamp") >= before_ms
    assert lease.pop("lastRenewalTimestamp") >= before_ms
    assert lease.pop("serviceUpTimestamp") >= before_ms
    assert lease == {"renewalIntervalInSecs": 30, "durationInSecs": 90, "evictionTimestamp": 0}
    updated = one.pop("lastUpdatedTimestamp")
    assert isinstance(updated, str) and int(updated) >= before_ms
    assert one == {
        "instanceId": "s-1", "hostName": "10.0.0.1", "app": "SHAPE", "ipAddr": "10.0.0.1", "status": "UP",
        "overriddenStatus": "UNKNOWN", "overriddenstatus": "UNKNOWN", "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "metadata": {"a_b": "1"}, "homePageUrl": "http://h/", "vipAddress": "shape", "secureVipAddress": "shape",
        "isCoordinatingDiscoveryServer": "false", "lastDirtyTimestamp": "1000", "actionType": "ADDED", "asgName": "g",
    }  # fmt: skip
    for path in ("/apps/shape/s-1", "/apps/SHAPE/s-1", "/instances/s-1"):
        single = eureka.json(path)["instance"]
        assert single["instanceId"] == "s-1" and single["app"] == "SHAPE", path


def test_xml_is_read_and_written(eureka):
    headers = {"Content-Type": "application/xml; charset=utf-8"}
    assert eureka.status("POST", "/apps/shop", body=XML, headers=headers) == 204
    one = eureka.xml("/apps/SHOP/x-1")
    assert one.tag == "instance"
    texts = {child.tag: child.text for child in one}
    assert texts["app"] == "SHOP" and texts["ipAddr"] == "10.0.0.9" and texts["overriddenstatus"] == "UNKNOWN"
    assert one.find("port").attrib == {"enabled": "true"} and one.find("port").text == "8081"
    assert one.find("metadata/management__port").text == "9" and one.find("metadata/a").text == "x & y"
    assert one.find("dataCenterInfo").attrib["class"] == "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"
    assert one.find("leaseInfo/durationInSecs").text == "15"
    everything = eureka.xml("/apps/")
    assert everything.tag == "applications" and everything.find("versions__delta").text == "1"
    assert "UP_" in everything.find("apps__hashcode").text
    assert "SHOP" in [app.find("name").text for app in everything.findall("application")]
    # Without a word of JSON it is XML, as Eureka has it.
    assert eureka.ask("GET", "/apps/SHOP", headers={"Accept": "*/*"})[1]["Content-Type"] == "application/xml"
    assert eureka.json("/apps/SHOP/x-1")["instance"]["metadata"] == {"management_port": "9", "a": "x & y"}


def test_both_prefixes_and_the_client_port_serve_it(server, eureka):
    assert eureka.register("twice", "t-1") == 204
    for port, prefix in ((server.eureka_port, "/eureka/v2"), (server.client_port, "/eureka"),
                         (server.client_port, "/eureka/v2")):
        with Eureka(port, prefix) as other:
            assert other.status("PUT", "/apps/TWICE/t-1") == 200
            assert "TWICE" in other.apps()[0] and "TWICE" in other.apps("/apps/")[0]


def test_answers_are_compressed_for_those_who_ask(eureka):
    assert eureka.register("zipped", "z-1") == 204
    for path in ("/apps", "/apps/delta", "/apps/ZIPPED", "/apps/ZIPPED/z-1"):
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
        status, found, body = eureka.ask("GET", path, headers=headers)
        assert status == 200 and found["Content-Encoding"] == "gzip", path
        json.loads(gzip.decompress(body))
    for words, is_zipped in {"gzip;q=0": False, "gzip; q=0.0, deflate": False, "gzip;q=0.5": True, "br": False}.items():
        headers = eureka.ask("GET", "/apps", headers={"Accept-Encoding": words})[1]
        assert (headers["Content-Encoding"] == "gzip") == is_zipped, words
    body = gzip.compress(json.dumps(instance("zipped", "z-2")).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert eureka.status("POST", "/apps/zipped", body=body, headers=headers) == 204
    assert eureka.status("POST", "/apps/zipped", body=b"\x1f\x8b no", headers=headers) == 400


def test_renewals(eureka):
    status, _, body = eureka.ask("PUT", "/apps/BEAT/b-1")
    # Java's client takes any body for an instance, and then does not register again.
    assert status == 404 and body == b""
    assert eureka.register("beat", "b-1") == 204
    assert eureka.status("PUT", "/apps/BEAT/b-1") == 200
    assert eureka.status("PUT", "/apps/beat/b-1?status=UP&lastDirtyTimestamp=1000") == 200
    assert eureka.status("PUT", "/apps/beat/b-1?status=UP&lastDirtyTimestamp=999") == 200
    # It has changed since: it is to register again.
    assert eureka.status("PUT", "/apps/beat/b-1?status=UP&lastDirtyTimestamp=1001") == 404
    assert eureka.status("PUT", "/apps/beat/b-1?lastDirtyTimestamp=x") == 400
    # A registration that knows less than this one only renews.
    assert eureka.register("beat", "b-1", ipAddr="10.9.9.9", lastDirtyTimestamp="500") == 204
    assert eureka.json("/apps/beat/b-1")["instance"]["ipAddr"] == "10.0.0.1"
    assert eureka.register("beat", "b-1", ipAddr="10.9.9.9", lastDirtyTimestamp="1001") == 204
    assert eureka.json("/apps/beat/b-1")["instance"]["ipAddr"] == "10.9.9.9"
    assert eureka.status("DELETE", "/apps/BEAT/b-1") == 200
    assert eureka.status("DELETE", "/apps/BEAT/b-1") == 404
    assert eureka.json("/apps/BEAT") is None and eureka.json("/apps/BEAT/b-1") is None


def test_an_instance_that_stops_beating_goes_at_its_time(eureka):
    assert eureka.register("brief", "b-1", leaseInfo={"durationInSecs": 3, "renewalIntervalInSecs": 1}) == 204
    for _ in range(2):  # it lives as long as it beats
        time.sleep(1)
        beaten = time.monotonic()
        assert eureka.status("PUT", "/apps/BRIEF/b-1") == 200
    wait_for(lambda: eureka.json("/apps/BRIEF") is None, WAIT_SECONDS, "the instance goes")
    assert time.monotonic() - beaten >= 3
    assert eureka.status("PUT", "/apps/BRIEF/b-1") == 404
    changes, _ = eureka.apps("/apps/delta")
    assert changes["BRIEF"]["b-1"]["actionType"] == "DELETED"


def test_statuses_and_overrides(eureka):
    def status():
        one = eureka.json("/apps/STATES/s-1")["instance"]
        return one["status"], one["overriddenStatus"]

    assert eureka.status("PUT", "/apps/STATES/s-1/status?value=UP") == 404
    assert eureka.register("states", "s-1", status="STARTING") == 204
    assert status() == ("STARTING", "UNKNOWN")
    assert eureka.status("PUT", "/apps/STATES/s-1/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=5") == 200
    assert status() == ("OUT_OF_SERVICE", "OUT_OF_SERVICE")
    # It stays when the instance registers again.
    assert eureka.register("states", "s-1", status="UP", lastDirtyTimestamp="2000") == 204
    assert status() == ("OUT_OF_SERVICE", "OUT_OF_SERVICE")
    assert eureka.status("DELETE", "/apps/STATES/s-1/status") == 200
    assert status() == ("UP", "UNKNOWN")
    assert eureka.status("PUT", "/apps/STATES/s-1/status?value=DOWN") == 200
    assert status() == ("DOWN", "DOWN")
    assert eureka.status("DELETE", "/apps/STATES/s-1/status?value=STARTING") == 200
    assert status() == ("STARTING", "UNKNOWN")
    assert eureka.status("PUT", "/apps/STATES/s-1/status?value=ILL") == 400
    assert eureka.status("PUT", "/apps/STATES/s-1/status") == 400
    assert eureka.register("states", "s-2", status="WHATEVER") == 204
    assert eureka.json("/apps/STATES/s-2")["instance"]["status"] == "UNKNOWN"
    assert eureka.register("states", "s-3", overriddenStatus=None, overriddenstatus="OUT_OF_SERVICE") == 204
    assert eureka.json("/apps/STATES/s-3")["instance"]["status"] == "OUT_OF_SERVICE"


def test_metadata(eureka):
    assert eureka.status("PUT", "/apps/META/m-1/metadata?a=1") == 404
    assert eureka.register("meta", "m-1") == 204
    assert eureka.status("PUT", "/apps/META/m-1/metadata?a=1&b%20c=x%26y") == 200
    assert eureka.json("/apps/META/m-1")["instance"]["metadata"] == {"zone": "a", "a": "1", "b c": "x&y"}
    assert eureka.status("PUT", "/apps/META/m-1/metadata?zone=b") == 200
    assert eureka.json("/apps/META/m-1")["instance"]["metadata"]["zone"] == "b"
    assert eureka.xml("/apps/META/m-1").find("metadata/b_.0020c").text == "x&y"


def test_vips(eureka):
    assert eureka.register("vip", "v-1", vipAddress="front,back", secureVipAddress="safe") == 204
    assert eureka.register("vip", "v-2", vipAddress="back", status="DOWN") == 204
    for vip, ids in {"front": {"v-1"}, "back": {"v-1", "v-2"}}.items():
        found, hash_code = eureka.apps(f"/vips/{vip}")
        assert set(found["VIP"]) == ids
        assert hash_code == ("UP_1_" if vip == "front" else "DOWN_1_UP_1_")
    assert set(eureka.apps("/svips/safe")[0]["VIP"]) == {"v-1"}
    assert eureka.json("/vips/fro") is None and eureka.json("/svips/front") is None
    assert eureka.json("/instances/nobody") is None


def hash_of(apps):
    counts = {}
    for instances in apps.values():
        for one in instances.values():
            counts[one["status"]] = counts.get(one["status"], 0) + 1
    return "".join(f"{status}_{counts[status]}_" for status in sorted(counts))


def apply_delta(apps, delta):
    """As a client does it."""
    for app, instances in delta.items():
        for id_, one in instances.items():
            if one["actionType"] == "DELETED":
                apps.get(app, {}).pop(id_, None)
            else:
                apps.setdefault(app, {})[id_] = one


def test_a_client_that_follows_the_delta_has_the_whole(eureka):
    held, hash_code = eureka.apps()
    assert hash_of(held) == hash_code
    for number in range(5):
        assert eureka.register("delta1", f"d-{number}") == 204
    for change in (
        lambda: eureka.status("DELETE", "/apps/DELTA1/d-0"),
        lambda: eureka.status("PUT", "/apps/DELTA1/d-1/status?value=DOWN"),
        lambda: eureka.status("PUT", "/apps/DELTA1/d-2/metadata?k=v"),
        lambda: eureka.status("DELETE", "/apps/DELTA1/d-4"),
    ):
        assert change() == 200
        delta, hash_code = eureka.apps("/apps/delta")
        apply_delta(held, delta)
        assert hash_of(held) == hash_code
        assert held["DELTA1"].keys() == eureka.apps("/apps")[0]["DELTA1"].keys()
    assert delta["DELTA1"]["d-1"]["status"] == "DOWN" and delta["DELTA1"]["d-0"]["actionType"] == "DELETED"
    version = eureka.json("/apps/delta")["applications"]["versions__delta"]
    assert isinstance(version, str) and int(version) > 1


@pytest.mark.parametrize("fields, reason", [
    ({"hostName": None, "instanceId": None}, "Missing instanceId"),
    ({"hostName": None}, "Missing hostname"),
    ({"app": None}, "Missing appName"),
    ({"app": "OTHER"}, "Mismatched appName"),
    ({"leaseInfo": {"durationInSecs": 0}}, "durationInSecs"),
    ({"leaseInfo": {"durationInSecs": -5}}, "durationInSecs"),
    ({"leaseInfo": {"durationInSecs": "soon"}}, "durationInSecs"),
    ({"port": {"$": 65536, "@enabled": "true"}}, "65535"),
    ({"dataCenterInfo": {"name": "Moon"}}, "dataCenterInfo"),
    ({"metadata": {f"k{number}": "v" for number in range(65)}}, "64"),
    ({"hostName": "h" * 5000}, "too long"),
    ({"homePageUrl": "h" * 20000}, "too long"),
    ({"instanceId": "a\nb"}, "control"),
])  # fmt: skip
def test_registrations_that_are_wrong_are_refused_with_the_reason(eureka, fields, reason):
    headers = {"Content-Type": "application/json"}
    body = json.dumps(instance("wrong", "w-1", **fields))
    status, _, text = eureka.ask("POST", "/apps/wrong", body, headers)
    assert status == 400 and reason in text.decode(), text
    assert eureka.json("/apps/wrong") is None


@pytest.mark.parametrize("body, status", [
    ("{", 400), ("", 400), ("null", 400), ('{"instance": 5}', 400), ("[" * 5000, 400), ('{"a":' * 3000, 400),
    ("<instance>", 400), ("<!DOCTYPE a [<!ENTITY b 'c'>]><instance><hostName>&b;</hostName></instance>", 400),
    ("<a>" * 3000, 400), ("x" * 70000, 413), ("\x00", 400),
])  # fmt: skip
def test_bodies_that_are_hostile_are_refused(eureka, body, status):
    for kind in ("application/json", "application/xml", None):
        headers = {"Content-Type": kind} if kind else {}
        assert eureka.status("POST", "/apps/wrong", body=body, headers=headers) == status
        eureka.connection.close()  # one that was refused early may be closed


def test_replication_is_refused_clearly(eureka):
    for method, path in (("POST", "/peerreplication/batch/"), ("PUT", "/peerreplication/batch")):
        status, _, text = eureka.ask(method, path, b"{}", {"Content-Type": "application/json"})
        assert status == 501 and b"replicat" in text
    replica = {"x-netflix-discovery-replication": "true"}
    assert eureka.status("PUT", "/apps/A/a", headers=replica) == 501
    assert eureka.status("DELETE", "/apps/A/a", headers=replica) == 501
    body = json.dumps(instance("a", "a"))
    assert eureka.status("POST", "/apps/a", body=body, headers={"Content-Type": "application/json", **replica}) == 501


def test_requests_are_counted(server, eureka):
    def counted(kind):
        text = server.http_get("/metrics")[1].decode()
        return int(re.search(rf'leased_eureka_requests_total\{{kind="{kind}"\}} (\d+)', text)[1])

    before = counted("register"), counted("renew")
    assert eureka.register("counted", "c-1") == 204 and eureka.status("PUT", "/apps/COUNTED/c-1") == 200
    assert (counted("register"), counted("renew")) == (before[0] + 1, before[1] + 1)


def test_a_list_of_several_parts_comes_whole(eureka):
    many = 100
    text = "x" * 4000
    for number in range(many):
        assert eureka.register("many", f"m-{number}", metadata={"a": text, "b": text, "c": text}) == 204
    found, hash_code = eureka.apps()
    assert len(found["MANY"]) == many and hash_of(found) == hash_code
    assert all(one["metadata"]["c"] == text for one in found["MANY"].values())
    assert len(eureka.json("/apps/MANY", {"Accept-Encoding": "gzip"})["application"]["instance"]) == many
    assert len(eureka.xml("/vips/many").findall("application/instance")) == many
    # A client that goes away in the middle harms nobody.
    for _ in range(5):
        impatient = http.client.HTTPConnection("127.0.0.1", eureka.connection.port, timeout=WAIT_SECONDS)
        impatient.request("GET", "/eureka/apps/MANY")
        impatient.sock.recv(1000)
        impatient.close()
    assert eureka.status("PUT", "/apps/MANY/m-1") == 200


def test_what_the_guard_keeps_is_listed_and_marked(eureka):
    """Half of a fleet vanishes at once."""
    held, _ = eureka.apps()
    for number in range(6):
        duration = 2 if number < 3 else 90
        assert eureka.register("fleet", f"f-{number}", leaseInfo={"durationInSecs": duration}) == 204

    def kept():
        found = eureka.apps("/apps")[0]["FLEET"]
        return {id_ for id_, one in found.items() if one["metadata"].get("leased.kept") == "true"}

    wait_for(lambda: kept() == {"f-0", "f-1", "f-2"}, WAIT_SECONDS, "the lost ones are marked")
    assert len(eureka.json("/apps/FLEET")["application"]["instance"]) == 6
    delta, hash_code = eureka.apps("/apps/delta")
    apply_delta(held, delta)
    assert hash_of(held) == hash_code and len(held["FLEET"]) == 6
    # A lost one is not alive: its process has to register again.
    assert eureka.status("PUT", "/apps/FLEET/f-0") == 404
    assert eureka.register("fleet", "f-0") == 204
    assert "f-0" not in kept()


def test_the_commands_of_the_page(server, eureka):
    page = (PROJECT_ROOT / "docs" / "doors" / "eureka.md").read_text(encoding="utf-8")
    block = page.split("<!-- run by tests/server/test_eureka_api.py -->\n```sh\n", 1)[1].split("```", 1)[0]
    script = block.replace(":8761/", f":{server.eureka_port}/").replace("curl ", "curl -sS --fail ")
    done = subprocess.run(["sh", "-e"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert '"instanceId":"web-1"' in done.stdout
    assert eureka.json("/apps/WEB/web-1") is None


def test_the_example_client(server):
    """examples/eureka: registers, beats, follows the delta, finds itself, and leaves."""
    script = PROJECT_ROOT / "examples" / "eureka" / "client.py"
    command = [sys.executable, str(script), "--url", f"http://127.0.0.1:{server.eureka_port}/eureka/", "--app", "tour",
               "--port", "8080", "--beats", "2", "--interval", "0.2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    assert "registered TOUR" in done.stdout and "canceled" in done.stdout
    assert re.search(r"TOUR .*:8080 +UP", done.stdout)


def test_the_example_client_leaves_before_its_first_beat(server):
    script = PROJECT_ROOT / "examples" / "eureka" / "client.py"
    command = [sys.executable, str(script), "--url", f"http://127.0.0.1:{server.eureka_port}/eureka/", "--app", "early"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline().startswith("registered EARLY")
        client.terminate()
        rest, _ = client.communicate(timeout=60)
    assert client.returncode == 0 and rest.endswith("canceled\n")
