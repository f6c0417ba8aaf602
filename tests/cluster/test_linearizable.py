"""One register, six clients, three nodes, and leaders that are killed and stopped at random."""
import itertools
import os
import random
import threading
import time

import grpc
import pytest
from clients import EXCUSES
from etcd3 import etcdrpc
from register_check import Operation, problems

from harness.acceptance import either, report
from harness.cluster import Cluster

SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(10**6)))
SECONDS = either(9.0, 60.0)
CLIENTS = 6
WRITE_SHARE = 0.3
CALL_SECONDS = 2.0
KEY = b"/register"


class Player(threading.Thread):
    """Reads and writes through one node after the other, and writes down when."""

    def __init__(self, cluster, number, done):
        super().__init__(daemon=True)
        self.history = []
        self.wrong = []
        self.failures = 0
        self._choose = random.Random(SEED * 1000 + number)
        self._number = number
        self._count = itertools.count()
        self._done = done
        self._cluster = cluster
        self._rpcs = [cluster.new_rpc(node) for node in range(len(cluster))]

    def run(self):
        try:
            while not self._done.is_set():
                node = self._choose.randrange(len(self._rpcs))
                failures = self.failures
                if self._choose.random() < WRITE_SHARE:
                    self._write(self._rpcs[node])
                else:
                    self._read(self._rpcs[node])
                if self.failures > failures:
                    self._rpcs[node].close()
                    self._rpcs[node] = self._cluster.new_rpc(node)
                time.sleep(self._choose.uniform(0, 0.005))
        except BaseException as error:  # pylint: disable=broad-except
            self.wrong.append(repr(error))

    def _call(self, method, request):
        try:
            return method(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() not in EXCUSES:
                raise
            self.failures += 1
            return None

    def _write(self, rpc):
        value = b"%d-%d" % (self._number, next(self._count))
        begin = time.monotonic()
        if self._call(rpc.kv.Put, etcdrpc.PutRequest(key=KEY, value=value)) is not None:
            self.history.append(Operation(True, value, begin, time.monotonic()))
        else:
            self.history.append(Operation(True, value, begin))

    def _read(self, rpc):
        begin = time.monotonic()
        answer = self._call(rpc.kv.Range, etcdrpc.RangeRequest(key=KEY))
        if answer is not None:
            self.history.append(Operation(False, answer.kvs[0].value, begin, time.monotonic()))

    def close(self):
        self.join(30)
        assert not self.is_alive()
        for rpc in self._rpcs:
            rpc.close()


def trouble(cluster, choose, until):
    """Kills and stops leaders, and now and then another; counts what it did."""
    done = {"kills": 0, "stops": 0}
    while time.monotonic() < until:
        time.sleep(choose.uniform(0.2, 0.8))
        node = cluster.leader() if choose.random() < 0.8 else choose.randrange(len(cluster))
        if choose.random() < 0.5:
            cluster.kill(node)
            time.sleep(choose.uniform(0, 1.0))
            cluster.restart(node)
            done["kills"] += 1
        else:
            cluster.pause(node)
            # Around the time at which the others give up on it.
            time.sleep(choose.uniform(0.1, 1.0))
            cluster.resume(node)
            done["stops"] += 1
    return done


@pytest.mark.seconds_max(120 + SECONDS)
def test_one_register_is_linearizable_whatever_happens_to_leaders():
    choose = random.Random(SEED)
    print(f"seed {SEED}")
    done = threading.Event()
    with Cluster() as cluster:
        begin = time.monotonic()
        cluster.rpc(0).put(KEY, b"first")
        history = [Operation(True, b"first", begin, time.monotonic())]
        players = [Player(cluster, number, done) for number in range(CLIENTS)]
        for player in players:
            player.start()
        try:
            troubles = trouble(cluster, choose, time.monotonic() + SECONDS)
        finally:
            done.set()
            for player in players:
                player.close()
        cluster.wait_equal()
    for player in players:
        assert not player.wrong, player.wrong
        history += player.history
    writes = sum(operation.is_write for operation in history)
    report("one register", seed=SEED, writes=writes, reads=len(history) - writes,
           failures=sum(player.failures for player in players), **troubles)  # fmt: skip
    assert writes > 50 and len(history) - writes > 100
    found = problems(history)
    assert not found, found[:5]


def test_the_checker_accepts_what_is_linearizable():
    history = [
        Operation(True, b"a", 0, 1),
        Operation(False, b"a", 2, 3),
        # One write and two reads at once, seen in either order.
        Operation(True, b"b", 4, 10),
        Operation(False, b"a", 5, 6),
        Operation(False, b"b", 5, 9),
        # Never answered: seen late, or never.
        Operation(True, b"c", 11),
        Operation(True, b"d", 11),
        Operation(False, b"b", 12, 13),
        Operation(False, b"c", 14, 15),
    ]
    assert not problems(history)


def test_the_checker_notices_what_is_not():
    a, b = Operation(True, b"a", 0, 1), Operation(True, b"b", 2, 3)
    wrong = [
        # A read that began after the newer write had ended.
        [a, b, Operation(False, b"a", 4, 5)],
        # Two reads, one after the other, that go back while the write is under way.
        [a, Operation(True, b"b", 2), Operation(False, b"b", 3, 4), Operation(False, b"a", 5, 6)],
        # A read from the future, and of what nobody wrote.
        [a, Operation(True, b"b", 5, 6), Operation(False, b"b", 2, 3)],
        [a, Operation(False, b"z", 2, 3)],
        # A write that was acknowledged and never came about.
        [a, b, Operation(False, b"b", 4, 5), Operation(True, b"c", 6, 7), Operation(False, b"b", 8, 9)],
    ]
    for history in wrong:
        assert problems(history), [str(operation) for operation in history]
