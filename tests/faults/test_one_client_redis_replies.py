"""One client of the Redis protocol reads the same large things many times in one command: see
test_one_client_redis.py."""
import pytest
from hostile_client import check_memory_returns
from redis_attack import MIB, attacked, fill

from harness.redis import Resp, leased_with_redis

N_ENTRIES = 15
ENTRY_SIZE = 1_000_000
N_TIMES = 200
N_SETS = 6
SET_SIZE = 600
MEMBER_SIZE = 16_000
# Of a reply, and what the buffer that it grows in has beside it.
GROWTH_MAX = 44 * MIB


@pytest.fixture(scope="module", name="server")
def a_server():
    with leased_with_redis() as server:
        with Resp(server.redis_port) as resp:
            fill(resp, [("XADD", "large", "*", "f", "v" * ENTRY_SIZE)] * N_ENTRIES)
            fill(resp, [("SADD", f"set:{number}", *[f"{number}:{first + each}:".ljust(MEMBER_SIZE, "x")
                                                    for each in range(50)])
                        for number in range(N_SETS) for first in range(0, SET_SIZE, 50)])
            fill(resp, [("SET", "text", "x")])
        yield server


def xread(*names):
    return ("XREAD", "STREAMS", *names, *["0"] * len(names))


LARGE = {"XREAD": xread(*["large"] * N_TIMES), "SUNION": ("SUNION", *[f"set:{number}" for number in range(N_SETS)])}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "in a transaction"])
def test_replies_that_would_be_too_large(server, what, in_transaction):
    before = server.rss_bytes()
    with attacked(server, f"redis: {what} of much{', in a transaction' if in_transaction else ''}",
                  growth_max=GROWTH_MAX):  # fmt: skip
        with Resp(server.redis_port) as resp:
            for _ in range(2):
                if in_transaction:
                    assert resp("MULTI") == ("+", b"OK")
                    assert resp(*LARGE[what]) == ("+", b"QUEUED")
                reply = resp(*(["EXEC"] if in_transaction else LARGE[what]))
                assert reply[0] == "-", reply[0]
                assert resp("PING") == ("+", b"PONG")
    check_memory_returns(server, before)


@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "in a transaction"])
def test_long_members_that_are_looked_for_in_many_sets(server, in_transaction):
    """As many as a transaction may look at."""
    words = ("SINTER", *["set:0"] * 100)
    before = server.rss_bytes()
    with attacked(server, f"redis: SINTER of long members{', in a transaction' if in_transaction else ''}",
                  growth_max=2 * GROWTH_MAX):  # fmt: skip
        with Resp(server.redis_port) as resp:
            if in_transaction:
                resp("MULTI")
                resp(*words)
                assert resp("EXEC")[0] == "-"
            else:
                assert len(resp(*words)[1]) == SET_SIZE
    check_memory_returns(server, before)


def test_what_is_wrong_with_a_later_stream_is_said(server):
    with Resp(server.redis_port) as resp:
        assert resp(*xread("large", "large", "large", "text"))[1].startswith(b"WRONGTYPE")
        answer = resp(*xread("none", "large"))
        assert [len(entries[1]) for _, (_, entries) in answer[1]] == [N_ENTRIES]
