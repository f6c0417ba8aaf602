"""What is given back while no server can be reached is given back later, also when the session goes on living."""
import contextlib
import threading

import pytest

import lease
from harness import wait_for
from proxy import Proxy

SECONDS = 20.0
REQUEST_SECONDS = 0.3
# A proxy that refuses takes a connection before it closes it: a request may have been sent on it.
NOT_REACHED = (lease.Status.UNAVAILABLE, lease.Status.TIMEOUT)


@contextlib.contextmanager
def clients_of(server):
    """A client behind a proxy, the proxy, and a client beside it."""
    with Proxy(server.endpoint) as proxy, lease.Client(server.endpoint) as other:
        with lease.Client(proxy.endpoint, request_timeout=REQUEST_SECONDS) as client:
            client.connect()
            yield client, proxy, other


@pytest.fixture
def clients(any_server):
    with clients_of(any_server) as each:
        yield each


@pytest.fixture
def native_clients(leased_server):
    """What etcd cannot do."""
    with clients_of(leased_server) as each:
        yield each


def outlast_a_request(client):
    """Whatever was asked before has had the time of a request when this one has."""
    with pytest.raises(lease.Error) as caught:
        client.resource("nothing")
    assert caught.value.status in NOT_REACHED


def test_a_hold_that_was_released_in_an_outage(clients, prefix):
    client, proxy, other = clients
    session = client.session(ttl=600)
    hold = session.lock(prefix)
    proxy.drop_clients()
    with pytest.raises(lease.Error) as caught:
        hold.release()
    assert caught.value.status in NOT_REACHED
    assert hold.valid_for == 0
    outlast_a_request(client)
    proxy.let_pass()
    with other.lock(prefix, wait=SECONDS):
        assert session.valid_for > 0


def test_a_transfer_after_a_release_without_an_answer_does_not_make_it_valid(native_clients, prefix):
    client, proxy, other = native_clients
    hold = client.session(ttl=600).lock(prefix)
    proxy.drop_clients()
    with pytest.raises(lease.Error) as caught:
        hold.release()
    assert caught.value.status in NOT_REACHED
    proxy.let_pass()
    with other.session(ttl=600).lock(prefix, wait=SECONDS) as next_hold:
        with pytest.raises(lease.Error):
            hold.transfer(session_id=next_hold.session.id)
        assert hold.valid_for == 0


def test_release_asks_again_after_an_outage(clients, prefix):
    client, proxy, other = clients
    hold = client.session(ttl=600).lock(prefix)
    proxy.drop_clients()
    for _ in range(2):
        with pytest.raises(lease.Error) as caught:
            hold.release()
        assert caught.value.status in NOT_REACHED
    proxy.let_pass()
    try:
        hold.release()
    except lease.Error as error:  # the library itself was faster
        assert error.status == lease.Status.NOT_FOUND
    assert other.resource(prefix).holders == []
    hold.release()  # nothing is left to do


@pytest.mark.parametrize("ends", ["by its limit", "by cancel"])
def test_a_place_in_the_queue_that_was_left_in_an_outage(clients, prefix, ends):
    client, proxy, other = clients
    session = client.session(ttl=600)
    is_queued = threading.Event()
    with other.session(ttl=600).lock(prefix):
        pending = session.acquire_start(
            lease.wants(prefix), wait=REQUEST_SECONDS if ends == "by its limit" else None,
            on_progress=lambda *_: is_queued.set(),
        )  # fmt: skip
        assert is_queued.wait(SECONDS)
        proxy.drop_clients()
        assert proxy.has_refused.wait(SECONDS)
        if ends == "by cancel":
            pending.cancel()
        with pytest.raises(lease.Error):
            pending.finish()
        outlast_a_request(client)
        proxy.let_pass()
    with other.session(ttl=600).lock(prefix, wait=SECONDS):
        assert session.valid_for > 0


def test_an_acquisition_without_an_answer_that_was_left_in_an_outage(clients, prefix):
    client, proxy, other = clients
    session = client.session(ttl=600)
    proxy.mute()
    pending = session.acquire_start(lease.wants(prefix))
    wait_for(lambda: other.resource(prefix).holders, SECONDS, "it is acquired")
    proxy.drop_clients()
    assert proxy.has_refused.wait(SECONDS)
    pending.cancel()
    outlast_a_request(client)
    proxy.let_pass()
    with other.session(ttl=600).lock(prefix, wait=SECONDS):
        assert session.valid_for > 0


def test_a_session_that_was_ended_in_an_outage_does_not_keep_the_connection_busy(clients, prefix):
    client, proxy, _other = clients
    session = client.session(ttl=600)
    hold = session.lock(prefix)
    proxy.drop_clients()
    with pytest.raises(lease.Error):
        hold.release()
    with pytest.raises(lease.Error):
        session.end()
    outlast_a_request(client)
    proxy.has_refused.clear()
    assert not proxy.has_refused.wait(2), "nothing is to be said any more, and it still connects"
