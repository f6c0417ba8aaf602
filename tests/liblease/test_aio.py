"""The module for asyncio."""
import asyncio

import pytest

import lease.aio
from harness import Server, wait_for
from harness.kinds import KIND_LEASED

SECONDS = 30.0


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED) as running:
        yield running


def test_tasks_take_turns(server):
    async def main():
        order = []

        async def worker(number):
            async with lease.aio.Client(server.endpoint) as client:
                async with client.lock("turns", wait=SECONDS) as lock:
                    order.append(("in", number, lock.token))
                    await asyncio.sleep(0.01)
                    order.append(("out", number, lock.token))

        await asyncio.gather(*(worker(number) for number in range(3)))
        return order

    order = asyncio.run(main())
    assert [word for word, _, _ in order] == ["in", "out"] * 3
    tokens = [token for _, _, token in order]
    assert tokens == sorted(tokens) and len(set(tokens)) == 3


def test_a_task_that_is_cancelled_leaves_the_queue(server):
    async def main():
        async with lease.aio.Client(server.endpoint) as holder, lease.aio.Client(server.endpoint) as other:
            async with holder.lock("cancelled"):
                placed = asyncio.Event()
                loop = asyncio.get_running_loop()

                async def wait():
                    tell = lambda *_: loop.call_soon_threadsafe(placed.set)  # noqa: E731
                    await other.lock("cancelled", on_progress=tell)

                task = asyncio.ensure_future(wait())
                await asyncio.wait_for(placed.wait(), SECONDS)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                wait_for(lambda: holder.sync.resource("cancelled").waiting == 0, SECONDS, "it left the queue")

    asyncio.run(main())
