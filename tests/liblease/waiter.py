"""A process with sessions that all wait for one name, one behind the other, and give it back at once.

    waiter.py ENDPOINT NAME SESSIONS

A session begins to wait for each line of the standard input. Each time it says a line: the token, when it had it and when it gave it back, in nanoseconds of CLOCK_MONOTONIC, which all
processes of a machine share. It goes on until it is ended.
"""
import sys
import time

import lease


def main():
    endpoint, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = lease.Client(endpoint)
    sessions = [client.session() for _ in range(count)]
    waiting = []
    for session, _ in zip(sessions, sys.stdin):
        waiting.append(session.acquire_start(lease.wants(name)))
    while True:
        hold = waiting.pop(0).finish()
        acquired = time.monotonic_ns()
        session, token = hold.session, hold.token
        given = time.monotonic_ns()
        hold.release()
        waiting.append(session.acquire_start(lease.wants(name)))
        print(token, acquired, given, flush=True)


if __name__ == "__main__":
    main()
