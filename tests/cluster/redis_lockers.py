"""Clients that take and give back locks by redis-py's Lock, through any of several servers, and a witness of who
believes to hold what: a holder believes it from before it asked until its time is over or it gives the lock back."""
import random
import threading
import time

import redis
from redis.exceptions import LockError, RedisError

CALL_SECONDS = 2.0


class Witness:
    """Who holds each lock, as its holder believes."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.holders = {}  # name -> [who, until]
        self.tokens = {}
        self.holds = 0
        self.wrong = []

    def enter(self, name, who, deadline, token):
        """False: the time was over before anybody could act on it."""
        with self.mutex:
            now = time.monotonic()
            if now >= deadline:
                return False
            other, until = self.holders.get(name, (None, 0.0))
            if now < until:
                self.wrong.append(f"{name}: {who} holds it {until - now:.3f} s before the end of {other}")
            if token is not None and token <= self.tokens.get(name, 0):
                self.wrong.append(f"{name}: token {token} after {self.tokens[name]}")
            if token is not None:
                self.tokens[name] = token
            self.holders[name] = [who, deadline]
            self.holds += 1
            return True

    def prolong(self, name, who, deadline):
        with self.mutex:
            now = time.monotonic()
            other, until = self.holders[name]
            if other == who:
                self.holders[name][1] = max(until, deadline)
            elif now < until:
                self.wrong.append(f"{name}: {who} prolonged what {other} holds")

    def leave(self, name, who):
        with self.mutex:
            if self.holders[name][0] == who:
                self.holders[name][1] = 0.0


class Lockers:
    """Use as a context manager. connect(random) gives a redis-py client; with tokens, LEASED.TOKEN is asked for."""

    def __init__(self, connect, seed, n_clients, n_locks, ttl_s, pause_s, has_tokens=True):
        self.connect = connect
        self.n_locks = n_locks
        self.ttl_s = ttl_s
        self.pause_s = pause_s
        self.has_tokens = has_tokens
        self.witness = Witness()
        self.errors = 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._work, args=(number, random.Random(seed * 1000 + number)),
                                         daemon=True) for number in range(n_clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _work(self, who, chance):
        client = None
        while not self.stopping.wait(chance.random() * self.pause_s):
            try:
                client = client or self.connect(chance)
                self._hold(client, f"lock:{chance.randrange(self.n_locks)}", who, chance)
            except (RedisError, OSError):
                # It may hold a lock that it does not know of: that runs out.
                self.errors += 1
                if client is not None:
                    client.close()
                client = None
        if client is not None:
            client.close()

    def _hold(self, client, name, who, chance):
        lock = client.lock(name, timeout=self.ttl_s, blocking=False, thread_local=False)
        deadline = time.monotonic() + self.ttl_s
        if not lock.acquire():
            return
        token = None
        if self.has_tokens:
            answer = client.execute_command("LEASED.TOKEN", name)
            if answer is None:
                return  # its time was over before it could ask
            token = int(answer)
        if not self.witness.enter(name, who, deadline, token):
            return
        time.sleep(chance.random() * 0.02)
        try:
            if chance.random() < 0.2:
                deadline = time.monotonic() + self.ttl_s
                lock.extend(self.ttl_s, replace_ttl=True)
                self.witness.prolong(name, who, deadline)
            if chance.random() < 0.95:  # the others die, and their time runs out
                self.witness.leave(name, who)
                lock.release()
        except LockError:
            pass  # it was lost: its time was over


def redis_client(host, port):
    return redis.Redis(host=host, port=port, socket_timeout=CALL_SECONDS, socket_connect_timeout=CALL_SECONDS / 2)
