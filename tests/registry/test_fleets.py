"""Fleets of 1, 2, 5, 7 and 1,000: one crash is removed on time; half of a fleet that vanishes at once is kept listed, marked, from the
size on from which it makes sense.

The guard's arithmetic: at least 3 lost within the window, and at least 50 % of lost and live together. So 1 of 1, 2 of 2 and 3 of 7
are removed; 3 of 5, 4 of 7 and 500 of 1,000 are kept.
"""
import time

import pytest

from harness import dns
from harness.instances import Keeper, Registry
from harness.wait import wait_for

SIZES = (1, 2, 5, 7, 1000)
TTL_MS = 3000
# A machine that is busy eight times over; the precise bound is measured elsewhere (test_expiry_precision.py).
LATE_SECONDS = 5.0
# How many of a fleet vanish at once, and whether the guard keeps them.
VANISHING = {1: (1, False), 2: (2, False), 5: (3, True), 7: (4, True), 1000: (500, True)}
FEW = {5: (2, False), 7: (3, False)}


class Fleet:
    def __init__(self, stage, service, size):
        self.stage, self.service, self.size = stage, service, size
        self.leases = {}
        for i in range(size):
            answer = stage.registry.register(service, f"{i:04}", f"10.{i >> 8}.{i & 255}.1", 1000, ttl_ms=TTL_MS)
            self.leases[f"{i:04}"] = answer["lease_id"]
            stage.keeper.keep(answer["lease_id"])

    def ids(self):
        return sorted(self.leases)

    def let_go(self, n):
        """The first n stop beating. Gives them, and between which times their leases end."""
        ids = self.ids()[:n]
        first, last = self.stage.keeper.let_go([self.leases[id] for id in ids])
        return ids, first + TTL_MS / 1000, last + TTL_MS / 1000

    def shown(self):
        """{id: is it kept}, by the native API."""
        found = self.stage.registry.discover(self.service, with_unhealthy=True)
        return {instance["id"]: instance.get("kept", False) for instance in found}

    def addresses(self):
        return len(dns.values(dns.query(self.stage.server, f"{self.service}.service.consul", tcp=True)))


class Stage:
    def __init__(self, server, registry, keeper):
        self.server, self.registry, self.keeper = server, registry, keeper


@pytest.fixture(scope="module")
def stage():
    with dns.leased() as server, Registry(server) as registry, Keeper(server) as keeper:
        yield Stage(server, registry, keeper)


def wait_until_removed(fleet, ids, earliest, latest):
    """They go together, neither early nor late."""

    def left():
        before = time.monotonic()
        shown = fleet.shown()
        assert before < latest or time.monotonic() < latest + LATE_SECONDS or not set(ids) & set(shown), "late"
        return not set(ids) & set(shown)

    wait_for(left, TTL_MS / 1000 + 2 * LATE_SECONDS, f"{fleet.service} without {len(ids)}")
    assert time.monotonic() >= earliest, "early"


def test_one_crash_is_removed_on_time(stage):
    fleets = [Fleet(stage, f"crash-{size}", size) for size in SIZES]
    assert [fleet.addresses() for fleet in fleets] == list(SIZES)
    lost = [(fleet, *fleet.let_go(1)) for fleet in fleets]
    for fleet, ids, earliest, latest in lost:
        wait_until_removed(fleet, ids, earliest, latest)
    for fleet, ids, *_ in lost:
        assert fleet.shown() == {id: False for id in fleet.ids() if id not in ids}
        assert fleet.addresses() == fleet.size - 1
        stage.keeper.let_go([fleet.leases[id] for id in fleet.ids() if id not in ids])


def test_half_of_a_fleet(stage):
    cases = [(size, *case) for size, case in VANISHING.items()] + [(size, *case) for size, case in FEW.items()]
    fleets = [(Fleet(stage, f"half-{size}-{n}", size), n, is_kept) for size, n, is_kept in cases]
    lost = [(fleet, is_kept, *fleet.let_go(n)) for fleet, n, is_kept in fleets]
    for fleet, is_kept, ids, earliest, latest in lost:
        if not is_kept:
            wait_until_removed(fleet, ids, earliest, latest)
            assert fleet.addresses() == fleet.size - len(ids)
            continue
        expected = {id: id in ids for id in fleet.ids()}
        wait_for(lambda f=fleet, e=expected: f.shown() == e, TTL_MS / 1000 + 2 * LATE_SECONDS, f"{fleet.service} is kept")
        assert time.monotonic() >= earliest
        # A client of DNS sees them as before: it is the network that the guard suspects.
        assert fleet.addresses() == fleet.size
    on = [event for event in stage.registry.call("events").get("events", []) if "GUARD_ON" in event["kind"]]
    assert {event["service"] for event in on} >= {"half-5-3", "half-7-4", "half-1000-500"}


def test_those_that_come_back_end_the_guard(stage):
    fleet = Fleet(stage, "back", 5)
    ids, *_ = fleet.let_go(3)
    wait_for(lambda: fleet.shown() == {id: id in ids for id in fleet.ids()}, 30, "the guard")
    for id in ids:
        stage.keeper.keep(stage.registry.register("back", id, "10.9.9.9", 1000, ttl_ms=TTL_MS)["lease_id"])
    wait_for(lambda: not any(fleet.shown().values()), 30, "the end of the guard")
    assert sorted(fleet.shown()) == fleet.ids()
