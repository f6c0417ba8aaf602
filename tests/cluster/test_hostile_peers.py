"""A script with the cluster's id on the peer port, without TLS: nobody crashes, nothing is forged, nobody waits for it.

Who can be believed to be a member may disturb the one it claims to be for as long as it is there; it must not end a
process, move the cluster's term, or write what a client could not. `harness.peer_protocol` has the bytes.
"""
import os
import random
import selectors
import socket
import struct
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

GARBAGE_ROUNDS = either(120, 2000)
GARBAGE_BYTES_MAX = 4000
TERM_LEAP = 2**64 - 2
TERM_MAX = 1000
CONNECTIONS = 900
# What a node may hold for one member's sake, and for those who have not said who they are.
DESCRIPTORS_MAX = 100
# On each node, and how long after it was sent away each of them comes back.
IDLE_CONNECTIONS = 96
COME_BACK_SECONDS = 0.02
RESTART_SECONDS_MAX = either(2.0, 0.5)
SETTLE_SECONDS = 0.3


@pytest.fixture
def cluster():
    with Cluster() as running:
        running.leader()
        yield running


@pytest.fixture
def known(cluster):
    """What the attacker knows: ids, and who is who."""

    class Known:
        cluster_id = protocol.ask(cluster[0])
        ids = [cluster.status(node).header.member_id for node in range(3)]

    return Known


def greet(cluster, known, node, as_node, purpose):
    """A connection on which we are taken for another node; None: we are not."""
    try:
        return protocol.greet(cluster[node], known.cluster_id, known.ids[as_node], known.ids[node], purpose)
    except protocol.Refused:
        return None


def check_well(cluster):
    """All three run, agree on a leader within the old terms, take a write, and hold the same."""
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


# No bytes crash a node


def mutated(choose, data):
    """With some bytes changed, cut off, or repeated."""
    data = bytearray(data)
    for _ in range(choose.randrange(1, 5)):
        data[choose.randrange(len(data))] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
    if choose.randrange(4) == 0:
        del data[choose.randrange(len(data)) :]
    return bytes(data) + choose.randbytes(choose.randrange(40) if choose.randrange(3) == 0 else 0)


def a_raft_message(choose, known):
    """Of any kind, with sizes that lie now and then. Terms are small: what leaps is another test."""
    size = 8 * choose.randrange(0, 12) + (choose.randrange(8) if choose.randrange(4) == 0 else 0)
    words = [choose.choice((0, 1, 2, 3, choose.choice(known.ids), choose.getrandbits(16), 2**63)) for _ in range(12)]
    words[0] = choose.choice((1, 2, 3, 4))
    header = b"".join(struct.pack("<Q", word) for word in words)[:size]
    return protocol.raft_message(choose.randrange(0, 8), header, choose.randbytes(choose.randrange(0, 80)))


