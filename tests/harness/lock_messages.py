"""The Lock and Election services of etcd, which Debian's python3-etcd3 has no stubs for.

The messages are described here field by field, and made from that description.
"""
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from harness.rpc import CALL_SECONDS

_PACKAGE = "lockmessages"
_Field = descriptor_pb2.FieldDescriptorProto

_MESSAGES = {
    "ResponseHeader": [
        ("cluster_id", 1, "uint64"), ("member_id", 2, "uint64"), ("revision", 3, "int64"), ("raft_term", 4, "uint64"),
    ],
    "KeyValue": [
        ("key", 1, "bytes"), ("create_revision", 2, "int64"), ("mod_revision", 3, "int64"), ("version", 4, "int64"),
        ("value", 5, "bytes"), ("lease", 6, "int64"),
    ],
    "LeaderKey": [("name", 1, "bytes"), ("key", 2, "bytes"), ("rev", 3, "int64"), ("lease", 4, "int64")],
    "LockRequest": [("name", 1, "bytes"), ("lease", 2, "int64")],
    "LockResponse": [("header", 1, "ResponseHeader"), ("key", 2, "bytes")],
    "UnlockRequest": [("key", 1, "bytes"), ("revision", 1001, "int64")],
    "UnlockResponse": [("header", 1, "ResponseHeader")],
    "CampaignRequest": [("name", 1, "bytes"), ("lease", 2, "int64"), ("value", 3, "bytes")],
    "CampaignResponse": [("header", 1, "ResponseHeader"), ("leader", 2, "LeaderKey")],
    "ProclaimRequest": [("leader", 1, "LeaderKey"), ("value", 2, "bytes")],
    "ProclaimResponse": [("header", 1, "ResponseHeader")],
    "LeaderRequest": [("name", 1, "bytes")],
    "LeaderResponse": [("header", 1, "ResponseHeader"), ("kv", 2, "KeyValue")],
    "ResignRequest": [("leader", 1, "LeaderKey")],
    "ResignResponse": [("header", 1, "ResponseHeader")],
}  # fmt: skip


def _describe():
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number, label=_Field.LABEL_OPTIONAL)
            if kind in _MESSAGES:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_describe())
_factory = message_factory.MessageFactory(_pool)


def kind_of(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def encoded(kind, /, **fields):
    return kind_of(kind)(**fields).SerializeToString()


LeaderKey = kind_of("LeaderKey")


class Locks:
    """Both services over the channel of an Rpc. What may wait is begun with begin_...() and gives a future."""

    def __init__(self, channel):
        self.channel = channel

    def method(self, service, name):
        package = {"Lock": "v3lockpb", "Election": "v3electionpb"}[service]
        return self.channel.unary_unary(
            f"/{package}.{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind_of(f"{name}Response").FromString,
        )

    def begin(self, service, method, timeout=None, /, **fields):
        return self.method(service, method).future(kind_of(f"{method}Request")(**fields), timeout=timeout)

    def call(self, service, method, /, **fields):
        return self.method(service, method)(kind_of(f"{method}Request")(**fields), timeout=CALL_SECONDS)

    def lock(self, name, lease=0):
        return self.call("Lock", "Lock", name=name, lease=lease)

    def begin_lock(self, name, lease=0, timeout=None):
        return self.begin("Lock", "Lock", timeout, name=name, lease=lease)

    def unlock(self, key, **fields):
        return self.call("Lock", "Unlock", key=key, **fields)

    def campaign(self, name, value=b"", lease=0):
        return self.call("Election", "Campaign", name=name, value=value, lease=lease).leader

    def begin_campaign(self, name, value=b"", lease=0):
        return self.begin("Election", "Campaign", name=name, value=value, lease=lease)

    def proclaim(self, leader, value):
        return self.call("Election", "Proclaim", leader=leader, value=value)

    def resign(self, leader):
        return self.call("Election", "Resign", leader=leader)

    def leader(self, name):
        return self.call("Election", "Leader", name=name).kv

    def observe(self, name):
        observe = self.channel.unary_stream(
            "/v3electionpb.Election/Observe",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind_of("LeaderResponse").FromString,
        )
        return observe(kind_of("LeaderRequest")(name=name), timeout=CALL_SECONDS)


def told(future, timeout=CALL_SECONDS):
    """(code, text) of a call that fails."""
    error = future.exception(timeout=timeout)
    assert isinstance(error, grpc.RpcError), "it was answered"
    return error.code(), error.details()
