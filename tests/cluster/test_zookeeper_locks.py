"""The ZooKeeper protocol on three nodes: locks with never two holders, and sessions that outlive their members."""
import collections
import os
import random
import time

import pytest
from zookeeper_lockers import Crowd

from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.network import Network
from harness.wait import wait_for
from harness.zookeeper_client import Client, Closed, Failed

ROUNDS = int(os.environ.get("LEASED_ZOOKEEPER_ROUNDS", either(3, 50)))
LOCKERS = int(os.environ.get("LEASED_ZOOKEEPER_LOCKERS", either(24, 1000)))
LOCKS = max(4, LOCKERS // 25)
SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(1 << 32)))
# With a thousand clients in one Python thread no session can be short.
SHORT_SECONDS, LONG_SECONDS = either((2.0, 8.0), (8.0, 30.0))
DEATHS = 10  # of a thousand holds
LAST_MOMENT_MS = 700
TROUBLE_SECONDS_MAX = 1.5
PROGRESS_SECONDS = 90.0
CALL_SECONDS = 60.0
# Beyond its timeout, on a busy machine.
LATE_SECONDS = either(15.0, 1.0)


def with_listeners(cluster):
    for server in cluster.servers:
        zookeeper.add_listener(server)
    return cluster


def open_session(address, timeout_ms=10_000):
    """A server that has just started may have no leader to ask yet."""

    def attempt():
        client = None
        try:
            client = Client(address)
            return client.connect(timeout_ms)
        except (OSError, Closed):
            if client is not None:
                client.close()
            return None

    return wait_for(attempt, CALL_SECONDS, f"a session at {address}")


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    with with_listeners(Cluster()) as cluster:
        yield cluster


# Locks


def crowd_of(cluster):
    with open_session(cluster[0].address) as client:
        client.create("/locks")
        for number in range(LOCKS):
            client.create(f"/locks/{number}")
        client.end()
    addresses = [server.address for server in cluster.servers]
    return Crowd(addresses, SEED, LOCKERS, LOCKS, (SHORT_SECONDS, LONG_SECONDS), DEATHS)


def progress(crowd, since, count, what):
    def enough():
        assert not crowd.wrong, crowd.wrong[:5]
        return crowd.holds >= since + count

    wait_for(enough, PROGRESS_SECONDS, f"{what}: {count} holds after {since}")


def check_nothing_is_left(cluster):
    """The sessions of the lockers run out, and their nodes with them."""
    with open_session(cluster[cluster.leader()].address) as client:

        def empty():
            client.ping()
            return all(not client.children(f"/locks/{number}") for number in range(LOCKS))

        wait_for(empty, 2 * LONG_SECONDS + LATE_SECONDS, "empty queues")
        client.end()
    cluster.wait_equal()


def run_rounds(cluster, crowd, troubles):
    print(f"seed {SEED}")
    choose = random.Random(SEED)
    done = collections.Counter()
    progress(crowd, 0, LOCKS, "at the beginning")
    for number in range(ROUNDS):
        trouble = troubles[number % len(troubles)]
        trouble(cluster, choose)
        done[trouble.__name__] += 1
        progress(crowd, crowd.holds, LOCKS, f"after {trouble.__name__} {number}")
    return done


def killed(cluster, choose):
    leader = cluster.leader()
    cluster.kill(leader)
    time.sleep(choose.uniform(0, TROUBLE_SECONDS_MAX))
    cluster.restart(leader)


def stopped(cluster, choose):
    leader = cluster.leader()
    cluster.pause(leader)
    time.sleep(choose.uniform(0.1, TROUBLE_SECONDS_MAX))
    cluster.resume(leader)


def isolated(cluster, choose):
    cluster.network.isolate(cluster.leader())
    time.sleep(choose.uniform(0.1, 2 * TROUBLE_SECONDS_MAX))
    cluster.network.heal()


def isolated_follower(cluster, choose):
    leader = cluster.leader()
    cluster.network.isolate(choose.choice([index for index in range(len(cluster)) if index != leader]))
    time.sleep(choose.uniform(0.1, 2 * TROUBLE_SECONDS_MAX))
    cluster.network.heal()


