"""What a case is, and how answers are written down so that two servers can be compared.

A case is a function that takes a Talk, opens clients and asks whatever it likes. Every answer, error and event becomes
a line, in the order in which it arrived. Transaction ids are replaced by their rank among all that the case has seen in
records, sessions by their names, times by a check that they are about now. Paths are below a node of the case's own.
"""
import re
import time

from harness import jute
from harness.zookeeper_client import Client, Closed, Failed

CASES = []
CLOCK_MS_MAX = 600_000


def case(function):
    CASES.append(function)
    return function


class Talk:
    """A server, and what it has said so far."""

    def __init__(self, address, name):
        self.address = address
        self.root = f"/same-{name}"
        self.lines = []
        self.clients = []
        self.sessions = {}
        self._zxids = set()
        with Client(address).connect() as first:
            first.create(self.root)
            first.end()

    def client(self, name=None, begin=True, **how):
        """A new connection; with a session of its own unless told otherwise."""
        client = Caller(self, name or f"c{len(self.clients) + 1}")
        self.clients.append(client)
        if begin:
            client.begin(**how)
        return client

    def note(self, line):
        self.lines.append(line)

    def finish(self):
        """What nobody waited for is noted too; then everything is closed."""
        for client in self.clients:
            client.drain()
            client.wire.close()
        order = {zxid: rank for rank, zxid in enumerate(sorted(self._zxids), 1)}
        return [re.sub(r"zxid<(-?\d+)>", lambda found: f"z{order[int(found[1])]}", line) for line in self.lines]

    # Texts

    def zxid(self, number):
        if number <= 0:
            return str(number)
        self._zxids.add(number)
        return f"zxid<{number}>"

    def owner(self, number):
        return self.sessions.get(number, str(number) if number <= 0 else "somebody")

    @staticmethod
    def clock(milliseconds):
        if milliseconds == 0:
            return "0"
        return "now" if abs(milliseconds - time.time() * 1000) < CLOCK_MS_MAX else str(milliseconds)

    def stat(self, stat):
        parts = [
            f"c={self.zxid(stat['czxid'])} m={self.zxid(stat['mzxid'])} p={self.zxid(stat['pzxid'])}",
            f"times={self.clock(stat['ctime'])},{self.clock(stat['mtime'])}",
            f"v={stat['version']},{stat['cversion']},{stat['aversion']}",
            f"len={stat['length']} kids={stat['children']}",
        ]
        if stat["owner"]:
            parts.append(f"owner={self.owner(stat['owner'])}")
        return "{" + " ".join(parts) + "}"

    def short(self, path):
        """Without the node of the case."""
        if path is None:
            return "null"
        if path == self.root:
            return "."
        return path[len(self.root) :] if path.startswith(self.root + "/") else "absolute " + path


