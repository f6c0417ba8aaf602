"""Every command of the Redis protocol by everybody, as test_auth_matrix.py does it for the other requests: without a
login, by a user without the right, by one who has it, by root; at the leader and at a member that forwards. The right
to a key is that to leased/redis/DATABASE/KEY.
"""
import socket

import pytest
from etcd3 import etcdrpc

from harness import auth
from harness.auth import DENIED, OK, READ, UNKNOWN_CALLER, WRITE
from harness.auth_matrix import listed_requests
from harness.cluster import Cluster
from harness.ops import end_of
from harness.rpc import CALL_SECONDS, Rpc

PASSWORDS = {"root": "root's", "worker": "worker's", "reader": "reader's", "writer": "writer's", "guest": "guest's"}
KEY, OTHER = "job/a", "job/b"

# How each command is asked, when its name and one key are not enough.
ARGUMENTS = {
    "auth": ["nobody", "wrong"], "hello": [], "quit": [], "reset": [], "ping": [], "echo": ["x"], "select": ["0"],
    "client": ["id"], "info": [], "command": ["count"], "config": ["get", "save"], "time": [], "acl": ["whoami"],
    "wait": ["0", "0"], "waitaof": ["0", "0", "0"], "lastsave": [], "role": [], "dbsize": [], "flushdb": [],
    "flushall": [], "leased.configure": ["notify-keyspace-events", "x"], "multi": [], "exec": [], "discard": [],
    "unwatch": [], "subscribe": ["c"], "unsubscribe": [], "psubscribe": ["c*"], "punsubscribe": [], "ssubscribe": ["c"],
    "sunsubscribe": [], "pubsub": ["numpat"], "publish": ["c", "m"], "spublish": ["c", "m"],
    "eval": ["return redis.call('get', KEYS[1])", "1", KEY], "evalsha": ["0" * 40, "1", KEY],
    "eval_ro": ["return redis.call('get', KEYS[1])", "1", KEY], "evalsha_ro": ["0" * 40, "1", KEY],
    "script": ["exists", "0" * 40], "object": ["encoding", KEY], "keys": ["*"], "scan": ["0"], "randomkey": [],
    "rename": [KEY, OTHER], "renamenx": [KEY, OTHER], "copy": [KEY, OTHER], "sintercard": ["1", KEY],
    "lmpop": ["1", KEY, "left"], "smove": [KEY, OTHER, "m"], "lmove": [KEY, OTHER, "left", "left"],
    "rpoplpush": [KEY, OTHER], "blmove": [KEY, OTHER, "left", "left", "0.01"], "brpoplpush": [KEY, OTHER, "0.01"],
    "sinterstore": [KEY, OTHER], "sunionstore": [KEY, OTHER], "sdiffstore": [KEY, OTHER],
    "zunionstore": [KEY, "1", OTHER], "zinterstore": [KEY, "1", OTHER], "zdiffstore": [KEY, "1", OTHER],
    "zunion": ["1", KEY], "zinter": ["1", KEY], "zdiff": ["1", KEY], "zintercard": ["1", KEY],
    "zmpop": ["1", KEY, "min"], "bzmpop": ["0.01", "1", KEY, "min"], "blmpop": ["0.01", "1", KEY, "left"],
    "zrangestore": [KEY, OTHER, "0", "-1"], "zadd": [KEY, "1", "m"], "mset": [KEY, "v"], "msetnx": [KEY, "v"],
    "blpop": [KEY, "0.01"], "brpop": [KEY, "0.01"], "bzpopmin": [KEY, "0.01"], "bzpopmax": [KEY, "0.01"],
    "setbit": [KEY, "1", "1"], "getbit": [KEY, "1"], "bitpos": [KEY, "1"], "bitfield": [KEY, "set", "u8", "0", "1"],
    "set": [KEY, "v"], "setex": [KEY, "100", "v"], "psetex": [KEY, "100000", "v"], "leased.fence": [KEY, "7"],
    "hset": [KEY, "f", "v"], "hmset": [KEY, "f", "v"], "hscan": [KEY, "0"], "sscan": [KEY, "0"], "zscan": [KEY, "0"],
    "linsert": [KEY, "before", "a", "b"], "xadd": [KEY, "*", "f", "v"], "xdel": [KEY, "1-1"],
    "xtrim": [KEY, "maxlen", "1"], "xrange": [KEY, "-", "+"], "xrevrange": [KEY, "+", "-"],
    "xread": ["streams", KEY, "0"],
}  # fmt: skip
# They concern all keys of a database.
WHOLE = {"dbsize", "flushdb", "flushall", "keys", "scan", "randomkey"}
# How many arguments the others have, beside their key.
ARITY = {
    "getset": 1, "setnx": 1, "append": 1, "getrange": 2, "substr": 2, "setrange": 2, "incrby": 1, "decrby": 1,
    "incrbyfloat": 1, "expire": 1, "pexpire": 1, "expireat": 1, "pexpireat": 1, "hsetnx": 2, "hget": 1, "hmget": 1,
    "hdel": 1, "hexists": 1, "hincrby": 2, "hincrbyfloat": 2, "hstrlen": 1, "sadd": 1, "srem": 1, "sismember": 1,
    "smismember": 1, "zincrby": 2, "zrem": 1, "zscore": 1, "zmscore": 1, "zrank": 1, "zrevrank": 1, "zcount": 2,
    "zlexcount": 2, "zrange": 2, "zrevrange": 2, "zrangebyscore": 2, "zrevrangebyscore": 2, "zrangebylex": 2,
    "zrevrangebylex": 2, "zremrangebyscore": 2, "zremrangebyrank": 2, "zremrangebylex": 2, "lpush": 1, "rpush": 1,
    "lpushx": 1, "rpushx": 1, "lrange": 2, "lindex": 1, "lset": 2, "lrem": 2, "ltrim": 2, "lpos": 1,
}  # fmt: skip

