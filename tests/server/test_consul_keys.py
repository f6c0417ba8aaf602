"""Keys, sessions, locks and transactions of the Consul API on the wire: shapes, headers, texts and codes of Consul 1.15."""
import base64
import itertools
import re
import time

import pytest

from harness.consul import Consul, leased_with_consul

NOBODY = "11111111-2222-3333-4444-555555555555"
_names = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with leased_with_consul() as server:
        yield server


@pytest.fixture
def consul(server):
    with Consul(server.consul_port) as client:
        yield client


@pytest.fixture
def key():
    return f"key{next(_names)}"


def kv(verb, key, **rest):
    return {"KV": {"Verb": verb, "Key": key, **rest}}


def b64(text):
    return base64.b64encode(text.encode()).decode()


# --- Keys.


def test_a_missing_key_is_404_without_a_body(consul, key):
    answer = consul.get(f"kv/{key}")
    assert (answer.status, answer.body) == (404, b"")
    assert answer.index >= 1
    assert answer.headers["x-consul-knownleader"] == "true"
    assert answer.headers["x-consul-lastcontact"] == "0"


def test_a_key_is_shown_as_consul_does(consul, key):
    assert consul.put(f"kv/{key}", "hello", flags=42).text == "true"
    answer = consul.get(f"kv/{key}")
    (entry,) = answer.json
    assert list(entry) == ["LockIndex", "Key", "Flags", "Value", "CreateIndex", "ModifyIndex"]
    assert entry["Value"] == b64("hello") and entry["Flags"] == 42 and entry["LockIndex"] == 0
    assert entry["CreateIndex"] == entry["ModifyIndex"] == answer.index
    assert answer.headers["content-type"] == "application/json"


def test_flags_of_64_bits(consul, key):
    assert consul.put(f"kv/{key}", "", flags=2**64 - 1).json is True
    assert consul.entry(key)["Flags"] == 2**64 - 1
    assert consul.entry(key)["Value"] is None
    assert consul.put(f"kv/{key}", "", flags=2**64).status == 500


def test_raw_is_the_value_alone(consul, key):
    consul.put(f"kv/{key}", b"\x00\xff<script>")
    answer = consul.get(f"kv/{key}", raw=True)
    assert answer.body == b"\x00\xff<script>"
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.index > 1


def test_trees_keys_and_separators(consul, key):
    for name in ("a", "b/1", "b/2", "c/d/e", "c"):
        consul.put(f"kv/{key}/{name}", name)
    tree = consul.get(f"kv/{key}/", recurse=True)
    assert [entry["Key"] for entry in tree.json] == [f"{key}/{n}" for n in ("a", "b/1", "b/2", "c", "c/d/e")]
    assert tree.index == max(entry["ModifyIndex"] for entry in tree.json)
    keys = consul.get(f"kv/{key}/", keys=True, separator="/").json
    assert keys == [f"{key}/{n}" for n in ("a", "b/", "c", "c/")]
    assert consul.get(f"kv/{key}/b", keys=True).json == [f"{key}/b/1", f"{key}/b/2"]
    assert consul.get(f"kv/{key}/none", keys=True).status == 404
    assert consul.get(f"kv/{key}/none", recurse=True).status == 404
    assert consul("DELETE", f"kv/{key}/b", recurse=True).text == "true"
    assert consul.get(f"kv/{key}/b", keys=True).status == 404
    deleted = consul.get(f"kv/{key}/", recurse=True)
    assert deleted.index > tree.index


def test_names_are_decoded(consul, key):
    consul.put(f"kv/{key}%2Fa%20b%C3%A9", "v")
    assert consul.get(f"kv/{key}/", keys=True).json == [f"{key}/a bé"]


def test_cas(consul, key):
    assert consul.put(f"kv/{key}", "1", cas=0).json is True
    assert consul.put(f"kv/{key}", "2", cas=0).json is False
    index = consul.entry(key)["ModifyIndex"]
    assert consul.put(f"kv/{key}", "2", cas=index + 1).json is False
    assert consul.put(f"kv/{key}", "2", cas=index).json is True
    assert consul("DELETE", f"kv/{key}", cas=index).json is False
    assert consul("DELETE", f"kv/{key}", cas=consul.entry(key)["ModifyIndex"]).json is True
    assert consul.entry(key) is None
    assert consul("DELETE", f"kv/{key}", cas=7).json is True  # as Consul: there is nothing to delete
    assert consul("DELETE", f"kv/{key}").json is True


