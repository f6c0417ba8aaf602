"""One client does its worst to a cluster, through members that do not lead; see test_one_client.py."""
import contextlib
import threading
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import (
    Sender, attacked, check_memory_returns, connect, fill_keys, reading, send_all,
)  # fmt: skip

from harness import hpack
from harness.acceptance import either
from harness.cluster import Cluster
from harness.http2_frames import PREFACE, call, headers, message, settings, window_update
from harness.rpc import Rpc

KEEP_ALIVE = b"/etcdserverpb.Lease/LeaseKeepAlive"
PUT = b"/etcdserverpb.KV/Put"
TXN = b"/etcdserverpb.KV/Txn"
WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
# Each is little, as work is counted.
KEYS = 900
CONNECTIONS = either(10, 40)
CALLS = 100
ROUNDS = either(2, 12)
STREAMS = 20


def sorted_read():
    """Of all keys, with an answer of one."""
    by_value = etcdrpc.RangeRequest(
        key=b"/fill/", range_end=b"/fill0", limit=1,
        sort_order=etcdrpc.RangeRequest.DESCEND, sort_target=etcdrpc.RangeRequest.VALUE,
    )  # fmt: skip
    return etcdrpc.TxnRequest(
        success=[etcdrpc.RequestOp(request_range=by_value)]
    ).SerializeToString()


@pytest.mark.seconds_max(120)
def test_reads_that_become_safe_together():
    calls = b"".join(call(1 + 2 * n, TXN, sorted_read()) for n in range(CALLS))
    with Cluster() as cluster:
        leader = cluster.leader()
        fill_keys(cluster[leader], KEYS)
        with attacked(cluster[leader], f"{CONNECTIONS * CALLS} sorted reads at each of three"):
            for _ in range(ROUNDS):
                with contextlib.ExitStack() as stack:
                    for server in cluster.servers:
                        for _ in range(CONNECTIONS):
                            connection = stack.enter_context(connect(server, WIDE_OPEN))
                            reading(connection)
                            send_all(connection, calls)
                    time.sleep(either(0.3, 0.5))


def renew_without_pause(server, lease, seconds):
    """Many streams on several connections; answers are taken and not waited for."""
    part = message(etcdrpc.LeaseKeepAliveRequest(ID=lease).SerializeToString()) * 1000
    deadline = time.monotonic() + seconds

    def renew(connection, sender):
        for number in range(STREAMS):
            connection.send(headers(1 + 2 * number, hpack.grpc_request(KEEP_ALIVE)))
        number = 0
        while time.monotonic() < deadline and not sender.is_over:
            sender.send(1 + 2 * (number % STREAMS), part, max(0.01, deadline - time.monotonic()))
            number += 1

    with contextlib.ExitStack() as stack:
        threads = []
        for _ in range(CONNECTIONS // 2):
            connection = stack.enter_context(connect(server, WIDE_OPEN))
            threads.append(threading.Thread(target=renew, args=(connection, Sender(connection))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.mark.seconds_max(120)
def test_renewals_through_a_member_that_does_not_lead():
    """Others renew and put through the same member, and through the leader, which is asked for all of them."""
    with Cluster() as cluster:
        leader = cluster.leader()
        follower = cluster[(leader + 1) % len(cluster)]
        with Rpc(cluster[leader]) as rpc:
            lease = rpc.grant(600).ID
        before = follower.rss_bytes()
        with attacked(follower, "renewals through a follower"), attacked(cluster[leader], "its leader"):
            renew_without_pause(follower, lease, either(3.0, 10.0))
        check_memory_returns(follower, before)


def much_work():
    """A change that sorts all keys by value twenty times."""
    read = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(
        key=b"/fill/", range_end=b"/fill0", limit=1,
        sort_order=etcdrpc.RangeRequest.DESCEND, sort_target=etcdrpc.RangeRequest.VALUE))  # fmt: skip
    write = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=b"result"))
    return TXN, etcdrpc.TxnRequest(success=[read] * 20 + [write]).SerializeToString()


def kept():
    return PUT, etcdrpc.PutRequest(key=b"kept", ignore_value=True).SerializeToString()


FORWARDED = {"transactions that are much work": much_work, "values of 15 KB that are kept": kept}


@pytest.mark.seconds_max(120)
@pytest.mark.parametrize("what", FORWARDED)
def test_changes_through_members_that_do_not_lead(what):
    """Each member looks after the work of its own clients, and the leader does what all of them forward."""
    path, request = FORWARDED[what]()
    with Cluster() as cluster:
        leader = cluster.leader()
        fill_keys(cluster[leader], 4_000)
        with Rpc(cluster[leader]) as rpc:
            rpc.put(b"kept", bytes(15_000))
        followers = [cluster[(leader + n) % len(cluster)] for n in (1, 2)]
        before = cluster[leader].rss_bytes()
        with attacked(cluster[leader], f"{what}, at the leader"), attacked(followers[0], f"{what}, at a follower"):
            with contextlib.ExitStack() as stack:
                opened = [stack.enter_context(connect(server, WIDE_OPEN)) for server in followers * 4]
                for each in opened:
                    reading(each)
                sent, end = 0, time.monotonic() + either(1, 6)
                while time.monotonic() < end:
                    data = b"".join(call(1 + 2 * (sent + n), path, request) for n in range(CALLS))
                    sent += CALLS
                    for each in opened:
                        send_all(each, data, max(0.01, end - time.monotonic()))
        check_memory_returns(cluster[leader], before + (128 << 20))
