"""kazoo, unmodified: its recipes at Debian's ZooKeeper and at leased."""
import threading
import uuid

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (BadVersionError, InvalidACLError, LockTimeout, NoAuthError, NodeExistsError,
                              NoNodeError, NotEmptyError, RolledBackError, RuntimeInconsistency)  # fmt: skip
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.partitioner import PartitionState
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl

from harness import zookeeper
from harness.wait import wait_for
from harness.zookeeper_client import Client

WAIT_SECONDS = 60.0


@pytest.fixture(scope="module", params=[zookeeper.KIND_ZOOKEEPER, "leased"])
def ensemble(request):
    with zookeeper.ZooKeeper() if request.param == zookeeper.KIND_ZOOKEEPER else zookeeper.leased() as running:
        yield running


@pytest.fixture
def join(ensemble):
    """Makes clients that are stopped at the end of the test; all below one node of the test's own."""
    root = f"/kazoo-{uuid.uuid4().hex[:12]}"
    clients = []

    def make(timeout=10.0, **how):
        client = KazooClient(hosts=ensemble.address + root, timeout=timeout, **how)
        client.start(timeout=WAIT_SECONDS)
        clients.append(client)
        client.ensure_path("/")
        return client

    yield make
    for client in clients:
        client.stop()
        client.close()


@pytest.fixture
def zk(join):
    return join()


def in_thread(work, *arguments):
    """A thread whose failure is raised by join_all()."""

    def run():
        try:
            work(*arguments)
        except BaseException as error:  # pylint: disable=broad-except
            thread.failure = error

    thread = threading.Thread(target=run, daemon=True)
    thread.failure = None
    thread.start()
    return thread


def join_all(threads):
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
        if thread.failure is not None:
            raise thread.failure


def drop_connection(client):
    """As a network does: the session is not ended."""
    client._connection._socket.shutdown(2)  # pylint: disable=protected-access


def test_nodes(zk):
    assert zk.create("/a/b/c", b"x", makepath=True) == "/a/b/c"
    data, stat = zk.get("/a/b/c")
    assert (data, stat.version, stat.data_length, stat.numChildren) == (b"x", 0, 1, 0)
    assert zk.set("/a/b/c", b"yy", version=0).version == 1
    with pytest.raises(BadVersionError):
        zk.set("/a/b/c", b"", version=0)
    with pytest.raises(NodeExistsError):
        zk.create("/a")
    with pytest.raises(NotEmptyError):
        zk.delete("/a")
    with pytest.raises(NoNodeError):
        zk.get("/none")
    assert zk.exists("/none") is None
    assert zk.get_children("/a") == ["b"]
    children, stat = zk.get_children("/a", include_data=True)
    assert (children, stat.children_count) == (["b"], 1)
    path, stat = zk.create("/a/s", sequence=True, include_data=True)
    assert (path, stat.version) == ("/a/s0000000001", 0)
    zk.delete("/a", recursive=True)
    assert zk.exists("/a") is None
    assert zk.sync("/") == "/"


def test_transactions(zk):
    zk.create("/a", b"0")
    transaction = zk.transaction()
    transaction.check("/a", 0)
    transaction.set_data("/a", b"1")
    transaction.create("/b", b"2")
    transaction.create("/e", ephemeral=True, sequence=True)
    transaction.delete("/b")
    results = transaction.commit()
    assert results[0] is True and results[1].version == 1 and results[2:] == ["/b", "/e0000000002", True]
    transaction = zk.transaction()
    transaction.create("/c")
    transaction.check("/a", 7)
    transaction.create("/d")
    results = transaction.commit()
    assert [type(one) for one in results] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert sorted(zk.get_children("/")) == ["a", "e0000000002"]


