"""Watch on the wire: many watches on a stream, ids, filters, progress, fragments, history."""
import grpc
import pytest

from harness import KIND_ETCD
from harness.ops import delete_op, end_of, put_op
from harness.rpc import Rpc
from harness.watch_messages import (
    EVENT_DELETE,
    EVENT_PUT,
    FILTER_NO_DELETE,
    FILTER_NO_PUT,
    WatchRequest,
)

# How long nothing must come where nothing is due.
QUIET_SECONDS = 0.2


def quiet(stream):
    """Nothing arrives, not even in answer to what was asked before."""
    with pytest.raises(TimeoutError):
        response = stream.receive(QUIET_SECONDS)
        raise AssertionError(f"unexpected: {response}")


def brief(events):
    return [(event.type, event.kv.key, event.kv.value) for event in events]


# Creating and cancelling


def test_created_watch_tells_the_revision_it_starts_from(rpc, at):
    revision = rpc.put(at("before")).header.revision
    with rpc.watch() as stream:
        created = stream.create(at(), end_of(at()))
        assert (created.watch_id, created.canceled) == (0, False)
        assert created.header.revision == revision
        assert created.header.cluster_id != 0
        assert created.header.member_id != 0
        assert not created.events
        quiet(stream)


def test_many_watches_on_one_stream(rpc, at):
    count = 200
    with rpc.watch() as stream:
        for number in range(count):
            stream.ask(at(f"{number:03}"))
        ids = [stream.receive().watch_id for _ in range(count)]
        assert ids == list(range(count))
        for number in range(count):
            rpc.put(at(f"{number:03}"), b"%d" % number)
        seen = {}
        while len(seen) < count:
            response = stream.receive()
            for event in response.events:
                seen[response.watch_id] = (event.kv.key, event.kv.value)
        assert seen == {number: (at(f"{number:03}"), b"%d" % number) for number in range(count)}


