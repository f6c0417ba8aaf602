"""Watch."""
from harness.watch_messages import FILTER_NO_DELETE, FILTER_NO_PUT, WatchRequest

from .case import case, put

ANSWER_SECONDS = 20.0
TRANSACTIONS = 25
PUTS_EACH = 100


def hear(talk, stream, label, n=1):
    for _ in range(n):
        talk.note(f"{label}: {talk.text(stream.receive(ANSWER_SECONDS))}")


def is_alive(talk, stream, label):
    """Nothing was answered before this."""
    stream.ask(talk.at(f"alive-{label}"), watch_id=1000 + len(talk.lines))
    hear(talk, stream, f"{label}, and then")


@case(since=(3, 5))
def starts(talk):
    for number in range(4):
        talk.rpc.put(talk.at("k"), b"%d" % number)
    talk.rpc.compact(talk.base + 3)
    base = talk.base
    cases = ((-1, 1), (-(2**63), 1), (1, 2), (base + 2, 2), (base + 3, 2), (base + 4, 2), (base + 5, 1),
             (base + 100, 1), (2**63 - 1, 1))  # fmt: skip
    for number, (start, n) in enumerate(cases):
        with talk.rpc.watch() as stream:
            stream.ask(talk.at("k"), start_revision=start)
            hear(talk, stream, f"start {number}", n)
            is_alive(talk, stream, f"start {number}")


@case
def ids(talk):
    with talk.rpc.watch() as stream:
        for watch_id in (0, 0, 5, 5, 1, 0, -1, -7, 2**62):
            stream.ask(talk.at("k"), watch_id=watch_id)
            hear(talk, stream, f"id {watch_id}")
        for watch_id in (99, -99, 5, 5, 0):
            stream.cancel(watch_id)
            if watch_id in (0, 5) and f"cancelled {watch_id}" not in talk.lines:
                hear(talk, stream, f"cancel {watch_id}")
                talk.note(f"cancelled {watch_id}")
        is_alive(talk, stream, "cancels")


@case
def odd_requests(talk):
    with talk.rpc.watch() as stream:
        stream.send(WatchRequest())
        is_alive(talk, stream, "nothing asked")
        b = talk.at("b")
        for key, end in ((b"", b""), (b"", b"\0"), (b, talk.at("a")), (b, b), (b, b"\0"), (b"\0", b"")):
            stream.ask(key, end)
            hear(talk, stream, f"range {key} {end}")
        stream.ask(talk.at("f"), filters=[FILTER_NO_PUT, FILTER_NO_DELETE])
        hear(talk, stream, "all filtered")
        stream.ask(talk.at("f"), filters=[FILTER_NO_PUT, FILTER_NO_PUT, 9])
        hear(talk, stream, "unknown filter")
        stream.ask_progress()
        hear(talk, stream, "progress")


@case(since=(3, 5))
def progress_with_a_watch_that_begins_in_the_future(talk):
    """Nothing is told before the watch has begun."""
    with talk.rpc.watch() as stream:
        stream.create(talk.at("now"))
        stream.ask_progress()
        hear(talk, stream, "progress")
        stream.create(talk.at("later"), start_revision=talk.base + 100)
        stream.ask_progress()
        is_alive(talk, stream, "progress")


@case
def events(talk):
    key = talk.at("k")
    with talk.rpc.watch() as stream:
        stream.create(key, prev_kv=True)
        talk.rpc.put(key, b"1")
        hear(talk, stream, "put")
        talk.rpc.put(key, b"2")
        hear(talk, stream, "put again")
        talk.rpc.delete(key)
        hear(talk, stream, "delete")
        talk.rpc.delete(key)
        talk.rpc.put(key, b"3")
        hear(talk, stream, "put after a delete")


@case
def filters(talk):
    key = talk.at("k")
    with talk.rpc.watch() as puts, talk.rpc.watch() as deletes:
        puts.create(key, filters=[FILTER_NO_DELETE])
        deletes.create(key, filters=[FILTER_NO_PUT], prev_kv=True)
        talk.rpc.put(key, b"1")
        hear(talk, puts, "put")
        talk.rpc.delete(key)
        hear(talk, deletes, "delete")
        talk.rpc.put(key, b"2")
        hear(talk, puts, "put again")


@case
def catch_up_headers(talk):
    """The header of what is caught up has the store's revision, not that of the events."""
    for _ in range(TRANSACTIONS):
        talk.rpc.txn(success=[put(talk.at(f"{number}"), b"v") for number in range(PUTS_EACH)])
    with talk.rpc.watch() as stream:
        stream.create(talk.at(), talk.end(), start_revision=talk.base + 1)
        n = 0
        while n < TRANSACTIONS * PUTS_EACH:
            response = stream.receive(ANSWER_SECONDS)
            n += len(response.events)
            talk.note(f"header at +{response.header.revision - talk.base}")
    talk.lines = sorted(set(talk.lines))
