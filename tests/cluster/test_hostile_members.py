"""One who is taken for a member, in plain text, and misuses it: no healthy node stops for it, no client is told what only
the leader can know, and nobody waits long.

`test_hostile_peers.py` has what bytes alone may do; here they are right in themselves, and too many, or not the
sender's to say.
"""
import socket
import struct
import threading
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc
from test_hostile_peers import Known, check_well

from harness import peer_protocol as protocol
from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

FLOOD_SECONDS = 3.0
PUT_SECONDS_MAX = either(5.0, 2.0)
RSS_BYTES_MAX = 150 * 1024 * 1024
REFUSALS = 20
# Longer than a client's question waits for its leader.
SLOW_FLAGS = ("--heartbeat-interval", "100", "--election-timeout", "3000")
RESULTS_IN_FRAME = 1000
REQUEST_IDS = 6000
RENEW_RESULT, READ_RESULT = 8, 6
PROMISES_MS = range(300, 60_000, 7)


@pytest.fixture
def cluster():
    with Cluster() as running:
        running.leader()
        yield running


@pytest.fixture
def known(cluster):
    found = Known(cluster)
    cluster.kill(found.absent)
    return found


# At the address of a member that is down


class Impostor(threading.Thread):
    """Listens where a member did, and answers every hello with the same byte."""

    def __init__(self, server, answer):
        super().__init__(daemon=True)
        self._listener = socket.create_server((server.host, server.peer_port), backlog=64)
        self._listener.settimeout(0.1)
        self._answer = bytes([answer]) + struct.pack("<I", 0)
        self.callers = []
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with connection:
                try:
                    connection.settimeout(1)
                    said = connection.recv(4096)
                    connection.sendall(self._answer)
                    connection.recv(1)
                    self.callers.append(struct.unpack_from("<Q", said, 24)[0])
                except (OSError, struct.error):
                    pass

    def stop(self):
        self.done.set()
        self.join()
        self._listener.close()


@pytest.mark.parametrize("answer", [protocol.REMOVED, protocol.DISK_REPLACED, protocol.NOT_A_MEMBER])
def test_what_is_said_at_a_members_address_stops_no_healthy_node(cluster, known, answer):
    impostor = Impostor(cluster[known.absent], answer)
    impostor.start()
    try:
        for node in known.present:
            own = known.ids[node]
            wait_for(lambda own=own: impostor.callers.count(own) >= REFUSALS, 30, "many refusals")
            cluster.check_alive(node)
    finally:
        impostor.stop()
    check_well(cluster, known)


# Answers that only the leader can give


def test_results_of_one_who_does_not_lead_are_not_believed():
    with Cluster(timing_flags=SLOW_FLAGS) as cluster:
        known = Known(cluster)
        leader, follower = known.present
        cluster.kill(known.absent)
        rpc = cluster.rpc(follower)
        lease = rpc.lease.LeaseGrant(etcdrpc.LeaseGrantRequest(TTL=60, ID=77), timeout=5).ID
        cluster.pause(leader)
        told = {}

        def renew():
            try:
                requests = iter([etcdrpc.LeaseKeepAliveRequest(ID=lease)])
                told["renewal"] = next(iter(rpc.lease.LeaseKeepAlive(requests, timeout=10))).TTL
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error

        def read():
            try:
                told["read"] = rpc.kv.Range(etcdrpc.RangeRequest(key=b"/x"), timeout=10).count
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error

        clients = [threading.Thread(target=one) for one in (renew, read)]
        for client in clients:
            client.start()
        with known.greet(follower) as connection:
            while any(client.is_alive() for client in clients):
                for first in range(1, REQUEST_IDS, RESULTS_IN_FRAME):
                    ids = range(first, first + RESULTS_IN_FRAME)
                    forged = b"".join(
                        protocol.varint(one) + b"\0" + protocol.varint(60_000) for one in ids
                    )
                    connection.sendall(protocol.frame(RENEW_RESULT, protocol.varint(len(ids)) + forged))
                    for one in ids:
                        body = protocol.varint(one) + b"\0" + protocol.varint(1)
                        connection.sendall(protocol.frame(READ_RESULT, body))
                time.sleep(0.05)
        assert not told, f"told without the leader: {told}"
        cluster.resume(leader)
        check_well(cluster, known)


# Too much of it


class Bystander(threading.Thread):
    """A client that puts, and measures how long it takes."""

    def __init__(self, cluster, node):
        super().__init__(daemon=True)
        self._rpc = cluster.new_rpc(node)
        self.seconds = []
        self.done = threading.Event()

    def run(self):
        request = etcdrpc.PutRequest(key=b"/bystander", value=b"x")
        while not self.done.wait(0.01):
            begun = time.monotonic()
            try:
                self._rpc.kv.Put(request, timeout=20)
            except grpc.RpcError:
                self.seconds.append(20.0)
                return
            self.seconds.append(time.monotonic() - begun)

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


