"""Debian's python3-etcd3, unchanged, against both servers."""
import io
import queue
import threading
import time

import etcd3
import grpc
import pytest

CALL_SECONDS = 10
# Long enough that nothing expires by itself, short enough to tell from "for ever".
LONG_TTL_SECONDS = 600
# etcd's smallest; it looks for expired leases only every half second.
SHORT_TTL_SECONDS = 2
EXPIRY_SECONDS = 8

# The client's watch thread tries once more on the channel that close() has ended.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def connect(server):
    """Makes clients and closes them afterwards."""
    clients = []

    def make():
        client = etcd3.client(host="127.0.0.1", port=server.client_port, timeout=CALL_SECONDS)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    return connect()


def revision_of(client):
    return client.get_response("~nothing").header.revision


def status_of(error_info):
    return error_info.value.code(), error_info.value.details()


# Keys


def test_get_of_a_missing_key_gives_nothing(client, prefix):
    assert client.get(prefix + "missing") == (None, None)


def test_put_then_get_gives_value_and_metadata(client, prefix):
    put = client.put(prefix + "k", "value")
    value, meta = client.get(prefix + "k")
    assert value == b"value"
    assert meta.key == (prefix + "k").encode()
    assert meta.create_revision == meta.mod_revision == put.header.revision
    assert meta.version == 1
    assert meta.lease_id == 0
    assert meta.response_header.revision == put.header.revision


def test_put_with_prev_kv_gives_what_was_there(client, prefix):
    assert not client.put(prefix + "k", "one", prev_kv=True).HasField("prev_kv")
    previous = client.put(prefix + "k", "two", prev_kv=True).prev_kv
    assert (previous.value, previous.version) == (b"one", 1)


def test_binary_keys_and_values_survive(client, prefix):
    key = prefix.encode() + bytes(range(256))
    client.put(key, bytes(range(255, -1, -1)))
    value, meta = client.get(key)
    assert value == bytes(range(255, -1, -1))
    assert meta.key == key


def test_serializable_get_sees_the_last_put(client, prefix):
    client.put(prefix + "k", "v")
    assert client.get(prefix + "k", serializable=True)[0] == b"v"


def test_delete_tells_whether_there_was_something(client, prefix):
    client.put(prefix + "k", "v")
    assert client.delete(prefix + "k") is True
    assert client.delete(prefix + "k") is False
    assert client.get(prefix + "k") == (None, None)


def test_delete_gives_the_deleted_pair(client, prefix):
    client.put(prefix + "k", "v")
    response = client.delete(prefix + "k", prev_kv=True, return_response=True)
    assert response.deleted == 1
    assert [kv.value for kv in response.prev_kvs] == [b"v"]


def test_delete_prefix_deletes_only_the_prefix(client, prefix):
    for name in ("a/1", "a/2", "b"):
        client.put(prefix + name, name)
    assert client.delete_prefix(prefix + "a/").deleted == 2
    assert [value for value, _ in client.get_prefix(prefix)] == [b"b"]


def test_replace_swaps_only_the_expected_value(client, prefix):
    client.put(prefix + "k", "old")
    assert client.replace(prefix + "k", "other", "new") is False
    assert client.get(prefix + "k")[0] == b"old"
    assert client.replace(prefix + "k", "old", "new") is True
    assert client.get(prefix + "k")[0] == b"new"


def test_put_if_not_exists_puts_once(client, prefix):
    assert client.put_if_not_exists(prefix + "k", "first") is True
    assert client.put_if_not_exists(prefix + "k", "second") is False
    assert client.get(prefix + "k")[0] == b"first"


def test_get_prefix_range_and_keys_only(client, prefix):
    for name in ("a", "b", "c", "d"):
        client.put(prefix + name, name)
    assert [value for value, _ in client.get_prefix(prefix)] == [b"a", b"b", b"c", b"d"]
    between = client.get_range(prefix + "b", prefix + "d")
    assert [value for value, _ in between] == [b"b", b"c"]
    names_only = list(client.get_prefix(prefix, keys_only=True))
    assert [value for value, _ in names_only] == [b""] * 4
    assert [meta.key[-1:] for _, meta in names_only] == [b"a", b"b", b"c", b"d"]
    keys = {meta.key for _, meta in client.get_all(keys_only=True)}
    assert {(prefix + name).encode() for name in ("a", "b", "c", "d")} <= keys


@pytest.mark.parametrize(
    "target, ascending",
    [
        ("key", "abc"),
        ("create", "cab"),
        ("mod", "cba"),
        ("version", "cba"),
        ("value", "bca"),
    ],
)
def test_get_prefix_sorted(client, prefix, target, ascending):
    prefix = f"{prefix}{target}/"
    for name, value in (("c", "y"), ("a", "1"), ("b", "1"), ("b", "x"), ("a", "2"), ("a", "z")):
        client.put(prefix + name, value)

    def names(order):
        found = client.get_prefix(prefix, sort_order=order, sort_target=target)
        return "".join(meta.key.decode()[-1] for _, meta in found)

    assert names("ascend") == ascending
    assert names("descend") == ascending[::-1]


