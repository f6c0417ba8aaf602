"""What the Redis protocol of leased has that Redis has not: fencing tokens, bounds, cursors, what survives, and who may
share a port with it. What both have is compared in tests/conformance."""
import hashlib

import pytest

from harness.kinds import KIND_LEASED
from harness.redis import Resp, RespError, leased_with_redis
from harness.server import Server
from harness.wait import wait_for

WAIT_SECONDS = 30.0


@pytest.fixture(name="server", scope="module")
def a_server():
    with leased_with_redis() as server:
        yield server


@pytest.fixture(name="resp")
def a_connection(server):
    with Resp(server.redis_port) as connection:
        connection("FLUSHALL")
        yield connection


def number(reply):
    assert reply[0] == ":", reply
    return int(reply[1])


def token_of(resp, key):
    return number(resp("LEASED.TOKEN", key))


def test_a_new_holder_has_a_higher_token(resp):
    assert resp("SET", "lock", "a", "NX", "PX", "60000") == ("+", b"OK")
    first = token_of(resp, "lock")
    assert resp("SET", "lock", "b", "NX", "PX", "60000") == ("$", None)
    assert resp("PEXPIRE", "lock", "50000") == (":", b"1")
    assert resp("SET", "lock", "a", "PX", "60000") == ("+", b"OK")  # the same holder, as Redlock extends
    assert token_of(resp, "lock") == first
    assert resp("SET", "lock", "b") == ("+", b"OK")
    second = token_of(resp, "lock")
    assert second > first
    resp("DEL", "lock")
    assert resp("LEASED.TOKEN", "lock") == ("$", None)
    resp("SET", "lock", "b", "NX")
    assert token_of(resp, "lock") > second
    resp("HSET", "hash-lock", "owner", "1")
    held = token_of(resp, "hash-lock")
    resp("HINCRBY", "hash-lock", "owner", "1")
    assert token_of(resp, "hash-lock") == held


def test_a_fence_refuses_older_tokens(resp):
    for token, answer in ((7, b"1"), (7, b"1"), (6, b"0"), (9, b"1"), (8, b"0")):
        assert resp("LEASED.FENCE", "storage", str(token)) == (":", answer)
    assert resp("LEASED.FENCE", "another", "1") == (":", b"1")
    assert resp("LEASED.FENCE", "storage", "0")[0] == "-"
    assert resp("EXISTS", "storage") == (":", b"0")


def test_a_token_is_an_attribute_for_who_asked_for_it(resp):
    assert resp("HELLO", "3")[0] == "%"
    assert resp("SET", "one", "a", "NX") == ("+", b"OK")
    assert resp("CLIENT", "LEASED", "TOKENS", "ON") == ("+", b"OK")
    letter, pairs, reply = resp("SET", "two", "a", "NX")
    assert (letter, reply) == ("|", ("+", b"OK"))
    assert pairs == [(("+", b"leased-token"), (":", str(token_of(resp, "two")).encode()))]
    assert resp("SET", "two", "b", "NX") == ("_", b"")
    assert resp("SET", "two", "b") == ("+", b"OK")
    assert resp("HELLO", "2")[0] == "*"
    assert resp("SET", "three", "a", "NX") == ("+", b"OK")


def test_the_client_port_speaks_it_when_it_is_chosen():
    with Server(KIND_LEASED, extra_flags=["--doors=etcd,redis"]) as server:
        with Resp(server.client_port, server.host) as connection:
            assert connection("PING") == ("+", b"PONG")
        with Resp(server.client_port, server.host) as connection, pytest.raises(RespError):
            connection.send_raw(b"PING\r\n")  # could be any protocol
            connection.reply()
    with Server(KIND_LEASED) as server, Resp(server.client_port, server.host) as connection:
        with pytest.raises((RespError, ConnectionError)):
            connection("PING")


