"""HTTP/2 by hand: frames that may be wrong, and a connection that does only what it is told.

A well-behaved client answers SETTINGS and PING and opens windows; this one does so only
if asked to (`polite`), and never sends anything by itself otherwise.
"""
import collections
import socket
import struct
import time

from harness import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)  # fmt: skip
FLAG_ACK = FLAG_END_STREAM = 0x1
FLAG_END_HEADERS, FLAG_PADDED, FLAG_PRIORITY = 0x4, 0x8, 0x20
SETTING_HEADER_TABLE_SIZE, SETTING_INITIAL_WINDOW_SIZE, SETTING_MAX_FRAME_SIZE = 1, 4, 5
CANCEL = 8

HEADER_SIZE = 9
DEFAULT_WINDOW = 65535
DATA_SIZE = 16384
RECEIVE_SIZE = 65536

Frame = collections.namedtuple("Frame", "type flags stream payload")


def frame(kind, flags=0, stream=0, payload=b"", size=None):
    """One frame; `size` lies about how long the payload is."""
    size = len(payload) if size is None else size
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    """settings(initial_window_size=0): the names of RFC 9113, 6.5.2, in small letters."""
    numbers = {
        "header_table_size": 1, "enable_push": 2, "max_concurrent_streams": 3,
        "initial_window_size": 4, "max_frame_size": 5, "max_header_list_size": 6,
    }  # fmt: skip
    pairs = [struct.pack(">HI", numbers[name], value) for name, value in values.items()]
    return frame(SETTINGS, payload=b"".join(pairs))


def ping(payload=b"12345678"):
    return frame(PING, payload=payload)


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, stream=stream, payload=struct.pack(">I", increment))


def rst_stream(stream, code=CANCEL):
    return frame(RST_STREAM, stream=stream, payload=struct.pack(">I", code))


def headers(stream, block, flags=FLAG_END_HEADERS):
    return frame(HEADERS, flags, stream, block)


def message(payload, size=None, compressed=0):
    """A gRPC message; `size` lies about it."""
    return struct.pack(">BI", compressed, len(payload) if size is None else size) + payload


def call(stream, path, payload, *extra, flags=FLAG_END_STREAM):
    """HEADERS and DATA of a whole gRPC call, or of the first message of a stream (flags=0)."""
    return headers(stream, hpack.grpc_request(path, *extra)) + frame(
        DATA, flags, stream, message(payload)
    )


class Ended(Exception):
    """The server closed the connection. goaway: its last error code, or None."""

    def __init__(self, goaway, debug=b""):
        super().__init__(f"connection closed, GOAWAY {goaway} {debug!r}")
        self.goaway = goaway


class Reset(Exception):
    """The server reset the stream."""

    def __init__(self, code):
        super().__init__(f"stream reset with {code}")
        self.code = code


class Answer:
    """What came on one stream so far."""

    def __init__(self):
        self.http_status = None
        self.grpc_status = None
        self.grpc_message = ""
        self.data = bytearray()
        self.is_complete = False
        self.reset = None


