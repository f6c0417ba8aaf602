"""A renewal costs no log entry and no byte of disk, on no node."""
import time

import pytest
from etcd3 import etcdrpc

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

LEASES = 600
# Good clients renew each third of it; these renew more often.
TTL_SECONDS = 60
RENEWALS = either(9_000, 100_000)
STREAMS_A_NODE = 2
# Near zero: a log entry alone would be a block of 4096 bytes on each node.
BYTES_MAX = 64 * 1024
QUIET_SECONDS = 1.0
# A segment being prepared on a slow disk may pause for longer than the quiet second and go on
# during a round of renewals; what renewals themselves write, they write in every round.
ROUNDS = 4


def written_bytes(cluster):
    """What all nodes have had written to the disk so far."""
    total = 0
    for server in cluster.servers:
        with open(f"/proc/{server.pid}/io", encoding="ascii") as file:
            total += int(dict(line.split(": ") for line in file)["write_bytes"])
    return total


def wait_quiet(cluster):
    """Until what the grants left to be written is written."""

    def quiet():
        before = written_bytes(cluster)
        time.sleep(QUIET_SECONDS)
        return written_bytes(cluster) == before

    wait_for(quiet, 60, "quiet disks")


def renew(stream, leases):
    """One renewal each, all on their way at once; all must be answered with their TTL."""
    for lease in leases:
        stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
    for _ in leases:
        answer = stream.receive()
        assert answer.TTL == TTL_SECONDS, f"lease {answer.ID:x} is gone"


def renew_for_a_round(cluster, streams, shares):
    """How many renewals, in which time, and the log entries and bytes that they cost."""
    done = 0
    begun = time.monotonic()
    index, written = cluster.status(0).raftIndex, written_bytes(cluster)
    while done < RENEWALS:
        for stream, share in zip(streams, shares):
            renew(stream, share)
            done += len(share)
    seconds = time.monotonic() - begun
    entries = cluster.status(0).raftIndex - index
    return done, seconds, entries, written_bytes(cluster) - written


@pytest.mark.seconds_max(300)
def test_renewals_write_nothing():
    with Cluster(timing_flags=()) as cluster:
        nodes = [node for node in range(len(cluster)) for _ in range(STREAMS_A_NODE)]
        rpcs = [cluster.new_rpc(node) for node in nodes]
        streams = [rpc.keep_alive() for rpc in rpcs]
        try:
            leases = [cluster.rpc(number % 3).grant(TTL_SECONDS).ID for number in range(LEASES)]
            shares = [leases[number :: len(streams)] for number in range(len(streams))]
            for _ in range(ROUNDS):
                wait_quiet(cluster)
                done, seconds, entries, bytes_more = renew_for_a_round(cluster, streams, shares)
                if bytes_more <= BYTES_MAX:
                    break
            assert set(leases) <= set(cluster.rpc(0).leases())
        finally:
            for stream in streams:
                stream.close()
            for rpc in rpcs:
                rpc.close()
    report("renewals", renewals=done, seconds=round(seconds, 1), log_entries=entries,
           bytes_written_by_all_nodes=bytes_more)  # fmt: skip
    assert entries == 0, f"{entries} log entries for {done} renewals"
    assert bytes_more <= BYTES_MAX
