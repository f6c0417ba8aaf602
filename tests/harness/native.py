"""leased's own API: messages made from proto/leased_v1.proto, calls over gRPC and JSON."""
import http.client
import json
import pathlib
import subprocess
import tempfile
import threading

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from harness.kinds import PROJECT_ROOT
from harness.rpc import CALL_SECONDS

_PACKAGE = "leased.v1"
# Of calls that wait and of streams.
WAIT_SECONDS = 60.0


def _describe():
    folder = pathlib.Path(PROJECT_ROOT) / "proto"
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "set"
        subprocess.run(
            ["protoc-c", f"--proto_path={folder}", f"--descriptor_set_out={path}", folder / "leased_v1.proto"],
            check=True, timeout=60,
        )  # fmt: skip
        return descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file[0]


_file = _describe()
_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file)
_factory = message_factory.MessageFactory(_pool)
# {"Sessions/Create": MethodDescriptorProto}
METHODS = {f"{service.name}/{method.name}": method for service in _file.service for method in service.method}


def kind_of(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def path_of(method):
    return f"/{_PACKAGE}.{method}"


def request_of(method, /, **fields):
    return kind_of(METHODS[method].input_type.split(".")[-1])(**fields)


def encoded(method, /, **fields):
    return request_of(method, **fields).SerializeToString()


def want(resource, shared=False):
    return {"resource": resource, "mode": int(shared)}


def slots_of(pool, slots=1):
    return {"pool": pool, "slots": slots}


class Requests:
    """An endless stream of requests that a test adds to."""

    def __init__(self):
        self.waiting = []
        self.changed = threading.Condition()
        self.is_over = False

    def add(self, request):
        with self.changed:
            self.waiting.append(request)
            self.changed.notify()

    def end(self):
        with self.changed:
            self.is_over = True
            self.changed.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.is_over)
            if not self.waiting:
                raise StopIteration
            return self.waiting.pop(0)


class Native:
    """Calls over one channel. Methods are named as in "Sessions/Create"."""

    def __init__(self, channel, token=None):
        self.channel = channel
        self.metadata = [("token", token)] if token else None

    def _method(self, kind, method):
        described = METHODS[method]
        return getattr(self.channel, kind)(
            path_of(method),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind_of(described.output_type.split(".")[-1]).FromString,
        )

    def call(self, method, /, timeout_s=CALL_SECONDS, **fields):
        return self._method("unary_unary", method)(
            request_of(method, **fields), timeout=timeout_s, metadata=self.metadata, wait_for_ready=True
        )

    def begin(self, method, /, timeout_s=WAIT_SECONDS, **fields):
        """A call that may wait: a future."""
        return self._method("unary_unary", method).future(
            request_of(method, **fields), timeout=timeout_s, metadata=self.metadata, wait_for_ready=True
        )

    def stream(self, method, /, timeout_s=WAIT_SECONDS, **fields):
        """Answers one after another; to be cancelled."""
        return self._method("unary_stream", method)(
            request_of(method, **fields), timeout=timeout_s, metadata=self.metadata, wait_for_ready=True
        )

    def renewals(self, timeout_s=WAIT_SECONDS):
        """(Requests, the answers)"""
        requests = Requests()
        return requests, self._method("stream_stream", "Sessions/Renew")(
            requests, metadata=self.metadata, timeout=timeout_s
        )

    # Short words for what every test needs

    def session(self, owner="o", ttl_ms=60_000, **fields):
        return self.call("Sessions/Create", owner=owner, ttl_ms=ttl_ms, **fields).session.id

    def acquire(self, session_id, *wants, wait_ms=0, **fields):
        return self.call("Resources/Wait", session_id=session_id, wants=wants, wait_ms=wait_ms, **fields).acquisition

    def begin_acquire(self, session_id, *wants, wait_ms=-1, **fields):
        return self.begin("Resources/Wait", session_id=session_id, wants=wants, wait_ms=wait_ms, **fields)

    def release(self, acquisition):
        answer = self.call(
            "Resources/Release", acquisition_id=acquisition.id, session_id=acquisition.session_id
        )
        return answer.released

    def resource(self, name, **fields):
        return self.call("Resources/Get", resource=name, **fields).state


def ask(server, method, path, body=None, headers=None):
    """(status, text) of an HTTP request."""
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, body=text, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
