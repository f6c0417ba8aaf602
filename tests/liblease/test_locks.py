"""Locks and elections through liblease, against etcd and leased."""
import os
import pathlib
import subprocess
import sys
import threading

import pytest

import lease
from harness import PROJECT_ROOT, wait_for
from proxy import Proxy

SECONDS = 30.0


@pytest.fixture
def client(any_server):
    with lease.Client(any_server.endpoint) as opened:
        yield opened


@pytest.fixture
def other(any_server):
    with lease.Client(any_server.endpoint) as opened:
        yield opened


def in_background(function):
    """Gives (thread, results)."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    return thread, results


def test_a_lock_is_had_with_a_token_and_time(client, prefix):
    with client.lock(prefix) as lock:
        assert lock.token > 0
        assert 0 < lock.valid_for <= 15 * 0.9
        assert lock.session.ttl == 15
        holders = client.resource(prefix).holders
        assert [holder.token for holder in holders] == [lock.token]
    assert lock.valid_for == 0
    wait_for(lambda: client.resource(prefix).holders == [], SECONDS, "it was given back")


def test_somebody_elses_lock_is_busy(client, other, prefix):
    with client.lock(prefix) as lock:
        with pytest.raises(lease.Busy):
            other.lock(prefix, wait=0)
        with pytest.raises(lease.Timeout):
            other.lock(prefix, wait=0.2)
        assert [holder.token for holder in client.resource(prefix).holders] == [lock.token]
        wait_for(lambda: client.resource(prefix).waiting == 0, SECONDS, "whoever gave up has left the queue")


def test_who_gave_up_may_ask_again_at_once(client, other, prefix):
    with client.lock(prefix), other.session() as session:
        for _ in range(10):
            with pytest.raises(lease.Timeout):
                session.lock(prefix, wait=0.003)


def test_a_lock_is_handed_over_in_order(any_server, client, prefix):
    order, clients, threads = [], [], []
    with client.lock(prefix) as lock:
        for number in range(3):
            clients.append(lease.Client(any_server.endpoint))
            placed = threading.Event()

            def wait(number=number, waiter=clients[-1], placed=placed):
                with waiter.lock(prefix, wait=SECONDS, on_progress=lambda *_: placed.set()) as own:
                    order.append((number, own.token))

            threads.append(threading.Thread(target=wait, daemon=True))
            threads[-1].start()
            assert placed.wait(SECONDS)
        assert client.resource(prefix).waiting == 3
        first = lock.token
    for thread in threads:
        thread.join(SECONDS)
    assert [number for number, _ in order] == [0, 1, 2]
    tokens = [first] + [token for _, token in order]
    assert tokens == sorted(set(tokens))
    for each in clients:
        each.close()


def test_progress_tells_place_and_holder(client, other, prefix):
    told = []
    with client.lock(prefix) as lock:
        placed = threading.Event()

        def on_progress(*words):
            told.append(words)
            placed.set()

        thread, results = in_background(lambda: other.lock(prefix, wait=SECONDS, on_progress=on_progress))
        assert placed.wait(SECONDS)
    thread.join(SECONDS)
    position, holders, _remaining = told[0]
    assert position == 1
    assert [holder.token for holder in holders] == [lock.token]
    results[0].release()


def test_a_wait_is_cancelled_from_another_thread(client, other, prefix):
    with client.lock(prefix):
        placed = threading.Event()
        session = other.session()
        pending = session.acquire_start(lease.wants(prefix), on_progress=lambda *_: placed.set())
        assert placed.wait(SECONDS)
        pending.cancel()
        with pytest.raises(lease.Error) as caught:
            pending.finish()
        assert caught.value.status == lease.Status.CANCELED
    # Nobody is left in the queue who could get it now.
    with client.lock(prefix, wait=SECONDS):
        pass
    session.end()


def test_the_end_of_a_session_gives_all_back(client, other, prefix):
    session = client.session()
    hold = session.lock(prefix)
    assert session.state == lease.State.VALID
    session.end()
    assert session.state == lease.State.ENDED
    assert hold.valid_for == 0
    with other.lock(prefix, wait=SECONDS) as own:
        assert own.token > hold.token


def test_a_session_that_was_revoked_is_lost(client, other, prefix):
    events, lost = [], threading.Event()

    def on_event(_session, event, _reason):
        events.append(event)
        lost.set()

    session = client.session(on_event=on_event)
    session.lock(prefix)
    other.end_session(session.id)
    with pytest.raises(lease.Lost):
        session.renew()
    assert lost.wait(SECONDS)
    assert events == [lease.Event.LOST]
    assert session.valid_for == 0
    with pytest.raises(lease.Lost):
        session.lock(prefix)


def test_an_explicit_session_is_renewed_by_hand(client):
    session = client.session(ttl=60, strategy=lease.Strategy.EXPLICIT)
    before = session.valid_for
    session.renew()
    assert 0 < before <= session.valid_for + 60
    session.end()


def test_observers_see_leaders_and_their_values(client, other, prefix):
    values, seen = [], threading.Condition()

    def on_change(resource, error):
        assert error is None
        with seen:
            values.append([holder.value for holder in resource.holders])
            seen.notify_all()

    def wait_value(value):
        with seen:
            assert seen.wait_for(lambda: value in values, SECONDS), values

    with client.observe(prefix, on_change):
        wait_value([])
        with other.campaign(prefix, "one:1") as leader:
            wait_value(["one:1"])
            leader.proclaim("two:2")
            wait_value(["two:2"])
    assert values[0] == []


def test_a_fence_refuses_an_older_token(client, prefix):
    assert client.fence(prefix) == 0
    assert client.fence_check(prefix, 7) == 7
    assert client.fence_check(prefix, 7) == 7
    assert client.fence_check(prefix, 10) == 10
    with pytest.raises(lease.Stale) as caught:
        client.fence_check(prefix, 9)
    assert caught.value.highest == 10
    assert client.fence(prefix) == 10


def test_wrong_arguments_are_told(client):
    for wrong in ("", "x" * 257):
        with pytest.raises(lease.Error) as caught:
            client.lock(wrong)
        assert caught.value.status == lease.Status.INVALID
    with pytest.raises(lease.Error) as caught:
        lease.Client("not an endpoint")
    assert "endpoint" in str(caught.value)


def test_what_is_closed_refuses_and_a_program_ends(any_server, prefix):
    program = f"""
