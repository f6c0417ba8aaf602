"""Instances of the registry, registered and renewed through leased's own API as JSON, on one connection."""
import http.client
import json
import threading
import time

CALL_SECONDS = 60.0


class Refused(Exception):
    """The server said no; the message is its answer."""


class Registry:
    """Calls of leased.v1.Registry, one at a time."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
        self.lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def _post(self, path, body):
        with self.lock:
            self.connection.request("POST", f"/lease/v1/registry/{path}", body=body)
            answer = self.connection.getresponse()
            return answer.status, answer.read().decode()

    def call(self, path, **fields):
        deadline = time.monotonic() + CALL_SECONDS
        status, text = self._post(path, json.dumps(fields))
        # A cluster that has just started, or elects a leader, asks to be asked again.
        while status == 503 and time.monotonic() < deadline:
            time.sleep(0.02)
            status, text = self._post(path, json.dumps(fields))
        if status != 200:
            raise Refused(f"{path}: {status} {text}")
        return json.loads(text)

    def register(self, service, id, address="127.0.0.1", port=80, ttl_ms=60_000, **fields):
        metadata = [{"key": key, "value": value} for key, value in fields.pop("metadata", {}).items()]
        request = {key: fields.pop(key) for key in ("idempotent", "previous_token") if key in fields}
        instance = dict(service=service, id=id, address=address, port=port, ttl_ms=ttl_ms, metadata=metadata, **fields)
        return self.call("register", instance=instance, **request)

    def renew(self, lease_ids):
        return self.call("renew", lease_ids=list(lease_ids))

    def deregister(self, service, id, **fields):
        return self.call("deregister", service=service, id=id, **fields)

    def discover(self, service, **fields):
        return self.call("discover", service=service, **fields).get("instances", [])


class Keeper:
    """Renews leases until it is told to let one go; knows when each was last renewed at the latest."""

    def __init__(self, server, interval_s=0.25):
        self.registry = Registry(server)
        self.interval_s = interval_s
        self.leases = {}  # lease id -> when its last renewal was asked for, and answered
        self.changed = threading.Condition()
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with self.changed:
            self.is_over = True
            self.changed.notify()
        self.thread.join(CALL_SECONDS)
        self.registry.connection.close()

    def keep(self, lease_id):
        with self.changed:
            self.leases[lease_id] = (0.0, time.monotonic())

    def let_go(self, lease_ids):
        """Gives between which times they were last renewed."""
        with self.changed:
            times = [self.leases.pop(lease_id) for lease_id in lease_ids]
        return min((at[0] for at in times), default=0.0), max((at[1] for at in times), default=0.0)

    def _run(self):
        with self.changed:
            while not self.is_over:
                if self.leases:
                    before = time.monotonic()
                    self.registry.renew(self.leases)
                    times = (before, time.monotonic())
                    self.leases = {lease_id: times for lease_id in self.leases}
                self.changed.wait(self.interval_s)