def test_the_same_value_again_changes_nothing(consul, key):
    consul.put(f"kv/{key}", "same")
    before = consul.entry(key)
    consul.put(f"kv/{key}", "same")
    assert consul.entry(key) == before
    consul.put(f"kv/{key}", "same", flags=1)
    assert consul.entry(key)["ModifyIndex"] > before["ModifyIndex"]


def test_what_is_refused(consul, key):
    session = consul.session()
    answer = consul.put(f"kv/{key}", "v", cas=0, acquire=session)
    assert (answer.status, answer.text) == (400, f"Conflicting flags: acquire={session}&cas=0")
    answer = consul("DELETE", f"kv/{key}", cas=0, recurse=True)
    assert (answer.status, answer.text) == (400, "Conflicting flags: cas=0&recurse=")
    for method in ("GET", "PUT", "DELETE"):
        answer = consul(method, "kv/", "v" if method == "PUT" else None)
        assert (answer.status, answer.text) == (400, "Missing key name")
    answer = consul.put(f"kv/{key}", b"x" * (512 * 1024 + 1))
    assert answer.status == 413
    assert answer.text.startswith("Request body(524289 bytes) too large, max size: 524288 bytes.")
    assert consul.put(f"kv/{key}", b"x" * (512 * 1024)).json is True
    assert consul.put(f"kv/{key}", b"x" * (2 * 1024 * 1024)).status == 413
    with_nul = consul.put(f"kv/{key}%00x", "v")
    assert with_nul.status == 400
    assert consul.get(f"kv/{key}", wait="never").text == "Invalid wait time"
    assert consul.get(f"kv/{key}", index="x").text == "Invalid index"
    assert consul.get(f"kv/{key}", stale=True, consistent=True).status == 400
    answer = consul.get(f"kv/{key}", dc="elsewhere")
    assert (answer.status, answer.text) == (500, "No path to datacenter")
    assert consul.get(f"kv/{key}", dc="dc1").status == 200
    assert consul.put(f"kv/{key}", "v", cas="x").status == 500
    consul("DELETE", f"kv/{key}")


# --- Sessions.


def test_a_session_has_consuls_shape(consul):
    session = consul.session(Name="n", TTL="15s")
    answer = consul.get(f"session/info/{session}")
    (facts,) = answer.json
    assert facts == {
        "ID": session, "Name": "n", "Node": "leased", "LockDelay": 15_000_000_000, "Behavior": "release", "TTL": "15s",
        "NodeChecks": ["serfHealth"], "ServiceChecks": None, "CreateIndex": facts["CreateIndex"],
        "ModifyIndex": facts["CreateIndex"],
    }  # fmt: skip
    assert answer.index >= facts["CreateIndex"]
    assert session in [s["ID"] for s in consul.get("session/list").json]
    assert session in [s["ID"] for s in consul.get("session/node/leased").json]
    assert consul.get("session/node/other").json == []
    assert consul.put(f"session/renew/{session}").json == [facts]
    assert consul.put(f"session/destroy/{session}").text == "true"
    assert consul.get(f"session/info/{session}").json == []
    answer = consul.put(f"session/renew/{session}")
    assert (answer.status, answer.text) == (404, f"Session id '{session}' not found")
    assert consul.put(f"session/destroy/{session}").text == "true"


@pytest.mark.parametrize(
    ("facts", "status", "text"),
    [
        ({"TTL": "5x"}, 500, "Session TTL '5x' invalid: time: "),
        ({"TTL": "0.5s"}, 500, "Invalid Session TTL '500000000', must be between [1s=24h0m0s]"),
        ({"TTL": "25h"}, 500, "Invalid Session TTL '90000000000000', must be between [1s=24h0m0s]"),
        ({"TTL": "-10s"}, 500, "Invalid Session TTL '-10000000000', must be between"),
        ({"Behavior": "keep"}, 500, "Invalid Behavior setting 'keep'"),
        ({"TTL": 10}, 400, "Request decode failed: "),
        ({"Checks": ["none"]}, 500, "Missing check"),
        ({"ServiceChecks": [{"ID": "none"}]}, 500, "Missing check"),
        ({"LockDelay": "soon"}, 400, "Request decode failed: "),
        ([], 400, "Request decode failed: "),
    ],
)  # fmt: skip
def test_sessions_that_are_refused(consul, facts, status, text):
    answer = consul.put("session/create", facts)
    assert answer.status == status and answer.text.startswith(text), answer.text


def test_a_body_that_is_no_json(consul):
    assert consul.put("session/create", "{").status == 400
    assert consul.put("session/create", "[" * 100_000).status == 400
    assert consul.put("session/create").status == 200
    assert consul.put("session/renew/").status == 400
    assert consul.put("session/renew/short").text == "failed session lookup: index error: UUID must be 36 characters"