def a_frame(choose, known):
    """Right in itself, before it is mutated."""
    return choose.choice((
        protocol.ping(choose.randrange(4), choose.getrandbits(20)),
        protocol.ping(choose.randrange(4), choose.getrandbits(20), protocol.PONG),
        protocol.propose([protocol.put_command(b"/forged", b"x")]),
        protocol.frame(protocol.READ, protocol.varint(choose.getrandbits(30))),
        protocol.frame(protocol.RENEW, protocol.varint(choose.getrandbits(30)) + choose.randbytes(20)),
        protocol.frame(choose.randrange(256), choose.randbytes(choose.randrange(100))),
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


def before_the_hello(choose, cluster, known, node, as_node):
    purpose = choose.choice((protocol.FOR_RAFT, protocol.FOR_LINK, protocol.TO_ASK))
    right = known.cluster_id.hello(known.ids[as_node], known.ids[node], purpose)
    data = choose.choice((
        choose.randbytes(choose.randrange(1, GARBAGE_BYTES_MAX)),
        mutated(choose, right),
        right + choose.randbytes(choose.randrange(1, 200)),
    ))  # fmt: skip
    send_and_go(protocol.connect(cluster[node]), choose, data)


def after_a_raft_hello(choose, cluster, known, node, as_node):
    connection = greet(cluster, known, node, as_node, protocol.FOR_RAFT)
    if connection is not None:
        message = a_raft_message(choose, known)
        send_and_go(connection, choose, choose.choice((message, mutated(choose, message))))


def after_a_link_hello(choose, cluster, known, node, as_node):
    connection = greet(cluster, known, node, as_node, protocol.FOR_LINK)
    if connection is not None:
        data = b"".join(mutated(choose, a_frame(choose, known)) for _ in range(choose.randrange(1, 4)))
        send_and_go(connection, choose, data)


@pytest.mark.parametrize("way", [before_the_hello, after_a_raft_hello, after_a_link_hello], ids=lambda way: way.__name__)
def test_no_bytes_end_a_node(cluster, known, way):
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(GARBAGE_ROUNDS):
        node = number % 3
        way(choose, cluster, known, node, (node + choose.randrange(1, 3)) % 3)
        cluster.check_alive(node)
    check_well(cluster)


# No message moves the term


def test_a_message_of_a_term_far_ahead_leaves_a_cluster_that_elects(cluster, known):
    for node in range(3):
        as_node = (node + 1) % 3
        for message in (
            protocol.append_entries(TERM_LEAP),
            protocol.append_entries_result(TERM_LEAP),
            protocol.request_vote(TERM_LEAP, known.ids[as_node]),
            protocol.request_vote(TERM_LEAP, known.ids[as_node], flags=0),
        ):
            connection = greet(cluster, known, node, as_node, protocol.FOR_RAFT)
            if connection is not None:
                with connection:
                    connection.sendall(message)
                    connection.settimeout(SETTLE_SECONDS)
                    try:
                        # Until it was dealt with: an answer, the end of the connection, or nothing at all.
                        connection.recv(1000)
                    except OSError:
                        pass
    check_well(cluster)
    old = cluster.leader()
    cluster.kill(old)
    new = cluster.leader(timeout_s=15)
    cluster.rpc(new).put(b"/elected", b"x")
    cluster.restart(old)
    check_well(cluster)
    for node in range(3):
        assert cluster.stop(node) == 0
    cluster.restart(*range(3))
    check_well(cluster)


# Nothing is written that no client could write


def test_forged_proposals_are_refused(cluster, known):
    leader = cluster.leader()
    rpc = cluster.rpc(leader)
    forged = {
        "a value larger than any request": protocol.put_command(b"/forged/large", b"v" * 2_000_000),
        "a lease longer than any": protocol.grant_command(0x7777, 2**55),
        "a lease of no time": protocol.grant_command(0x7778, 0),
        "a lease with id 0": protocol.grant_command(0, 60_000),
    }
    for as_node in [node for node in range(3) if node != leader]:
        for sequence, command in enumerate(forged.values(), 1):
            connection = greet(cluster, known, leader, as_node, protocol.FOR_LINK)
            if connection is not None:
                with connection:
                    connection.sendall(protocol.propose([command], incarnation=99, sequence=sequence))
                    # The node we are taken for gets the answer. What follows ours was read after it.
                    connection.sendall(protocol.frame(255, b""))
                    try:
                        connection.recv(1)
                    except OSError:
                        pass
    check_well(cluster)
    assert rpc.range(b"/forged/large").count == 0, "a value larger than any request was written"
    assert not rpc.leases(), f"leases that no client can have were granted: {rpc.leases()}"


# Connections are bounded


def descriptors_of(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def test_connections_in_a_members_name_are_bounded(cluster, known):
    node = cluster.leader()
    as_node = (node + 1) % 3
    before = descriptors_of(cluster[node])
    held = []
    try:
        for _ in range(CONNECTIONS):
            try:
                connection = greet(cluster, known, node, as_node, protocol.FOR_RAFT)
            except OSError:
                break
            if connection is not None:
                held.append(connection)
        # Those that are let go are closed soon.
        try:
            wait_for(lambda: descriptors_of(cluster[node]) < before + DESCRIPTORS_MAX, 5, "the end of most")
        except TimeoutError:
            pass
        more = descriptors_of(cluster[node]) - before
    finally:
        for connection in held:
            connection.close()
    report("connections in one name", tried=CONNECTIONS, more_descriptors=more)
    check_well(cluster)
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
    node = cluster.followers()[0]
    without = seconds_to_restart(cluster, node)
    strangers = IdleStrangers(cluster.servers)
    strangers.start()
    try:
        assert strangers.is_there.wait(20)
        seconds = max(seconds_to_restart(cluster, node) for _ in range(2))
    finally:
        strangers.stop()
    check_well(cluster)
    report("a restart beside idle strangers", seconds=round(seconds, 2), without_s=round(without, 2))
    assert seconds < without + RESTART_SECONDS_MAX
