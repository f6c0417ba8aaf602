"""The process stops for longer than leases last, and goes on: who kept renewing loses nothing."""
import contextlib
import subprocess
import threading
import time

import etcd3
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, wait_for
from harness.acceptance import either, report
from harness.certificates import Authority
from harness.etcdctl import etcdctl_path
from harness.http2_frames import DATA, Connection, call, frame, message
from harness.kinds import clean_environment
from harness.rpc import Rpc
from harness.tls_server import BothServer

TTL_SECONDS = 3
STALL_SECONDS = either(6.0, 30.0)
RENEW_SECONDS = TTL_SECONDS / 3
# etcdctl gives up by itself, and says so, when a whole TTL brought no answer.
ETCDCTL_TTL_SECONDS = int(STALL_SECONDS * 1.5)
STREAMS = 200
STREAMS_A_GROUP = 20
LIBRARY_CLIENTS = 5
TLS_CLIENTS = 5
KEEP_ALIVE = b"/etcdserverpb.Lease/LeaseKeepAlive"


class Renewer(threading.Thread):
    """Renews in a thread of its own until stopped. `lost` says what went wrong."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.lost = None
        self.rounds = 0

    def run(self):
        try:
            while not self.done.is_set():
                self.renew()
                self.rounds += 1
                self.done.wait(RENEW_SECONDS)
        except Exception as error:  # pylint: disable=broad-except
            self.lost = error

    def renew(self):
        raise NotImplementedError

    def stop(self):
        self.done.set()
        self.join(30)
        assert not self.is_alive()


class StreamRenewer(Renewer):
    """One gRPC stream, written to without ever waiting for an answer."""

    def __init__(self, rpc, lease):
        super().__init__()
        self._request = etcdrpc.LeaseKeepAliveRequest(ID=lease)
        self._stream = rpc.keep_alive()

    def renew(self):
        self._stream.send(self._request)

    def stop(self):
        super().stop()
        self._stream.done_sending()
        answers = 0
        try:
            while True:
                if self._stream.receive().TTL == 0:
                    self.lost = "told that it is gone"
                answers += 1
        except EOFError:
            pass
        assert answers == self.rounds
        self._stream.close()


class LibraryRenewer(Renewer):
    """python etcd3: one call at a time, which waits for its answer."""

    def __init__(self, server, lease):
        super().__init__()
        self._client = etcd3.client("127.0.0.1", server.client_port)
        self._lease = etcd3.Lease(lease, TTL_SECONDS, self._client)

    def renew(self):
        (answer,) = self._lease.refresh()
        if answer.TTL == 0:
            raise AssertionError("told that it is gone")

    def stop(self):
        super().stop()
        self._client.close()


class RawRenewer(Renewer):
    """Connections of their own, each with a stream; nobody reads."""

    def __init__(self, server, leases):
        super().__init__()
        self._server = server
        self._requests = [
            etcdrpc.LeaseKeepAliveRequest(ID=lease).SerializeToString() for lease in leases
        ]
        self._connections = []

    def renew(self):
        if not self._connections:
            self._connections = [
                Connection(self._server, polite=False) for _ in self._requests
            ]
            for connection, request in zip(self._connections, self._requests):
                connection.send(call(1, KEEP_ALIVE, request, flags=0))
            return
        for connection, request in zip(self._connections, self._requests):
            connection.send(frame(DATA, 0, 1, message(request)))

    def stop(self):
        super().stop()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def server():
    with Authority() as authority, BothServer(KIND_LEASED, authority) as running:
        yield running


def etcdctl_keep_alive(server, lease):
    process = subprocess.Popen(
        [etcdctl_path(), "--endpoints", server.endpoint, "lease", "keep-alive", f"{lease:x}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**clean_environment(), "ETCDCTL_API": "3"},
    )  # fmt: skip
    # It says so once it was told so: from then on it renews.
    assert b"keepalived" in process.stdout.readline()
    return process


def end_of(process):
    """What it printed; it must not have ended by itself."""
    ended_early = process.poll() is not None
    process.kill()
    output = process.communicate()[0].decode()
    assert not ended_early and "expired" not in output, output


def grant(rpc, count):
    return [rpc.grant(TTL_SECONDS).ID for _ in range(count)]


def stall(server, seconds):
    server.pause()
    time.sleep(seconds)
    server.resume()


def test_leases_that_were_renewed_outlive_a_stop_of_the_server(server):
    with contextlib.ExitStack() as stack:
        rpc = stack.enter_context(Rpc(server))
        encrypted = [stack.enter_context(Rpc(server.tls)) for _ in range(TLS_CLIENTS)]
        abandoned, over_tls = grant(rpc, 5), grant(rpc, TLS_CLIENTS)
        streamed, typed = rpc.grant(TTL_SECONDS).ID, rpc.grant(ETCDCTL_TTL_SECONDS).ID
        library, raw, late = grant(rpc, LIBRARY_CLIENTS), grant(rpc, STREAMS), grant(rpc, 3)
        keyed = {lease: b"/stall/%x" % lease for lease in abandoned + raw[:20] + late}
        renewers = [StreamRenewer(rpc, streamed)]
        renewers += [StreamRenewer(*pair) for pair in zip(encrypted, over_tls)]
        renewers += [LibraryRenewer(server, lease) for lease in library]
        renewers += [
            RawRenewer(server, raw[begin: begin + STREAMS_A_GROUP])
            for begin in range(0, STREAMS, STREAMS_A_GROUP)
        ]
        for renewer in renewers:
            renewer.start()
        for lease, key in keyed.items():
            rpc.put(key, b"", lease=lease)
        etcdctl = etcdctl_keep_alive(server, typed)
        wait_for(lambda: min(renewer.rounds for renewer in renewers) > 0, 10, "renewals")
        wait_for(lambda: server.metric("leased_lease_renewals_total") > STREAMS, 10, "renewals")
        kinds = {"a stream": [streamed], "TLS": over_tls, "etcdctl": [typed], "python etcd3": library,
                 "connections": raw, "newcomers": late}  # fmt: skip

        server.pause()
        begun = time.monotonic()
        # Whoever lost the connection and comes back in time counts too.
        newcomers = RawRenewer(server, late)
        newcomers.start()
        time.sleep(STALL_SECONDS)
        server.resume()
        stopped = time.monotonic() - begun

        wait_for(lambda: not set(abandoned) & set(rpc.leases()), 15, "the end of what nobody renewed")
        # Past the time at which anything lost in the stop would have ended.
        time.sleep(TTL_SECONDS)
        there = set(rpc.leases())
        lost = {kind: sum(lease not in there for lease in leases) for kind, leases in kinds.items()}
        report("stop and go", seconds=round(stopped, 1), leases=sum(map(len, kinds.values())),
               lost=sum(lost.values()))  # fmt: skip
        assert not any(lost.values()), lost
        for lease, key in keyed.items():
            assert rpc.range(key).count == (0 if lease in abandoned else 1)
        for renewer in renewers + [newcomers]:
            renewer.stop()
            assert renewer.lost is None, f"{type(renewer).__name__}: {renewer.lost}"
        end_of(etcdctl)
        # Nobody renews now, so a lease that stays was never counted.
        rpc.revoke(typed)
        wait_for(lambda: not rpc.leases(), TTL_SECONDS + 10, "the end of all")


def test_many_short_stops_are_survived_too(server):
    with Rpc(server) as rpc:
        leases = grant(rpc, STREAMS_A_GROUP)
        renewer = RawRenewer(server, leases)
        renewer.start()
        wait_for(lambda: server.metric("leased_lease_renewals_total") > 0, 10, "renewals")
        abandoned = grant(rpc, 1)[0]
        for _ in range(3):
            stall(server, TTL_SECONDS * 0.8)
            assert server.is_healthy()
        assert set(leases) <= set(rpc.leases())
        assert renewer.lost is None
        wait_for(lambda: abandoned not in rpc.leases(), 15, "the end of what nobody renewed")
        renewer.stop()


def test_a_connection_that_ended_during_the_stop_holds_nothing_up(server):
    with Rpc(server) as rpc:
        leases = grant(rpc, 2)
        connection = Connection(server)
        request = etcdrpc.LeaseKeepAliveRequest(ID=leases[0]).SerializeToString()
        connection.send(call(1, KEEP_ALIVE, request, flags=0))
        connection.wait_for(lambda: connection.answers[1].data)
        server.pause()
        connection.send(frame(DATA, 0, 1, message(request))[:-3])
        connection.close()
        time.sleep(TTL_SECONDS + 1)
        server.resume()
        wait_for(lambda: not rpc.leases(), 15, "the end of both")
