"""What a client of the ZooKeeper protocol may try: others are served, memory is bounded, refusals are clear."""
import random
import socket
import struct
import threading
import time

import pytest

from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.wait import wait_for
from harness.zookeeper_client import Client, Closed, Failed

MIB = 1 << 20
CALL_SECONDS = 60.0
SESSIONS = either(1000, 10_000)
WATCHES = either(100_000, 1_000_000)
CHILDREN = either(20_000, 100_000)
EVENTS = either(20_000, 200_000)
REQUESTS = 10_000
ALTERNATING = either(500, 10_000)


@pytest.fixture(scope="module", name="server")
def a_server():
    with zookeeper.leased() as running:
        yield running


@pytest.fixture(name="other")
def an_innocent_client(server):
    """It is served throughout, and the server is there at the end."""
    with Client(server.address).connect(40_000) as client:
        yield client
        client.ping()
        client.end()
    assert server.is_running(), server.log_tail()


def pipelined(client, count, request, window=500):
    """Answers of count requests, never more than a window of them under way. request(number): (opcode, payload)."""
    answers = []
    posted = 0
    while len(answers) < count:
        while posted < count and posted - len(answers) < window:
            client.post(*request(posted))
            posted += 1
        answers.append(client.receive())
    return answers


def test_half_frames_and_promises_of_large_ones(server, other):
    before = server.rss_bytes()
    clients = [Client(server.address) for _ in range(400)]
    for number, client in enumerate(clients):
        if number % 2:
            client.connect()
        client.send(jute.integer(0xFFFFF) + b"x" * (number % 7))
        other.ping()
    assert server.rss_bytes() - before < 60 * MIB
    for client in clients:
        client.abort()
    other.ping()


def test_bytes_at_random(server, other):
    choose = random.Random(7)
    whole = jute.frame(jute.connect()) + b"".join(
        jute.frame(jute.integer(number) + jute.integer(op) + payload)
        for number, (op, payload) in enumerate((
            (jute.CREATE, jute.create("/random", b"data")), (jute.GET_DATA, jute.watched("/random", True)),
            (jute.MULTI, jute.multi([(jute.SET_DATA, jute.set_data("/random", b"x")),
                                     (jute.CHECK, jute.versioned("/random", 0))])),
            (jute.SET_WATCHES, jute.set_watches(0, ["/random"], ["/none"], ["/"])),
            (jute.SET_ACL, jute.set_acl("/random", jute.OPEN_ACL)), (jute.ADD_WATCH, jute.text("/") + jute.integer(1)),
            (jute.CREATE_TTL, jute.create_ttl("/ttl", ttl_ms=5000)), (jute.DELETE, jute.versioned("/random")),
        ))
    )  # fmt: skip
    for _ in range(either(300, 5000)):
        data = bytearray(whole)
        for _ in range(choose.randrange(1, 6)):
            data[choose.randrange(len(data))] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
        with Client(server.address, timeout_s=10) as client:
            client.send(bytes(data[: choose.randrange(len(data))] if choose.random() < 0.3 else data))
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed(), bytes(data).hex()
        other.ping()


