"""Txn."""
import grpc
from etcd3 import etcdrpc

from .case import case, compare, delete, get, put, txn

Compare = etcdrpc.Compare
OPERATIONS_MAX = 128


def run(talk, label, success=(), failure=(), compares=()):
    return talk.say(label, talk.rpc.txn, compares, success, failure)


@case
def empty_transactions(talk):
    run(talk, "nothing")
    run(talk, "an operation without a request", [etcdrpc.RequestOp()])
    run(talk, "nested nothing", [txn()])
    run(talk, "range only", [get(talk.at("k"))])
    run(talk, "delete of nothing", [delete(talk.at("k"))])
    run(talk, "empty key", [put(b"")])
    run(talk, "empty key in the other branch", [], [get(b"")])
    run(talk, "empty key in a compare", compares=[Compare()])
    run(talk, "empty key in a nested compare", [txn(compare=[Compare()])])


@case
def duplicate_keys(talk):
    a = talk.at("a")
    inside = talk.at("ab")
    cases = {
        "put put": [put(a), put(a)],
        "put delete": [put(a), delete(a)],
        "delete put": [delete(a), put(a)],
        "delete delete": [delete(a), delete(a)],
        "delete of a range, put": [delete(a, talk.at("b")), put(inside)],
        "delete of an inverted range, put": [delete(talk.at("b"), a), put(inside)],
        "nested put, nested put": [txn([put(a)]), txn([put(a)])],
        "nested put, nested delete": [txn([put(a)]), txn([delete(a)])],
        "nested delete, nested put": [txn([delete(a)]), txn([put(a)])],
        "nested put, nested delete of a range": [txn([put(inside)]), txn([delete(a, talk.at("b"))])],
        "nested put, other nested put": [txn([put(a)]), txn([], [put(a)])],
        "then and else": [txn([put(a)], [put(a)])],
        "then and else, again": [txn([put(a)], [put(a)]), put(a)],
        "then put, else delete": [txn([put(a)], [delete(a)])],
        "put, nested delete": [put(a), txn([delete(a)])],
        "nested delete, put": [txn([delete(a)]), put(a)],
        "delete, nested put": [delete(a), txn([put(a)])],
        "nested put, delete": [txn([put(a)]), delete(a)],
        "deep put, deep delete": [txn([txn([put(a)])]), txn([txn([delete(a)])])],
        "deep delete, deep put": [txn([txn([delete(a)])]), txn([txn([put(a)])])],
        "in one nested": [txn([put(a), delete(a)])],
        "put, get, get": [put(a), get(a), get(a)],
    }
    for label, operations in cases.items():
        run(talk, label, operations)
        run(talk, label + ", else", [], operations)
        talk.say("then", talk.rpc.range, talk.at(), talk.end())
        talk.rpc.delete(talk.at(), talk.end())


@case
def order_within(talk):
    a, b = talk.at("a"), talk.at("b")
    talk.rpc.put(a, b"old")
    everything = get(talk.at(), talk.end())
    count = get(talk.at(), talk.end(), count_only=True)
    run(talk, "reads between writes",
        [get(a), put(a, b"new", prev_kv=True), get(a), put(b, b"1"), delete(talk.at("c")), everything])
    run(talk, "count before and after", [count, delete(a, prev_kv=True), count])
    missing = compare(a, Compare.VERSION, Compare.EQUAL, version=0)
    run(talk, "nested sees outer", [put(a, b"x"), txn([get(a)], [get(b)], [missing])])
    run(talk, "deep", [txn([txn([txn([put(a, b"deep")])])])])
    run(talk, "at a revision", [put(a, b"later"), get(a, revision=talk.base + 1)])
    run(talk, "at a future revision", [put(a, b"lost"), get(a, revision=talk.base + 100)])
    run(talk, "at the revision it makes", [put(a, b"lost"), get(a, revision=talk.rpc.revision() + 1)])
    run(talk, "lease unknown", [put(a, b"lost"), put(b, b"lost", lease=4711)])
    run(talk, "key missing", [put(a, b"lost"), put(talk.at("none"), ignore_value=True)])
    run(talk, "value provided", [put(a, b"lost", ignore_value=True)])
    run(talk, "lease provided", [put(a, b"lost", ignore_lease=True, lease=5)])
    run(talk, "lease unknown and key missing", [put(talk.at("none"), ignore_value=True, lease=4711)])
    talk.say("after all", talk.rpc.range, talk.at(), talk.end())


@case
def compares(talk):
    a = talk.at("a")
    talk.rpc.put(a, b"m")
    base = talk.base
    numbers = {
        "version": (Compare.VERSION, "version", (0, 1, 2, -1)),
        "create": (Compare.CREATE, "create_revision", (0, base + 1, base + 2, -1)),
        "mod": (Compare.MOD, "mod_revision", (0, base + 1, base + 2, -1)),
    }
    for key in (a, talk.at("none")):
        for label, (target, field, values) in numbers.items():
            for number, value in enumerate(values):
                for result in (Compare.EQUAL, Compare.GREATER, Compare.LESS, Compare.NOT_EQUAL):
                    one = compare(key, target, result, **{field: value})
                    run(talk, f"{label} {result}, number {number}", compares=[one])
        for value in (b"", b"a", b"m", b"z"):
            for result in (Compare.EQUAL, Compare.GREATER, Compare.LESS, Compare.NOT_EQUAL):
                run(talk, f"value {result} {value}", compares=[compare(key, Compare.VALUE, result, value=value)])
        run(talk, "no target union", compares=[Compare(key=key)])
        run(talk, "target without its number", compares=[Compare(key=key, target=Compare.MOD, version=3)])
        run(talk, "value without one", compares=[Compare(key=key, target=Compare.VALUE)])


def count_answers(talk, label, *arguments):
    try:
        talk.note(f"{label}: {len(talk.rpc.txn(*arguments).responses)} answers")
    except grpc.RpcError as error:
        talk.note(f"{label}: {error.details()}")


@case
def sizes(talk):
    one = get(talk.at("a"), count_only=True)
    missing = compare(talk.at("a"), Compare.VERSION, Compare.EQUAL, version=0)
    for n in (OPERATIONS_MAX, OPERATIONS_MAX + 1):
        count_answers(talk, f"{n} in then", [], [one] * n, [])
        count_answers(talk, f"{n} in else", [], [], [one] * n)
        count_answers(talk, f"{n} compares", [missing] * n, [], [])
    half = OPERATIONS_MAX // 2
    for n in (half - 1, half):
        count_answers(talk, f"{n} and {half} nested", [], [one] * n + [txn([one] * half)], [])
