"""Three nodes that share a secret: who does not know it learns nothing and is nobody, whatever it has overheard."""
import os
import random
import socket
import struct
import time

import pytest
from register import SEED
from test_hostile_peers import Known, mutated

from harness import peer_protocol as protocol
from harness import wait_for
from harness.cluster import Cluster

SECRET = b"a secret of this test that is long enough"
GARBAGE_ROUNDS = 300
CONNECTIONS = 2000
SLOW_SECONDS_MAX = 5.0


class Secret(Known):
    """Knows the secret; what the members say about themselves was proven."""

    def __init__(self, cluster):
        self.servers = cluster.servers
        self.cluster = protocol.ask(cluster[0], SECRET)
        self.ids = [cluster.status(node).header.member_id for node in range(len(cluster))]
        leader = cluster.leader()
        self.absent = (leader + 1) % len(cluster)
        self.present = [leader, (leader + 2) % len(cluster)]


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    with Cluster(extra_flags=("--peer-secret-file", str(path))) as running:
        running.leader()
        yield running


def check_well(cluster):
    leader = cluster.leader()
    cluster.rpc(leader).put(b"/after", b"x")
    cluster.wait_equal()
    cluster.check_sound()


def answer_to(server, *pieces, wait_between=True):
    """All that is said to us, until it hangs up or says nothing more."""
    told = b""
    with protocol.connect(server) as connection:
        connection.settimeout(1.0)
        try:
            for piece in pieces:
                connection.sendall(piece)
                if wait_between:
                    told += connection.recv(4096)
            while more := connection.recv(4096):
                told += more
        except OSError:
            pass
    return told


def test_without_the_secret_nobody_is_told_anything_but_a_challenge(cluster):
    found = Secret(cluster)
    leader = found.present[0]
    own, to = found.ids[found.absent], found.ids[leader]
    for said in (
        protocol.hello(0, 0, 0, protocol.TO_ASK),
        found.cluster.hello(own, to, protocol.FOR_LINK),
        found.cluster.hello(12345, to, protocol.FOR_LINK),
    ):
        for proof in (b"", bytes(32), os.urandom(32), protocol.proof_of_caller(b"another secret", said, bytes(32))):
            told = answer_to(cluster[leader], said, proof)
            assert told[:1] == bytes([protocol.CHALLENGE])
            assert len(told) <= 1 + protocol.NONCE_SIZE + 1, f"told more: {told!r}"
            assert told[33:] in (b"", bytes([protocol.NOT_PROVEN]))
    check_well(cluster)


def test_what_was_overheard_is_worth_nothing(cluster):
    """A hello and its proof said again, to the same node and to another; a challenge passed on; a node's own proof."""
    found = Secret(cluster)
    leader, other = found.present
    own = found.ids[found.absent]
    cluster.kill(found.absent)
    said = found.cluster.hello(own, found.ids[leader], protocol.FOR_LINK)
    with protocol.connect(cluster[leader]) as connection:
        connection.sendall(said)
        challenge = connection.recv(33)[1:]
        proof = protocol.proof_of_caller(SECRET, said, challenge)
        connection.sendall(proof)
        heard = connection.recv(4096)
        assert heard[0] == protocol.WELCOME
        answerers = heard[-protocol.PROOF_SIZE :]
    for node in (leader, other):
        for again in (proof, answerers, challenge):
            told = answer_to(cluster[node], said, again)
            assert told[33:] in (b"", bytes([protocol.NOT_PROVEN])), f"believed a replay: {told!r}"
    # The nodes' own hellos, as they come to somebody at the absent one's address, passed on to the others.
    listener = socket.create_server((cluster[found.absent].host, cluster[found.absent].peer_port))
    listener.settimeout(10)
    with listener:
        for _ in range(4):
            dialled, _ = listener.accept()
            with dialled:
                theirs = dialled.recv(4096)
                for node in found.present:
                    with protocol.connect(cluster[node]) as connection:
                        connection.sendall(theirs)
                        told = connection.recv(33)
                        assert told[0] == protocol.CHALLENGE
                        dialled.sendall(told)
                        proof = dialled.recv(32)
                        connection.sendall(proof)
                        # It was meant for the absent one: it proves the caller, who does not call here.
                        told = connection.recv(4096)
                        assert told[:1] in (b"", bytes([protocol.OTHER_MEMBER]), bytes([protocol.NOT_A_MEMBER]),
                                            bytes([protocol.NOT_PROVEN])), told  # fmt: skip
                    break
    cluster.restart(found.absent)
    check_well(cluster)