def test_many_sessions(server, other):
    before, cpu = server.rss_bytes(), server.cpu_seconds()
    began = time.monotonic()
    clients = []
    for number in range(SESSIONS):
        client = Client(server.address)
        client.send_frame(jute.connect(40_000))
        clients.append(client)
    for client in clients:
        reader = jute.Reader(client.receive_frame())
        reader.integer()
        assert reader.integer() == 40_000
        client.session_id, client.password = reader.long(), reader.buffer()
    assert len({client.session_id for client in clients}) == SESSIONS
    assert len({client.password for client in clients}) == SESSIONS
    opened_s = time.monotonic() - began
    for client in clients:
        client.post(jute.PING, xid=jute.XID_PING)
    for client in clients:
        assert client.receive().xid == jute.XID_PING
    other.ping()
    report("zookeeper sessions", sessions=SESSIONS, opened_s=round(opened_s, 2),
           cpu_s=round(server.cpu_seconds() - cpu, 2), bytes_each=(server.rss_bytes() - before) // SESSIONS)  # fmt: skip
    for client in clients:
        client.post(jute.CLOSE_SESSION)
    for client in clients:
        assert client.receive().error == 0
        client.close()


def test_many_watches_of_one_connection(server, other):
    """All are kept, or the server says clearly that it will not."""
    before = server.rss_bytes()
    with Client(server.address).connect(40_000) as client:
        refused = 0
        try:
            requests = pipelined(
                client, WATCHES, lambda number: (jute.EXISTS, jute.watched(f"/watch/{number}", True))
            )
            for answer in requests:
                refused += answer.error != -101
        except Closed:
            refused = WATCHES
        other.ping()
        grown = server.rss_bytes() - before
        report("zookeeper watches", watches=WATCHES, refused=refused, bytes_each=grown // WATCHES)
        assert grown < WATCHES * 600 + 50 * MIB
    wait_for(lambda: "Total watches:0" in zookeeper.word(server.address, "wchs"), CALL_SECONDS, "the watches gone")


def test_large_multis(server, other):
    """Carried out as one, or refused as one."""
    with Client(server.address).connect(40_000) as client:
        client.create("/multi")
        for count in (1000, 4000, 20_000):
            operations = [(jute.CREATE, jute.create(f"/multi/{count}-{number}", flags=0)) for number in range(count)]
            payload = jute.multi(operations)
            if len(payload) + 8 > 0xFFFFF:
                continue
            answer = client.ask(jute.MULTI, payload)
            made = len(client.children("/multi"))
            if answer.error == 0 and all(op != jute.ERROR for op, _ in answer.body.multi()):
                assert made == count
                for number in range(0, count, 500):
                    client.multi([(jute.DELETE, jute.versioned(f"/multi/{count}-{each}"))
                                  for each in range(number, min(count, number + 500))])  # fmt: skip
            else:
                assert made == 0
            report("zookeeper multi", operations=count, error=answer.error, made=made)
            other.ping()
        assert client.children("/multi") == []
        client.end()


def test_deep_paths(server, other):
    with Client(server.address).connect(40_000) as client:
        path = ""
        for _ in range(300):
            path += "/d"
            client.create(path)
        assert client.request(jute.GET_ALL_CHILDREN_NUMBER, jute.text("/d")).integer() == 299
        for length in (10_000, 100_000, 500_000):
            deep = "/x" * (length // 2)
            answer = client.ask(jute.CREATE, jute.create(deep))
            assert answer.error in (-101, -8)
            assert client.ask(jute.EXISTS, jute.watched(deep, True)).error in (-101, -8)
            assert client.ask(jute.ADD_WATCH, jute.text(deep) + jute.integer(1)).error in (0, -8)
        client.set("/d/d", b"an event below no deep watch")
        while path:
            client.delete(path)
            path = path[:-2]
        client.end()
    other.ping()


def test_quotas_at_which_zookeeper_ends(server, other):
    """One of "/", and statistics that are none."""
    quota = "/zookeeper/quota"
    with Client(server.address).connect() as client:
        for name in ("zookeeper_limits", "zookeeper_stats"):
            client.create(f"{quota}/{name}", b"count=1")
        assert client.get(f"{quota}/zookeeper_stats")[0] == b"count=1"
        client.create("/limited")
        for path in (f"{quota}/limited", f"{quota}/limited/zookeeper_limits", f"{quota}/limited/zookeeper_stats"):
            client.create(path, b"no numbers")
        client.create("/limited/below", b"123")
        assert client.get(f"{quota}/limited/zookeeper_stats")[0] == b"count=2,bytes=3"
        client.end()


def test_statistics_of_deep_paths(server, other):
    """Each depth is looked for by itself; readers go while nodes are counted."""
    path = "/counted"
    stats = f"/zookeeper/quota{path}/zookeeper_stats"
    with Client(server.address).connect(40_000) as client:
        client.create(f"/zookeeper/quota{path}")
        client.create(stats)
        for _ in range(300):
            client.create(path)
            path += "/d"
        assert client.get(stats)[0] == b"count=300,bytes=0"
        for _ in range(20):
            with Client(server.address).connect() as hasty:
                for _ in range(50):
                    hasty.post(jute.GET_DATA, jute.watched(stats))
                hasty.abort()
        other.ping()
        client.end()


def test_passwords_cannot_be_guessed_and_guesses_disturb_nobody(server, other):
    with Client(server.address).connect(40_000) as owner:
        owner.create("/owned", flags=jute.EPHEMERAL)
        for number in range(either(200, 5000)):
            guess = bytes(16) if number == 0 else struct.pack(">QQ", number, owner.session_id & (2**64 - 1))
            with Client(server.address) as thief, pytest.raises(Failed):
                thief.connect(session_id=owner.session_id, password=guess)
        # Another's password is no better, nor is a close without one.
        with Client(server.address) as thief, pytest.raises(Failed):
            thief.connect(session_id=owner.session_id, password=other.password)
        owner.ping()
        assert owner.exists("/owned")["owner"] == owner.session_id
        owner.end()


def test_passwords_have_nothing_in_common(server):
    clients = [Client(server.address).connect() for _ in range(64)]
    passwords = [client.password for client in clients]
    for place in range(16):
        assert len({password[place] for password in passwords}) > 16, f"byte {place}"
    for client in clients:
        client.end()


def test_one_session_taken_up_by_many_at_once(server, other):
    """Whoever is last has it; the others are closed; nothing of it is lost."""
    with Client(server.address).connect(40_000) as owner:
        owner.create("/raced", flags=jute.EPHEMERAL)
        wires, guard = [], threading.Lock()

        def race():
            for _ in range(10):
                wire = Client(server.address)
                try:
                    wire.resume(owner)
                    wire.ping()
                except (Closed, OSError):
                    pass
                with guard:
                    wires.append(wire)

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CALL_SECONDS)
        alive = []
        for wire in wires:
            try:
                wire.ping()
                alive.append(wire)
            except (Closed, OSError):
                wire.close()
        assert len(alive) == 1
        assert alive[0].exists("/raced")["owner"] == owner.session_id
        alive[0].end()
        assert other.exists("/raced") is None


def test_set_watches_with_long_lists(server, other):
    paths = [f"/w{number}" for number in range(60_000)]
    with Client(server.address).connect(40_000) as client:
        for lists in ((paths, [], []), ([], paths, []), ([], [], paths)):
            payload = jute.set_watches(1 << 62, *lists)
            assert len(payload) < 0xFFFFF
            client.post(jute.SET_WATCHES, payload, xid=jute.XID_SET_WATCHES)
            answer = client.receive()
            report("zookeeper set watches", error=answer.error, events=len(client.events))
            client.events.clear()
            other.ping()
        client.post(jute.SET_WATCHES2, jute.set_watches(0, [], [], [], paths[:40_000], paths[:40_000]),
                    xid=jute.XID_SET_WATCHES)  # fmt: skip
        client.receive()
        other.ping()


def test_a_reader_that_does_not_read(server, other):
    """Events gather up to a bound; then it is closed. Nobody else waits."""
    other.create("/slow", b"")
    with Client(server.address) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(40_000)
        slow.request(jute.ADD_WATCH, jute.text("/slow") + jute.integer(1))
        before = server.rss_bytes()
        long = "/slow/" + "n" * 900
        other.create(long)
        answers = pipelined(other, EVENTS, lambda number: (jute.SET_DATA, jute.set_data(long, b"")))
        assert all(answer.error == 0 for answer in answers)
        grown = server.rss_bytes() - before
        report("zookeeper slow reader", events=EVENTS, grown_mib=grown // MIB)
        assert grown < 400 * MIB
    other.delete(long)
    other.delete("/slow")


def test_many_children_of_one_node(server, other):
    """Creating stays quick, and listing them all is answered or refused in one frame."""
    with Client(server.address).connect(40_000) as client:
        client.create("/storm")
        began = time.monotonic()
        answers = pipelined(client, CHILDREN, lambda number: (jute.CREATE, jute.create(f"/storm/child-{number:08}")))
        assert all(answer.error == 0 for answer in answers)
        created_s = time.monotonic() - began
        began = time.monotonic()
        answer = client.ask(jute.GET_CHILDREN, jute.watched("/storm"))
        listed_s = time.monotonic() - began
        if answer.error == 0:
            assert len(answer.body.texts()) == CHILDREN
        report("zookeeper children", children=CHILDREN, created_s=round(created_s, 2), error=answer.error,
               listed_s=round(listed_s, 3))  # fmt: skip
        assert client.exists("/storm")["children"] == CHILDREN
        assert client.request(jute.GET_ALL_CHILDREN_NUMBER, jute.text("/storm")).integer() == CHILDREN
        # Ten who list it at once, and one who pings.
        readers = [Client(server.address).connect(40_000) for _ in range(10)]
        for reader in readers:
            reader.post(jute.GET_CHILDREN, jute.watched("/storm"))
        began = time.monotonic()
        other.ping()
        report("zookeeper ping beside ten lists", seconds=round(time.monotonic() - began, 3))
        for reader in readers:
            assert reader.receive().error == answer.error
            reader.close()
        for first in range(0, CHILDREN, 1000):
            client.multi([(jute.DELETE, jute.versioned(f"/storm/child-{number:08}"))
                          for number in range(first, first + 1000)])  # fmt: skip
        client.delete("/storm")
        client.end()


def test_requests_without_waiting_for_answers(server, other):
    """In order, each read between the writes that it was sent between."""
    with Client(server.address).connect(40_000) as client:
        client.create("/piped", b"")

        def write():
            for _ in range(REQUESTS):
                client.post(jute.SET_DATA, jute.set_data("/piped", b"x"))
            for _ in range(ALTERNATING):
                client.post(jute.SET_DATA, jute.set_data("/piped", b"x"))
                client.post(jute.GET_DATA, jute.watched("/piped"))

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(REQUESTS):
            assert client.receive().body.stat()["version"] == number + 1
        for number in range(REQUESTS, REQUESTS + ALTERNATING):
            assert client.receive().body.stat()["version"] == number + 1
            body = client.receive().body
            assert body.buffer() == b"x" and body.stat()["version"] == number + 1
        writer.join(CALL_SECONDS)
        client.delete("/piped")
        client.end()
    other.ping()


def test_ephemerals_of_one_session(server, other):
    """As many as a session may have; all end with it, in one revision."""
    with Client(server.address).connect(40_000) as client:
        client.create("/many")
        answers = pipelined(client, 5000, lambda number: (jute.CREATE, jute.create(f"/many/{number}", flags=1)))
        made = sum(answer.error == 0 for answer in answers)
        report("zookeeper ephemerals of one session", made=made, errors=len(answers) - made)
        other.sync("/")
        assert other.exists("/many")["children"] == made
        client.end()
    assert other.children("/many") == []
    other.delete("/many")


def test_stopped_in_the_middle_of_requests():
    """It ends in good order: exit code 0, no assertion."""
    for _ in range(3):
        with zookeeper.leased() as stopped, Client(stopped.address).connect() as client:
            client.create("/a")
            client.children("/a", watch=True)
            for _ in range(2000):
                client.post(jute.CREATE, jute.create("/a/n-", flags=jute.SEQUENTIAL))
            for _ in range(100):
                client.receive()
            assert stopped.stop() == 0, stopped.log_tail()


def test_ended_without_a_word(server, other):
    """Connections that are reset at every moment of a session's beginning."""
    for number in range(200):
        client = Client(server.address)
        if number % 4 == 0:
            client.send_frame(jute.connect(1000))
        elif number % 4 == 1:
            client.connect(1000)
            client.post(jute.CREATE, jute.create(f"/reset-{number}", flags=1))
        elif number % 4 == 2:
            client.connect(1000)
            client.post(jute.CLOSE_SESSION)
        client.abort()
    wait_for(lambda: not [name for name in other.children("/") if name.startswith("reset-")], CALL_SECONDS,
             "the ephemerals gone")  # fmt: skip