@pytest.mark.parametrize(
    ("given", "shown"),
    [("20s", 20_000_000_000), (0, 0), (5, 5_000_000_000), (5_000_000_000, 5_000_000_000), ("10m", 60_000_000_000),
     ("1500ms", 1_500_000_000)],
)  # fmt: skip
def test_lock_delay_is_read_as_consul_does(consul, given, shown):
    session = consul.session(LockDelay=given)
    assert consul.get(f"session/info/{session}").json[0]["LockDelay"] == shown


def test_checks_of_a_session(consul):
    for facts, shown in (({"Checks": []}, []), ({"NodeChecks": []}, []), ({"Checks": ["serfHealth"]}, ["serfHealth"])):
        session = consul.session(**facts)
        assert consul.get(f"session/info/{session}").json[0]["NodeChecks"] == shown


# --- Locks.


def test_a_lock_has_one_holder(consul, key):
    first, second = consul.session(), consul.session()
    assert consul.acquire(key, first, "1") is True
    entry = consul.entry(key)
    assert entry["Session"] == first and entry["LockIndex"] == 1
    assert consul.acquire(key, second, "2") is False
    assert consul.entry(key) == entry
    assert consul.acquire(key, first, "again") is True
    again = consul.entry(key)
    assert again["LockIndex"] == 1 and again["ModifyIndex"] > entry["ModifyIndex"]
    assert consul.put(f"kv/{key}", "v", release=second).json is False
    assert consul.put(f"kv/{key}", "free", release=first).json is True
    free = consul.entry(key)
    assert "Session" not in free and free["LockIndex"] == 1 and free["Value"] == b64("free")
    assert consul.acquire(key, second) is True  # releasing begins no lock-delay
    assert consul.entry(key)["LockIndex"] == 2
    consul("DELETE", f"kv/{key}")
    assert consul.acquire(key, second) is True
    assert consul.entry(key)["LockIndex"] == 1


def test_writing_without_the_lock_keeps_the_holder(consul, key):
    session = consul.session()
    consul.acquire(key, session)
    assert consul.put(f"kv/{key}", "by another").json is True
    assert consul.entry(key)["Session"] == session and consul.entry(key)["LockIndex"] == 1


def test_sessions_that_cannot_lock(consul, key):
    for session, text in ((NOBODY, f'invalid session "{NOBODY}"'), ("x", 'invalid session "x"'), ("", "missing session")):
        answer = consul.put(f"kv/{key}", "v", acquire=session)
        assert (answer.status, answer.text) == (500, text)
    assert consul.put(f"kv/{key}", "v", release=NOBODY).json is False


def test_lock_delay_follows_the_end_of_a_session(consul, key):
    first, second = consul.session(LockDelay="2s"), consul.session()
    consul.acquire(key, first)
    began = time.monotonic()
    consul.put(f"session/destroy/{first}")
    assert "Session" not in consul.entry(key)
    assert consul.acquire(key, second) is False
    consul("DELETE", f"kv/{key}")  # the delay is that of the name
    assert consul.entry(key) is None
    assert consul.acquire(key, second) is False
    while not consul.acquire(key, second):
        time.sleep(0.01)
    assert time.monotonic() - began >= 2.0
    assert consul.entry(key)["LockIndex"] == 1


def test_the_previous_holder_need_not_wait(consul, key):
    first, second = consul.session(LockDelay="60s"), consul.session()
    consul.acquire(key, first)
    consul.put(f"session/destroy/{first}")
    assert consul.acquire(key, second) is False
    assert consul.acquire(key, second, previous=NOBODY) is False
    assert consul.acquire(key, second, previous=first) is True
    assert consul.entry(key)["LockIndex"] == 2


def test_behavior_delete_takes_the_keys(consul, key):
    session = consul.session(Behavior="delete", LockDelay="60s")
    consul.put(f"kv/{key}/kept", "v")
    consul.acquire(f"{key}/held", session)
    before = consul.get(f"kv/{key}/", recurse=True).index
    consul.put(f"session/destroy/{session}")
    after = consul.get(f"kv/{key}/", recurse=True)
    assert [entry["Key"] for entry in after.json] == [f"{key}/kept"] and after.index > before
    assert consul.acquire(f"{key}/held", consul.session()) is False


