"""Many clients of the ZooKeeper protocol in one thread, which take and give back locks as kazoo and Curator do:
an ephemeral sequential node, and a watch on the one before it.

A locker counts its session from the moment it sent the last request that was answered. Until then, or until it gives
the lock back, it is the holder, whatever became of its connection. Two holders of one lock at one moment, a fencing
token (czxid) that does not grow, and a session that was ended before its time are written down in `wrong`.
"""
import collections
import errno
import heapq
import itertools
import random
import selectors
import socket
import struct
import threading
import time

from harness import jute

NO_NODE, NODE_EXISTS, EXPIRED = -101, -110, -112
CONNECT_SECONDS = 3.0
HOLD_SECONDS_MAX = 0.03
RETRY_SECONDS = 0.05


class Lock:
    """What is known of one lock, over all lockers."""

    def __init__(self, path):
        self.path = path
        self.token = 0
        self.holder = None


class Locker:
    """One client with one session at a time."""

    def __init__(self, crowd, number, lock, timeout_s, deaths):
        self.crowd = crowd
        self.number = number
        self.lock = lock
        self.timeout_s = timeout_s
        self.deaths = deaths  # of a thousand holds
        self.random = random.Random(f"{crowd.seed}/{number}")
        self.socket = None
        self.generation = 0  # of connections: timers of old ones do nothing
        self.forget()

    # Sessions

    def forget(self):
        """A new session will be asked for."""
        self.session_id, self.password, self.zxid = 0, bytes(16), 0
        self.valid_until = 0.0
        self.node = None
        self.creating = False
        self.releasing = False
        self.prefix = f"lock-{self.number}-{self.random.getrandbits(64):016x}-"

    def connect(self):
        self.close()
        self.generation += 1
        self.input, self.output = b"", b""
        self.pending, self.pings = collections.deque(), collections.deque()
        self.waiting_for = None
        self.xid = 0
        self.ready = False
        address = self.random.choice(self.crowd.addresses)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self.socket.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self.later(RETRY_SECONDS, self.connect)
            return
        self.sent_at = self.heard_at = time.monotonic()
        self.output = jute.frame(
            jute.connect(int(self.timeout_s * 1000), self.session_id, self.password, self.zxid)
        )
        self.crowd.selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        self.later(min(CONNECT_SECONDS, self.timeout_s / 2), self.check_connected)

    def close(self):
        if self.socket is not None:
            try:
                self.crowd.selector.unregister(self.socket)
            except KeyError:
                pass
            self.socket.close()
            self.socket = None

    def later(self, seconds, what):
        generation = self.generation
        self.crowd.at(time.monotonic() + seconds, lambda: what() if generation == self.generation else None)

    def check_connected(self):
        if not self.ready:
            self.connect()

    def tick(self):
        """Pings, and gives up on a server that says nothing."""
        now = time.monotonic()
        if now - self.heard_at > self.timeout_s * 2 / 3 and (self.pending or self.pings):
            self.crowd.counts["silent servers"] += 1
            self.connect()
            return
        if now - self.sent_at >= self.timeout_s / 3:
            self.request(jute.PING, b"", None, jute.XID_PING)
        self.later(self.timeout_s / 6, self.tick)

    # Bytes

    def on_ready(self, mask):
        try:
            if mask & selectors.EVENT_WRITE:
                self.flush()
            if mask & selectors.EVENT_READ:
                piece = self.socket.recv(1 << 16)
                if not piece:
                    raise ConnectionResetError("end of stream")
                self.input += piece
                self.heard_at = time.monotonic()
                self.take_frames()
        except OSError:
            self.lost()

    def lost(self):
        self.crowd.counts["lost connections"] += 1
        self.close()
        self.generation += 1
        self.ready = False
        self.later(self.random.uniform(0, RETRY_SECONDS), self.connect)

    def flush(self):
        if self.output:
            sent = self.socket.send(self.output)
            self.output = self.output[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.output else 0)
        self.crowd.selector.modify(self.socket, events, self)

    def take_frames(self):
        generation = self.generation
        while generation == self.generation and len(self.input) >= 4:
            size = struct.unpack_from(">i", self.input)[0]
            if len(self.input) < 4 + size:
                return
            payload, self.input = self.input[4 : 4 + size], self.input[4 + size :]
            self.on_frame(jute.Reader(payload))

    def on_frame(self, reader):
        if not self.ready:
            self.on_connected(reader)
            return
        xid, zxid, error = reader.integer(), reader.long(), reader.integer()
        if xid == jute.XID_EVENT:
            self.on_event()
            return
        if xid == jute.XID_PING:
            sent_at, then = self.pings.popleft(), None
        else:
            expected, sent_at, then = self.pending.popleft()
            if expected != xid:
                self.crowd.complain(f"{self}: answer {xid} instead of {expected}")
        if zxid > 0:
            if zxid < self.zxid:
                self.crowd.complain(f"{self}: zxid {zxid} after {self.zxid}")
            self.zxid = max(self.zxid, zxid)
        if error == EXPIRED:
            self.on_expired()
            return
        self.valid_until = max(self.valid_until, sent_at + self.timeout_s)
        if then is not None:
            then(error, reader)

    def request(self, op, payload, then, xid=None):
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.sent_at = time.monotonic()
        if xid == jute.XID_PING:
            self.pings.append(self.sent_at)  # answered beside the others
        else:
            self.pending.append((xid, self.sent_at, then))
        self.output += jute.frame(jute.integer(xid) + jute.integer(op) + payload)
        try:
            self.flush()
        except OSError:
            self.lost()

    def on_connected(self, reader):
        _version, timeout_ms, session_id = reader.integer(), reader.integer(), reader.long()
        password = reader.buffer()
        if timeout_ms <= 0:
            self.on_expired()
            return
        if self.session_id not in (0, session_id):
            self.crowd.complain(f"{self}: another session than asked for")
        self.ready = True
        self.session_id, self.password = session_id, password
        self.valid_until = max(self.valid_until, self.sent_at + self.timeout_s)
        self.crowd.counts["connections"] += 1
        self.tick()
        self.go_on()

    def on_expired(self):
        now = time.monotonic()
        if now < self.valid_until:
            self.crowd.complain(f"{self}: session ended {self.valid_until - now:.3f} s before its time")
        self.crowd.expired[self.timeout_s] += 1
        self.crowd.given_up(self)
        self.forget()
        self.connect()

    # The lock

    def path(self, name):
        return f"{self.lock.path}/{name}"

    def go_on(self):
        """After a connection, whatever was under way."""
        if self.lock.holder is self:
            self.list()  # its release is due by a timer; this finds out whether the node is there
        elif self.node is not None or self.creating:
            self.list()
        else:
            self.create()

    def create(self):
        self.creating = True
        self.request(
            jute.CREATE, jute.create(self.path(self.prefix), b"", flags=jute.EPHEMERAL_SEQUENTIAL), self.on_created
        )

    def on_created(self, error, reader):
        if error != 0:
            self.crowd.complain(f"{self}: create answered {jute.error_name(error)}")
            return
        self.creating = False
        self.node = reader.text().rpartition("/")[2]
        self.list()

    def list(self):
        self.request(jute.GET_CHILDREN, jute.watched(self.lock.path), self.on_list)

    def on_list(self, error, reader):
        if error != 0:
            self.crowd.complain(f"{self}: list answered {jute.error_name(error)}")
            return
        names = sorted(reader.texts(), key=lambda name: name[-10:])
        if self.node is None:
            mine = [name for name in names if name.startswith(self.prefix)]
            if len(mine) > 1:
                self.crowd.complain(f"{self}: created {len(mine)} nodes")
            if not mine:
                self.creating = False
                self.create()
                return
            self.creating, self.node = False, mine[0]
        if self.node not in names:
            if self.releasing:
                self.finished()
                return
            self.crowd.complain(f"{self}: its node {self.node} is gone while its session lives")
            self.crowd.given_up(self)
            self.node = None
            self.create()
            return
        if self.releasing:
            self.delete()
            return
        place = names.index(self.node)
        if place > 0:
            if self.lock.holder is self and time.monotonic() < self.valid_until:
                self.crowd.complain(f"{self}: holds, and is number {place} of the queue")
            self.waiting_for = names[place - 1]
            self.request(jute.EXISTS, jute.watched(self.path(self.waiting_for), True), self.on_before)
        elif self.lock.holder is not self:
            self.request(jute.EXISTS, jute.watched(self.path(self.node)), self.on_first)

    def on_before(self, error, _reader):
        if error == NO_NODE:
            self.list()

    def on_event(self):
        if self.waiting_for is not None:
            self.waiting_for = None
            self.list()

    def on_first(self, error, reader):
        if error != 0:
            self.list()
            return
        self.crowd.acquired(self, reader.stat()["czxid"])
        if self.random.randrange(1000) < self.deaths:
            self.die()
            return
        # Not a timer of the connection: what is held is held without one.
        self.crowd.at(time.monotonic() + self.random.uniform(0, HOLD_SECONDS_MAX), self.release)

    def release(self):
        if self.lock.holder is not self:
            return
        self.crowd.given_up(self)
        self.releasing = True
        if self.socket is not None and self.ready:
            self.delete()

    def delete(self):
        self.request(jute.DELETE, jute.versioned(self.path(self.node)), self.on_deleted)

    def on_deleted(self, error, _reader):
        if error in (0, NO_NODE):
            self.finished()

    def finished(self):
        self.node, self.releasing = None, False
        self.prefix = f"lock-{self.number}-{self.random.getrandbits(64):016x}-"
        self.create()

    def die(self):
        """Falls silent without a word, as a holder, and is born again with another session."""
        self.crowd.counts["deaths"] += 1
        self.crowd.dead_until[self.session_id] = self.valid_until
        self.close()
        self.generation += 1
        self.crowd.at(self.valid_until, lambda: self.crowd.given_up(self))
        self.crowd.at(self.valid_until, self.forget)
        self.crowd.at(self.valid_until + 0.001, self.connect)

    def __str__(self):
        return f"locker {self.number} of {self.lock.path}, session {self.session_id:#x}"


