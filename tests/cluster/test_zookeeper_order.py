"""The ZooKeeper protocol on three nodes: what one session asks for without waiting is done in order, and where something is
lost, nothing behind it is done."""
import collections
import contextlib
import threading

import pytest
from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.wait import wait_for
from harness.zookeeper_client import Client, Closed

# At a follower each read asks the leader.
PAIRS = {"leader": 300, "follower": 30}
ROUNDS = either(3, 40)
CREATED = 900  # on their way at once: more than are in the log at a time
BEFORE = 100  # are answered before the leader goes
CALL_SECONDS = 60.0


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    cluster = Cluster()
    for server in cluster.servers:
        zookeeper.add_listener(server)
    with cluster:
        yield cluster


def open_session(address):
    def attempt():
        try:
            return Client(address).connect(10_000)
        except (OSError, Closed):
            return None

    return wait_for(attempt, CALL_SECONDS, f"a session at {address}")


def read_between(client, path, pairs):
    client.create(path, b"0", flags=jute.EPHEMERAL)
    asked = b""
    for number in range(1, pairs + 1):
        for op, payload in (
            (jute.SET_DATA, jute.set_data(path, b"%d" % number, number - 1)),
            (jute.GET_DATA, jute.watched(path, True)),
        ):
            asked += jute.frame(jute.integer(2 * number + (op == jute.GET_DATA)) + jute.integer(op) + payload)
    client.send(asked)
    for number in range(1, pairs + 1):
        changed = client.receive()
        assert (changed.xid, changed.error) == (2 * number, 0)
        # The watch of the read before tells of this change, and of none that is later.
        assert len(client.events) == (number > 1)
        client.events.clear()
        read = client.receive()
        assert (read.xid, read.error) == (2 * number + 1, 0)
        assert read.body.buffer() == b"%d" % number
    client.end()


@pytest.mark.parametrize("place", ["leader", "follower"])
def test_a_read_sees_the_changes_before_it_and_none_behind_it(cluster, place):
    def attempt():
        """On a busy machine the leader may change, and with it goes the connection."""
        index = cluster.leader() if place == "leader" else cluster.followers()[0]
        with open_session(cluster[index].address) as client, contextlib.suppress(Closed):
            read_between(client, f"/between-{client.session_id:x}", PAIRS[place])
            return True

    wait_for(attempt, CALL_SECONDS, "one leader from the first to the last")


class Creator(threading.Thread):
    """Creates numbered nodes without waiting, until the connection is lost."""

    def __init__(self, client, parent):
        super().__init__(daemon=True)
        self.client, self.parent, self.answered, self.posted = client, parent, 0, 0
        self.start()

    def run(self):
        with contextlib.suppress(Closed, OSError):
            while True:
                while self.posted < self.answered + CREATED:
                    self.client.post(jute.CREATE, jute.create(f"{self.parent}/{self.posted:08d}"))
                    self.posted += 1
                assert self.client.receive().error == 0
                self.answered += 1


def created_round(cluster, number, index, trouble):
    """(answered, created, posted) of one that creates at this member while the leader is killed or stopped."""
    parent = f"/order-{number}"
    with open_session(cluster[index].address) as client:
        client.create(parent)
        creator = Creator(client, parent)
        wait_for(lambda: creator.answered >= BEFORE, CALL_SECONDS, "answers")
        leader = cluster.leader()
        (cluster.kill if trouble == "killed" else cluster.pause)(leader)
        # Whoever had nothing on its way then goes on.
        enough = creator.posted + CREATED
        wait_for(lambda: not creator.is_alive() or creator.answered > enough, CALL_SECONDS, "the next leader")
    creator.join(CALL_SECONDS)
    assert not creator.is_alive()
    (cluster.restart if trouble == "killed" else cluster.resume)(leader)
    with open_session(cluster[leader].address) as client:
        client.sync()
        children = client.children(parent)
        client.end()
    names = sorted(int(name) for name in children)
    assert names == list(range(len(names))), f"something behind what was lost was done: {missing(names)} of {len(names)}"
    assert len(names) >= creator.answered, "what was answered is lost"
    return creator.answered, len(names), creator.posted


def missing(names):
    return [number for number in range(names[-1]) if number not in set(names)][:20]


@pytest.mark.seconds_max(60 + ROUNDS * 60)
@pytest.mark.parametrize("trouble", ["killed", "stopped"])
def test_nothing_is_done_behind_what_was_lost(cluster, trouble):
    seen = collections.Counter()
    for number in range(ROUNDS):
        answered, created, posted = created_round(cluster, f"{trouble}-{number}", cluster.followers()[0], trouble)
        seen.update(answered=answered, created=created, posted=posted)
    report(f"ZooKeeper order, leader {trouble}", rounds=ROUNDS, **seen)


def test_events_do_not_wait_for_a_request_under_way(cluster):
    """The client takes them late, when it has asked for a change that nobody can do."""
    path, changes = "/" + "n" * 60_000, 200
    leader = cluster.leader()
    follower = cluster.followers()[0]
    address = cluster[follower].address
    with open_session(cluster[leader].address) as writer, open_session(address) as watcher, \
            open_session(address) as reader:  # fmt: skip
        writer.create(path)
        watcher.sync()
        watcher.request(jute.ADD_WATCH, jute.text(path) + jute.integer(0))
        for _ in range(changes):
            writer.set(path, b"x")
        reader.sync()
        assert reader.get(path)[1]["version"] == changes
        others = [index for index in range(len(cluster)) if index != follower]
        for index in others:
            cluster.pause(index)
        try:
            watcher.post(jute.SET_DATA, jute.set_data(path, b"y"))
            wait_for(lambda: "Outstanding: 1\n" in zookeeper.word(address, "srvr"), CALL_SECONDS, "a request under way")
            n_told = 0
            with contextlib.suppress(Closed):
                while n_told < changes:
                    watcher.next_event()
                    n_told += 1
        finally:
            for index in others:
                cluster.resume(index)
        assert n_told == changes
    cluster.leader()
