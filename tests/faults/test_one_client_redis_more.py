"""One client of the Redis protocol with many connections: what they hold, what they wait for, what small
requests make large. See test_one_client_redis.py."""
import contextlib
import socket
import threading
import time

import pytest
from bystander import is_sanitized
from hostile_client import check_memory_returns, send_all
from redis_attack import ATTACK_SECONDS, MIB, attacked, compact, connections, fill, flood, request

from harness.acceptance import either, report
from harness.redis import Resp, leased_with_redis
from harness.wait import wait_for

KEY_SIZE_MAX = 16 * 1024
KEYS_A_REQUEST = 88


@pytest.fixture(scope="module", name="server")
def a_server():
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            fill(resp, [("SET", "big", "x" * 1_000_000)])
            fill(resp, [("MSET", *[part for key in range(start, start + 1000) for part in (f"key:{key}", "v")])
                        for start in range(0, 60_000, 1000)])
            fill(resp, [("SADD", "set", *range(start, start + 1000)) for start in range(0, 60_000, 1000)])
            fill(resp, [("SADD", f"part:{number}", *[f"{element}-{number}" for element in range(120)])
                        for number in range(1_000)])
        yield server


def long_keys(number):
    return [f"{number}:{index}:".ljust(KEY_SIZE_MAX, "x") for index in range(KEYS_A_REQUEST)]


def each_sends(opened, datas, seconds=10.0):
    """Every connection sends its own, eight at a time."""
    queue = list(zip(opened, datas))

    def work():
        with contextlib.suppress(IndexError):
            while True:
                connection, data = queue.pop()
                send_all(connection, data, seconds)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_long_keys_that_are_watched(server):
    before = server.rss_bytes()
    with attacked(server, "redis: WATCH of long keys"):
        with connections(server, either(4, 20)) as opened:
            data = b"".join(request("WATCH", *long_keys(number)) for number in range(either(10, 40)))
            each_sends(opened, [data] * len(opened))
    check_memory_returns(server, before)


def test_transactions_that_are_left_open(server):
    before = server.rss_bytes()
    data = request("MULTI") + request("SET", "x", "y" * 1_400_000) * 2
    with attacked(server, "redis: open transactions"):
        with connections(server, either(30, 300)) as opened:
            each_sends(opened, [data] * len(opened))
            with Resp(server.redis_port) as other:
                for words in [("MULTI",), ("SET", "small", "1"), ("EXEC",)]:
                    reply = other(*words)
                assert reply == ("*", [("+", b"OK")])
    check_memory_returns(server, before)


def test_long_keys_that_are_waited_for(server):
    before = server.rss_bytes()
    with attacked(server, "redis: BLPOP of long keys"):
        with connections(server, either(30, 300)) as opened:
            each_sends(opened, [request("BLPOP", *long_keys(number), "0") for number in range(len(opened))])
    check_memory_returns(server, before)


def test_requests_that_nobody_finishes(server):
    """All but the end of each is held, up to a bound of all: others' requests come in parts, too."""
    before = server.rss_bytes()
    data = request("SET", "x", "y" * 1_300_000)[:-2]
    with attacked(server, "redis: unfinished requests"):
        with connections(server, either(100, 300)) as opened:
            each_sends(opened, [data] * len(opened))
            with Resp(server.redis_port) as other:
                for number in range(20):
                    assert other("SET", "part", f"{number}".ljust(250_000, "z")) == ("+", b"OK")
    check_memory_returns(server, before)


LONG_MEMBERS = {
    "reads": [("SINTER", "long:1", "long:2"), ("ZDIFF", "2", "long:1", "long:2"), ("SUNION", *["long:1", "long:2"] * 500),
              ("ZUNION", "1000", *["long:1", "long:2"] * 500), ("SINTERCARD", "1001", "long:1", *["long:1", "long:2"] * 500)],
    "transactions": [("MULTI",), ("SINTER", "long:1", "long:2"), ("ZUNION", "2", "long:1", "long:2"), ("EXEC",),
                     ("MULTI",), ("SUNION", *["long:1", "long:2"] * 500), ("EXEC",)],
    "changes": [("ZINTERSTORE", "to", "2", "long:1", "long:2"), ("SUNIONSTORE", "to", "long:1", "long:2")],
    "scripts": [("EVAL_RO", "return redis.call('sinter', KEYS[1], KEYS[2])", "2", "long:1", "long:2")],
}  # fmt: skip


