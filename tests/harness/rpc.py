"""Direct gRPC to one server: etcd's stubs, and streams that can be stepped through."""
import contextlib
import queue
import threading
import time

import grpc
from etcd3 import etcdrpc

from harness.watch_messages import WatchRequest, WatchResponse

CALL_SECONDS = 10.0

_END = object()


class Rpc:
    """Stubs over one channel of its own. Use as a context manager."""

    def __init__(self, server, extra_options=()):
        # A subchannel pool of its own: no connection shared with other clients of this process.
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            *extra_options,
        ]
        credentials = server.grpc_credentials()
        if credentials is None:
            self.channel = grpc.insecure_channel(server.endpoint, options=options)
        else:
            self.channel = grpc.secure_channel(server.endpoint, credentials, options=options)
        self.kv = etcdrpc.KVStub(self.channel)
        self.lease = etcdrpc.LeaseStub(self.channel)
        self.cluster = etcdrpc.ClusterStub(self.channel)
        self.maintenance = etcdrpc.MaintenanceStub(self.channel)

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Short words for what every test needs

    def put(self, key, value=b"", **fields):
        return self.kv.Put(
            etcdrpc.PutRequest(key=key, value=value, **fields), timeout=CALL_SECONDS
        )

    def range(self, key, range_end=b"", **fields):
        return self.kv.Range(
            etcdrpc.RangeRequest(key=key, range_end=range_end, **fields), timeout=CALL_SECONDS
        )

    def delete(self, key, range_end=b"", **fields):
        return self.kv.DeleteRange(
            etcdrpc.DeleteRangeRequest(key=key, range_end=range_end, **fields),
            timeout=CALL_SECONDS,
        )

    def txn(self, compare=(), success=(), failure=()):
        request = etcdrpc.TxnRequest(compare=compare, success=success, failure=failure)
        return self.kv.Txn(request, timeout=CALL_SECONDS)

    def compact(self, revision, **fields):
        request = etcdrpc.CompactionRequest(revision=revision, **fields)
        return self.kv.Compact(request, timeout=CALL_SECONDS)

    def grant(self, ttl, lease_id=0):
        request = etcdrpc.LeaseGrantRequest(TTL=ttl, ID=lease_id)
        return self.lease.LeaseGrant(request, timeout=CALL_SECONDS)

    def revoke(self, lease_id):
        request = etcdrpc.LeaseRevokeRequest(ID=lease_id)
        return self.lease.LeaseRevoke(request, timeout=CALL_SECONDS)

    def time_to_live(self, lease_id, keys=False):
        request = etcdrpc.LeaseTimeToLiveRequest(ID=lease_id, keys=keys)
        return self.lease.LeaseTimeToLive(request, timeout=CALL_SECONDS)

    def leases(self):
        response = self.lease.LeaseLeases(etcdrpc.LeaseLeasesRequest(), timeout=CALL_SECONDS)
        return [status.ID for status in response.leases]

    def revision(self):
        return self.range(b"~nothing").header.revision

    def keep_alive(self, **how):
        return Stream(self.lease.LeaseKeepAlive, **how)

    def watch(self, **how):
        return WatchStream(self.channel, **how)


class Stream:
    """A bidirectional stream: send when you like, receive with a deadline.

    received_at is when the response that receive() gave last came in (time.monotonic).
    """

    def __init__(self, method, **how):
        self.received_at = None
        self._requests = queue.Queue()
        self._responses = queue.Queue()
        self._call = method(iter(self._requests.get, _END), **how)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            for response in self._call:
                self._responses.put((time.monotonic(), response))
            self._responses.put((time.monotonic(), _END))
        except grpc.RpcError as error:
            self._responses.put((time.monotonic(), error))

    def send(self, request):
        self._requests.put(request)

    def receive(self, timeout_s=CALL_SECONDS):
        """The next response. TimeoutError if none comes, EOFError at the stream's good end."""
        try:
            self.received_at, response = self._responses.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"no response within {timeout_s} s") from None
        if response is _END:
            raise EOFError("the stream has ended")
        if isinstance(response, Exception):
            raise response
        return response

    def done_sending(self):
        """Half-closes: the server knows that nothing more will come."""
        self._requests.put(_END)

    def close(self):
        self._call.cancel()
        self.done_sending()
        self._reader.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class WatchStream(Stream):
    """etcd's Watch call, with all fields of today."""

    def __init__(self, channel, **how):
        method = channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=WatchRequest.SerializeToString,
            response_deserializer=WatchResponse.FromString,
        )
        super().__init__(method, **how)

    def ask(self, key, range_end=b"", **fields):
        """Sends a create request."""
        create = {"key": key, "range_end": range_end, **fields}
        self.send(WatchRequest(create_request=create))

    def create(self, key, range_end=b"", **fields):
        """Sends a create request and waits for it to be confirmed; answers the confirmation."""
        self.ask(key, range_end, **fields)
        response = self.receive()
        assert response.created, f"not a confirmation: {response}"
        return response

    def cancel(self, watch_id):
        self.send(WatchRequest(cancel_request={"watch_id": watch_id}))

    def ask_progress(self):
        self.send(WatchRequest(progress_request={}))

    def events(self, count, timeout_s=CALL_SECONDS):
        """At least count events, over as many responses as they come in."""
        events = []
        while len(events) < count:
            events += self.receive(timeout_s).events
        return events


@contextlib.contextmanager
def refused(code, text=None):
    """The call inside must fail with this status; text None leaves the wording open."""
    try:
        yield
    except grpc.RpcError as error:
        assert error.code() is code, f"{error.code()}: {error.details()}"
        if text is not None:
            assert error.details() == text
    else:
        raise AssertionError(f"answered, but {code} {text or ''} was expected")
