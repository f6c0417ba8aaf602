"""redis-py, unchanged, at redis-server and at leased: locks, pipelines, transactions, subscriptions, scripts."""
import os
import threading
import time

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError, WatchError

from harness.kinds import KIND_LEASED
from harness.redis import KIND_REDIS, redis_server_of
from harness.wait import wait_for

WAIT_SECONDS = 30.0


@pytest.fixture(scope="module", params=[KIND_REDIS, KIND_LEASED])
def redis_server(request):
    with redis_server_of(request.param) as server:
        yield server


@pytest.fixture
def client(redis_server):
    client = redis.Redis(port=redis_server.redis_port, decode_responses=True, socket_timeout=WAIT_SECONDS)
    client.flushall()
    yield client
    client.close()


def test_a_lock_is_held_by_one(client):
    first = client.lock("lock", timeout=100)
    second = client.lock("lock", timeout=100, blocking=False)
    assert first.acquire()
    assert not second.acquire()
    assert first.locked() and first.owned() and not second.owned()
    with pytest.raises(LockError):
        second.release()
    first.release()
    assert not first.locked()
    assert second.acquire()
    second.release()
    with pytest.raises(LockError):
        second.release()


def test_a_lock_that_was_lost_cannot_be_released(client):
    lock = client.lock("lock", timeout=100)
    lock.acquire()
    client.set("lock", "somebody else")
    with pytest.raises(LockNotOwnedError):
        lock.extend(10)
    with pytest.raises(LockNotOwnedError):
        lock.reacquire()
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert client.get("lock") == "somebody else"


def test_a_lock_is_extended_and_reacquired(client):
    lock = client.lock("lock", timeout=10)
    lock.acquire()
    assert 8000 < client.pttl("lock") <= 10000
    assert lock.extend(10)
    assert 16000 < client.pttl("lock") <= 20000
    assert lock.extend(5, replace_ttl=True)
    assert 3000 < client.pttl("lock") <= 5000
    assert lock.reacquire()
    assert 8000 < client.pttl("lock") <= 10000
    lock.release()


def test_a_lock_ends_by_itself(client):
    lock = client.lock("lock", timeout=0.05)
    lock.acquire()
    assert client.lock("lock", timeout=5, sleep=0.01, blocking_timeout=WAIT_SECONDS).acquire()
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_waiting_for_a_lock_ends(client):
    client.lock("lock", timeout=100).acquire()
    with pytest.raises(LockError):
        with client.lock("lock", blocking_timeout=0.05, sleep=0.01):
            pass


def test_many_threads_share_a_lock(redis_server, client):
    held = []
    errors = []

    def work():
        own = redis.Redis(port=redis_server.redis_port)
        for _ in range(5):
            with own.lock("shared", timeout=60, sleep=0.002):
                held.append(1)
                if len(held) != 1:
                    errors.append(len(held))
                client.incr("count")
                held.pop()
        own.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert client.get("count") == "40"


def test_pipelines(client):
    with client.pipeline(transaction=False) as pipeline:
        for i in range(200):
            pipeline.set(f"k{i}", i).get(f"k{i}")
        assert pipeline.execute()[1::2] == [str(i) for i in range(200)]
    with client.pipeline() as pipeline:
        pipeline.set("a", 1).incr("a").lpush("a", "x").get("a")
        result = pipeline.execute(raise_on_error=False)
        assert result[:2] == [True, 2] and result[3] == "2"
        assert isinstance(result[2], ResponseError)
        assert "wrong kind of value" in str(result[2])


def test_transactions_see_what_they_watch(redis_server, client):
    client.set("n", 1)
    other = redis.Redis(port=redis_server.redis_port)
    with client.pipeline() as pipeline:
        pipeline.watch("n")
        assert pipeline.get("n") == "1"
        other.set("n", 2)
        pipeline.multi()
        pipeline.incr("n")
        with pytest.raises(WatchError):
            pipeline.execute()
    assert client.transaction(lambda p: (p.get("n"), p.multi(), p.incr("n")), "n") == [3]
    other.close()


