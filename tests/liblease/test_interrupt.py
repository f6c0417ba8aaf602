"""A signal interrupts whoever waits for a lock, and leaves nothing held or queued."""
import _weakrefset
import contextlib
import os
import signal
import sys
import threading

import pytest

import lease
from harness import wait_for

SECONDS = 30.0


class Interrupted(BaseException):
    """What the handler of the signal raises, as that of SIGINT raises KeyboardInterrupt."""


@pytest.fixture
def send_signal():
    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture(params=["lock", "campaign"])
def acquire(request):
    """The way with one call of the library, and that with several."""
    if request.param == "lock":
        return lambda session, name: session.lock(name)
    return lambda session, name: session.campaign(name, "value")


def test_who_waits_is_interrupted_and_leaves_the_queue(any_server, prefix, acquire, send_signal):
    with lease.Client(any_server.endpoint) as holder, lease.Client(any_server.endpoint) as client:
        session = client.session(ttl=600)
        with holder.lock(prefix) as hold:

            def interrupt():
                wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 1, SECONDS, "it waits")
                send_signal()

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(Interrupted):
                acquire(session, prefix)
            thread.join()
            wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 0, SECONDS, "it left the queue")
            assert hold.valid_for > 0
        session.end()


def test_a_lock_that_is_granted_with_the_signal_is_given_back(any_server, prefix, acquire, send_signal):
    with lease.Client(any_server.endpoint) as holder, lease.Client(any_server.endpoint) as client:
        session = client.session(ttl=600)
        hold = holder.lock(prefix)

        def interrupt():
            wait_for(lambda: holder.resource(prefix, waiters=1).waiting == 1, SECONDS, "it waits")
            send_signal()
            hold.release()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(Interrupted):
            acquire(session, prefix)
        thread.join()
        with holder.lock(prefix, wait=SECONDS):
            assert session.valid_for > 0
        session.end()


def test_a_long_wait_keeps_its_place(any_server, prefix, acquire, monkeypatch):
    monkeypatch.setattr(lease, "_SLICE_MS", 1)
    order = []

    def wait(number, client):
        with client.session() as session, acquire(session, prefix):
            order.append(number)

    with lease.Client(any_server.endpoint) as holder, lease.Client(any_server.endpoint) as client:
        threads = [threading.Thread(target=wait, args=(number, client)) for number in range(3)]
        with holder.lock(prefix):
            for number, thread in enumerate(threads):
                thread.start()
                wait_for(lambda: holder.resource(prefix, waiters=3).waiting == number + 1, SECONDS, "it waits")  # noqa: B023
        for thread in threads:
            thread.join(SECONDS)
    assert order == [0, 1, 2]


def test_a_limit_is_kept_whatever_the_slices(any_server, prefix, monkeypatch):
    monkeypatch.setattr(lease, "_SLICE_MS", 1)
    with lease.Client(any_server.endpoint) as holder, lease.Client(any_server.endpoint) as client:
        with holder.lock(prefix), client.session() as session:
            with pytest.raises(lease.Timeout):
                session.lock(prefix, wait=0.1)
            with pytest.raises(lease.Busy):
                session.lock(prefix, wait=0)


class SignalAfterGrant:
    """A signal that is handled at the n-th occasion after the library has granted: where a function of Python begins, and
    after a function of C. Python looks for signals there."""

    NAMES = ["lease_lock_within", "lease_wait_finish"]

    def __init__(self, monkeypatch):
        self.n_left = 0
        for name in self.NAMES:
            monkeypatch.setattr(lease.library, name, self._wrapped(getattr(lease.library, name)))

    def _wrapped(self, function):
        def run(*arguments):
            status = function(*arguments)
            if status == lease.Status.OK and self.n_left:
                sys.setprofile(self._count)
            return status

        return run

    def _count(self, frame, event, _argument):
        code = frame.f_code
        is_ignored = code.co_filename in (__file__, _weakrefset.__file__) or code.co_name == "__del__"
        if event in ("call", "c_return") and not is_ignored:  # Python ignores what is raised in finalizers
            self.n_left -= 1
            if not self.n_left:
                sys.setprofile(None)
                raise Interrupted


def enter_as_block(client, name):
    with client.lock(name):
        sys.setprofile(None)


def enter_in_stack(client, name):
    with contextlib.ExitStack() as stack:
        hold = client.campaign(name, "value")
        sys.setprofile(None)
        stack.enter_context(hold)


@pytest.mark.parametrize("enter", [enter_as_block, enter_in_stack])
@pytest.mark.parametrize("waits", [False, True])
def test_whenever_the_signal_comes_after_the_grant_nothing_is_held(leased_server, prefix, monkeypatch, enter, waits):
    monkeypatch.setattr(lease, "_SLICE_MS", 20)
    with lease.Client(leased_server.endpoint) as other, lease.Client(leased_server.endpoint) as client:
        moment = SignalAfterGrant(monkeypatch)
        for n_before in range(1, 1000):
            held = other.lock(prefix, wait=SECONDS)
            if waits:
                timer = threading.Timer(0.05, held.release)
                timer.start()
            else:
                held.release()
            moment.n_left = n_before
            try:
                enter(client, prefix)
                break
            except Interrupted:
                moment.n_left = 0
            finally:
                if waits:
                    timer.join()
        assert n_before > 1 and moment.n_left
        closing = threading.Thread(target=client.close, daemon=True)
        closing.start()
        closing.join(SECONDS)
        assert not closing.is_alive()


BEGINNINGS = {
    "a session": ("_sessions", "lease_session_destroy", lambda client, _session, _name: client.session()),
    "a wait": ("_pendings", "lease_wait_destroy", lambda _client, session, name: session.campaign(name, "value")),
    "a watch": ("_watches", "lease_watch_destroy", lambda client, _session, name: client.observe(name, print)),
}


@pytest.mark.parametrize("what", BEGINNINGS)
def test_a_signal_before_it_is_noted_leaves_nothing_begun(leased_server, prefix, monkeypatch, what):
    noted_in, destroy, begin = BEGINNINGS[what]
    destroyed = []

    class Interrupting(set):
        def add(self, _owner):
            raise Interrupted

    def counted(value, destroy=getattr(lease.library, destroy)):
        destroyed.append(value)
        destroy(value)

    with lease.Client(leased_server.endpoint) as client, client.session() as session:
        owner = session if noted_in == "_pendings" else client
        with monkeypatch.context() as patch:
            patch.setattr(lease.library, destroy, counted)
            patch.setattr(owner, noted_in, Interrupting())
            with pytest.raises(Interrupted) as kept:
                begin(client, session, prefix)
            assert kept and len(destroyed) == 1  # while what refers to it is kept, with the exception
