"""Bytes that no client sends."""
from zookeeper_cases.case import case

from harness import jute
from harness.zookeeper_client import Closed


def outcome(client):
    """What the server sends, until it closes or says nothing more to a ping."""
    try:
        return f"answer {client.wire.receive_frame()[12:16].hex()}"
    except Closed:
        return "closed"


@case
def unknown_requests(talk):
    for op in (10, 23, 99, 108, 1000, -1, -12, 2**31 - 1):
        client = talk.client()
        client.raw(f"opcode {op}", op, b"")
        client.drain()


@case
def requests_cut_short(talk):
    for op in (jute.CREATE, jute.DELETE, jute.EXISTS, jute.GET_DATA, jute.SET_DATA, jute.GET_CHILDREN, jute.MULTI,
               jute.SYNC, jute.GET_ACL, jute.SET_ACL, jute.ADD_WATCH, jute.REMOVE_WATCHES, jute.GET_EPHEMERALS,
               jute.GET_ALL_CHILDREN_NUMBER, jute.MULTI_READ, jute.CREATE_TTL, jute.CREATE2):  # fmt: skip
        client = talk.client()
        client.raw(f"opcode {op} without a body", op, b"")
        client = talk.client()
        client.raw(f"opcode {op} with three bytes", op, b"\0\0\0")
        client = talk.client()
        client.raw(f"opcode {op} with a path alone", op, jute.text(client.path("/a")))


@case
def lengths_that_lie(talk):
    for size in (2**31 - 1, 1 << 24, 100, -2, -(2**31)):
        client = talk.client()
        client.raw(f"a path of {size} bytes", jute.EXISTS, jute.integer(size) + b"/a\0")
        client = talk.client()
        client.raw(f"{size} entries in an acl", jute.SET_ACL, jute.text(client.path("/")) + jute.integer(size))


@case
def more_than_was_asked(talk):
    client = talk.client()
    client.raw("bytes behind a request", jute.EXISTS, jute.watched(client.path("/none")) + b"more")
    client.raw("bytes behind a ping", jute.PING, b"more", xid=jute.XID_PING)
    client.raw("bytes behind a delete", jute.DELETE, jute.versioned(client.path("/none")) + b"more")


@case
def frames_without_a_request(talk):
    for payload in (b"", b"\0", b"\0\0\0\1", b"\0\0\0\1\0\0\0"):
        client = talk.client()
        client.wire.send_frame(payload)
        client.note(f"{payload!r}: {outcome(client)}")


@case
def frames_of_impossible_sizes(talk):
    for size in (-1, -(2**31), 2**31 - 1, 1 << 28, 0xFFFFF + 1):
        client = talk.client()
        client.wire.send(jute.integer(size))
        client.note(f"{size}: {outcome(client)}")
        client = talk.client(begin=False)
        client.wire.send(jute.integer(size))
        client.note(f"{size} first: {outcome(client)}")


@case
def connect_requests_cut_short(talk):
    whole = jute.connect()
    for size in (0, 3, 4, 12, 16, 24, 28, 40):
        client = talk.client(begin=False)
        client.wire.send_frame(whole[:size])
        client.note(f"{size} bytes: {outcome(client)}")


@case
def frames_in_pieces(talk):
    client = talk.client(begin=False)
    message = jute.frame(jute.connect())
    for position in range(len(message)):
        client.wire.send(message[position : position + 1])
    client.wire.receive_frame()
    message = jute.frame(jute.integer(1) + jute.integer(jute.EXISTS) + jute.watched(client.path("/none")))
    for position in range(len(message)):
        client.wire.send(message[position : position + 1])
    answer = client.wire.receive()
    client.note(f"{answer.xid} {answer.error}")


@case
def a_second_connect_request(talk):
    client = talk.client()
    client.wire.send_frame(jute.connect())
    client.note(outcome(client))


@case
def a_boolean_that_is_neither(talk):
    client = talk.client()
    client.create("/a")
    client.raw("watch is 2", jute.EXISTS, jute.text(client.path("/none")) + b"\2")
    client.create("/none")


@case
def reconfig_is_refused(talk):
    client = talk.client()
    client.raw("reconfig", jute.RECONFIG, jute.text("a") + jute.text("b") + jute.text("c") + jute.long(-1))
    client.drain()
