"""Lease on the wire: ids, TTLs, keep-alive streams, attachment."""
import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_ETCD
from harness.ops import delete_op, end_of, put_op
from harness.rpc import CALL_SECONDS, refused

NOT_FOUND = grpc.StatusCode.NOT_FOUND
LEASE_NOT_FOUND = "etcdserver: requested lease not found"

TTL_SECONDS = 600
TTL_SECONDS_MAX = 9_000_000_000
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


def ask_keep_alive(stream, lease_id):
    stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease_id))
    return stream.receive()


# Grant and revoke


def test_grant_without_an_id_gets_a_positive_one(rpc):
    first, second = rpc.grant(TTL_SECONDS), rpc.grant(TTL_SECONDS)
    assert first.ID > 0
    assert second.ID > 0
    assert first.ID != second.ID
    assert (first.TTL, first.error) == (TTL_SECONDS, "")
    rpc.revoke(first.ID)
    rpc.revoke(second.ID)


@pytest.mark.parametrize("lease_id", [1, -1, INT64_MIN, INT64_MAX, 0x7FFF0000])
def test_grant_with_a_chosen_id(rpc, at, lease_id):
    assert rpc.grant(TTL_SECONDS, lease_id).ID == lease_id
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: lease already exists"):
        rpc.grant(TTL_SECONDS, lease_id)
    rpc.put(at("k"), b"v", lease=lease_id)
    assert rpc.range(at("k")).kvs[0].lease == lease_id
    assert lease_id in rpc.leases()
    info = rpc.time_to_live(lease_id, keys=True)
    assert (info.ID, list(info.keys)) == (lease_id, [at("k")])
    with rpc.keep_alive() as stream:
        assert ask_keep_alive(stream, lease_id).ID == lease_id
    rpc.revoke(lease_id)
    assert lease_id not in rpc.leases()
    # The id is free again.
    assert rpc.grant(TTL_SECONDS, lease_id).ID == lease_id
    rpc.revoke(lease_id)


@pytest.mark.parametrize("ttl", [0, -1, INT64_MIN, 1])
def test_smallest_ttl(server, rpc, ttl):
    """1 s in leased, 1.5 election timeouts in etcd."""
    assert rpc.grant(ttl).TTL == (2 if server.kind == KIND_ETCD else 1)


def test_largest_ttl(rpc):
    longest = rpc.grant(TTL_SECONDS_MAX)
    assert longest.TTL == TTL_SECONDS_MAX
    rpc.revoke(longest.ID)
    for ttl in (TTL_SECONDS_MAX + 1, INT64_MAX):
        with refused(grpc.StatusCode.OUT_OF_RANGE, "etcdserver: too large lease TTL"):
            rpc.grant(ttl)


def test_grant_and_empty_revoke_take_no_revision(rpc):
    before = rpc.revision()
    granted = rpc.grant(TTL_SECONDS)
    assert granted.header.revision == before
    assert rpc.revoke(granted.ID).header.revision == before


def test_revoke_takes_one_revision_for_all_keys(rpc, at):
    lease = rpc.grant(TTL_SECONDS).ID
    for number in range(20):
        rpc.put(at(str(number)), lease=lease)
    before = rpc.revision()
    assert rpc.revoke(lease).header.revision == before + 1
    assert rpc.range(at(), end_of(at()), count_only=True).count == 0


def test_revoke_of_a_missing_lease(rpc):
    for lease_id in (987654321, 0, -987654321):
        with refused(NOT_FOUND, LEASE_NOT_FOUND):
            rpc.revoke(lease_id)


# TimeToLive and Leases


def test_time_to_live(rpc, at):
    lease = rpc.grant(TTL_SECONDS).ID
    for name in ("b", "a"):
        rpc.put(at(name), lease=lease)
    info = rpc.time_to_live(lease)
    # Cut to whole seconds, so it is never the full TTL again.
    assert TTL_SECONDS - 5 <= info.TTL < TTL_SECONDS
    assert (info.ID, info.grantedTTL, list(info.keys)) == (lease, TTL_SECONDS, [])
    assert sorted(rpc.time_to_live(lease, keys=True).keys) == [at("a"), at("b")]
    rpc.revoke(lease)


def test_time_to_live_of_a_missing_lease_is_no_error(rpc):
    for lease_id in (987654321, 0, -987654321):
        info = rpc.time_to_live(lease_id, keys=True)
        assert (info.ID, info.TTL, info.grantedTTL, len(info.keys)) == (lease_id, -1, 0, 0)
        assert info.header.revision == rpc.revision()


def test_leases_lists_what_is_granted(rpc):
    granted = [rpc.grant(TTL_SECONDS).ID for _ in range(3)]
    assert set(granted) <= set(rpc.leases())
    for lease in granted:
        rpc.revoke(lease)
    assert not set(granted) & set(rpc.leases())


