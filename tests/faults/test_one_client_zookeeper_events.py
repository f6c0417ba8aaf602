"""What one client of the ZooKeeper API makes the server tell many: see test_one_client.py."""
import contextlib
import selectors
import threading
import time

import pytest
from bystander import is_sanitized
from etcd3 import etcdrpc
from hostile_client import attacked, check_memory_returns, fill_keys

from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.rpc import Rpc
from harness.wait import wait_for
from harness.zookeeper_client import Client

LONG = 60_000
WATCHERS = either(150, 400)
CHANGES = either(60, 100)
RECURSIVE = 1


@pytest.fixture(name="server")
def a_server():
    with zookeeper.leased() as server:
        yield server


def long_path(number):
    return f"/{number:06}-".ljust(LONG, "n")


class Readers(threading.Thread):
    """Takes what clients are sent. `taken`: the bytes of each; `n_closed`: whose connection the server closed."""

    def __init__(self, clients):
        super().__init__(daemon=True)
        self.taken = {client.socket: 0 for client in clients}
        self.n_closed = 0
        self._done = threading.Event()

    def run(self):
        with selectors.DefaultSelector() as selector:
            for connection in self.taken:
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
            while not self._done.is_set():
                for key, _ in selector.select(0.1):
                    self._take(selector, key.fileobj)

    def _take(self, selector, connection):
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = connection.recv(1 << 20)
        self.taken[connection] += len(data)
        if not data:
            selector.unregister(connection)
            self.n_closed += 1

    def stop(self):
        self._done.set()
        if self.is_alive():
            self.join()


@contextlib.contextmanager
def watchers_of_all(server, count):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(count)]
        for client in clients:
            assert client.ask(jute.ADD_WATCH, jute.text("/") + jute.integer(RECURSIVE)).error == 0
        yield clients


@pytest.mark.parametrize("reads", [True, False], ids=["taken", "not taken"])
def test_events_of_a_long_path_for_many(server, reads):
    with Client(server.address) as client:
        client.connect(40_000)
        client.create(long_path(0))
        before = server.rss_bytes()
        with watchers_of_all(server, WATCHERS) as watchers:
            readers = Readers(watchers)
            try:
                with attacked(server, f"zookeeper: events of a long path for {WATCHERS}, "
                                      f"{'taken' if reads else 'not taken'}"):  # fmt: skip
                    if reads:
                        readers.start()
                    for _ in range(CHANGES):
                        client.post(jute.SET_DATA, jute.set_data(long_path(0), b"x"))
                    for _ in range(CHANGES):
                        assert client.receive().error == 0
                    if reads:
                        wait_for(lambda: min(readers.taken.values()) > CHANGES * LONG, 60.0, "all events taken")
                assert readers.n_closed == 0
            finally:
                readers.stop()
    check_memory_returns(server, before)


def test_many_changes_for_many(server):
    """Each change is small, and so is each event. Others change and read meanwhile."""
    changes, count = 500, either(400, 3000)
    with Client(server.address) as client, Client(server.address) as other:
        client.connect(40_000)
        other.connect(40_000)
        client.create("/short")
        other.create("/other")
        before = server.rss_bytes()
        with watchers_of_all(server, count) as watchers:
            with attacked(server, f"zookeeper: {changes} changes for {count} who watch"):
                for _ in range(changes):
                    client.post(jute.SET_DATA, jute.set_data("/short", b"x"))
                other.set("/other", b"y")
                assert other.get("/other")[0] == b"y"
                for _ in range(changes):
                    assert client.receive().error == 0
                assert client.get("/short")[1]["version"] == changes
            for watcher in watchers[:10]:
                watcher.sync()
                assert [event.path for event in watcher.events].count("/short") == changes
    check_memory_returns(server, before)


def test_the_end_of_a_session_with_long_ephemeral_nodes(server):
    """All events at once, and nobody takes them."""
    nodes = either(200, 500)
    with Client(server.address) as client:
        client.connect(40_000)
        for number in range(nodes):
            client.create(long_path(number), flags=jute.EPHEMERAL)
        before = server.rss_bytes()
        with watchers_of_all(server, WATCHERS):
            with attacked(server, "zookeeper: the end of a session with long ephemeral nodes"):
                client.post(jute.CLOSE_SESSION)
                assert client.receive().error == 0
                with Client(server.address) as other:
                    other.connect()
                    assert other.children("/") == ["zookeeper"]
    check_memory_returns(server, before)


