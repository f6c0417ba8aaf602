"""Lock and Election on the wire: the queue, its ends, and the keys that the client libraries share with it."""
import os
import subprocess

import grpc
import pytest

from harness import KIND_ETCD
from harness.etcdctl import etcdctl_path
from harness.lock_messages import LeaderKey, Locks, told
from harness.ops import end_of
from harness.rpc import CALL_SECONDS, Rpc, refused
from harness.wait import wait_for

TTL_SECONDS = 600
UNKNOWN = grpc.StatusCode.UNKNOWN
EXPIRED = "mutex: session is expired"
LEASE_NOT_FOUND = "etcdserver: requested lease not found"


@pytest.fixture
def locks(rpc):
    return Locks(rpc.channel)


@pytest.fixture
def name(at):
    return at("lock")


@pytest.fixture
def only_leased(server):
    if server.kind == KIND_ETCD:
        pytest.skip("etcd does otherwise")


def queue_of(rpc, name):
    """The keys in order of their create revisions."""
    kvs = rpc.range(name + b"/", end_of(name + b"/")).kvs
    return [kv.key for kv in sorted(kvs, key=lambda kv: kv.create_revision)]


def wait_queue(rpc, name, n):
    return wait_for(lambda: len(queue_of(rpc, name)) == n, CALL_SECONDS, f"a queue of {n}")


def hex_key(name, lease):
    return name + b"/" + format(lease, "x").encode()


# Locks


def test_a_free_lock_is_a_key_of_the_lease(rpc, locks, name):
    lease = rpc.grant(TTL_SECONDS).ID
    answer = locks.lock(name, lease)
    kv = rpc.range(answer.key).kvs[0]
    assert answer.key == hex_key(name, lease)
    assert (kv.value, kv.version, kv.lease) == (b"", 1, lease)
    assert answer.header.revision == kv.create_revision
    locks.unlock(answer.key)
    assert queue_of(rpc, name) == []


@pytest.mark.parametrize("lease", [-5, -(2**63), 2**63 - 1])
def test_the_key_has_the_lease_in_hex_with_its_sign(rpc, locks, name, lease):
    rpc.grant(TTL_SECONDS, lease)
    assert locks.lock(name, lease).key == hex_key(name, lease)
    rpc.revoke(lease)


def test_without_a_lease_the_server_grants_one_of_a_minute(rpc, locks, name):
    key = locks.lock(name).key
    lease = rpc.range(key).kvs[0].lease
    assert key == hex_key(name, lease)
    assert rpc.time_to_live(lease).grantedTTL == 60
    rpc.revoke(lease)
    assert queue_of(rpc, name) == []


def test_locks_are_handed_over_in_order(rpc, locks, name):
    leases = [rpc.grant(TTL_SECONDS).ID for _ in range(5)]
    waiting = []
    for n, lease in enumerate(leases):
        waiting.append(locks.begin_lock(name, lease))
        wait_queue(rpc, name, n + 1)
    for n, lease in enumerate(leases):
        key = waiting[n].result(timeout=CALL_SECONDS).key
        assert key == hex_key(name, lease)
        assert not any(other.done() for other in waiting[n + 1 :])
        locks.unlock(key)


def test_a_lock_of_a_missing_lease_is_refused(locks, name):
    with refused(UNKNOWN, LEASE_NOT_FOUND):
        locks.lock(name, 4711)


def test_unlock_of_nothing(rpc, locks, name):
    before = rpc.revision()
    assert locks.unlock(name + b"/nobody").header.revision == before
    with refused(UNKNOWN, "etcdserver: key is not provided"):
        locks.unlock(b"")


def test_a_cancelled_waiter_leaves_nothing(rpc, locks, name):
    held = locks.lock(name).key
    lease = rpc.grant(TTL_SECONDS).ID
    waiting = locks.begin_lock(name, lease)
    wait_queue(rpc, name, 2)
    waiting.cancel()
    wait_queue(rpc, name, 1)
    assert queue_of(rpc, name) == [held]
    # Its lease is its own and stays.
    assert rpc.time_to_live(lease).TTL > 0
    locks.unlock(held)


