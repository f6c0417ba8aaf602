"""One client changes little of what is large: each small request writes all of it again. See test_one_client.py."""
import contextlib
import threading
import time

import pytest
from hostile_client import MIB, attacked, check_memory_returns, reading, send_all
from redis_attack import ATTACK_SECONDS, connections, fill, flood, request
from redis_attack import attacked as attacked_by_redis

from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.redis import Resp, leased_with_redis
from harness.zookeeper_client import Client

LARGE = "x" * 1_000_000


@pytest.fixture(name="server")
def a_server():
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            fill(resp, [("SET", "big", LARGE), ("SET", "middle", "x" * 100_000),
                        ("SET", "page", "x" * 20_000), ("SET", "row of text", "x" * 2_000), ("SET", "small", "x" * 250),
                        ("HSET", "hash", "1", LARGE), ("HSET", "hash", "2", LARGE), ("HSET", "hash", "3", LARGE),
                        ("RPUSH", "ring", LARGE), ("RPUSH", "ring", LARGE), ("RPUSH", "ring", LARGE),
                        ("RPUSH", "row", LARGE), ("RPUSH", "row", LARGE),
                        ("SADD", "set", LARGE), ("SADD", "set", "y" + LARGE),
                        ("ZADD", "short", *[part for n in range(300) for part in (n, f"m{n}")])])  # fmt: skip
        yield server


SCRIPT = "redis.call('expire', 'big', 1000) return redis.call('persist', 'big')"
BITS = "local bit = redis.call('setbit', 'big', 0, 1) return redis.call('setbit', 'big', 0, 1 - bit)"
TOUCHES = {
    "EXPIRE": [("EXPIRE", "big", "1000")],
    "EXPIRE, smaller": [("EXPIRE", "middle", "1000")],
    "EXPIRE, smaller still": [("EXPIRE", "page", "1000")],
    "EXPIRE, a kilobyte or two": [("EXPIRE", "row of text", "1000")],
    "EXPIRE, as small as is not held back": [("EXPIRE", "small", "1000")],
    "PERSIST": [("PEXPIRE", "big", "1000000"), ("PERSIST", "big")],
    "RENAME": [("RENAME", "big", "b2"), ("RENAME", "b2", "big")],
    "EXPIRE in transactions": [("MULTI",), *[("EXPIRE", "big", "1000")] * 3, ("EXEC",)],
    "EXPIRE in transactions, smaller": [("MULTI",), *[("EXPIRE", "page", "1000")] * 3, ("EXEC",)],
    "EXPIRE in scripts, smaller": [("EVAL", "return redis.call('expire', KEYS[1], 1000)", "1", "middle")],
    "EXPIRE in scripts": [("EVAL", "return redis.call('expire', KEYS[1], 1000)", "1", "big")],
    "EXPIRE in scripts that do not name the key": [("EVAL", SCRIPT, "0")],
    "EXPIRE of what becomes large": [("DEL", "new"), ("SETRANGE", "new", "999999", "x"),
                                     *[("EXPIRE", "new", "1000")] * 300],
    "SETRANGE of what is not there": [("SETRANGE", "new", "999999", "x"), ("DEL", "new")],
    "SETBIT": [("SETBIT", "big", "0", "1"), ("SETBIT", "big", "0", "0")],
    "SETBIT of what is not there": [("SETBIT", "new", "7999999", "1"), ("DEL", "new")],
    "BITFIELD": [("BITFIELD", "middle", "INCRBY", "u8", "0", "1")],
    "SETBIT in scripts that do not name the key": [("EVAL", BITS, "0")],
    "COPY of a hash": [("COPY", "hash", "h2", "REPLACE")],
    "LMOVE": [("LMOVE", "ring", "ring", "LEFT", "RIGHT")],
    "LREM": [("LPUSH", "row", "a"), ("LREM", "row", "1", "a")],
    "SUNIONSTORE": [("SUNIONSTORE", "s2", "set")],
    "ZUNIONSTORE": [("ZUNIONSTORE", "s3", "1", "set")],
    "ZUNIONSTORE of short members": [("ZUNIONSTORE", "s4", "1", "short")],
}  # fmt: skip


@pytest.mark.parametrize("what", TOUCHES)
def test_values_that_small_commands_write_again(server, what):
    before = server.rss_bytes()
    data = b"".join(request(*words) for words in TOUCHES[what])
    with attacked_by_redis(server, f"redis: {what}, of large values"):
        with connections(server) as opened:
            flood(opened, data * 200)
    check_memory_returns(server, before + (128 << 20))


def test_expiries_of_small_values_do_not_wait_for_large_ones(server):
    """Who renews a lock with PEXPIRE is not held back by values that others make."""
    with Resp(server.redis_port) as resp, connections(server) as opened:
        resp("SET", "lock", "1")
        data = request("SET", "made", LARGE) + request("EXPIRE", "made", "1000") * 20 + request("DEL", "made")
        attack = threading.Thread(target=flood, args=(opened, data * 10))
        attack.start()
        longest = 0.0
        while attack.is_alive():
            begun = time.monotonic()
            assert resp("PEXPIRE", "lock", "100000") == (":", b"1")
            longest = max(longest, time.monotonic() - begun)
        attack.join()
    report("redis: PEXPIRE of a small value among large ones", longest_ms=round(longest * 1000))
    assert longest < either(4.0, 0.5)


def flood_znodes(clients, frames, seconds):
    """All of them send the same, and take what is answered."""
    for client in clients:
        reading(client)
    threads = [threading.Thread(target=send_all, args=(client, frames, seconds)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def frames_of(requests):
    return b"".join(jute.frame(jute.integer(number + 1) + jute.integer(op) + payload)
                    for number, (op, payload) in enumerate(requests))


SET_ACL = (jute.SET_ACL, jute.set_acl("/large", jute.OPEN_ACL))
ZNODES = {
    "setACL": [SET_ACL] * either(300, 3_000),
    "setACL of what becomes large": [(jute.SET_DATA, jute.set_data("/large", LARGE.encode())), *[SET_ACL] * 400,
                                     (jute.SET_DATA, jute.set_data("/large", b""))] * either(1, 5),
    # What one request writes is little; there are many.
    "setACL of what is small": [SET_ACL] * either(100_000, 250_000),
}  # fmt: skip
FIRST = {"setACL": LARGE.encode(), "setACL of what is small": b"x" * 4000}


@pytest.mark.parametrize("what", ZNODES)
def test_znodes_that_small_requests_write_again(what):
    with zookeeper.leased() as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(4)]
        clients[0].create("/large", FIRST.get(what, b""))
        before = server.rss_bytes()
        with attacked(server, f"zookeeper: {what}", growth_max=256 * MIB):
            flood_znodes(clients, frames_of(ZNODES[what]), max(2.5, ATTACK_SECONDS))
            time.sleep(ATTACK_SECONDS)
        check_memory_returns(server, before + (128 << 20))


def test_access_lists_of_large_znodes_are_set():
    """They wait for each other, in order, and none is refused."""
    with zookeeper.leased() as server, Client(server.address) as client, Client(server.address) as other:
        client.connect(40_000)
        other.connect(40_000)
        client.create("/large", LARGE.encode())
        for _ in range(60):
            client.post(*SET_ACL)
            other.post(*SET_ACL)
        for each in (client, other):
            versions = []
            for _ in range(60):
                answer = each.receive()
                assert answer.error == 0
                versions.append(answer.body.stat()["aversion"])
            assert versions == sorted(versions)
        assert client.get("/large")[1]["aversion"] == 120
