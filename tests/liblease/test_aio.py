"""The module for asyncio."""
import asyncio
import concurrent.futures
import threading

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


def test_many_tasks_wait_for_one_lock_of_one_client(server):
    """Whoever waits takes no thread of the executor, which the holder needs to release."""

    async def main():
        asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        done = []

        async def worker(number):
            async with client.lock("one client"):
                await asyncio.sleep(0)
                done.append(number)

        async with lease.aio.Client(server.endpoint) as client:
            await asyncio.wait_for(asyncio.gather(*(worker(number) for number in range(12))), SECONDS)
        return done

    assert sorted(asyncio.run(main())) == list(range(12))


@pytest.mark.parametrize("n_cancels", [1, 2])
def test_a_lock_that_is_granted_as_its_task_is_cancelled_is_given_back(server, n_cancels):
    name = f"granted and cancelled {n_cancels}"

    async def main():
        async with lease.aio.Client(server.endpoint) as client:
            hold = other.lock(name)
            task = asyncio.ensure_future(client.lock(name)._acquire())
            while other.resource(name).waiting == 0:
                await asyncio.sleep(0.01)
            hold.release()
            wait_for(lambda: other.resource(name).holders, SECONDS, "it is granted, and the loop has not heard of it")
            for _ in range(n_cancels):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            other.lock(name, wait=SECONDS).release()
            assert client.sync._shared_session.valid_for > 0

    with lease.Client(server.endpoint) as other:
        asyncio.run(main())


def test_a_release_is_carried_out_when_its_task_is_cancelled(server):
    async def main():
        loop, go_on = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        async with lease.aio.Client(server.endpoint) as client:
            has_it, leave = asyncio.Event(), asyncio.Event()

            async def work():
                async with client.lock("release and cancel"):
                    has_it.set()
                    await leave.wait()

            task = asyncio.ensure_future(work())
            await asyncio.wait_for(has_it.wait(), SECONDS)
            blocker = loop.run_in_executor(None, go_on.wait)
            leave.set()
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await blocker
            other.lock("release and cancel", wait=SECONDS).release()
            assert client.sync._shared_session.valid_for > 0

    with lease.Client(server.endpoint) as other:
        asyncio.run(main())


def test_tasks_that_wait_are_told_when_the_client_is_closed(server):
    async def main():
        client = lease.aio.Client(server.endpoint)
        with other.lock("closed"):
            task = asyncio.ensure_future(client.lock("closed")._acquire())
            while other.resource("closed").waiting == 0:
                await asyncio.sleep(0.01)
            await client.close()
            with pytest.raises(lease.Error):
                await asyncio.wait_for(task, SECONDS)

    with lease.Client(server.endpoint) as other:
        asyncio.run(main())


def test_to_cancel_what_is_over_does_nothing(server):
    with lease.Client(server.endpoint) as client, client.session() as session:
        pending = session.acquire_start(lease.wants("over"))
        with pending.finish():
            pending.cancel()


def test_a_loop_that_is_closed_leaves_nothing_held(server):
    with lease.Client(server.endpoint) as holder:
        client = lease.aio.Client(server.endpoint)
        hold = holder.lock("closed loop")
        loop = asyncio.new_event_loop()

        async def main():
            task = asyncio.ensure_future(client.lock("closed loop")._acquire())
            while holder.resource("closed loop").waiting == 0:
                await asyncio.sleep(0.01)
            return task

        task = loop.run_until_complete(main())
        loop.close()
        hold.release()
        wait_for(lambda: not holder.resource("closed loop").holders, SECONDS, "it was given back")
        task._log_destroy_pending = False
        client.sync.close()