def finish(cluster, crowd, began, done):
    crowd.stop()
    assert not crowd.wrong, crowd.wrong[:5]
    # A thread that slept for a third of a session is no live client.
    if crowd.stall_s < LONG_SECONDS / 6:
        assert crowd.expired[LONG_SECONDS] == 0, "a live session ended"
    report("zookeeper locks", **done, lockers=LOCKERS, holds=crowd.holds, **crowd.counts,
           expired=sum(crowd.expired.values()), stall_s=round(crowd.stall_s, 3),
           seconds=round(time.monotonic() - began, 1))  # fmt: skip
    check_nothing_is_left(cluster)


@pytest.mark.seconds_max(300 + ROUNDS * PROGRESS_SECONDS)
def test_never_two_holders_leaders_killed_and_stopped():
    with with_listeners(Cluster()) as cluster, crowd_of(cluster) as crowd:
        began = time.monotonic()
        finish(cluster, crowd, began, run_rounds(cluster, crowd, [killed, stopped]))


@pytest.mark.seconds_max(300 + ROUNDS * PROGRESS_SECONDS)
def test_never_two_holders_members_cut_off():
    with Network(3) as network, with_listeners(Cluster(network=network)) as cluster, crowd_of(cluster) as crowd:
        began = time.monotonic()
        finish(cluster, crowd, began, run_rounds(cluster, crowd, [isolated, isolated_follower, isolated]))


# Sessions


def test_a_session_moves_between_members(cluster):
    first = open_session(cluster[0].address)
    first.create("/moves", b"x", flags=jute.EPHEMERAL)
    wire = first
    for index in (1, 2, 0, 2, 1, 0):
        again = Client(cluster[index].address).resume(wire)
        assert again.session_id == first.session_id and again.password == first.password
        assert again.get("/moves")[1]["owner"] == first.session_id
        wire.close()
        wire = again
    assert wire.set("/moves", b"y")["version"] == 1
    wire.end()
    with open_session(cluster[1].address) as other:
        other.sync()
        assert other.exists("/moves") is None
        other.end()


def test_the_old_connection_of_a_moved_session_is_of_no_use(cluster):
    """At another member: it is closed, or told that its session has moved; what it sends changes nothing."""
    old = open_session(cluster[0].address)
    old.create("/stale", b"0")
    new = Client(cluster[1].address).resume(old)
    new.set("/stale", b"1")
    try:
        old.set("/stale", b"2")
        raise AssertionError("the old connection writes")
    except Failed as failure:
        assert failure.code == -118
    except Closed:
        pass
    assert new.get("/stale")[0] == b"1"
    new.delete("/stale")
    old.close()
    new.end()


def test_a_session_ended_at_one_member_is_over_at_all(cluster):
    client = open_session(cluster[0].address)
    client.create("/over", flags=jute.EPHEMERAL)
    client.end()
    for server in cluster.servers:
        with Client(server.address) as again, pytest.raises(Failed):
            again.connect(session_id=client.session_id, password=client.password, zxid=client.zxid)
        with Client(server.address) as again, pytest.raises(Failed):
            again.connect(session_id=client.session_id, password=bytes(16), zxid=client.zxid)


def wait_gone(client, path, timeout_s):
    def gone():
        client.ping()
        return client.exists(path) is None

    wait_for(gone, timeout_s, f"{path} gone")


def test_ephemerals_of_a_dead_client_end_in_time(cluster):
    """Also when the leader is killed meanwhile: a new one starts no session anew that has not been heard of."""
    watcher = open_session(cluster[cluster.followers()[0]].address)
    dead = open_session(cluster[cluster.leader()].address, 3000)
    dead.create("/dead", flags=jute.EPHEMERAL)
    heard_at = time.monotonic()
    dead.close()
    wait_gone(watcher, "/dead", 3 + LATE_SECONDS)
    took = time.monotonic() - heard_at
    assert took > 2.9, "before its time"
    report("dead client", timeout_s=3, gone_after_s=round(took, 3))

    leader = cluster.leader()
    watcher.close()
    watcher = open_session(cluster[cluster.followers()[0]].address)
    dead = open_session(cluster[cluster.followers()[0]].address, 4000)
    dead.create("/dead", flags=jute.EPHEMERAL)
    heard_at = time.monotonic()
    dead.close()
    cluster.kill(leader)
    wait_gone(watcher, "/dead", 2 * 4 + LATE_SECONDS)
    took = time.monotonic() - heard_at
    assert took > 3.9, "before its time"
    report("dead client and dead leader", timeout_s=4, gone_after_s=round(took, 3))
    watcher.close()
    cluster.restart(leader)


