"""Clients and sessions are closed while other threads use them, and programs end with objects that are still open."""
import os
import subprocess
import sys
import threading

import pytest

import lease
from harness import KIND_LEASED, Server, wait_for

SECONDS = 30.0
N_ROUNDS = 5


def wait_in_thread(function):
    """Calls it in a thread; gives the thread and a list that gets its exception."""
    ends = []

    def run():
        try:
            ends.append(function())
        except lease.Error as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


@pytest.mark.parametrize("how", ["lock", "campaign"])
@pytest.mark.parametrize("what", ["client", "session"])
def test_whoever_waits_is_told_when_it_is_closed(any_server, prefix, how, what):
    with lease.Client(any_server.endpoint) as holder, holder.lock(prefix):
        for _ in range(N_ROUNDS):
            with lease.Client(any_server.endpoint) as client:
                session = client.session()
                acquire = session.lock if how == "lock" else lambda name, own=session: own.campaign(name, "value")
                thread, ends = wait_in_thread(lambda wait=acquire: wait(prefix))
                wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 1, SECONDS, "it waits")
                if what == "client":
                    client.close()
                else:
                    session.end()
                thread.join(SECONDS)
                assert isinstance(ends[0], lease.Error)
                wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 0, SECONDS, "it left the queue")


def test_a_thread_that_waits_for_instances_is_told(leased_server):
    """No server answers, so that there is nothing that ends the wait."""
    client = lease.Client("127.0.0.1:1")
    waits = [client.service("nothing").wait, client.discover("/nothing").wait]
    threads = [wait_in_thread(wait) for wait in waits]
    idents = {thread.ident for thread, _ in threads}
    wait_for(lambda: idents <= set(client._calls._by_thread), SECONDS, "both wait")
    client.close()
    for thread, ends in threads:
        thread.join(SECONDS)
        assert isinstance(ends[0], lease.Error)


def test_threads_that_lock_and_release_survive_a_close(leased_server, prefix):
    for _ in range(N_ROUNDS):
        with lease.Client(leased_server.endpoint) as client:
            has_locked = threading.Event()

            def work(client=client, has_locked=has_locked):
                while True:
                    with client.lock(f"{prefix}-{threading.get_ident()}") as hold:
                        has_locked.set()
                        assert hold.valid_for >= 0

            threads = [wait_in_thread(work) for _ in range(3)]
            assert has_locked.wait(SECONDS)
            client.close()
            for thread, ends in threads:
                thread.join(SECONDS)
                assert isinstance(ends[0], lease.Error)


def test_a_registration_ends_with_its_client(leased_server, prefix):
    client = lease.Client(leased_server.endpoint)
    registration = client.register(prefix, "127.0.0.1", 1)
    client.close()
    with pytest.raises(lease.Error):
        registration.deregister()


def test_a_session_that_is_being_ended_is_not_closed_under_its_call():
    """The server does not answer: end() waits."""
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint, request_timeout=1) as client:
        session = client.session()
        server.pause()
        thread, ends = wait_in_thread(session.end)
        wait_for(lambda: session._calls.is_closing, SECONDS, "it is being ended")
        client.close()
        has_ended = list(ends)
        server.resume()
        thread.join(SECONDS)
        assert isinstance(has_ended[0], lease.Timeout)


def test_a_callback_closes_while_another_thread_waits_for_a_silent_server(prefix):
    with Server(KIND_LEASED) as server:
        client = lease.Client(server.endpoint, request_timeout=1)
        is_closed = threading.Event()

        def on_event(_session, event, _reason):
            if event == lease.Event.LOST:
                client.close()
                is_closed.set()

        short = client.session(ttl=1, on_event=on_event)
        hold = client.session(ttl=60).lock(prefix)

        def release():
            while not is_closed.is_set():
                try:
                    hold.release()
                except lease.Timeout:
                    pass

        server.pause()
        thread, _ = wait_in_thread(release)
        has_closed = is_closed.wait(SECONDS)
        server.resume()
        thread.join(SECONDS)
        assert has_closed and short.valid_for == 0