@pytest.mark.parametrize("what", LONG_MEMBERS)
def test_long_members_that_are_compared(server, what):
    """Two sets of sixty members of a quarter of a megabyte, which begin alike; half of them are in both."""
    with Resp(server.redis_port) as resp:
        fill(resp, [("SADD", f"long:{number}", "x" * 250_000 + f"{30 * number + member:02}")
                    for number in (1, 2) for member in range(60)])
    before = server.rss_bytes()
    with attacked(server, f"redis: long members, {what}"):
        with connections(server) as opened:
            flood(opened, b"".join(request(*words) for words in LONG_MEMBERS[what]) * 20)
    with Resp(server.redis_port) as resp:
        resp("DEL", "long:1", "long:2", "to")
    compact(server)
    check_memory_returns(server, before)


@pytest.mark.parametrize("n", ["1", "1000"])
def test_members_that_many_wait_for(server, n):
    before = server.rss_bytes()
    members = [part for number in range(1000) for part in (number, f"m{number}")]
    with attacked(server, f"redis: BZMPOP of {n} by many"):
        with connections(server, either(200, 1_500)) as opened:
            for each in opened:
                each.send("BZMPOP", "0", "2", "none", "wanted", "MAX", "COUNT", n)
            with connections(server, 2) as writers:
                flood(writers, request("ZADD", "wanted", *members) + request("DEL", "wanted"))
    compact(server)
    check_memory_returns(server, before)


def test_keys_that_are_waited_for_again_and_again(server):
    before = server.rss_bytes()
    data = request("BLPOP", *[f"none:{number}" for number in range(1_000)], "0.001")
    with attacked(server, "redis: BLPOP of many keys, again and again"):
        with connections(server, either(20, 200)) as opened:
            flood(opened, data * 10)
    check_memory_returns(server, before)


def test_streams_that_have_nothing_for_many(server):
    """One entry must not wake those that wait for later ones."""
    before = server.rss_bytes()
    with attacked(server, "redis: XREAD of what is far away"):
        with connections(server, either(200, 1_500), reads=False) as opened:
            for each in opened:
                each.send("XREAD", "BLOCK", "0", "STREAMS", "events", "99999999999999-0")
            with connections(server, 2) as writers:
                flood(writers, request("XADD", "events", "MAXLEN", "100", "*", "f", "v") * 100)
    compact(server)
    check_memory_returns(server, before)


def test_large_entries_for_many(server):
    before = server.rss_bytes()
    with attacked(server, "redis: XREAD of a large entry by many"):
        with connections(server, either(50, 500), reads=False) as opened:
            for each in opened:
                each.send("XREAD", "BLOCK", "0", "STREAMS", "large", "$")
            with Resp(server.redis_port) as writer:
                writer("XADD", "large", "*", "f", "v" * 1_000_000)
                time.sleep(ATTACK_SECONDS)
                writer("DEL", "large")
    check_memory_returns(server, before)


@pytest.mark.parametrize("block_ms", [0, 1000])
def test_large_entries_reach_a_client_that_reads(server, block_ms):
    """It waits behind many that do not, until these are closed, and longer than it wanted to."""
    with connections(server, 200, reads=False) as opened, Resp(server.redis_port) as reader:
        for each in opened:
            each.send("XREAD", "BLOCK", "0", "STREAMS", "shared", "$")
        wait_for(lambda: server.metric("leased_redis_blocked_clients") == 200, 10, "all of them wait")
        reader.send("XREAD", "BLOCK", block_ms, "STREAMS", "shared", "$")
        reader.send("PING")
        wait_for(lambda: server.metric("leased_redis_blocked_clients") == 201, 10, "the reader waits")
        with Resp(server.redis_port) as writer:
            writer("XADD", "shared", "*", "f", "v" * 1_000_000)
            assert len(str(reader.reply())) > 1_000_000
            assert reader.reply() == ("+", b"PONG")
            writer("DEL", "shared")