def test_a_key_released_in_time_is_not_deleted(consul, key):
    session = consul.session(Behavior="delete")
    consul.put(f"kv/{key}", "v")
    consul.acquire(key, session, "v")
    consul.put(f"kv/{key}", "v", release=session)
    consul.put(f"session/destroy/{session}")
    assert consul.entry(key)["Value"] == b64("v")


def test_a_session_ends_at_its_ttl_not_at_twice_that(consul, key):
    session = consul.session(TTL="1s", LockDelay="0s")
    consul.acquire(key, session)
    renewed = time.monotonic()
    consul.put(f"session/renew/{session}")
    index = consul.entry(key)["ModifyIndex"]
    answer = consul.get(f"kv/{key}", index=index, wait="30s")
    late = time.monotonic() - renewed - 1.0
    assert "Session" not in answer.json[0]
    assert 0 <= late < 0.9  # far from a second TTL, however busy the machine is
    assert consul.get(f"session/info/{session}").json == []
    assert consul.acquire(key, consul.session()) is True


def test_a_session_may_last_as_long_as_in_consul(key):
    """For clients that rely on it: Patroni asks for half of the time that it means."""
    with leased_with_consul(["--consul-session-ttl-multiplier", "2"]) as server, Consul(server.consul_port) as consul:
        session = consul.session(TTL="1s", LockDelay="0s")
        consul.acquire(key, session)
        renewed = time.monotonic()
        assert consul.put(f"session/renew/{session}").json[0]["TTL"] == "1s"
        index = consul.entry(key)["ModifyIndex"]
        answer = consul.get(f"kv/{key}", index=index, wait="30s")
        late = time.monotonic() - renewed - 2.0
        assert "Session" not in answer.json[0]
        assert 0 <= late < 10.0


def test_a_session_holds_many_large_keys(consul, key):
    session = consul.session(LockDelay=0)
    for i in range(12):
        assert consul.acquire(f"{key}/{i}", session, b"x" * (500 * 1024))
    consul.put(f"session/destroy/{session}")
    tree = consul.get(f"kv/{key}/", recurse=True).json
    assert len(tree) == 12 and all("Session" not in entry for entry in tree)
    assert len({entry["ModifyIndex"] for entry in tree}) == 1  # one revision
    consul("DELETE", f"kv/{key}/", recurse=True)


# --- Blocking queries.


def test_a_query_waits_for_its_own_key(server, consul, key):
    consul.put(f"kv/{key}", "1")
    index = consul.entry(key)["ModifyIndex"]
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"kv/{key}", index=index, wait="30s")
        consul.put(f"kv/{key}x", "other")
        consul("DELETE", f"kv/{key}x")
        consul.put(f"kv/{key}", "2")
        answer = waiter.answer()
    assert answer.json[0]["Value"] == b64("2")
    assert answer.index == answer.json[0]["ModifyIndex"] > index


def test_a_query_out_of_time_keeps_its_index(consul, key):
    consul.put(f"kv/{key}", "1")
    index = consul.entry(key)["ModifyIndex"]
    consul.put(f"kv/z{key}", "other")
    consul("DELETE", f"kv/z{key}")
    for target, wanted in ((f"kv/{key}", 200), (f"kv/{key}none", 404)):
        began = time.monotonic()
        answer = consul.get(target, index=index, wait="200ms")
        assert answer.status == wanted and answer.index >= index
        assert time.monotonic() - began >= (0.2 if wanted == 200 else 0)
    assert consul.get(f"kv/{key}", index=index, wait="50ms").index == index
    # Deletions of others do not answer it at once either.
    began = time.monotonic()
    assert consul.get(f"kv/{key}", recurse=True, index=index, wait="200ms").index == index
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("recurse", [False, True])
def test_a_query_sees_a_deletion(server, consul, key, recurse):
    consul.put(f"kv/{key}", "1")
    index = consul.entry(key)["ModifyIndex"]
    flags = {"recurse": True} if recurse else {}
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"kv/{key}", index=index, wait="30s", **flags)
        consul("DELETE", f"kv/{key}")
        answer = waiter.answer()
    assert answer.status == 404 and answer.index > index


def test_a_query_for_what_is_not_there_yet(server, consul, key):
    index = consul.get(f"kv/{key}").index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"kv/{key}", index=index, wait="30s")
        consul.put(f"kv/{key}", "1")
        assert waiter.answer().json[0]["Value"] == b64("1")


def test_an_index_of_the_future_is_not_an_error(consul, key):
    consul.put(f"kv/{key}", "1")
    answer = consul.get(f"kv/{key}", index=2**60, wait="50ms")
    assert answer.status == 200 and answer.index == answer.json[0]["ModifyIndex"]