def test_rights(join):
    owner = join(auth_data=[("digest", "ann:secret")])
    guest = join()
    owner.create("/closed", b"x", acl=CREATOR_ALL_ACL)
    with pytest.raises(NoAuthError):
        guest.get("/closed")
    guest.add_auth("digest", "ann:secret")
    assert guest.get("/closed")[0] == b"x"
    owner.create("/mixed", b"x", acl=[make_digest_acl("bob", "pass", read=True), *CREATOR_ALL_ACL])
    acls, stat = owner.get_acls("/mixed")
    assert len(acls) == 2 and stat.acl_version == 0
    owner.set_acls("/mixed", OPEN_ACL_UNSAFE)
    assert join().get_acls("/mixed")[0] == OPEN_ACL_UNSAFE
    with pytest.raises(InvalidACLError):
        join().create("/wrong", acl=CREATOR_ALL_ACL)


def test_an_ephemeral_ends_with_its_client(join):
    zk, other = join(), join()
    zk.create("/e", ephemeral=True)
    gone = threading.Event()
    assert other.exists("/e", watch=lambda event: gone.set()).ephemeralOwner == zk.client_id[0]
    zk.stop()
    assert gone.wait(WAIT_SECONDS)
    assert other.exists("/e") is None


def test_a_session_survives_its_connection(join):
    zk, other = join(), join()
    states = []
    zk.add_listener(states.append)
    zk.create("/e", ephemeral=True)
    session = zk.client_id
    changed = threading.Event()
    assert zk.get("/e", watch=lambda event: changed.set())
    drop_connection(zk)
    wait_for(lambda: states[-2:] == [KazooState.SUSPENDED, KazooState.CONNECTED], WAIT_SECONDS, "reconnected")
    assert zk.client_id == session
    other.set("/e", b"the watch was set again")
    assert changed.wait(WAIT_SECONDS)
    assert zk.exists("/e")


def test_a_session_that_ran_out(join, ensemble):
    """Somebody else ends it: the client learns it and begins another."""
    zk = join()
    lost = threading.Event()
    zk.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    zk.create("/e", ephemeral=True)
    old = zk.client_id
    with Client(ensemble.address) as thief:
        thief.connect(session_id=old[0], password=old[1])
        thief.end()
    assert lost.wait(WAIT_SECONDS)
    wait_for(lambda: zk.connected and zk.client_id != old, WAIT_SECONDS, "a new session")
    assert zk.retry(zk.exists, "/e") is None


def test_lock(join):
    clients = [join() for _ in range(4)]
    holders, counts = [], []

    def work(client, name):
        for _ in range(5):
            with client.Lock("/lock", name):
                holders.append(name)
                counts.append(len(holders))
                holders.remove(name)

    join_all([in_thread(work, client, f"c{number}") for number, client in enumerate(clients)])
    assert counts == [1] * 20
    assert clients[0].get_children("/lock") == []


def test_lock_contenders_and_timeouts(join):
    first, second = join(), join()
    lock = first.Lock("/lock", "first")
    assert lock.acquire(timeout=WAIT_SECONDS)
    other = second.Lock("/lock", "second")
    assert not other.acquire(blocking=False)
    with pytest.raises(LockTimeout):
        other.acquire(timeout=0.2)
    assert lock.contenders() == ["first"]
    waiting = in_thread(other.acquire)
    wait_for(lambda: lock.contenders() == ["first", "second"], WAIT_SECONDS, "two contenders")
    lock.release()
    join_all([waiting])
    assert other.is_acquired
    other.cancel()
    other.release()


def test_a_lock_of_a_dead_client(join):
    first, second = join(), join()
    assert first.Lock("/lock", "first").acquire()
    other = second.Lock("/lock", "second")
    waiting = in_thread(other.acquire)
    wait_for(lambda: len(other.contenders()) == 2, WAIT_SECONDS, "two contenders")
    first.stop()
    join_all([waiting])
    assert other.contenders() == ["second"]
    other.release()