LARGE_REPLIES = {
    "GETEX": [("GETEX", "big", "PERSIST")],
    "scripts": [("EVAL", "return redis.call('get', 'big')", "1", "big")],
    "transactions": [("MULTI",), ("GET", "big"), ("EXEC",)],
}


@pytest.mark.parametrize("what", LARGE_REPLIES)
@pytest.mark.parametrize("reads", [True, False], ids=["taken", "not taken"])
def test_large_replies_of_changes(server, what, reads):
    before = server.rss_bytes()
    with attacked(server, f"redis: large replies of {what}{'' if reads else ', not taken'}"):
        with connections(server, reads=reads) as opened:
            flood(opened, b"".join(request(*words) for words in LARGE_REPLIES[what]) * 1_000)
    check_memory_returns(server, before)


@pytest.mark.parametrize("hello", [b"", b"HELLO 3\r\nSUBSCRIBE channel\r\n"], ids=["plain", "subscribed"])
def test_large_replies_behind_those_that_are_not_taken(server, hello):
    """There would be room for a small one: those that take nothing give way all the same."""
    n_values = 12
    wanted = request("MGET", *["big"] * n_values)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            each = stack.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", server.redis_port))
            each.sendall(hello + request("GET", "big") * 6)
            time.sleep(0.02)
            if server.metric("leased_queued_bytes") > 53 * MIB:
                break
        with Resp(server.redis_port, timeout_s=20) as other:
            other.send_raw(hello + wanted)
            n_bytes = 0
            while n_bytes < n_values * 1_000_000:
                data = other.socket.recv(MIB)
                assert data, "it was closed"
                n_bytes += len(data)


EVIL = "*[" + "b" * 900 + "]a"
WORK = {
    "keys in transactions": [("MULTI",), ("KEYS", EVIL), ("EXEC",)],
    "keys in scripts": [("EVAL", "return redis.call('keys', ARGV[1])", "0", EVIL)],
    "scans in transactions": [("MULTI",), ("SCAN", "0", "COUNT", "60000", "MATCH", EVIL), ("EXEC",)],
    "intersections of one set": [("SINTER", *["set"] * 1_000), ("SUNION", *["set"] * 1_000)],
    "unions of many sets": [("SUNION", "set", *[f"part:{number}" for number in range(1_000)])],
}


@pytest.mark.parametrize("what", WORK)
def test_work(server, what):
    before = server.rss_bytes()
    with attacked(server, f"redis: {what}"):
        with connections(server) as opened:
            flood(opened, b"".join(request(*words) for words in WORK[what]) * 20)
    check_memory_returns(server, before)


TURNING = {
    "loops": ("for i = 1, tonumber(ARGV[1]) do local x = i end return 1", "1", "500000"),
    "patterns": ("return redis.call(ARGV[2], ARGV[1])", "none", EVIL),
    "values": ("return redis.call('get', ARGV[1])", "key:1", "big"),
}


@pytest.mark.parametrize("what", TURNING)
def test_scripts_that_were_cheap_before(server, what):
    script, cheap, heavy = TURNING[what]
    before = server.rss_bytes()
    with Resp(server.redis_port) as resp:
        resp("EVAL", script, "0", cheap, "exists")
    with attacked(server, f"redis: scripts that were cheap before: {what}"):
        with connections(server) as opened:
            flood(opened, request("EVAL", script, "0", heavy, "keys") * 1_000)
    check_memory_returns(server, before)


def test_large_values_that_small_commands_change(server):
    """Each makes a new version of a megabyte; history has a bound of its own."""
    with attacked(server, "redis: SETRANGE of a large value"):
        with connections(server) as opened:
            flood(opened, request("SETRANGE", "big", "0", "x") * 500)


