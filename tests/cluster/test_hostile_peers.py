"""A script with the cluster's id on the peer port, without TLS and without a secret: nobody crashes, nothing is
forged, nobody waits for it.

One node is down, and the script is taken for it: each test sees to it that it is, for what was turned away at the
door has tested nothing. It may disturb as long as it is there; it must not end a process, move the cluster's term, or
write what a client could not. `harness.peer_protocol` has the bytes.
"""
import os
import random
import selectors
import socket
import threading
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc
from register import SEED

from harness import peer_protocol as protocol
from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

GARBAGE_ROUNDS = int(os.environ.get("LEASED_GARBAGE_ROUNDS", either(150, 2000)))
GARBAGE_BYTES_MAX = 4000
# The codec's own bound, what a guard refuses, and what would leave no term to elect in.
TERM_LEAPS = (2**64 - 2, 2**62 - 2, 2**40, 2**21)
TERM_MAX = 10_000
CONNECTIONS = 900
# What a node may hold for one member's sake, and for those who have not said who they are.
DESCRIPTORS_MAX = 100
# On each node, and how long after it was sent away each of them comes back.
IDLE_CONNECTIONS = 96
COME_BACK_SECONDS = 0.02
RESTART_SECONDS_MAX = either(4.0, 0.5)
SETTLE_SECONDS = 0.3


@pytest.fixture
def cluster():
    with Cluster() as running:
        running.leader()
        yield running


class Known:
    """What the attacker knows: the cluster, who is who, and that one of them is down."""

    def __init__(self, cluster):
        self.servers = cluster.servers
        self.cluster = protocol.ask(cluster[0])
        self.ids = [cluster.status(node).header.member_id for node in range(len(cluster))]
        assert sorted(self.ids) == sorted(one.id for one in self.cluster.members)
        leader = cluster.leader()
        self.absent = (leader + 1) % len(cluster)
        self.present = [leader, (leader + 2) % len(cluster)]

    def hello(self, node, purpose=protocol.FOR_LINK):
        return self.cluster.hello(self.ids[self.absent], self.ids[node], purpose)

    def greet(self, node):
        """A link to a node that takes us for the one that is down."""
        return protocol.greet_soon(self.servers[node], self.cluster, self.ids[self.absent], self.ids[node])


@pytest.fixture
def known(cluster):
    found = Known(cluster)
    cluster.kill(found.absent)
    return found


def check_well(cluster, known):
    """All three run, agree on a leader within the old terms, take a write, and hold the same."""
    if known.absent not in cluster.answering():
        cluster.restart(known.absent)
    for node in range(3):
        cluster.check_alive(node)
    leader = cluster.leader()
    assert cluster.status(leader).raftTerm < TERM_MAX

    def written():
        try:
            cluster.rpc(leader).put(b"/after", b"x")
            return True
        except grpc.RpcError as error:
            assert error.code() in EXCUSES, error
            return False

    wait_for(written, 20, "a write")
    cluster.wait_equal()
    cluster.check_sound()


def say(connection, *frames):
    """Says it, then something that ends the connection, and waits for that: all before was dealt with by then."""
    with connection:
        try:
            connection.sendall(b"".join(frames))
            connection.sendall(protocol.frame(255, b""))
        except OSError:
            return  # it hung up on us, as it should
        try:
            while connection.recv(4096):
                pass
        except ConnectionError:
            pass


def hangs_up(connection, message):
    """Whether this message ends the connection."""
    connection.settimeout(SETTLE_SECONDS)
    with connection:
        try:
            connection.sendall(message)
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


# Who is taken for a member


def refusal(server, said):
    """The answer to a hello that is not welcome."""
    with protocol.connect(server) as connection, pytest.raises(protocol.Refused) as refused:
        protocol.shake_hands(connection, said)
    return refused.value.args[0]


def test_a_hello_is_welcome_only_if_all_of_it_is_right(cluster):
    found = Known(cluster)
    leader = found.present[0]
    server, own, to = cluster[leader], found.ids[found.absent], found.ids[leader]
    right = found.hello(leader)
    # While the member that we claim to be is there.
    assert refusal(server, right) == protocol.BUSY
    cluster.kill(found.absent)
    cluster_id = found.cluster.id
    data_dir_id = next(one.data_dir_id for one in found.cluster.members if one.id == own)
    assert refusal(server, protocol.hello(cluster_id + 1, own, to, protocol.FOR_LINK)) == protocol.OTHER_CLUSTER
    assert refusal(server, protocol.hello(cluster_id, own, to + 1, protocol.FOR_LINK)) == protocol.OTHER_MEMBER
    assert refusal(server, protocol.hello(cluster_id, 77, to, protocol.FOR_LINK)) == protocol.NOT_A_MEMBER
    assert refusal(server, protocol.hello(cluster_id, to, to, protocol.FOR_LINK)) == protocol.NOT_A_MEMBER
    assert refusal(server, protocol.hello(cluster_id, 0, to, protocol.FOR_LINK)) == protocol.MALFORMED
    other_disk = protocol.hello(cluster_id, own, to, protocol.FOR_LINK, data_dir_id ^ 1)
    assert refusal(server, other_disk) == protocol.DISK_REPLACED
    old = protocol.hello(cluster_id, own, to, protocol.FOR_LINK, version=protocol.VERSION - 1)
    assert refusal(server, old) == protocol.OTHER_VERSION
    assert refusal(server, right[:-1] + bytes([right[-1] ^ 1])) == protocol.MALFORMED
    assert refusal(server, right + b"more") == protocol.MALFORMED
    # And what was right is.
    found.greet(leader).close()
    check_well(cluster, found)