def test_a_callback_closes_while_another_thread_ends_its_session():
    """Whoever ends the session waits for the callback, which must not wait for it."""
    with Server(KIND_LEASED) as server:
        client = lease.Client(server.endpoint, request_timeout=1)
        is_lost, is_closed = threading.Event(), threading.Event()

        def on_event(session, event, _reason):
            if event == lease.Event.LOST:
                is_lost.set()
                wait_for(lambda: session._calls.is_closing, SECONDS, "it is being ended")
                client.close()
                is_closed.set()

        session = client.session(ttl=1, on_event=on_event)
        server.pause()
        assert is_lost.wait(SECONDS)
        thread, ends = wait_in_thread(session.end)
        has_closed = is_closed.wait(SECONDS)
        server.resume()
        thread.join(SECONDS)
        assert has_closed and len(ends) == 1
        wait_for(lambda: not client._handle.alive, SECONDS, "it is closed")


WATCHES = {
    "observe": lambda client, name, tell: client.observe(name, tell),
    "watch": lambda client, name, tell: client.watch(name, tell),
    "discover": lambda client, name, tell: client.discover(name, tell),
    "service": lambda client, name, tell: client.service(name, on_change=tell),
}


@pytest.mark.parametrize("kind", WATCHES)
def test_a_watch_that_is_being_closed_is_not_freed_under_its_call(leased_server, prefix, kind):
    """Its callback runs, so that whoever closes it waits."""
    is_told, may_go = threading.Event(), threading.Event()

    def tell(*_):
        is_told.set()
        may_go.wait(SECONDS)

    client = lease.Client(leased_server.endpoint)
    watch = WATCHES[kind](client, prefix, tell)
    with client.lock(prefix):
        assert is_told.wait(SECONDS)
    order = []
    closing, _ = wait_in_thread(lambda: (watch.close(), order.append("watch")))
    wait_for(lambda: not watch._handle.alive, SECONDS, "it is being closed")
    ending, _ = wait_in_thread(lambda: (client.close(), order.append("client")))
    wait_for(lambda: client._calls.is_closing, SECONDS, "the client is being closed")
    ending.join(0.2)
    was_closed = not client._handle.alive
    may_go.set()
    for thread in (closing, ending):
        thread.join(SECONDS)
    assert not was_closed and sorted(order) == ["client", "watch"]


def test_a_wait_that_is_being_closed_is_not_freed_under_its_call(leased_server, prefix, monkeypatch):
    """Another thread closes it after the session has looked for calls."""
    is_closing, may_go = threading.Event(), threading.Event()
    closing = []

    def destroy_slowly(value, destroy=lease.library.lease_wait_destroy):
        is_closing.set()
        may_go.wait(SECONDS)
        destroy(value)

    monkeypatch.setattr(lease.library, "lease_wait_destroy", destroy_slowly)
    client = lease.Client(leased_server.endpoint)
    session = client.session()
    pending = session.acquire_start(lease.wants(prefix))

    def close_calls(close=session._calls.close):
        close()
        if not closing:
            closing.append(wait_in_thread(pending.close)[0])
            assert is_closing.wait(SECONDS)

    monkeypatch.setattr(session._calls, "close", close_calls)
    ending, _ = wait_in_thread(client.close)
    assert is_closing.wait(SECONDS)
    ending.join(0.2)
    was_freed = not session._handle.alive
    may_go.set()
    for thread in (closing[0], ending):
        thread.join(SECONDS)
    assert not was_freed and not session._handle.alive


PROGRAM = """
import sys
import lease

client = lease.Client(sys.argv[1])
registration = client.register(sys.argv[2], "127.0.0.1", 1)
service = client.service(sys.argv[2])
directory = client.discover("/")
service.wait(30)
hold = client.lock(sys.argv[2])
print("ready")
"""


def test_a_program_may_end_with_everything_open(leased_server, prefix):
    path = os.path.dirname(os.path.dirname(lease.__file__))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, leased_server.endpoint, prefix], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ready\n", "")


DAEMONS = """
import sys
import threading
import lease

client = lease.Client(sys.argv[1])
hold = client.lock(sys.argv[2])
has_locked = threading.Event()

def work():
    try:
        while True:
            with client.lock(f"{sys.argv[2]}-{threading.get_ident()}"):
                has_locked.set()
    except lease.Error:
        pass

def wait():
    try:
        client.session().lock(sys.argv[2])
    except lease.Error:
        pass

for run in (work, wait, work):
    threading.Thread(target=run, daemon=True).start()
has_locked.wait()
"""


def test_a_program_may_end_while_daemon_threads_lock(leased_server, prefix):
    path = os.path.dirname(os.path.dirname(lease.__file__))
    for _ in range(N_ROUNDS):
        ended = subprocess.run(
            [sys.executable, "-c", DAEMONS, leased_server.endpoint, prefix + os.urandom(4).hex()],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
