"""One client does its worst; another client's puts and renewals wait no longer than usual, memory
stays bounded and comes back, and a restart takes what it always takes.

Here: watches and the log."""
import contextlib
import os
import re
import threading
import time

import pytest
from hostile_client import (
    GROWTH_MAX, MIB, Sender, attacked, check_memory_returns, connect,
)  # fmt: skip

from harness import KIND_LEASED, Server, hpack
from harness.acceptance import either, report
from harness.http2_frames import PREFACE, call, headers, message, settings, window_update
from harness.rpc import Rpc
from harness.watch_messages import WatchRequest

WATCH = b"/etcdserverpb.Watch/Watch"

WIDE_OPEN = PREFACE + settings(initial_window_size=2**31 - 1) + window_update(0, 2**31 - 2**16)


@pytest.fixture
def server():
    with Server(KIND_LEASED) as running:
        yield running


# Watches.


def test_watches_without_number(server):
    """As many as one connection will be given, all on one key, which then changes."""
    create = WatchRequest(create_request={"key": b"/watched"}).SerializeToString()
    streams, each = either(10, 100), 10_000
    before = server.rss_bytes()
    with attacked(server, f"{streams * each} watches of one client"):
        with connect(server, WIDE_OPEN) as connection:
            sender = Sender(connection)
            for number in range(streams):
                stream = 1 + 2 * number
                connection.send(headers(stream, hpack.grpc_request(WATCH)))
                sender.send(stream, message(create) * each)
            with Rpc(server) as rpc:
                for number in range(10):
                    rpc.put(b"/watched", b"x")
                    time.sleep(0.1)
            report("watches", given=int(server.metric("leased_watchers")))
    check_memory_returns(server, before)


def test_watchers_of_all_that_do_not_read(server):
    """Many connections, one watch each, and values of 1 MiB."""
    create = WatchRequest(create_request={
        "key": b"/watched", "prev_kv": True}).SerializeToString()  # fmt: skip
    before = server.rss_bytes()
    with attacked(server, "watchers that do not read", GROWTH_MAX + 32 * MIB):
        with contextlib.ExitStack() as stack:
            for _ in range(either(150, 1000)):
                connection = connect(server, PREFACE + settings(initial_window_size=0))
                stack.enter_context(connection)
                connection.send(call(1, WATCH, create, flags=0))
            with Rpc(server) as rpc:
                for number in range(8):
                    answer = rpc.put(b"/watched", bytes([number]) * MIB)
                    rpc.compact(answer.header.revision)
    check_memory_returns(server, before)


# The log.


class DeafLog(Server):
    """Its standard error is a pipe that nobody reads."""

    def launch(self):
        self.log_path = os.path.join(self.home, "pipe")
        os.mkfifo(self.log_path)
        self.reader = os.open(self.log_path, os.O_RDONLY | os.O_NONBLOCK)
        self.text = ""
        super().launch()

    def read_log(self):
        """From now on, until the server ends."""
        def read():
            os.set_blocking(self.reader, True)
            while data := os.read(self.reader, 65536):
                self.text += data.decode(errors="replace")

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def log_tail(self, bytes_max=2000):
        return self.text[-bytes_max:]


def test_a_log_that_nobody_reads():
    """Every client that speaks nonsense is a line of the log at this level."""
    count = 6000
    with DeafLog(KIND_LEASED, extra_flags=["--log-level", "debug"]) as server:
        with attacked(server, "log lines that nobody reads"):
            for _ in range(count):
                with contextlib.suppress(OSError), connect(server, b"\0\0\0\0nonsense") as one:
                    one.socket.recv(1)
        reader = server.read_log()
        assert server.stop() == 0
        reader.join(10)
        os.close(server.reader)
        written = server.text.count("no protocol starts like this")
        dropped = re.search(r"log lines were dropped: .* lines=(\d+)", server.text)
        assert dropped, server.log_tail()
        assert written > 1000
        assert written + int(dropped.group(1)) >= count
        assert "stopped" in server.text