# No bytes crash a node


def mutated(choose, data):
    """With some bytes changed, cut off, or repeated."""
    data = bytearray(data)
    for _ in range(choose.randrange(1, 5)):
        data[choose.randrange(len(data))] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
    if choose.randrange(4) == 0:
        del data[choose.randrange(len(data)) :]
    return bytes(data) + choose.randbytes(choose.randrange(40) if choose.randrange(3) == 0 else 0)


def a_number(choose):
    return choose.choice((0, 1, 2, 3, 4, choose.randrange(20), choose.getrandbits(16), 2**40, 2**62, 2**63))


def an_entry(choose, term):
    kind = choose.choice((protocol.ENTRY_COMMAND, protocol.ENTRY_BARRIER, protocol.ENTRY_CHANGE, choose.randrange(6)))
    return kind, term, choose.randbytes(choose.choice((0, 8, choose.randrange(80))))


def a_raft_message(choose):
    """Right in itself for the most part. Terms are small: what leaps is another test."""
    term = choose.choice((1, 2, 3, 4))
    before, of_term = choose.choice(((0, 0), (choose.randrange(1, 12), choose.randrange(1, term + 1))))
    entries = [an_entry(choose, term) for _ in range(choose.randrange(4))]
    return choose.choice((
        protocol.append(term, before, of_term, a_number(choose), entries),
        protocol.append_result(term, a_number(choose), a_number(choose)),
        protocol.vote(term, before, of_term, choose.randrange(4)),
        protocol.vote_result(term, choose.randrange(4)),
        protocol.timeout_now(term, before, of_term),
        protocol.snapshot(term, before, of_term, a_number(choose), a_number(choose), chunk=choose.randbytes(30)),
        protocol.snapshot_result(term, a_number(choose), a_number(choose)),
        protocol.raft_message(choose.randrange(10), *(a_number(choose) for _ in range(choose.randrange(8))),
                              rest=choose.randbytes(choose.randrange(40))),
    ))  # fmt: skip


def a_frame(choose):
    """Right in itself, before it is mutated."""
    return choose.choice((
        protocol.ping(choose.randrange(4), choose.getrandbits(20)),
        protocol.ping(choose.randrange(4), choose.getrandbits(20), protocol.PONG),
        protocol.ping(choose.randrange(4), choose.getrandbits(20), protocol.RELEASE),
        protocol.propose([protocol.put_command(b"/forged", b"x")]),
        protocol.frame(protocol.READ, protocol.varint(choose.getrandbits(30))),
        protocol.renew(choose.getrandbits(30)),
        protocol.frame(choose.randrange(16), choose.randbytes(choose.randrange(100))),
    ))  # fmt: skip


def send_and_go(connection, choose, data):
    """In one piece or two; then it may look for an answer, or go without a word."""
    with connection:
        try:
            at = choose.randrange(len(data) + 1) if choose.randrange(2) else len(data)
            connection.sendall(data[:at])
            connection.sendall(data[at:])
            if choose.randrange(2):
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(0.2)
                connection.recv(100)
        except OSError:
            pass  # it hung up on us, as it should


def before_the_hello(choose, known, node):
    right = known.hello(node, choose.choice((protocol.FOR_LINK, protocol.TO_ASK)))
    data = choose.choice((
        choose.randbytes(choose.randrange(1, GARBAGE_BYTES_MAX)),
        mutated(choose, right),
        right + choose.randbytes(choose.randrange(1, 200)),
    ))  # fmt: skip
    send_and_go(protocol.connect(known.servers[node]), choose, data)


def messages_of_raft(choose, known, node):
    messages = [a_raft_message(choose) for _ in range(choose.randrange(1, 4))]
    if choose.randrange(3) == 0:
        messages.append(mutated(choose, messages[-1]))
    send_and_go(known.greet(node), choose, b"".join(messages))