def test_a_waiter_whose_deadline_passes_leaves_nothing(rpc, locks, name):
    held = locks.lock(name).key
    waiting = locks.begin_lock(name, timeout=0.5)
    assert told(waiting)[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_queue(rpc, name, 1)
    assert queue_of(rpc, name) == [held]
    locks.unlock(held)


def test_a_waiter_whose_connection_breaks_leaves_nothing(server, rpc, locks, name):
    held = locks.lock(name).key
    with Rpc(server) as other:
        waiting = Locks(other.channel).begin_lock(name)
        wait_queue(rpc, name, 2)
    wait_queue(rpc, name, 1)
    assert waiting.done()
    locks.unlock(held)


def test_the_lease_of_a_waiter_that_leaves_goes_with_it(rpc, locks, name, only_leased):
    """It was granted for the call alone."""
    held = locks.lock(name).key
    waiting = locks.begin_lock(name)
    wait_queue(rpc, name, 2)
    lease = rpc.range(queue_of(rpc, name)[1]).kvs[0].lease
    waiting.cancel()
    wait_for(lambda: rpc.time_to_live(lease).TTL == -1, CALL_SECONDS, "the end of the lease")
    locks.unlock(held)


def test_a_waiter_in_the_middle_leaves(rpc, locks, name):
    """Whoever is behind it waits for the one before it then."""
    held = locks.lock(name).key
    middle = locks.begin_lock(name)
    wait_queue(rpc, name, 2)
    last = locks.begin_lock(name)
    wait_queue(rpc, name, 3)
    middle.cancel()
    wait_queue(rpc, name, 2)
    assert not last.done()
    locks.unlock(held)
    locks.unlock(last.result(timeout=CALL_SECONDS).key)


def test_a_waiter_whose_lease_ends_is_told_at_once(rpc, locks, name, only_leased):
    """etcd tells it when its turn comes."""
    held = locks.lock(name).key
    lease = rpc.grant(TTL_SECONDS).ID
    waiting = locks.begin_lock(name, lease)
    wait_queue(rpc, name, 2)
    rpc.revoke(lease)
    assert told(waiting) == (UNKNOWN, EXPIRED)
    assert queue_of(rpc, name) == [held]
    locks.unlock(held)


def test_a_lock_that_is_held_is_locked_again_by_its_lease(rpc, locks, name):
    lease = rpc.grant(TTL_SECONDS).ID
    first, second = locks.lock(name, lease), locks.lock(name, lease)
    assert first.key == second.key
    assert first.header.revision == second.header.revision
    kv = rpc.range(first.key).kvs[0]
    assert (kv.create_revision, kv.version) == (first.header.revision, 1)
    locks.unlock(first.key)


def test_a_call_that_is_over_does_not_take_the_place_of_a_later_one(server, rpc, locks, name, only_leased):
    """A client lost its connection and asked again with the same lease: etcd ends both."""
    held = locks.lock(name).key
    lease = rpc.grant(TTL_SECONDS).ID
    with Rpc(server) as lost:
        first = Locks(lost.channel).begin_lock(name, lease)
        wait_queue(rpc, name, 2)
        again = locks.begin_lock(name, lease)
        wait_for(lambda: rpc.range(hex_key(name, lease)).kvs[0].version == 2, CALL_SECONDS, "a second call")
    assert first.done()
    # The server knows it as well when a withdrawal that came later is through.
    third = locks.begin_lock(name)
    wait_queue(rpc, name, 3)
    third.cancel()
    wait_queue(rpc, name, 2)
    locks.unlock(held)
    assert again.result(timeout=CALL_SECONDS).key == hex_key(name, lease)
    locks.unlock(hex_key(name, lease))


def test_unlock_with_a_stale_key_frees_nobody_else(rpc, locks, name):
    stale = locks.lock(name).key
    locks.unlock(stale)
    held = locks.lock(name).key
    locks.unlock(stale)
    assert queue_of(rpc, name) == [held]
    locks.unlock(held)


def test_unlock_with_a_revision_frees_that_hold_alone(rpc, locks, name, only_leased):
    """The same lease has locked again: the key is the same, its create revision is not."""
    lease = rpc.grant(TTL_SECONDS).ID
    stale = locks.lock(name, lease)
    locks.unlock(stale.key, revision=stale.header.revision)
    held = locks.lock(name, lease)
    locks.unlock(stale.key, revision=stale.header.revision)
    assert queue_of(rpc, name) == [held.key]
    locks.unlock(held.key, revision=held.header.revision)
    assert queue_of(rpc, name) == []


def test_unlock_takes_no_key_but_that_of_a_lock(rpc, locks, at, only_leased):
    lease = rpc.grant(TTL_SECONDS).ID
    for key in (at("plain"), at("leased"), hex_key(at("lock"), lease)):
        rpc.put(key, b"v", lease=lease if key == at("leased") else 0)
        locks.unlock(key)
        assert rpc.range(key).count == 1


def test_etcdctl_and_the_service_are_in_one_queue(server, rpc, locks, name, tmp_path):
    held = locks.lock(name).key
    done = tmp_path / "done"
    with subprocess.Popen(
        [etcdctl_path(), "--endpoints", server.endpoint, "lock", name.decode(), "--", "touch", str(done)],
        env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.DEVNULL,
    ) as etcdctl:  # fmt: skip
        wait_queue(rpc, name, 2)
        behind = locks.begin_lock(name)
        wait_queue(rpc, name, 3)
        assert not done.exists()
        locks.unlock(held)
        key = behind.result(timeout=CALL_SECONDS).key
        assert done.exists()
        assert etcdctl.wait(CALL_SECONDS) == 0
    locks.unlock(key)


# Elections


def test_an_election(rpc, locks, name):
    with refused(UNKNOWN, "election: no leader"):
        locks.leader(name)
    lease = rpc.grant(TTL_SECONDS).ID
    leader = locks.campaign(name, b"first", lease)
    assert (leader.name, leader.key, leader.lease) == (name, hex_key(name, lease), lease)
    kv = locks.leader(name)
    assert (kv.key, kv.value, kv.create_revision, kv.lease) == (leader.key, b"first", leader.rev, lease)
    locks.proclaim(leader, b"second")
    assert locks.leader(name).value == b"second"
    waiting = locks.begin_campaign(name, b"third")
    wait_queue(rpc, name, 2)
    assert locks.leader(name).value == b"second"
    locks.resign(leader)
    assert waiting.result(timeout=CALL_SECONDS).leader.key == locks.leader(name).key
    assert locks.leader(name).value == b"third"
    locks.resign(waiting.result().leader)


def test_a_stale_leadership_changes_nothing(rpc, locks, name):
    lease = rpc.grant(TTL_SECONDS).ID
    stale = locks.campaign(name, b"v", lease)
    locks.resign(stale)
    leader = locks.campaign(name, b"w", lease)
    assert leader.key == stale.key
    locks.resign(stale)
    with refused(UNKNOWN, "election: not leader"):
        locks.proclaim(stale, b"x")
    assert locks.leader(name).value == b"w"
    locks.resign(leader)


def test_campaign_again_changes_the_value(rpc, locks, name):
    lease = rpc.grant(TTL_SECONDS).ID
    first = locks.campaign(name, b"v", lease)
    again = locks.campaign(name, b"w", lease)
    assert (first.key, first.rev) == (again.key, again.rev)
    assert locks.leader(name).value == b"w"
    revision = rpc.revision()
    assert locks.campaign(name, b"w", lease).rev == first.rev
    assert rpc.revision() == revision
    locks.resign(again)


def test_refusals_of_an_election(rpc, locks, name):
    with refused(UNKNOWN, LEASE_NOT_FOUND):
        locks.campaign(name, b"v", 4711)
    for method in ("Proclaim", "Resign"):
        with refused(UNKNOWN, '"leader" field must be provided'):
            locks.call("Election", method)
    leader = locks.campaign(name, b"v")
    with refused(UNKNOWN, LEASE_NOT_FOUND):
        locks.proclaim(LeaderKey(name=name, key=leader.key, rev=leader.rev, lease=4711), b"w")
    with refused(UNKNOWN, "etcdserver: key is not provided"):
        locks.proclaim(LeaderKey(name=name, lease=leader.lease), b"w")
    locks.resign(leader)


def test_a_candidate_whose_lease_ends_is_told_at_once(rpc, locks, name, only_leased):
    """etcd tells it later, and then that it leads."""
    leader = locks.campaign(name, b"v")
    lease = rpc.grant(TTL_SECONDS).ID
    waiting = locks.begin_campaign(name, b"w", lease)
    wait_queue(rpc, name, 2)
    rpc.revoke(lease)
    assert told(waiting) == (UNKNOWN, "election: not leader")
    locks.resign(leader)


def test_observe_tells_of_leaders_and_what_they_proclaim(rpc, locks, name):
    stream = locks.observe(name)
    leader = locks.campaign(name, b"a")
    assert next(stream).kv.value == b"a"
    for value in (b"b", b"c"):
        locks.proclaim(leader, value)
        assert next(stream).kv.value == value
    waiting = locks.begin_campaign(name, b"d")
    wait_queue(rpc, name, 2)
    locks.resign(leader)
    heard = next(stream)
    assert heard.kv.value == b"d"
    assert heard.kv.create_revision == waiting.result(timeout=CALL_SECONDS).leader.rev
    stream.cancel()
    locks.resign(waiting.result().leader)
