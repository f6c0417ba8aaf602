"""redis-py's Lock on three nodes, while leaders are killed, stopped and cut off: never two holders, tokens only grow.
In acceptance mode the same with redis-server, a replica and Sentinel, for comparison."""
import os
import random
import shutil
import tempfile
import time

import pytest
import redis
from redis.sentinel import Sentinel
from redis_lockers import CALL_SECONDS, Lockers, redis_client

from harness.acceptance import ACCEPTANCE, either, report
from harness.cluster import Cluster
from harness.network import Network
from harness.ports import free_ports
from harness.process import Process
from harness.redis import RedisServer, answers_ping
from harness.wait import wait_for

ROUNDS = int(os.environ.get("LEASED_REDIS_ROUNDS", either(3, 100)))
CLIENTS = int(os.environ.get("LEASED_REDIS_CLIENTS", either(24, 1000)))
LOCKS = max(4, CLIENTS // 25)
SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(1 << 32)))
TTL_SECONDS = either(1.0, 3.0)
PAUSE_SECONDS = either(0.05, 1.0)  # between two attempts of one client, at most
WORK_SECONDS = either(0.5, 1.0)
TROUBLE_SECONDS = 1.2
PROGRESS_SECONDS = 90.0
SENTINEL_ROUNDS = int(os.environ.get("LEASED_SENTINEL_ROUNDS", 20))


def with_redis(cluster):
    """Each of its servers speaks the Redis protocol on its `redis_port`."""
    for server in cluster.servers:
        (server.redis_port,) = free_ports(1)
        server.extra_flags += ["--listen-redis", f"{server.host}:{server.redis_port}"]
    return cluster


def progress(lockers, count, what):
    """So many more holds; those who held when trouble began may have to run out first."""
    before = lockers.witness.holds

    def enough():
        assert not lockers.witness.wrong, lockers.witness.wrong[:5]
        return lockers.witness.holds >= before + count

    wait_for(enough, PROGRESS_SECONDS, what)


def kill(cluster, leader, _chance):
    cluster.kill(leader)
    time.sleep(TROUBLE_SECONDS)
    cluster.restart(leader)


def stop(cluster, leader, _chance):
    cluster.pause(leader)
    time.sleep(TROUBLE_SECONDS)
    cluster.resume(leader)


def cut_off(cluster, leader, chance):
    """Clients may still reach it: it must not answer wrongly."""
    cluster.network.isolate(leader, from_clients=chance.random() < 0.5)
    time.sleep(TROUBLE_SECONDS)
    cluster.network.heal()


TROUBLES = [kill, stop, cut_off]


@pytest.mark.seconds_max(180 + 15 * ROUNDS)
def test_never_two_holders():
    chance = random.Random(SEED)
    print(f"LEASED_CLUSTER_SEED={SEED}")
    with Network(3) as network, with_redis(Cluster(network=network)) as cluster:
        addresses = [(server.host, server.redis_port) for server in cluster.servers]
        wait_for(lambda: all(answers_ping(port, host) for host, port in addresses), PROGRESS_SECONDS, "Redis is spoken")
        with Lockers(lambda own: redis_client(*own.choice(addresses)), SEED, CLIENTS, LOCKS, TTL_SECONDS,
                     PAUSE_SECONDS) as lockers:
            progress(lockers, 20, "locks are taken")
            for number in range(ROUNDS):
                time.sleep(WORK_SECONDS)
                TROUBLES[number % len(TROUBLES)](cluster, cluster.leader(), chance)
                progress(lockers, 20, f"locks are taken after trouble {number}")
        assert not lockers.witness.wrong, lockers.witness.wrong[:5]
        cluster.wait_equal()
    report("redis locks", rounds=ROUNDS, clients=CLIENTS, holds=lockers.witness.holds, errors=lockers.errors,
           two_holders=len(lockers.witness.wrong))


# The same with Redis, which answers before its replica knows, for comparison.