def test_events_of_a_node_with_a_long_access_list(server):
    """Each entry is of interest to each identity of each who watches."""
    watchers, changes = either(100, 400), 400
    entries = [(jute.ALL, "digest", f"user{number % 100:02}:{number:027}=") for number in range(255)]
    with Client(server.address) as client, contextlib.ExitStack() as stack:
        client.connect(40_000)
        client.create("/listed", entries=[*entries, (jute.ALL, "ip", "127.0.0.1")])
        watching = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(watchers)]
        for each in watching:
            for number in range(62):
                each.post(jute.AUTH, jute.auth("digest", b"user%02d:secret" % number), xid=jute.XID_AUTH)
        for each in watching:
            for _ in range(62):
                assert each.receive().error == 0
            assert each.ask(jute.ADD_WATCH, jute.text("/listed") + jute.integer(0)).error == 0
        before = server.rss_bytes()
        with attacked(server, "zookeeper: events of a node with a long access list"):
            began = server.cpu_seconds()
            for _ in range(changes):
                client.post(jute.SET_DATA, jute.set_data("/listed", b"x"))
            for _ in range(changes):
                assert client.receive().error == 0
            for each in watching:
                each.sync()
            used = server.cpu_seconds() - began
        assert all(len(each.events) == changes for each in watching)
        report("zookeeper: long access lists of events", cpu_seconds=used, told=watchers * changes)
        # It was 12 microseconds for each, and is 3.
        assert is_sanitized(server) or used < either(0.3, 1.2), f"{used} s of CPU time for {changes} changes"
    check_memory_returns(server, before)


def shown_version(body):
    """Of an answer to setData, which is a stat, or to getData, which has data before it."""
    return jute.Reader(body.rest()[-jute.STAT.size :]).stat()["version"]


def test_events_precede_answers_that_show_their_change(server):
    """Also when they wait because the client has not taken those before. In every second round it changes as well."""
    rounds, changes = 8, 20
    path = long_path(0)
    with Client(server.address) as writer, Client(server.address) as client:
        writer.connect(40_000)
        client.connect(40_000)
        writer.create(path)
        assert client.ask(jute.ADD_WATCH, jute.text("/") + jute.integer(RECURSIVE)).error == 0
        for number in range(rounds):
            for _ in range(changes):
                writer.post(jute.SET_DATA, jute.set_data(path, b"x"))
                client.post(jute.GET_DATA, jute.watched(path))
                if number % 2:
                    client.post(jute.SET_DATA, jute.set_data(path, b"y"))
            for _ in range(changes):
                assert writer.receive().error == 0
            for _ in range(changes * (1 + number % 2)):
                answer = client.receive()
                assert answer.error == 0
                assert shown_version(answer.body) <= len(client.events), "a change is shown that was not told"
        client.sync()
        assert len(client.events) == rounds * changes * 3 // 2


def test_long_reads_do_not_keep_others_waiting(server):
    """One connection always has more of them than there is time for."""
    paths = ["/a" * depth for depth in range(1, 2001)]
    question = (jute.GET_ALL_CHILDREN_NUMBER, jute.text("/a"))
    under_way = 400
    with Client(server.address) as client, Client(server.address) as other:
        client.connect(40_000)
        other.connect(40_000)
        create_many(client, paths)
        for _ in range(under_way):
            client.post(*question)
        done = threading.Event()

        def ask_for_more():
            while not done.is_set():
                client.receive()
                client.post(*question)

        asking = threading.Thread(target=ask_for_more, daemon=True)
        asking.start()
        waits = []
        began = time.monotonic()
        while time.monotonic() < began + 4.0:
            asked = time.monotonic()
            other.get("/a")
            waits.append(time.monotonic() - asked)
        done.set()
        asking.join()
        report("zookeeper: a read beside long reads", longest_ms=round(max(waits) * 1000), rounds=len(waits))
        # It was as long as the others went on.
        assert max(waits) < 2.0, f"a read waited for {max(waits)} s"


def create_many(client, paths, flags=0, at_once=200):
    for begin in range(0, len(paths), at_once):
        part = paths[begin : begin + at_once]
        for path in part:
            client.post(jute.CREATE, jute.create(path, flags=flags))
        for _ in part:
            assert client.receive().error == 0


def watch_many(client, paths, at_once=500):
    for begin in range(0, len(paths), at_once):
        part = paths[begin : begin + at_once]
        for path in part:
            client.post(jute.ADD_WATCH, jute.text(path) + jute.integer(0))
        for _ in part:
            assert client.receive().error == 0


