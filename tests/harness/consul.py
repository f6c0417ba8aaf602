"""leased with its Consul API, and the plainest client of it: what is on the wire, nothing hidden."""
import contextlib
import http.client
import json
import urllib.parse

from harness.kinds import KIND_LEASED
from harness.ports import free_ports
from harness.server import Server
from harness.wait import wait_for

START_SECONDS = 20.0
CALL_SECONDS = 35.0


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def index(self):
        return int(self.headers["x-consul-index"])


class Consul:
    """One connection; a request at a time."""

    def __init__(self, port, host="127.0.0.1", timeout_s=CALL_SECONDS, token=None):
        self.connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self.headers = {"X-Consul-Token": token} if token else {}

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, method, path, body=None, headers=None, **query):
        """Without waiting for the answer: see answer()."""
        flags = [name if value is True else f"{name}={urllib.parse.quote(str(value), safe='')}"
                 for name, value in query.items()]
        target = f"/v1/{path}" + ("?" + "&".join(flags) if flags else "")
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        self.connection.request(method, target, data, {**self.headers, **(headers or {})})

    def answer(self):
        return Answer(self.connection.getresponse())

    def __call__(self, method, path, body=None, headers=None, **query):
        self.send(method, path, body, headers, **query)
        return self.answer()

    # What most tests need

    def get(self, path, **query):
        return self("GET", path, **query)

    def put(self, path, body=None, **query):
        return self("PUT", path, body, **query)

    def session(self, **facts):
        answer = self.put("session/create", facts)
        assert answer.status == 200, answer.text
        return answer.json["ID"]

    def acquire(self, key, session, value="v", **query):
        answer = self.put(f"kv/{key}", value, acquire=session, **query)
        assert answer.status == 200, answer.text
        return answer.json

    def entry(self, key):
        answer = self.get(f"kv/{key}")
        return answer.json[0] if answer.status == 200 else None


def is_served(port, host="127.0.0.1"):
    try:
        with Consul(port, host, timeout_s=2.0) as consul:
            return consul.get("status/leader").status == 200
    except OSError:
        return False


@contextlib.contextmanager
def leased_with_consul(flags=()):
    """A leased of its own whose `consul_port` serves the Consul API."""
    (port,) = free_ports(1)
    with Server(KIND_LEASED, extra_flags=["--listen-consul", f"127.0.0.1:{port}", *flags]) as server:
        server.consul_port = port
        wait_for(lambda: is_served(port), START_SECONDS, "leased serves the Consul API")
        yield server
