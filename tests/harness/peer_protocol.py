"""What somebody needs to speak on the peer port: hellos, proofs, frames and raft's messages as bytes.

The bytes are those of `src/peers/peer_hello.h`, `peer_handshake.h` and `peer_frame.h`, of
`src/replication/peer_frames.h` and of `src/raft/raft_codec.h`, in one place, so that tests of hostile peers change
with the protocol here alone. Nothing here checks what it is told to encode.
"""
import hashlib
import hmac
import os
import socket
import struct

from harness.wait import wait_for

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
# Until a connection that was closed is known to be closed.
BUSY_SECONDS = 5.0

MAGIC = b"leasedpr"
VERSION = 3
NONCE_SIZE, PROOF_SIZE = 32, 32
FOR_LINK, TO_ASK = 2, 3
WELCOME, OTHER_VERSION, OTHER_CLUSTER, OTHER_MEMBER, MALFORMED = range(5)
NOT_A_MEMBER, REMOVED, DISK_REPLACED, NOT_PROVEN, BUSY, CHALLENGE = range(5, 11)

KEEPALIVE, PING, PONG, PROPOSE, PROPOSE_REFUSED = range(5)
READ, RENEW, RELEASE, RAFT = 5, 7, 10, 14
COMMAND_PUT, COMMAND_LEASE_GRANT, COMMAND_RULE, COMMAND_CLUSTER_VERSION = 1, 5, 14, 17

APPEND, APPEND_RESULT, VOTE, VOTE_RESULT, TIMEOUT_NOW, SNAPSHOT, SNAPSHOT_RESULT = range(1, 8)
VOTE_DISRUPTS, VOTE_IS_PRE = 1, 2
ENTRY_COMMAND, ENTRY_BARRIER, ENTRY_CHANGE = 1, 2, 3


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


def hello(
    cluster_id, from_id, to_id, purpose, data_dir_id=0, address=b"127.0.0.1:1", version=VERSION, nonce=None,
    heartbeat_ms=50, election_ms=300,
):  # fmt: skip
    nonce = os.urandom(NONCE_SIZE) if nonce is None else nonce
    body = struct.pack("<QQQQIIB", cluster_id, from_id, to_id, data_dir_id, heartbeat_ms, election_ms, purpose)
    body += nonce + struct.pack("<I", len(address)) + address
    whole = MAGIC + struct.pack("<II", version, len(body) + 4) + body
    return whole + struct.pack("<I", crc32c(whole))


def proof_of_caller(secret, said, challenge):
    """What shows that we know the secret; `said` is our hello."""
    label = b"leased peer proof 3, of the caller"
    text = length_and(label) + length_and(said) + length_and(challenge) + length_and(b"")
    return hmac.new(secret, text, hashlib.sha256).digest()


def proof_of_answerer(secret, said, challenge, answer):
    label = b"leased peer proof 3, of the answerer"
    text = length_and(label) + length_and(said) + length_and(challenge) + length_and(answer)
    return hmac.new(secret, text, hashlib.sha256).digest()


class Member:
    """What one who may ask is told of a member."""

    def __init__(self, member_id, data_dir_id):
        self.id = member_id
        self.data_dir_id = data_dir_id


class Cluster:
    """What one who may ask on the peer port is told of the cluster."""

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


def shake_hands(connection, said, secret=b""):
    """Says this hello, proves the secret where that is asked for; answers the payload. Refused: it was not welcome."""
    connection.sendall(said)
    try:
        answer = _receive(connection, 1)
        challenge = b""
        if answer[0] == CHALLENGE and secret:
            challenge = _receive(connection, NONCE_SIZE)
            connection.sendall(proof_of_caller(secret, said, challenge))
            answer = _receive(connection, 1)
        if answer[0] != WELCOME:
            raise Refused(answer[0])
        size = _receive(connection, 4)
        payload = _receive(connection, struct.unpack("<I", size)[0])
        proof = _receive(connection, PROOF_SIZE) if challenge else b""
    except OSError:
        raise Refused(None) from None
    if challenge:
        assert proof == proof_of_answerer(secret, said, challenge, answer + size + payload), "a false proof"
    return payload


def ask(server, secret=b""):
    """The cluster, as one member tells who may ask. Refused: it does not tell."""
    with connect(server) as connection:
        reader = _Reader(shake_hands(connection, hello(0, 0, 0, TO_ASK), secret))
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
    if reader.position < len(reader.data):
        assert reader.varint() > 2, "the version of the cluster, unless it is that of release 0.2"
    assert reader.position == len(reader.data), "more than was asked for"
    return Cluster(cluster_id, members)


