"""One client asks with few bytes for what copies or compares many: gets of one large value in one
transaction, a value that is kept, ranges sorted by value; see test_one_client.py."""
import contextlib
import time

import grpc
import pytest
from etcd3 import etcdrpc
from hostile_client import (
    Sender, attacked, check_memory_returns, connect, fill_keys, reading, restart_seconds, send_all,
)  # fmt: skip

from harness import KIND_LEASED, Server, hpack
from harness.acceptance import either, report
from harness.http2_frames import (
    DATA, DATA_SIZE, FLAG_END_STREAM, PREFACE, call, frame, headers, message, settings,
    window_update,
)  # fmt: skip
from harness.ops import put_op, range_op, txn_op
from harness.rpc import Rpc
from harness.wait import wait_for

PUT = b"/etcdserverpb.KV/Put"
TXN = b"/etcdserverpb.KV/Txn"
DELETE = b"/etcdserverpb.KV/DeleteRange"
WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)
CLOSED = PREFACE + settings(initial_window_size=0)

SMALL_ENOUGH = 20  # gets of a large value that one transaction may have
NESTED, GETS = 16, 110
RESTART_SECONDS_MAX = either(20.0, 5.0)


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


def large_call(stream, path, request):
    """A unary call in as many frames as it needs."""
    data = message(request)
    parts = [data[at: at + DATA_SIZE] for at in range(0, len(data), DATA_SIZE)]
    frames = [headers(stream, hpack.grpc_request(path))]
    frames += [frame(DATA, 0, stream, part) for part in parts[:-1]]
    return b"".join([*frames, frame(DATA, FLAG_END_STREAM, stream, parts[-1])])


def txn_of_gets(kind, nested, gets):
    operations = [txn_op(success=[range_op(b"big")] * gets)] * nested
    if kind == "write":
        operations.append(put_op(b"result", b"v"))
    return etcdrpc.TxnRequest(success=operations).SerializeToString()


@pytest.mark.parametrize("window", ["taken", "left"])
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("nested,gets", [(NESTED, GETS), (1, SMALL_ENOUGH)],
                         ids=["too many", "as many as may be"])  # fmt: skip
def test_gets_of_one_large_value(server, kind, window, nested, gets):
    connections, each = either(3, 8), either(4, 20)
    with Rpc(server) as rpc:
        rpc.put(b"big", bytes(either(700_000, 1_100_000)))
    request = txn_of_gets(kind, nested, gets)
    before = server.rss_bytes()
    with attacked(server, f"{connections} connections, {nested * gets} gets of a large value ({kind}), {window}"):
        with contextlib.ExitStack() as stack:
            for _ in range(connections):
                connection = stack.enter_context(connect(server, WIDE_OPEN if window == "taken" else CLOSED))
                reading(connection)
                send_all(connection, b"".join(large_call(1 + 2 * n, TXN, request) for n in range(each)))
            time.sleep(either(0.6, 6))
    check_memory_returns(server, before)
    took = restart_seconds(server)
    report("restart", seconds=round(took, 2))
    assert took < RESTART_SECONDS_MAX


@pytest.mark.parametrize("window", ["taken", "left"])
def test_gets_of_a_value_that_becomes_large_on_the_way(server, window):
    """When they are asked for, it is small."""
    connections, each = either(3, 8), either(5, 50)
    grown = etcdrpc.PutRequest(key=b"big", value=bytes(1_000_000)).SerializeToString()
    shrunk = etcdrpc.PutRequest(key=b"big").SerializeToString()
    request = txn_of_gets("write", 1, 30)
    calls = [(PUT, grown), *[(TXN, request)] * each, (PUT, shrunk)]
    before = server.rss_bytes()
    with attacked(server, f"{connections} connections, 30 gets of a value that grows, {window}"):
        with contextlib.ExitStack() as stack:
            for _ in range(connections):
                connection = stack.enter_context(connect(server, WIDE_OPEN if window == "taken" else CLOSED))
                sender = Sender(connection)
                for number, (path, payload) in enumerate(calls):
                    stream = 1 + 2 * number
                    send_all(connection, headers(stream, hpack.grpc_request(path)))
                    sender.send(stream, message(payload), seconds=2.0, end=True)
            time.sleep(either(0.6, 4))
    check_memory_returns(server, before)


