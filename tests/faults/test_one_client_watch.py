"""One client does its worst with watches of ranges, what they tell, observers of elections and roles; see
test_one_client.py."""
import contextlib
import threading
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import (
    MIB, Sender, at_last, attacked, check_memory_returns, connect, fill_keys, reading, restart_seconds, send_all,
)  # fmt: skip

from harness import KIND_LEASED, Server, hpack
from harness.acceptance import either, report
from harness.http2_frames import PREFACE, Connection, call, headers, message, settings, window_update
from harness.rpc import Rpc
from harness.watch_messages import WatchRequest

WATCH = b"/etcdserverpb.Watch/Watch"
OBSERVE = b"/v3electionpb.Election/Observe"
AUTH = b"/etcdserverpb.Auth/"
WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
CLOSED = PREFACE + settings(initial_window_size=0)
NOTHING = [0, 1]  # filters: neither puts nor deletions
RESTART_SECONDS_MAX = either(10.0, 1.0)


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


@contextlib.contextmanager
def watched_ranges(server, count, hello=WIDE_OPEN, filters=()):
    """Watches of so many ranges, all of which hold the keys below /w/m."""
    creates = (WatchRequest(create_request={"key": b"/w/a%06d" % number, "range_end": b"/w/z%06d" % number,
                                            "filters": filters}).SerializeToString()
               for number in range(count))  # fmt: skip
    with connect(server, hello) as connection:
        connection.send(headers(1, hpack.grpc_request(WATCH)))
        Sender(connection).send(1, b"".join(message(one) for one in creates))
        at_last(lambda: server.metric("leased_watchers") >= count, 30, "the watches")
        yield connection


def delete_prefix(server, prefix, end):
    with Rpc(server) as rpc:
        return rpc.kv.DeleteRange(etcdrpc.DeleteRangeRequest(key=prefix, range_end=end), timeout=60).deleted


def put_many(server, count):
    with Rpc(server) as rpc:
        waiting = [rpc.kv.Put.future(etcdrpc.PutRequest(key=b"/w/m%d" % number, value=b"v"), timeout=60)
                   for number in range(count)]  # fmt: skip
        for one in waiting:
            one.result()


def run_calls(server, calls, window=256):
    """Unary calls over one connection, so many at a time."""
    with Connection(server, timeout_s=60, hello=WIDE_OPEN) as connection:
        waiting = []
        for number, (path, request) in enumerate(calls):
            if len(waiting) == window:
                assert connection.wait_answer(waiting.pop(0), 60).grpc_status == 0
            waiting.append(1 + 2 * number)
            connection.send(call(waiting[-1], path, request.SerializeToString()))
        for stream in waiting:
            assert connection.wait_answer(stream, 60).grpc_status == 0


def test_many_keys_deleted_below_many_ranges(server):
    """Every range holds every key: one by one that would be 360,000,000 visits."""
    watches, keys = either((5_000, 500), (90_000, 4_000))
    fill_keys(server, keys, b"v", prefix=b"/w/m")
    with watched_ranges(server, watches, filters=NOTHING):
        with attacked(server, f"{keys} keys deleted below {watches} ranges"):
            assert delete_prefix(server, b"/w/m", b"/w/n") == keys
            time.sleep(1)


def test_ranges_of_a_client_that_does_not_read(server):
    watches, puts = either((5_000, 200), (90_000, 3_000))
    with watched_ranges(server, watches, hello=CLOSED):
        with attacked(server, f"{puts} puts below {watches} ranges that nobody reads"):
            put_many(server, puts)


def test_a_compaction_while_much_is_to_be_published(server):
    watches, puts = either((5_000, 200), (90_000, 1_000))
    with watched_ranges(server, watches, filters=NOTHING):
        with attacked(server, f"a compaction after {puts} puts below {watches} ranges"):
            put_many(server, puts)
            with Rpc(server) as rpc:
                rpc.kv.Compact(etcdrpc.CompactionRequest(revision=puts), timeout=60)
            time.sleep(1)


def test_previous_values_of_one_large_deletion(server):
    keys = either(40, 400)
    fill_keys(server, keys, bytes(1_000_000), prefix=b"/p/")
    create = WatchRequest(create_request={"key": b"/p/", "range_end": b"/p0", "prev_kv": True}).SerializeToString()
    with connect(server, CLOSED) as connection:
        connection.send(call(1, WATCH, create, flags=0))
        at_last(lambda: server.metric("leased_watchers") >= 1, 30, "the watch")
        with attacked(server, f"a deletion of {keys} keys of 1 MB is watched", growth_max=64 * MIB) as memory:
            assert delete_prefix(server, b"/p/", b"/p0") == keys
            time.sleep(1)
    check_memory_returns(server, memory.before)


def test_observers_of_a_long_election(server):
    connections, each, keys = either((2, 500, 1_000), (4, 10_000, 1_000))
    run_calls(server, [(b"/etcdserverpb.KV/Put", etcdrpc.PutRequest(key=b"e/%05d" % number, value=b"v"))
                       for number in range(keys)])  # fmt: skip
    request = b"\x0a\x01e"  # LeaderRequest: its name
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            connection = stack.enter_context(connect(server, WIDE_OPEN))
            reading(connection)
            for first in range(0, each, 500):
                send_all(connection, b"".join(call(1 + 2 * number, OBSERVE, request)
                                              for number in range(first, first + 500)))  # fmt: skip
        at_last(lambda: server.metric("leased_watchers") >= connections * each, 60, "the observers")
        with attacked(server, f"{connections * each} observers of an election of {keys} keys"):
            for number in range(5):
                delete_prefix(server, b"e/%05d" % number, b"")
                time.sleep(0.5)


def flood_of_roles(connection, name, seconds):
    stream, end = 1, time.monotonic() + seconds
    request = etcdrpc.AuthRoleAddRequest(name=name).SerializeToString()
    remove = etcdrpc.AuthRoleDeleteRequest(role=name).SerializeToString()
    while time.monotonic() < end:
        data = b""
        for _ in range(500):
            data += call(stream, AUTH + b"RoleAdd", request) + call(stream + 2, AUTH + b"RoleDelete", remove)
            stream += 4
        if send_all(connection, data, end - time.monotonic()) < len(data):
            break


def test_roles_that_come_and_go_among_many_users(server):
    users, seconds = either((1_000, 1), (10_000, 6))
    run_calls(server, [(AUTH + b"RoleAdd", etcdrpc.AuthRoleAddRequest(name="r"))])
    names = [f"u{number}" for number in range(users)]
    # The third field: {no_password: true}, which Debian's python3-etcd3 does not know.
    run_calls(server, [(AUTH + b"UserAdd", NoPassword(name)) for name in names])
    run_calls(server, [(AUTH + b"UserGrantRole", etcdrpc.AuthUserGrantRoleRequest(user=name, role="r"))
                       for name in names])  # fmt: skip
    with attacked(server, f"roles come and go among {users} users"), contextlib.ExitStack() as stack:
        threads = []
        for number in range(4):
            connection = stack.enter_context(connect(server, WIDE_OPEN))
            reading(connection)
            threads.append(threading.Thread(target=flood_of_roles, args=(connection, f"z{number}", seconds)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    server.kill()
    took = restart_seconds(server)
    report("restart after roles that came and went", seconds=round(took, 2))
    assert took < RESTART_SECONDS_MAX


class NoPassword:
    """AuthUserAddRequest of a user without a password."""

    def __init__(self, name):
        self._name = name

    def SerializeToString(self):
        return etcdrpc.AuthUserAddRequest(name=self._name).SerializeToString() + b"\x1a\x02\x08\x01"
