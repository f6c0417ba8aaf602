"""One client of leased's own API does its worst: see test_one_client.py."""
import pytest
from hostile_client import MIB, attacked, check_memory_returns

from harness import KIND_LEASED, Server
from harness.native import Native, slots_of
from harness.rpc import Rpc

POOL_SLOTS_MAX = 1024
WANTS_MAX = 16
# What a session may hold is counted in keys: one for each slot, and some for each acquisition.
N_POOLS = 3600 // WANTS_MAX * WANTS_MAX
AT_ONCE = 32


@pytest.fixture(name="server")
def a_server():
    with Server(KIND_LEASED) as server:
        yield server


def all_of(begun):
    """The answers of calls, of which so many are under way at a time."""
    waiting, answers = [], []
    for call in begun:
        waiting.append(call)
        if len(waiting) == AT_ONCE:
            answers.append(waiting.pop(0).result())
    return answers + [call.result() for call in waiting]


def test_the_end_of_a_session_with_slots_of_many_large_pools(server):
    slots = [f"{number:04}" for number in range(POOL_SLOTS_MAX)]
    names = [f"pool{number}" for number in range(N_POOLS)]
    with Rpc(server) as rpc:
        native = Native(rpc.channel)
        all_of(native.begin("Pools/Set", pool={"name": name, "slots": slots}) for name in names)
        session, other = native.session(), native.session()
        for first in range(0, N_POOLS, WANTS_MAX):
            native.acquire(session, *[slots_of(name) for name in names[first: first + WANTS_MAX]])
        waiting = [native.begin_acquire(other, slots_of(name, POOL_SLOTS_MAX))
                   for name in (names[0], names[N_POOLS // 2], names[-1])]  # fmt: skip
        before = server.rss_bytes()
        with attacked(server, "native: slots of many large pools", growth_max=64 * MIB):
            native.call("Sessions/End", session_id=session)
            # What is left of it is done later, and whoever waits gets it.
            for each in waiting:
                assert len(each.result().acquisition.slots[0].slots) == POOL_SLOTS_MAX
    check_memory_returns(server, before)
    took = [int(part.split()[0]) for part in server.log_tail(100_000).split("apply request took too long took ms=")[1:]]
    assert max(took, default=0) < 400, took
