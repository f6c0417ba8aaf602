"""Has a lock and tells about it: holder.py ENDPOINTS NAME TTL. One line for each event; ends with its input."""
import sys
import threading
import time

import lease


def say(*words):
    print(*words, flush=True)


def main():
    endpoints, name, ttl = sys.argv[1:4]
    lost = threading.Event()

    def on_event(_session, event, _reason):
        say("event", event.name)
        if event == lease.Event.LOST:
            lost.set()

    client = lease.Client(endpoints)
    session = client.session(ttl=float(ttl), on_event=on_event)
    hold = session.lock(name)
    say("held", hold.token)
    until = 0.0  # what it believed last
    while not lost.wait(0.02):
        now, left = time.clock_gettime(time.CLOCK_BOOTTIME), hold.valid_for
        until = now + left if left > 0 else until
    say("valid", hold.valid_for, session.valid_for, until)
    sys.stdin.read()


main()