# Transactions


def test_transaction_runs_one_branch(client, prefix):
    client.put(prefix + "k", "v")
    tx = client.transactions
    conditions = [tx.value(prefix + "k") == "v", tx.version(prefix + "k") > 0]
    succeeded, responses = client.transaction(
        compare=conditions,
        success=[tx.put(prefix + "yes", "1"), tx.get(prefix + "k")],
        failure=[tx.put(prefix + "no", "1")],
    )
    assert succeeded is True
    assert [value for value, _ in responses[1]] == [b"v"]
    assert client.get(prefix + "yes")[0] == b"1"
    assert client.get(prefix + "no") == (None, None)
    succeeded, responses = client.transaction(
        compare=[tx.mod(prefix + "k") == 1],
        success=[],
        failure=[tx.delete(prefix + "yes", prev_kv=True)],
    )
    assert succeeded is False
    assert [kv.value for kv in responses[0].response_delete_range.prev_kvs] == [b"1"]


def test_transaction_writes_in_one_revision(client, prefix):
    tx = client.transactions
    client.transaction(
        compare=[], success=[tx.put(prefix + "a", "1"), tx.put(prefix + "b", "2")], failure=[]
    )
    revisions = {meta.mod_revision for _, meta in client.get_prefix(prefix)}
    assert len(revisions) == 1


def test_nested_transaction(client, prefix):
    tx = client.transactions
    inner = tx.txn(
        compare=[tx.version(prefix + "outer") == 1],
        success=[tx.put(prefix + "inner", "saw the outer put")],
        failure=[tx.put(prefix + "inner", "did not see the outer put")],
    )
    succeeded, responses = client.transaction(
        compare=[], success=[tx.put(prefix + "outer", "1"), inner], failure=[]
    )
    assert succeeded is True
    nested = responses[1].response_txn
    assert nested.succeeded == (client.get(prefix + "inner")[0] == b"saw the outer put")
    # etcd decides all compares before it runs anything.
    assert nested.succeeded is False


def test_duplicate_key_in_a_transaction_is_refused(client, prefix):
    tx = client.transactions
    with pytest.raises(grpc.RpcError) as error:
        client.transaction(
            compare=[], success=[tx.put(prefix + "k", "1"), tx.put(prefix + "k", "2")], failure=[]
        )
    assert status_of(error) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "etcdserver: duplicate key given in txn request",
    )


# Leases


def test_lease_with_a_chosen_id(client, prefix):
    lease = client.lease(LONG_TTL_SECONDS, lease_id=4711)
    assert (lease.id, lease.ttl) == (4711, LONG_TTL_SECONDS)
    client.put(prefix + "k", "v", lease=lease)
    assert client.get(prefix + "k")[1].lease_id == 4711
    assert list(lease.keys) == [(prefix + "k").encode()]
    assert lease.granted_ttl == LONG_TTL_SECONDS
    assert LONG_TTL_SECONDS - 5 <= lease.remaining_ttl <= LONG_TTL_SECONDS
    with pytest.raises(etcd3.exceptions.PreconditionFailedError):
        client.lease(LONG_TTL_SECONDS, lease_id=4711)
    lease.revoke()
    assert client.get(prefix + "k") == (None, None)


def test_lease_ids_chosen_by_the_server_differ(client):
    first, second = client.lease(LONG_TTL_SECONDS), client.lease(LONG_TTL_SECONDS)
    assert first.id != second.id
    assert first.id != 0
    first.revoke()
    second.revoke()


def test_refresh_answers_the_full_ttl(client):
    lease = client.lease(LONG_TTL_SECONDS)
    responses = lease.refresh()
    assert [(answer.ID, answer.TTL) for answer in responses] == [(lease.id, LONG_TTL_SECONDS)]
    lease.revoke()


def test_lease_that_ended_is_not_found(client, prefix):
    lease = client.lease(LONG_TTL_SECONDS)
    lease.revoke()
    assert [answer.TTL for answer in lease.refresh()] == [0]
    assert lease.remaining_ttl == -1
    assert lease.granted_ttl == 0
    for action in (lease.revoke, lambda: client.put(prefix + "k", "v", lease=lease)):
        with pytest.raises(grpc.RpcError) as error:
            action()
        assert status_of(error) == (
            grpc.StatusCode.NOT_FOUND,
            "etcdserver: requested lease not found",
        )