def test_the_answer_of_a_transaction_is_bounded(server):
    """Refused before anything changes, also when what it reads is its own."""
    with Rpc(server) as rpc:
        rpc.put(b"big", bytes(1_000_000))
        answer = rpc.txn(success=[put_op(b"result", b"v"), *[range_op(b"big")] * SMALL_ENOUGH])
        assert len(answer.responses) == SMALL_ENOUGH + 1
        answer = rpc.txn(success=[range_op(b"big")] * SMALL_ENOUGH)
        assert len(answer.responses[-1].response_range.kvs[0].value) == 1_000_000
        own = [put_op(b"own", bytes(1_000_000)), *[range_op(b"own")] * 100]
        for operations in ([put_op(b"other", b"v"), *[range_op(b"big")] * 100],
                           [range_op(b"big")] * 100, own):  # fmt: skip
            with pytest.raises(grpc.RpcError) as refusal:
                rpc.txn(success=operations)
            assert refusal.value.details() == "etcdserver: request is too large"
        assert rpc.range(b"other").count == 0
        assert rpc.range(b"own").count == 0
        # What is not shown does not count.
        rpc.txn(success=[range_op(b"big", keys_only=True)] * 100)
        rpc.txn(success=[range_op(b"big", count_only=True)] * 100)


@pytest.mark.parametrize("how", ["put", "transaction"])
def test_a_large_value_that_is_kept(server, how):
    count, keys = either(200, 3_000), either(8, 60)
    fill_keys(server, keys, bytes(1_400_000), b"/kept/")
    puts = [etcdrpc.PutRequest(key=b"/kept/%08d" % n, ignore_value=True) for n in range(keys)]
    request, path = puts[0].SerializeToString(), PUT
    if how == "transaction":
        operations = [etcdrpc.RequestOp(request_put=put) for put in puts[:15]]
        request, path = etcdrpc.TxnRequest(success=operations).SerializeToString(), TXN
    before = server.rss_bytes()
    with attacked(server, f"{count} times a value of 1.4 MB kept by a {how} of {len(request)} bytes"):
        with connect(server, WIDE_OPEN) as connection:
            reading(connection)
            send_all(connection, b"".join(call(1 + 2 * n, path, request) for n in range(count)))
            time.sleep(either(0.6, 8))
    with Rpc(server) as rpc:
        # As many in one transaction are too much, and none of them is written.
        if keys > 32:
            with pytest.raises(grpc.RpcError) as refusal:
                rpc.txn(success=[etcdrpc.RequestOp(request_put=put) for put in puts])
            assert refusal.value.details() == "etcdserver: request is too large"
        version = rpc.range(b"/kept/00000000").kvs[0].version
        assert version > 1
        report("kept", versions=version, grown_now_mib=(server.rss_bytes() - before) >> 20)
    took = restart_seconds(server)
    report("restart", seconds=round(took, 2))
    assert took < RESTART_SECONDS_MAX


@pytest.mark.parametrize("size", [2_000, 15_000, 60_000])
def test_smaller_values_that_are_kept(server, size):
    """Each is little, and there are many more of them."""
    seconds, at_once = either(1, 6), 200
    with Rpc(server) as rpc:
        rpc.put(b"kept", bytes(size))
    request = etcdrpc.PutRequest(key=b"kept", ignore_value=True).SerializeToString()
    before = server.rss_bytes()
    with attacked(server, f"a value of {size} bytes kept by puts of {len(request)}"):
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(server, WIDE_OPEN)) for _ in range(8)]
            for each in opened:
                reading(each)
            sent, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                data = b"".join(call(1 + 2 * (sent + n), PUT, request) for n in range(at_once))
                sent += at_once
                for each in opened:
                    send_all(each, data, end - time.monotonic())
    check_memory_returns(server, before + (128 << 20))


