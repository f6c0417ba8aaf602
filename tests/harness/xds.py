"""xDS on the wire: messages made from proto/xds.proto, streams that can be stepped through, REST, and a server that
speaks it. Services are registered through the registry's own API, as JSON."""
import http.client
import json
import pathlib
import queue
import subprocess
import tempfile
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from harness.kinds import KIND_LEASED, PROJECT_ROOT
from harness.rpc import CALL_SECONDS
from harness.server import Server

_PACKAGE = "envoy.service.discovery.v3"
_URL = "type.googleapis.com/envoy.config."
CLUSTERS = _URL + "cluster.v3.Cluster"
ENDPOINTS = _URL + "endpoint.v3.ClusterLoadAssignment"
LISTENERS = _URL + "listener.v3.Listener"
ROUTES = _URL + "route.v3.RouteConfiguration"
MANAGER = (
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)
AGGREGATED = f"/{_PACKAGE}.AggregatedDiscoveryService/"
OWN = {
    CLUSTERS: "/envoy.service.cluster.v3.ClusterDiscoveryService/{}Clusters",
    ENDPOINTS: "/envoy.service.endpoint.v3.EndpointDiscoveryService/{}Endpoints",
    LISTENERS: "/envoy.service.listener.v3.ListenerDiscoveryService/{}Listeners",
    ROUTES: "/envoy.service.route.v3.RouteDiscoveryService/{}Routes",
}
UNKNOWN, HEALTHY, UNHEALTHY, DRAINING = 0, 1, 2, 3
# How long nothing must come where nothing is due.
QUIET_SECONDS = 0.2


def _describe():
    folder = pathlib.Path(PROJECT_ROOT) / "proto"
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "set"
        subprocess.run(
            ["protoc-c", f"--proto_path={folder}", f"--descriptor_set_out={path}", folder / "xds.proto"],
            check=True, timeout=60,
        )  # fmt: skip
        return descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file[0]


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_describe())
_factory = message_factory.MessageFactory(_pool)


def kind_of(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Request, Response = kind_of("DiscoveryRequest"), kind_of("DiscoveryResponse")
DeltaRequest, DeltaResponse = kind_of("DeltaDiscoveryRequest"), kind_of("DeltaDiscoveryResponse")


def opened(any_message):
    """The resource in an Any."""
    return kind_of(any_message.type_url.rsplit(".", 1)[1]).FromString(any_message.value)


def endpoints_of(assignment):
    """{(address, port): (health, weight, zone, priority)}"""
    return {
        (at.endpoint.address.socket_address.address, at.endpoint.address.socket_address.port_value): (
            at.health_status, at.load_balancing_weight.value, zone.locality.zone, zone.priority,
        )
        for zone in assignment.endpoints
        for at in zone.lb_endpoints
    }  # fmt: skip


def ports_of(assignment):
    """{port: health}"""
    return {port: facts[0] for (_, port), facts in endpoints_of(assignment).items()}


class Stream:
    """One stream of requests and responses. Use as a context manager."""

    def __init__(self, endpoint, path, delta=False, credentials=(), zone="", node="test"):
        self.delta = delta
        self.channel = grpc.insecure_channel(
            endpoint, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        )
        self.node, self.zone = node, zone
        self._asked = queue.Queue()
        self._answers = queue.Queue()
        self.error = None
        method = self.channel.stream_stream(
            path, request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=(DeltaResponse if delta else Response).FromString,
        )  # fmt: skip
        self._call = method(iter(self._asked.get, None), metadata=credentials)
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self):
        try:
            for answer in self._call:
                self._answers.put(answer)
        except grpc.RpcError as error:
            self.error = error
        self._answers.put(None)

    def ask(self, type_url, names=(), nonce="", version="", error=None, **fields):
        request = (DeltaRequest if self.delta else Request)(type_url=type_url, response_nonce=nonce, **fields)
        request.node.id = self.node
        request.node.locality.zone = self.zone
        (request.resource_names_subscribe if self.delta else request.resource_names).extend(names)
        if version:
            request.version_info = version
        if error is not None:
            request.error_detail.message = error
        self._asked.put(request)

    def acknowledge(self, answer, names=(), error=None):
        if self.delta:
            self.ask(answer.type_url, nonce=answer.nonce, error=error)
        else:
            self.ask(answer.type_url, names, answer.nonce, answer.version_info, error)

    def receive(self, seconds=CALL_SECONDS):
        """The next response; TimeoutError, or the grpc.RpcError that ended the stream."""
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if answer is None:
            raise self.error or EOFError()
        return answer

    def is_quiet(self, seconds=QUIET_SECONDS):
        try:
            raise AssertionError(f"unexpected: {self.receive(seconds)}")
        except TimeoutError:
            return True

    def until(self, condition, names=()):
        """Receives and acknowledges until the endpoints of a response fulfil the condition; they are returned."""
        while True:
            answer = self.receive()
            self.acknowledge(answer, names)
            for resource in answer.resources:
                found = opened(resource.resource if self.delta else resource)
                if condition(found):
                    return found

    def close(self):
        self._asked.put(None)
        self._call.cancel()
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def aggregated(endpoint, delta=False, **options):
    return Stream(endpoint, AGGREGATED + ("Delta" if delta else "Stream") + "AggregatedResources", delta, **options)


def single(endpoint, type_url, delta=False, **options):
    return Stream(endpoint, OWN[type_url].format("Delta" if delta else "Stream"), delta, **options)


def post(endpoint, path, body, seconds=CALL_SECONDS, headers=()):
    """(status, JSON or text)"""
    host, port = endpoint.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=seconds)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **dict(headers)})
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.getheader("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json and text else text
    finally:
        connection.close()


def fetch(endpoint, what, **body):
    """REST: (status, answer)."""
    return post(endpoint, f"/v3/discovery:{what}", body)


class Registry:
    """The registry's own API at one endpoint."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def do(self, what, **body):
        status, answer = post(self.endpoint, f"/lease/v1/registry/{what}", body)
        assert status == 200, f"{what}: {status} {answer}"
        return answer

    def register(self, service, port, instance_id=None, ttl_ms=-1, checks=(), address="127.0.0.1", **fields):
        instance = {
            "service": service, "id": instance_id or f"{service}-{port}", "address": address, "port": port,
            "ttl_ms": ttl_ms, "checks": list(checks), **fields,
        }  # fmt: skip
        return self.do("register", instance=instance)

    def deregister(self, service, instance_id, **fields):
        return self.do("deregister", service=service, id=instance_id, **fields)

    def set_state(self, service, instance_id, state, **fields):
        return self.do("set-state", service=service, id=instance_id, state=state, **fields)

    def report(self, service, instance_id, check, health):
        return self.do("report", reports=[{"service": service, "id": instance_id, "check": check, "health": health}])

    def renew(self, *lease_ids):
        return self.do("renew", lease_ids=list(lease_ids))


MANUAL = {"id": "manual", "kind": "CHECK_MANUAL"}


def leased_with_xds(extra_flags=()):
    return Server(KIND_LEASED, extra_flags=["--doors", "etcd,native,registry,xds", *extra_flags])