LISTED = listed_requests("redis")


def arguments_of(name):
    return ARGUMENTS.get(name, [KEY] + ["1"] * ARITY.get(name, 0))


class Connection:
    """The protocol as it is on the wire: the client port tells it apart."""

    def __init__(self, server):
        self.socket = socket.create_connection((server.host, server.client_port), timeout=CALL_SECONDS)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def call(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"$":
            return None if rest == "-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == "-1" else [self.read() for _ in range(int(rest))]
        assert kind in (b"+", b"-", b":"), line
        return (kind + rest.encode()).decode() if kind == b"-" else rest


class Matrix:
    def __init__(self, cluster):
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        rpc = Rpc(self.servers[0])
        mine = b"leased/redis/0/job/"
        for name, kind in {"worker": 2, "reader": READ, "writer": WRITE}.items():
            auth.add_user(rpc, name, PASSWORDS[name], [auth.permission(mine, end_of(mine), kind)])
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"leased/redis/0/guest")])
        auth.enable(rpc, PASSWORDS["root"])
        auth.log_in(Rpc(self.servers[1]), "guest", PASSWORDS["guest"])  # the other member knows it, too
        rpc.close()
        self.connections = {}

    def connection(self, at, identity):
        if (at, identity) not in self.connections:
            connection = Connection(self.servers[at])
            if identity is not None:
                assert connection.call("AUTH", identity, PASSWORDS[identity]) == "OK"
            self.connections[at, identity] = connection
        return self.connections[at, identity]

    def outcome(self, at, name, identity):
        answer = self.connection(at, identity).call(name, *arguments_of(name))
        if LISTED[name] in ("none", "user"):  # another command may not find the connection as it was
            self.connections.pop((at, identity)).close()
        text = answer if isinstance(answer, str) else ""
        if text.startswith("-NOAUTH"):
            return UNKNOWN_CALLER
        return DENIED if text.startswith("-NOPERM") else OK

    def state(self):
        root = self.connection(0, "root")
        return [root.call("KEYS", "*"), root.call("GET", KEY), root.call("TTL", KEY)]

    def prepare(self):
        self.connection(0, "root").call("FLUSHALL")
        self.connection(0, "root").call("SET", KEY, "v")


