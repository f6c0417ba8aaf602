"""One who claims an id that nobody knows, in plain text. A node that is behind must let such a caller in, for it may be the
leader of a newer configuration: nobody ends, nobody's memory fills, and nobody waits long for it.
"""
import os
import struct
import time

import pytest
from test_hostile_peers import Known, check_well

from harness import peer_protocol as protocol
from harness import wait_for
from harness.acceptance import report
from harness.cluster import Cluster

STRANGER = 0xBAD00
MEMBERS_MAX = 16
IDS = 120
# A frame that never ends, of the usual size.
FRAME_BYTES, SENT_BYTES = 4 * 1024 * 1024, 1024 * 1024
DESCRIPTORS_MAX = 60
RSS_BYTES_MAX = 60 * 1024 * 1024
PROMISE_MS = 60_000
PUT_SECONDS_MAX = 10.0
VOTER = 1


@pytest.fixture
def cluster():
    with Cluster() as running:
        running.leader()
        yield running


@pytest.fixture
def lone(cluster):
    """What the attacker knows, and one node that hears of no leader: it alone lets in whom it does not know."""
    known = Known(cluster)
    for node in range(3):
        if node != known.absent:
            cluster.kill(node)
    known.node = known.absent
    wait_for(lambda: cluster.status(known.node).leader == 0, 20, "no leader")
    return known


def greet(known, node, claimed):
    return protocol.greet(known.servers[node], known.cluster, claimed, known.ids[node])


def check_all_well(cluster, known):
    cluster.restart(*[node for node in range(3) if node not in cluster.answering()])
    check_well(cluster, known)


def servers(count):
    return [(STRANGER + 1 + number, b"127.0.0.1:%d" % (1 + number), VOTER) for number in range(count)]


@pytest.mark.parametrize("count", [MEMBERS_MAX, MEMBERS_MAX + 1, 64])
def test_a_configuration_of_many_members_ends_no_node(cluster, lone, count):
    """Nor at its next start: it would be in the log."""
    status = cluster.status(lone.node)
    term, index = status.raftTerm + 1, status.raftIndex
    entry = (protocol.ENTRY_CHANGE, term, protocol.configuration(servers(count)))
    with greet(lone, lone.node, STRANGER) as connection:
        connection.sendall(protocol.append(term, index, status.raftTerm, 0, [entry]))
        if count <= MEMBERS_MAX:
            wait_for(lambda: cluster.status(lone.node).raftTerm == term, 10, "a follower of ours")
        else:
            assert connection.recv(1) == b"", "no cluster has so many members"
    cluster.check_alive(lone.node)
    cluster.kill(lone.node)
    check_all_well(cluster, lone)


def test_who_is_not_known_is_refused_while_a_known_leader_is_heard(cluster):
    known = Known(cluster)
    for node in range(3):
        with pytest.raises(protocol.Refused) as refused:
            greet(known, node, STRANGER)
        assert refused.value.args[0] == protocol.NOT_A_MEMBER
    check_well(cluster, known)


def test_any_number_of_ids_has_few_connections_and_little_memory(cluster, lone):
    server = cluster[lone.node]
    before = len(os.listdir(f"/proc/{server.pid}/fd")), server.rss_bytes()
    held = []
    try:
        for number in range(IDS):
            held.append(greet(lone, lone.node, STRANGER + number))
            try:
                held[-1].sendall(struct.pack("<IB", FRAME_BYTES, protocol.PROPOSE) + bytes(SENT_BYTES))
            except OSError:
                pass  # it gave way to another
        more = len(os.listdir(f"/proc/{server.pid}/fd")) - before[0], server.rss_bytes() - before[1]
    finally:
        for connection in held:
            connection.close()
    report("connections of many ids", ids=IDS, more_descriptors=more[0], more_mb=more[1] >> 20)
    assert more[0] < DESCRIPTORS_MAX and more[1] < RSS_BYTES_MAX
    check_all_well(cluster, lone)


def test_no_promise_is_given_to_one_who_is_not_known(cluster, lone):
    """It would keep the members from electing a leader for a minute, restarts notwithstanding."""
    status = cluster.status(lone.node)
    term = status.raftTerm + 1
    with greet(lone, lone.node, STRANGER) as connection:
        connection.sendall(protocol.append(term, status.raftIndex, status.raftTerm))
        wait_for(lambda: cluster.status(lone.node).raftTerm == term, 10, "a follower of ours")
        connection.sendall(protocol.ping(term, 1, lease_ms=PROMISE_MS) + protocol.frame(255, b""))
        assert connection.recv(1) == b"", "all before was dealt with"
    begun = time.monotonic()
    other = (lone.node + 1) % 3
    cluster.launch(other)
    cluster.leader(among=[lone.node, other])
    cluster.rpc(other).put(b"/after", b"x")
    assert time.monotonic() - begun < PUT_SECONDS_MAX
    check_all_well(cluster, lone)
