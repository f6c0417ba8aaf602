"""A process that takes and gives back one lock, again and again, and now and then dies or falls silent.

    lock_worker.py KIND NAME WITNESS SEED TTL DEATHS ENDPOINT...

KIND is `server` (the Lock service queues) or `library` (the recipe of etcd's package concurrency, step by
step). DEATHS of a thousand holds, and as many waits, end with SIGKILL; as many holds end by silence: the lease
is no longer renewed and runs out.
"""
import os
import random
import signal
import sys
import threading
import time

import grpc
from etcd3 import etcdrpc
from lock_witness import Witness

from harness.cluster import QUICK_RECONNECT
from harness.lock_messages import Locks
from harness.ops import created_is, end_of, put_op, range_op
from harness.rpc import Rpc
from harness.watch_messages import EVENT_DELETE

CALL_SECONDS = 2.0
IMPATIENT_SECONDS = 0.05
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
LOST = ("mutex: session is expired", "etcdserver: requested lease not found")


class Endpoint:
    """What Rpc wants to know of a server."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def grpc_credentials(self):
        return None


class Session:
    """A lease that a thread renews. deadline: until when the holder may rely on it."""

    def __init__(self, rpcs, ttl):
        self.rpcs = rpcs
        self.ttl = ttl
        sent = time.monotonic()
        self.lease = self.create()
        self.deadline = sent + ttl
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def create(self):
        request = etcdrpc.LeaseGrantRequest(TTL=self.ttl)
        return self.rpcs[0].lease.LeaseGrant(request, timeout=CALL_SECONDS).ID

    def renew(self, turn):
        """False: it has ended."""
        requests = iter([etcdrpc.LeaseKeepAliveRequest(ID=self.lease)])
        answers = self.rpcs[turn].lease.LeaseKeepAlive(requests, timeout=self.ttl / 3)
        return next(iter(answers)).TTL > 0

    def revoke(self):
        self.rpcs[0].lease.LeaseRevoke(etcdrpc.LeaseRevokeRequest(ID=self.lease), timeout=CALL_SECONDS)

    def _run(self):
        turn = 0
        while not self.done.wait(self.ttl / 6):
            sent = time.monotonic()
            try:
                if self.renew(turn):
                    self.deadline = sent + self.ttl
            except (grpc.RpcError, StopIteration):
                turn = (turn + 1) % len(self.rpcs)

    def fall_silent(self):
        self.done.set()
        self.thread.join()

    def end(self):
        if self.done.is_set():
            return  # it runs out
        self.fall_silent()
        try:
            self.revoke()
        except grpc.RpcError:
            pass  # it ends by itself


class Worker:
    session_kind = Session

    def __init__(self, name, witness, random_source, ttl, deaths, rpcs):
        self.name = name
        self.witness = witness
        self.random = random_source
        self.ttl = ttl
        self.deaths = deaths
        self.rpcs = rpcs

    def happens(self, share_of_thousand):
        return self.random.randrange(1000) < share_of_thousand

    def die_soon(self):
        delay = self.random.random() * 0.1
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def run(self):
        while True:
            self.random.shuffle(self.rpcs)
            try:
                session = self.session_kind(self.rpcs, self.ttl)
            except grpc.RpcError:
                continue
            try:
                while self.hold_once(session):
                    pass
            except grpc.RpcError as error:
                if not self.is_passing(error):
                    raise
            except (TimeoutError, EOFError):
                pass  # of a watch
            finally:
                session.end()

    def hold_once(self, session):
        """False: the session is over."""
        if self.happens(self.deaths):
            self.die_soon()
        key, token = self.lock(session)
        deadline = session.deadline
        if time.monotonic() >= deadline:
            return False
        assert token, "it holds, its lease lives, and the key is gone"
        self.witness.enter(token, deadline)
        if self.happens(self.deaths):
            os.kill(os.getpid(), signal.SIGKILL)
        is_silent = self.happens(self.deaths)
        if is_silent:
            session.fall_silent()
            time.sleep(max(0.0, deadline - time.monotonic()) * self.random.random())
        else:
            time.sleep(self.random.random() * 0.002)
        self.witness.leave()
        if not is_silent:
            self.unlock(key)
        return not is_silent

    def lock(self, session):
        raise NotImplementedError

    def unlock(self, key):
        raise NotImplementedError

    def is_passing(self, error):
        return error.code() in PASSING or error.details() in LOST

    def token_of(self, key):
        """0: the key is gone."""
        kvs = self.rpcs[0].range(key).kvs
        return kvs[0].create_revision if kvs else 0


class OfServer(Worker):
    """A call that ends is made again with the same lease, at another member."""

    def lock(self, session):
        for turn in range(1000):
            timeout = IMPATIENT_SECONDS if self.happens(50) else 10 * self.ttl
            locks = Locks(self.rpcs[turn % len(self.rpcs)].channel)
            try:
                key = locks.begin_lock(self.name, session.lease, timeout).result().key
            except grpc.RpcError as error:
                if error.code() not in PASSING:
                    raise
                if time.monotonic() >= session.deadline:
                    raise
                continue
            return key, self.token_of(key)
        raise AssertionError("a thousand calls")

    def unlock(self, key):
        Locks(self.rpcs[0].channel).unlock(key)


class OfLibrary(Worker):
    """Mutex.Lock: put, look who is before, wait for its end, look whether the own key is still there."""

    def lock(self, session):
        rpc = self.rpcs[0]
        prefix = self.name + b"/"
        key = prefix + format(session.lease, "x").encode()
        answer = rpc.txn([created_is(key, 0)], [put_op(key, b"", lease=session.lease)], [range_op(key)])
        token = answer.header.revision if answer.succeeded else answer.responses[0].response_range.kvs[0].create_revision
        while True:
            before = rpc.range(
                prefix, end_of(prefix), limit=1, max_create_revision=token - 1,
                sort_target=etcdrpc.RangeRequest.CREATE, sort_order=etcdrpc.RangeRequest.DESCEND,
            )  # fmt: skip
            if not before.kvs:
                break
            self.wait_for_end(rpc, before.kvs[0].key, before.header.revision + 1)
        if self.token_of(key) != token:
            raise Gone()
        return key, token

    def wait_for_end(self, rpc, key, revision):
        with rpc.watch(timeout=10 * self.ttl) as stream:
            stream.create(key=key, start_revision=revision)
            while True:
                answer = stream.receive(10 * self.ttl)
                if any(event.type == EVENT_DELETE for event in answer.events):
                    return

    def unlock(self, key):
        self.rpcs[0].delete(key)


class Gone(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.UNKNOWN

    def details(self):
        return LOST[0]


def main():
    kind, name, witness, seed, ttl, deaths, *endpoints = sys.argv[1:]
    rpcs = [Rpc(Endpoint(endpoint), QUICK_RECONNECT) for endpoint in endpoints]
    worker = {"server": OfServer, "library": OfLibrary}[kind]
    worker(name.encode(), Witness(witness), random.Random(seed), int(ttl), int(deaths), rpcs).run()


if __name__ == "__main__":
    main()