def renewals():
    n = 1_300_000
    return protocol.frame(protocol.RENEW, protocol.varint(n) + b"\x01\x02\x00" * n)


def small_renewals():
    return protocol.frame(protocol.RENEW, protocol.varint(1000) + b"\x01\x02\x00" * 1000) * 100


def reads():
    return protocol.frame(protocol.READ, protocol.varint(5)) * 20_000


def small_proposals():
    commands = [protocol.put_command(b"/forged/%d" % number, b"v") for number in range(5000)]
    return b"".join(protocol.propose([one], 7, number) for number, one in enumerate(commands))


def large_proposals():
    return protocol.propose([protocol.put_command(b"/forged", b"v" * 1_000_000)] * 3, 7)


@pytest.mark.parametrize(
    "make", [renewals, small_renewals, reads, small_proposals, large_proposals], ids=lambda make: make.__name__
)
def test_floods_hold_nobody_up_for_long(cluster, known, make):
    leader = known.present[0]
    term = cluster.status(leader).raftTerm
    before = cluster[leader].rss_bytes()
    data, sent, largest = make(), 0, 0
    bystander = Bystander(cluster, leader)
    bystander.start()
    try:
        end = time.monotonic() + FLOOD_SECONDS
        while time.monotonic() < end:
            with known.greet(leader) as connection:
                connection.settimeout(20)
                try:
                    while time.monotonic() < end:
                        connection.sendall(data)
                        sent += len(data)
                        largest = max(largest, cluster[leader].rss_bytes())
                except ConnectionError:
                    pass  # it hung up on us, as it should
    finally:
        bystander.stop()
    report(
        f"a flood of {make.__name__}", sent_mb=sent >> 20, puts=len(bystander.seconds),
        put_seconds_max=round(max(bystander.seconds), 3), rss_mb=largest >> 20,
    )  # fmt: skip
    assert max(bystander.seconds) < PUT_SECONDS_MAX
    assert largest - before < RSS_BYTES_MAX
    assert cluster.status(leader).raftTerm == term
    check_well(cluster, known)


def test_promises_of_ever_new_lengths_do_not_block_a_voter(cluster, known):
    """The script makes itself the leader of a follower; each length that is longer than any before is written to disk
    before the promise is given."""
    leader, follower = known.present
    cluster.pause(leader)
    status = cluster.status(follower)
    term = status.raftTerm + 2
    with known.greet(follower) as connection:
        connection.sendall(protocol.append(term, status.raftIndex, status.raftTerm))
        wait_for(lambda: cluster.status(follower).raftTerm == term, 5, "a follower of ours")
        connection.sendall(b"".join(protocol.ping(term, 1, lease_ms=length) for length in PROMISES_MS))
        begun = time.monotonic()
        cluster.status(follower)
        assert time.monotonic() - begun < PUT_SECONDS_MAX
    cluster.check_alive(follower)
    cluster.resume(leader)


# Entries that contradict the others' log


def test_forged_entries_are_told_of_and_a_restart_is_rid_of_them(cluster, known):
    """The script makes itself the leader of a follower and commits entries there: in plain text nobody can tell. The
    others elect without it and write something else in the same places."""
    leader, follower = known.present
    cluster.rpc(leader).put(b"/before", b"x")
    cluster.wait_equal()
    before = cluster.hash_of(follower)
    cluster.pause(leader)
    status = cluster.status(follower)
    term, index = status.raftTerm + 2, status.raftIndex
    entries = [
        (protocol.ENTRY_COMMAND, term, protocol.log_entry([protocol.put_command(b"/forged", b"x")], term, one))
        for one in range(index + 1, index + 4)
    ]
    with known.greet(follower) as connection:
        connection.sendall(protocol.append(term, index, status.raftTerm, index + 3, entries))
        wait_for(lambda: cluster.hash_of(follower) != before, 5, "forged entries")
        cluster.pause(follower)
    cluster.resume(leader)
    cluster.restart(known.absent)
    others = [leader, known.absent]
    elected = cluster.leader(among=others)
    for number in range(5):
        cluster.rpc(elected).put(b"/after/%d" % number, b"x")
    cluster.resume(follower)
    wait_for(lambda: "contradicts what this node has applied" in cluster[follower].log_tail(8000), 20, "an error")
    cluster.check_alive(follower)
    assert cluster.stop(follower) == 0
    cluster.restart(follower)
    check_well(cluster, known)
    assert cluster.rpc(follower).range(b"/forged").count == 0