def test_overlapping_watches_each_get_their_event(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"))
        stream.create(at(), end_of(at()))
        stream.create(at("k"), b"\0")
        stream.create(at("other"))
        rpc.put(at("k"), b"v")
        responses = [stream.receive() for _ in range(3)]
        assert sorted(response.watch_id for response in responses) == [0, 1, 2]
        for response in responses:
            assert brief(response.events) == [(EVENT_PUT, at("k"), b"v")]
        quiet(stream)


def test_client_chosen_ids(rpc, at):
    with rpc.watch() as stream:
        assert stream.create(at("k"), watch_id=7).watch_id == 7
        assert stream.create(at("k"), watch_id=-3).watch_id == -3
        stream.ask(at("k"), watch_id=7)
        refused = stream.receive()
        assert (refused.created, refused.canceled, refused.watch_id) == (True, True, -1)
        assert refused.cancel_reason == "mvcc: duplicate watch ID provided on the WatchStream"
        # 0 lets the server choose; it never takes one that is in use.
        chosen = [stream.create(at("k")).watch_id for _ in range(9)]
        assert len(set(chosen)) == 9
        assert 7 not in chosen


def test_cancelled_watch_is_confirmed_once_and_gets_nothing_more(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"))
        stream.create(at("k"))
        stream.cancel(0)
        cancelled = stream.receive()
        assert (cancelled.watch_id, cancelled.canceled, cancelled.created) == (0, True, False)
        stream.cancel(0)
        stream.cancel(4711)
        rpc.put(at("k"), b"v")
        response = stream.receive()
        assert (response.watch_id, brief(response.events)) == (1, [(EVENT_PUT, at("k"), b"v")])
        quiet(stream)


def test_empty_range_is_refused_and_the_stream_lives_on(rpc, at):
    with rpc.watch() as stream:
        for start, end in ((at("z"), at("a")), (at("z"), at("z"))):
            stream.ask(start, end)
            refused = stream.receive()
            assert (refused.created, refused.canceled, refused.watch_id) == (True, True, -1)
            assert refused.cancel_reason == "mvcc: watcher range is empty"
        assert stream.create(at("k")).watch_id == 0


def test_request_that_asks_nothing_is_ignored(rpc, at):
    with rpc.watch() as stream:
        stream.send(WatchRequest())
        assert stream.create(at("k")).created


def test_watch_of_the_whole_key_space(rpc, at):
    with rpc.watch() as stream:
        stream.create(b"", b"\0")
        stream.create(b"\0", b"\0")
        rpc.put(at("k"), b"v")
        for _ in range(2):
            assert brief(stream.receive().events) == [(EVENT_PUT, at("k"), b"v")]


# Events


def test_events_of_a_transaction_arrive_together(rpc, at):
    rpc.put(at("old"), b"x")
    with rpc.watch() as stream:
        stream.create(at(), end_of(at()))
        revision = rpc.txn(
            success=[put_op(at("b"), b"1"), delete_op(at("old")), put_op(at("a"), b"2")]
        ).header.revision
        response = stream.receive()
        # In the order of the operations.
        assert brief(response.events) == [
            (EVENT_PUT, at("b"), b"1"),
            (EVENT_DELETE, at("old"), b""),
            (EVENT_PUT, at("a"), b"2"),
        ]
        assert {event.kv.mod_revision for event in response.events} == {revision}
        assert response.header.revision == revision


def test_event_carries_the_whole_pair(rpc, at):
    lease = rpc.grant(600).ID
    with rpc.watch() as stream:
        stream.create(at("k"))
        first = rpc.put(at("k"), b"1").header.revision
        rpc.put(at("k"), b"2", lease=lease)
        rpc.delete(at("k"))
        events = stream.events(3)
        one, two, gone = (event.kv for event in events)
        assert (one.create_revision, one.mod_revision, one.version) == (first, first, 1)
        assert one.lease == 0
        assert (two.create_revision, two.mod_revision, two.version) == (first, first + 1, 2)
        assert two.lease == lease
        assert (gone.create_revision, gone.mod_revision, gone.version) == (0, first + 2, 0)
        assert (gone.value, gone.lease) == (b"", 0)
        assert not any(event.HasField("prev_kv") for event in events)
    rpc.revoke(lease)


def test_previous_pair_when_asked(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"), prev_kv=True)
        rpc.put(at("k"), b"1")
        rpc.put(at("k"), b"2")
        rpc.delete(at("k"))
        events = stream.events(3)
        assert not events[0].HasField("prev_kv")
        assert [event.prev_kv.value for event in events[1:]] == [b"1", b"2"]
        assert [event.prev_kv.version for event in events[1:]] == [1, 2]


@pytest.mark.parametrize(
    "filters, seen",
    [
        ([FILTER_NO_PUT], [EVENT_DELETE]),
        ([FILTER_NO_DELETE], [EVENT_PUT]),
        ([FILTER_NO_PUT, FILTER_NO_PUT], [EVENT_DELETE]),
        ([FILTER_NO_PUT, FILTER_NO_DELETE], []),
    ],
)
def test_filters(rpc, at, filters, seen):
    start = rpc.revision() + 1
    with rpc.watch() as live, rpc.watch() as late:
        live.create(at("k"), filters=filters)
        rpc.put(at("k"))
        rpc.delete(at("k"))
        late.create(at("k"), filters=filters, start_revision=start)
        for stream in (live, late):
            events = stream.events(len(seen))
            assert [event.type for event in events] == seen
            quiet(stream)


def test_revoke_deletes_in_one_revision(rpc, at):
    lease = rpc.grant(600).ID
    for name in ("c", "a", "b"):
        rpc.put(at(name), b"v", lease=lease)
    with rpc.watch() as stream:
        stream.create(at(), end_of(at()), prev_kv=True)
        revision = rpc.revoke(lease).header.revision
        response = stream.receive()
        assert brief(response.events) == [
            (EVENT_DELETE, at("a"), b""),
            (EVENT_DELETE, at("b"), b""),
            (EVENT_DELETE, at("c"), b""),
        ]
        assert {event.kv.mod_revision for event in response.events} == {revision}
        assert {event.prev_kv.lease for event in response.events} == {lease}


# History and future


def test_history_is_replayed_in_order_and_goes_over_into_the_present(rpc, at):
    start = rpc.revision() + 1
    for number in range(50):
        rpc.put(at("k"), b"%d" % number)
    with rpc.watch() as stream:
        assert stream.create(at("k"), start_revision=start + 10).created
        for number in range(50, 60):
            rpc.put(at("k"), b"%d" % number)
        events = stream.events(50)
        assert [event.kv.value for event in events] == [b"%d" % number for number in range(10, 60)]
        quiet(stream)


def test_start_in_the_future_waits_for_it(rpc, at):
    with rpc.watch() as stream:
        due = rpc.revision() + 3
        created = stream.create(at("k"), start_revision=due)
        assert created.header.revision == due - 3
        for value in (b"early", b"early", b"due", b"later"):
            rpc.put(at("k"), value)
        events = stream.events(2)
        assert [event.kv.value for event in events] == [b"due", b"later"]
        assert events[0].kv.mod_revision == due


def test_compacted_start_is_created_then_cancelled(rpc, at):
    start = rpc.put(at("k"), b"0").header.revision
    rpc.put(at("k"), b"1")
    rpc.put(at("k"), b"2")
    rpc.compact(start + 2)
    with rpc.watch() as stream:
        stream.create(at("other"))
        created = stream.create(at("k"), start_revision=start)
        assert (created.watch_id, created.canceled) == (1, False)
        cancelled = stream.receive()
        assert (cancelled.watch_id, cancelled.canceled, cancelled.created) == (1, True, False)
        assert cancelled.compact_revision == start + 2
        assert not cancelled.events
        # Its neighbours on the stream go on, and what is left of history can be had.
        stream.create(at("k"), start_revision=start + 2)
        assert stream.events(1)[0].kv.value == b"2"
        rpc.put(at("other"), b"x")
        assert stream.receive().watch_id == 0


def test_previous_pair_that_was_compacted_is_left_out(rpc, at):
    rpc.put(at("k"), b"0")
    revision = rpc.put(at("k"), b"1").header.revision
    rpc.put(at("k"), b"2")
    rpc.compact(revision)
    with rpc.watch() as stream:
        stream.create(at("k"), start_revision=revision, prev_kv=True)
        events = stream.events(2)
        assert [event.kv.value for event in events] == [b"1", b"2"]
        assert not events[0].HasField("prev_kv")
        assert events[1].prev_kv.value == b"1"


# Progress


def test_progress_request_is_answered_for_the_stream(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"))
        revision = rpc.put(at("unwatched")).header.revision
        stream.ask_progress()
        progress = stream.receive()
        assert (progress.watch_id, len(progress.events)) == (-1, 0)
        assert (progress.created, progress.canceled) == (False, False)
        assert progress.header.revision == revision


def test_progress_is_never_ahead_of_events(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"))
        for _ in range(20):
            revision = rpc.put(at("k")).header.revision
            stream.ask_progress()
            delivered = 0
            while True:
                response = stream.receive()
                if response.watch_id == -1:
                    break
                delivered = response.events[-1].kv.mod_revision
            # etcd 3.4 may answer before the event is out, but then with an older revision.
            if response.header.revision >= revision and delivered < revision:
                pytest.fail(f"progress {response.header.revision}, delivered {delivered}")
            if delivered < revision:
                assert stream.events(1)[-1].kv.mod_revision == revision


def test_watch_with_progress_notify_gets_its_events(rpc, at):
    # The notification itself comes after ten idle minutes.
    with rpc.watch() as stream:
        stream.create(at("k"), progress_notify=True)
        rpc.put(at("k"), b"v")
        assert brief(stream.events(1)) == [(EVENT_PUT, at("k"), b"v")]
        quiet(stream)


# Large answers


def large_history(rpc, at):
    """Eight megabytes of events; answers the first revision and the values."""
    values = [bytes([number]) * (1024 * 1024) for number in range(8)]
    start = rpc.revision() + 1
    for value in values:
        rpc.put(at("k"), value)
    return start, values


def test_fragments_are_marked_and_complete(rpc, at):
    """One revision of eight megabytes: deletes that tell what was there."""
    values = [bytes([number]) * (1024 * 1024) for number in range(8)]
    for number, value in enumerate(values):
        rpc.put(at(f"k{number}"), value)
    with rpc.watch() as stream:
        stream.create(at(), end_of(at()), prev_kv=True, fragment=True)
        rpc.delete(at(), end_of(at()))
        responses = [stream.receive()]
        events = list(responses[0].events)
        while len(events) < len(values):
            responses.append(stream.receive())
            events += responses[-1].events
        assert len(responses) > 1
        assert [response.fragment for response in responses[:-1]] == [True] * (len(responses) - 1)
        assert responses[-1].fragment is False
        assert {response.watch_id for response in responses} == {0}
        assert [event.prev_kv.value for event in events] == values
        assert len({event.kv.mod_revision for event in events}) == 1
        assert max(response.ByteSize() for response in responses) <= 2 * 1024 * 1024


def test_large_history_without_fragments_loses_nothing(rpc, at):
    start, values = large_history(rpc, at)
    with rpc.watch() as stream:
        stream.create(at("k"), start_revision=start)
        assert [event.kv.value for event in stream.events(len(values))] == values
        rpc.put(at("k"), b"small")
        response = stream.receive()
        assert (response.fragment, brief(response.events)) == (
            False,
            [(EVENT_PUT, at("k"), b"small")],
        )
    rpc.delete(at("k"))


# The stream itself


def test_half_closed_stream_still_delivers(rpc, at):
    with rpc.watch() as stream:
        stream.create(at("k"))
        stream.done_sending()
        rpc.put(at("k"), b"v")
        assert brief(stream.events(1)) == [(EVENT_PUT, at("k"), b"v")]


def test_deadline_ends_the_stream(server, rpc, at):
    with rpc.watch(timeout=0.3) as stream:
        stream.create(at("k"))
        with pytest.raises(grpc.RpcError) as error:
            stream.receive()
        code = error.value.code()
        if code is grpc.StatusCode.UNKNOWN and server.kind == KIND_ETCD:
            # etcd tells its own deadline so, when it is sooner than the client's.
            assert "deadline exceeded" in error.value.details()
        else:
            assert code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_stream_that_needs_a_leader_works_while_there_is_one(rpc, at):
    with rpc.watch(metadata=(("hasleader", "true"),)) as stream:
        stream.create(at("k"))
        rpc.put(at("k"), b"v")
        assert brief(stream.events(1)) == [(EVENT_PUT, at("k"), b"v")]


def test_streams_of_one_connection_are_independent(server, rpc, at):
    with Rpc(server) as other:
        with rpc.watch() as one, rpc.watch() as two, other.watch() as three:
            for stream in (one, two, three):
                assert stream.create(at("k")).watch_id == 0
            one.close()
            rpc.put(at("k"), b"v")
            for stream in (two, three):
                assert brief(stream.events(1)) == [(EVENT_PUT, at("k"), b"v")]
