"""Clients that write until the server is killed, and what each of them was told.

A write is noted before it is sent and its revision when the answer came: what has a
revision must never be lost, what has none may or may not have happened. Every client
has keys of its own, so that the order within one of them is known.
"""
import collections
import itertools
import threading
import time
import zlib

import grpc
from etcd3 import etcdrpc

from harness.ops import created_is, delete_op, put_op
from harness.rpc import Rpc

PUT_DEPTH = 24
PUT_PADDING_MAX = 3000
LEASE_TTLS_SECONDS = (1, 2, 4, 600)
GRANT_PAUSE_SECONDS = 0.01
RENEW_PAUSE_SECONDS = 0.1
RENEWED_LEASES = 12

LOCK = b"/lock"
PAIR_LEFT, PAIR_RIGHT, PAIR_MARK = b"/pair/left", b"/pair/right", b"/pair/mark/"


def value_of(key):
    """What a key that is written once must hold; sizes differ so that entries do."""
    return key + b"." * (zlib.crc32(key) % PUT_PADDING_MAX)


class Write:
    """One write: revision stays 0 until it was acknowledged."""

    __slots__ = ("key", "revision")

    def __init__(self, key):
        self.key = key
        self.revision = 0


class Lease:
    """safe_until: sent + TTL of the last grant or renewal that was acknowledged."""

    __slots__ = ("id", "ttl", "key", "has_key", "safe_until", "gone_at")

    def __init__(self, lease_id, ttl, sent_at):
        self.id = lease_id
        self.ttl = ttl
        self.key = b"/lease/%d" % lease_id
        self.has_key = False
        self.safe_until = sent_at + ttl
        self.gone_at = None


class History:
    """Everything acknowledged so far, over all lives of the server."""

    def __init__(self):
        self.revision = 0
        self.writes = []  # of the newest round
        self.kept = {}  # key: revision, of older rounds
        self.deleted = []
        self.tokens = []
        self.pair_acknowledged = 0
        self.pair_sent = 0
        self.leases = {}
        self.unexpected = []
        self.acknowledged = collections.Counter()

    def saw(self, kind, revision):
        self.acknowledged[kind] += 1
        self.revision = max(self.revision, revision)


class Client(threading.Thread):
    """Runs work() over and over, on a connection of its own, until the server dies."""

    def __init__(self, server, history, killed, number):
        super().__init__(daemon=True)
        self.history = history
        self.killed = killed
        self.number = number
        self.rpc = Rpc(server)

    def run(self):
        try:
            while not self.killed.is_set():
                self.work()
        except grpc.RpcError as error:
            # Before the kill, or with another reason than that nobody is there: a bug.
            if not self.killed.is_set() or error.code() != grpc.StatusCode.UNAVAILABLE:
                self.history.unexpected.append((type(self).__name__, error))
        except BaseException as error:  # pylint: disable=broad-except
            self.history.unexpected.append((type(self).__name__, error))
        finally:
            self.rpc.close()

    def work(self):
        raise NotImplementedError


class Putter(Client):
    """Many puts in flight, each of a key of its own."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._count = itertools.count()
        self._window = collections.deque()

    def _send(self):
        write = Write(b"/puts/%06d/%06d" % (self.number, next(self._count)))
        self.history.writes.append(write)
        request = etcdrpc.PutRequest(key=write.key, value=value_of(write.key))
        self._window.append((write, self.rpc.kv.Put.future(request, timeout=30)))

    def _receive(self):
        write, future = self._window.popleft()
        write.revision = future.result().header.revision
        self.history.saw("puts", write.revision)

    def work(self):
        try:
            while not self.killed.is_set():
                self._send()
                if len(self._window) >= PUT_DEPTH:
                    self._receive()
        finally:
            # An answer that came counts, also when the one before it did not come.
            failures = []
            while self._window:
                try:
                    self._receive()
                except grpc.RpcError as error:
                    failures.append(error)
            if failures:
                raise failures[0]


class Locker(Client):
    """Takes a lock and gives it back: each time a token, larger than all before."""

    def work(self):
        answer = self.rpc.txn([created_is(LOCK, 0)], [put_op(LOCK, b"held")], [delete_op(LOCK)])
        if answer.succeeded:
            self.history.tokens.append(answer.header.revision)
        self.history.saw("locks" if answer.succeeded else "unlocks", answer.header.revision)


class Pairer(Client):
    """Changes three keys in one transaction: all of them must tell the same number."""

    def work(self):
        number = self.history.pair_sent = self.history.pair_sent + 1
        text = b"%d" % number
        operations = [
            put_op(PAIR_LEFT, text),
            put_op(PAIR_RIGHT, text),
            delete_op(PAIR_MARK + b"%d" % (number - 1)),
            put_op(PAIR_MARK + text, text),
        ]
        self.history.saw("txns", self.rpc.txn(success=operations).header.revision)
        self.history.pair_acknowledged = number


class Deleter(Client):
    """Puts and deletes: what was deleted stays deleted."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._count = itertools.count()

    def work(self):
        key = b"/deleted/%06d/%06d" % (self.number, next(self._count))
        self.history.saw("puts", self.rpc.put(key, b"x").header.revision)
        self.history.saw("deletes", self.rpc.delete(key).header.revision)
        self.history.deleted.append(key)


class Granter(Client):
    """Grants leases, each with a key."""

    def work(self):
        for ttl in LEASE_TTLS_SECONDS:
            sent_at = time.monotonic()
            granted = self.rpc.grant(ttl)
            lease = Lease(granted.ID, ttl, sent_at)
            self.history.acknowledged["grants"] += 1
            self.history.leases[lease.id] = lease
            try:
                answer = self.rpc.put(lease.key, b"%d" % ttl, lease=lease.id)
            except grpc.RpcError as error:
                # The shortest of them may be over before its key came, on a busy machine.
                late = error.code() is grpc.StatusCode.NOT_FOUND
                if not late or time.monotonic() < lease.safe_until:
                    raise
                continue
            lease.has_key = True
            self.history.saw("puts", answer.header.revision)
        self.killed.wait(GRANT_PAUSE_SECONDS)


class Renewer(Client):
    """Renews some of the leases on one stream, the newest of each round and some older ones."""

    def work(self):
        with self.rpc.keep_alive() as stream:
            while not self.killed.is_set():
                leases = [
                    lease for lease in list(self.history.leases.values())
                    if lease.gone_at is None and lease.safe_until > time.monotonic()
                    and lease.ttl > 1
                ][:: 3][-RENEWED_LEASES:]  # fmt: skip
                sent_at = time.monotonic()
                for lease in leases:
                    stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease.id))
                for lease in leases:
                    self._receive(stream, lease, sent_at)
                self.killed.wait(RENEW_PAUSE_SECONDS)

    def _receive(self, stream, lease, sent_at):
        answer = stream.receive(30)
        if answer.ID != lease.id:
            raise AssertionError(f"a renewal of {lease.id} was answered for {answer.ID}")
        if answer.TTL > 0:
            lease.safe_until = max(lease.safe_until, sent_at + lease.ttl)
            self.history.acknowledged["renewals"] += 1
        elif time.monotonic() < lease.safe_until:
            raise AssertionError(f"lease {lease.id} was gone before its time")


CLIENTS = (Putter, Putter, Locker, Pairer, Deleter, Granter, Renewer)
