"""A call whose time is over in the middle of its answer: the client is not given half of a message and a status."""
import time

import pytest

from harness import KIND_LEASED, Server
from harness.http2_frames import Connection, call
from harness.rpc import Rpc

RANGE = b"/etcdserverpb.KV/Range"
EVERYTHING = b"\x0a\x01/\x12\x010"
VALUES = 24
PREFIX_SIZE = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(KIND_LEASED, tmp_path_factory.mktemp("deadlines")) as server:
        with Rpc(server) as rpc:
            for number in range(VALUES):
                rpc.put(b"/large/%d" % number, b"x" * 1_000_000)
        yield server


def ended(connection, stream):
    deadline = time.monotonic() + 30
    answer = connection.answers[stream]
    while not answer.is_complete and answer.reset is None:
        assert time.monotonic() < deadline, "the stream was not ended"
        connection.receive(timeout_s=30)
    return answer


def ask(connection, limit_ms):
    connection.send(call(1, RANGE, EVERYTHING, (b"grpc-timeout", b"%dm" % limit_ms)))


def test_no_status_follows_half_of_a_message(server):
    whole = 0
    for attempt in range(30):
        with Connection(server) as connection:
            ask(connection, 1 + attempt)
            answer = ended(connection, 1)
        if answer.data:
            size = PREFIX_SIZE + int.from_bytes(answer.data[1:PREFIX_SIZE], "big")
            assert answer.reset is not None or len(answer.data) == size, answer.grpc_status
            whole += 1
    assert whole > 0, "no call was answered in time"


def test_an_answer_that_is_not_read_is_cut_off_after_the_deadline(server):
    with Connection(server, polite=False) as connection:
        began = time.monotonic()
        ask(connection, 500)
        answer = ended(connection, 1)
        assert answer.reset is not None
        assert answer.data
        assert 0.5 <= time.monotonic() - began
