"""A large registry on three nodes: instances that renew in messages of ten, and watchers of one service. `tools/accept
registry-scale` has 100,000 instances that renew every 10 s and 1,000 watchers."""
import asyncio
import contextlib
import os
import statistics
import time

import grpc
import pytest

from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.registry import instance, kind_of, path_of, request_of

INSTANCES = either(600, 100_000)
SERVICES = either(6, 1_000)
WATCHERS = either(30, 1_000)
CHANGES = either(5, 50)
RENEW_SECONDS = 10.0
TTL_MS = 60_000
MEASURE_SECONDS = either(1.0, 40.0)
BATCH = 10
REGISTERING = 256  # at once
WATCHED = "service-0"
NEWS_SECONDS = either(60.0, 30.0)
CALL_SECONDS = 120.0


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Load:
    def __init__(self, cluster, channels):
        self.cluster = cluster
        self.channels = channels
        self.leases = [[] for _ in channels]  # of each member, those that are renewed through it
        self.n_ended = 0
        self.n_renewed = 0
        self.seen = {}  # of each watcher the newest revision of the service, and when it came
        self.news = asyncio.Condition()

    async def call(self, at, method, **fields):
        kind = kind_of("RegisterResponse" if method == "RegisterInstance" else f"{method}Response")
        request = request_of(method, **fields).SerializeToString()
        give_up = time.monotonic() + CALL_SECONDS
        while True:
            channel = self.channels[at % len(self.channels)]
            try:
                return kind.FromString(await channel.unary_unary(path_of(method))(request, timeout=CALL_SECONDS))
            except grpc.RpcError as error:  # a change of leader on a busy machine; each of them may be repeated
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > give_up:
                    raise

    async def register_all(self):
        numbers = iter(range(INSTANCES))

        async def some():
            for i in numbers:
                registered = await self.call(
                    i, "RegisterInstance", instance=instance(f"service-{i % SERVICES}", f"i{i}", ttl_ms=TTL_MS)
                )
                self.leases[i % len(self.leases)].append(registered.lease_id)

        renewing = asyncio.create_task(self.renew_all())
        await asyncio.gather(*(some() for _ in range(REGISTERING)))
        return renewing

    async def renew_all(self):
        """Every instance once in RENEW_SECONDS, those that are registered by then, through all members in turn."""
        tasks = [asyncio.create_task(self.renew(at)) for at in range(len(self.channels))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def renew(self, at):
        """The share of one member; the stream is opened again when a leader changed."""
        leases, place, due, looked = self.leases[at], 0, 0.0, time.monotonic()
        while True:
            stream = self.channels[at].stream_stream(
                path_of("Renew"), response_deserializer=kind_of("RenewInstancesResponse").FromString
            )()
            reader = asyncio.create_task(self.read_renewals(stream))
            while not reader.done():
                now = time.monotonic()
                due, looked = due + (now - looked) * len(leases) / RENEW_SECONDS, now
                if due < BATCH:
                    await asyncio.sleep(0.005)
                    continue
                ids = [leases[(place + k) % len(leases)] for k in range(BATCH)]
                place, due = (place + BATCH) % len(leases), due - BATCH
                with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                    await stream.write(request_of("Renew", lease_ids=ids).SerializeToString())

    async def read_renewals(self, stream):
        with contextlib.suppress(grpc.RpcError):
            while (answer := await stream.read()) is not grpc.aio.EOF:
                self.n_renewed += answer.renewed
                self.n_ended += len(answer.ended)

    async def watch(self, number):
        stream = self.channels[number % len(self.channels)].unary_stream(path_of("WatchService"))(
            request_of("WatchService", service=WATCHED).SerializeToString()
        )
        kind = kind_of("WatchServiceResponse")
        async for message in stream:
            came = time.monotonic()
            self.seen[number] = (kind.FromString(message).service.revision, came)
            async with self.news:
                self.news.notify_all()

    async def wait_seen(self, revision):
        async with self.news:
            await asyncio.wait_for(
                self.news.wait_for(
                    lambda: len(self.seen) == WATCHERS and all(each[0] >= revision for each in self.seen.values())
                ),
                NEWS_SECONDS,
            )

    async def change(self, number):
        """(until it was acknowledged, until the last watcher knew it), in ms."""
        began = time.monotonic()
        await self.call(
            number, "SetMetadata", service=WATCHED, id="i0", metadata=[{"key": "n", "value": str(number + 1)}]
        )
        answered = time.monotonic()
        revision = (await self.call(number, "GetService", service=WATCHED)).service.revision
        await self.wait_seen(revision)
        return (answered - began) * 1000, (max(came for _, came in self.seen.values()) - began) * 1000


async def measure(cluster):
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(server.endpoint, options=options) for server in cluster]
    load = Load(cluster, channels)
    pids = [server.pid for server in cluster]
    began = time.monotonic()
    tasks = [await load.register_all()]
    filled = time.monotonic() - began
    tasks += [asyncio.create_task(load.watch(number)) for number in range(WATCHERS)]
    await load.wait_seen(0)
    # Figures with the load of renewals alone, then with changes.
    before, renewed, began = [cpu_seconds(pid) for pid in pids], load.n_renewed, time.monotonic()
    await asyncio.sleep(MEASURE_SECONDS)
    seconds = time.monotonic() - began
    cores = [(cpu_seconds(pid) - was) / seconds for pid, was in zip(pids, before)]
    rate = (load.n_renewed - renewed) / seconds
    delays = [await load.change(number) for number in range(CHANGES)]
    count = (await load.call(0, "Discover", service=WATCHED, limit=1)).total
    for task in tasks:
        task.cancel()
    # grpc.aio waits for minutes at the end of the process for calls that were left to it.
    await asyncio.gather(*tasks, return_exceptions=True)
    for channel in channels:
        await channel.close()
    return load, filled, cores, rate, delays, [resident_mb(pid) for pid in pids], count


@pytest.mark.seconds_max(either(120, 1800))
def test_a_large_registry():
    with Cluster() as cluster:
        load, filled, cores, rate, delays, resident, count = asyncio.run(measure(list(cluster)))
    last = [each for _, each in delays]
    report(
        "registry-scale", instances=INSTANCES, registered_in_s=round(filled, 1), renewals_per_s=round(rate),
        cores=[round(each, 2) for each in cores], resident_mb=[round(each) for each in resident], watchers=WATCHERS,
        change_acknowledged_ms_p50=round(statistics.median(each for each, _ in delays), 1),
        last_watcher_ms_p50=round(statistics.median(last), 1), last_watcher_ms_max=round(max(last), 1),
        load_average=round(os.getloadavg()[0], 1),
    )  # fmt: skip
    assert load.n_ended == 0, "an instance that was renewed has ended"
    assert count == len([i for i in range(INSTANCES) if i % SERVICES == 0])
    if INSTANCES == 100_000:
        assert rate >= 0.95 * INSTANCES / RENEW_SECONDS
