"""Small requests that mean much work: ranges compared thousands of times, counted at an old revision,
a key with a long history read at its beginning. Each is refused or cheap, and others are served
meanwhile; so they are at the next start, when the log is applied again."""
import time

import grpc
import pytest
from bystander import Bystander, is_sanitized
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server
from harness.acceptance import either
from harness.ops import GREATER, put_op, range_op, txn_op, version_is
from harness.rpc import Rpc

KEYS = either(60_000, 1_000_000)
VERSIONS = either(3_000, 100_000)
PUTS_PER_TXN = 128
NESTED = 15
PARTS = 112
# Another client's round is a put, a read and a renewal. Alone it takes a millisecond.
PATIENCE_SECONDS = either(1.0, 0.5)
START_SECONDS = 20


def fill(rpc):
    for first in range(0, KEYS, PUTS_PER_TXN):
        last = min(first + PUTS_PER_TXN, KEYS)
        rpc.txn(success=[put_op(b"/many/%08d" % number, b"v") for number in range(first, last)])
    return rpc.put(b"/other", b"v").header.revision


def everything(**more):
    return range_op(b"\0", range_end=b"\0", **more)


def compare_everything():
    return version_is(b"\0", 0, GREATER, range_end=b"\0")


def compared(_revision):
    nested = txn_op(compare=[compare_everything()] * PARTS)
    return {"success": [nested] * NESTED + [put_op(b"/result", b"v")]}


def counted_at_an_old_revision(revision):
    parts = [everything(count_only=True, revision=revision)] * PARTS
    return {"success": [txn_op(success=parts)] * NESTED + [put_op(b"/result", b"v")]}


def gathered_at_an_old_revision(revision):
    parts = [everything(revision=revision, limit=1)] * PARTS
    return {"success": [txn_op(success=parts)] * NESTED + [put_op(b"/result", b"v")]}


def long_history(revision):
    parts = [range_op(b"/history", revision=revision)] * PARTS
    return {"success": [txn_op(success=parts)] * NESTED + [put_op(b"/result", b"v")]}


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED) as running:
        rpc = Rpc(running)
        rpc.put(b"/history", b"v")
        running.old_revision = fill(rpc)
        for _ in range(VERSIONS):
            rpc.put(b"/history", b"v")
        rpc.close()
        yield running


@pytest.mark.parametrize(
    "make", [compared, counted_at_an_old_revision, gathered_at_an_old_revision, long_history]
)
@pytest.mark.parametrize("is_write", [True, False], ids=["write", "read"])
def test_one_request_holds_up_nobody(server, make, is_write):
    rpc = Rpc(server)
    request = make(server.old_revision)
    if not is_write:
        request["success"] = request["success"][:NESTED]
    with Bystander(server) as bystander:
        bystander.check_served()
        for _ in range(5):
            try:
                rpc.txn(**request)
            except grpc.RpcError as error:
                assert error.code() in (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                ), error
        bystander.check_served()
    if not is_sanitized(server):
        assert bystander.longest_s < PATIENCE_SECONDS
    rpc.close()


def test_many_such_requests_hold_up_nobody(server):
    rpc = Rpc(server)
    request = etcdrpc.TxnRequest(**compared(0))
    with Bystander(server) as bystander:
        bystander.check_served()
        stub = etcdrpc.KVStub(rpc.channel)
        calls = [stub.Txn.future(request, timeout=60) for _ in range(100)]
        for call in calls:
            assert call.exception() is not None or call.result() is not None
        bystander.check_served()
    if not is_sanitized(server):
        assert bystander.longest_s < PATIENCE_SECONDS
    rpc.close()


def test_a_start_is_not_held_up_either(server):
    begun = time.monotonic()
    server.restart()
    assert time.monotonic() - begun < START_SECONDS
