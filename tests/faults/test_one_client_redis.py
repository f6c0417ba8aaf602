"""One client of the Redis protocol asks for much, again and again; see test_one_client.py. Another client's puts and
renewals must not wait for it, memory is bounded and comes back."""
import socket
import time

import pytest
from hostile_client import check_memory_returns, send_all
from redis_attack import ATTACK_SECONDS, CONNECTIONS, MIB, attacked, compact, connections, fill, flood, request

from harness.acceptance import either
from harness.redis import Resp, leased_with_redis

KEYS = either(40_000, 100_000)
ELEMENTS = either(30_000, 60_000)


@pytest.fixture(scope="module", name="server")
def a_server():
    """With many keys, and one large collection of each kind."""
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            fill(resp, [("MSET", *[part for key in range(start, start + 1000) for part in (f"key:{key}", "v")])
                        for start in range(0, KEYS, 1000)])
            batches = [range(start, start + 1000) for start in range(0, ELEMENTS, 1000)]
            fill(resp, [("RPUSH", "list", *batch) for batch in batches])
            fill(resp, [("SADD", "set", *batch) for batch in batches])
            fill(resp, [("HSET", "hash", *[part for n in batch for part in (n, "value")]) for batch in batches])
            fill(resp, [("ZADD", "zset", *[part for n in batch for part in (n, f"m{n}")]) for batch in batches])
            fill(resp, [("ZADD", "thousand", *[part for n in range(1000) for part in (n, f"m{n}")])])
            fill(resp, [("SET", "big", "x" * 1_000_000)])
            fill(resp, [("HSET", "large", f"field:{number}", "x" * 1_000_000) for number in range(15)])
            fill(resp, [("SET", "a" * 10_000, "1")])
        yield server


