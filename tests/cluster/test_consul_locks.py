"""Locks of the Consul API on three nodes while leaders are killed: never two holders, ModifyIndex only grows.

A holder believes until its session's TTL has passed since it *sent* the creation of the session, or its last renewal that was
answered: to acquire a key renews nothing. That is what is compared. Longer and with more clients in acceptance mode.
"""
import threading
import time

import pytest

from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.consul import Consul

SECONDS = either(6, 300)
CLIENTS = either(6, 40)
TTL_SECONDS = 2.0
KEYS = ("locks/a", "locks/b")


class Holdings:
    """Who believed to hold what, from when to when, with which token."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.spans = {key: [] for key in KEYS}

    def add(self, key, begin, end, token):
        with self.mutex:
            self.spans[key].append((begin, end, token))

    def check(self):
        for key, spans in self.spans.items():
            ordered = sorted(spans)
            for (_, end, token), (begin, _, later) in zip(ordered, ordered[1:]):
                assert begin >= end, f"{key}: two holders for {end - begin:.3f} s"
                assert later > token, f"{key}: token {later} after {token}"
        return sum(len(spans) for spans in self.spans.values())


class Client(threading.Thread):
    def __init__(self, ports, number, holdings, stop):
        super().__init__(daemon=True)
        self.ports, self.number, self.holdings, self.stop = ports, number, holdings, stop
        self.error = None

    def ask(self, method, path, body=None, **query):
        """At any member, until one answers; None when it is not known what came of it."""
        port = self.ports[(self.number + int(time.monotonic() * 3)) % len(self.ports)]
        try:
            with Consul(port, timeout_s=1.5) as consul:
                answer = consul(method, path, body, **query)
                return answer if answer.status in (200, 404) else None
        except OSError:
            return None
        except Exception as error:  # pylint: disable=broad-except
            if "RemoteDisconnected" in repr(error) or "Incomplete" in repr(error):
                return None
            raise

    def hold(self, key, session, valid):
        """Until when the session is believed to live: `valid`, or longer when it is renewed."""
        answer = self.ask("PUT", f"kv/{key}", str(self.number), acquire=session)
        if answer is None or answer.json is not True:
            return valid
        begin = time.monotonic()
        read = self.ask("GET", f"kv/{key}")
        entry = read.json[0] if read is not None and read.status == 200 else None
        token = entry["ModifyIndex"] if entry and entry.get("Session") == session else None
        for _ in range(self.number % 3):  # some renew while they hold
            sent = time.monotonic()
            renewed = self.ask("PUT", f"session/renew/{session}")
            if renewed is None or renewed.status != 200:
                break
            valid = sent + TTL_SECONDS
        falls_silent = self.number % 2 == 1
        if falls_silent:
            end = valid  # it believes to the last moment
        else:
            end = time.monotonic()
            if end < valid:
                self.ask("PUT", f"kv/{key}", "free", release=session)
            end = min(end, valid)
        if token is not None and end > begin:
            self.holdings.add(key, begin, end, token)
        return valid

    def run(self):
        try:
            while not self.stop.is_set():
                valid = time.monotonic() + TTL_SECONDS
                answer = self.ask("PUT", "session/create", {"TTL": f"{TTL_SECONDS:.0f}s", "LockDelay": "0s"})
                if answer is not None and answer.status == 200:
                    for key in KEYS:
                        valid = self.hold(key, answer.json["ID"], valid)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


@pytest.mark.seconds_max(180 + 2 * SECONDS)
def test_never_two_holders():
    holdings, stop = Holdings(), threading.Event()
    with Cluster(extra_flags=["--doors", "etcd,native,consul"]) as cluster:
        ports = [server.client_port for server in cluster.servers]
        clients = [Client(ports, number, holdings, stop) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            leader = cluster.leader()
            stop.wait(1.0)
            cluster.kill(leader)
            cluster.restart(leader)
        stop.wait(1.0)
        stop.set()
        for client in clients:
            client.join(30)
            assert client.error is None, client.error
        n = holdings.check()
        report("consul-locks", acquisitions=n, seconds=SECONDS, clients=CLIENTS)
        assert n > 0
        wait_free(cluster, ports)


def wait_free(cluster, ports):
    """Nothing stays held by sessions that are gone."""
    leader = cluster.leader()
    with Consul(ports[leader]) as consul:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            entries = [consul.entry(key) for key in KEYS]
            if all(entry is None or "Session" not in entry for entry in entries):
                return
            time.sleep(0.1)
    raise AssertionError("a key is held by a session that is gone")