def test_many_watches_are_compared_after_a_compaction(server):
    """Events are late, and the history that has them goes: each watch is compared with its node."""
    ephemeral, paths = 8000, [f"/w/{number:06}".ljust(60, "n") for number in range(either(20_000, 120_000))]
    with Client(server.address) as client, Rpc(server) as rpc, contextlib.ExitStack() as stack:
        client.connect(40_000)
        client.create("/w")
        create_many(client, paths)
        watching = [stack.enter_context(Client(server.address)).connect(40_000) for _ in range(3)]
        for each in watching:
            watch_many(each, paths)
        ending = stack.enter_context(Client(server.address)).connect(40_000)
        create_many(ending, [f"/{number}" for number in range(ephemeral)], jute.EPHEMERAL)
        before = server.rss_bytes()
        readers = Readers(stack.enter_context(watchers_of_all(server, 400)))
        readers.start()
        try:
            with attacked(server, f"zookeeper: {3 * len(paths)} watches compared after a compaction"):
                ending.post(jute.CLOSE_SESSION)
                client.set(paths[-1], b"changed")
                rpc.kv.Compact(etcdrpc.CompactionRequest(revision=rpc.put(b"k", b"v").header.revision))
                for each in watching:
                    each.sync()
            # Of what is gone, most was told to nobody.
            assert max(readers.taken.values()) < ephemeral * 32, "no event was late"
        finally:
            readers.stop()
        for each in watching:
            assert {event.path for event in each.events} == {paths[-1]}
    check_memory_returns(server, before)


def post_read_between_creates(client, number):
    """Answers how many nodes that makes."""
    client.post(jute.CREATE, jute.create(f"/{number}"))
    client.post(jute.GET_DATA, jute.watched(f"/{number}"))
    client.post(jute.CREATE, jute.create(f"/{number + 1}"))
    return 2


def test_many_changes_by_others_cost_nobody_the_connection(server):
    """Keys of the etcd API concern nobody here, and a read that a change has passed cannot wait."""
    keys, rounds = 20_000, 5
    with Client(server.address) as client, Rpc(server) as rpc:
        client.connect(40_000)
        n_created = 0
        for _ in range(rounds):
            fill_keys(server, keys)
            deleting = rpc.kv.DeleteRange.future(
                etcdrpc.DeleteRangeRequest(key=b"/fill/", range_end=b"/fill0"), timeout=60)  # fmt: skip
            while not deleting.done():
                for _ in range(20):
                    n_created += post_read_between_creates(client, n_created)
                for _ in range(20 * 3):
                    assert client.receive().error == 0
            assert deleting.result().deleted == keys
        assert len(client.children("/")) == n_created + 1


def test_a_session_is_taken_over_while_events_are_late(server):
    """What its record was before is told later, and is not about the connection that has it now."""
    nodes, takeovers = 4000, 8
    with Client(server.address) as client:
        client.connect(40_000)
        create_many(client, [f"/{number}" for number in range(nodes)], jute.EPHEMERAL)
        with watchers_of_all(server, 400) as watchers, contextlib.ExitStack() as stack:
            readers = Readers(watchers)
            readers.start()
            try:
                moving = stack.enter_context(Client(server.address)).connect(40_000)
                client.post(jute.CLOSE_SESSION)
                for _ in range(takeovers):
                    moving = stack.enter_context(Client(server.address)).resume(moving)
                wait_for(lambda: min(readers.taken.values()) > nodes * 32, 60.0, "all events taken")
                moving.sync()
                assert readers.n_closed == 0
            finally:
                readers.stop()


def test_the_end_of_a_session_between_changes(server):
    """Its nodes are more than one iteration tells, and a read that a change has passed cannot wait for the next."""
    nodes, rounds = 2000, 8
    with Client(server.address) as client, watchers_of_all(server, 20):
        client.connect(40_000)
        n_created = 0
        for _ in range(rounds):
            with Client(server.address) as ending:
                ending.connect(40_000)
                create_many(ending, [f"/ending-{number}" for number in range(nodes)], jute.EPHEMERAL)
                ending.post(jute.CLOSE_SESSION)
                for _ in range(20):
                    n_created += post_read_between_creates(client, n_created)
                for _ in range(20 * 3):
                    assert client.receive().error == 0
                assert ending.receive().error == 0