def test_ranges_sorted_by_large_equal_values(server):
    fill_keys(server, either(50, 200), bytes(500_000), b"/sorted/")
    by_value = range_op(b"/sorted/", range_end=b"/sorted0", limit=2, keys_only=True,
                        sort_order=etcdrpc.RangeRequest.DESCEND, sort_target=etcdrpc.RangeRequest.VALUE)
    for ranges in (1, either(100, 1_000)):
        nested = [txn_op(success=[by_value] * min(ranges, 100))] * max(1, ranges // 100)
        request = etcdrpc.TxnRequest(success=[*nested, put_op(b"result", b"v")]).SerializeToString()
        with attacked(server, f"transactions of {ranges} ranges sorted by value"):
            with connect(server, WIDE_OPEN) as connection:
                reading(connection)
                send_all(connection, b"".join(large_call(1 + 2 * n, TXN, request) for n in range(either(2, 20))))
                time.sleep(either(0.6, 4))
    took = restart_seconds(server)
    report("restart", seconds=round(took, 2))
    assert took < RESTART_SECONDS_MAX


def test_large_values_compared(server):
    size, count = 11_000, either(800, 8_000)
    fill_keys(server, count, bytes(size), b"/compared/")
    compare = etcdrpc.Compare(result=etcdrpc.Compare.EQUAL, target=etcdrpc.Compare.VALUE,
                              key=b"/compared/", range_end=b"/compared0", value=bytes(size))
    for compares in (2, 128):
        request = etcdrpc.TxnRequest(compare=[compare] * compares,
                                     success=[put_op(b"result", b"v")]).SerializeToString()
        with attacked(server, f"transactions with {compares} compares of {count} values"):
            with connect(server, WIDE_OPEN) as connection:
                reading(connection)
                for n in range(either(3, 20)):
                    send_all(connection, large_call(1 + 2 * n, TXN, request))
                time.sleep(either(0.6, 4))


def test_previous_values_of_a_deletion(server):
    count = either(40, 400)
    fill_keys(server, count, bytes(1_000_000), b"/deleted/")
    before = server.rss_bytes()
    request = etcdrpc.DeleteRangeRequest(key=b"/deleted/", range_end=b"/deleted0", prev_kv=True)
    with attacked(server, f"a deletion that answers {count} MB"):
        with connect(server, CLOSED) as connection:
            connection.send(call(1, DELETE, request.SerializeToString()))
            time.sleep(either(0.6, 4))
    check_memory_returns(server, before)
    with Rpc(server) as rpc:
        assert rpc.range(b"/deleted/", b"/deleted0", count_only=True).count == count
        assert rpc.delete(b"/deleted/", b"/deleted0").deleted == count


def put_long_keys(rpc, count, size, grant):
    """Each of the leases gets as many of the keys as it may have. `grant` makes one."""
    leases = [grant()]
    for number in range(count):
        key = b"/long/" + bytes(size) + b"%08d" % number
        try:
            rpc.put(key, lease=leases[-1])
        except grpc.RpcError as refusal:
            assert refusal.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "more keys than one lease may have" in refusal.details()
            leases.append(grant())
            rpc.put(key, lease=leases[-1])
    return leases


def test_long_keys_that_end_with_leases(server):
    """Those of one lease go in one revision, while everybody waits."""
    count, size = either(60, 500), 1_400_000
    with Rpc(server) as rpc:
        leases = put_long_keys(rpc, count, size, lambda: rpc.grant(3600).ID)
        before = server.rss_bytes()
        with attacked(server, f"{len(leases)} leases with {count} keys of {size} bytes revoked"):
            for lease in leases:
                revoke_at_last(rpc, lease)
        assert rpc.range(b"/long/", b"/long0", count_only=True).count == 0
    check_memory_returns(server, before)
    took = restart_seconds(server)
    report("restart", seconds=round(took, 2))
    assert took < RESTART_SECONDS_MAX
    assert len(leases) > 1


def revoke_at_last(rpc, lease):
    """What is much work may be asked to wait for the work before it."""
    for _ in range(100):
        try:
            return rpc.revoke(lease)
        except grpc.RpcError as refusal:
            assert refusal.details() == "etcdserver: too many requests"
            time.sleep(0.1)
    raise AssertionError("it was always too much")


def test_long_keys_of_leases_that_expire_at_once(server):
    """A batch of leases ends when there is much to copy, however few there are."""
    count, size = either(60, 500), 1_000_000
    with Rpc(server) as rpc:
        request = etcdrpc.LeaseGrantRequest(TTL=either(8, 20))
        granting = [rpc.lease.LeaseGrant.future(request, timeout=10) for _ in range(count)]
        leases = [one.result().ID for one in granting]
        for number, lease in enumerate(leases):
            rpc.put(b"/long/" + bytes(size) + b"%08d" % number, lease=lease)
        assert rpc.range(b"/long/", b"/long0", count_only=True).count == count
        before = server.rss_bytes()
        with attacked(server, f"{count} leases with a key of {size} bytes each expire at once"):
            wait_for(lambda: rpc.range(b"/long/", b"/long0", count_only=True).count == 0, 60, "all are gone")
    check_memory_returns(server, before)


def test_long_keys_that_are_deleted(server):
    """Each leaves its key behind."""
    count, size = either(60, 500), 700_000
    with Rpc(server) as rpc:
        for number in range(count):
            rpc.put(b"/long/" + bytes(size) + b"%08d" % number)
        with attacked(server, f"{count} keys of {size} bytes deleted"):
            with connect(server, WIDE_OPEN) as connection:
                reading(connection)
                request = etcdrpc.DeleteRangeRequest(key=b"/long/", range_end=b"/long0").SerializeToString()
                send_all(connection, b"".join(call(1 + 2 * n, DELETE, request) for n in range(50)))
                time.sleep(either(0.6, 4))
        assert rpc.range(b"/long/", b"/long0", count_only=True).count == count
        end = b"/long/" + bytes(size) + b"%08d" % 40
        assert rpc.delete(b"/long/", end).deleted == 40
