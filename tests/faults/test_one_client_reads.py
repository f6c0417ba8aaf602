"""One client asks for reads that take long, again and again; see test_one_client.py."""
import contextlib
import subprocess
import time

import pytest
from etcd3 import etcdrpc
from hostile_client import (
    attacked, check_memory_returns, connect, fill_keys, reading, send_all,
)  # fmt: skip

from harness import KIND_LEASED, Server
from harness.acceptance import either
from harness.http2_frames import PREFACE, call, settings, window_update
from harness.kinds import lease_tool
from harness.rpc import Rpc

RANGE = b"/etcdserverpb.KV/Range"
HASH = b"/etcdserverpb.Maintenance/Hash"
HASH_KV = b"/etcdserverpb.Maintenance/HashKV"
LEASES = b"/etcdserverpb.Lease/LeaseLeases"
TIME_TO_LIVE = b"/etcdserverpb.Lease/LeaseTimeToLive"
WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)

KEYS = either(40_000, 400_000)
# Nearly as many as one lease may have, and as one request may delete.
KEYS_OF_LEASE = either(40_000, 130_000)
KEYS_DELETED = either(40_000, 260_000)
LEASES_COUNT = either(100_000, 1_000_000)


@pytest.fixture(scope="module")
def full():
    """A server with many keys, and a lease with as many of them as it may have."""
    with Server(KIND_LEASED) as running:
        with Rpc(running) as rpc:
            running.lease = rpc.grant(3600).ID
        fill_keys(running, KEYS_OF_LEASE, b"v" * 300, lease=running.lease)
        fill_keys(running, KEYS - KEYS_OF_LEASE, b"v" * 300, b"/more/")
        yield running


def everything(**fields):
    return etcdrpc.RangeRequest(key=b"/", range_end=b"0", **fields).SerializeToString()


LONG_READS = {
    "all keys": (RANGE, lambda _: everything()),
    "all keys by value": (RANGE, lambda _: everything(
        sort_order=etcdrpc.RangeRequest.DESCEND, sort_target=etcdrpc.RangeRequest.VALUE)),
    "ten of all keys by version": (RANGE, lambda _: everything(limit=10,
        sort_order=etcdrpc.RangeRequest.DESCEND, sort_target=etcdrpc.RangeRequest.VERSION)),
    "all keys at an old revision, counted": (RANGE, lambda _: everything(
        revision=5, count_only=True)),
    "keys of revisions that no key has": (RANGE, lambda _: everything(
        min_mod_revision=2**60)),
    "hash": (HASH, lambda _: b""),
    "hash of the keys": (HASH_KV, lambda _: b""),
    "keys of a lease": (TIME_TO_LIVE, lambda server: etcdrpc.LeaseTimeToLiveRequest(
        ID=server.lease, keys=True).SerializeToString()),
}  # fmt: skip


@pytest.mark.parametrize("what", LONG_READS)
def test_long_reads(full, what):
    path, request_of = LONG_READS[what]
    request = request_of(full)
    before = full.rss_bytes()
    with attacked(full, f"{what}, {KEYS} keys"):
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                connection = stack.enter_context(connect(full, WIDE_OPEN))
                reading(connection)
                send_all(connection, b"".join(call(1 + 2 * n, path, request) for n in range(50)))
            time.sleep(either(0.6, 5))
    check_memory_returns(full, before)


def test_long_reads_that_nobody_takes(full):
    before = full.rss_bytes()
    with attacked(full, "answers of many keys that nobody takes"):
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                connection = connect(full, PREFACE + settings(initial_window_size=10))
                stack.enter_context(connection)
                reading(connection)
                request = everything()
                send_all(connection, b"".join(call(1 + 2 * n, RANGE, request) for n in range(20)))
            time.sleep(either(0.6, 5))
    check_memory_returns(full, before)


def test_lists_of_many_leases():
    with Server(KIND_LEASED) as server:
        subprocess.run([lease_tool(), "bench", "fill", "--leases", str(LEASES_COUNT), "--ttl", "3600",
                        "--endpoint", server.endpoint], check=True, stdout=subprocess.DEVNULL)
        before = server.rss_bytes()
        with attacked(server, f"lists of {LEASES_COUNT} leases"):
            with contextlib.ExitStack() as stack:
                for _ in range(4):
                    connection = stack.enter_context(connect(server, WIDE_OPEN))
                    reading(connection)
                    send_all(connection, b"".join(call(1 + 2 * n, LEASES, b"") for n in range(50)))
                time.sleep(either(0.6, 5))
        check_memory_returns(server, before)


@pytest.mark.parametrize("how", ["deleted", "of a lease that is revoked"])
def test_many_keys_that_go_at_once(how):
    """One request, one revision, and every other client waits for it."""
    with Server(KIND_LEASED) as server, Rpc(server) as rpc:
        lease = rpc.grant(3600).ID if how != "deleted" else 0
        count = KEYS_OF_LEASE if lease else KEYS_DELETED
        fill_keys(server, count, lease=lease)
        with attacked(server, f"{count} keys {how}"):
            time.sleep(0.1)
            if lease:
                rpc.revoke(lease)
            else:
                rpc.delete(b"/fill/", b"/fill0")
            time.sleep(0.5)
        assert rpc.range(b"/fill/", b"/fill0", count_only=True).count == 0
