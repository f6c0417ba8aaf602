"""Locks beside redis-py's Lock on Redis and kazoo's Lock on ZooKeeper: what a Python program gets.

Alone: one client takes a lock and gives it back. Hand-over: one holds, another waits; timed from the moment before the
holder gives it back until the other one has it. The holder keeps it for a random while, because redis-py asks again
every tenth of a second and nobody is to be measured in step with that.
"""
import json
import pathlib
import random
import subprocess
import time

from benchmark.servers import cpu_seconds

WORKER = pathlib.Path(__file__).with_name("lock_worker.py")
PYTHON = "/usr/bin/python3"  # Debian's: the clients are its modules
HAND_OVERS = 100
HELD_SECONDS = (0.03, 0.13)


class Worker:
    def __init__(self, kind, address, env):
        self.process = subprocess.Popen([PYTHON, str(WORKER), kind, address], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env=env)  # fmt: skip

    def begin(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def end(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, order):
        self.begin(order)
        return self.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def hand_over(one, other, rounds):
    """[ms] of each."""
    took, dice = [], random.Random(1)
    one.ask("take")
    for _ in range(rounds):
        other.begin("take")
        time.sleep(dice.uniform(*HELD_SECONDS))
        given = one.ask("give")["at_ns"]
        took.append((other.end()["at_ns"] - given) / 1e6)
        one, other = other, one
    one.ask("give")
    return took


def measure(kind, address, pid, seconds, env, rounds=HAND_OVERS):
    with Worker(kind, address, env) as one, Worker(kind, address, env) as other:
        before = cpu_seconds(pid)
        alone = one.ask(f"alone {seconds}")
        cpu = cpu_seconds(pid) - before
        took = sorted(hand_over(one, other, rounds))
    return {
        "ops_per_second": alone["pairs"] / alone["seconds"], "latency_ms": alone["latency_ms"],
        "server_cpu_seconds": cpu, "ops_per_server_cpu_second": alone["pairs"] / cpu if cpu else 0.0,
        "hand_over_ms": {"p50": took[len(took) // 2], "p99": took[int(0.99 * (len(took) - 1))], "max": took[-1]},
    }  # fmt: skip