def test_sessions_are_waited_for(server, consul):
    session = consul.session()
    index = consul.get(f"session/info/{session}").index
    with Consul(server.consul_port) as waiter:
        waiter.send("GET", f"session/info/{session}", index=index, wait="30s")
        consul.put(f"session/destroy/{session}")
        answer = waiter.answer()
    assert answer.json == [] and answer.index > index


# --- Transactions.


def test_a_transaction_sees_its_own_changes(consul, key):
    session = consul.session()
    answer = consul.put("txn", [
        kv("set", f"{key}/a", Value=b64("1"), Flags=7), kv("get", f"{key}/a"),
        kv("lock", f"{key}/l", Value=b64("l"), Session=session), kv("check-session", f"{key}/l", Session=session),
        kv("get-tree", f"{key}/"), kv("check-not-exists", f"{key}/none"), kv("get-or-empty", f"{key}/none"),
        kv("delete", f"{key}/a"), kv("unlock", f"{key}/l", Session=session),
    ])  # fmt: skip
    assert answer.status == 200 and answer.json["Errors"] is None
    results = [result["KV"] for result in answer.json["Results"]]
    assert results[0]["Value"] is None and results[1]["Value"] == b64("1") and results[1]["Flags"] == 7
    assert results[2]["Session"] == session and results[2]["LockIndex"] == 1
    assert [entry["Key"] for entry in results[4:6]] == [f"{key}/a", f"{key}/l"]
    assert results[6] is None
    assert len(results) == 8 and len({r["ModifyIndex"] for r in results if r}) == 1
    assert consul.entry(f"{key}/a") is None
    assert consul.entry(f"{key}/l")["ModifyIndex"] == results[0]["ModifyIndex"]


@pytest.mark.parametrize(
    ("op", "what"),
    [
        (("get", "{}none"), 'key "{}none" doesn\'t exist'),
        (("cas", "{}", {"Index": 1}), 'failed to set key "{}", index is stale'),
        (("delete-cas", "{}", {"Index": 1}), 'failed to delete key "{}", index is stale'),
        (("lock", "{}", {"Session": NOBODY}), f'invalid session "{NOBODY}"'),
        (("unlock", "{}", {"Session": NOBODY}),
         'failed to unlock key "{}", lock isn\'t held, or is held by another session'),
        (("check-index", "{}none", {"Index": 1}), 'failed to check index, key "{}none" doesn\'t exist'),
        (("check-index", "{}", {"Index": 1}), 'failed index check for key "{}", current modify index {index} != 1'),
        (("check-session", "{}", {"Session": "s"}), 'failed session check for key "{}", current session "" != "s"'),
        (("check-not-exists", "{}"), 'key "{}" exists'),
        (("frob", "{}"), 'unknown KV verb "frob"'),
    ],
)  # fmt: skip
def test_a_transaction_that_fails_changes_nothing(consul, key, op, what):
    consul.put(f"kv/{key}", "v")
    before = consul.entry(key)
    verb, name, rest = (*op, {})[:3]
    answer = consul.put("txn", [kv("set", key, Value=b64("changed")), kv(verb, name.format(key), **rest)])
    assert answer.status == 409
    failure = answer.json["Errors"][0]
    assert answer.json["Results"] is None
    wanted = re.sub(r"current modify index .* !=", "current modify index N !=", what.replace("{}", key))
    assert re.sub(r"current modify index .* !=", "current modify index N !=", failure["What"]) == wanted
    assert failure["OpIndex"] == 1
    assert consul.entry(key) == before


def test_bounds_of_transactions(consul, key):
    assert consul.put("txn", [kv("set", f"{key}/{i}", Value="") for i in range(128)]).status == 200
    answer = consul.put("txn", [kv("get", key)] * 129)
    assert (answer.status, answer.text) == (413, "Transaction contains too many operations (129 > 128)")
    assert consul.put("txn", []).json == {"Results": [], "Errors": None}
    assert consul.put("txn", {}).status == 400
    assert consul.put("txn", "").status == 400
    assert consul.put("txn", [kv("set", key, Value="?")]).status == 400
    assert consul.put("txn", [{"Node": {"Verb": "get"}}]).status == 409
    assert consul.put("txn", [kv("delete-tree", f"{key}/")]).status == 200


def test_indexes_never_go_back(consul, key):
    last = 0
    for i in range(20):
        if i % 3 == 2:
            consul("DELETE", f"kv/{key}")
        else:
            consul.put(f"kv/{key}", str(i))
        index = consul.get(f"kv/{key}").index
        assert index > last
        last = index
