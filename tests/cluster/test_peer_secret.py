"""Members that prove to each other that they know a secret, and those who do not know it."""
import secrets
import time

import pytest
from clients import Load
from membership import add_member, join, new_server
from test_peer_tls import check_refused, log_of, wait_for_line

from harness import KIND_LEASED, Server, wait_for
from harness import peer_protocol as protocol
from harness.cluster import TIMING_FLAGS, Cluster

# What is told to one who has proven nothing: the challenge, and later that the proof is not right.
CHALLENGE_BYTES, REFUSAL_BYTES = 1 + protocol.NONCE_SIZE, 1


class Secret:
    """A file with a secret in it."""

    def __init__(self, folder, name="secret"):
        self.text = secrets.token_hex(16).encode()
        self.path = folder / name
        self.path.touch(mode=0o600)
        self.path.write_bytes(self.text + b"\n")
        self.flags = ["--peer-secret-file", str(self.path)]


@pytest.fixture
def secret(tmp_path):
    return Secret(tmp_path)


@pytest.fixture
def cluster(secret):
    with Cluster(extra_flags=secret.flags) as running:
        running.leader()
        yield running


# All is well


def test_members_with_the_secret_serve_fail_over_and_take_in_another(secret):
    with Cluster(extra_flags=secret.flags) as cluster:
        with Load(cluster) as load:
            wait_for(lambda: len(load.acknowledged()) > 50, 20, "writes")
            leader = cluster.leader()
            killed = time.monotonic()
            cluster.kill(leader)
            load.next_acknowledged(killed + 0.05, 10)
            cluster.restart(leader)
            join(cluster, "joiner", extra_flags=secret.flags)
        load.check_kept(cluster.rpc(3))
        cluster.wait_equal()


def test_who_knows_the_secret_is_told_who_belongs_to_the_cluster(cluster, secret):
    """And proves by it that the tests below fail for want of the secret alone."""
    found = protocol.ask(cluster[0], secret.text)
    assert len(found.members) == 3
    leader = cluster.leader()
    absent = (leader + 1) % 3
    ids = [cluster.status(node).header.member_id for node in range(3)]
    cluster.kill(absent)
    protocol.greet_soon(cluster[leader], found, ids[absent], ids[leader], secret.text).close()


# All is not well


def test_a_member_with_another_secret_is_refused(cluster, tmp_path):
    check_refused(
        cluster, Secret(tmp_path, "another").flags, "the caller did not prove that it knows the peer secret",
        "it does not know the peer secret", scheme="http",
    )  # fmt: skip


def test_a_member_without_the_secret_is_refused(cluster):
    check_refused(
        cluster, [], "the peer wants a proof of the peer secret, and this node has none",
        "the peer has no peer secret, and this node demands one", scheme="http",
    )  # fmt: skip


def test_a_member_with_a_secret_is_refused_where_nobody_else_has_one(secret):
    with Cluster() as cluster:
        check_refused(
            cluster, secret.flags, "the peer has no peer secret, and this node demands one",
            "the peer wants a proof of the peer secret, and this node has none", scheme="http",
        )  # fmt: skip


def test_a_joiner_without_the_secret_is_told_why_it_cannot_join(cluster):
    joiner = new_server(cluster, "joiner")
    add_member(cluster, cluster[0], joiner)
    try:
        joiner.launch()
        print(wait_for_line(joiner, "the peer wants a proof of the peer secret, and this node has none"))
        assert not joiner.is_healthy()
    finally:
        joiner.close()


# Nothing is learned without the proof


def all_that_is_said(connection, said, proof):
    """Everything that a member answers to a hello and a proof."""
    heard = b""
    with connection:
        connection.sendall(said)
        while len(heard) < CHALLENGE_BYTES and (more := connection.recv(1000)):
            heard += more
        connection.sendall(proof(heard[1:CHALLENGE_BYTES]))
        while more := connection.recv(1000):
            heard += more
    return heard


def test_nothing_but_a_challenge_is_said_without_the_proof(cluster, secret):
    """The same to a member and to anybody: not even whether the cluster's id is right can be found out."""
    found = protocol.ask(cluster[0], secret.text)
    own, other = found.members[1].id, found.members[0].id
    false_proofs = [
        lambda challenge: bytes(protocol.PROOF_SIZE),
        lambda challenge: protocol.proof_of_caller(b"0" * 32, said, challenge),
        lambda challenge: protocol.proof_of_caller(secret.text, said, bytes(protocol.NONCE_SIZE)),
        # What only an answerer may say.
        lambda challenge: protocol.proof_of_answerer(secret.text, said, challenge, b""),
    ]  # fmt: skip
    for said in (
        protocol.hello(found.id, own, other, protocol.FOR_LINK),
        protocol.hello(found.id + 1, own, other, protocol.FOR_LINK),
        protocol.hello(found.id, 77, 78, protocol.FOR_LINK),
        protocol.hello(0, 0, 0, protocol.TO_ASK),
    ):
        for proof in false_proofs:
            heard = all_that_is_said(protocol.connect(cluster[0]), said, proof)
            assert heard[0] == protocol.CHALLENGE
            assert heard[CHALLENGE_BYTES:] == bytes([protocol.NOT_PROVEN])
            assert len(heard) == CHALLENGE_BYTES + REFUSAL_BYTES
    # With what is right but too early there is no challenge at all.
    with protocol.connect(cluster[0]) as connection:
        connection.sendall(protocol.hello(found.id, own, other, protocol.FOR_LINK) + protocol.ping(1, 1))
        assert connection.recv(1000) == bytes([protocol.MALFORMED])
    cluster.check_sound()


def test_a_proof_serves_once(cluster, secret):
    said = protocol.hello(0, 0, 0, protocol.TO_ASK)
    heard = {}

    def first(challenge):
        heard["challenge"] = challenge
        heard["proof"] = protocol.proof_of_caller(secret.text, said, challenge)
        return heard["proof"]

    def again(challenge):
        assert challenge != heard["challenge"], "a challenge came twice"
        return heard["proof"]

    welcome = all_that_is_said(protocol.connect(cluster[0]), said, first)
    assert welcome[CHALLENGE_BYTES] == protocol.WELCOME
    assert len(welcome) > 100
    for node in range(3):
        refused = all_that_is_said(protocol.connect(cluster[node]), said, again)
        assert refused[CHALLENGE_BYTES:] == bytes([protocol.NOT_PROVEN])


def test_one_who_answers_for_a_member_without_the_secret_is_not_believed(cluster, tmp_path):
    """A node with another secret listens where a member was: nobody sends it anything, and a leader goes on."""
    leader = cluster.leader()
    victim = (leader + 1) % 3
    cluster.kill(victim)
    impostor = Server(KIND_LEASED, name="impostor", extra_flags=[*TIMING_FLAGS, *Secret(tmp_path, "another").flags])
    impostor.peer_port = cluster[victim].peer_port
    impostor.initial_cluster = f"impostor={impostor.peer_url},n9=http://127.0.0.1:1"
    try:
        impostor.launch()
        wait_for_line(cluster[leader], "peer", "the caller did not prove that it knows the peer secret")
        assert "it does not know the peer secret" in log_of(impostor)
        cluster.rpc(leader).put(b"/key", b"value")
    finally:
        impostor.close()
    cluster.restart(victim)
    assert cluster.rpc(victim).range(b"/key").count == 1
    cluster.wait_equal()