@pytest.fixture(name="matrix", scope="module")
def a_matrix():
    with Cluster(extra_flags=["--doors=etcd,native,redis"]) as cluster:
        made = Matrix(cluster)
        yield made
        for connection in made.connections.values():
            connection.close()


def expected(name, identity):
    right = LISTED[name]
    if right == "none":
        return UNKNOWN_CALLER if (name, identity) == ("hello", None) else OK
    if identity is None:
        return UNKNOWN_CALLER
    if right == "user" or identity == "root":
        return OK
    if right == "root" or identity == "guest" or name in WHOLE:
        return DENIED
    allowed = {"read": ("worker", "reader"), "write": ("worker", "writer"), "read_write": ("worker",)}
    return OK if identity in allowed[right] else DENIED


def test_every_command_is_known_here():
    assert set(ARGUMENTS) <= set(LISTED)
    assert set(ARITY) <= set(LISTED)
    assert set(LISTED.values()) <= {"none", "user", "root", "read", "write", "read_write"}


@pytest.mark.parametrize("name", LISTED)
def test_command(matrix, name):
    matrix.prepare()
    before = matrix.state()
    identities = [None, "guest", "reader", "writer", "worker", "root"]
    refused = [who for who in identities if expected(name, who) != OK]
    for at in (0, 1):
        for identity in refused:
            assert matrix.outcome(at, name, identity) == expected(name, identity), f"{name} by {identity} at {at}"
    assert matrix.state() == before, f"{name} was refused, and yet something changed"
    for at in (0, 1):
        for identity in [who for who in identities if who not in refused]:
            assert matrix.outcome(at, name, identity) == OK, f"{name} by {identity} at {at}"


def test_a_wrong_password_is_refused(matrix):
    for server in matrix.servers:
        with Connection(server) as connection:
            assert connection.call("AUTH", "worker", "nonsense").startswith("-WRONGPASS")
            assert connection.call("GET", KEY).startswith("-NOAUTH")
            assert connection.call("AUTH", "worker", PASSWORDS["worker"]) == "OK"
            assert connection.call("ACL", "WHOAMI") == "worker"


def test_a_script_needs_the_right_to_what_it_touches(matrix):
    matrix.prepare()
    with Connection(matrix.servers[1]) as connection:
        connection.call("AUTH", "worker", PASSWORDS["worker"])
        script = "return redis.call('set', ARGV[1], 'x')"
        assert connection.call("EVAL", script, "1", KEY, KEY) == "OK"
        assert connection.call("EVAL", script, "1", KEY, "foreign").startswith("-NOPERM")
        assert connection.call("MULTI") == "OK"
        assert connection.call("SET", KEY, "y") == "QUEUED"
        assert connection.call("SET", "foreign", "y") == "QUEUED"
        assert connection.call("EXEC").startswith("-NOPERM")
        assert connection.call("GET", KEY) == "x"


def test_a_user_that_was_removed_hears_nothing_more(matrix):
    """Neither those who listened before, nor those who would begin to."""
    with Rpc(matrix.servers[0]) as rpc:
        token = auth.log_in(rpc, "root", PASSWORDS["root"])
        auth.add_user(rpc, "listener", "listener's", token=token)
        with Connection(matrix.servers[0]) as before, Connection(matrix.servers[0]) as after:
            for connection in (before, after):
                assert connection.call("AUTH", "listener", "listener's") == "OK"
            assert before.call("SUBSCRIBE", "news") == ["subscribe", "news", "1"]
            assert matrix.connection(0, "root").call("PUBLISH", "news", "for all") == "1"
            assert before.read() == ["message", "news", "for all"]
            auth.auth(rpc, "UserDelete", etcdrpc.AuthUserDeleteRequest(name="listener"), token)
            assert after.call("PSUBSCRIBE", "*").startswith("-NOAUTH")
            matrix.connection(0, "root").call("PUBLISH", "news", "secret")
            assert before.file.read() == b"", "it was told, or not closed"
