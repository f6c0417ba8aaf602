"""Scripts without end, from many connections at once: others are served meanwhile, and nothing of the scripts stays."""
import threading
import time

import pytest

from harness.redis import Resp, leased_with_redis

CONNECTIONS = 20
PIPELINE = 10
ATTACK_SECONDS = 1.5
# On a machine of its own it is below a quarter of a second; here eight others may run beside it.
WAIT_SECONDS_MAX = 5.0

STOPPED = b"ERR Error running script: it exceeded its limit of instructions or memory; nothing was done"
OVERLOADED = b"ERR the server is overloaded, try again; nothing was done"

SCRIPTS = {
    "the same": lambda number, i: "redis.call('set', 'left', 1) while true do end",
    "another each time": lambda number, i: f"redis.call('set', 'left', {i}) while true do end -- {number}",
    "patterns": lambda number, i: "redis.call('set', 'left', 1) return (('a'):rep(30)):find(('a*'):rep(30) .. 'b')",
    "memory": lambda number, i: "redis.call('set', 'left', 1) local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "recursion": lambda number, i: "redis.call('set', 'left', 1) local function f() return f() + 1 end return f()",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_others_are_served(name):
    stop = threading.Event()
    texts = set()

    def attack(port, number):
        with Resp(port, timeout_s=60.0) as connection:
            i = 0
            while not stop.is_set():
                for _ in range(PIPELINE):
                    connection.send("EVAL", SCRIPTS[name](number, i), "0")
                    i += 1
                texts.update(connection.reply() for _ in range(PIPELINE))

    with leased_with_redis() as server:
        threads = [threading.Thread(target=attack, args=(server.redis_port, number)) for number in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        longest = 0.0
        n = 0
        with Resp(server.redis_port, timeout_s=60.0) as connection:
            end = time.monotonic() + ATTACK_SECONDS
            while time.monotonic() < end:
                before = time.monotonic()
                assert connection("SET", "mine", n) == ("+", b"OK")
                longest = max(longest, time.monotonic() - before)
                n += 1
            stop.set()
            for thread in threads:
                thread.join()
            assert connection("GET", "left") == ("$", None)
            assert connection("GET", "mine") == ("$", str(n - 1).encode())
    assert texts <= {("-", STOPPED), ("-", OVERLOADED)}, texts
    assert ("-", STOPPED) in texts
    assert longest < WAIT_SECONDS_MAX, f"{longest:.3f} s, {n} were served"
    print(f"{name}: {n} served, the longest took {longest * 1000:.0f} ms")