def frames(choose, known, node):
    said = [a_frame(choose) for _ in range(choose.randrange(1, 4))]
    send_and_go(known.greet(node), choose, b"".join([*said[:-1], mutated(choose, said[-1])]))


@pytest.mark.parametrize("way", [before_the_hello, messages_of_raft, frames], ids=lambda way: way.__name__)
def test_no_bytes_end_a_node(cluster, known, way):
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(GARBAGE_ROUNDS):
        node = known.present[number % 2]
        way(choose, known, node)
        cluster.check_alive(node)
    check_well(cluster, known)


# No message moves the term


def test_a_message_of_a_term_far_ahead_leaves_a_cluster_that_elects(cluster, known):
    term = cluster.status(known.present[0]).raftTerm
    for node in known.present:
        for leap in TERM_LEAPS:
            for message in (
                protocol.append(leap),
                protocol.append_result(leap),
                protocol.vote(leap),
                protocol.vote(leap, flags=0),
                protocol.vote(leap, flags=protocol.VOTE_IS_PRE),
                protocol.vote_result(leap),
                protocol.timeout_now(leap, 1, 1),
                protocol.snapshot(leap, 2**40, 1, 100, chunk=b"x", configured=(1, a_configuration(known))),
                protocol.snapshot_result(leap, 1, 1),
                protocol.ping(leap, 1),
                protocol.ping(leap, 1, protocol.RELEASE),
            ):
                say(known.greet(node), message)
    assert max(cluster.status(node).raftTerm for node in known.present) < term + TERM_MAX
    check_well(cluster, known)
    old = cluster.leader()
    cluster.kill(old)
    new = cluster.leader(timeout_s=15)
    cluster.rpc(new).put(b"/elected", b"x")
    cluster.restart(old)
    check_well(cluster, known)
    for node in range(3):
        assert cluster.stop(node) == 0
    cluster.restart(*range(3))
    check_well(cluster, known)


def a_configuration(known):
    return protocol.configuration([
        (one, b"127.0.0.1:%d" % known.servers[node].peer_port, 1) for node, one in enumerate(known.ids)
    ])  # fmt: skip


# Nothing is written that no client could write


def test_forged_proposals_are_refused(cluster, known):
    leader = known.present[0]
    forged = {
        "a value larger than any request": protocol.put_command(b"/forged/large", b"v" * 2_000_000),
        "a lease longer than any": protocol.grant_command(0x7777, 2**55),
        "a lease of no time": protocol.grant_command(0x7778, 0),
        "a lease with id 0": protocol.grant_command(0, 60_000),
        "a key of no bytes": protocol.put_command(b"", b"x"),
        "what is no command": b"\xff\xff\xff",
    }
    for sequence, command in enumerate(forged.values(), 1):
        say(known.greet(leader), protocol.propose([command], incarnation=99, sequence=sequence))
    # What a client could have said as well shows that the others were heard.
    say(known.greet(leader), protocol.propose([protocol.put_command(b"/forged/fair", b"x")], incarnation=99, sequence=9))
    rpc = cluster.rpc(leader)
    wait_for(lambda: rpc.range(b"/forged/fair").count, 10, "what a client could have written")
    check_well(cluster, known)
    assert [kv.key for kv in rpc.range(b"\0", b"\0").kvs] == [b"/after", b"/forged/fair"]
    assert not rpc.leases(), f"leases that no client can have were granted: {rpc.leases()}"


def test_entries_that_no_leader_would_send_do_not_reach_the_log(cluster, known):
    """The script makes itself the leader of a follower: in plain text nobody can tell. What it sends must be
    readable by all who come after."""
    leader, follower = known.present
    cluster.rpc(leader).put(b"/before", b"x")
    cluster.wait_equal()
    before = cluster.hash_of(follower)
    # Nobody else's heartbeats are in the way.
    cluster.pause(leader)
    forged = [
        lambda term, index: b"",
        lambda term, index: b"garbage!" * 4,
        lambda term, index: protocol.log_entry([protocol.put_command(b"/forged", b"x")], term, index)[:-12] + b"damaged!",
        lambda term, index: protocol.log_entry([protocol.put_command(b"/forged", b"x")], term, index + 1),
        lambda term, index: protocol.log_entry([b"\xff\xff"], term, index),
        lambda term, index: protocol.log_entry([], term, index, n_commands=2**60),
        lambda term, index: protocol.log_entry([protocol.grant_command(0x7777, 2**60)], term, index),
        # What only a newer release would write; but no member says that the cluster has its version.
        lambda term, index: protocol.log_entry([protocol.raise_command(99)], term, index),
        lambda term, index: protocol.log_entry([protocol.rule_command(123456)], term, index),
    ]  # fmt: skip
    fair = lambda term, index: protocol.log_entry([protocol.put_command(b"/fair", b"x")], term, index)
    for make in [*forged, fair]:
        status = cluster.status(follower)
        term, index = status.raftTerm + 2, status.raftIndex
        entry = (protocol.ENTRY_COMMAND, term, make(term, index + 1))
        # What could be a leader's may stay, but we do not say that it is committed.
        commit = 0 if make is fair else index + 1
        is_refused = hangs_up(known.greet(follower), protocol.append(term, index, status.raftTerm, commit, [entry]))
        assert is_refused == (make is not fair)
        cluster.check_alive(follower)
        assert cluster.hash_of(follower) == before, "it was applied"
    cluster.resume(leader)
    check_well(cluster, known)
    assert cluster.rpc(leader).range(b"/forged").count == 0
    cluster.kill(follower)
    cluster.restart(follower)
    check_well(cluster, known)


