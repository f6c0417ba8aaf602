"""`lease import redis://…`: the keys of Debian's redis-server go to leased, and the copy is verified."""
import json
import signal
import threading

import pytest
import redis
from cli_tool import COMMAND_SECONDS, Running, import_lines, lease
from harness.redis import RedisServer, leased_with_redis
from harness.wait import wait_for

N_KEYS = 10000
HOUR_MS = 3600 * 1000


@pytest.fixture(scope="module")
def servers():
    with RedisServer() as source, leased_with_redis() as destination:
        yield source, destination


@pytest.fixture()
def old(servers):
    client = redis.Redis(port=servers[0].redis_port)
    client.flushall()
    return client


@pytest.fixture()
def new(servers):
    client = redis.Redis(port=servers[1].redis_port)
    client.flushall()
    return client


@pytest.fixture()
def copy(servers):
    """Runs the import and gives the process and its result."""
    def run(*words, path="", to=""):
        done = lease("import", f"redis://127.0.0.1:{servers[0].redis_port}{path}", "--to",
                     f"127.0.0.1:{servers[1].redis_port}{to}", "--json", *words)
        return done, json.loads(done.stdout) if done.stdout else None

    return run


def fill(client, n_keys):
    """A fifth of each type; every seventh key ends within hours."""
    pipe = client.pipeline(transaction=False)
    for i in range(n_keys):
        key = b"key:%d\xff" % i
        if i % 5 == 0:
            pipe.set(key, b"value %d" % i)
        elif i % 5 == 1:
            pipe.hset(key, mapping={f"f{j}": f"{i}-{j}" for j in range(3)})
        elif i % 5 == 2:
            pipe.rpush(key, *[f"{i}-{j}" for j in range(4)])
        elif i % 5 == 3:
            pipe.sadd(key, *[f"{i}-{j}" for j in range(3)])
        else:
            pipe.zadd(key, {f"{i}-{j}": j / 3 for j in range(3)})
        if i % 7 == 0:
            pipe.pexpire(key, HOUR_MS + i)
    pipe.execute()