HEAVY = "local n = 0 while true do n = n + 1 end"
EVIL_PATTERN = "*" + "a" * 500 + "b"
READS = {
    "all keys": [("KEYS", "*")],
    "keys of a pattern": [("KEYS", "*1*2*3*")],
    "keys of a pattern that is much work": [("KEYS", "*[" + "b" * 900 + "]a")],
    "scans": [("SCAN", "0", "COUNT", "100000", "MATCH", EVIL_PATTERN)],
    "collections": [("LRANGE", "list", "0", "-1"), ("SMEMBERS", "set"), ("HGETALL", "hash"),
                    ("ZREVRANGEBYSCORE", "zset", "+inf", "-inf", "LIMIT", "0", "1")],
    "members at random": [("SRANDMEMBER", "set"), ("HRANDFIELD", "hash", "5"), ("SRANDMEMBER", "set", "-100000")],
    "large values": [("MGET", *["big"] * 10)],
    "large fields": [("HGETALL", "large")],
    "bits of large values": [("BITCOUNT", "big"), ("BITPOS", "big", "1", "0", "-1"),
                             ("EVAL_RO", "while true do redis.call('bitcount', 'big') end", "0")],
    "many keys": [("MGET", *["key:1"] * 100_000)],
    "sets of nothing": [("SDIFF", "set", *["none"] * 50_000)],
    "sorted sets that are combined": [("ZUNION", "1000", *["zset"] * 1000), ("ZINTER", "3", "zset", "zset", "set"),
                                      ("ZDIFF", "2", "set", "zset"), ("ZINTERCARD", "50000", *["zset"] * 50_000)],
    "scripts that read": [("EVAL_RO", HEAVY, "0")],
    "what others are": [("CLIENT", "LIST"), ("CLIENT", "KILL", "ADDR", "1.2.3.4:5")],
    "what the server is": [("COMMAND", "DOCS"), ("COMMAND",), ("INFO",), ("CONFIG", "GET", "[" + "b" * 500_000 + "]")],
}  # fmt: skip
CHANGES = {
    "collections in transactions": [("MULTI",), ("SMEMBERS", "set"), ("EXEC",)],
    "a list that is searched": [("LREM", "list", "0", "none"), ("LINSERT", "list", "BEFORE", "none", "x")],
    "sets that are stored": [("SDIFFSTORE", "to", "set", "none"), ("SINTERSTORE", "to", "set", "set", "none")],
    "the highest score": [("ZPOPMAX", "zset"), ("ZADD", "zset", "1", "again")],
    "sorted sets that are stored": [("ZUNIONSTORE", "to", "1000", *["zset"] * 1000),
                                    ("ZUNIONSTORE", "to", "1", "thousand"),
                                    ("ZINTERSTORE", "to", "2", "zset", "set"),
                                    ("ZDIFFSTORE", "to", "2", "set", "zset")],
    "sorted sets in transactions": [("MULTI",), ("ZUNION", "20", *["thousand"] * 20), ("EXEC",), ("MULTI",),
                                    ("ZINTER", "2", "zset", "set"), ("EXEC",)],
    "members that are popped": [("ZMPOP", "1", "zset", "MAX", "COUNT", "1000"), ("BZMPOP", "0.01", "1", "zset", "MAX"),
                                ("LMPOP", "1", "list", "RIGHT", "COUNT", "100"), ("ZADD", "zset", "1", "again")],
    "what the server is, in transactions": [("MULTI",), *[("COMMAND", "DOCS")] * 1000, ("EXEC",)],
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("reads", either([True], [True, False]), ids=either(["taken"], ["taken", "not taken"]))
def test_reads(server, what, reads):
    before = server.rss_bytes()
    with attacked(server, f"redis: {what}{'' if reads else ', replies not taken'}"):
        with connections(server, reads=reads) as opened:
            flood(opened, b"".join(request(*words) for words in READS[what]) * 50)
    check_memory_returns(server, before)


def test_large_values_that_nobody_takes(server):
    before = server.rss_bytes()
    data = request("MGET", *["big"] * 10) + request("SET", "x", "y") + request("GET", "big") * 100
    with attacked(server, "redis: large values that nobody takes"):
        with connections(server, either(20, 100), reads=False) as opened:
            flood(opened, data * 5)
    check_memory_returns(server, before)


@pytest.mark.parametrize("what", CHANGES)
def test_changes(server, what):
    before = server.rss_bytes()
    with attacked(server, f"redis: {what}"):
        with connections(server) as opened:
            flood(opened, b"".join(request(*words) for words in CHANGES[what]) * 20)
    check_memory_returns(server, before)


@pytest.mark.parametrize("command", ["EVAL", "SCRIPT"])
def test_scripts_that_are_new_each_time(server, command):
    """Compiled and run, or compiled and kept."""
    number = 0

    def script():
        nonlocal number
        number += 1
        if command == "EVAL":
            return request("EVAL", f"{HEAVY} -- {number}", "0")
        return request("SCRIPT", "LOAD", f"local t = {{}} -- {number}\n" + "t[#t + 1] = {}\n" * 6_000)

    # Those that are kept stay, and what they replace until history is compacted.
    with attacked(server, f"redis: {command} of new scripts", growth_max=2 * 256 * MIB):
        with connections(server) as opened:
            end = time.monotonic() + ATTACK_SECONDS
            while time.monotonic() < end:
                for each in opened:
                    send_all(each, b"".join(script() for _ in range(5)), end - time.monotonic())


def test_subscriptions(server):
    before = server.rss_bytes()
    names = [f"channel:{number:08}" for number in range(either(30_000, 65_000))]
    with attacked(server, "redis: subscriptions"):
        with connections(server, either(4, 16)) as opened:
            for index, each in enumerate(opened):
                own = [f"{name}:{index}" for name in names]
                for start in range(0, len(own), 20_000):
                    part = own[start: start + 20_000]
                    send_all(each, request("SUBSCRIBE", *part) * 2 + request("UNSUBSCRIBE", *part[:10_000]))
            with Resp(server.redis_port) as other:
                for _ in range(50):
                    other("PUBSUB", "CHANNELS", "none")
                for _ in range(100):
                    other("PUBLISH", f"{names[-1]}:1", "x")
    check_memory_returns(server, before)


def test_subscriptions_with_long_names(server):
    before = server.rss_bytes()
    with attacked(server, "redis: subscriptions with long names"):
        with connections(server, either(4, 16)) as opened:
            for index, each in enumerate(opened):
                for number in range(40):
                    send_all(each, request("SUBSCRIBE", f"{index}:{number}:" + "x" * MIB))
    check_memory_returns(server, before)


def test_patterns_that_are_much_work(server):
    before = server.rss_bytes()
    with attacked(server, "redis: patterns"):
        with connections(server, 4) as opened:
            for index, each in enumerate(opened):
                patterns = [f"*{'a' * 400}{index}:{number}" for number in range(either(500, 5_000))]
                send_all(each, request("PSUBSCRIBE", *patterns))
            with connections(server, 4) as publishers:
                flood(publishers, request("PUBLISH", "a" * 4_000, "x") * 10)
    check_memory_returns(server, before)


@pytest.mark.parametrize("reads", [True, False], ids=["taken", "not taken"])
def test_large_messages_for_many(server, reads):
    before = server.rss_bytes()
    with attacked(server, f"redis: large messages{'' if reads else ', not taken'}"):
        with connections(server, either(50, 300), reads=reads) as opened:
            for each in opened:
                each.send("SUBSCRIBE", "channel")
            with connections(server, 2) as publishers:
                flood(publishers, request("PUBLISH", "channel", "x" * 300_000))
    compact(server)
    check_memory_returns(server, before)


def test_transactions_without_end(server):
    before = server.rss_bytes()
    with attacked(server, "redis: MULTI with a million commands"):
        with connections(server) as opened:
            flood(opened, request("MULTI") + request("SET", "x", "y" * 300) * either(100_000, 1_000_000))
    check_memory_returns(server, before)


def test_clients_that_wait_for_many_keys(server):
    before = server.rss_bytes()
    with attacked(server, "redis: BLPOP of many keys"):
        with connections(server) as opened:
            for each in opened:
                send_all(each, request("BLPOP", *["queue"] * 100_000, "0"))
                send_all(each, request("BLPOP", *[f"queue:{number}" for number in range(50_000)], "0"))
            time.sleep(0.2)
    check_memory_returns(server, before)


def test_requests_beyond_the_limit(server):
    before = server.rss_bytes()
    with attacked(server, "redis: requests beyond the limit"):
        with connections(server) as opened:
            flood(opened, request("SET", "x", "y" * (8 * MIB)))
    check_memory_returns(server, before)


def test_requests_in_small_pieces(server):
    """Many arguments, a few bytes at a time: what has come is not looked at again and again."""
    before = server.rss_bytes()
    data = request("MGET", *["k"] * 100_000)
    with attacked(server, "redis: requests in small pieces"):
        with connections(server, 4) as opened:
            for each in opened:
                each.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                send_all(each, data[:-5_000])
            end = time.monotonic() + ATTACK_SECONDS
            for at in range(len(data) - 5_000, len(data) - 10):
                for each in opened:
                    each.socket.send(data[at: at + 1])
                if time.monotonic() > end:
                    break
    check_memory_returns(server, before)


def test_names(server):
    before = server.rss_bytes()
    with attacked(server, "redis: names of clients"):
        with connections(server) as opened:
            flood(opened, request("CLIENT", "SETNAME", "x" * 64) * 100 + request("CLIENT", "SETNAME", "x" * MIB))
    check_memory_returns(server, before)