def has_refused(server, index):
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        return f"cannot be read, and is not installed index={index} " in log.read()


def test_a_snapshot_that_is_none_does_not_replace_the_state(cluster, known):
    leader, follower = known.present
    cluster.rpc(leader).put(b"/before", b"x")
    cluster.wait_equal()
    cluster.pause(leader)
    for payload in (b"garbage", os.urandom(100_000)):
        status = cluster.status(follower)
        term, index = status.raftTerm + 2, status.raftIndex + 1000
        connection = known.greet(follower)
        message = protocol.snapshot(term, index, term, len(payload), 0, (1, a_configuration(known)), payload)
        with connection:
            connection.sendall(message)
            wait_for(lambda: has_refused(cluster[follower], index), 10, "a word on the snapshot")
        cluster.check_alive(follower)
    cluster.resume(leader)
    check_well(cluster, known)
    assert cluster.rpc(follower).range(b"/before").count == 1


# Connections are bounded


def descriptors_of(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def test_connections_in_a_members_name_are_bounded(cluster, known):
    node = known.present[0]
    before = descriptors_of(cluster[node])
    held, busy = [known.greet(node)], 0
    try:
        for _ in range(CONNECTIONS):
            connection = protocol.connect(cluster[node])
            held.append(connection)
            try:
                protocol.shake_hands(connection, known.hello(node))
            except protocol.Refused as refused:
                assert refused.args[0] in (protocol.BUSY, None)
                busy += 1
        more = descriptors_of(cluster[node]) - before
    finally:
        for connection in held:
            connection.close()
    report("connections in one name", tried=CONNECTIONS, refused=busy, more_descriptors=more)
    assert busy > CONNECTIONS // 2, "one name has many connections"
    check_well(cluster, known)
    assert more < DESCRIPTORS_MAX


class IdleStrangers(threading.Thread):
    """Connect to the peer ports and say nothing; come back when they are sent away."""

    def __init__(self, servers):
        super().__init__(daemon=True)
        self._select = selectors.DefaultSelector()
        self._away = [server for server in servers for _ in range(IDLE_CONNECTIONS)]
        self.done = threading.Event()
        self.is_there = threading.Event()

    def _come(self):
        """Those who find nobody listening try again later."""
        away, self._away = self._away, []
        for server in away:
            try:
                connection = socket.create_connection((server.host, server.peer_port), 1)
                self._select.register(connection, selectors.EVENT_READ, server)
            except OSError:
                self._away.append(server)

    def run(self):
        while not self.done.is_set():
            self._come()
            self.is_there.set()
            self.done.wait(COME_BACK_SECONDS)
            # Nobody tells a stranger anything: whatever there is to read is the end.
            for key, _ in self._select.select(0):
                self._select.unregister(key.fileobj)
                key.fileobj.close()
                self._away.append(key.data)

    def stop(self):
        self.done.set()
        self.join()
        for key in list(self._select.get_map().values()):
            key.fileobj.close()
        self._select.close()


def seconds_to_restart(cluster, node):
    cluster.kill(node)
    begun = time.monotonic()
    cluster.restart(node)
    request = etcdrpc.RangeRequest(key=b"/after")

    def read():
        try:
            return cluster.rpc(node).kv.Range(request, timeout=10)
        except grpc.RpcError as error:
            assert error.code() in EXCUSES, error
            return None

    wait_for(read, 30, "a read")
    return time.monotonic() - begun


def test_strangers_who_say_nothing_do_not_delay_a_restart(cluster):
    found = Known(cluster)
    node = found.absent
    without = seconds_to_restart(cluster, node)
    strangers = IdleStrangers(cluster.servers)
    strangers.start()
    try:
        assert strangers.is_there.wait(20)
        seconds = max(seconds_to_restart(cluster, node) for _ in range(2))
    finally:
        strangers.stop()
    check_well(cluster, found)
    report("a restart beside idle strangers", seconds=round(seconds, 2), without_s=round(without, 2))
    assert seconds < without + RESTART_SECONDS_MAX
