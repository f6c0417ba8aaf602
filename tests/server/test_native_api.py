"""leased's own API on one node: every method, over gRPC and as JSON."""
import json

import grpc
import pytest

from harness import KIND_LEASED, Server, wait_for
from harness.native import METHODS, Native, ask, request_of, slots_of, want
from harness.ports import free_ports
from harness.rpc import CALL_SECONDS, Rpc

EXCLUSIVE, SHARED = 0, 1
QUEUED, ACQUIRED = 0, 1
Code = grpc.StatusCode


@pytest.fixture(name="server", scope="module")
def a_server():
    with Server(KIND_LEASED) as server:
        yield server


@pytest.fixture(name="native")
def a_client(server):
    with Rpc(server) as rpc:
        yield Native(rpc.channel)


@pytest.fixture(name="name")
def a_name(request):
    """Of a resource of the test's own."""
    return f"{request.node.name}/x"


def refusal(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def ended(native, **fields):
    reasons = native.call("History/Why", **fields).ended
    return [request_of_reason(end.reason) for end in reasons]


def request_of_reason(number):
    names = {1: "released", 2: "expired", 3: "revoked", 4: "parent", 5: "transferred", 6: "hold limit",
             7: "session ended", 8: "left queue"}  # fmt: skip
    return names[number]


# Sessions


def test_a_session_is_created_found_changed_and_ended(native):
    made = native.call("Sessions/Create", owner="web-1", ttl_ms=30_000, note="a note", strategy=1).session
    assert (made.owner, made.ttl_ms, made.note, made.strategy) == ("web-1", 30_000, "a note", 1)
    assert made.created_revision > 0 and made.created_wall_ms > 0
    found = native.call("Sessions/Get", session_id=made.id).session
    assert 0 < found.remaining_ms <= 30_000 + 1000
    assert native.call("Sessions/Change", session_id=made.id, ttl_ms=50_000).ttl_ms == 50_000
    assert native.call("Sessions/Get", session_id=made.id).session.ttl_ms == 50_000
    native.call("Sessions/End", session_id=made.id)
    assert refusal(lambda: native.call("Sessions/Get", session_id=made.id)) == Code.NOT_FOUND
    assert refusal(lambda: native.call("Sessions/End", session_id=made.id)) == Code.NOT_FOUND
    assert refusal(lambda: native.call("Sessions/Change", session_id=made.id, ttl_ms=1000)) == Code.NOT_FOUND


def test_an_id_can_be_chosen_once_and_a_class_has_a_ttl(native):
    assert native.session(id=4711) == 4711
    assert refusal(lambda: native.session(id=4711)) == Code.ALREADY_EXISTS
    made = native.call("Sessions/Create", **{"class": 1}).session
    assert made.ttl_ms > 0
    assert made.owner.startswith("127.0.0.1:"), "without a name the owner is the client's address"


def test_a_child_ends_with_its_parent(native):
    parent = native.session()
    child = native.session(parent_id=parent)
    native.call("Sessions/End", session_id=parent)
    assert refusal(lambda: native.call("Sessions/Get", session_id=child)) == Code.NOT_FOUND


def test_renewals_are_answered_each_for_itself(native):
    first, second = native.session(ttl_ms=20_000), native.session(ttl_ms=40_000)
    requests, answers = native.renewals()
    for number, session in enumerate([first, second, 999, first]):
        requests.add(request_of("Sessions/Renew", session_id=session, sequence=number + 7))
    told = {answer.sequence: (answer.session_id, answer.ttl_ms) for _, answer in zip(range(4), answers)}
    assert told == {7: (first, 20_000), 8: (second, 40_000), 9: (999, 0), 10: (first, 20_000)}
    requests.end()
    assert list(answers) == []


def test_a_renewed_session_outlives_its_ttl_and_another_does_not(native, name):
    renewed, left_alone = native.session(ttl_ms=2000), native.session(ttl_ms=2000)
    native.acquire(left_alone, want(name))
    requests, answers = native.renewals()

    def is_over():
        requests.add(request_of("Sessions/Renew", session_id=renewed))
        assert next(answers).ttl_ms == 2000
        return not native.resource(name).holders

    wait_for(is_over, CALL_SECONDS, "the end of a session")
    requests.end()
    assert native.call("Sessions/Get", session_id=renewed).session.id == renewed
    assert ended(native, session_id=left_alone) == ["expired"]


def test_sessions_are_listed_in_pages_and_by_owner(native):
    ids = sorted(native.session(owner=f"page-{number % 2}") for number in range(6))
    found, after = [], 0
    while True:
        answer = native.call("Sessions/List", owner_prefix="page-", limit=4, after_id=after, with_remaining=True)
        found += answer.sessions
        if not answer.more:
            break
        after = answer.next_after_id
    assert [session.id for session in found] == ids
    assert all(0 < session.remaining_ms <= 61_000 for session in found)
    even = native.call("Sessions/List", owner_prefix="page-0").sessions
    assert len(even) == 3 and {session.owner for session in even} == {"page-0"}


# Resources


def test_the_second_waits_and_is_handed_the_resource_with_a_greater_token(native, name):
    one, two = native.session("one"), native.session("two")
    held = native.acquire(one, want(name))
    assert (held.stage, held.owner, held.session_id) == (ACQUIRED, "one", one)
    assert refusal(lambda: native.acquire(two, want(name))) == Code.ABORTED
    stream = native.stream("Resources/Acquire", session_id=two, wants=[want(name)], wait_ms=-1)
    place = next(stream)
    assert (place.acquisition.stage, place.position, place.session_ttl_ms) == (QUEUED, 1, 60_000)
    assert [holder.owner for holder in place.holders] == ["one"]
    assert 0 < place.holder_remaining_ms <= 61_000
    state = native.resource(name, waiters=5, with_remaining=True)
    assert [held.id] == [holder.id for holder in state.holders]
    assert (state.waiting, [waiter.owner for waiter in state.first_waiting]) == (1, ["two"])
    assert 0 < state.remaining_ms <= 61_000
    assert native.release(held)
    told = next(stream).acquisition
    assert (told.stage, told.id) == (ACQUIRED, place.acquisition.id)
    assert told.token > held.token
    assert list(stream) == []
    assert not native.release(held), "what was given back cannot be given back again"
    assert native.resource(name).last_token == told.token


def test_a_call_that_ends_leaves_the_queue(native, name):
    one, two, three = (native.session(owner) for owner in ("one", "two", "three"))
    held = native.acquire(one, want(name))
    leaving = native.begin_acquire(two, want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    staying = native.begin_acquire(three, want(name))
    wait_for(lambda: native.resource(name).waiting == 2, CALL_SECONDS, "two waiters")
    leaving.cancel()
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "the place to be given back")
    native.release(held)
    assert staying.result(timeout=CALL_SECONDS).acquisition.owner == "three"


def test_a_wait_has_a_limit(native, name):
    one, two = native.session("one"), native.session("two")
    native.acquire(one, want(name))
    waiting = native.begin_acquire(two, want(name), wait_ms=200)
    error = waiting.exception(timeout=CALL_SECONDS)
    assert error.code() == Code.ABORTED and "wait" in error.details()
    assert native.resource(name).waiting == 0
    # Who has left can come again.
    waiting = native.begin_acquire(two, want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    waiting.cancel()


def test_a_queue_limit_refuses(native, name):
    sessions = [native.session() for _ in range(3)]
    native.acquire(sessions[0], want(name))
    waiting = native.begin_acquire(sessions[1], want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    call = native.begin_acquire(sessions[2], want(name), queue_limit=1)
    assert call.exception(timeout=CALL_SECONDS).code() == Code.RESOURCE_EXHAUSTED
    waiting.cancel()


def test_a_waiter_whose_session_ends_is_told(native, name):
    one, two = native.session("one"), native.session("two")
    native.acquire(one, want(name))
    waiting = native.begin_acquire(two, want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    native.call("Sessions/End", session_id=two)
    error = waiting.exception(timeout=CALL_SECONDS)
    assert error.code() == Code.NOT_FOUND and "session" in error.details()


def test_shared_ones_share_and_an_exclusive_one_waits_for_all(native, name):
    readers = [native.acquire(native.session(), want(name, shared=True)) for _ in range(3)]
    writer = native.begin_acquire(native.session("writer"), want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    late = native.session("late")
    assert refusal(lambda: native.acquire(late, want(name, shared=True))) == Code.ABORTED, "it overtakes nobody"
    for reader in readers[:2]:
        native.release(reader)
    assert not writer.done()
    native.release(readers[2])
    assert writer.result(timeout=CALL_SECONDS).acquisition.owner == "writer"


def test_several_are_acquired_at_once_or_not_at_all(native, name):
    one, two = native.session("one"), native.session("two")
    native.acquire(one, want(name + "b"))
    assert refusal(lambda: native.acquire(two, want(name + "a"), want(name + "b"))) == Code.ABORTED
    assert not native.resource(name + "a").holders
    waiting = native.begin_acquire(two, want(name + "a"), want(name + "b"))
    wait_for(lambda: native.resource(name + "a").waiting == 1, CALL_SECONDS, "a waiter")
    native.call("Sessions/End", session_id=one)
    both = waiting.result(timeout=CALL_SECONDS).acquisition
    assert [each.resource for each in both.wants] == [name + "a", name + "b"]
    assert {native.resource(name + end).holders[0].id for end in "ab"} == {both.id}


def test_a_session_is_made_by_the_call_and_renewed_until_it_is_told(native, name):
    held = native.acquire(native.session(), want(name))
    call = native.begin(
        "Resources/Wait", session={"owner": "of the call", "ttl_ms": 1000}, wants=[want(name)], wait_ms=-1
    )
    made = wait_for(
        lambda: native.call("Sessions/List", owner_prefix="of the call").sessions, CALL_SECONDS, "a session"
    )[0]
    # Longer than it lives by itself: others of its time end one after another.
    for _ in range(2):
        other = native.session(ttl_ms=1000)
        wait_for(lambda: native.call("History/Why", session_id=other).ended, CALL_SECONDS, "the end of another")
    assert not call.done()
    native.release(held)
    told = call.result(timeout=CALL_SECONDS)
    assert told.acquisition.session_id == made.id


def test_the_session_of_a_call_that_ends_goes_with_it(native, name):
    native.acquire(native.session(), want(name))
    call = native.begin("Resources/Wait", session={"owner": "leaver"}, wants=[want(name)], wait_ms=-1)
    wait_for(lambda: native.call("Sessions/List", owner_prefix="leaver").sessions, CALL_SECONDS, "a session")
    call.cancel()
    wait_for(lambda: not native.call("Sessions/List", owner_prefix="leaver").sessions, CALL_SECONDS, "its end")
    assert native.resource(name).waiting == 0


def test_a_repeated_request_finds_its_place_again(native, name):
    one, two = native.session("one"), native.session("two")
    held = native.acquire(one, want(name), request_id="r1")
    assert native.acquire(one, want(name), request_id="r1").id == held.id
    first = native.stream("Resources/Acquire", session_id=two, wants=[want(name)], wait_ms=-1, request_id="q")
    place = next(first).acquisition.id
    second = native.stream("Resources/Acquire", session_id=two, wants=[want(name)], wait_ms=-1, request_id="q")
    assert next(second).acquisition.id == place
    # Only the last of those that share it gives it back.
    first.cancel()
    native.release(held)
    assert next(second).acquisition.id == place


def test_a_value_is_proclaimed_and_observed(native, name):
    one, two = native.session("one"), native.session("two")
    observed = native.stream("Resources/Observe", resource=name)
    assert not next(observed).state.holders
    held = native.acquire(one, want(name), value="http://one")
    assert next(observed).state.holders[0].value == "http://one"
    native.call("Resources/Proclaim", acquisition_id=held.id, session_id=one, value="http://one/2")
    assert next(observed).state.holders[0].value == "http://one/2"
    foreign = {"acquisition_id": held.id, "session_id": two, "value": "v"}
    assert refusal(lambda: native.call("Resources/Proclaim", **foreign)) == Code.NOT_FOUND
    native.release(held)
    assert not next(observed).state.holders
    observed.cancel()


def test_a_holder_transfers_it_to_whom_it_chooses(native, name):
    one, two, three = (native.session(owner) for owner in ("one", "two", "three"))
    held = native.acquire(one, want(name))
    calls = {}
    for number, session in enumerate((two, three)):
        calls[session] = native.begin_acquire(session, want(name))
        wait_for(lambda: native.resource(name).waiting == number + 1, CALL_SECONDS, "a waiter")
    given = native.call(
        "Resources/Transfer", acquisition_id=held.id, session_id=one, to_session_id=three
    ).acquisition
    assert calls[three].result(timeout=CALL_SECONDS).acquisition.token == given.token > held.token
    assert refusal(
        lambda: native.call("Resources/Transfer", acquisition_id=held.id, session_id=one, to_owner="two")
    ) == Code.NOT_FOUND
    native.call("Resources/Transfer", acquisition_id=given.id, session_id=three, to_owner="two")
    assert calls[two].result(timeout=CALL_SECONDS).acquisition.owner == "two"
    assert ended(native, resource=name)[:2] == ["transferred", "transferred"]


def test_a_hold_limit_takes_it_back(native, name):
    one = native.session()
    native.acquire(one, want(name), hold_limit_ms=500)
    wait_for(lambda: not native.resource(name).holders, CALL_SECONDS, "the hold limit")
    assert ended(native, resource=name) == ["hold limit"]
    assert native.call("Sessions/Get", session_id=one).session.id == one


def test_resources_are_listed_in_pages(native, name):
    session = native.session()
    names = [f"{name}/{letter}" for letter in "abcde"]
    for each in names:
        native.acquire(session, want(each))
    first = native.call("Resources/List", prefix=name, limit=3)
    assert [state.resource for state in first.states] == names[:3] and first.more
    rest = native.call("Resources/List", prefix=name, after=first.states[-1].resource)
    assert [state.resource for state in rest.states] == names[3:] and not rest.more
    acquisitions = native.call("Sessions/Get", session_id=session).acquisitions
    assert [each.wants[0].resource for each in acquisitions] == names


# Pools, fences, history


def test_slots_of_a_pool_are_given_out_and_handed_over(native, name):
    native.call("Pools/Set", pool={"name": name, "slots": ["g0", "g1", "g2"]})
    one, two = native.session("one"), native.session("two")
    both = native.acquire(one, slots_of(name, 2))
    assert [(each.pool, list(each.slots)) for each in both.slots] == [(name, ["g0", "g1"])]
    waiting = native.begin_acquire(two, slots_of(name, 2))
    state = lambda: native.call("Pools/Get", name=name).state  # noqa: E731
    wait_for(lambda: state().waiting == 1, CALL_SECONDS, "a waiter")
    assert {taken.slot: taken.owner for taken in state().taken} == {"g0": "one", "g1": "one"}
    assert refusal(lambda: native.call("Pools/Remove", name=name)) == Code.FAILED_PRECONDITION
    native.release(both)
    told = waiting.result(timeout=CALL_SECONDS).acquisition
    assert told.token > both.token
    native.release(told)
    assert name in [each.pool.name for each in native.call("Pools/List").states]
    native.call("Pools/Remove", name=name)
    assert refusal(lambda: native.call("Pools/Get", name=name)) == Code.NOT_FOUND
    assert refusal(lambda: native.acquire(one, slots_of(name))) == Code.NOT_FOUND


def test_a_fence_refuses_a_lower_token(native, name):
    check = lambda token: native.call("Fences/Check", resource=name, token=token)  # noqa: E731
    assert native.call("Fences/Get", resource=name).highest == 0
    assert (check(10).accepted, check(10).accepted, check(9).accepted, check(11).accepted) == (True, True, False, True)
    assert native.call("Fences/Get", resource=name).highest == 11


def test_events_tell_what_happened_in_order(native, name):
    start = native.call("Sessions/List", limit=1).header.revision + 1
    one, two = native.session("one"), native.session("two")
    held = native.acquire(one, want(name))
    waiting = native.begin_acquire(two, want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    native.call("Resources/Proclaim", acquisition_id=held.id, session_id=one, value="v")
    native.acquire(one, want(f"another/{name}"))
    native.release(held)
    told = waiting.result(timeout=CALL_SECONDS).acquisition
    native.call("Sessions/End", session_id=two, revoke=True)
    stream = native.stream("History/Events", prefix=name, start_revision=start)
    events = [next(stream) for _ in range(6)]
    stream.cancel()
    owner = lambda event: (event.ended.acquisition if event.type == 2 else event.acquisition).owner  # noqa: E731
    seen = [(event.type, owner(event)) for event in events]
    queued, acquired, over, proclaimed = 0, 1, 2, 3
    assert seen[:3] == [(acquired, "one"), (queued, "two"), (proclaimed, "one")]
    assert sorted(seen[3:5]) == [(acquired, "two"), (over, "one")]
    assert seen[5] == (over, "two")
    assert events[5].ended.reason == 3, "revoked"
    assert {event.header.revision for event in events[3:5]} == {told.token}, "in one revision"
    assert ended(native, acquisition_id=told.id) == ["revoked"]


# What is refused


@pytest.mark.parametrize(
    "method, fields",
    [
        ("Sessions/Create", {"owner": "x" * 129}),
        ("Sessions/Create", {"ttl_ms": 1}),
        ("Sessions/Create", {"note": "x" * 1025}),
        ("Sessions/Create", {"class": 99}),
        ("Resources/Wait", {"wants": []}),
        ("Resources/Wait", {"wants": [want("")]}),
        ("Resources/Wait", {"wants": [want("x" * 257)]}),
        ("Resources/Wait", {"wants": [want("a\0b")]}),
        ("Resources/Wait", {"wants": [want("a"), want("a")]}),
        ("Resources/Wait", {"wants": [{"resource": "a", "pool": "b"}]}),
        ("Resources/Wait", {"wants": [want(str(number)) for number in range(17)]}),
        ("Resources/Wait", {"wants": [want("a")], "wait_ms": -2}),
        ("Resources/Wait", {"wants": [want("a")], "hold_limit_ms": 1}),
        ("Resources/Wait", {"wants": [want("a")], "value": "x" * 4097}),
        ("Resources/Get", {"resource": ""}),
        ("Resources/Transfer", {"acquisition_id": 1, "session_id": 1}),
        ("Pools/Set", {"pool": {"name": "", "slots": ["a"]}}),
        ("Pools/Set", {"pool": {"name": "p", "slots": ["a", "a"]}}),
        ("Fences/Check", {"resource": "r"}),
        ("History/Why", {"resource": "r", "session_id": 1}),
    ],
)
def test_what_is_out_of_bounds_is_refused(native, method, fields):
    assert refusal(lambda: native.call(method, **fields)) == Code.INVALID_ARGUMENT


def test_malformed_messages_are_refused(native):
    for method, described in METHODS.items():
        call = native.channel.stream_stream(f"/leased.v1.{method}")(iter([b"\x0a\xff\xff\xff\xff\xff"]))
        if method == "Pools/List":  # nothing is read of it
            continue
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
        assert caught.value.code() == Code.INVALID_ARGUMENT, described.name


def test_a_read_is_small_whatever_fields_it_has(native):
    unknown = b"\xfa\x3f" + b"\xc0\x84\x3d" + b"x" * 1_000_000  # field 1023, a million bytes
    request = request_of("Resources/Get", resource="r").SerializeToString() + unknown
    with pytest.raises(grpc.RpcError) as caught:
        native.channel.unary_unary("/leased.v1.Resources/Get")(request, timeout=CALL_SECONDS)
    assert caught.value.code() == Code.INVALID_ARGUMENT and "large" in caught.value.details()


# JSON


def test_the_same_as_json(server, name):
    status, text = ask(server, "POST", "/lease/v1/sessions/create", {"owner": "json", "ttl_ms": 5000})
    session = json.loads(text)["session"]
    assert (status, session["owner"], session["ttl_ms"]) == (200, "json", "5000")
    wanted = {"session_id": session["id"], "wants": [{"resource": name}], "value": "v"}
    status, text = ask(server, "POST", "/lease/v1/resources/wait", wanted)
    held = json.loads(text)["acquisition"]
    assert (status, held["stage"]) == (200, "STAGE_ACQUIRED")
    status, text = ask(server, "GET", f"/lease/v1/resources/{name}?with_remaining=true")
    state = json.loads(text)["state"]
    assert state["holders"][0]["token"] == held["token"] and int(state["remaining_ms"]) > 0
    status, text = ask(server, "GET", f"/lease/v1/sessions/{session['id']}")
    assert json.loads(text)["acquisitions"][0]["id"] == held["id"]
    status, text = ask(server, "POST", "/lease/v1/sessions/renew", {"session_id": session["id"]})
    assert json.loads(text)["result"]["ttl_ms"] == "5000"
    # A stream is one line for each answer.
    two = {"session": {"owner": "two"}, "wants": [{"resource": name}], "wait_ms": "100"}
    status, text = ask(server, "POST", "/lease/v1/resources/acquire", two)
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["result"]["position"] == 1 and lines[1]["error"]["grpc_code"] == 10
    status, text = ask(server, "POST", "/lease/v1/resources/wait", {"wants": [{"resource": name}]})
    assert (status, json.loads(text)["code"]) == (409, 10)
    gone = {"acquisition_id": held["id"], "session_id": held["session_id"]}
    status, text = ask(server, "POST", "/lease/v1/resources/release", gone)
    assert (status, json.loads(text)["released"]) == (200, True)
    status, text = ask(server, "GET", f"/lease/v1/history?resource={name}")
    assert json.loads(text)["ended"][0]["reason"] in ("END_RELEASED", "END_LEFT_QUEUE")
    assert ask(server, "GET", "/lease/v1/sessions/none")[0] == 400
    assert ask(server, "GET", "/lease/v1/sessions/12345")[0] == 404


# The server


def test_metrics_count(server, native, name):
    held = native.acquire(native.session(), want(name))
    waiting = native.begin_acquire(native.session(), want(name))
    wait_for(lambda: native.resource(name).waiting == 1, CALL_SECONDS, "a waiter")
    _status, text = ask(server, "GET", "/metrics")
    found = dict(line.split() for line in text.splitlines() if line.startswith("leased_native_") and "{" not in line)
    assert int(found["leased_native_waiting_calls"]) >= 1
    assert int(found["leased_native_sessions"]) >= 2
    before = int(found["leased_native_handed_over_total"])
    native.release(held)
    waiting.result(timeout=CALL_SECONDS)
    _status, text = ask(server, "GET", "/metrics")
    assert f"leased_native_handed_over_total {before + 1}" in text


def test_it_has_a_listener_of_its_own_and_can_be_left_out():
    (port,) = free_ports(1)
    with Server(KIND_LEASED, extra_flags=["--doors", "etcd", "--listen-native", f"127.0.0.1:{port}"]) as server:
        with Rpc(server) as rpc:
            assert refusal(lambda: Native(rpc.channel).session()) == Code.UNIMPLEMENTED
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert Native(channel).session() != 0
