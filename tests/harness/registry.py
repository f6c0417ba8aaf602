"""leased.v1.Registry: messages made from proto/leased_registry_v1.proto, and calls over gRPC."""
import contextlib
import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from harness.kinds import PROJECT_ROOT
from harness.native import WAIT_SECONDS
from harness.rpc import CALL_SECONDS

_PREFIX = "/leased.v1.Registry/"


def _describe():
    folder = pathlib.Path(PROJECT_ROOT) / "proto"
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "set"
        subprocess.run(
            [
                "protoc-c", f"--proto_path={folder}", "--include_imports", f"--descriptor_set_out={path}",
                folder / "leased_registry_v1.proto",
            ],
            check=True, timeout=60,
        )  # fmt: skip
        return descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file


_pool = descriptor_pool.DescriptorPool()
_files = _describe()
for _file in _files:
    _pool.Add(_file)
_factory = message_factory.MessageFactory(_pool)
# {"Discover": MethodDescriptorProto}
METHODS = {method.name: method for method in _files[-1].service[0].method}


def kind_of(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(f"leased.v1.{name}"))


def path_of(method):
    return _PREFIX + method


def request_of(method, /, **fields):
    return kind_of(METHODS[method].input_type.split(".")[-1])(**fields)


def instance(service, id, **fields):  # pylint: disable=redefined-builtin
    return {"service": service, "id": id, "address": "10.0.0.1", "port": 80, "ttl_ms": 60_000, **fields}


class Registry:
    """Calls over one channel. Methods are named as in "Discover"."""

    def __init__(self, channel, token=None):
        self.channel = channel
        self.metadata = [("token", token)] if token else None

    def _method(self, kind, method):
        return getattr(self.channel, kind)(
            path_of(method),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind_of(METHODS[method].output_type.split(".")[-1]).FromString,
        )

    def call(self, method, /, timeout_s=CALL_SECONDS, **fields):
        return self._method("unary_unary", method)(
            request_of(method, **fields), timeout=timeout_s, metadata=self.metadata, wait_for_ready=True
        )

    @contextlib.contextmanager
    def watch(self, service, timeout_s=WAIT_SECONDS, **fields):
        """Answers one after another."""
        stream = self._method("unary_stream", "WatchService")(
            request_of("WatchService", service=service, **fields), timeout=timeout_s, metadata=self.metadata,
            wait_for_ready=True,
        )  # fmt: skip
        try:
            yield stream
        finally:
            stream.cancel()

    def renew(self, *lease_ids, timeout_s=CALL_SECONDS):
        requests = iter([request_of("Renew", lease_ids=lease_ids, sequence=7)])
        stream = self._method("stream_stream", "Renew")(requests, timeout=timeout_s, metadata=self.metadata)
        return next(iter(stream))

    # Short words for what every test needs

    def register(self, service, id, previous_token=0, **fields):  # pylint: disable=redefined-builtin
        return self.call("RegisterInstance", instance=instance(service, id, **fields), previous_token=previous_token)

    def discover(self, service, **fields):
        return self.call("Discover", service=service, **fields)

    def ids(self, service, **fields):
        return [each.id for each in self.discover(service, **fields).instances]
