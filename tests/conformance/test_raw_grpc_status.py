"""gRPC itself, maintenance and plain HTTP: what every call has in common."""
import contextlib
import json
import threading

import grpc
import pytest
from etcd3 import etcdrpc

from harness import Server, kinds
from harness.ops import end_of
from harness.rpc import CALL_SECONDS, Rpc, refused
from harness.watch_messages import EVENT_PUT

UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED


def raw(rpc, method, payload, **how):
    """A unary call of bytes to any method."""
    return rpc.channel.unary_unary(method)(payload, timeout=CALL_SECONDS, **how)


# Calls that are wrong in themselves


@pytest.mark.parametrize(
    "method",
    ["/etcdserverpb.KV/NoSuchMethod", "/no.such.Service/Range", "/etcdserverpb.kv/range"],
)
def test_unknown_method(rpc, method):
    with refused(UNIMPLEMENTED):
        raw(rpc, method, b"")
    assert rpc.revision() >= 1


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\xff\xff",
        b"\x0a\xff\x01a",
        b"\x0a\x7f",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    ],
)
def test_malformed_message(rpc, payload):
    for method in ("KV/Range", "KV/Txn", "Lease/LeaseGrant"):
        with refused(grpc.StatusCode.INTERNAL):
            raw(rpc, f"/etcdserverpb.{method}", payload)
    assert rpc.revision() >= 1


def test_malformed_message_on_a_stream(rpc):
    for method in ("/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive"):
        with refused(grpc.StatusCode.INTERNAL):
            list(rpc.channel.stream_stream(method)(iter([b"\xff\xff"]), timeout=CALL_SECONDS))
    assert rpc.revision() >= 1


def test_unknown_fields_are_skipped(rpc, at):
    rpc.put(at("k"), b"v")
    request = etcdrpc.RangeRequest(key=at("k")).SerializeToString()
    # Field 1000 of each wire type a proto3 message may have.
    unknown = b"\xc0\x3e\x01" + b"\xc1\x3e" + b"8bytes!!" + b"\xc2\x3e\x03abc" + b"\xc5\x3e4byt"
    answer = etcdrpc.RangeResponse.FromString(raw(rpc, "/etcdserverpb.KV/Range", request + unknown))
    assert answer.kvs[0].value == b"v"


def is_etcd_34(server):
    return b'"3.4.' in server.http_get("/version")[1]


def test_deflated_request_is_refused_cleanly(rpc, at):
    request = etcdrpc.PutRequest(key=at("k"), value=b"x" * 10000)
    with refused(UNIMPLEMENTED):
        rpc.kv.Put(request, timeout=CALL_SECONDS, compression=grpc.Compression.Deflate)
    assert rpc.range(at("k"), count_only=True).count == 0


