"""Whoever loses a lock knows before the next one has it: killed, stopped, cut off, server gone."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

import lease
from harness import KIND_LEASED, Server, wait_for
from harness.fake_clock import FakeClock
from proxy import Proxy

SECONDS = 60.0
TTL = 2
HOLDER = str(pathlib.Path(__file__).parent / "holder.py")


class Holder:
    """holder.py as a process of its own."""

    def __init__(self, endpoints, name):
        path = os.path.dirname(os.path.dirname(lease.__file__))
        self.process = subprocess.Popen(
            [sys.executable, HOLDER, endpoints, name, str(TTL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.token = int(self.read("held")[0])

    def read(self, word):
        """The rest of the next line that begins with this word."""
        for line in self.process.stdout:
            if line.split()[0] == word:
                return line.split()[1:]
        raise AssertionError(f"the holder ended and did not say {word}")

    def wait_lost(self):
        """Until it knows; answers until when it had believed to be valid."""
        while self.read("event")[0] != "LOST":
            pass
        of_hold, of_session, until = self.read("valid")
        assert (float(of_hold), float(of_session)) == (0, 0)
        return float(until)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def test_a_killed_holder_is_replaced(leased_server, prefix):
    with lease.Client(leased_server.endpoint) as client, Holder(leased_server.endpoint, prefix) as holder:
        holder.process.kill()
        with client.lock(prefix, wait=SECONDS) as own:
            assert own.token > holder.token


def test_a_stopped_holder_wakes_without_its_lock(leased_server, prefix):
    with lease.Client(leased_server.endpoint) as client, Holder(leased_server.endpoint, prefix) as holder:
        holder.process.send_signal(signal.SIGSTOP)
        with client.lock(prefix, wait=SECONDS) as own:
            client.fence_check(prefix, own.token)
            holder.process.send_signal(signal.SIGCONT)
            holder.wait_lost()
            with pytest.raises(lease.Stale):
                client.fence_check(prefix, holder.token)


def test_a_holder_that_is_cut_off_knows_before_the_next_one_has_it(any_server, prefix):
    with Proxy(any_server.endpoint) as proxy, lease.Client(any_server.endpoint) as client:
        with Holder(proxy.endpoint, prefix) as holder:
            proxy.cut()
            with client.lock(prefix, wait=SECONDS):
                acquired_at = time.clock_gettime(time.CLOCK_BOOTTIME)
                assert holder.wait_lost() < acquired_at


def test_a_session_comes_back_from_jeopardy(leased_server):
    events, changed = [], threading.Condition()

    def on_event(_session, event, _reason):
        with changed:
            events.append(event)
            changed.notify_all()

    def wait_for(event):
        with changed:
            assert changed.wait_for(lambda: event in events, SECONDS), events

    with Proxy(leased_server.endpoint) as proxy:
        endpoints = f"{proxy.endpoint},{leased_server.endpoint}"
        with lease.Client(endpoints, connect_timeout=0.5) as client:
            session = client.session(ttl=9, strategy=lease.Strategy.CONTINUOUS, on_event=on_event)
            proxy.cut()
            wait_for(lease.Event.JEOPARDY)
            assert session.state != lease.State.LOST
            wait_for(lease.Event.RESTORED)
            assert events == [lease.Event.JEOPARDY, lease.Event.RESTORED]
            session.end()


def test_of_two_endpoints_one_may_be_dead(any_server, prefix):
    with lease.Client(f"127.0.0.1:1,{any_server.endpoint}") as client, client.lock(prefix) as lock:
        assert lock.token > 0


def test_no_server_is_told_with_the_reason():
    with lease.Client("127.0.0.1:1", request_timeout=0.3) as client:
        with pytest.raises(lease.Error) as caught:
            client.lock("x")
        assert caught.value.status == lease.Status.UNAVAILABLE
        assert "127.0.0.1:1" in str(caught.value)


def test_what_was_acquired_without_an_answer_is_given_back(leased_server, prefix):
    """The answer is lost with its connection, and nobody waits any more when there is another one."""
    with Proxy(leased_server.endpoint) as proxy, lease.Client(leased_server.endpoint) as other:
        with lease.Client(proxy.endpoint, protocol=lease.Protocol.NATIVE) as client:
            session = client.session(ttl=600)
            proxy.mute()
            pending = session.acquire_start(lease.wants(prefix))
            wait_for(lambda: other.resource(prefix).holders, SECONDS, "it is acquired")
            proxy.drop_clients()
            assert proxy.has_refused.wait(SECONDS)
            pending.cancel()
            proxy.let_pass()
            with other.lock(prefix, wait=SECONDS):
                assert session.valid_for > 0


def test_what_was_canceled_before_its_connection_was_lost_is_given_back(leased_server, prefix):
    """The answer is on its way when nobody waits any more, and is lost with its connection."""
    with Proxy(leased_server.endpoint) as proxy, lease.Client(leased_server.endpoint) as other:
        with lease.Client(proxy.endpoint, protocol=lease.Protocol.NATIVE) as client:
            session = client.session(ttl=600)
            proxy.mute()
            pending = session.acquire_start(lease.wants(prefix))
            wait_for(lambda: other.resource(prefix).holders, SECONDS, "it is acquired")
            pending.cancel()
            proxy.drop_clients()
            assert proxy.has_refused.wait(SECONDS)
            proxy.let_pass()
            with other.lock(prefix, wait=SECONDS):
                assert session.valid_for > 0


def release_by_id(endpoint, acquisition):
    """What a server does with the place of a call whose connection it has lost."""
    body = json.dumps({"acquisition_id": str(acquisition.id), "session_id": str(acquisition.session_id)}).encode()
    with urllib.request.urlopen(f"http://{endpoint}/lease/v1/resources/release", body, timeout=SECONDS) as answer:
        assert json.load(answer)["released"]


def test_a_second_place_is_given_back_although_the_first_is_known(leased_server, prefix):
    """The first place was lost with its connection; nobody waits any more when the second is acquired."""
    queued = threading.Event()
    with Proxy(leased_server.endpoint) as proxy, lease.Client(leased_server.endpoint) as other:
        with lease.Client(proxy.endpoint, protocol=lease.Protocol.NATIVE) as client:
            session = client.session(ttl=600)
            hold = other.lock(prefix)
            pending = session.acquire_start(lease.wants(prefix), on_progress=lambda *_: queued.set())
            assert queued.wait(SECONDS)
            proxy.drop_clients()
            assert proxy.has_refused.wait(SECONDS)
            hold.release()
            first = other.resource(prefix).holders[0]
            release_by_id(leased_server.endpoint, first)
            proxy.let_pass()
            proxy.hold_back()
            wait_for(lambda: other.resource(prefix).holders, SECONDS, "it is acquired again")
            assert other.resource(prefix).holders[0].id != first.id
            pending.cancel()
            proxy.let_pass()
            with other.lock(prefix, wait=SECONDS / 4):
                assert session.valid_for > 0


def test_a_hold_limit_that_is_heard_of_late_is_no_longer(prefix):
    """Only durations count: the server's wall clock jumps meanwhile."""
    limit, late = 4, 1.5
    server = Server(KIND_LEASED)
    clock = FakeClock(server)
    with server, Proxy(server.endpoint) as proxy:
        with lease.Client(server.endpoint) as client, lease.Client(proxy.endpoint) as waiter:
            held, queued = client.lock(prefix), threading.Event()
            pending = waiter.session().acquire_start(
                lease.wants(prefix), hold_limit=limit, on_progress=lambda *_: queued.set()
            )
            assert queued.wait(SECONDS)
            clock.jump("+1d")
            proxy.hold_back()
            held.release()
            granted = time.monotonic()
            while time.monotonic() < granted + late:
                assert client.resource(prefix).holders[0].session_id != held.session.id
            proxy.let_pass()
            hold = pending.finish()
            left = hold.valid_for
            assert 0 < left <= limit - (time.monotonic() - granted)