class SentinelSetup:
    """A server, a replica and three Sentinels. Use as a context manager."""

    def __init__(self):
        self.servers = [RedisServer(), RedisServer()]
        self.home = tempfile.mkdtemp(prefix="sentinel-test-")
        self.sentinel_ports = free_ports(3)
        self.processes = []

    def __enter__(self):
        try:
            self.servers[0].start()
            self.servers[1].flags += ["--replicaof", "127.0.0.1", str(self.servers[0].redis_port)]
            self.servers[1].start()
            for port in self.sentinel_ports:
                self._start_sentinel(port)
            wait_for(self._is_watched, PROGRESS_SECONDS, "Sentinel knows the replica")
            return self
        except BaseException:
            self.__exit__()
            raise

    def _start_sentinel(self, port):
        path = os.path.join(self.home, f"{port}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"port {port}\nbind 127.0.0.1\ndir {self.home}\n"
                       f"sentinel monitor locks 127.0.0.1 {self.servers[0].redis_port} 2\n"
                       "sentinel down-after-milliseconds locks 1000\nsentinel failover-timeout locks 5000\n")
        program = shutil.which("redis-sentinel") or shutil.which("redis-server")
        self.processes.append(Process([program, path, "--sentinel"], f"{path}.log", cwd=self.home))

    def _is_watched(self):
        try:
            states = [redis.Redis(port=port).sentinel_master("locks") for port in self.sentinel_ports]
        except redis.RedisError:
            return False
        return all(state["num-slaves"] >= 1 and state["num-other-sentinels"] == 2 and
                   not state["is_odown"] for state in states)

    def client(self):
        sentinel = Sentinel([("127.0.0.1", port) for port in self.sentinel_ports], socket_timeout=CALL_SECONDS)
        return sentinel.master_for("locks", socket_timeout=CALL_SECONDS, socket_connect_timeout=CALL_SECONDS / 2)

    def master(self):
        """None while there is none."""
        try:
            _, port = Sentinel([("127.0.0.1", port) for port in self.sentinel_ports]).discover_master("locks")
        except redis.RedisError:
            return None
        return next(server for server in self.servers if server.redis_port == port)

    def _has_replica(self):
        master = self.master()
        try:
            return master and redis.Redis(port=master.redis_port, socket_timeout=CALL_SECONDS).info(
                "replication")["connected_slaves"] >= 1
        except redis.RedisError:
            return False

    def change_master(self, is_killed):
        """The master goes; a moment later it is back, as a replica."""
        old = wait_for(self.master, PROGRESS_SECONDS, "a master")
        if is_killed:
            old.kill()
        else:
            old.process.pause()
        new = wait_for(lambda: self.master() not in (None, old) and self.master(), PROGRESS_SECONDS, "another master")
        if is_killed:
            old.flags = ["--replicaof", "127.0.0.1", str(new.redis_port)]
            old.start()
        else:
            old.process.resume()
        wait_for(self._has_replica, PROGRESS_SECONDS, "the replica is back")
        wait_for(self._is_watched, PROGRESS_SECONDS, "Sentinel knows the replica")

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for server in self.servers:
            server.close()
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.mark.skipif(not ACCEPTANCE, reason="a comparison: nothing of ours is tested")
@pytest.mark.seconds_max(300 + 60 * SENTINEL_ROUNDS)
def test_two_holders_with_redis_and_sentinel_are_counted():
    clients = min(CLIENTS, 200)
    with SentinelSetup() as setup, Lockers(lambda _own: setup.client(), SEED, clients, max(4, clients // 25),
                                           TTL_SECONDS, PAUSE_SECONDS, has_tokens=False) as lockers:
        for number in range(SENTINEL_ROUNDS):
            time.sleep(WORK_SECONDS)
            setup.change_master(is_killed=number % 2 == 0)
    report("redis locks with Sentinel", rounds=SENTINEL_ROUNDS, clients=clients, holds=lockers.witness.holds,
           errors=lockers.errors, two_holders=len(lockers.witness.wrong))