def test_everything_survives_a_restart(server, resp):
    resp("SET", "kept", "v", "PX", "600000")
    resp("ZADD", "scores", "1", "a", "2.5", "b")
    token = token_of(resp, "kept")
    (_, sha) = resp("SCRIPT", "LOAD", "return 'known'")
    server.kill()
    server.launch()
    server.wait_ready()
    with Resp(server.redis_port) as again:
        assert again("GET", "kept") == ("$", b"v")
        assert 0 < number(again("PTTL", "kept")) <= 600000
        assert token_of(again, "kept") == token
        assert again("ZRANGE", "scores", "0", "-1") == ("*", [("$", b"a"), ("$", b"b")])
        assert again("EVALSHA", sha, "0") == ("$", b"known")


def test_scripts_are_known_until_others_take_their_places(resp):
    large = "return 'large' --" + "x" * 40_000  # three places of 1,024
    assert resp("EVAL", large, "0") == ("$", b"large")
    sha = hashlib.sha1(large.encode()).hexdigest()
    assert resp("EVALSHA", sha, "0") == ("$", b"large")
    shas = [resp("SCRIPT", "LOAD", f"return {index}")[1] for index in range(1_022)]
    assert resp("SCRIPT", "EXISTS", sha, shas[0]) == ("*", [(":", b"0"), (":", b"1")])
    assert resp("EVAL", large, "0") == ("$", b"large")
    assert resp("SCRIPT", "EXISTS", sha, shas[0], shas[1]) == ("*", [(":", b"1"), (":", b"0"), (":", b"1")])
    resp("SCRIPT", "LOAD", "return 'behind it'")
    assert resp("SCRIPT", "EXISTS", sha, shas[1]) == ("*", [(":", b"1"), (":", b"0")])
    assert resp("SCRIPT", "FLUSH") == ("+", b"OK")
    assert resp("SCRIPT", "EXISTS", sha) == ("*", [(":", b"0")])


def test_what_is_too_much_is_refused_and_leaves_nothing(resp):
    resp("SET", "big", "x" * 1_000_000)
    assert resp("MGET", *["big"] * 100)[0] == "-"
    assert resp("EVAL", "return #redis.call('MGET', unpack(ARGV))", "0", *["big"] * 100)[0] == "-"
    resp("MULTI")
    resp("SET", "changed", "1")
    resp("MGET", *["big"] * 10)
    assert resp("EXEC")[0] == "-"
    assert resp("EXISTS", "changed") == (":", b"0")
    assert resp("EVAL", "redis.call('SET', 'changed', '1') while true do end", "0")[0] == "-"
    assert resp("EXISTS", "changed") == (":", b"0")
    assert resp("SET", "k" * 20_000, "v")[0] == "-"
    assert resp("PING") == ("+", b"PONG")


def test_a_large_collection_goes_in_one_step(resp):
    for start in range(0, 12_000, 2_000):
        resp("SADD", "set", *range(start, start + 2_000))
    assert resp("SCARD", "set") == (":", b"12000")
    assert resp("PEXPIRE", "set", "600000") == (":", b"1")
    assert resp("RENAME", "set", "other") == ("+", b"OK")
    assert resp("DEL", "other") == (":", b"1")
    assert resp("SCARD", "other") == (":", b"0")
    for index in range(0, 9_000, 1_000):
        resp("MSET", *[part for key in range(index, index + 1_000) for part in (f"key{key}", "v")])
    assert resp("DBSIZE") == (":", b"9000")
    assert resp("FLUSHALL") == ("+", b"OK")  # more than one run may delete
    assert resp("DBSIZE") == (":", b"0")


def test_a_scan_gives_every_key_once(resp):
    names = {f"key{index}".encode() for index in range(500)}
    resp("MSET", *[part for name in names for part in (name, "v")])
    cursor, found = b"0", []
    while True:
        _, ((_, cursor), (_, keys)) = resp("SCAN", cursor, "COUNT", "37")
        found += [key for _, key in keys]
        if cursor == b"0":
            break
    assert sorted(found) == sorted(names)
    assert resp("SCAN", "123456789")[0] == "-"


