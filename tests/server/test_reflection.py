"""Server reflection: what tools such as grpcurl ask before they call. The descriptors must be enough
to build the messages from, and the services are those that are served."""
import subprocess

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from harness import KIND_LEASED, Server, binary_of

VERSIONS = ("v1", "v1alpha")


def encode(field, payload):
    size, head = len(payload), bytes([field << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + payload


def fields(data):
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag, value = varint(), varint()
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        found.append((tag >> 3, value))
    return found


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED, extra_flags=["--doors", "etcd,native,registry,xds"]) as running:
        yield running


def ask(server, version, *requests):
    """The answers, as lists of fields; all on one stream."""
    with grpc.insecure_channel(server.endpoint) as channel:
        method = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        return [fields(answer) for answer in method(iter(requests), timeout=30)]


def part(answer, number):
    return next(value for found, value in answer if found == number)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_services_that_are_served_are_listed(server, version):
    (answer,) = ask(server, version, encode(7, b"*"))
    listed = {fields(service)[0][1].decode() for _, service in fields(part(answer, 6))}
    text = subprocess.run([binary_of(KIND_LEASED), "--list-requests"], stdout=subprocess.PIPE, check=True).stdout
    names = [line.split("\t")[1] for line in text.decode().splitlines()]
    assert listed == {name.split("/")[1] for name in names if name.startswith("/")}
    assert part(answer, 2) == encode(7, b"*")


@pytest.mark.parametrize("version", VERSIONS)
def test_descriptors_are_whole(server, version):
    (answer,) = ask(server, version, encode(4, b"etcdserverpb.KV"))
    files = [descriptor_pb2.FileDescriptorProto.FromString(data) for _, data in fields(part(answer, 4))]
    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in files}
    while waiting:
        ready = [file for file in waiting.values() if not set(file.dependency) & set(waiting)]
        assert ready, "what is imported is missing"
        for file in ready:
            pool.Add(waiting.pop(file.name))
    put = pool.FindServiceByName("etcdserverpb.KV").FindMethodByName("Put")
    assert put.input_type.fields_by_name["lease"].number == 3
    assert pool.FindServiceByName("v3lockpb.Lock").methods_by_name["Lock"]


def test_what_is_not_there_is_told_on_a_stream_that_goes_on(server):
    answers = ask(
        server, "v1", encode(4, b"no.Such"), encode(3, b"none.proto"), encode(5, b""), b"",
        encode(4, b"etcdserverpb.PutRequest"), encode(3, b"etcd.proto"),
    )  # fmt: skip
    codes = [fields(part(answer, 7))[0][1] for answer in answers[:4]]
    assert codes == [5, 5, 5, 3]
    assert part(answers[4], 4) == part(answers[5], 4)


def test_a_malformed_request_ends_the_stream(server):
    with pytest.raises(grpc.RpcError) as caught:
        ask(server, "v1", b"\x22\xff\xff")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


# Action and version, as etcd 3.5 answers to a version that is not the one before its own.
DOWNGRADES = [
    (b"\x12\x033.3", grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: invalid downgrade target version"),
    (b"\x12\x01x", grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: wrong downgrade target version format"),
    (b"", grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: wrong downgrade target version format"),
    (b"\x08\x01\x12\x053.5.0", grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: invalid downgrade target version"),
    (b"\x08\x02", grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: no inflight downgrade job"),
    (b"\x08\x07", grpc.StatusCode.UNKNOWN, "etcdserver: unknown method"),
]


def test_a_downgrade_is_refused_as_etcd_refuses_one_that_cannot_be(server):
    with grpc.insecure_channel(server.endpoint) as channel:
        method = channel.unary_unary("/etcdserverpb.Maintenance/Downgrade")
        for request, code, text in DOWNGRADES:
            with pytest.raises(grpc.RpcError) as caught:
                method(request, timeout=30)
            assert (caught.value.code(), caught.value.details()) == (code, text), request
