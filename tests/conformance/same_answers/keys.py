"""Range, Put and DeleteRange."""
from etcd3 import etcdrpc

from .case import case

Range = etcdrpc.RangeRequest
HUGE = 2**63 - 1


def fill(talk):
    for name, value in (("c", b"beta"), ("a", b"delta"), ("d", b"alpha"), ("b", b""), ("a", b"x")):
        talk.rpc.put(talk.at(name), value)


@case
def range_limits(talk):
    fill(talk)
    for limit in (0, 1, 3, 4, 5, HUGE, -1, -HUGE):
        for extra in ({}, {"keys_only": True}, {"count_only": True}):
            talk.say(f"limit {limit} {extra}", talk.rpc.range, talk.at(), talk.end(), limit=limit, **extra)


@case
def range_keys_and_count_only_together(talk):
    fill(talk)
    talk.say("both", talk.rpc.range, talk.at(), talk.end(), keys_only=True, count_only=True)
    talk.say("one key", talk.rpc.range, talk.at("a"), keys_only=True, count_only=True)
    talk.say("none", talk.rpc.range, talk.at("zz"), count_only=True)
    talk.say("none, limited", talk.rpc.range, talk.at("zz"), limit=1)


@case
def range_bounds_on_revisions(talk):
    fill(talk)
    base = talk.base
    for name in ("mod", "create"):
        bounds = ((0, 0), (base + 2, 0), (0, base + 2), (base + 5, base + 1), (-5, 0), (0, -5),
                  (HUGE, 0), (1, HUGE))  # fmt: skip
        for number, (low, high) in enumerate(bounds):
            fields = {f"min_{name}_revision": low, f"max_{name}_revision": high}
            talk.say(f"{name}, bounds {number}", talk.rpc.range, talk.at(), talk.end(), **fields)
            talk.say("limited", talk.rpc.range, talk.at(), talk.end(), limit=1, **fields)
            talk.say("counted", talk.rpc.range, talk.at(), talk.end(), count_only=True, **fields)


@case
def range_orders(talk):
    fill(talk)
    for order in (Range.NONE, Range.ASCEND, Range.DESCEND):
        for target in (Range.KEY, Range.CREATE, Range.MOD, Range.VALUE):
            for limit in (0, 2):
                talk.say(f"order {order} {target} {limit}", talk.rpc.range, talk.at(), talk.end(),
                         sort_order=order, sort_target=target, limit=limit)  # fmt: skip
            how = {"sort_order": order, "sort_target": target}
            talk.say("of keys", talk.rpc.range, talk.at(), talk.end(), keys_only=True, **how)
            talk.say("at one key", talk.rpc.range, talk.at("a"), **how)


@case
def range_ends(talk):
    fill(talk)
    at = talk.at
    ends = ((at("b"), at("b")), (at("d"), at("a")), (at("b"), at("b") + b"\0"),
            (at("a") + b"\0", at("c")), (at("zz"), b"\0"), (b"", b"\0"), (b"", b""))  # fmt: skip
    for key, end in ends:
        talk.say(f"{key}..{end}", talk.rpc.range, key, end, keys_only=True)


@case
def range_at_revisions(talk):
    fill(talk)
    for revision in (talk.base + 1, talk.base + 5, talk.base + 6, HUGE, -1, -HUGE):
        talk.say("at a revision", talk.rpc.range, talk.at(), talk.end(), revision=revision)
        talk.say("counted", talk.rpc.range, talk.at(), talk.end(), revision=revision, count_only=True, limit=1)
        talk.say("sorted", talk.rpc.range, talk.at(), talk.end(), revision=revision, limit=2,
                 sort_order=Range.DESCEND, sort_target=Range.VALUE)  # fmt: skip
        talk.say("serializable", talk.rpc.range, talk.at("a"), revision=revision, serializable=True)


@case
def puts(talk):
    key = talk.at("k")
    talk.say("plain", talk.rpc.put, key, b"1")
    talk.say("previous", talk.rpc.put, key, b"2", prev_kv=True)
    talk.say("previous of a new key", talk.rpc.put, talk.at("new"), prev_kv=True)
    talk.say("ignore value", talk.rpc.put, key, ignore_value=True, prev_kv=True)
    talk.say("ignore value with one", talk.rpc.put, key, b"3", ignore_value=True)
    talk.say("ignore lease with one", talk.rpc.put, key, b"3", ignore_lease=True, lease=77)
    talk.say("ignore lease", talk.rpc.put, key, b"3", ignore_lease=True)
    talk.say("ignore both", talk.rpc.put, key, ignore_lease=True, ignore_value=True)
    talk.say("ignore both of nothing", talk.rpc.put, talk.at("none"), ignore_lease=True, ignore_value=True)
    talk.say("ignore value of nothing, lease unknown", talk.rpc.put, talk.at("none"), ignore_value=True, lease=99)
    talk.say("lease unknown", talk.rpc.put, key, lease=99)
    talk.say("lease negative", talk.rpc.put, key, lease=-1)
    talk.say("key empty", talk.rpc.put, b"")
    talk.say("key empty and value given", talk.rpc.put, b"", b"v", ignore_value=True)
    talk.say("key of zeros", talk.rpc.put, b"\0\0", b"zero")
    talk.say("read it", talk.rpc.range, b"\0\0")
    talk.say("delete it", talk.rpc.delete, b"\0", b"\0\0\0", prev_kv=True)
    talk.say("after all", talk.rpc.range, talk.at(), talk.end())


@case
def deletes(talk):
    fill(talk)
    talk.say("nothing", talk.rpc.delete, talk.at("zz"))
    talk.say("nothing, previous", talk.rpc.delete, talk.at("zz"), prev_kv=True)
    talk.say("inverted", talk.rpc.delete, talk.at("d"), talk.at("a"), prev_kv=True)
    talk.say("empty key", talk.rpc.delete, b"")
    talk.say("empty key with an end", talk.rpc.delete, b"", b"a")
    talk.say("one", talk.rpc.delete, talk.at("a"), prev_kv=True)
    talk.say("the rest", talk.rpc.delete, talk.at("b"), talk.end(), prev_kv=True)
    talk.say("again", talk.rpc.delete, talk.at("b"), talk.end(), prev_kv=True)
    talk.say("at the end", talk.rpc.range, talk.at(), talk.end())


@case
def compactions(talk):
    for number in range(4):
        talk.rpc.put(talk.at("k"), b"%d" % number)
    base = talk.base
    talk.rpc.compact(base)
    for revision in (0, -1, base + 5, HUGE, base + 2, base + 2, base + 1, 0, -1):
        talk.say("compact", talk.rpc.compact, revision)
    talk.say("physical", talk.rpc.compact, base + 3, physical=True)
    for revision in (base + 2, base + 3, base + 4):
        talk.say(f"read at {revision - base}", talk.rpc.range, talk.at("k"), revision=revision)


@case(since=(3, 5))
def compaction_of_nothing(talk):
    """Runs on a new server; see test_same_answers.py."""
    for revision in (-1, 0, 1):
        talk.say(f"compact {revision}", talk.rpc.compact, revision)