import lease
client = lease.Client("{any_server.endpoint}")
hold = client.lock("{prefix}")
pending = client.session().acquire_start(lease.wants("{prefix}"))
client.close()
for used in (pending.finish, pending.session.renew, client.connect):
    try:
        used()
    except lease.Error as error:
        assert error.status == lease.Status.INVALID
    else:
        raise AssertionError(used)
assert hold.valid_for == 0
left_open = lease.Client("{any_server.endpoint}")
left_open.lock("{prefix}")
"""
    path = os.path.dirname(os.path.dirname(lease.__file__))
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, check=True, timeout=SECONDS)


def test_a_client_that_is_collected_in_its_own_callback_is_closed(leased_server):
    program = pathlib.Path(__file__).with_name("collected.py")
    done = subprocess.run([sys.executable, str(program), leased_server.endpoint, "collected"], capture_output=True, text=True,
                          timeout=100, check=False, env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT / "python")})  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def test_the_end_of_a_with_block_does_not_wait_for_the_answer(leased_server, prefix):
    with Proxy(leased_server.endpoint) as proxy, lease.Client(proxy.endpoint, request_timeout=SECONDS) as client:
        with client.lock(prefix) as lock:
            proxy.hold_back()
        assert lock.valid_for == 0
        with lease.Client(leased_server.endpoint) as other, other.lock(prefix, wait=SECONDS) as next_lock:
            assert next_lock.token > lock.token
        proxy.let_pass()


def test_who_left_a_with_block_can_have_the_lock_again_at_once(client, prefix):
    tokens = []
    for _ in range(100):
        with client.lock(prefix, wait=0) as lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


def test_a_with_block_whose_lock_was_lost_says_nothing_of_another(client, other, prefix):
    with client.lock(prefix) as lock:
        lock.session.end()
        assert lock.valid_for == 0
        held = other.lock(prefix, wait=SECONDS)
    assert other.resource(prefix).holders[0].token == held.token
    held.release()
