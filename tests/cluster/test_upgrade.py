"""A cluster of two releases: members are replaced one by one, forward, and back again before the version
of the cluster is raised. What all wrote is there on all of them, and what only the newer release knows
is used when every member knows it.

In `make test` the older release is this one, told to act so. LEASED_OLD names a binary of release 0.2
to be used instead: `tools/accept upgrade` builds one.
"""
import os
import re

import grpc
import pytest
from etcd3 import etcdrpc
from membership import add_member, new_server, wait_voting

from harness.cluster import Cluster
from harness.exit_codes import EXIT_CODES
from harness.ops import created_is, put_op
from harness.wait import wait_for

SIZE = 3
OLD = os.environ.get("LEASED_OLD")
VERSION_OLD = 2
VERSION_NEW = 3
RAISE_SECONDS = 30
END_SECONDS = 30
CALL_SECONDS = 10


def make_old(server):
    server.binary = OLD
    server.env = {} if OLD else {"TEST_LEASED_CLUSTER_VERSION": str(VERSION_OLD)}


def make_new(server):
    server.binary = None
    server.env = {}


class Story:
    """Writes a little of everything through each member in turn, and knows what must be there."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.step = 0
        self.leases = []

    def go_on(self):
        self.step += 1
        for index in self.cluster.answering():
            rpc = self.cluster.rpc(index)
            key = b"/step/%d/%d" % (self.step, index)
            lease = self.until_done(lambda rpc=rpc: rpc.grant(600)).ID
            self.leases.append(lease)
            self.until_done(lambda rpc=rpc, key=key, lease=lease: rpc.put(key, b"v", lease=lease))
            self.until_done(
                lambda rpc=rpc, key=key: rpc.txn([created_is(key + b"/txn", 0)], [put_op(key + b"/txn", b"v")])
            )
        revoked = self.leases.pop(0)
        self.until_done(lambda: self.cluster.rpc(self.cluster.answering()[0]).revoke(revoked))

    def until_done(self, call):
        """Members that start and leaders that go make some calls fail; no call is lost for that."""
        answers = []

        def done():
            try:
                answers.append(call())
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    answers.append(None)  # an end that was carried out and not told
                else:
                    assert error.code() in (
                        grpc.StatusCode.UNAVAILABLE,
                        grpc.StatusCode.DEADLINE_EXCEEDED,
                    ), error
            return answers

        wait_for(done, 30, "a call to be carried out")
        return answers[0]

    def check(self):
        cluster = self.cluster
        wait_for(
            lambda: len({contents_of(cluster, index) for index in cluster.answering()}) == 1, 30, "members to be equal"
        )
        for index in cluster.answering():
            leases = set(cluster.rpc(index).leases())
            assert set(self.leases) <= leases


def contents_of(cluster, index):
    """All that clients can see; and the hash, which each release computes in its own way."""
    rpc = cluster.rpc(index)
    everything = etcdrpc.RangeRequest(key=b"\0", range_end=b"\0", serializable=True)
    answer = rpc.kv.Range(everything, timeout=CALL_SECONDS)
    keys = tuple(kv.SerializeToString(deterministic=True) for kv in answer.kvs)
    whole = None if OLD else rpc.maintenance.Hash(etcdrpc.HashRequest(), timeout=CALL_SECONDS).hash
    return keys, answer.header.revision, tuple(sorted(rpc.leases())), whole


def version_of(server):
    """None: of a release that does not say."""
    _, body = server.http_get("/metrics")
    match = re.search(rb"^leased_cluster_version (\d+)$", body, re.M)
    return int(match[1]) if match else None


def versions(cluster):
    return {version_of(cluster[index]) for index in cluster.answering()} - {None}


def replace(cluster, index, make):
    assert cluster.stop(index) == 0
    make(cluster[index])
    cluster.restart(index)


@pytest.fixture
def cluster():
    made = Cluster(SIZE)
    for server in made.servers:
        make_old(server)
    with made:
        yield made


def check_too_old(cluster, index):
    """It stops and says why."""
    cluster.launch(index)
    code = cluster.wait_end(index, END_SECONDS)
    assert code == EXIT_CODES["DATA_CORRUPT"], cluster[index].log_tail()
    if not OLD:
        assert "start a newer release on this member" in cluster[index].log_tail()


def test_members_are_replaced_one_by_one_and_back(cluster):
    story = Story(cluster)
    story.go_on()
    # Forward but for one, and back: nothing that the older release does not know has been written.
    for index in (0, 1):
        replace(cluster, index, make_new)
        story.go_on()
        story.check()
        assert versions(cluster) <= {VERSION_OLD}
    for index in (1, 0):
        replace(cluster, index, make_old)
        story.go_on()
        story.check()
    # All the way: the version is raised when the last one is new.
    for index in range(SIZE):
        assert versions(cluster) <= {VERSION_OLD}
        replace(cluster, index, make_new)
        story.go_on()
    wait_for(lambda: versions(cluster) == {VERSION_NEW}, RAISE_SECONDS, "the version to be raised")
    story.go_on()
    story.check()
    # Now there is no way back: an older member stops, and says why.
    cluster.stop(2)
    make_old(cluster[2])
    check_too_old(cluster, 2)
    make_new(cluster[2])
    cluster.restart(2)
    story.go_on()
    story.check()
    # One that is added.
    if not OLD:
        late = new_server(cluster, "late")
        make_old(late)
        add_member(cluster, cluster[0], late)
        index = cluster.add(late)
        check_too_old(cluster, index)
        make_new(late)
        cluster.restart(index)
        wait_voting(cluster, index)


def test_one_member_alone_has_the_newest_version_at_once():
    with Cluster(1) as alone:
        assert versions(alone) == {VERSION_NEW}
        status = alone.status(0)
        assert status.header.revision >= 1
