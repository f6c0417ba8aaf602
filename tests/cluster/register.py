"""Clients of one register, each in a thread of its own, who write down what they did and when.

Several of them make a history that register_check.py can judge. Every random choice comes from
SEED, which LEASED_CLUSTER_SEED repeats.
"""
import itertools
import os
import random
import threading
import time

import grpc
from clients import EXCUSES
from etcd3 import etcdrpc
from register_check import Operation, problems

from harness import wait_for

SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(10**6)))
WRITE_SHARE = 0.3
CALL_SECONDS = 2.0
KEY = b"/register"
WRITES_MIN = 40
READS_MIN = 80
ENOUGH_SECONDS = 30


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


class Register:
    """Players around some trouble. Use as a context manager, then call check()."""

    def __init__(self, cluster, clients=6):
        self.done = threading.Event()
        print(f"seed {SEED}")
        begin = time.monotonic()
        cluster.rpc(0).put(KEY, b"first")
        self.history = [Operation(True, b"first", begin, time.monotonic())]
        self.players = [Player(cluster, number, self.done) for number in range(clients)]

    def __enter__(self):
        for player in self.players:
            player.start()
        return self

    def __exit__(self, kind, *_):
        try:
            # Trouble may have left little time to play: they go on until there is enough to judge.
            if kind is None:
                wait_for(self._has_enough, ENOUGH_SECONDS, "enough reads and writes to judge")
        finally:
            self.done.set()
            for player in self.players:
                player.close()

    def _has_enough(self):
        history = [operation for player in self.players for operation in list(player.history)]
        writes = sum(operation.is_write for operation in history)
        return writes > WRITES_MIN and len(history) - writes > READS_MIN

    def check(self):
        """Whether all of it is linearizable; answers figures to report."""
        history = list(self.history)
        for player in self.players:
            assert not player.wrong, player.wrong
            history += player.history
        writes = sum(operation.is_write for operation in history)
        reads = len(history) - writes
        assert writes > WRITES_MIN and reads > READS_MIN, "too little was done to judge"
        found = problems(history)
        assert not found, found[:5]
        failures = sum(player.failures for player in self.players)
        return {"seed": SEED, "writes": writes, "reads": reads, "failures": failures}