def test_history_of_large_values_leaves_room_for_others():
    """A client that overwrites faster than history is freed, which long reads hold up, waits. Nobody is refused for
    it."""
    with leased_with_redis(["--quota-backend-bytes", str(96 * MIB)]) as server:
        with Resp(server.redis_port) as resp:
            fill(resp, [("SET", "big", "x" * 1_000_000)])
            fill(resp, [("MSET", *[part for key in range(start, start + 1000) for part in (f"key:{key}", "v")])
                        for start in range(0, 60_000, 1000)])
        with attacked(server, "redis: SETRANGE of a large value, with a small quota"):
            with connections(server, 4) as readers, connections(server) as writers:
                for each in readers:
                    send_all(each, request("KEYS", EVIL) * 1_000)
                flood(writers, request("SETRANGE", "big", "0", "x") * 500, either(2.0, 5.0))
        with Resp(server.redis_port) as resp:
            assert resp("SETRANGE", "big", "0", "y") == (":", b"1000000")


def test_large_sets_that_expire_at_once(server):
    """Each ends in one revision, and what others have sent goes between them."""
    names = [f"brief:{number}" for number in range(either(7, 10))]
    size = either(20_000, 131_000)
    with Resp(server.redis_port) as resp:
        for name in names:
            fill(resp, [("SADD", name, *range(start, start + 1000)) for start in range(0, size, 1000)])
        with attacked(server, "redis: large sets that expire at once", growth_max=2 * 256 * MIB):
            moment_ms = round(time.time() * 1000) + 1_000
            fill(resp, [("PEXPIREAT", name, moment_ms) for name in names])
            wait_for(lambda: resp("EXISTS", *names) == (":", b"0"), 30, "all sets gone")


def test_large_sets_are_deleted(server):
    """One command that would end all of them is refused; one by one they go."""
    names = [f"set:{number}" for number in range(either(7, 10))]
    size = either(20_000, 131_000)
    with Resp(server.redis_port) as resp:
        for name in names:
            fill(resp, [("SADD", name, *range(start, start + 1000)) for start in range(0, size, 1000)])
        with attacked(server, "redis: DEL of large sets", growth_max=2 * 256 * MIB):
            assert resp("DEL", *names)[0] == "-"
            with connections(server, len(names)) as opened:
                for each, name in zip(opened, names):
                    each.send("DEL", name)
                wait_for(lambda: resp("EXISTS", *names) == (":", b"0"), 30, "all sets gone")


def test_lines_of_many_words(server):
    """Inline commands, before a login: each word must not take as much as the rest of the line."""
    before = server.rss_bytes()
    with attacked(server, "redis: lines of many words"):
        with connections(server, either(5, 20)) as opened:
            for each in opened:
                each.send_raw(b"a " * 32_000)
            for each in opened:
                each.send_raw(b"\r\n")
            with Resp(server.redis_port) as resp:
                assert resp("PING") == ("+", b"PONG")
    check_memory_returns(server, before)


def test_settings_of_a_pattern_that_is_much_work(server):
    """In the processor's time, which a busy machine does not stretch."""
    with Resp(server.redis_port) as resp:
        assert [name for _, name in resp("CONFIG", "GET", "max*s", "[st]*t")[1][::2]] == [b"maxclients", b"timeout"]
        before = server.cpu_seconds()
        for _ in range(40):
            assert resp("CONFIG", "GET", "[" + "b" * 500_000 + "]")[1] == []
        assert server.cpu_seconds() - before < 0.2


def test_entries_that_thousands_wait_behind(server):
    """The ids that they wait for are later than those that come."""
    waiting, entries, key = either(1200, 6000), either(2000, 10_000), "stream:".ljust(4000, "x")
    with attacked(server, "redis: entries that thousands wait behind"):
        with connections(server, waiting, reads=False) as opened, Resp(server.redis_port) as resp:
            for connection in opened:
                connection.send("XREAD", "BLOCK", 0, "STREAMS", key, f"{2**64 - 1}-0")
            wait_for(lambda: b"blocked_clients:%d\r\n" % waiting in resp("INFO", "clients")[1], 30.0, "all wait")
            began = server.cpu_seconds()
            for _ in range(0, entries, 200):
                resp.socket.sendall(request("XADD", key, "MAXLEN", 1, "*", "f", "v") * 200)
                assert all(resp.reply()[0] != "-" for _ in range(200))
            used = server.cpu_seconds() - began
    report("redis: entries that thousands wait behind", cpu_seconds=used)
    # It was four times as much, and forty times with 6,000.
    assert is_sanitized(server) or used < either(0.15, 2.0), f"{used} s of CPU time for {entries} entries"
