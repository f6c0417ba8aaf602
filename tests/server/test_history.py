"""History never stops the server, and a request is counted before it is accepted."""
import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for
from harness.rpc import CALL_SECONDS, Rpc, refused

NO_SPACE = "etcdserver: mvcc: database space exceeded"
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
QUOTA_BYTES = 4 * 1024 * 1024
VALUE = b"x" * 1000
PUTS_EACH = 50
TRANSACTIONS = 600  # seven times the quota


def server_with(*flags):
    return Server(KIND_LEASED, extra_flags=["--quota-backend-bytes", str(QUOTA_BYTES), *flags])


def overwrite(rpc):
    """The same keys once more."""
    puts = [
        etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=b"key%d" % number, value=VALUE))
        for number in range(PUTS_EACH)
    ]
    return rpc.txn(success=puts).header.revision


def alarms(rpc):
    answer = rpc.maintenance.Alarm(etcdrpc.AlarmRequest(), timeout=CALL_SECONDS)
    return [one.alarm for one in answer.alarms]


def test_history_is_compacted_before_it_fills_the_quota():
    with server_with() as server, Rpc(server) as rpc:
        most = 0
        for number in range(TRANSACTIONS):
            try:
                overwrite(rpc)
            except grpc.RpcError as error:
                # Room is being made: clients come again.
                assert error.details() == "etcdserver: too many requests"
            if number % 50 == 0:
                most = max(most, server.metric("leased_key_memory_bytes"))
        assert most < QUOTA_BYTES * 5 / 4
        assert alarms(rpc) == []
        assert server.metric("leased_compacted_revision") > 0
        assert rpc.range(b"key0").kvs[0].value == VALUE
        # The newest history is there.
        last = overwrite(rpc)
        assert rpc.range(b"key0", revision=last - 1).kvs


@pytest.mark.parametrize("flags, bound", [
    (("--history-bytes", "1048576", "--quota-backend-bytes", str(64 * QUOTA_BYTES)), 1048576),
    (("--history-bytes", str(QUOTA_BYTES), "--quota-backend-bytes", str(QUOTA_BYTES)), QUOTA_BYTES / 2),
])  # fmt: skip
def test_history_takes_no_more_memory_than_it_may(flags, bound):
    """Whatever the quota has left. Half of that is the most, whatever was asked for."""
    with Server(KIND_LEASED, extra_flags=flags) as server, Rpc(server) as rpc:
        compactions = set()
        for _ in range(TRANSACTIONS // 4):
            overwrite(rpc)
            compactions.add(server.metric("leased_compacted_revision"))
            # One transaction and what is being freed come on top of it.
            assert server.metric("leased_key_memory_bytes") < bound * 3 / 2 + 4 * PUTS_EACH * len(VALUE)
        assert len(compactions) > 2


def test_all_history_is_kept_when_asked_for():
    with server_with("--auto-compaction-retention=0") as server, Rpc(server) as rpc:
        lease = rpc.grant(600).ID
        with refused(EXHAUSTED, NO_SPACE):
            for _ in range(TRANSACTIONS):
                overwrite(rpc)
        wait_for(lambda: alarms(rpc) == [etcdrpc.NOSPACE], 10, "the alarm")
        assert server.metric("leased_compacted_revision") == 0
        assert server.metric("leased_key_memory_bytes") < QUOTA_BYTES * 5 / 4
        with refused(EXHAUSTED, NO_SPACE):
            rpc.grant(600)
        # What makes room goes on, and so do leases.
        with rpc.keep_alive() as stream:
            stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
            assert stream.receive().TTL == 600
        assert rpc.delete(b"key", b"kez").deleted == PUTS_EACH
        rpc.compact(rpc.revision())
        rpc.revoke(lease)


@pytest.mark.parametrize("flags", [(), ("--auto-compaction-retention=0",)])
def test_what_would_not_fit_is_refused_before(flags):
    with Server(KIND_LEASED, extra_flags=["--quota-backend-bytes", "300000", *flags]) as server:
        with Rpc(server) as rpc:
            with refused(EXHAUSTED, NO_SPACE):
                rpc.put(b"large", b"x" * 400_000)
            assert rpc.range(b"large", count_only=True).count == 0
            wait_for(lambda: alarms(rpc) == [etcdrpc.NOSPACE], 10, "the alarm")
