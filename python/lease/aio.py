"""The same for asyncio. Waiting for a lock takes no thread; short requests run in the loop's executor. A task that is
cancelled leaves the queue, and what was just granted is given back.

    async with lease.aio.Client() as client:
        async with client.lock("backup") as lock:
            await work(lock.token)
"""
import asyncio
import functools

import lease


async def _run(function, *arguments, **named):
    """Once begun it is carried out, also when the task is cancelled: a release must not be left out."""
    loop = asyncio.get_running_loop()
    return await asyncio.shield(loop.run_in_executor(None, functools.partial(function, *arguments, **named)))


def _told(loop, future, pendings):
    """For a thread of the library: the future is done. `pendings` gets that which waits."""

    def settle():
        if not future.done():
            future.set_result(None)

    def tell():
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop was closed: nobody waits, and nobody would release it
            for pending in pendings:
                pending.close()

    return tell


class _Acquiring:
    """Awaited: a hold that is the caller's to release. With `async with`: released at the end."""

    def __init__(self, client, names, pools, shared, how):
        self._client, self._names, self._pools, self._shared, self._how = client, names, pools, shared, how
        self._hold = None

    async def _acquire(self):
        session = await _run(self._client.sync._usual_session)
        wanted = lease.wants(*self._names, shared=self._shared, pools=self._pools)
        loop = asyncio.get_running_loop()
        decided = loop.create_future()
        pendings = []
        pending = session.acquire_start(wanted, on_done=_told(loop, decided, pendings), **self._how)
        pendings.append(pending)
        try:
            await decided
            return pending.finish()  # does not wait any more
        finally:
            pending.close()

    def __await__(self):
        return self._acquire().__await__()

    async def __aenter__(self):
        self._hold = await self._acquire()
        return self._hold

    async def __aexit__(self, *exception):
        await _run(self._hold.__exit__, *exception)


class Client:
    """A lease.Client, as `sync`, whose waiting calls are awaited."""

    def __init__(self, endpoints=None, **options):
        self.sync = lease.Client(endpoints, **options)

    async def connect(self):
        await _run(self.sync.connect)

    def lock(self, *names, shared=False, **how):
        return _Acquiring(self, names, None, shared, how)

    def campaign(self, name, value, **how):
        return _Acquiring(self, (name,), None, False, {"value": value, **how})

    def reserve(self, pool, slots=1, **how):
        return _Acquiring(self, (), {pool: slots}, False, how)

    async def fence_check(self, resource, token):
        return await _run(self.sync.fence_check, resource, token)

    async def resource(self, name, waiters=0):
        return await _run(self.sync.resource, name, waiters)

    async def close(self):
        await _run(self.sync.close)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()