def test_a_caller_believes_nobody_who_does_not_prove_himself(cluster):
    """Somebody at the address of a member that is down welcomes its callers, or sends them away, without a proof."""
    found = Secret(cluster)
    cluster.kill(found.absent)
    answers = [bytes([answer]) + struct.pack("<I", 0) for answer in (protocol.REMOVED, protocol.DISK_REPLACED)]
    own = found.cluster.hello(found.ids[found.absent], found.ids[found.present[0]], protocol.FOR_LINK)
    answers.append(bytes([protocol.WELCOME]) + struct.pack("<I", len(own)) + own)
    answers.append(bytes([protocol.CHALLENGE]) + bytes(32))
    listener = socket.create_server((cluster[found.absent].host, cluster[found.absent].peer_port))
    listener.settimeout(10)
    with listener:
        for number in range(40):
            dialled, _ = listener.accept()
            with dialled:
                dialled.settimeout(1)
                try:
                    dialled.recv(4096)
                    answer = answers[number % len(answers)]
                    dialled.sendall(answer)
                    if answer[0] == protocol.CHALLENGE:
                        dialled.recv(32)
                        dialled.sendall(answers[number // 4 % 3] + os.urandom(protocol.PROOF_SIZE))
                    assert not dialled.recv(4096), "it went on"
                except OSError:
                    pass
            for node in found.present:
                cluster.check_alive(node)
    cluster.restart(found.absent)
    check_well(cluster)


def test_no_bytes_before_the_proof_end_a_node(cluster):
    found = Secret(cluster)
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    for number in range(GARBAGE_ROUNDS):
        node = found.present[number % 2]
        said = found.hello(node, choose.choice((protocol.FOR_LINK, protocol.TO_ASK)))
        with protocol.connect(cluster[node]) as connection:
            connection.settimeout(0.2)
            # Gone with a reset, in whatever state it is.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                data = choose.choice((said, mutated(choose, said), choose.randbytes(300)))
                connection.sendall(data[: choose.randrange(len(data) + 1)] if choose.randrange(3) == 0 else data)
                if choose.randrange(2):
                    told = connection.recv(33)
                    proof = protocol.proof_of_caller(SECRET, said, told[1:])
                    connection.sendall(choose.choice((proof, mutated(choose, proof), choose.randbytes(64))))
                    if choose.randrange(2):
                        connection.recv(1)
            except OSError:
                pass
        cluster.check_alive(node)
    check_well(cluster)


def test_slow_and_many_connections_keep_nobody_out(cluster):
    """One byte a second, and thousands that come and go: a member restarts as fast as without them."""
    found = Secret(cluster)
    node = found.present[0]
    said = found.hello(node)
    slow = [protocol.connect(cluster[node]) for _ in range(8)]
    begun = time.monotonic()
    for number in range(CONNECTIONS):
        with protocol.connect(cluster[node]) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if number % 100 == 0:
                for at, one in enumerate(slow):
                    try:
                        one.sendall(said[at : at + 1])
                    except OSError:
                        pass
    report_seconds = time.monotonic() - begun
    cluster.kill(found.absent)
    begun = time.monotonic()
    cluster.restart(found.absent)
    restart_seconds = time.monotonic() - begun
    print(f"{CONNECTIONS} connections in {report_seconds:.1f} s, restart in {restart_seconds:.2f} s")
    assert restart_seconds < SLOW_SECONDS_MAX
    for one in slow:
        one.close()
    wait_for(lambda: len(os.listdir(f"/proc/{cluster[node].pid}/fd")) < 100, 10, "descriptors given back")
    check_well(cluster)
