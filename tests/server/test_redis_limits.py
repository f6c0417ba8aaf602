"""What one request of the Redis protocol may ask for: large collections, many keys, deep replies, values beyond the
limit. Each is done or refused; the server goes on, and so does the connection."""
import contextlib

import pytest

from harness.redis import Resp, RespError, leased_with_redis

MIB = 1024 * 1024
# Of one command through the log, as docs/doors/redis.md says.
RECORDS_MAX = 65_536


@pytest.fixture(name="server", scope="module")
def a_server():
    with leased_with_redis() as server:
        yield server


@pytest.fixture(name="resp")
def a_connection(server):
    with Resp(server.redis_port) as connection:
        connection("FLUSHALL")
        yield connection


def fill(resp, command, key, count, step=2_000):
    """A list or a set of numbers."""
    for start in range(0, count, step):
        resp.send(command, key, *range(start, min(start + step, count)))
    for _ in range(0, count, step):
        assert resp.reply()[0] == ":"


def test_a_list_that_is_too_long_to_be_looked_through(resp):
    fill(resp, "RPUSH", "list", RECORDS_MAX + 4_000)
    assert resp("LINSERT", "list", "BEFORE", "no such element", "x")[0] == "-"
    assert resp("LLEN", "list") == (":", b"%d" % (RECORDS_MAX + 4_000))
    assert resp("LPUSH", "list", "first") == (":", b"%d" % (RECORDS_MAX + 4_001))


def test_deep_replies_inside_of_a_transaction(resp):
    script = "local deepest = 'x' for i = 1, 200 do deepest = {deepest} end return deepest"
    deep = resp("EVAL", script, "0")
    assert deep[0] == "*"
    assert resp("MULTI") == ("+", b"OK")
    assert resp("EVAL", script, "0") == ("+", b"QUEUED")
    assert resp("EXEC") == ("*", [deep])


def test_sets_that_are_named_thousands_of_times(resp):
    fill(resp, "SADD", "set", 20_000)
    for command in ("SUNION", "SINTER"):
        assert resp(command, *["set"] * 50_000)[0] == "-"
        assert resp(command + "STORE", "to", *["set"] * 50_000)[0] == "-"
    assert resp("SDIFF", "set", *["none"] * 100_000)[0] == "*"
    assert resp("SDIFFSTORE", "to", "none", *["none"] * 60_000) == (":", b"0")
    assert resp("EXISTS", "to") == (":", b"0")
    assert resp("SUNION", "none", "set", "none")[1] == resp("SMEMBERS", "set")[1]


def test_flushall_takes_any_amount(resp):
    for number in range(7):
        fill(resp, "SADD", f"set{number}", 40_000)
    for number in range(24):
        assert resp("SET", f"string{number}", "x" * MIB) == ("+", b"OK")
    assert resp("SCAN", "0", "COUNT", "1000")[1][1][0] == "*"
    assert resp("FLUSHALL") == ("+", b"OK")
    assert resp("DBSIZE") == (":", b"0")


def test_replies_that_are_not_wanted(resp):
    """CLIENT REPLY SKIP is for the next request, whichever is answered first."""
    resp.send("CLIENT", "REPLY", "SKIP")
    resp.send("SET", "key", "value")
    resp.send("PING", "wanted")
    resp.send("GET", "key")
    assert resp.reply() == ("$", b"wanted")
    assert resp.reply() == ("$", b"value")


@pytest.mark.parametrize("sizes", [(2 * MIB,), (MIB, MIB), (20 * MIB,), (1000,) * 3_000],
                         ids=["value", "values", "large value", "many values"])  # fmt: skip
def test_a_request_beyond_the_limit_is_refused_and_the_connection_goes_on(resp, sizes):
    parts = [part for number, size in enumerate(sizes) for part in (f"key{number}", "x" * size)]
    resp.send("SET", "before", "1")
    resp.send("MSET", *parts)
    resp.send("SET", "behind", "1")
    assert resp.reply() == ("+", b"OK")
    letter, text = resp.reply()
    assert letter == "-" and b"larger than" in text, text
    assert resp.reply() == ("+", b"OK")
    assert resp("EXISTS", "before", "key0", "behind") == (":", b"2")
    resp("MULTI")
    assert resp("SET", "changed", "1") == ("+", b"QUEUED")
    assert resp("MSET", *parts)[0] == "-"
    assert resp("EXEC")[1].startswith(b"EXECABORT")
    assert resp("EXISTS", "changed") == (":", b"0")


def test_a_request_beyond_what_redis_takes_breaks_the_protocol(server):
    for request in (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (512 * MIB + 1), b"*2\r\n$3\r\nGET\r\n$-1\r\n"):
        with Resp(server.redis_port) as connection:
            connection.send_raw(request)
            assert connection.reply() == ("-", b"ERR Protocol error: invalid bulk length")
            with pytest.raises((RespError, ConnectionError)):
                connection.reply()


def test_a_request_that_comes_byte_by_byte(resp):
    request = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nv\r\n12\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
    for byte in request:
        resp.send_raw(bytes([byte]))
    assert [resp.reply() for _ in range(3)] == [("+", b"OK"), ("+", b"PONG"), ("$", b"v\r\n12")]


def test_large_replies_that_are_pipelined(resp):
    """Behind a change that is on its way they take the same way: they wait for the client, who reads at last."""
    resp("SET", "big", "x" * 1_000_000)
    n = 150
    for number in range(n):
        resp.send("SET", "small", number)
        resp.send("GET", "big")
    for number in range(n):
        assert resp.reply() == ("+", b"OK")
        assert len(resp.reply()[1]) == 1_000_000


def test_much_work_behind_clients_that_do_not_read(server, resp):
    """Those that wait for their turn behind them get it all the same."""
    resp("SET", "big", "x" * 1_000_000)
    heavy = "local n = 0 while n < 20000 do n = n + 1 end return n"
    deaf = [Resp(server.redis_port) for _ in range(8)]
    others = [Resp(server.redis_port) for _ in range(8)]
    for number in range(8):
        deaf[number].socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for index in range(40):  # each is new, and may be much work
                deaf[number].send("EVAL", f"{heavy} -- {number} {index}", "0")
                deaf[number].send("GET", "big")
        for index in range(10):
            others[number].send("EVAL", f"{heavy} -- other {number} {index}", "0")
    for each in others:
        assert [each.reply() for _ in range(10)] == [(":", b"20000")] * 10
    for each in deaf + others:
        each.close()