class Crowd:
    """Lockers and the thread that runs them. Use as a context manager."""

    def __init__(self, addresses, seed, n_lockers, n_locks, timeouts_s, deaths):
        self.addresses = [(host, int(port)) for host, port in (address.rsplit(":", 1) for address in addresses)]
        self.seed = seed
        self.selector = selectors.DefaultSelector()
        self.counts = collections.Counter()
        self.expired = collections.Counter()
        self.dead_until = {}
        self.wrong = []
        self.holds = 0
        self.stall_s = 0.0  # the longest time in which nobody was served by this thread
        self.locks = [Lock(f"/locks/{number}") for number in range(n_locks)]
        self._timers = []
        self._order = itertools.count()
        self._stop = False
        self.lockers = [
            Locker(self, number, self.locks[number % n_locks], timeouts_s[number // n_locks % len(timeouts_s)],
                   deaths if timeouts_s[number // n_locks % len(timeouts_s)] == min(timeouts_s) else 0)
            for number in range(n_lockers)
        ]  # fmt: skip
        self._thread = threading.Thread(target=self._run, daemon=True)

    def complain(self, text):
        self.wrong.append(text)

    def at(self, when, what):
        heapq.heappush(self._timers, (when, next(self._order), what))

    def acquired(self, locker, token):
        now, lock = time.monotonic(), locker.lock
        other = lock.holder
        if other is not None and other is not locker and now < other.valid_until:
            self.complain(f"two holders for {other.valid_until - now:.3f} s more: {other} and {locker}")
        if token <= lock.token:
            self.complain(f"{locker}: token {token} after {lock.token}")
        lock.token, lock.holder = token, locker
        self.holds += 1

    @staticmethod
    def given_up(locker):
        if locker.lock.holder is locker:
            locker.lock.holder = None

    def _run(self):
        last = time.monotonic()
        for locker in self.lockers:
            self.at(last + locker.random.uniform(0, 0.5), locker.connect)
        while not self._stop:
            now = time.monotonic()
            self.stall_s = max(self.stall_s, now - last)
            last = now
            try:
                while self._timers and self._timers[0][0] <= now:
                    heapq.heappop(self._timers)[2]()
                wait = min(0.1, max(0.0, self._timers[0][0] - now)) if self._timers else 0.1
                for key, mask in self.selector.select(wait):
                    if key.data.socket is key.fileobj:
                        key.data.on_ready(mask)
                last += min(wait, time.monotonic() - last)
            except Exception as error:  # pylint: disable=broad-except
                self.complain(f"the test itself: {error!r}")
                raise

    def __enter__(self):
        self._thread.start()
        return self

    def stop(self):
        """Ends all connections; the sessions run out."""
        self._stop = True
        self._thread.join(30)
        for locker in self.lockers:
            locker.close()

    def __exit__(self, *_):
        self.stop()
        self.selector.close()
