"""What a stranger needs to speak on the peer port: encoders of hellos, frames and raft's messages.

The bytes are those of `src/replication/peer_wire.h` and of raft's messages behind a hello, in one place, so that
tests of hostile peers change with the protocol here alone. Nothing here checks what it is told to encode.
"""
import socket
import struct

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0

MAGIC = b"leasedpr"
VERSION = 2
FOR_RAFT, FOR_LINK, TO_ASK = 1, 2, 3
WELCOME = 0

PING, PONG, PROPOSE, PROPOSE_REFUSED = 1, 2, 3, 4
READ, RENEW, RELEASE = 5, 7, 10
COMMAND_PUT, COMMAND_LEASE_GRANT = 1, 5

APPEND_ENTRIES, APPEND_ENTRIES_RESULT, REQUEST_VOTE, REQUEST_VOTE_RESULT, INSTALL_SNAPSHOT, TIMEOUT_NOW = range(1, 7)
VOTE_DISRUPTS = 1


class Refused(Exception):
    """The hello was answered with this byte, or by hanging up (None)."""


def _crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def length_and(data):
    return varint(len(data)) + data


# Hellos


def hello(cluster_id, from_id, to_id, purpose, data_dir_id=0, address=b"127.0.0.1:1", version=VERSION):
    body = struct.pack("<QQQQBI", cluster_id, from_id, to_id, data_dir_id, purpose, len(address)) + address
    whole = MAGIC + struct.pack("<II", version, len(body) + 4) + body
    return whole + struct.pack("<I", crc32c(whole))


class Member:
    """What anybody is told of a member."""

    def __init__(self, member_id, data_dir_id):
        self.id = member_id
        self.data_dir_id = data_dir_id


class Cluster:
    """What anybody is told of the cluster who asks on the peer port."""

    def __init__(self, cluster_id, members):
        self.id = cluster_id
        self.members = members

    def hello(self, from_id, to_id, purpose):
        """The hello of a member that this is not."""
        member = next((one for one in self.members if one.id == from_id), None)
        return hello(self.id, from_id, to_id, purpose, member.data_dir_id if member else 0)


def connect(server):
    connection = socket.create_connection((server.host, server.peer_port), CONNECT_SECONDS)
    connection.settimeout(ANSWER_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("hung up")
        data += more
    return data


class _Reader:
    def __init__(self, data):
        self.data, self.position = data, 0

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values[0] if len(values) == 1 else values

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take("<B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def bytes(self):
        size = self.varint()
        self.position += size
        return self.data[self.position - size : self.position]


def ask(server):
    """The cluster, as one member tells anybody who asks. Refused: it does not tell."""
    with connect(server) as connection:
        connection.sendall(hello(0, 0, 0, TO_ASK))
        _check_welcome(connection)
        (size,) = struct.unpack("<I", _receive(connection, 4))
        reader = _Reader(_receive(connection, size))
    reader.take("<B")
    cluster_id = reader.take("<Q")
    reader.take("<QB")
    members = []
    for _ in range(reader.varint()):
        member_id, _, data_dir_id = reader.take("<QBQ")
        reader.bytes()
        for _ in range(2):
            for _ in range(reader.varint()):
                reader.bytes()
        members.append(Member(member_id, data_dir_id))
    return Cluster(cluster_id, members)


def _check_welcome(connection):
    try:
        answer = connection.recv(1)
    except OSError:
        answer = b""
    if answer != bytes([WELCOME]):
        raise Refused(answer[0] if answer else None)


def greet(server, cluster, from_id, to_id, purpose):
    """A connection on which this member was believed to be another. Refused: it was not."""
    connection = connect(server)
    try:
        connection.sendall(cluster.hello(from_id, to_id, purpose))
        _check_welcome(connection)
    except BaseException:
        connection.close()
        raise
    return connection


# Frames of a link


def frame(kind, body):
    return struct.pack("<IB", len(body) + 1, kind) + body


def ping(term, sent_ms, kind=PING):
    return frame(kind, varint(term) + varint(sent_ms))


def propose(commands, incarnation=1, sequence=1, acknowledged=0):
    return frame(
        PROPOSE,
        struct.pack("<Q", incarnation) + varint(sequence) + varint(acknowledged) + varint(len(commands))
        + length_and(b"".join(commands)),
    )  # fmt: skip


def put_command(key, value, lease=0):
    return bytes([COMMAND_PUT, 0]) + length_and(key) + length_and(value) + zigzag(lease)


def grant_command(lease, ttl_ms, parent=0):
    return bytes([COMMAND_LEASE_GRANT]) + zigzag(lease) + varint(ttl_ms) + zigzag(parent) + b"\0"


# Messages of raft


def raft_message(kind, header, payload=b""):
    return struct.pack("<QQ", kind, len(header)) + header + payload


def request_vote(term, candidate_id, last_index=2**40, last_term=None, flags=VOTE_DISRUPTS):
    last_term = term - 1 if last_term is None else last_term
    return raft_message(REQUEST_VOTE, struct.pack("<QQQQQ", term, candidate_id, last_index, last_term, flags))


def append_entries(term, prev_index=0, prev_term=0, commit=0, n_entries=0):
    header = struct.pack("<QQQQQ", term, prev_index, prev_term, commit, n_entries)
    return raft_message(APPEND_ENTRIES, header)


def append_entries_result(term, rejected=0, last_index=0):
    return raft_message(APPEND_ENTRIES_RESULT, struct.pack("<QQQ", term, rejected, last_index))


def timeout_now(term, last_index, last_term):
    return raft_message(TIMEOUT_NOW, struct.pack("<QQQ", term, last_index, last_term))