class Connection:
    """A socket that speaks frames. Use as a context manager."""

    def __init__(self, server, polite=True, hello=None, timeout_s=10.0, receive_buffer=None):
        self.polite = polite
        self.timeout_s = timeout_s
        self.goaway = None
        self.pongs = 0
        self.answers = collections.defaultdict(Answer)
        self._window = self._stream_window = DEFAULT_WINDOW
        self._more = collections.Counter()
        self._decoder = hpack.Decoder()
        self._debug = b""
        self._block = b""
        self._buffer = b""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect(("127.0.0.1", server.client_port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(PREFACE + settings() if hello is None else hello)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        """Ended if the server no longer listens to us."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Ended(self.goaway, self._debug) from None

    def _receive(self, size, deadline):
        while len(self._buffer) < size:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self.socket.recv(RECEIVE_SIZE)
            except ConnectionResetError:
                data = b""
            except socket.timeout:
                raise TimeoutError("no frame in time") from None
            finally:
                self.socket.settimeout(self.timeout_s)
            if not data:
                raise Ended(self.goaway, self._debug)
            self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def receive(self, timeout_s=None):
        """The next frame, after it was taken note of. Ended or TimeoutError if none comes."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        head = self._receive(HEADER_SIZE, deadline)
        size = int.from_bytes(head[:3], "big")
        got = Frame(head[3], head[4], int.from_bytes(head[5:], "big"), self._receive(size, deadline))
        self._take(got)
        return got

    def _take(self, got):
        answer = self.answers[got.stream] if got.stream else None
        if got.type == GOAWAY:
            self.goaway = int.from_bytes(got.payload[4:8], "big")
            self._debug = got.payload[8:]
        elif got.type == PING and got.flags & FLAG_ACK:
            self.pongs += 1
        elif got.type == PING and self.polite:
            self.send(frame(PING, FLAG_ACK, payload=got.payload))
        elif got.type == SETTINGS and not got.flags & FLAG_ACK:
            for number, value in struct.iter_unpack(">HI", got.payload):
                if number == SETTING_INITIAL_WINDOW_SIZE:
                    self._stream_window = value
            if self.polite:
                self.send(frame(SETTINGS, FLAG_ACK))
        elif got.type == WINDOW_UPDATE:
            self._more[got.stream] += int.from_bytes(got.payload, "big")
        elif got.type == RST_STREAM:
            answer.reset = int.from_bytes(got.payload, "big")
        elif got.type == DATA:
            answer.data += got.payload
            if self.polite and got.payload:
                self.send(window_update(0, len(got.payload)))
                if not got.flags & FLAG_END_STREAM:
                    self.send(window_update(got.stream, len(got.payload)))
        elif got.type in (HEADERS, CONTINUATION):
            self._block += got.payload
            if got.flags & FLAG_END_HEADERS:
                self._take_headers(answer, self._decoder.decode(self._block))
                self._block = b""
        if got.type in (DATA, HEADERS) and got.flags & FLAG_END_STREAM:
            answer.is_complete = True

    @staticmethod
    def _take_headers(answer, fields):
        if ":status" in fields:
            answer.http_status = int(fields[":status"])
        if "grpc-status" in fields:
            answer.grpc_status = int(fields["grpc-status"])
            answer.grpc_message = fields.get("grpc-message", "")

    def send_data(self, stream, payload):
        """DATA frames as the server's windows allow, then the end of the stream.

        Stops early when the server has answered already.
        """
        answer = self.answers[stream]
        sent = 0

        def room():
            here = self._stream_window + self._more[stream] - sent
            return min(here, self._window + self._more[0] - sent, DATA_SIZE)

        while sent < len(payload):
            self.wait_for(lambda: room() > 0 or answer.is_complete or answer.reset is not None)
            if answer.is_complete or answer.reset is not None:
                return
            part = payload[sent: sent + room()]
            self.send(frame(DATA, 0, stream, part))
            sent += len(part)
        self._window -= sent
        self.send(frame(DATA, FLAG_END_STREAM, stream))

    def wait_for(self, done, timeout_s=None):
        """Reads frames until done() answers something true, and answers that."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        while True:
            result = done()
            if result:
                return result
            self.receive(deadline - time.monotonic())

    def wait_answer(self, stream, timeout_s=None):
        """The complete answer on a stream. Reset, Ended or TimeoutError otherwise."""
        answer = self.answers[stream]
        self.wait_for(lambda: answer.is_complete or answer.reset is not None, timeout_s)
        if not answer.is_complete:
            raise Reset(answer.reset)
        return answer

    def wait_end(self, timeout_s=None):
        """Until the server closes the connection; answers the code of its GOAWAY or None."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        try:
            while True:
                self.receive(deadline - time.monotonic())
        except Ended as ended:
            return ended.goaway

    def is_alive(self):
        """Whether the server still answers a PING on this connection."""
        before = self.pongs
        try:
            self.send(ping())
            self.wait_for(lambda: self.pongs > before)
            return True
        except (Ended, TimeoutError):
            return False