def greet(server, cluster, from_id, to_id, secret=b""):
    """A link on which we were believed to be another member. Refused: we were not."""
    connection = connect(server)
    try:
        shake_hands(connection, cluster.hello(from_id, to_id, FOR_LINK), secret)
    except BaseException:
        connection.close()
        raise
    return connection


def greet_soon(server, cluster, from_id, to_id, secret=b""):
    """The same, after the end of an earlier link of that member's was noticed."""

    def greeted():
        try:
            return greet(server, cluster, from_id, to_id, secret)
        except Refused as refused:
            if refused.args[0] != BUSY:
                raise
            return None

    return wait_for(greeted, BUSY_SECONDS, "a link of our own")


# Frames of a link


def frame(kind, body):
    return struct.pack("<IB", len(body), kind) + body


def ping(term, sent_ms, kind=PING, lease_ms=300):
    return frame(kind, varint(term) + varint(sent_ms) + varint(lease_ms))


def propose(commands, incarnation=1, sequence=1, acknowledged=0):
    return frame(
        PROPOSE,
        struct.pack("<Q", incarnation) + varint(sequence) + varint(acknowledged) + varint(len(commands))
        + length_and(b"".join(commands)),
    )  # fmt: skip


def renew(lease, request_id=1):
    return frame(RENEW, varint(1) + varint(request_id) + zigzag(lease) + b"\0")


def put_command(key, value, lease=0):
    return bytes([COMMAND_PUT, 0]) + length_and(key) + length_and(value) + zigzag(lease)


def grant_command(lease, ttl_ms, parent=0):
    return bytes([COMMAND_LEASE_GRANT]) + zigzag(lease) + varint(ttl_ms) + zigzag(parent) + b"\0"


def raise_command(version):
    return bytes([COMMAND_CLUSTER_VERSION]) + varint(version) + varint(0)


def rule_command(number):
    return bytes([COMMAND_RULE]) + varint(number) + length_and(b"")


def log_entry(commands, term, index, incarnation=1, n_commands=None):
    """What is in an entry of the log, with the checksum of its own (src/replication/log_entry.h)."""
    n_commands = len(commands) if n_commands is None else n_commands
    body = struct.pack("<Q", incarnation) + varint(1) + varint(0) + varint(term) + varint(index) + zigzag(0)
    body += varint(n_commands) + b"".join(commands)
    whole = b"LSE1" + struct.pack("<I", len(body)) + body
    whole += struct.pack("<I", crc32c(whole))
    return whole + bytes(-len(whole) % 8)


# Messages of raft, each a frame


def raft_message(kind, *numbers, rest=b""):
    return frame(RAFT, bytes([kind]) + b"".join(varint(number) for number in numbers) + rest)


def vote(term, last_index=2**40, last_term=None, flags=VOTE_DISRUPTS):
    last_term = term - 1 if last_term is None else last_term
    return raft_message(VOTE, term, last_index, last_term, rest=bytes([flags]))


def vote_result(term, flags=1):
    return raft_message(VOTE_RESULT, term, rest=bytes([flags]))


def append(term, prev_index=0, prev_term=0, commit=0, entries=()):
    """Entries are (type, term, bytes)."""
    rest = b"".join(bytes([kind]) + varint(of_term) + length_and(data) for kind, of_term, data in entries)
    return raft_message(APPEND, term, prev_index, prev_term, commit, len(entries), rest=rest)


def append_result(term, rejected=0, last_index=0):
    return raft_message(APPEND_RESULT, term, rejected, last_index)


def timeout_now(term, last_index, last_term):
    return raft_message(TIMEOUT_NOW, term, last_index, last_term)


def configuration(servers):
    """Of (id, address, role), as the log has it."""
    data = b"\x01" + struct.pack("<Q", len(servers))
    for server_id, address, role in servers:
        data += struct.pack("<Q", server_id) + address + b"\0" + bytes([role])
    return data + bytes(-len(data) % 8)


def snapshot(term, index, of_term, size, offset=0, configured=None, chunk=b""):
    """One chunk; `configured` is (index, configuration) of the first."""
    rest = varint(configured[0]) + length_and(configured[1]) if configured is not None else b""
    return raft_message(SNAPSHOT, term, index, of_term, size, offset, rest=rest + length_and(chunk))


def snapshot_result(term, index, received):
    return raft_message(SNAPSHOT_RESULT, term, index, received)
