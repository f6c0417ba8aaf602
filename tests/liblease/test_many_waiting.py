"""Many that wait for one name: a hand-over costs the same messages and the same time as with one that waits."""
import re
import statistics
import time

import lease
import pytest
from harness import KIND_LEASED, Server
from harness.acceptance import ACCEPTANCE, either, report

MANY = either(30, 1000)
FEW = 2
ROUNDS = either(30, 500)
# Renewals come with time, not with hand-overs.
NOT_OF_HAND_OVERS = "Renew"
SLOWER_MAX = 1.5


def messages(server):
    """All that were sent and received by the native API."""
    text = server.http_get("/metrics", timeout_s=30)[1].decode()
    found = re.findall(r'^grpc_server_msg_(?:sent|received)_total\{grpc_method="(\w+)",grpc_service="leased\.v1\S*\} (\d+)', text,
                       re.MULTILINE)  # fmt: skip
    return sum(int(count) for method, count in found if method != NOT_OF_HAND_OVERS)


def hand_over(server, client, waiting, rounds):
    """(messages for each, [ms]): so many wait all the time, each with a session of its own."""
    name = f"many-{waiting}"
    sessions = [client.session() for _ in range(waiting + 1)]
    hold = sessions[0].lock(name)
    queue = [session.acquire_start(lease.wants(name)) for session in sessions[1:]]
    client.resource(name)  # all of them are in the queue: requests of a connection are taken in order
    took, counted, tokens = [], 0, [hold.token]
    for _ in range(rounds):
        session = hold.session
        before = messages(server)
        begun = time.monotonic()
        hold.release()
        hold = queue.pop(0).finish()
        took.append(1000 * (time.monotonic() - begun))
        counted += messages(server) - before
        tokens.append(hold.token)
        queue.append(session.acquire_start(lease.wants(name)))
        client.resource(name)
    assert tokens == sorted(set(tokens)), "served in order"
    for session in sessions:
        session.end()
    return counted / rounds, took


@pytest.mark.seconds_max(600)
def test_a_hand_over_does_not_depend_on_how_many_wait():
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client:
        few_messages, few_ms = hand_over(server, client, FEW - 1, ROUNDS)
        many_messages, many_ms = hand_over(server, client, MANY, ROUNDS)
    few, many = statistics.median(few_ms), statistics.median(many_ms)
    report("hand-over", waiting=MANY, messages=round(many_messages, 2), messages_of_two=round(few_messages, 2), p50_ms=round(many, 3),
           p50_ms_of_two=round(few, 3))  # fmt: skip
    # Whether the next one was told its place before or after a count is left to chance.
    assert abs(many_messages - few_messages) < 1
    assert not ACCEPTANCE or many <= few * SLOWER_MAX