def test_too_large_ttl_is_refused(client):
    with pytest.raises(grpc.RpcError) as error:
        client.lease(9_000_000_001)
    assert status_of(error) == (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: too large lease TTL")


def test_refreshed_lease_outlives_its_ttl_and_an_abandoned_one_does_not(client, prefix):
    kept, abandoned = client.lease(SHORT_TTL_SECONDS), client.lease(SHORT_TTL_SECONDS)
    gone = queue.Queue()
    client.add_watch_prefix_callback(prefix, gone.put)
    client.put(prefix + "kept", "v", lease=kept)
    client.put(prefix + "abandoned", "v", lease=abandoned)
    deadline = time.monotonic() + EXPIRY_SECONDS
    while True:
        assert kept.refresh()[0].TTL == SHORT_TTL_SECONDS
        assert time.monotonic() < deadline, "the abandoned lease never expired"
        try:
            events = gone.get(timeout=SHORT_TTL_SECONDS / 4).events
        except queue.Empty:
            continue
        if any(isinstance(event, etcd3.events.DeleteEvent) for event in events):
            break
    assert [event.key for event in events] == [(prefix + "abandoned").encode()]
    assert client.get(prefix + "kept")[0] == b"v"
    kept.revoke()


# Locks
#
# Waiting inside acquire() fails with the tenacity that Debian ships, whatever the
# server, so acquire_waiting does what acquire(timeout) means to do.


def acquire_waiting(client, lock, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not lock.acquire(timeout=0):
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return False
        _, held = client.get(lock.key)
        if held is None:
            continue
        try:
            start = held.response_header.revision + 1
            client.watch_once(lock.key, timeout=remaining_s, start_revision=start)
        except etcd3.exceptions.WatchTimedOut:
            return False
    return True


def test_lock_excludes_another_client(connect):
    one, two = connect(), connect()
    lock, other = one.lock("excludes", ttl=60), two.lock("excludes", ttl=60)
    assert lock.acquire() is True
    assert lock.is_acquired() is True
    assert other.acquire(timeout=0) is False
    assert other.is_acquired() is False
    assert lock.release() is True
    assert lock.is_acquired() is False
    assert other.acquire(timeout=CALL_SECONDS) is True
    # It is no longer ours to release.
    assert lock.release() is False
    assert other.release() is True


def test_lock_is_handed_over_when_released(connect):
    one, two = connect(), connect()
    lock, other = one.lock("handed", ttl=60), two.lock("handed", ttl=60)
    assert lock.acquire() is True
    acquired = queue.Queue()
    waiting = threading.Thread(
        target=lambda: acquired.put(acquire_waiting(two, other, CALL_SECONDS))
    )
    waiting.start()
    with pytest.raises(queue.Empty):
        acquired.get(timeout=0.2)
    lock.release()
    assert acquired.get(timeout=CALL_SECONDS) is True
    waiting.join()
    other.release()


def test_lock_of_a_client_that_vanished_is_freed_by_its_ttl(connect):
    holder, waiter = connect(), connect()
    lock = holder.lock("vanished", ttl=SHORT_TTL_SECONDS)
    before_grant = time.monotonic()
    assert lock.acquire() is True
    holder.close()
    other = waiter.lock("vanished", ttl=60)
    assert acquire_waiting(waiter, other, EXPIRY_SECONDS) is True
    assert time.monotonic() - before_grant >= SHORT_TTL_SECONDS
    other.release()


def test_refreshed_lock_is_kept(connect):
    holder, waiter = connect(), connect()
    lock = holder.lock("refreshed", ttl=SHORT_TTL_SECONDS)
    assert lock.acquire() is True
    other = waiter.lock("refreshed", ttl=60)
    for _ in range(6):
        assert lock.refresh()[0].TTL == SHORT_TTL_SECONDS
        assert acquire_waiting(waiter, other, 0.5) is False
    assert lock.is_acquired() is True
    lock.release()


def test_lock_as_a_context_manager(client):
    with client.lock("context", ttl=60) as lock:
        assert lock.is_acquired() is True
    assert lock.is_acquired() is False


# Watches


def test_watch_callback_sees_puts_and_deletes_in_order(client, prefix):
    seen = queue.Queue()
    watch_id = client.add_watch_callback(prefix + "k", seen.put)
    client.put(prefix + "k", "1")
    client.put(prefix + "other", "unseen")
    client.put(prefix + "k", "2")
    client.delete(prefix + "k")
    events = []
    while len(events) < 3:
        events += seen.get(timeout=CALL_SECONDS).events
    assert [(type(event).__name__, event.value) for event in events] == [
        ("PutEvent", b"1"),
        ("PutEvent", b"2"),
        ("DeleteEvent", b""),
    ]
    assert [event.version for event in events] == [1, 2, 0]
    revisions = [event.mod_revision for event in events]
    assert revisions == sorted(set(revisions))
    client.cancel_watch(watch_id)


def test_watch_iterator_ends_when_cancelled(client, prefix):
    events, cancel = client.watch(prefix + "k")
    client.put(prefix + "k", "1")
    assert next(events).value == b"1"
    cancel()
    assert not list(events)


def test_watch_prefix_with_prev_kv(client, prefix):
    client.put(prefix + "a", "before")
    events, cancel = client.watch_prefix(prefix, prev_kv=True)
    client.put(prefix + "a", "after")
    client.delete(prefix + "a")
    first, second = next(events), next(events)
    assert (first.value, first.prev_value) == (b"after", b"before")
    assert (second.value, second.prev_value) == (b"", b"after")
    cancel()


def test_watch_from_a_past_revision(client, prefix):
    start = revision_of(client) + 1
    for number in range(5):
        client.put(prefix + "k", str(number))
    events, cancel = client.watch(prefix + "k", start_revision=start)
    assert [next(events).value for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    client.put(prefix + "k", "live")
    assert next(events).value == b"live"
    cancel()


def test_watch_responses_carry_a_header(client, prefix):
    responses, cancel = client.watch_prefix_response(prefix)
    put = client.put(prefix + "k", "v")
    response = next(responses)
    assert response.header.revision == put.header.revision
    assert [event.key for event in response.events] == [(prefix + "k").encode()]
    cancel()


def test_cancelled_watch_gets_nothing_more_and_others_go_on(client, prefix):
    cancelled, kept = queue.Queue(), queue.Queue()
    watch_id = client.add_watch_callback(prefix + "k", cancelled.put)
    client.add_watch_callback(prefix + "k", kept.put)
    client.put(prefix + "k", "1")
    cancelled.get(timeout=CALL_SECONDS)
    kept.get(timeout=CALL_SECONDS)
    client.cancel_watch(watch_id)
    client.put(prefix + "k", "2")
    assert kept.get(timeout=CALL_SECONDS).events[0].value == b"2"
    assert cancelled.empty()


def test_watch_once_times_out(client, prefix):
    with pytest.raises(etcd3.exceptions.WatchTimedOut):
        client.watch_once(prefix + "k", timeout=0.2)


def test_watch_from_a_compacted_revision_raises(client, prefix):
    start = revision_of(client) + 1
    for number in range(3):
        client.put(prefix + "k", str(number))
    client.compact(start + 2)
    events, cancel = client.watch(prefix + "k", start_revision=start)
    with pytest.raises(etcd3.exceptions.RevisionCompactedError) as error:
        next(events)
    assert error.value.compacted_revision == start + 2
    cancel()


# Maintenance


def test_compaction_twice_is_refused(client, prefix):
    client.put(prefix + "k", "1")
    revision = client.put(prefix + "k", "2").header.revision
    client.compact(revision, physical=True)
    with pytest.raises(grpc.RpcError) as error:
        client.compact(revision)
    assert status_of(error) == (
        grpc.StatusCode.OUT_OF_RANGE,
        "etcdserver: mvcc: required revision has been compacted",
    )
    with pytest.raises(grpc.RpcError) as error:
        client.compact(revision + 1000)
    assert status_of(error) == (
        grpc.StatusCode.OUT_OF_RANGE,
        "etcdserver: mvcc: required revision is a future revision",
    )
    assert client.get(prefix + "k")[0] == b"2"


def test_status_names_the_only_member_as_leader(client, server):
    status = client.status()
    members = list(client.members)
    assert [member.name for member in members] == [server.name]
    assert list(members[0].peer_urls) == [server.peer_url]
    assert list(members[0].client_urls) == [server.client_url]
    assert list(members[0].active_alarms) == []
    assert status.leader.id == members[0].id
    assert status.db_size > 0
    assert status.raft_index > 0
    assert status.raft_term > 0
    assert all(part.isdigit() for part in status.version.split("."))


def test_hash_changes_with_the_data(client, prefix):
    before = client.hash()
    client.put(prefix + "k", "v")
    after = client.hash()
    assert before != after
    assert client.hash() == after


def test_snapshot_to_a_file(client, prefix):
    client.put(prefix + "k", "v" * 1000)
    file = io.BytesIO()
    client.snapshot(file)
    assert len(file.getvalue()) > 1000


def test_defragment_and_alarms(client):
    client.defragment()
    assert list(client.list_alarms()) == []
    assert client.disarm_alarm() == []


def test_nobody_listening_is_a_connection_error():
    with etcd3.client(host="127.0.0.1", port=1, timeout=CALL_SECONDS) as nobody:
        with pytest.raises(etcd3.exceptions.ConnectionFailedError):
            nobody.get("k")