def test_gzip_is_taken(server, rpc, at):
    """As by etcd 3.5; 3.4 refuses it."""
    if is_etcd_34(server):
        return
    for size in (1, 100, 10_000, 1_000_000):
        request = etcdrpc.PutRequest(key=at("k"), value=bytes(range(100)) * (size // 100) + b"x" * (size % 100))
        rpc.kv.Put(request, timeout=CALL_SECONDS, compression=grpc.Compression.Gzip)
        assert rpc.range(at("k")).kvs[0].value == request.value


def test_gzip_may_not_become_larger_than_a_message(server, rpc, at):
    if is_etcd_34(server):
        return
    request = etcdrpc.PutRequest(key=at("k"), value=bytes(4_000_000))
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        rpc.kv.Put(request, timeout=CALL_SECONDS, compression=grpc.Compression.Gzip)
    assert rpc.range(at("k"), count_only=True).count == 0


def test_gzip_on_a_stream(server, rpc):
    if is_etcd_34(server):
        return
    lease = rpc.grant(60).ID
    requests = [etcdrpc.LeaseKeepAliveRequest(ID=lease).SerializeToString()] * 3
    answers = rpc.channel.stream_stream("/etcdserverpb.Lease/LeaseKeepAlive")(
        iter(requests), timeout=CALL_SECONDS, compression=grpc.Compression.Gzip
    )
    assert [etcdrpc.LeaseKeepAliveResponse.FromString(answer).TTL for answer in answers] == [60] * 3


# Metadata and deadlines


def test_metadata_of_clientv3_is_accepted(rpc, at):
    metadata = (("hasleader", "true"), ("client-api-version", "3.5.13"), ("x-unknown", "y" * 4000))
    request = etcdrpc.PutRequest(key=at("k"), value=b"v")
    assert rpc.kv.Put(request, timeout=CALL_SECONDS, metadata=metadata).header.revision > 1


def test_authority_may_be_a_whole_url(server, at):
    """`etcdctl endpoint status --cluster` sends the member's client URL there."""
    with Rpc(server, [("grpc.default_authority", server.client_url)]) as rpc:
        assert rpc.put(at("k")).header.revision > 1


def test_token_is_not_looked_at_while_authentication_is_off(server, rpc, at):
    """As in etcd 3.5: who had logged in goes on when authentication is switched off. etcd 3.4 refuses."""
    refusal = refused(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
    with refusal if is_etcd_34(server) else contextlib.nullcontext():
        rpc.kv.Range(
            etcdrpc.RangeRequest(key=at("k")), timeout=CALL_SECONDS, metadata=(("token", "stolen"),)
        )


def test_deadline_of_a_unary_call(server, rpc, at):
    rpc.put(at("k"), b"v")
    server.pause()
    try:
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            rpc.kv.Range(etcdrpc.RangeRequest(key=at("k")), timeout=0.3)
    finally:
        server.resume()
    assert rpc.range(at("k")).kvs[0].value == b"v"


def test_many_calls_at_once_on_one_connection(rpc, at):
    count = 500
    calls = [
        rpc.kv.Put.future(
            etcdrpc.PutRequest(key=at(f"{number:03}"), value=b"%d" % number), timeout=CALL_SECONDS
        )
        for number in range(count)
    ]
    revisions = [call.result().header.revision for call in calls]
    assert len(set(revisions)) == count
    found = rpc.range(at(), end_of(at()))
    assert [kv.value for kv in found.kvs] == [b"%d" % number for number in range(count)]
    rpc.delete(at(), end_of(at()))


# Headers


def test_every_answer_names_the_same_cluster_and_member(rpc, at):
    lease = rpc.grant(600)
    headers = [
        lease.header,
        rpc.put(at("k"), lease=lease.ID).header,
        rpc.range(at("k")).header,
        rpc.txn().header,
        rpc.delete(at("k")).header,
        rpc.time_to_live(lease.ID).header,
        rpc.revoke(lease.ID).header,
        rpc.compact(rpc.revision()).header,
        rpc.maintenance.Status(etcdrpc.StatusRequest(), timeout=CALL_SECONDS).header,
        rpc.cluster.MemberList(etcdrpc.MemberListRequest(), timeout=CALL_SECONDS).header,
        rpc.maintenance.HashKV(etcdrpc.HashKVRequest(), timeout=CALL_SECONDS).header,
    ]
    assert len({(header.cluster_id, header.member_id) for header in headers}) == 1
    assert headers[0].cluster_id != 0
    assert headers[0].member_id != 0
    assert all(header.raft_term > 0 for header in headers)


# Maintenance


def test_status(rpc, at):
    rpc.put(at("k"), b"v")
    first = rpc.maintenance.Status(etcdrpc.StatusRequest(), timeout=CALL_SECONDS)
    rpc.put(at("k"), b"w")
    second = rpc.maintenance.Status(etcdrpc.StatusRequest(), timeout=CALL_SECONDS)
    assert first.leader == first.header.member_id
    assert first.raftTerm == first.header.raft_term
    assert second.raftIndex > first.raftIndex
    assert second.header.revision == first.header.revision + 1
    major, minor, _ = (int(part) for part in first.version.split("."))
    assert (major, minor) >= (3, 4)


def test_members(server, rpc):
    response = rpc.cluster.MemberList(etcdrpc.MemberListRequest(), timeout=CALL_SECONDS)
    assert len(response.members) == 1
    member = response.members[0]
    assert member.ID == response.header.member_id
    assert member.name == server.name
    assert list(member.peerURLs) == [server.peer_url]
    assert list(member.clientURLs) == [server.client_url]


def test_snapshot_counts_down_its_bytes(rpc, at):
    rpc.put(at("k"), b"x" * 200_000)
    chunks = list(rpc.maintenance.Snapshot(etcdrpc.SnapshotRequest(), timeout=CALL_SECONDS))
    assert sum(len(chunk.blob) for chunk in chunks) > 200_000
    remaining = [chunk.remaining_bytes for chunk in chunks]
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    rpc.delete(at("k"))


def test_space_alarm_stops_writes_until_disarmed(rpc, at):
    def alarm(action):
        request = etcdrpc.AlarmRequest(action=action, alarm=etcdrpc.NOSPACE)
        answer = rpc.maintenance.Alarm(request, timeout=CALL_SECONDS)
        return [member.alarm for member in answer.alarms]

    rpc.put(at("k"), b"v")
    no_space = "etcdserver: mvcc: database space exceeded"
    assert alarm(etcdrpc.AlarmRequest.GET) == []
    try:
        assert alarm(etcdrpc.AlarmRequest.ACTIVATE) == [etcdrpc.NOSPACE]
        assert alarm(etcdrpc.AlarmRequest.GET) == [etcdrpc.NOSPACE]
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, no_space):
            rpc.put(at("k"), b"w")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, no_space):
            rpc.grant(600)
        # Reading and making room go on.
        assert rpc.range(at("k")).kvs[0].value == b"v"
        assert rpc.delete(at("k")).deleted == 1
    finally:
        alarm(etcdrpc.AlarmRequest.DEACTIVATE)
    assert alarm(etcdrpc.AlarmRequest.GET) == []
    rpc.put(at("k"), b"w")


# Plain HTTP


def test_health_version_and_metrics(server):
    status, body = server.http_get("/health")
    assert (status, json.loads(body)["health"]) == (200, "true")
    status, body = server.http_get("/version")
    version = json.loads(body)
    assert status == 200
    assert set(version) >= {"etcdserver", "etcdcluster"}
    assert all(part.isdigit() for part in version["etcdserver"].split("."))
    status, body = server.http_get("/metrics")
    assert status == 200
    assert any(line.startswith(b"# TYPE ") for line in body.splitlines())
    assert server.http_get("/no-such-page")[0] == 404


# The life of the process


@pytest.fixture(params=kinds())
def own_server(request):
    with Server(request.param) as running:
        yield running


def test_restart_keeps_everything(own_server):
    with Rpc(own_server) as rpc:
        lease = rpc.grant(600, 4711).ID
        rpc.put(b"plain", b"1")
        rpc.put(b"leased", b"2", lease=lease)
        rpc.put(b"plain", b"3")
        rpc.delete(b"gone")
        rpc.compact(rpc.revision() - 1)
        before = rpc.range(b"\0", b"\0")
        hash_before = rpc.maintenance.HashKV(etcdrpc.HashKVRequest(), timeout=CALL_SECONDS)
    own_server.restart()
    with Rpc(own_server) as rpc:
        after = rpc.range(b"\0", b"\0")
        assert after.kvs == before.kvs
        assert after.header.revision == before.header.revision
        assert after.header.cluster_id == before.header.cluster_id
        assert after.header.member_id == before.header.member_id
        hash_after = rpc.maintenance.HashKV(etcdrpc.HashKVRequest(), timeout=CALL_SECONDS)
        assert (hash_after.hash, hash_after.compact_revision) == (
            hash_before.hash,
            hash_before.compact_revision,
        )
        assert rpc.leases() == [4711]
        info = rpc.time_to_live(4711, keys=True)
        assert (info.grantedTTL, list(info.keys)) == (600, [b"leased"])
        assert info.TTL >= 590
        # Tokens only grow.
        assert rpc.put(b"next").header.revision == before.header.revision + 1
        rpc.revoke(4711)
        assert rpc.range(b"leased", count_only=True).count == 0


def test_shutdown_ends_streams_and_refuses_calls(own_server):
    with Rpc(own_server) as rpc, rpc.watch() as stream:
        stream.create(b"k")
        rpc.put(b"k", b"v")
        assert stream.events(1)[0].type == EVENT_PUT
        stopping = threading.Thread(target=own_server.stop)
        stopping.start()
        with pytest.raises((grpc.RpcError, EOFError)) as ended:
            stream.receive()
        if isinstance(ended.value, grpc.RpcError):
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        stopping.join()
        with refused(grpc.StatusCode.UNAVAILABLE):
            rpc.range(b"k")


# gRPC's own health service

SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x03"


def test_health_of_the_server(rpc):
    assert raw(rpc, "/grpc.health.v1.Health/Check", b"") == SERVING
    watch = rpc.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=CALL_SECONDS)
    assert next(watch) == SERVING
    watch.cancel()


@pytest.mark.parametrize("name", [b"etcdserverpb.KV", b"no.such.Service", b"health"])
def test_health_of_a_service(rpc, name):
    request = b"\x0a" + bytes([len(name)]) + name
    with refused(grpc.StatusCode.NOT_FOUND, "unknown service"):
        raw(rpc, "/grpc.health.v1.Health/Check", request)
    watch = rpc.channel.unary_stream("/grpc.health.v1.Health/Watch")(request, timeout=CALL_SECONDS)
    assert next(watch) == SERVICE_UNKNOWN
    assert watch.is_active()
    watch.cancel()
