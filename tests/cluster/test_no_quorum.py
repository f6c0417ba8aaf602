"""Most nodes are away: nothing is decided, nothing ends, and nobody waits for ever."""
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

TTL_SECONDS = 2
AWAY_SECONDS = 4.0
# A node gives up after five seconds; a client that asks for less gets less.
REFUSED_SECONDS_MAX = either(10.0, 6.0)
CLIENT_SECONDS = 15.0
ROUNDS = either(2, 20)

KEY = b"/kept"


def refused_after(call, request, timeout_s):
    begun = time.monotonic()
    try:
        call(request, timeout=timeout_s)
    except grpc.RpcError as error:
        assert error.code() in EXCUSES, error
        return time.monotonic() - begun
    raise AssertionError(f"answered without a quorum: {request}")


def test_one_of_three_refuses_in_time_and_ends_no_lease():
    with Cluster() as cluster:
        alone = cluster.leader()
        others = [node for node in range(3) if node != alone]
        rpc = cluster.rpc(alone)
        rpc.put(b"/key", b"value")
        lease = rpc.grant(TTL_SECONDS).ID
        rpc.put(KEY, b"x", lease=lease)
        created = rpc.range(KEY).kvs[0].create_revision
        for node in others:
            cluster.kill(node)
        killed_at = time.monotonic()
        # Longer than the leader's lease lasts: from then on it knows that it may not answer.
        time.sleep(0.7)
        get, put = etcdrpc.RangeRequest(key=b"/key"), etcdrpc.PutRequest(key=b"/late", value=b"x")
        patient = [rpc.kv.Range.future(get, timeout=CLIENT_SECONDS),
                   rpc.kv.Put.future(put, timeout=CLIENT_SECONDS)]  # fmt: skip
        sent_at = time.monotonic()
        impatient = [refused_after(rpc.kv.Range, get, 0.3), refused_after(rpc.kv.Put, put, 0.3)]
        assert max(impatient) < REFUSED_SECONDS_MAX
        still = rpc.range(b"/key", serializable=True)
        assert still.kvs[0].value == b"value"
        waited = []
        for call in patient:
            error = call.exception()
            assert error is not None and error.code() in EXCUSES, error
            waited.append(time.monotonic() - sent_at)
        assert max(waited) < REFUSED_SECONDS_MAX
        time.sleep(max(0.0, killed_at + AWAY_SECONDS - time.monotonic()))
        assert rpc.range(KEY, serializable=True).count == 1, "a lease ended without a quorum"
        back_at = time.monotonic()
        cluster.restart(*others)
        cluster.leader()
        kvs = rpc.range(KEY).kvs
        assert len(kvs) == 1 and kvs[0].create_revision == created
        wait_for(lambda: rpc.range(KEY).count == 0, 15, "the end of what nobody renewed")
        ended_after = time.monotonic() - back_at
        assert ended_after >= TTL_SECONDS, "the time without a quorum was counted"
        assert lease not in rpc.leases()
        cluster.wait_equal()
        report("no quorum", refused_seconds=[round(one, 2) for one in waited],
               lease_ended_after_seconds=round(ended_after, 2))  # fmt: skip


@pytest.mark.seconds_max(120 + 10 * ROUNDS)
def test_who_renewed_while_the_leader_was_cut_off_for_a_moment_keeps_the_lease():
    """The others stop for so short a time that the leader may go on leading, while leases run out that
    nobody can renew. Whoever sent a renewal before the deadline keeps the lease."""
    renewed_in_all = went_on = 0
    with Cluster(timing_flags=("--heartbeat-interval", "100", "--election-timeout", "1000")) as cluster:
        for _ in range(ROUNDS):
            leader = cluster.leader()
            term = cluster.status(leader).raftTerm
            others = cluster.followers()
            rpc = cluster.rpc(leader)
            with rpc.keep_alive() as stream:
                granted = []
                begun = time.monotonic()
                while time.monotonic() < begun + 0.2:
                    granted.append((rpc.grant(TTL_SECONDS).ID, time.monotonic() + TTL_SECONDS))
                    time.sleep(0.01)
                time.sleep(max(0.0, granted[0][1] - 1.03 - time.monotonic()))
                for node in others:
                    cluster.pause(node)
                # The leader's lease lasts for nine tenths of the election timeout.
                time.sleep(0.92)
                renewed = []
                for lease, deadline in granted:
                    stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
                    if time.monotonic() < deadline - 0.1:
                        renewed.append(lease)
                renewed_in_all += len(renewed)
                time.sleep(max(0.0, granted[-1][1] - 0.03 - time.monotonic()))
                for node in others:
                    cluster.resume(node)
                answers = {}
                while len(answers) < len(granted):
                    answer = stream.receive()
                    answers[answer.ID] = answer.TTL
            lost = [lease for lease in renewed if answers[lease] == 0]
            assert not lost, f"{len(lost)} of {len(renewed)} leases ended although they were renewed"
            went_on += cluster.status(cluster.leader()).raftTerm == term
    report("renewals while the leader was cut off", renewed=renewed_in_all, went_on=went_on)
