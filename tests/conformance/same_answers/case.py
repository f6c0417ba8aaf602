"""What a case is, and how answers are written down so that two servers can be compared.

A case is a function that takes a Talk and asks whatever it likes. Every answer and every error becomes a line.
Revisions are counted from where the case began; ids of members and clusters, terms and sizes are left out.
"""
import grpc
from etcd3 import etcdrpc
from google.protobuf.message import Message

CASES = []

REVISIONS = {"revision", "create_revision", "mod_revision", "compact_revision"}
LEFT_OUT = {"cluster_id", "member_id", "raft_term"}


def case(function=None, *, since=(3, 4)):
    """Registers a case. `since`: the first etcd that answers as leased does."""
    if function is None:
        return lambda later: case(later, since=since)
    function.since = since
    CASES.append(function)
    return function


class Talk:
    """A server, and what it has said so far."""

    def __init__(self, rpc, name):
        self.rpc = rpc
        self.lines = []
        self._prefix = f"same/{name}/"
        self.base = rpc.revision()

    def at(self, name=""):
        """A key of the case's own."""
        return (self._prefix + name).encode()

    def end(self):
        """Of the range of all its keys."""
        return (self._prefix[:-1] + "0").encode()

    def say(self, label, call, *arguments, **fields):
        """Asks, writes the answer down and gives it back; None after an error."""
        try:
            answer = call(*arguments, **fields)
        except grpc.RpcError as error:
            self.note(f"{label}: {error.code().name} {error.details()}")
            return None
        self.note(f"{label}: {self.text(answer)}")
        return answer

    def note(self, line):
        self.lines.append(line)

    def text(self, answer):
        if isinstance(answer, Message):
            return self._message(answer)
        if isinstance(answer, (list, tuple)):
            return "[" + ", ".join(self.text(one) for one in answer) + "]"
        return str(answer)

    def _message(self, message):
        parts = []
        for field, value in message.ListFields():
            if field.name in LEFT_OUT and field.containing_type.name == "ResponseHeader":
                continue
            if field.name in REVISIONS and value > 1:
                parts.append(f"{field.name}=+{value - self.base}")
            elif field.label == field.LABEL_REPEATED:
                parts.append(f"{field.name}=[{', '.join(self.text(one) for one in value)}]")
            else:
                parts.append(f"{field.name}={self.text(value)}")
        return "{" + " ".join(parts) + "}"


def put(key, value=b"", **fields):
    return etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=key, value=value, **fields))


def get(key, range_end=b"", **fields):
    return etcdrpc.RequestOp(
        request_range=etcdrpc.RangeRequest(key=key, range_end=range_end, **fields)
    )


def delete(key, range_end=b"", **fields):
    return etcdrpc.RequestOp(
        request_delete_range=etcdrpc.DeleteRangeRequest(key=key, range_end=range_end, **fields)
    )


def txn(success=(), failure=(), compare=()):
    return etcdrpc.RequestOp(
        request_txn=etcdrpc.TxnRequest(compare=compare, success=success, failure=failure)
    )


def compare(key, target, result, **fields):
    return etcdrpc.Compare(key=key, target=target, result=result, **fields)
