"""One register, six clients, three nodes, and leaders that are killed and stopped at random."""
import random
import time

import pytest
from register import SEED, Register
from register_check import Operation, problems
from troubles import kill_and_stop

from harness.acceptance import either, report
from harness.cluster import Cluster

SECONDS = either(9.0, 60.0)


@pytest.mark.seconds_max(120 + SECONDS)
def test_one_register_is_linearizable_whatever_happens_to_leaders():
    with Cluster() as cluster:
        with Register(cluster) as register:
            troubles = kill_and_stop(cluster, random.Random(SEED), time.monotonic() + SECONDS)
        cluster.wait_equal()
    report("one register", **register.check(), **troubles)


def test_the_checker_accepts_what_is_linearizable():
    history = [
        Operation(True, b"a", 0, 1),
        Operation(False, b"a", 2, 3),
        # One write and two reads at once, seen in either order.
        Operation(True, b"b", 4, 10),
        Operation(False, b"a", 5, 6),
        Operation(False, b"b", 5, 9),
        # Never answered: seen late, or never.
        Operation(True, b"c", 11),
        Operation(True, b"d", 11),
        Operation(False, b"b", 12, 13),
        Operation(False, b"c", 14, 15),
    ]
    assert not problems(history)


def test_the_checker_notices_what_is_not():
    a, b = Operation(True, b"a", 0, 1), Operation(True, b"b", 2, 3)
    wrong = [
        # A read that began after the newer write had ended.
        [a, b, Operation(False, b"a", 4, 5)],
        # Two reads, one after the other, that go back while the write is under way.
        [a, Operation(True, b"b", 2), Operation(False, b"b", 3, 4), Operation(False, b"a", 5, 6)],
        # A read from the future, and of what nobody wrote.
        [a, Operation(True, b"b", 5, 6), Operation(False, b"b", 2, 3)],
        [a, Operation(False, b"z", 2, 3)],
        # A write that was acknowledged and never came about.
        [a, b, Operation(False, b"b", 4, 5), Operation(True, b"c", 6, 7), Operation(False, b"b", 8, 9)],
    ]
    for history in wrong:
        assert problems(history), [str(operation) for operation in history]
