"""Sessions: how long, whose, where."""
from zookeeper_cases.case import case

from harness import jute
from harness.wait import wait_for

GONE_SECONDS = 60.0


@case
def negotiated_times(talk):
    for timeout_ms in (100, 99, 1, 0, -1, 4000, 10_000, 39_999, 40_000, 40_001, 1 << 30):
        client = talk.client(timeout_ms=timeout_ms)
        client.note(f"asked {timeout_ms}, got {client.wire.timeout_ms}, read only {client.wire.read_only}")


@case
def an_old_client_without_the_read_only_flag(talk):
    client = talk.client(read_only=None)
    client.note(f"read only {client.wire.read_only}")
    client.create("/a")


@case
def a_client_that_accepts_read_only(talk):
    client = talk.client(read_only=True)
    client.note(f"read only {client.wire.read_only}")
    client.create("/a")


@case
def a_password_has_sixteen_bytes(talk):
    client = talk.client()
    client.note(f"{len(client.wire.password)} bytes, all zero {client.wire.password == bytes(16)}")
    talk.client(password=b"")
    talk.client(password=None).note("null password")
    talk.client(password=b"x" * 16)
    talk.client(password=b"x" * 17)


@case
def taken_up_again(talk):
    client = talk.client()
    client.create("/e", flags=jute.EPHEMERAL)
    client.wire.close()
    again = talk.client(begin=False)
    again.resume(client)
    again.note(f"same {again.wire.session_id == client.wire.session_id} {again.wire.password == client.wire.password}")
    again.exists("/e")
    again.delete("/e")


@case
def taken_up_with_another_time(talk):
    client = talk.client(timeout_ms=10_000)
    again = talk.client(begin=False)
    again.resume(client, timeout_ms=20_000)
    again.note(f"{again.wire.timeout_ms}")


@case
def taken_up_with_a_wrong_password(talk):
    client = talk.client()
    client.create("/e", flags=jute.EPHEMERAL)
    for password in (bytes(16), client.wire.password[:-1] + bytes([client.wire.password[-1] ^ 1]),
                     client.wire.password[:-1], client.wire.password + b"x", b"", None):  # fmt: skip
        again = talk.client(begin=False)
        again.resume(client, password=password)
        again.note(f"closed {again.wire.is_closed()}")
    # What becomes of the owner's own connection is not compared: ZooKeeper closes it.
    talk.client().exists("/e")


@case
def no_such_session(talk):
    client = talk.client(begin=False)
    client.begin(session_id=0x1234567890, password=b"p" * 16)
    client.note(f"closed {client.wire.is_closed()}")
    client = talk.client(begin=False)
    client.begin(session_id=-1, password=b"p" * 16)
    client.note(f"closed {client.wire.is_closed()}")


@case
def a_session_that_was_ended(talk):
    client = talk.client()
    client.close_session()
    again = talk.client(begin=False)
    again.resume(client)
    again.note(f"closed {again.wire.is_closed()}")


@case
def a_client_from_the_future(talk):
    client = talk.client(begin=False)
    client.begin(zxid=1 << 62)
    client.note(f"closed {client.wire.is_closed()}")


@case
def the_old_connection_is_closed(talk):
    client = talk.client()
    client.create("/e", flags=jute.EPHEMERAL)
    again = talk.client(begin=False)
    again.resume(client)
    client.note(f"closed {client.wire.is_closed()}")
    again.exists("/e")


@case
def a_session_runs_out(talk):
    watcher = talk.client()
    client = talk.client(timeout_ms=1000)
    client.create("/e", flags=jute.EPHEMERAL)
    watcher.exists("/e", watch=True)
    event = watcher.wire.next_event()
    watcher.note(f"{event.kind} {talk.short(event.path)}")
    watcher.exists("/e")
    client.note(f"closed {client.wire.is_closed()}")
    again = talk.client(begin=False)
    again.resume(client)


@case
def pings_keep_a_session(talk):
    client = talk.client(timeout_ms=2000)
    client.create("/e", flags=jute.EPHEMERAL)
    other = talk.client()
    for _ in range(6):
        client.wire.socket.settimeout(0.5)
        try:
            client.wire.receive_frame()
        except TimeoutError:
            pass
        client.wire.socket.settimeout(60)
        client.wire.ping()
    other.exists("/e")
    answer = client.wire.ping()
    client.note(f"ping {answer.xid} {answer.error} {answer.body.rest()}")


@case
def nothing_after_the_end(talk):
    client = talk.client()
    client.wire.post(jute.CLOSE_SESSION)
    client.wire.post(jute.CREATE, jute.create(client.path("/late")))
    answer = client.wire.receive()
    client.note(f"{answer.error} {answer.body.rest()}")
    client.note(f"closed {client.wire.is_closed()}")
    talk.client().exists("/late")


@case
def answers_keep_the_order_of_requests(talk):
    client = talk.client()
    kinds = (
        (jute.CREATE, jute.create(client.path("/a"))), (jute.EXISTS, jute.watched(client.path("/a"))),
        (jute.SET_DATA, jute.set_data(client.path("/a"), b"x", 0)), (jute.GET_DATA, jute.watched(client.path("/a"))),
        (jute.SYNC, jute.text(client.path("/a"))), (jute.GET_CHILDREN, jute.watched(client.path("/"))),
        (jute.DELETE, jute.versioned(client.path("/a"), 1)), (jute.EXISTS, jute.watched(client.path("/a"))),
    )  # fmt: skip
    for _ in range(20):
        for op, payload in kinds:
            client.wire.post(op, payload)
        client.wire.post(jute.PING, xid=jute.XID_PING)
    pings = 0
    numbers = []
    for _ in range(20 * (len(kinds) + 1)):
        answer = client.wire.receive()
        if answer.xid == jute.XID_PING:
            pings += 1
        else:
            numbers.append((answer.xid, answer.error))
    client.note(f"{pings} pings, {numbers}")


@case
def any_number_may_name_a_request(talk):
    client = talk.client()
    for number in (0, -3, -5, 7, 7, 2**31 - 1, -(2**31)):
        client.raw(f"number {number}", jute.EXISTS, jute.watched(client.path("/none")), xid=number)


@case
def an_ephemeral_of_a_resumed_session_stays(talk):
    client = talk.client(timeout_ms=2000)
    client.create("/e", flags=jute.EPHEMERAL)
    wire = client.wire
    for _ in range(5):
        again = talk.client(begin=False)
        again.begin(timeout_ms=2000, session_id=wire.session_id, password=wire.password, zxid=wire.zxid)
        wire = again.wire
    talk.client().exists("/e")
    wire.close()
    observer = talk.client("observer")
    wait_for(lambda: observer.wire.exists(observer.path("/e")) is None, GONE_SECONDS, "the ephemeral gone")
