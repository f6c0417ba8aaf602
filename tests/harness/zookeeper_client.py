"""A small ZooKeeper client of one connection. It does nothing by itself: no ping, no reconnect, no retry."""
import collections
import socket
import struct
import threading

from harness import jute

ANSWER_SECONDS = 60.0

Answer = collections.namedtuple("Answer", "xid zxid error body")
Event = collections.namedtuple("Event", "kind state path zxid")


class Closed(Exception):
    """The server closed the connection."""


class Failed(Exception):
    """The server answered with an error; `code` is its number."""

    def __init__(self, code):
        super().__init__(jute.error_name(code))
        self.code = code


class Client:
    """Bytes first: send(), receive(). request() above them; the rest is one function for each request."""

    def __init__(self, address, timeout_s=ANSWER_SECONDS, local=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s, source_address=local)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.events = collections.deque()
        self.session_id = 0
        self.password = bytes(16)
        self.timeout_ms = 0
        self.zxid = 0  # the last that was seen
        self.read_only = None
        self.on_event = None
        self._xid = 0
        self._input = b""

    # Bytes

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from None

    def send_frame(self, payload):
        self.send(jute.frame(payload))

    def _need(self, size):
        while len(self._input) < size:
            try:
                piece = self.socket.recv(1 << 18)
            except ConnectionResetError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed(f"end of stream; {len(self._input)} bytes are left")
            self._input += piece

    def receive_frame(self):
        """The payload of one frame. TimeoutError, Closed."""
        self._need(4)
        size = struct.unpack_from(">i", self._input)[0]
        self._need(4 + size)
        payload, self._input = self._input[4 : 4 + size], self._input[4 + size :]
        return payload

    def is_closed(self, timeout_s=ANSWER_SECONDS):
        """Waits until the server closes; what it sends before is thrown away. False: it did not."""
        self._input = b""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self):
        """The connection alone; the session lives on."""
        self.socket.close()

    def abort(self):
        """As close(), with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Sessions

    def connect(self, timeout_ms=10000, session_id=0, password=bytes(16), zxid=0, read_only=False):
        """Begins a session or takes one up. Closed; Failed(-112) when there is no such session."""
        self.send_frame(jute.connect(timeout_ms, session_id, password, zxid, read_only))
        answer = jute.Reader(self.receive_frame())
        _version, self.timeout_ms, self.session_id = answer.integer(), answer.integer(), answer.long()
        self.password = answer.buffer()
        self.read_only = answer.boolean() if answer.rest() else None
        if self.session_id == 0 or self.timeout_ms <= 0:
            raise Failed(-112)
        return self

    def resume(self, other, timeout_ms=None, zxid=None):
        """Takes up the session of another client."""
        zxid = other.zxid if zxid is None else zxid
        return self.connect(timeout_ms or other.timeout_ms, other.session_id, other.password, zxid)

    # Requests

    def post(self, op, payload=b"", xid=None):
        """Sends a request and waits for nothing; answers its number."""
        if xid is None:
            self._xid += 1
            xid = self._xid
        self.send_frame(jute.integer(xid) + jute.integer(op) + payload)
        return xid

    def receive(self):
        """The next answer; events before it go to self.events."""
        while True:
            reader = jute.Reader(self.receive_frame())
            answer = Answer(reader.integer(), reader.long(), reader.integer(), reader)
            if answer.xid != jute.XID_EVENT:
                if answer.zxid > 0:
                    self.zxid = max(self.zxid, answer.zxid)
                return answer
            event = Event(reader.integer(), reader.integer(), reader.text(), answer.zxid)
            if self.on_event is not None:
                self.on_event(event)
            self.events.append(event)

    def ask(self, op, payload=b"", xid=None):
        """The answer of one request, whatever it is."""
        sent = self.post(op, payload, xid)
        answer = self.receive()
        assert answer.xid == sent, f"answer {answer.xid} to request {sent}"
        return answer

    def request(self, op, payload=b""):
        """What follows the header. Failed, Closed."""
        answer = self.ask(op, payload)
        if answer.error != 0:
            raise Failed(answer.error)
        return answer.body

    def next_event(self):
        """The next event, which is waited for. Nothing else may be under way."""
        while not self.events:
            payload = jute.Reader(self.receive_frame())
            xid, zxid, _error = payload.integer(), payload.long(), payload.integer()
            assert xid in (jute.XID_EVENT, jute.XID_PING), f"an answer to {xid}, which was not asked"
            if xid == jute.XID_EVENT:
                self.events.append(Event(payload.integer(), payload.integer(), payload.text(), zxid))
        return self.events.popleft()

    def ping(self):
        return self.ask(jute.PING, xid=jute.XID_PING)

    def authenticate(self, scheme, secret):
        answer = self.ask(jute.AUTH, jute.auth(scheme, secret), xid=jute.XID_AUTH)
        if answer.error != 0:
            raise Failed(answer.error)

    def end(self):
        """Ends the session and waits until the server has closed."""
        answer = self.ask(jute.CLOSE_SESSION)
        self.is_closed()
        self.close()
        return answer

    def create(self, path, data=b"", entries=None, flags=0):
        return self.request(jute.CREATE, jute.create(path, data, entries, flags)).text()

    def create2(self, path, data=b"", entries=None, flags=0):
        body = self.request(jute.CREATE2, jute.create(path, data, entries, flags))
        return body.text(), body.stat()

    def delete(self, path, version=-1):
        self.request(jute.DELETE, jute.versioned(path, version))

    def exists(self, path, watch=False):
        """None: there is no such node."""
        try:
            return self.request(jute.EXISTS, jute.watched(path, watch)).stat()
        except Failed as failure:
            if failure.code == -101:
                return None
            raise

    def get(self, path, watch=False):
        body = self.request(jute.GET_DATA, jute.watched(path, watch))
        return body.buffer(), body.stat()

    def set(self, path, data, version=-1):
        return self.request(jute.SET_DATA, jute.set_data(path, data, version)).stat()

    def children(self, path, watch=False):
        return self.request(jute.GET_CHILDREN, jute.watched(path, watch)).texts()

    def sync(self, path="/"):
        return self.request(jute.SYNC, jute.text(path)).text()

    def multi(self, operations):
        return self.request(jute.MULTI, jute.multi(operations)).multi()


class Pinger:
    """Pings idle clients from a thread of its own. Nobody else may use them meanwhile."""

    def __init__(self, clients, every_s):
        self._clients = list(clients)
        self._every_s = every_s
        self._stop = threading.Event()
        self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.wait(self._every_s):
                for client in self._clients:
                    client.ping()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def stop(self):
        self._stop.set()
        self._thread.join(ANSWER_SECONDS)
        if self.failure is not None:
            raise self.failure
