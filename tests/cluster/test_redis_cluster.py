"""The Redis protocol at three members: all are equal, messages and waits cross them, and a lock has one holder whatever
happens to the leader."""
import random
import threading
import time

import pytest
import redis

from harness.cluster import Cluster
from harness.wait import wait_for

CALL_SECONDS = 30
PX = 3000
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def client(server, **options):
    return redis.Redis(
        host=server.host, port=server.client_port, socket_timeout=CALL_SECONDS, decode_responses=True, **options
    )


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    with Cluster(extra_flags=["--doors=etcd,native,redis"]) as cluster:
        cluster.leader()
        yield cluster


@pytest.fixture(name="clients")
def the_clients(cluster):
    """The leader's first."""
    leader = cluster.leader()
    order = [leader] + [index for index in range(3) if index != leader]
    found = [client(cluster[index]) for index in order]
    found[0].flushall()
    yield found
    for each in found:
        each.close()


def test_what_one_member_answered_every_member_knows(clients):
    for number in range(20):
        writer = clients[number % 3]
        writer.set("key", number)
        assert [each.get("key") for each in clients] == [str(number)] * 3
    clients[1].set("lock", "me", nx=True, px=60_000)
    assert not clients[2].set("lock", "you", nx=True, px=60_000)
    assert len({each.execute_command("LEASED.TOKEN", "lock") for each in clients}) == 1
    assert all(0 < each.pttl("lock") <= 60_000 for each in clients)


def test_a_pipeline_keeps_its_order_at_any_member(clients):
    for each in clients:
        pipeline = each.pipeline(transaction=False)
        for number in range(100):
            pipeline.set("counter", number)
            pipeline.get("counter")
            pipeline.incr("counter")
        answers = pipeline.execute()
        assert answers == [part for number in range(100) for part in (True, str(number), number + 1)]


def test_reads_before_a_change_do_not_see_it(clients):
    for each in clients:
        each.set("seen", "before")
        pipeline = each.pipeline(transaction=False)
        for _ in range(20):
            pipeline.get("seen")
        pipeline.set("seen", "after")
        pipeline.get("seen")
        assert pipeline.execute() == ["before"] * 20 + [True, "after"]


def next_message(subscription):
    return wait_for(lambda: subscription.get_message(timeout=1), CALL_SECONDS, "a message")


def test_messages_reach_subscribers_at_other_members(clients):
    subscriptions = [each.pubsub() for each in clients]
    for subscription in subscriptions:
        subscription.subscribe("news")
        assert next_message(subscription)["type"] == "subscribe"
    for number in range(10):
        assert clients[number % 3].publish("news", number) == 1
    for subscription in subscriptions:
        assert [next_message(subscription)["data"] for _ in range(10)] == [str(number) for number in range(10)]
        subscription.close()


def test_expiry_is_told_at_every_member(clients):
    clients[0].config_set("notify-keyspace-events", "Ex")
    subscriptions = [each.pubsub() for each in clients]
    for subscription in subscriptions:
        subscription.subscribe("__keyevent@0__:expired")
        assert next_message(subscription)["type"] == "subscribe"
    clients[1].set("deleted", "x", px=60_000)
    clients[1].delete("deleted")
    clients[1].set("replaced", "x", px=60_000)
    clients[1].set("replaced", "y")
    clients[2].hset("short", "field", "value")
    clients[2].pexpire("short", 50)
    for subscription in subscriptions:
        assert next_message(subscription)["data"] == "short"
        subscription.close()
    clients[0].config_set("notify-keyspace-events", "")
    assert clients[1].hgetall("short") == {}


def test_a_client_that_waits_gets_what_is_pushed_elsewhere(clients):
    for waiting, pushing in ((clients[1], clients[0]), (clients[0], clients[2]), (clients[2], clients[1])):
        got = []
        thread = threading.Thread(target=lambda: got.append(waiting.blpop(["q", "r"], timeout=CALL_SECONDS)))
        thread.start()
        wait_for(lambda: waiting.info("clients")["blocked_clients"] == 1, CALL_SECONDS, "a client that waits")
        pushing.rpush("r", "work")
        thread.join(CALL_SECONDS)
        assert got == [("r", "work")]
        assert pushing.exists("r") == 0


class Holder(threading.Thread):
    """Takes and gives back one of a few locks at whatever member answers."""

    def __init__(self, cluster, number, ended, holds):
        super().__init__()
        self.cluster, self.ended, self.holds = cluster, ended, holds
        self.random = random.Random(number)
        self.value = f"holder-{number}"
        self.error = None

    def run(self):
        try:
            while not self.ended.is_set():
                self.once()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.error = error

    def once(self):
        with client(self.cluster[self.random.randrange(3)], retry=None) as connection:
            try:
                while not self.ended.is_set():
                    self.hold(connection, f"lock-{self.random.randrange(3)}")
            except redis.RedisError:
                time.sleep(0.05)  # a member that is down is not asked all the time

    def hold(self, connection, lock):
        value = f"{self.value}-{self.random.random()}"
        asked = time.monotonic()
        if not connection.set(lock, value, nx=True, px=PX):
            time.sleep(0.005)
            return
        answered = time.monotonic()
        end = asked + PX / 1000
        token = connection.execute_command("LEASED.TOKEN", lock)
        if time.monotonic() < end:
            end = min(end, time.monotonic())  # it gives it back from here on
            self.holds.append((lock, token, answered, end))
        connection.eval(RELEASE, 1, lock, value)


def test_a_lock_has_one_holder_while_leaders_are_killed(cluster):
    ended, holds = threading.Event(), []
    holders = [Holder(cluster, number, ended, holds) for number in range(12)]
    for holder in holders:
        holder.start()
    try:
        for _ in range(3):
            before = len(holds)
            wait_for(lambda: len(holds) >= before + 30, 2 * CALL_SECONDS, "thirty holders")
            leader = cluster.leader()
            cluster.kill(leader)
            before = len(holds)
            wait_for(lambda: len(holds) >= before + 30, 2 * CALL_SECONDS, "thirty holders")
            cluster.restart(leader)
    finally:
        ended.set()
        for holder in holders:
            holder.join(2 * CALL_SECONDS)
    assert [holder.error for holder in holders if holder.error is not None] == []
    for lock in {hold[0] for hold in holds}:
        line = sorted(hold[1:] for hold in holds if hold[0] == lock)
        for (token, _, end), (later_token, answered, _) in zip(line, line[1:]):
            assert later_token > token, lock
            assert answered >= end, f"{lock}: two holders, tokens {token} and {later_token}"
