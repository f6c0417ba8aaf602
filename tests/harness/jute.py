"""ZooKeeper's wire format as plain functions: what a test packs is what is sent, however odd it is."""
import struct

# Opcodes
NOTIFICATION, CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC = range(10)
PING, GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES = range(11, 19)
CREATE_CONTAINER, CREATE_TTL, MULTI_READ = 19, 21, 22
AUTH, SET_WATCHES, SASL, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I = range(100, 108)
CLOSE_SESSION, CREATE_SESSION, ERROR = -11, -10, -1

# Request numbers with a meaning
XID_EVENT, XID_PING, XID_AUTH, XID_SET_WATCHES = -1, -2, -4, -8

# Kinds of nodes
PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, TTL_SEQUENTIAL = range(7)

READ, WRITE, CREATE_RIGHT, DELETE_RIGHT, ADMIN, ALL = 1, 2, 4, 8, 16, 31
OPEN_ACL = [(ALL, "world", "anyone")]
CREATOR_ACL = [(ALL, "auth", "")]

STAT = struct.Struct(">qqqqiiiqiiq")
STAT_FIELDS = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "length", "children",
               "pzxid")  # fmt: skip

ERRORS = {
    -1: "system", -2: "runtime inconsistency", -3: "data inconsistency", -4: "connection loss", -5: "marshalling",
    -6: "unimplemented", -7: "operation timeout", -8: "bad arguments", -13: "new config no quorum",
    -14: "reconfig in progress", -100: "api", -101: "no node", -102: "no auth", -103: "bad version",
    -108: "no children for ephemerals", -110: "node exists", -111: "not empty", -112: "session expired",
    -113: "invalid callback", -114: "invalid acl", -115: "auth failed", -118: "session moved", -119: "not read only",
    -120: "ephemeral on local session", -121: "no watcher", -123: "reconfig disabled", -125: "quota exceeded",
    -127: "throttled",
}  # fmt: skip


def error_name(code):
    return ERRORS.get(code, str(code))


def boolean(value):
    return struct.pack(">?", value)


def integer(value):
    return struct.pack(">i", value)


def long(value):
    return struct.pack(">q", value)


def buffer(value):
    """None is the null buffer."""
    return integer(-1) if value is None else integer(len(value)) + value


def text(value):
    return buffer(value.encode() if isinstance(value, str) else value)


def vector(values, pack):
    return integer(-1) if values is None else integer(len(values)) + b"".join(map(pack, values))


def texts(values):
    return vector(values, text)


def acl(entries):
    return vector(entries, lambda entry: integer(entry[0]) + text(entry[1]) + text(entry[2]))


def frame(payload):
    return integer(len(payload)) + payload


# Requests

def connect(timeout_ms=10000, session_id=0, password=bytes(16), zxid=0, read_only=False, version=0):
    flag = b"" if read_only is None else boolean(read_only)
    return integer(version) + long(zxid) + integer(timeout_ms) + long(session_id) + buffer(password) + flag


def create(path, data=b"", entries=None, flags=0):
    return text(path) + buffer(data) + acl(OPEN_ACL if entries is None else entries) + integer(flags)


def create_ttl(path, data=b"", entries=None, flags=TTL, ttl_ms=0):
    return create(path, data, entries, flags) + long(ttl_ms)


def versioned(path, version=-1):
    return text(path) + integer(version)


def watched(path, watch=False):
    return text(path) + boolean(watch)


def set_data(path, data, version=-1):
    return text(path) + buffer(data) + integer(version)


def set_acl(path, entries, version=-1):
    return text(path) + acl(entries) + integer(version)


def auth(scheme, secret, kind=0):
    return integer(kind) + text(scheme) + buffer(secret)


def set_watches(zxid, data=(), exist=(), child=(), persistent=None, recursive=None):
    packed = long(zxid) + texts(data) + texts(exist) + texts(child)
    if persistent is not None:
        packed += texts(persistent) + texts(recursive)
    return packed


def multi(operations):
    """operations: (opcode, packed request)."""
    packed = b"".join(integer(op) + boolean(False) + integer(-1) + body for op, body in operations)
    return packed + integer(-1) + boolean(True) + integer(-1)


class Reader:
    """Takes an answer apart, first things first. struct.error: it is shorter than it should be."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def unpack(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values[0] if len(values) == 1 else values

    def integer(self):
        return self.unpack(">i")

    def long(self):
        return self.unpack(">q")

    def boolean(self):
        return self.unpack(">?")

    def buffer(self):
        size = self.integer()
        if size < 0:
            return None
        if self.at + size > len(self.data):
            raise struct.error(f"a buffer of {size} bytes in {len(self.data) - self.at}")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self):
        value = self.buffer()
        return None if value is None else value.decode()

    def vector(self, take):
        return [take() for _ in range(max(0, self.integer()))]

    def texts(self):
        return self.vector(self.text)

    def acl(self):
        return self.vector(lambda: (self.integer(), self.text(), self.text()))

    def stat(self):
        return dict(zip(STAT_FIELDS, self.unpack(STAT.format)))

    def rest(self):
        return self.data[self.at :]

    def multi(self):
        """(opcode, answer) for each; an answer is an error number, or what the operation gives."""
        results = []
        while True:
            op, done, error = self.integer(), self.boolean(), self.integer()
            if done:
                return results
            if op == ERROR:
                results.append((op, self.integer()))
            elif op == CREATE:
                results.append((op, self.text()))
            elif op in (CREATE2, CREATE_CONTAINER, CREATE_TTL):
                results.append((op, (self.text(), self.stat())))
            elif op == SET_DATA:
                results.append((op, self.stat()))
            elif op == GET_DATA:
                results.append((op, (self.buffer(), self.stat())))
            elif op == GET_CHILDREN:
                results.append((op, self.texts()))
            else:
                results.append((op, error))


EVENTS = {1: "created", 2: "deleted", 3: "changed", 4: "child", -2: "watch removed"}
