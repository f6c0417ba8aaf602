"""The end of a process that is busy, seen by those who keep it busy."""
import os
import signal
import socket
import stat
import threading

import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for
from harness.http2_frames import GOAWAY, Connection, Ended, call
from harness.rpc import Rpc

WRITERS = 4
PUTS_BEFORE_STOP = 200
STOP_SECONDS = 15.0


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


class Writer(threading.Thread):
    """Puts until it is refused; notes what was acknowledged and how it was refused."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.number = number
        self.acknowledged = []
        self.refusal = None
        self._rpc = Rpc(server)

    def run(self):
        try:
            while True:
                key = b"/stop/%d/%06d" % (self.number, len(self.acknowledged))
                self.acknowledged.append((key, self._rpc.put(key, key).header.revision))
        except grpc.RpcError as error:
            self.refusal = error.code()
        finally:
            self._rpc.close()


def stop_under_load(server):
    writers = [Writer(server, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    wait_for(
        lambda: sum(len(writer.acknowledged) for writer in writers) > PUTS_BEFORE_STOP, 30, "puts"
    )
    server.process.signal(signal.SIGTERM)
    assert server.process.wait(STOP_SECONDS) == 0, server.log_tail()
    for writer in writers:
        writer.join(STOP_SECONDS)
        assert not writer.is_alive()
    return writers


def test_a_stop_under_load_is_clean_and_keeps_what_was_acknowledged(server):
    writers = stop_under_load(server)
    assert {writer.refusal for writer in writers} == {grpc.StatusCode.UNAVAILABLE}
    server.restart()
    with Rpc(server) as rpc:
        for writer in writers:
            for key, revision in writer.acknowledged:
                (kv,) = rpc.range(key).kvs
                assert (kv.value, kv.mod_revision) == (key, revision)
    assert server.stop() == 0


def test_streams_end_with_a_status(server):
    with Rpc(server) as rpc, rpc.watch() as watch, rpc.keep_alive() as renewals:
        watch.create(b"key")
        lease = rpc.grant(60).ID
        renewals.send(etcdrpc.LeaseKeepAliveRequest(ID=lease))
        renewals.receive()
        server.process.signal(signal.SIGTERM)
        for stream in (watch, renewals):
            with pytest.raises(grpc.RpcError) as failure:
                stream.receive()
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert server.process.wait(STOP_SECONDS) == 0


def test_idle_connections_are_told_to_go(server):
    request = etcdrpc.RangeRequest(key=b"key").SerializeToString()
    with Connection(server) as connection:
        connection.send(call(1, b"/etcdserverpb.KV/Range", request))
        assert connection.wait_answer(1).grpc_status == 0
        server.process.signal(signal.SIGTERM)
        kinds = []
        with pytest.raises(Ended) as ended:
            while True:
                kinds.append(connection.receive(STOP_SECONDS).type)
        assert GOAWAY in kinds
        assert ended.value.goaway == 0
    assert server.process.wait(STOP_SECONDS) == 0


def test_clients_that_never_read_do_not_hold_up_the_stop(server):
    with Rpc(server) as rpc:
        rpc.put(b"/large", b"v" * 1024 * 1024)
    request = etcdrpc.RangeRequest(key=b"/large").SerializeToString()
    deaf = Connection(server, polite=False, receive_buffer=4096)
    silent = socket.create_connection(("127.0.0.1", server.client_port))
    try:
        deaf.send(call(1, b"/etcdserverpb.KV/Range", request))
        wait_for(lambda: server.metric("leased_connections") >= 2, 10, "both")
        server.process.signal(signal.SIGTERM)
        assert server.process.wait(STOP_SECONDS) == 0
    finally:
        deaf.close()
        silent.close()


def test_the_second_signal_ends_it_at_once_and_loses_nothing(server):
    with Rpc(server) as rpc:
        revision = rpc.put(b"key", b"value").header.revision
        with rpc.watch() as watch:
            watch.create(b"key")
            server.process.signal(signal.SIGTERM)
            server.process.signal(signal.SIGTERM)
            server.process.wait(STOP_SECONDS)
    server.restart()
    with Rpc(server) as rpc:
        assert rpc.range(b"key").kvs[0].mod_revision == revision


def test_only_the_owner_may_look_at_the_data(server):
    with Rpc(server) as rpc:
        rpc.put(b"key", b"value")
    for folder, folders, files in os.walk(server.data_dir):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        for name in files:
            path = os.path.join(folder, name)
            assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path
        del folders


def test_stopped_and_started_again_and_again_it_stays_the_same(server):
    with Rpc(server) as rpc:
        rpc.put(b"key", b"value")
        lease = rpc.grant(600).ID
        first = rpc.range(b"key")
    for _ in range(5):
        assert server.stop() == 0
        server.restart()
        with Rpc(server) as rpc:
            again = rpc.range(b"key")
            assert (again.header.member_id, again.header.cluster_id, again.header.revision) == (
                first.header.member_id, first.header.cluster_id, first.header.revision)  # fmt: skip
            assert again.kvs == first.kvs
            assert rpc.leases() == [lease]
