"""A call whose time is over in the middle of its answer: the client is not given half of a message and a status."""
import time

import pytest

from harness import KIND_LEASED, Server
from harness.http2_frames import Connection, call
from harness.rpc import Rpc

RANGE = b"/etcdserverpb.KV/Range"
VALUES = 24
PREFIX_SIZE = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(KIND_LEASED, tmp_path_factory.mktemp("deadlines")) as server:
        with Rpc(server) as rpc:
            for number in range(VALUES):
                rpc.put(b"/large/%d" % number, b"x" * 1_000_000)
        yield server


def answered(connection, stream):
    deadline = time.monotonic() + 30
    answer = connection.answers[stream]
    while not answer.is_complete and answer.reset is None:
        assert time.monotonic() < deadline, "the stream was not ended"
        connection.receive(timeout_s=30)
    return answer


def test_a_deadline_in_the_middle_of_an_answer_resets_the_stream(server):
    everything = b"\x0a\x01/\x12\x010"
    cut = 0
    for attempt in range(60):
        with Connection(server) as connection:
            limit = b"%dm" % (1 + attempt)
            connection.send(call(1, RANGE, everything, (b"grpc-timeout", limit)))
            answer = answered(connection, 1)
        has_whole = len(answer.data) >= PREFIX_SIZE and len(
            answer.data) == PREFIX_SIZE + int.from_bytes(answer.data[1:PREFIX_SIZE], "big")
        if answer.is_complete and answer.data:
            assert has_whole, f"{len(answer.data)} bytes, then status {answer.grpc_status}"
        cut += answer.reset is not None
        if cut >= 5 and has_whole:
            return
    assert cut > 0, "no deadline passed in the middle of an answer"