class Caller:
    """A client whose answers are written down. A path that begins with `/` is below the case's node; "!/x" is /x."""

    def __init__(self, talk, name):
        self.talk = talk
        self.name = name
        self.wire = Client(talk.address)
        self.wire.on_event = self._event

    def note(self, line):
        self.talk.note(f"{self.name} {line}")

    def path(self, path):
        if not isinstance(path, str):
            return path
        if path.startswith("!"):
            return path[1:]
        return self.talk.root + ("" if path == "/" else path)

    def _event(self, event):
        kind = jute.EVENTS.get(event.kind, event.kind)
        self.note(f"EVENT {kind} {self.talk.short(event.path)} state={event.state} zxid={event.zxid}")

    def drain(self):
        """Whatever was sent to it until now is noted."""
        try:
            self.wire.ask(jute.EXISTS, jute.watched("/"))
        except (Closed, OSError):
            pass
        self.wire.events.clear()

    def begin(self, **how):
        """A session, or the end of the connection."""
        try:
            self.wire.connect(**how)
            # Its own name, unless it was somebody's before.
            self.talk.sessions.setdefault(self.wire.session_id, self.name)
        except Failed:
            self.note(f"connect: no such session, password {self.wire.password!r}, timeout {self.wire.timeout_ms}")
        except Closed:
            self.note("connect: closed")

    def resume(self, other, **how):
        self.begin(**{
            "timeout_ms": other.wire.timeout_ms, "session_id": other.wire.session_id,
            "password": other.wire.password, "zxid": other.wire.zxid, **how,
        })  # fmt: skip

    def say(self, label, op, payload, form=None, xid=None):
        """Asks and writes the answer down. Answers what follows the header, or None after an error."""
        try:
            answer = self.wire.ask(op, payload, xid)
        except Closed:
            self.note(f"{label}: closed")
            return None
        if answer.error != 0:
            self.note(f"{label}: {jute.error_name(answer.error)}{self._rest(answer.body)}")
            return None
        value = form(answer.body) if form else None
        self.note(f"{label}: {self.text(value)}{self._rest(answer.body)}")
        return value

    @staticmethod
    def _rest(body):
        return f" and {body.rest().hex()}" if body.rest() else ""

    def text(self, value):
        if isinstance(value, dict):
            return self.talk.stat(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.text(one) for one in value) + "]"
        if isinstance(value, str):
            return self.talk.short(value) if value.startswith("/") else value
        return "ok" if value is None else repr(value)

    # Requests

    def create(self, path, data=b"", entries=None, flags=0):
        return self.say(f"create {path} {flags}", jute.CREATE, jute.create(self.path(path), data, entries, flags),
                        jute.Reader.text)  # fmt: skip

    def create2(self, path, data=b"", entries=None, flags=0, op=jute.CREATE2):
        return self.say(f"create2 {path} {flags} op {op}", op, jute.create(self.path(path), data, entries, flags),
                        lambda body: (body.text(), body.stat()))  # fmt: skip

    def container(self, path, data=b""):
        return self.create2(path, data, flags=jute.CONTAINER, op=jute.CREATE_CONTAINER)

    def create_ttl(self, path, ttl_ms, flags=jute.TTL, data=b""):
        return self.say(f"create ttl {path} {ttl_ms} {flags}", jute.CREATE_TTL,
                        jute.create_ttl(self.path(path), data, None, flags, ttl_ms),
                        lambda body: (body.text(), body.stat()))  # fmt: skip

    def delete(self, path, version=-1):
        self.say(f"delete {path} {version}", jute.DELETE, jute.versioned(self.path(path), version))

    def exists(self, path, watch=False):
        return self.say(f"exists {path}", jute.EXISTS, jute.watched(self.path(path), watch), jute.Reader.stat)

    def get(self, path, watch=False):
        return self.say(f"get {path}", jute.GET_DATA, jute.watched(self.path(path), watch),
                        lambda body: (body.buffer(), body.stat()))  # fmt: skip

    def set(self, path, data=b"", version=-1):
        return self.say(f"set {path} {version}", jute.SET_DATA, jute.set_data(self.path(path), data, version),
                        jute.Reader.stat)  # fmt: skip

    def children(self, path, watch=False):
        return self.say(f"children {path}", jute.GET_CHILDREN, jute.watched(self.path(path), watch),
                        lambda body: sorted(body.texts()))  # fmt: skip

    def children2(self, path, watch=False):
        return self.say(f"children2 {path}", jute.GET_CHILDREN2, jute.watched(self.path(path), watch),
                        lambda body: (sorted(body.texts()), body.stat()))  # fmt: skip

    def get_acl(self, path):
        return self.say(f"get acl {path}", jute.GET_ACL, jute.text(self.path(path)),
                        lambda body: (body.acl(), body.stat()))  # fmt: skip

    def set_acl(self, path, entries, version=-1):
        return self.say(f"set acl {path} {entries} {version}", jute.SET_ACL,
                        jute.set_acl(self.path(path), entries, version), jute.Reader.stat)  # fmt: skip

    def sync(self, path):
        return self.say(f"sync {path}", jute.SYNC, jute.text(self.path(path)), jute.Reader.text)

    def auth(self, scheme, secret):
        self.say(f"auth {scheme} {secret}", jute.AUTH, jute.auth(scheme, secret), xid=jute.XID_AUTH)

    def who_am_i(self):
        return self.say("who am i", jute.WHO_AM_I, b"",
                        lambda body: sorted(body.vector(lambda: (body.text(), body.text()))))  # fmt: skip

    def ephemerals(self, path):
        return self.say(f"ephemerals {path}", jute.GET_EPHEMERALS, jute.text(self.path(path)),
                        lambda body: sorted(body.texts()))  # fmt: skip

    def count(self, path):
        return self.say(f"count {path}", jute.GET_ALL_CHILDREN_NUMBER, jute.text(self.path(path)), jute.Reader.integer)

    def add_watch(self, path, mode):
        # The answer's body is an error number of its own.
        self.say(f"add watch {path} {mode}", jute.ADD_WATCH, jute.text(self.path(path)) + jute.integer(mode),
                 jute.Reader.integer)  # fmt: skip

    def remove_watches(self, path, kind, op=jute.REMOVE_WATCHES):
        self.say(f"remove watches {path} {kind} op {op}", op, jute.text(self.path(path)) + jute.integer(kind))

    def set_watches(self, zxid, data=(), exist=(), child=(), persistent=None, recursive=None):
        lists = [None if paths is None else [self.path(path) for path in paths]
                 for paths in (data, exist, child, persistent, recursive)]  # fmt: skip
        op = jute.SET_WATCHES if persistent is None else jute.SET_WATCHES2
        self.say(f"set watches {data} {exist} {child} {persistent} {recursive}", op, jute.set_watches(zxid, *lists),
                 xid=jute.XID_SET_WATCHES)  # fmt: skip

    def multi(self, label, *operations, op=jute.MULTI):
        """operations: (opcode, function of jute, path, …)."""
        packed = [(one[0], one[1](self.path(one[2]), *one[3:])) for one in operations]
        results = self.say(f"multi {label}", op, jute.multi(packed), lambda body: [
            (code, jute.error_name(answer) if code == jute.ERROR else answer) for code, answer in body.multi()
        ])  # fmt: skip
        return results

    def raw(self, label, op, payload=b"", xid=None):
        self.say(label, op, payload, xid=xid)

    def close_session(self):
        self.say("close session", jute.CLOSE_SESSION, b"")
        if self.wire.is_closed():
            self.note("closed")
