#!/usr/bin/python3
"""One client of a lock, by the library that Python users have: python3-lease, redis-py's Lock or kazoo's Lock.

    lock_worker.py leased|leased-awaited|redis|zookeeper HOST:PORT

Each lock is taken and given back as the beginning and the end of a `with` block do it; `leased-awaited` gives it back by
release(), which waits for the server.

Reads orders as lines and answers each with a line of JSON:

    alone SECONDS     takes a lock and gives it back, again and again: {"pairs": N, "seconds": S, "latency_ms": {...}}
    take              takes the lock that is handed over, and waits for it: {"at_ns": of the moment it has it}
    give              gives it back: {"at_ns": of the moment before}

Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""
import json
import sys
import time

TTL_SECONDS = 30


def leased(address):
    """What a program does: one session, and a lock whenever it needs one."""
    import lease

    client = lease.Client(address)
    held = {}

    def take(name):
        held[name] = client.lock(name)

    return take, lambda name: held.pop(name).__exit__(None, None, None)


def leased_awaited(address):
    import lease

    client = lease.Client(address)
    held = {}

    def take(name):
        held[name] = client.lock(name)

    return take, lambda name: held.pop(name).release()


def redis(address):
    import redis as module

    host, port = address.split(":")
    client = module.Redis(host, int(port))
    held = {}

    def take(name):
        held[name] = client.lock(name, timeout=TTL_SECONDS).__enter__()

    return take, lambda name: held.pop(name).__exit__(None, None, None)


def zookeeper(address):
    from kazoo.client import KazooClient

    client = KazooClient(hosts=address, timeout=TTL_SECONDS)
    client.start()
    locks = {}

    def take(name):
        lock = locks.setdefault(name, client.Lock(f"/{name}", "holder"))
        lock.__enter__()

    return take, lambda name: locks[name].__exit__(None, None, None)


KINDS = {"leased": leased, "leased-awaited": leased_awaited, "redis": redis, "zookeeper": zookeeper}


def percentiles(seconds):
    ordered = sorted(seconds)
    return {name: 1000 * ordered[int(share * (len(ordered) - 1))]
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}  # fmt: skip


def alone(take, give, seconds):
    for _ in range(50):
        take("alone")
        give("alone")
    took = []
    begun = now = time.monotonic()
    while now < begun + seconds:
        take("alone")
        give("alone")
        before, now = now, time.monotonic()
        took.append(now - before)
    return {"pairs": len(took), "seconds": now - begun, "latency_ms": percentiles(took)}


def main():
    take, give = KINDS[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        words = line.split()
        if words[0] == "alone":
            answer = alone(take, give, float(words[1]))
        elif words[0] == "take":
            take("handed-over")
            answer = {"at_ns": time.monotonic_ns()}
        else:
            answer = {"at_ns": time.monotonic_ns()}
            give("handed-over")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
