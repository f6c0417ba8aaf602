"""The Eureka API as its clients speak it: raw HTTP, JSON and XML, with nothing between."""
import base64
import contextlib
import gzip
import http.client
import json
import xml.etree.ElementTree

from harness.kinds import KIND_LEASED
from harness.ports import free_ports
from harness.server import START_SECONDS, Server
from harness.wait import wait_for

CALL_SECONDS = 20
DOORS = "etcd,native,registry,eureka"


def instance(app, instance_id, /, **fields):
    """A body; fields go over the defaults."""
    made = {
        "instanceId": instance_id, "hostName": "10.0.0.1", "app": app.upper(), "ipAddr": "10.0.0.1", "status": "UP",
        "overriddenStatus": "UNKNOWN", "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 443, "@enabled": "false"}, "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90}, "metadata": {"zone": "a"},
        "vipAddress": app.lower(), "secureVipAddress": app.lower(), "lastDirtyTimestamp": "1000",
    }  # fmt: skip
    made.update(fields)
    return {"instance": {name: value for name, value in made.items() if value is not None}}


class Eureka:
    """Requests below one prefix, on one connection."""

    def __init__(self, port, prefix="/eureka", host="127.0.0.1", user=None, password=None, bearer=None):
        self.prefix = prefix
        self.headers = {}
        if user is not None:
            shown = base64.b64encode(f"{user}:{password}".encode()).decode()
            self.headers["Authorization"] = f"Basic {shown}"
        if bearer is not None:
            self.headers["Authorization"] = f"Bearer {bearer}"
        self.connection = http.client.HTTPConnection(host, port, timeout=CALL_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body)"""
        self.connection.request(method, self.prefix + path, body=body, headers={**self.headers, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def status(self, method, path, **words):
        return self.ask(method, path, **words)[0]

    def register(self, app, instance_id, /, **fields):
        return self.post(app, instance(app, instance_id, **fields))

    def post(self, app, body):
        return self.ask("POST", f"/apps/{app}", json.dumps(body), {"Content-Type": "application/json"})[0]

    def json(self, path, headers=None):
        """The document; None: 404."""
        status, found, body = self.ask("GET", path, headers={"Accept": "application/json", **(headers or {})})
        if status == 404:
            return None
        assert status == 200, (status, body)
        assert found["Content-Type"] == "application/json"
        return json.loads(gzip.decompress(body) if found["Content-Encoding"] == "gzip" else body)

    def xml(self, path):
        status, found, body = self.ask("GET", path, headers={"Accept": "application/xml"})
        assert status == 200, (status, body)
        assert found["Content-Type"] == "application/xml"
        return xml.etree.ElementTree.fromstring(body)

    def apps(self, path="/apps"):
        """{application: {id: instance}} of a list, and its hash code."""
        document = self.json(path)
        if document is None:
            return {}, None
        found = document["applications"]
        lists = {app["name"]: {one["instanceId"]: one for one in app["instance"]} for app in found["application"]}
        return lists, found["apps__hashcode"]


@contextlib.contextmanager
def leased_with_eureka(flags=()):
    """A leased of its own whose `eureka_port` speaks Eureka's API."""
    (port,) = free_ports(1)
    with Server(KIND_LEASED, extra_flags=["--doors", DOORS, "--listen-eureka", f"127.0.0.1:{port}", *flags]) as server:
        server.eureka_port = port

        def answers():
            with contextlib.suppress(OSError), Eureka(port) as eureka:
                return eureka.status("GET", "/apps") == 200

        wait_for(answers, START_SECONDS, "leased speaks Eureka")
        yield server
