"""What only leased's own API can do: shared and several at once, pools, transfer, limits, history."""
import json
import threading
import urllib.request

import pytest

import lease
from harness import wait_for

SECONDS = 30.0


@pytest.fixture
def client(leased_server):
    with lease.Client(leased_server.endpoint, protocol=lease.Protocol.NATIVE) as opened:
        yield opened


@pytest.fixture
def other(leased_server):
    with lease.Client(leased_server.endpoint, protocol=lease.Protocol.NATIVE, owner="other") as opened:
        yield opened


def test_the_native_api_is_found(leased_server):
    with lease.Client(leased_server.endpoint) as client:
        client.connect()
        assert client.protocol == lease.Protocol.NATIVE


def test_milliseconds_count(client):
    with client.session(ttl=1.25) as session:
        assert session.ttl == 1.25
        assert session.valid_for <= 1.125


def test_shared_locks_are_shared(client, other, prefix):
    with client.lock(prefix, shared=True), other.lock(prefix, shared=True, wait=0):
        with client.session() as third, pytest.raises(lease.Busy):
            third.lock(prefix, wait=0)


def test_several_are_had_together_or_not_at_all(client, other, prefix):
    with client.lock(prefix + "b"):
        with pytest.raises(lease.Busy):
            other.lock(prefix + "a", prefix + "b", wait=0)
        with client.lock(prefix + "a", wait=0):
            pass
    with other.lock(prefix + "a", prefix + "b", wait=SECONDS) as both:
        assert sorted(both.acquisition.names) == [prefix + "a", prefix + "b"]


def test_slots_of_a_pool_are_reserved(client, other):
    client.pool_set("gpus", ["0", "1", "2"])
    with client.reserve("gpus", 2) as held:
        assert len({slot.slot for slot in held.slots}) == 2
        assert {slot.pool for slot in held.slots} == {"gpus"}
        with pytest.raises(lease.Busy):
            other.reserve("gpus", 2, wait=0)
        slots, _ = client.pool("gpus")
        assert sorted(slots) == ["0", "1", "2"]
        assert sum(owner is not None for owner in slots.values()) == 2
        with pytest.raises(lease.Error) as caught:
            client.pool_remove("gpus")
        assert caught.value.status == lease.Status.REFUSED
    client.pool_remove("gpus")
    with pytest.raises(lease.Error) as caught:
        client.pool("gpus")
    assert caught.value.status == lease.Status.NOT_FOUND


def test_a_lock_is_handed_to_a_named_successor(client, other, prefix):
    with other.session() as successor:
        hold = client.lock(prefix)
        hold.transfer(session_id=successor.id)
        assert hold.valid_for == 0
        holders = client.resource(prefix).holders
        assert [holder.session_id for holder in holders] == [successor.id]
        assert holders[0].token > hold.token


def test_a_refused_transfer_leaves_the_hold_as_it_was(client, other, prefix):
    with client.session() as session, other.session() as successor:
        hold = session.lock(prefix)
        for target in ({"session_id": 12345}, {"owner": "nobody"}):
            with pytest.raises(lease.Error) as caught:
                hold.transfer(**target)
            assert caught.value.status == lease.Status.REFUSED
            assert hold.valid_for > 0
        hold.transfer(session_id=successor.id)
        with pytest.raises(lease.Error):
            hold.transfer(session_id=successor.id)
        assert hold.valid_for == 0, "it is the successor's"


@pytest.mark.parametrize("what", ["transfer", "proclaim"])
def test_what_is_found_to_be_gone_is_not_valid(client, other, prefix, leased_server, what):
    with client.session() as session, other.session() as successor:
        hold = session.lock(prefix)
        request = {"acquisition_id": str(hold.acquisition.id), "session_id": str(session.id)}
        url = f"http://{leased_server.endpoint}/lease/v1/resources/release"
        with urllib.request.urlopen(url, json.dumps(request).encode()):
            pass  # by whoever knows both ids
        with pytest.raises(lease.Error) as caught:
            if what == "transfer":
                hold.transfer(session_id=successor.id)
            else:
                hold.proclaim("value")
        assert caught.value.status == lease.Status.NOT_FOUND
        assert hold.valid_for == 0


def test_a_hold_limit_ends_it_here_before_there(client, other, prefix):
    hold = client.session().lock(prefix, hold_limit=1)
    assert hold.valid_for <= 0.9
    with other.lock(prefix, wait=SECONDS):
        assert hold.valid_for == 0


def test_a_full_queue_refuses(client, other, prefix):
    with client.lock(prefix), client.session() as first, other.session() as second:
        placed = threading.Event()
        pending = first.acquire_start(lease.wants(prefix), on_progress=lambda *_: placed.set())
        assert placed.wait(SECONDS)
        with pytest.raises(lease.Error) as caught:
            second.lock(prefix, queue_limit=1)
        assert caught.value.status == lease.Status.QUEUE_FULL
        pending.cancel()


def test_a_session_changes_its_ttl(client):
    with client.session(ttl=30, strategy=lease.Strategy.EXPLICIT) as session:
        session.change(600)
        assert session.ttl == 600 and session.valid_for > 500
        session.change(20)
        assert session.ttl == 20 and 0 < session.valid_for <= 18
        session.renew()
        assert 0 < session.valid_for <= 18


def test_a_child_ends_with_its_parent(client, other, prefix):
    parent = client.session()
    child = other.session(parent_id=parent.id)
    child.lock(prefix)
    parent.end()
    with pytest.raises(lease.Lost):
        child.renew()
    assert child.valid_for == 0


def test_what_ended_is_told(client, other, prefix):
    with client.lock(prefix) as lock:
        pass
    session = other.session()
    revoked = session.lock(prefix)
    client.end_session(session.id)

    def ends():
        return [(end.reason, end.acquisition and end.acquisition.token) for end in client.why(prefix)]

    wait_for(lambda: len(ends()) >= 2, SECONDS, "both ends are known")
    assert ends()[1] == ("released", lock.token)
    assert ends()[0][1] == revoked.token


def test_changes_are_told_in_order(client, other, prefix):
    changes, seen = [], threading.Condition()

    def on_change(change, error):
        assert error is None, error
        with seen:
            changes.append(change)
            seen.notify_all()

    def told(kind):
        return [change for change in changes if change.type == kind]

    begin = client.resource(prefix).revision + 1
    with other.campaign(prefix, "a") as leader:
        leader.proclaim("b")
    with client.watch(prefix, on_change, start_revision=begin), seen:
        assert seen.wait_for(lambda: told(lease.ChangeType.ENDED), SECONDS), changes
    assert [change.acquisition.token for change in told(lease.ChangeType.ACQUIRED)] == [leader.token]
    assert [change.ended.reason for change in told(lease.ChangeType.ENDED)] == ["released"]
    revisions = [change.revision for change in changes]
    assert revisions == sorted(revisions)


def test_etcd_does_not_tell_changes(leased_server):
    told, is_told = [], threading.Event()

    def on_change(change, error):
        told.append((change, error.status))
        is_told.set()

    with lease.Client(leased_server.endpoint, protocol=lease.Protocol.ETCD) as etcd, etcd.watch("", on_change):
        assert is_told.wait(SECONDS)
    assert told == [(None, lease.Status.UNSUPPORTED)]