READERS = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"set": lambda client, key: client.smembers(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def content(client, key):
    kind = client.type(key)
    return kind, READERS[kind](client, key)


def assert_same(old, new, keys):
    for key in keys:
        assert content(new, key) == content(old, key)
        left = new.pttl(key)  # asked first, so it is the greater one if both end at once
        assert (left == -1) == (old.pttl(key) == -1) and left <= old.pttl(key) + 1000


def test_ten_thousand_keys_of_all_types_are_copied_and_verified(old, new, copy):
    fill(old, N_KEYS)
    done, result = copy()
    assert done.returncode == 0, done.stderr
    assert result["verified"] and result["copied"] == N_KEYS and result["failed"] == 0, result
    assert new.dbsize() == N_KEYS
    assert_same(old, new, [b"key:%d\xff" % i for i in range(0, N_KEYS, 97)])
    # A second time there is nothing to do, and --replace is not needed.
    done, result = copy()
    assert done.returncode == 0, done.stderr
    assert (result["copied"], result["replaced"], result["rounds"]) == (0, 0, 1), result


def test_large_keys_are_copied_in_pieces(old, new, copy):
    old.set("string", b"x" * 1000000, px=HOUR_MS)
    old.hset("hash", mapping={f"f{i}": f"value {i}" for i in range(3000)})
    old.rpush("list", *range(3000))
    old.sadd("set", *range(3000))
    old.zadd("zset", {f"m{i}": i * 1.1 for i in range(3000)})
    old.pexpire("zset", HOUR_MS)
    old.rpush("wide", *[b"y" * 100000] * 20)
    old.set("", b"no name")
    old.zadd("infinite", {"a": float("inf"), "b": float("-inf"), "c": 1e-300})
    done, result = copy()
    assert done.returncode == 0 and result["verified"], done.stderr
    assert_same(old, new, ["string", "hash", "list", "set", "zset", "wide", "", "infinite"])
    # One element in the middle is enough.
    new.lset("list", 2000, b"planted")
    new.hset("hash", "f2000", b"planted")
    new.zadd("zset", {"m2000": 7})
    new.srem("set", 2000)
    new.sadd("set", "planted")
    done, result = copy("--dry-run")
    assert (result["replaced"], result["copied"]) == (4, 0), result
    done, result = copy("--replace")
    assert done.returncode == 0 and result["replaced"] == 4, (result, done.stderr)
    assert_same(old, new, ["hash", "list", "set", "zset"])


def test_what_is_there_is_kept_unless_it_may_be_replaced(old, new, copy):
    old.set("a", 1)
    old.set("b", 2, px=HOUR_MS)
    new.set("a", "other")
    new.set("c", "theirs")
    done, result = copy()
    assert done.returncode == 1 and "--replace" in done.stderr, done.stderr
    assert (new.get("a"), new.exists("b")) == (b"other", 0)
    done, result = copy("--dry-run")
    assert (result["copied"], result["replaced"], result["removed"]) == (1, 1, 1), result
    done, result = copy("--replace")
    assert done.returncode == 0 and sorted(new.keys()) == [b"a", b"b"], done.stderr
    # A planted difference: a value, a time to live, a key too many.
    for plant in (lambda: new.set("a", "planted"), lambda: new.persist("b"), lambda: new.set("d", "")):
        plant()
        done, result = copy()
        assert done.returncode == 1 and not result["verified"], result
        done, result = copy("--replace")
        assert done.returncode == 0 and result["replaced"] + result["removed"] == 1, result
    assert 0 < new.pttl("b") <= HOUR_MS


def test_what_ends_soon_ends_at_the_destination_too(old, new, copy):
    old.set("lock", "owner", px=3000)
    old.set("gone", "x", px=1)
    done, result = copy("--rounds", "1")
    assert result["failed"] == 0, done.stderr
    assert new.pttl("lock") <= 3000 and not new.exists("gone")
    wait_for(lambda: not old.exists("lock"), COMMAND_SECONDS, "the end of the lock")
    wait_for(lambda: not new.exists("lock"), COMMAND_SECONDS, "the end of its copy")


def test_types_that_are_not_copied_are_named(old, new, copy):
    old.xadd("events", {"a": 1})
    old.set("plain", 1)
    old.set("huge", b"x" * 2000000)
    done, result = copy()
    assert done.returncode == 1 and "events: not copied: its type is stream" in done.stderr, done.stderr
    assert "huge: not copied" in done.stderr
    done, result = copy("--skip-unsupported")
    assert done.returncode == 0 and result["unsupported"] == 2 and new.keys() == [b"plain"], done.stderr


def test_patterns_and_databases(servers, old, new, copy):
    other = redis.Redis(port=servers[0].redis_port, db=3)
    old.mset({"app:a": 1, "app:b": 2, "app*c": 3, "web:a": 4})
    other.set("three", 3)
    assert copy("--prefix", "app:")[0].returncode == 0
    assert sorted(new.keys()) == [b"app:a", b"app:b"]
    assert copy("--match", "*a")[0].returncode == 0
    assert sorted(new.keys()) == [b"app:a", b"app:b", b"web:a"]
    assert copy(path="/3", to="/5")[0].returncode == 0
    assert redis.Redis(port=servers[1].redis_port, db=5).keys() == [b"three"]
    new.flushall()
    done, result = copy("--all-dbs")
    assert done.returncode == 0 and result["copied"] == 5, (result, done.stderr)
    assert redis.Redis(port=servers[1].redis_port, db=3).get("three") == b"3"


def test_a_password_of_the_source(servers, old, new):
    old.set("a", 1)
    url = f"127.0.0.1:{servers[0].redis_port}"
    to = ["--to", f"127.0.0.1:{servers[1].redis_port}"]
    old.config_set("requirepass", "p@ss")
    owner = redis.Redis(port=servers[0].redis_port, password="p@ss")
    try:
        done = lease("import", f"redis://{url}", *to)
        assert done.returncode == 1 and "NOAUTH" in done.stderr, done.stderr
        assert lease("import", f"redis://default:p%40ss@{url}", *to).returncode == 0
        assert lease("import", f"redis://{url}", *to, env={"LEASE_SOURCE_PASSWORD": "p@ss"}).returncode == 0
    finally:
        owner.config_set("requirepass", "")
    assert new.get("a") == b"1"


def test_what_is_written_meanwhile_is_copied_too(servers, old, new, copy):
    fill(old, 3000)
    stop = threading.Event()

    def write():
        client = redis.Redis(port=servers[0].redis_port)
        i = 0
        while not stop.is_set():
            client.set(f"live:{i % 200}", i)
            client.rpush("live:list", i)
            client.delete(b"key:%d\xff" % (i % 500), f"live:{(i + 100) % 200}")
            i += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        done, result = copy("--rounds", "3")
    finally:
        stop.set()
        thread.join()
    assert done.returncode in (0, 1) and result["copied"] > 0, (result, done.stderr)
    # The writer has stopped: this run ends with a verified copy.
    done, result = copy("--replace")
    assert done.returncode == 0 and result["verified"], done.stderr
    assert sorted(new.keys()) == sorted(old.keys())
    assert_same(old, new, [key for i, key in enumerate(old.keys()) if i % 50 == 0] + ["live:list"])


def test_ctrl_c_leaves_whole_keys_and_the_same_command_goes_on(servers, old, new, copy):
    fill(old, N_KEYS)
    with Running("import", f"redis://127.0.0.1:{servers[0].redis_port}", "--to",
                 f"127.0.0.1:{servers[1].redis_port}") as running:
        while new.dbsize() == 0 and running.process.poll() is None:
            pass
        running.signal(signal.SIGINT)
        code = running.wait()
        error = running.error_line()
        assert (code, error) == (0, None) or (code == 130 and "goes on" in error)
    done, result = copy()
    assert done.returncode == 0 and result["verified"], done.stderr
    assert new.dbsize() == N_KEYS


def test_errors_say_what_to_do(servers):
    done = lease("import", f"redis://127.0.0.1:{servers[0].redis_port}", server=servers[1])
    assert done.returncode == 1 and "--listen-redis" in done.stderr, done.stderr
    done = lease("import", "redis://127.0.0.1:1", "--to", "127.0.0.1:1")
    assert done.returncode == 1 and "cannot be reached" in done.stderr


def test_the_commands_of_the_pages(servers, old, new):
    old.mset({"a": 1, "b": 2})
    for page in ("docs/lease-cli.md", "docs/migrating-from-redis.md"):
        new.flushall()
        lines = list(import_lines(page, "redis", *[f"127.0.0.1:{server.redis_port}" for server in servers]))
        assert len(lines) >= 2
        for words in lines:
            done = lease(*words)
            assert done.returncode == 0, (words, done.stderr)
        assert sorted(new.keys()) == [b"a", b"b"]
