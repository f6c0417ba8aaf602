"""How late the events of a watch come while ten ranges of 5 MB run beside it on the same connection.

The connection goes through a relay of bounded speed, as a network would be: otherwise the speed of
the client is what is measured.
"""
import socket
import threading
import time

from etcd3 import etcdrpc

from harness.rpc import Rpc

READERS = 10
KEYS = 50
VALUE = b"x" * 100_000  # fifty of them make 5 MB
PUT_INTERVAL_SECONDS = 0.02
READ_SECONDS_MAX = 60.0
BYTES_PER_SECOND = 20e6
PIECE_BYTES = 32 * 1024
SOCKET_BYTES = 64 * 1024


class Relay:
    """Passes connections on to a server, answers at BYTES_PER_SECOND. To be given to Rpc."""

    def __init__(self, server):
        self._server = server
        self._listener = self._socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(8)
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @staticmethod
    def _socket():
        made = socket.socket()
        # What waits in buffers of the relay could not be overtaken.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        return made

    def grpc_credentials(self):
        return None

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
                server = self._socket()
                server.connect((self._server.host, self._server.client_port))
            except OSError:
                return
            for source, sink, is_slow in ((client, server, False), (server, client, True)):
                pump = threading.Thread(target=self._pump, args=(source, sink, is_slow), daemon=True)
                pump.start()

    @staticmethod
    def _pump(source, sink, is_slow):
        due = time.monotonic()
        try:
            while piece := source.recv(PIECE_BYTES):
                sink.sendall(piece)
                if is_slow:
                    due = max(due, time.monotonic() - 0.01) + len(piece) / BYTES_PER_SECOND
                    time.sleep(max(0.0, due - time.monotonic()))
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Readers:
    """Ranges over everything that is heavy, on one channel, until stopped."""

    def __init__(self, rpc):
        # Answers stay bytes: parsing them would measure the client.
        self._range = rpc.channel.unary_unary("/etcdserverpb.KV/Range")
        self._request = etcdrpc.RangeRequest(key=b"heavy/", range_end=b"heavy0").SerializeToString()
        self._stop = threading.Event()
        self.reads = 0
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(READERS)]

    def _run(self):
        while not self._stop.is_set():
            assert len(self._range(self._request, timeout=READ_SECONDS_MAX)) > KEYS * len(VALUE)
            self.reads += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(READ_SECONDS_MAX)


def measure(server, seconds):
    """Delays in seconds, sorted, and how many ranges were read meanwhile."""
    delays = []
    relay = Relay(server)
    with Rpc(relay) as heavy, Rpc(server) as light, heavy.watch() as stream:
        for number in range(KEYS):
            light.put(b"heavy/%02d" % number, VALUE)
        stream.create(b"watched")
        with Readers(heavy) as readers:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                light.put(b"watched", b"v")
                acknowledged = time.monotonic()
                stream.receive(READ_SECONDS_MAX)
                delays.append(max(0.0, stream.received_at - acknowledged))
                time.sleep(PUT_INTERVAL_SECONDS)
    relay.close()
    return sorted(delays), readers.reads
