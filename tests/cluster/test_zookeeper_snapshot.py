"""The ZooKeeper protocol at a member that was away for so long that it gets a snapshot: its watches find out what they
have missed by comparing, and nothing that shows it is answered before."""
import os
import time

from etcd3 import etcdrpc
from harness import jute, zookeeper
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.wait import wait_for
from harness.zookeeper_client import Client

# Far less than is written: what the member missed is no longer in anybody's log.
FLAGS = ("--snapshot-log-bytes", 2 * 1024 * 1024)
WRITTEN_BYTES = 16 * 1024 * 1024
VALUE_BYTES = 128 * 1024
WATCHES = either(20_000, 120_000)
CONNECTIONS = 3
CHANGED, DELETED, PERSISTENT = 3, 2, 0


def watch_much(client, number):
    """Nodes that do not exist, most of them, and two that do."""
    paths = [f"/none/{number}/{name}" for name in range(WATCHES)]
    client.ask(jute.SET_WATCHES, jute.set_watches(1 << 40, exist=paths), xid=jute.XID_SET_WATCHES)
    for path in ("/changed", "/same"):
        client.request(jute.ADD_WATCH, jute.text(path) + jute.integer(PERSISTENT))
    client.get("/deleted", watch=True)


def write_much(cluster, node, client):
    client.set("/changed", b"x")
    client.delete("/deleted")
    rpc = cluster.rpc(node)
    for number in range(WRITTEN_BYTES // VALUE_BYTES):
        revision = rpc.put(b"/big/%d" % (number % 10), os.urandom(VALUE_BYTES)).header.revision
    rpc.kv.Compact(etcdrpc.CompactionRequest(revision=revision), timeout=30)


def test_what_a_snapshot_hides_is_told_before_it_is_shown():
    cluster = Cluster(extra_flags=FLAGS)
    for server in cluster.servers:
        zookeeper.add_listener(server)
    with cluster:
        away = cluster.followers()[0]
        present = cluster.leader()
        writer = Client(cluster[present].address).connect(40_000)
        for path in ("/changed", "/same", "/deleted"):
            writer.create(path)
        watchers = [Client(cluster[away].address).connect(40_000) for _ in range(CONNECTIONS)]
        for number, watcher in enumerate(watchers):
            watcher.sync()
            watch_much(watcher, number)
        cluster.pause(away)
        write_much(cluster, present, writer)
        cluster.resume(away)
        began = time.monotonic()
        for watcher in watchers:
            watcher.post(jute.SYNC, jute.text("/"))
            watcher.post(jute.GET_DATA, jute.watched("/changed"))
        for watcher in watchers:
            assert watcher.receive().error == 0
            answer = watcher.receive()
            assert answer.body.buffer() == b"x"
            told = {(event.kind, event.path) for event in watcher.events}
            assert {(CHANGED, "/changed"), (DELETED, "/deleted")} <= told
            assert "/same" not in {path for _, path in told}
        report("zookeeper: watches compared after a snapshot", watches=CONNECTIONS * WATCHES,
               seconds=round(time.monotonic() - began, 2),
               loop_ms=cluster[away].metric("leased_loop_cpu_milliseconds_max"))  # fmt: skip
        # They are as they were.
        writer.set("/same", b"y")
        for watcher in watchers:
            watcher.events.clear()
            wait_for(lambda: watcher.sync() and watcher.events, 20.0, "an event")  # pylint: disable=cell-var-from-loop
            assert [(event.kind, event.path) for event in watcher.events] == [(CHANGED, "/same")]
            watcher.close()
        writer.close()
