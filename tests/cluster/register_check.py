"""Is a history of one register linearizable?

Every value is written once, so the operations of one value form a cluster: its write and all reads
that returned it. Let f be the first end and s the last beginning among them. With f < s the value
must have stood in the register from f to s, a forward zone; otherwise its operations all overlap and
it may have stood there for a moment anywhere between s and f, a backward zone. The history is
linearizable exactly when no read ends before its write begins, no two forward zones overlap, and
no backward zone lies inside a forward one (Gibbons and Korach, "Testing shared memories", 1997).

A write whose answer never came has no end: it may still happen at any time.
"""
import math
from dataclasses import dataclass

NEVER = math.inf


@dataclass(frozen=True)
class Operation:
    is_write: bool
    value: bytes
    begin: float
    end: float = NEVER  # a read that failed is no operation at all

    def __str__(self):
        kind = "write" if self.is_write else "read"
        return f"{kind} {self.value!r} [{self.begin:.6f}, {self.end:.6f}]"


@dataclass(frozen=True)
class Zone:
    value: bytes
    low: float
    high: float
    is_forward: bool

    def __str__(self):
        return f"{self.value!r} [{self.low:.6f}, {self.high:.6f}]"


def _clusters(history):
    clusters = {}
    for operation in history:
        clusters.setdefault(operation.value, []).append(operation)
    return clusters


def _zone(value, operations):
    first_end = min(operation.end for operation in operations)
    last_begin = max(operation.begin for operation in operations)
    if first_end < last_begin:
        return Zone(value, first_end, last_begin, True)
    return Zone(value, last_begin, first_end, False)


def problems(history):
    """What is wrong with a history, one line each; empty when it is linearizable."""
    found = []
    zones = []
    for value, operations in _clusters(history).items():
        writes = [operation for operation in operations if operation.is_write]
        if len(writes) != 1:
            found.append(f"{value!r} was written {len(writes)} times and read")
            continue
        found += [
            f"{read} ended before {writes[0]} began"
            for read in operations if read.end < writes[0].begin
        ]  # fmt: skip
        if len(operations) > 1 or writes[0].end != NEVER:
            zones.append(_zone(value, operations))
    forward = sorted((z for z in zones if z.is_forward), key=lambda z: z.low)
    for earlier, later in zip(forward, forward[1:]):
        if later.low < earlier.high:
            found.append(f"{earlier} and {later} cannot both have stood there")
    for zone in (z for z in zones if not z.is_forward):
        found += [
            f"{zone} lies within {around}"
            for around in forward if around.low < zone.low and zone.high < around.high
        ]  # fmt: skip
    return found
