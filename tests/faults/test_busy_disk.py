"""A disk with much room that is slow: the node takes longer, and does not take it for full."""
import os
import threading
import time

import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for
from harness.acceptance import either, report
from harness.fault_shim import ALLOCATE, FaultShim
from harness.rpc import Rpc

CLIENTS = 4
VALUE_BYTES = 1_400_000
KEYS = 2
BUSY_SECONDS = float(os.environ.get("LEASED_BUSY_DISK_SECONDS", either(4.0, 60.0)))
HELD_SECONDS = 3.0
PUTS_WITHOUT_ROOM = 200
WRITER_CHUNK_BYTES = 8 * 1024 * 1024
WRITER_FILE_BYTES = 256 * 1024 * 1024


@pytest.fixture
def server():
    made = Server(KIND_LEASED)
    made.shim = FaultShim(made)
    with made:
        yield made


class LargePuts(threading.Thread):
    """Overwrites a few large values, one put at a time, and notes how many were acknowledged."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self._rpc = Rpc(server)
        self._number = number
        self.done = threading.Event()
        self.acknowledged = 0
        self.failure = None

    def run(self):
        value = os.urandom(VALUE_BYTES)
        while not self.done.is_set():
            key = b"/large/%d/%d" % (self._number, self.acknowledged % KEYS)
            try:
                answer = self._rpc.kv.Put(etcdrpc.PutRequest(key=key, value=value), timeout=20)
                if self._number == 0:
                    self._rpc.compact(answer.header.revision)
            except grpc.RpcError as error:
                self.failure = f"{error.code()} {error.details()}"
                return
            self.acknowledged += 1

    def stop(self):
        self.done.set()
        self.join()
        self._rpc.close()


class DiskWriter(threading.Thread):
    """Keeps the disk under a folder busy: writes and syncs one file over and over."""

    def __init__(self, folder, number):
        super().__init__(daemon=True)
        self._path = os.path.join(folder, f"busy{number}")
        self.done = threading.Event()

    def run(self):
        chunk = os.urandom(WRITER_CHUNK_BYTES)
        with open(self._path, "wb", buffering=0) as file:
            while not self.done.is_set():
                if file.tell() >= WRITER_FILE_BYTES:
                    file.seek(0)
                file.write(chunk)
                os.fsync(file.fileno())
        os.unlink(self._path)

    def stop(self):
        self.done.set()
        self.join()


@pytest.fixture
def puts(server):
    clients = [LargePuts(server, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    yield clients
    for client in clients:
        client.stop()


def acknowledged(puts):
    return sum(client.acknowledged for client in puts)


def check_going_on(server, puts):
    """It runs, nobody was refused, and there is more to come."""
    assert server.is_running(), f"ended with {server.process.exit_code()}:\n{server.log_tail()}"
    failures = [client.failure for client in puts if client.failure]
    assert not failures, failures
    before = acknowledged(puts)
    wait_for(lambda: acknowledged(puts) > before + CLIENTS or not server.is_running(), 20, "more puts")
    assert server.is_running(), f"ended with {server.process.exit_code()}:\n{server.log_tail()}"


def test_room_that_is_long_in_coming_is_not_taken_for_none(server, puts):
    wait_for(lambda: acknowledged(puts) >= CLIENTS, 20, "puts")
    server.shim.hold(ALLOCATE)
    # Who has no need of more room for so long is well, too.
    wait_for(lambda: server.shim.fired or acknowledged(puts) >= PUTS_WITHOUT_ROOM, 60, "a need of room")
    held_at = time.monotonic()
    while time.monotonic() < held_at + HELD_SECONDS and server.is_running():
        time.sleep(0.05)
    server.shim.disarm()
    check_going_on(server, puts)


@pytest.mark.seconds_max(120 + BUSY_SECONDS)
def test_large_puts_beside_a_busy_disk(server, puts):
    writers = [DiskWriter(server.home, number) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        ends_at = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < ends_at and server.is_running():
            time.sleep(0.1)
        check_going_on(server, puts)
    finally:
        for writer in writers:
            writer.stop()
    report("large puts beside a busy disk", puts=acknowledged(puts), seconds=BUSY_SECONDS)