def test_read_and_write_locks(join):
    clients = [join() for _ in range(3)]
    readers = [client.ReadLock("/rw", "reader") for client in clients[:2]]
    for reader in readers:
        assert reader.acquire(timeout=WAIT_SECONDS)
    writer = clients[2].WriteLock("/rw", "writer")
    assert not writer.acquire(blocking=False)
    waiting = in_thread(writer.acquire)
    wait_for(lambda: len(writer.contenders()) == 3, WAIT_SECONDS, "the writer waits")
    for reader in readers:
        reader.release()
    join_all([waiting])
    assert not clients[0].ReadLock("/rw", "late").acquire(blocking=False)
    writer.release()


def test_semaphore(join):
    clients = [join() for _ in range(4)]
    inside, most, guard = set(), [], threading.Lock()

    def work(client, name):
        for _ in range(3):
            with client.Semaphore("/semaphore", name, max_leases=2):
                with guard:
                    inside.add(name)
                    most.append(len(inside))
                with guard:
                    inside.discard(name)

    join_all([in_thread(work, client, f"c{number}") for number, client in enumerate(clients)])
    assert len(most) == 12 and max(most) <= 2
    semaphore = clients[0].Semaphore("/semaphore", max_leases=2)
    assert semaphore.lease_holders() == []


def test_election(join):
    clients = [join() for _ in range(3)]
    elected, go_on = [], threading.Semaphore(0)

    def lead(name):
        elected.append(name)
        assert go_on.acquire(timeout=WAIT_SECONDS)

    elections = [client.Election("/election", f"c{number}") for number, client in enumerate(clients)]
    threads = []
    for number, election in enumerate(elections):
        threads.append(in_thread(election.run, lead, f"c{number}"))
        wait_for(lambda: len(elections[0].contenders()) == number + 1, WAIT_SECONDS, "a contender more")
    assert elections[0].contenders() == ["c0", "c1", "c2"]
    for count in (1, 2, 3):
        wait_for(lambda: len(elected) == count, WAIT_SECONDS, "the next leader")
        go_on.release()
    join_all(threads)
    assert elected == ["c0", "c1", "c2"]


def test_barriers(join):
    clients = [join() for _ in range(3)]
    barrier = clients[0].Barrier("/barrier")
    barrier.create()
    assert not clients[1].Barrier("/barrier").wait(0.1)
    results = []
    waiting = in_thread(lambda: results.append(clients[1].Barrier("/barrier").wait(WAIT_SECONDS)))
    assert barrier.remove()
    join_all([waiting])
    assert results == [True]
    # kazoo looks for "ready" after it has made its own node: who is slow and meets those that leave waits for ever.
    entered = threading.Barrier(len(clients))

    def both(client):
        double = client.DoubleBarrier("/double", len(clients))
        double.enter()
        entered.wait(WAIT_SECONDS)
        double.leave()

    join_all([in_thread(both, client) for client in clients])


def test_counter(join):
    clients = [join() for _ in range(3)]

    def count(client):
        counter = client.Counter("/counter")
        for _ in range(10):
            counter += 2

    join_all([in_thread(count, client) for client in clients])
    assert clients[0].Counter("/counter").value == 60
    number = clients[0].Counter("/float", default=1.5)
    number -= 0.5
    assert number.value == 1.0


def test_party(join):
    clients = [join() for _ in range(3)]
    parties = [client.Party("/party", f"c{number}") for number, client in enumerate(clients)]
    for party in parties:
        party.join()
    assert sorted(parties[0]) == ["c0", "c1", "c2"]
    clients[1].stop()
    wait_for(lambda: sorted(parties[0]) == ["c0", "c2"], WAIT_SECONDS, "one has gone")
    parties[2].leave()
    assert list(parties[0]) == ["c0"]
    shallow = clients[0].ShallowParty("/shallow", "me")
    shallow.join()
    assert list(shallow) == ["me"] and len(shallow) == 1


def test_queues(join):
    first, second = join(), join()
    queue = first.Queue("/queue")
    for number in range(5):
        queue.put(b"%d" % number)
    queue.put(b"urgent", priority=1)
    other = second.Queue("/queue")
    assert [other.get() for _ in range(7)] == [b"urgent", b"0", b"1", b"2", b"3", b"4", None]
    locking = first.LockingQueue("/locking")
    locking.put_all([b"a", b"b"])
    thief = second.LockingQueue("/locking")
    assert locking.get(WAIT_SECONDS) == b"a"
    assert thief.get(WAIT_SECONDS) == b"b"
    assert locking.holds_lock() and locking.consume() and thief.consume()
    assert len(thief) == 0


