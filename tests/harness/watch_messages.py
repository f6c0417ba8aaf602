"""Watch messages with the fields that Debian's python3-etcd3 does not know yet.

Its description ends before client-chosen ids, fragments and progress requests.
The messages are described here field by field, and made from that description.
"""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "watchmessages"
_Field = descriptor_pb2.FieldDescriptorProto

_KEY_VALUE = [
    ("key", 1, "bytes"),
    ("create_revision", 2, "int64"),
    ("mod_revision", 3, "int64"),
    ("version", 4, "int64"),
    ("value", 5, "bytes"),
    ("lease", 6, "int64"),
]
_EVENT = [
    ("type", 1, "int32"),
    ("kv", 2, "KeyValue"),
    ("prev_kv", 3, "KeyValue"),
]
_HEADER = [
    ("cluster_id", 1, "uint64"),
    ("member_id", 2, "uint64"),
    ("revision", 3, "int64"),
    ("raft_term", 4, "uint64"),
]
_CREATE = [
    ("key", 1, "bytes"),
    ("range_end", 2, "bytes"),
    ("start_revision", 3, "int64"),
    ("progress_notify", 4, "bool"),
    ("filters", 5, "int32", "repeated"),
    ("prev_kv", 6, "bool"),
    ("watch_id", 7, "int64"),
    ("fragment", 8, "bool"),
]
_CANCEL = [("watch_id", 1, "int64")]
_REQUEST = [
    ("create_request", 1, "WatchCreateRequest"),
    ("cancel_request", 2, "WatchCancelRequest"),
    ("progress_request", 3, "WatchProgressRequest"),
]
_RESPONSE = [
    ("header", 1, "ResponseHeader"),
    ("watch_id", 2, "int64"),
    ("created", 3, "bool"),
    ("canceled", 4, "bool"),
    ("compact_revision", 5, "int64"),
    ("cancel_reason", 6, "string"),
    ("fragment", 7, "bool"),
    ("events", 11, "Event", "repeated"),
]
_MESSAGES = {
    "KeyValue": _KEY_VALUE,
    "Event": _EVENT,
    "ResponseHeader": _HEADER,
    "WatchCreateRequest": _CREATE,
    "WatchCancelRequest": _CANCEL,
    "WatchProgressRequest": [],
    "WatchRequest": _REQUEST,
    "WatchResponse": _RESPONSE,
}


def _describe():
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, *repeated in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_describe())
_factory = message_factory.MessageFactory(_pool)


def _message(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


WatchRequest = _message("WatchRequest")
WatchResponse = _message("WatchResponse")

EVENT_PUT = 0
EVENT_DELETE = 1
FILTER_NO_PUT = 0
FILTER_NO_DELETE = 1
