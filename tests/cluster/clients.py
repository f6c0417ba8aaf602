"""Clients of a whole cluster, each in a thread of its own, and what each of them was told.

A client uses one node until that fails it, then the next. A write whose answer did not come may or
may not have happened, and is never sent again under the same name; what was acknowledged is noted
with its revision and must never be lost.
"""
import itertools
import threading
import time
import zlib

import grpc
from etcd3 import etcdrpc

from harness import wait_for
from harness.ops import created_is, delete_op, end_of, put_op
from harness.watch_messages import EVENT_DELETE

CALL_SECONDS = 2.0
PAUSE_SECONDS = 0.01
HELD_SECONDS = 30.0
FAILURE_PAUSE_SECONDS = 0.03

# What a node may answer that is not well. Anything else is a bug.
EXCUSES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Client(threading.Thread):
    """Runs work() over and over until stopped. `wrong` holds what must not have happened."""

    def __init__(self, cluster, nodes, name):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.client_name = name
        self.done = threading.Event()
        self.wrong = []
        self.failures = 0
        self.nodes = list(nodes)
        self.rpcs = [cluster.new_rpc(node) for node in nodes]
        self._turn = zlib.crc32(name.encode()) % len(nodes)

    @property
    def rpc(self):
        return self.rpcs[self._turn]

    def run(self):
        try:
            while not self.done.is_set():
                try:
                    self.work()
                except grpc.RpcError as error:
                    if error.code() not in EXCUSES:
                        raise
                    self.failures += 1
                    self._move_on()
                    self.done.wait(FAILURE_PAUSE_SECONDS)
                self.done.wait(PAUSE_SECONDS)
        except BaseException as error:  # pylint: disable=broad-except
            self.wrong.append(repr(error))

    def _move_on(self):
        # grpc drives a connection only while somebody waits for it: calls that fail at once would
        # keep an old channel from ever connecting again.
        self.rpc.close()
        self.rpcs[self._turn] = self.cluster.new_rpc(self.nodes[self._turn])
        self._turn = (self._turn + 1) % len(self.rpcs)

    def work(self):
        raise NotImplementedError

    def stop(self):
        self.done.set()
        self.join(30)
        assert not self.is_alive(), f"{self.client_name} hangs"
        for rpc in self.rpcs:
            rpc.close()


class Writer(Client):
    """Puts keys of its own, each once; notes (key, revision, when) of what was acknowledged."""

    def __init__(self, *arguments, value_size=20):
        super().__init__(*arguments)
        self.acknowledged = []
        self.value = b"v" * value_size
        self._count = itertools.count()

    def work(self):
        key = b"/written/%s/%06d" % (self.client_name.encode(), next(self._count))
        request = etcdrpc.PutRequest(key=key, value=self.value)
        answer = self.rpc.kv.Put(request, timeout=CALL_SECONDS)
        self.acknowledged.append((key, answer.header.revision, time.monotonic()))


class Locker(Client):
    """Takes a lock and gives it back; each taking is a token, larger than all it saw before."""

    LOCK = b"/locked"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tokens = []

    def work(self):
        request = etcdrpc.TxnRequest(
            compare=[created_is(self.LOCK, 0)],
            success=[put_op(self.LOCK, b"held")],
            failure=[delete_op(self.LOCK)],
        )
        answer = self.rpc.kv.Txn(request, timeout=CALL_SECONDS)
        if answer.succeeded:
            if self.tokens and answer.header.revision <= self.tokens[-1]:
                self.wrong.append(f"token {answer.header.revision} after {self.tokens[-1]}")
            self.tokens.append(answer.header.revision)


class Granter(Client):
    """Grants leases that last; notes (id, when it was asked for, when it was granted)."""

    TTL_SECONDS = 3600

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.granted = []

    def work(self):
        request = etcdrpc.LeaseGrantRequest(TTL=self.TTL_SECONDS)
        asked_at = time.monotonic()
        answer = self.rpc.lease.LeaseGrant(request, timeout=CALL_SECONDS)
        self.granted.append((answer.ID, asked_at, time.monotonic()))