def test_increments_by_many(redis_server, client):
    def work():
        own = redis.Redis(port=redis_server.redis_port)
        for _ in range(10):
            own.transaction(lambda p: (p.multi(), p.set("n", int(client.get("n") or 0) + 1)), "n")
        own.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("n") == "40"


def test_subscriptions(client):
    messages = client.pubsub()
    messages.subscribe("one")
    messages.psubscribe("t*")
    seen = []

    def take():
        message = messages.get_message(timeout=0.05)
        if message:
            seen.append((message["type"], message["channel"], message["data"]))
        return len(seen)

    wait_for(lambda: take() >= 2, WAIT_SECONDS, "subscribed")
    assert client.publish("one", "1") == 1
    assert client.publish("two", "2") == 1
    assert client.publish("other", "3") == 0
    wait_for(lambda: take() >= 4, WAIT_SECONDS, "messages")
    assert seen == [("subscribe", "one", 1), ("psubscribe", "t*", 2), ("message", "one", "1"), ("pmessage", "two", "2")]
    messages.unsubscribe()
    messages.punsubscribe()
    wait_for(lambda: take() >= 6, WAIT_SECONDS, "unsubscribed")
    messages.close()


def test_who_waits_for_a_list_is_served(redis_server, client):
    got = []

    def wait():
        own = redis.Redis(port=redis_server.redis_port, decode_responses=True)
        got.append(own.blpop(["queue", "other"], timeout=60))
        own.close()

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: client.info("clients")["blocked_clients"] == 1, WAIT_SECONDS, "it waits")
    client.rpush("other", "x")
    thread.join()
    assert got == [("other", "x")]


def test_scripts(client):
    script = client.register_script("return {KEYS[1], ARGV[1], redis.call('incr', KEYS[1])}")
    assert script(keys=["n"], args=["a"]) == ["n", "a", 1]
    assert script(keys=["n"], args=["a"]) == ["n", "a", 2]
    assert client.script_exists(script.sha, "f" * 40) == [True, False]
    client.script_flush()
    assert client.script_exists(script.sha) == [False]
    with pytest.raises(NoScriptError):
        client.evalsha(script.sha, 1, "n", "a")
    assert script(keys=["n"], args=["a"]) == ["n", "a", 3]
    with client.pipeline() as pipeline:
        pipeline.set("n", 10)
        script(keys=["n"], args=["b"], client=pipeline)
        assert pipeline.execute() == [True, ["n", "b", 11]]
    with pytest.raises(ResponseError, match="Error compiling script"):
        client.eval("return +", 0)


def test_expiry(client):
    client.set("a", 1, px=40)
    wait_for(lambda: client.get("a") is None, WAIT_SECONDS, "a is gone")
    assert client.ttl("a") == -2
    client.set("a", 1, ex=1000)
    assert 900 < client.ttl("a") <= 1000
    assert client.persist("a") and client.ttl("a") == -1
    when = int(time.time()) + 500
    assert client.expireat("a", when) and client.expiretime("a") == when


def test_scans_see_every_key(client):
    keys = {f"k{i}" for i in range(500)}
    client.mset({key: 1 for key in keys})
    assert set(client.scan_iter(count=50)) == keys
    assert set(client.scan_iter(match="k1*", count=7)) == {key for key in keys if key.startswith("k1")}
    client.hset("hash", mapping={key: 1 for key in keys})
    assert {field for field, _ in client.hscan_iter("hash", count=50)} == keys
    client.sadd("set", *keys)
    assert set(client.sscan_iter("set")) == keys
    client.zadd("zset", {key: 1 for key in keys})
    assert {member for member, _ in client.zscan_iter("zset")} == keys


def test_large_and_strange_values(redis_server):
    client = redis.Redis(port=redis_server.redis_port)
    value = bytes(range(256)) * 2000
    client.set(b"\x00key\r\n", value)
    assert client.get(b"\x00key\r\n") == value
    assert client.strlen(b"\x00key\r\n") == len(value)
    client.close()


def test_info_names_the_system(client):
    """Redisson reads numbers that scripts have packed as on Windows unless INFO says otherwise."""
    system = os.uname()
    assert client.info("server")["os"] == f"{system.sysname} {system.release} {system.machine}"