def test_a_client_that_goes_while_it_waits_takes_nothing(server, resp):
    with Resp(server.redis_port) as waiting:
        waiting.send("BLPOP", "queue", "0")
        wait_for(lambda: b"blocked_clients:1" in resp("INFO", "clients")[1], WAIT_SECONDS, "a client that waits")
    wait_for(lambda: b"blocked_clients:0" in resp("INFO", "clients")[1], WAIT_SECONDS, "it is gone")
    resp("RPUSH", "queue", "work")
    assert resp("LLEN", "queue") == (":", b"1")


def test_clients_that_wait_for_entries_of_a_stream_all_get_them(server, resp):
    resp("XADD", "stream", "1-1", "old", "1")
    waiting = [Resp(server.redis_port) for _ in range(3)]
    for index, each in enumerate(waiting):
        each.send("XREAD", "COUNT", "5", "BLOCK", "0", "STREAMS", "none", "stream", "0", "$")
        expected = f"blocked_clients:{index + 1}".encode()
        wait_for(lambda: expected in resp("INFO", "clients")[1], WAIT_SECONDS, "it waits")
    resp("XADD", "stream", "2-1", "new", "1")
    entry = ("*", [("$", b"2-1"), ("*", [("$", b"new"), ("$", b"1")])])
    for each in waiting:
        assert each.reply() == ("*", [("*", [("$", b"stream"), ("*", [entry])])])
        each.close()
    assert resp("XREAD", "BLOCK", "20", "STREAMS", "stream", "$") == ("*", None)


def test_entries_that_are_there_do_not_wait_for_clients_that_want_later_ones(server, resp):
    resp("XADD", "stream", "1-1", "old", "1")
    with Resp(server.redis_port) as waiting:
        waiting.send("XREAD", "BLOCK", "0", "STREAMS", "stream", "$")
        wait_for(lambda: b"blocked_clients:1" in resp("INFO", "clients")[1], WAIT_SECONDS, "it waits")
        entry = ("*", [("$", b"1-1"), ("*", [("$", b"old"), ("$", b"1")])])
        expected = ("*", [("*", [("$", b"stream"), ("*", [entry])])])
        assert resp("XREAD", "BLOCK", "500", "STREAMS", "stream", "0") == expected


def test_the_end_of_a_long_stream(resp):
    """Found without a look at all that is before it, whatever it holds."""
    for start in range(0, 6_000, 1_000):
        for number in range(start, start + 1_000):
            resp.send("XADD", "stream", f"{1_700_000_000_000 + 50 * number}-0", "number", number, "text", "x" * 4_000)
        for _ in range(1_000):
            assert resp.reply()[0] == "$"
    for count in (1, 7):
        (_, entries) = resp("XREVRANGE", "stream", "+", "-", "COUNT", count)
        assert [entry[1][1][1][1][1] for entry in entries] == [b"%d" % (5_999 - index) for index in range(count)]
    (_, entries) = resp("XREVRANGE", "stream", f"{1_700_000_000_000 + 50 * 100}", "-", "COUNT", "2")
    assert [entry[1][1][1][1][1] for entry in entries] == [b"100", b"99"]
    assert resp("XTRIM", "stream", "MAXLEN", "~", "5500") == (":", b"500")
    assert resp("XLEN", "stream") == (":", b"5500")


def test_clients_that_wait_are_served_in_their_order(server, resp):
    waiting = [Resp(server.redis_port) for _ in range(10)]
    for index, each in enumerate(waiting):
        each.send("BLPOP", "queue", "0")
        expected = f"blocked_clients:{index + 1}".encode()
        wait_for(lambda: expected in resp("INFO", "clients")[1], WAIT_SECONDS, "it waits")
    resp("RPUSH", "queue", *range(10))
    for index, each in enumerate(waiting):
        assert each.reply() == ("*", [("$", b"queue"), ("$", str(index).encode())])
        each.close()