def test_reads_alone_keep_a_session(cluster):
    """A client that asks all the time never pings."""
    clients = [open_session(server.address, 3000) for server in cluster.servers]
    for index, client in enumerate(clients):
        client.create(f"/reads{index}", flags=jute.EPHEMERAL)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        for index, client in enumerate(clients):
            assert client.exists(f"/reads{index}") is not None
        time.sleep(0.1)
    for client in clients:
        client.end()


def test_what_is_answered_at_the_last_moment_keeps_the_session(cluster):
    """A session whose request came just in time, and was answered, lives for its whole time from then."""
    answered = 0
    for _ in range(either(5, 100)):
        clients = [open_session(cluster[number % 3].address, LAST_MOMENT_MS) for number in range(12)]
        begun = time.monotonic()
        for number, client in enumerate(clients):
            client.ping()
            client.heard_at = time.monotonic()
        for number, client in enumerate(clients):
            # Each a little nearer to its end.
            until = client.heard_at + LAST_MOMENT_MS / 1000 - 0.04 + number * 0.004
            time.sleep(max(0.0, until - time.monotonic()))
            try:
                sent_at = time.monotonic()
                client.exists("/")
            except (Closed, Failed):
                client.close()
                continue
            answered += 1
            time.sleep(0.005)
            try:
                client.ping()
            except Closed:
                late = time.monotonic() - sent_at
                assert late > LAST_MOMENT_MS / 1000, f"answered, and over {late:.3f} s later"
            client.close()
        assert time.monotonic() > begun
    report("last moment", answered=answered)


def test_the_witness_sees_two_holders(cluster):
    """What the tests above rely on: somebody takes the nodes of holders away."""
    with crowd_of(cluster) as crowd, open_session(cluster[0].address) as thief:

        def seen():
            for name in thief.children("/locks/0"):
                if name.endswith(min(one[-10:] for one in thief.children("/locks/0") or ["x" * 10])):
                    thief.ask(jute.DELETE, jute.versioned(f"/locks/0/{name}"))
            return crowd.wrong

        wait_for(seen, PROGRESS_SECONDS, "a complaint")
        thief.end()


def test_ephemerals_of_a_live_client_stay_through_changes_of_the_leader(cluster):
    client = open_session(cluster[0].address, 8000)
    client.create("/alive", flags=jute.EPHEMERAL)
    token = client.exists("/alive")["czxid"]
    for _ in range(either(2, 20)):
        leader = cluster.leader()
        cluster.kill(leader)
        client = reconnect(cluster, client, [index for index in range(3) if index != leader])
        assert client.exists("/alive")["czxid"] == token
        cluster.restart(leader)
    client.end()


def reconnect(cluster, client, among):
    client.close()

    def attempt():
        for index in among:
            again = None
            try:
                again = Client(cluster[index].address, timeout_s=3)
                again.resume(client)
                again.ping()
                again.socket.settimeout(CALL_SECONDS)
                return again
            except (OSError, Closed):
                if again is not None:
                    again.close()
        return None

    return wait_for(attempt, 8.0 + LATE_SECONDS, "connected again")


# What members know of each other


def test_sync_and_a_read_see_what_another_wrote(cluster):
    one, two = (open_session(cluster[index].address) for index in (0, 1))
    one.create("/synced", b"0")
    for number in range(100):
        one.set("/synced", b"%d" % number)
        two.sync("/synced")
        assert two.get("/synced")[0] == b"%d" % number
    one.delete("/synced")
    one.end()
    two.end()


def test_a_session_never_goes_back_in_time(cluster):
    """Whoever moves to another member sees at least what it has seen."""
    writer = open_session(cluster[0].address)
    writer.create("/time", b"0")
    reader = writer
    for number in range(1, 60):
        written = reader.set("/time", b"%d" % number)
        again = Client(cluster[number % 3].address).resume(reader, zxid=max(reader.zxid, written["mzxid"]))
        data, stat = again.get("/time")
        assert data == b"%d" % number and stat["mzxid"] == written["mzxid"]
        reader.close()
        reader = again
    reader.delete("/time")
    reader.end()