# KeepAlive


def test_keep_alive_of_many_leases_on_one_stream(rpc):
    granted = [rpc.grant(TTL_SECONDS + number).ID for number in range(20)]
    with rpc.keep_alive() as stream:
        for lease in granted:
            stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
        answers = [stream.receive() for _ in granted]
        assert [answer.ID for answer in answers] == granted
        assert [answer.TTL for answer in answers] == [TTL_SECONDS + n for n in range(20)]
        assert all(answer.header.revision == rpc.revision() for answer in answers)
    for lease in granted:
        rpc.revoke(lease)


def test_keep_alive_of_a_missing_lease_is_no_error(rpc):
    lease = rpc.grant(TTL_SECONDS).ID
    with rpc.keep_alive() as stream:
        for missing in (987654321, 0, -987654321):
            answer = ask_keep_alive(stream, missing)
            assert (answer.ID, answer.TTL) == (missing, 0)
        # The stream is alive and serves others.
        assert ask_keep_alive(stream, lease).TTL == TTL_SECONDS
        rpc.revoke(lease)
        assert ask_keep_alive(stream, lease).TTL == 0


def test_keep_alive_stream_ends_well_when_half_closed(rpc):
    lease = rpc.grant(TTL_SECONDS).ID
    with rpc.keep_alive() as stream:
        stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
        stream.done_sending()
        assert stream.receive().TTL == TTL_SECONDS
        with pytest.raises(EOFError):
            stream.receive()
    rpc.revoke(lease)


def test_keep_alive_with_leader_metadata(rpc):
    lease = rpc.grant(TTL_SECONDS).ID
    with rpc.keep_alive(metadata=(("hasleader", "true"),)) as stream:
        assert ask_keep_alive(stream, lease).TTL == TTL_SECONDS
    rpc.revoke(lease)


# Attachment


def test_put_moves_a_key_from_lease_to_lease(rpc, at):
    one, two = rpc.grant(TTL_SECONDS).ID, rpc.grant(TTL_SECONDS).ID
    rpc.put(at("k"), b"v", lease=one)
    rpc.put(at("k"), b"v", lease=two)
    assert list(rpc.time_to_live(one, keys=True).keys) == []
    assert list(rpc.time_to_live(two, keys=True).keys) == [at("k")]
    rpc.revoke(one)
    assert rpc.range(at("k")).kvs[0].lease == two
    rpc.put(at("k"), b"v")
    assert list(rpc.time_to_live(two, keys=True).keys) == []
    rpc.revoke(two)
    assert rpc.range(at("k")).kvs[0].lease == 0


def test_delete_detaches(rpc, at):
    lease = rpc.grant(TTL_SECONDS).ID
    rpc.put(at("k"), lease=lease)
    rpc.delete(at("k"))
    assert list(rpc.time_to_live(lease, keys=True).keys) == []
    rpc.put(at("k"), b"free")
    before = rpc.revision()
    assert rpc.revoke(lease).header.revision == before
    assert rpc.range(at("k")).kvs[0].value == b"free"


def test_transactions_attach_and_detach(rpc, at):
    one, two = rpc.grant(TTL_SECONDS).ID, rpc.grant(TTL_SECONDS).ID
    rpc.txn(success=[put_op(at("a"), lease=one), put_op(at("b"), lease=one)])
    assert sorted(rpc.time_to_live(one, keys=True).keys) == [at("a"), at("b")]
    rpc.txn(success=[put_op(at("a"), lease=two), delete_op(at("b"))])
    assert list(rpc.time_to_live(one, keys=True).keys) == []
    assert list(rpc.time_to_live(two, keys=True).keys) == [at("a")]
    rpc.revoke(one)
    rpc.revoke(two)
    assert rpc.range(at(), end_of(at()), count_only=True).count == 0


# Expiry


def test_expiry_deletes_all_keys_in_one_revision_and_ends_the_lease(rpc, at):
    with rpc.watch() as stream:
        stream.create(at(), end_of(at()))
        lease = rpc.grant(2).ID
        for name in ("b", "a", "c"):
            rpc.put(at(name), lease=lease)
        assert len(stream.events(3)) == 3
        response = stream.receive(CALL_SECONDS)
        assert [(event.type, event.kv.key) for event in response.events] == [
            (1, at("a")),
            (1, at("b")),
            (1, at("c")),
        ]
        assert len({event.kv.mod_revision for event in response.events}) == 1
    assert rpc.time_to_live(lease).TTL == -1
    assert lease not in rpc.leases()
    with rpc.keep_alive() as stream:
        assert ask_keep_alive(stream, lease).TTL == 0
    with refused(NOT_FOUND, LEASE_NOT_FOUND):
        rpc.put(at("late"), lease=lease)
    # Its id may be taken again.
    rpc.grant(TTL_SECONDS, lease)
    rpc.revoke(lease)
