"""Waiting for an event with a deadline, instead of sleeping and hoping."""
import time

POLL_SECONDS = 0.01


def wait_for(predicate, timeout_s, what):
    """Calls predicate until it answers something true, and answers that.

    Raises TimeoutError naming `what` once timeout_s have passed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = predicate()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s} s")
        time.sleep(POLL_SECONDS)