def test_watches_at_another_member(cluster):
    watcher, writer = open_session(cluster[1].address), open_session(cluster[2].address)
    writer.create("/watched", b"")
    watcher.sync("/")
    watcher.get("/watched", watch=True)
    watcher.children("/watched", watch=True)
    watcher.request(jute.ADD_WATCH, jute.text("/watched") + jute.integer(1))
    writer.create("/watched/k", flags=jute.EPHEMERAL)
    writer.set("/watched", b"x")
    writer.end()
    seen = [watcher.next_event() for _ in range(4)]
    assert sorted((event.kind, event.path) for event in seen) == [
        (1, "/watched/k"), (2, "/watched/k"), (3, "/watched"), (4, "/watched")
    ]  # fmt: skip
    watcher.end()


def test_watches_are_set_again_without_a_gap(cluster):
    """A client is moved from member to member while another writes: every change is told, or read."""
    watcher, writer = open_session(cluster[0].address), open_session(cluster[1].address)
    writer.create("/gap", b"0")
    watcher.sync("/")
    seen = int(watcher.get("/gap", watch=True)[0])
    for number in range(1, 40):
        writer.set("/gap", b"%d" % number)
        again = Client(cluster[number % 3].address).resume(watcher)
        watcher.close()
        again.ask(jute.SET_WATCHES, jute.set_watches(watcher.zxid, data=["/gap"]), xid=jute.XID_SET_WATCHES)
        # The event was told at the old member, or is told at the new one.
        if not watcher.events:
            assert again.next_event().path == "/gap"
        again.sync("/")
        seen = int(again.get("/gap", watch=True)[0])
        assert seen == number
        watcher = again
    watcher.end()
    writer.delete("/gap")
    writer.end()


def test_nothing_is_acknowledged_without_a_quorum(cluster):
    """Neither a write nor a read: the client is to ask elsewhere."""
    leader = cluster.leader()
    client = open_session(cluster[leader].address, 30_000)
    client.create("/quorum")
    for index in range(3):
        if index != leader:
            cluster.kill(index)
    time.sleep(1)  # Longer than its leader's lease: what is answered within it is right.
    for number in range(20):
        try:
            client.post(jute.CREATE, jute.create(f"/quorum/{number}"))
            client.post(jute.EXISTS, jute.watched("/quorum"))
        except Closed:
            break
    client.socket.settimeout(3)
    try:
        while True:
            answer = client.receive()
            assert answer.error != 0, f"request {answer.xid} is acknowledged"
    except (Closed, OSError):
        pass
    with Client(cluster[leader].address, timeout_s=1) as late, pytest.raises((Closed, OSError)):
        late.connect()
    cluster.restart(*(index for index in range(3) if index != leader))
    cluster.leader()
    again = reconnect(cluster, client, range(3))
    again.end()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_requests_under_way_when_a_member_ends(cluster, how):
    """Whatever was acknowledged is there; each request was carried out once or not at all, and in order."""
    member = cluster.followers()[0] if how == "stop" else cluster.leader()
    client = open_session(cluster[member].address, 15_000)
    root = f"/flight-{how}"
    client.create(root)
    for _ in range(3000):
        client.post(jute.CREATE, jute.create(f"{root}/n-", flags=jute.SEQUENTIAL))
    acknowledged = []
    for _ in range(200):
        acknowledged.append(client.receive().body.text())
    getattr(cluster, how)(member)
    try:
        while True:
            answer = client.receive()
            if answer.error == 0:
                acknowledged.append(answer.body.text())
    except (Closed, OSError):
        pass
    other = next(index for index in range(3) if index != member)
    again = reconnect(cluster, client, [other])
    again.sync("/")
    names = sorted(f"{root}/{name}" for name in again.children(root))
    assert set(acknowledged) <= set(names)
    assert acknowledged == sorted(acknowledged)
    assert names == [f"{root}/n-{number:010}" for number in range(len(names))]
    again.end()
    cluster.restart(member)
    cluster.leader()