class Churner(Client):
    """Writes one large value over and over and forgets the old ones: much log, little state."""

    KEY = b"/churned"
    VALUE = b"c" * 50_000

    def work(self):
        request = etcdrpc.PutRequest(key=self.KEY, value=self.VALUE)
        revision = self.rpc.kv.Put(request, timeout=CALL_SECONDS).header.revision
        try:
            self.rpc.kv.Compact(etcdrpc.CompactionRequest(revision=revision), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            # Its answer was lost, it was sent again by grpc, and had happened already.
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise


class Holder(Client):
    """Holds a key with a lease of its own, and renews it three times a TTL."""

    TTL_SECONDS = 3
    RENEW_SECONDS_MAX = 1.0

    def __init__(self, *arguments, ttl_s=TTL_SECONDS):
        super().__init__(*arguments)
        self.renewals = 0
        self._call = None
        self._is_cut = False
        self.ttl_s = ttl_s
        self.key = b"/held/" + self.client_name.encode()
        self.lease = self.rpc.grant(ttl_s).ID
        self.rpc.put(self.key, b"mine", lease=self.lease)
        self.created = self.rpc.range(self.key).kvs[0].create_revision

    def work(self):
        requests = iter([etcdrpc.LeaseKeepAliveRequest(ID=self.lease)])
        self._call = self.rpc.lease.LeaseKeepAlive(requests, timeout=self.RENEW_SECONDS_MAX)
        try:
            for answer in self._call:
                if answer.TTL == 0:
                    raise AssertionError(f"lease {self.lease:x} of {self.client_name} is gone")
                self.renewals += 1
        except grpc.RpcError:
            if not self._is_cut:
                raise
        self.done.wait(self.ttl_s / 3)

    def stop(self):
        # The client's own deadline ends a call; grpcio has been seen to miss it on a busy machine.
        self.done.set()
        self.join(10)
        if self.is_alive():
            self._is_cut = True
            self._call.cancel()
        super().stop()

    def check_held(self, rpc):
        kvs = rpc.range(self.key).kvs
        assert len(kvs) == 1, f"the key of {self.client_name}, a live holder, is gone"
        assert kvs[0].create_revision == self.created, f"{self.client_name} lost its key meanwhile"
        assert kvs[0].lease == self.lease


class Abandoned:
    """Leases with a key each that nobody renews, and a watch for their ends on every node, which goes
    on where it was when the node comes back. Use as a context manager around the trouble."""

    PREFIX = b"/abandoned/"

    def __init__(self, cluster, ttls_s=()):
        self._cluster = cluster
        self._sent = {}
        self._ends = {}
        self._done = threading.Event()
        self._revision = cluster.rpc(0).revision() + 1
        self._threads = [
            threading.Thread(target=self._watch, args=(node,), daemon=True)
            for node in range(len(cluster))
        ]  # fmt: skip
        for ttl_s in ttls_s:
            self.add(ttl_s)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        for thread in self._threads:
            thread.join()

    def add(self, ttl_s):
        """Grants one more, through whichever node answers."""
        key = self.PREFIX + b"%d" % len(self._sent)
        for node in itertools.cycle(range(len(self._cluster))):
            with self._cluster.new_rpc(node) as rpc:
                try:
                    sent_at = time.monotonic()
                    grant = etcdrpc.LeaseGrantRequest(TTL=ttl_s)
                    lease = rpc.lease.LeaseGrant(grant, timeout=CALL_SECONDS).ID
                    granted_at = time.monotonic()
                    rpc.kv.Put(etcdrpc.PutRequest(key=key, lease=lease), timeout=CALL_SECONDS)
                except grpc.RpcError as error:
                    assert error.code() in EXCUSES, error
                    continue
            self._sent[key] = (sent_at, granted_at, ttl_s)
            return

    def _watch(self, node):
        revision = self._revision
        while not self._done.is_set():
            with self._cluster.new_rpc(node) as rpc, rpc.watch() as stream:
                try:
                    stream.create(self.PREFIX, end_of(self.PREFIX), start_revision=revision)
                    while not self._done.is_set():
                        try:
                            response = stream.receive(0.05)
                        except TimeoutError:
                            continue
                        for event in response.events:
                            revision = event.kv.mod_revision + 1
                            if event.type == EVENT_DELETE:
                                self._ends.setdefault((event.kv.key, node), stream.received_at)
                except (grpc.RpcError, EOFError, TimeoutError):
                    self._done.wait(FAILURE_PAUSE_SECONDS)

    def check(self, timeout_s, early_s_max=0.0):
        """Waits for the last end, on every node; answers how long after its TTL each lease ended."""
        wait_for(
            lambda: len(self._ends) == len(self._sent) * len(self._threads),
            timeout_s, "the end of what nobody renewed",
        )  # fmt: skip
        late = []
        for key, (sent_at, granted_at, ttl_s) in self._sent.items():
            end = min(at for (ended, _), at in self._ends.items() if ended == key)
            early = sent_at + ttl_s - end
            assert early <= early_s_max, f"a lease ended {early:.3f} s too early"
            late.append(end - granted_at - ttl_s)
        return late


class Load:
    """Writers, a locker and holders through some of the nodes. Use as a context manager: at the end
    all are stopped, and what they saw wrong fails the test."""

    def __init__(self, cluster, nodes=None, writers=3, holders=3, ttl_s=Holder.TTL_SECONDS):
        nodes = list(range(len(cluster))) if nodes is None else nodes
        self.cluster = cluster
        self.writers = [Writer(cluster, nodes, f"writer{n}") for n in range(writers)]
        self.locker = Locker(cluster, nodes, "locker")
        self.holders = [Holder(cluster, nodes, f"holder{n}", ttl_s=ttl_s) for n in range(holders)]
        self.clients = [*self.writers, self.locker, *self.holders]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, kind, *_):
        for client in self.clients:
            if client not in self.holders:
                client.stop()
        try:
            if kind is None:
                self._check_held()
        finally:
            for holder in self.holders:
                holder.stop()
        # What a client saw may well be why the test failed.
        self.check_right()

    def _check_held(self):
        """Every holder has what it holds, as all nodes tell, while it renews: a node that has just
        come back may take longer to answer than a lease lasts."""

        def held_on(node):
            try:
                for holder in self.holders:
                    holder.check_held(self.cluster.rpc(node))
                return True
            except grpc.RpcError as error:
                assert error.code() in EXCUSES, error
                return False

        for node in self.cluster.answering():
            wait_for(lambda: held_on(node), HELD_SECONDS, "an answer")  # pylint: disable=cell-var-from-loop

    def check_right(self):
        wrong = [f"{one.client_name}: {what}" for one in self.clients for what in one.wrong]
        assert not wrong, wrong[:5]

    def acknowledged(self):
        return [entry for writer in self.writers for entry in list(writer.acknowledged)]

    def failures(self):
        return sum(client.failures for client in self.clients)

    def next_acknowledged(self, since, timeout_s):
        """When the first write was acknowledged that came after this moment."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            moments = [w.acknowledged[-1][2] for w in self.writers if w.acknowledged]
            if any(moment > since for moment in moments):
                return min(e[2] for e in self.acknowledged() if e[2] > since)
            time.sleep(0.002)
        raise TimeoutError(f"no write was acknowledged within {timeout_s} s")

    def check_kept(self, rpc):
        """Everything acknowledged is there, at the revision that was told."""
        there = {kv.key: kv for kv in rpc.range(b"/written/", end_of(b"/written/")).kvs}
        entries = self.acknowledged()
        lost = [key for key, _, _ in entries if key not in there]
        assert not lost, f"{len(lost)} of {len(entries)} acknowledged writes are lost: {lost[:5]}"
        for key, revision, _ in entries:
            assert there[key].create_revision == revision, f"{key!r} is not where it was told to be"
        revisions = [revision for _, revision, _ in entries] + self.locker.tokens
        assert len(set(revisions)) == len(revisions), "one revision was given to two writes"
        for writer in self.writers:
            own = [revision for _, revision, _ in writer.acknowledged]
            assert own == sorted(own), "revisions went back"
        return len(entries)

    def check_all(self, cluster):
        """After all nodes are back and all clients have stopped."""
        for node in cluster.answering():
            self.check_kept(cluster.rpc(node))
        assert all(holder.renewals > 0 for holder in self.holders)
        assert len(self.locker.tokens) > 0
        cluster.wait_equal()