def test_data_and_children_watches(join):
    zk, other = join(), join()
    values, kids = [], []
    DataWatch(zk, "/d", lambda data, stat: values.append(data))
    zk.ensure_path("/k")
    ChildrenWatch(zk, "/k", lambda children: kids.append(sorted(children)))
    for data in (b"1", b"2", b"3"):
        other.ensure_path("/d")
        other.set("/d", data)
        wait_for(lambda: values[-1] == data, WAIT_SECONDS, f"{data} seen")
    other.delete("/d")
    wait_for(lambda: values[-1] is None, WAIT_SECONDS, "the end seen")
    other.create("/k/a")
    wait_for(lambda: kids[-1] == ["a"], WAIT_SECONDS, "a child seen")
    other.create("/k/b", ephemeral=True)
    wait_for(lambda: kids[-1] == ["a", "b"], WAIT_SECONDS, "two children seen")
    other.stop()
    wait_for(lambda: kids[-1] == ["a"], WAIT_SECONDS, "the ephemeral's end seen")


def test_tree_cache(join):
    zk, other = join(), join()
    other.create("/tree/a/b", b"1", makepath=True)
    cache = TreeCache(zk, "/tree")
    events, ready = [], threading.Event()

    def on_event(event):
        events.append(event.event_type)
        if event.event_type == TreeEvent.INITIALIZED:
            ready.set()

    cache.listen(on_event)
    cache.start()
    assert ready.wait(WAIT_SECONDS)
    assert cache.get_data("/tree/a/b").data == b"1"
    other.set("/tree/a/b", b"2")
    wait_for(lambda: cache.get_data("/tree/a/b").data == b"2", WAIT_SECONDS, "changed")
    other.create("/tree/a/c/d", makepath=True)
    wait_for(lambda: cache.get_children("/tree/a/c") == {"d"}, WAIT_SECONDS, "grown")
    drop_connection(zk)
    other.delete("/tree/a", recursive=True)
    wait_for(lambda: cache.get_children("/tree") == set(), WAIT_SECONDS, "pruned")
    cache.close()


def test_leases(join):
    import datetime

    first, second = join(), join()
    assert first.NonBlockingLease("/lease", datetime.timedelta(minutes=1), "first")
    assert not second.NonBlockingLease("/lease", datetime.timedelta(minutes=1), "second")
    assert second.MultiNonBlockingLease(2, "/leases", datetime.timedelta(minutes=1), "second")
    assert first.MultiNonBlockingLease(2, "/leases", datetime.timedelta(minutes=1), "first")


def test_set_partitioner(join):
    clients = [join() for _ in range(2)]
    partitioners = [
        client.SetPartitioner("/partition", set=("a", "b", "c", "d"), identifier=f"c{number}", time_boundary=0.2)
        for number, client in enumerate(clients)
    ]

    def settled():
        for one in partitioners:
            if one.release:
                one.release_set()
            elif one.allocating:
                one.wait_for_acquire(0.05)
        return all(one.state == PartitionState.ACQUIRED for one in partitioners) and sorted(
            part for one in partitioners for part in one
        ) == ["a", "b", "c", "d"]

    wait_for(settled, WAIT_SECONDS, "every part has one owner")
    for one in partitioners:
        one.finish()


def test_many_requests_at_once(zk):
    answers = [zk.create_async(f"/n{number}", b"x" * 100) for number in range(500)]
    assert [answer.get(WAIT_SECONDS) for answer in answers] == [f"/n{number}" for number in range(500)]
    answers = [zk.get_async(f"/n{number}") for number in range(500)]
    assert all(answer.get(WAIT_SECONDS)[0] == b"x" * 100 for answer in answers)
    assert len(zk.get_children("/")) == 500
