"""Any node serves any client, and all of them tell the same."""
import json
import subprocess

import grpc
import pytest
from etcd3 import etcdrpc

from harness.cluster import Cluster
from harness.etcdctl import etcdctl_path
from harness.kinds import clean_environment
from harness.ops import created_is, end_of, put_op, range_op, value_is
from harness.rpc import refused
from harness.watch_messages import EVENT_DELETE, EVENT_PUT

PUTS_A_NODE = 20
NODES = range(3)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


def etcdctl(cluster, *words):
    return subprocess.run(
        [etcdctl_path(), "--endpoints", cluster.endpoints, *words],
        env={**clean_environment(), "ETCDCTL_API": "3"},
        capture_output=True, timeout=20, check=True, text=True,
    )  # fmt: skip


def keep_alive(rpc, lease):
    with rpc.keep_alive() as stream:
        stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
        return stream.receive().TTL


@pytest.mark.parametrize("node", NODES)
def test_a_write_through_one_node_is_read_through_any_other_at_once(cluster, node, prefix):
    writer = cluster.rpc(node)
    revision = 0
    for number in range(PUTS_A_NODE):
        key, value = f"{prefix}{node}".encode(), b"%d" % number
        answer = writer.put(key, value)
        assert answer.header.revision > revision
        revision = answer.header.revision
        for reader in NODES:
            seen = cluster.rpc(reader).range(key)
            assert seen.kvs[0].value == value, f"old value through node {reader}"
            assert seen.kvs[0].mod_revision == revision
            assert seen.header.revision >= revision
            assert seen.header.member_id != answer.header.member_id or reader == node


@pytest.mark.parametrize("node", NODES)
def test_a_transaction_through_any_node_decides_by_the_newest_state(cluster, node, prefix):
    key = f"{prefix}{node}".encode()
    for chooser in NODES:
        answer = cluster.rpc(chooser).txn(
            [created_is(key, 0)], [put_op(key, b"%d" % chooser)], [range_op(key)]
        )
        assert answer.succeeded == (chooser == 0)
    rpc, other = cluster.rpc(node), cluster.rpc((node + 1) % len(cluster))
    for number in range(10):
        other.put(key, b"%d" % number)
        assert rpc.txn([value_is(key, b"%d" % number)], [put_op(key, b"taken")]).succeeded
        assert other.range(key).kvs[0].value == b"taken"
    assert rpc.delete(key).deleted == 1
    assert other.range(key).count == 0


@pytest.mark.parametrize("node", NODES)
def test_a_lease_of_one_node_is_a_lease_of_all(cluster, node, prefix):
    rpc = cluster.rpc(node)
    others = [cluster.rpc(other) for other in NODES if other != node]
    key = f"{prefix}{node}".encode()
    lease = rpc.grant(60).ID
    others[0].put(key, b"x", lease=lease)
    for one in (rpc, *others):
        assert lease in one.leases()
        assert keep_alive(one, lease) == 60
        asked = one.time_to_live(lease, keys=True)
        assert (asked.grantedTTL, list(asked.keys)) == (60, [key])
        assert 55 <= asked.TTL <= 60
    others[1].revoke(lease)
    for one in (rpc, *others):
        assert one.range(key).count == 0
        assert one.time_to_live(lease).TTL == -1
        assert keep_alive(one, lease) == 0
        with refused(grpc.StatusCode.NOT_FOUND):
            one.revoke(lease)


def test_a_lease_that_nobody_renews_ends_on_every_node(cluster, prefix):
    key = prefix.encode()
    watches = [cluster.rpc(node).watch() for node in NODES]
    for watch in watches:
        watch.create(key)
    lease = cluster.rpc(0).grant(1).ID
    cluster.rpc(1).put(key, b"x", lease=lease)
    seen = [[(event.type, event.kv.mod_revision) for event in watch.events(2)] for watch in watches]
    for watch in watches:
        watch.close()
    assert seen[0] == seen[1] == seen[2]
    assert [kind for kind, _ in seen[0]] == [EVENT_PUT, EVENT_DELETE]
    for node in NODES:
        assert lease not in cluster.rpc(node).leases()


def test_watches_through_every_node_tell_the_same_story(cluster, prefix):
    first = prefix.encode()
    watches = [cluster.rpc(node).watch() for node in NODES]
    begun = cluster.rpc(0).revision()
    for watch in watches:
        watch.create(first, end_of(first))
    for number in range(30):
        cluster.rpc(number % 3).put(first + b"%d" % (number % 7), b"%d" % number)
        if number % 5 == 4:
            cluster.rpc(number % 3).delete(first + b"%d" % (number % 7))
    stories = [
        [(event.type, event.kv.key, event.kv.value, event.kv.mod_revision)
         for event in watch.events(36)]
        for watch in watches
    ]  # fmt: skip
    for watch in watches:
        watch.close()
    assert len(stories[0]) == 36
    assert stories[0] == stories[1] == stories[2]
    with cluster.rpc(2).watch() as late:
        late.create(first, end_of(first), start_revision=begun + 1)
        assert [event.kv.mod_revision for event in late.events(36)] == [s[3] for s in stories[0]]


def test_there_is_one_leader_and_all_know_it(cluster):
    leader = cluster.leader()
    statuses = [cluster.status(node) for node in NODES]
    assert len({status.header.member_id for status in statuses}) == 3
    assert len({status.header.cluster_id for status in statuses}) == 1
    assert {status.leader for status in statuses} == {statuses[leader].header.member_id}
    members = cluster.rpc(0).cluster.MemberList(etcdrpc.MemberListRequest(), timeout=5).members
    assert {member.ID for member in members} == {status.header.member_id for status in statuses}
    assert {url for member in members for url in member.peerURLs} == {
        server.peer_url for server in cluster.servers
    }


def test_etcdctl_sees_a_healthy_cluster_through_all_endpoints(cluster):
    table = json.loads(etcdctl(cluster, "endpoint", "status", "-w", "json").stdout)
    assert len(table) == 3
    leading = [
        row for row in table if row["Status"]["leader"] == row["Status"]["header"]["member_id"]
    ]
    assert len(leading) == 1
    health = etcdctl(cluster, "endpoint", "health")
    assert (health.stdout + health.stderr).count("is healthy") == 3
    assert etcdctl(cluster, "member", "list").stdout.count("started") == 3
    etcdctl(cluster, "put", "/typed", "value")
    assert etcdctl(cluster, "get", "/typed").stdout == "/typed\nvalue\n"


def test_all_replicas_hold_the_same(cluster):
    assert cluster.wait_equal() > 1


def test_five_nodes_serve_while_two_are_down():
    with Cluster(size=5) as five:
        for node in range(5):
            five.rpc(node).put(b"/five/%d" % node, b"x")
        for node in range(5):
            assert five.rpc(node).range(b"/five/", end_of(b"/five/")).count == 5
        for _ in range(2):
            five.kill(five.leader())
            five.leader()
            five.rpc(five.answering()[0]).put(b"/five/more", b"x")
        assert len(five.answering()) == 3
        for node in five.answering():
            assert five.rpc(node).range(b"/five/", end_of(b"/five/")).count == 6
        five.restart(*(set(range(5)) - set(five.answering())))
        five.leader()
        five.wait_equal()
