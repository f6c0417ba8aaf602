"""What must be true of a server that was killed and started again."""
import time

from crash_history import PAIR_LEFT, PAIR_MARK, PAIR_RIGHT, value_of
from crash_watcher import ALL, Seen

from harness.ops import end_of

KEPT_A_ROUND = 20


def check_revision(rpc, history, watcher):
    """Nothing that anybody was told is ahead of the server."""
    revision = rpc.revision()
    assert revision >= history.revision, "an acknowledged revision is gone"
    assert revision >= watcher.revision, "a watched revision is gone"
    return revision


def _range(rpc, prefix):
    return {kv.key: kv for kv in rpc.range(prefix, end_of(prefix)).kvs}


def check_puts(rpc, history):
    found = _range(rpc, b"/puts/")
    sent = {write.key: write.revision for write in history.writes}
    for key, revision in {**sent, **history.kept}.items():
        kv = found.get(key)
        if revision:
            assert kv is not None, f"{key} was acknowledged at {revision} and is lost"
            assert kv.mod_revision == revision, f"{key}: {kv.mod_revision}, told {revision}"
        if kv is not None:
            assert kv.value == value_of(key), f"{key} holds something else"
    strangers = set(found) - set(sent) - set(history.kept)
    assert not strangers, f"keys that nobody wrote: {sorted(strangers)[:3]}"


def forget_round(rpc, history):
    """Keeps some puts of the round for all time and removes the others."""
    if not history.writes:
        return
    acknowledged = [write for write in history.writes if write.revision]
    kept = {write.key: write.revision for write in acknowledged[-KEPT_A_ROUND:]}
    history.kept.update(kept)
    # Keys of later rounds come behind those of earlier ones.
    begin = min(write.key for write in history.writes)
    for key in sorted(kept) + [end_of(b"/puts/")]:
        if begin < key:
            history.saw("deletes", rpc.delete(begin, key).header.revision)
        begin = key + b"\0"
    history.writes = []


def check_pair(rpc, history):
    found = _range(rpc, b"/pair/")
    if not found:
        assert history.pair_acknowledged == 0
        return
    number = int(found[PAIR_LEFT].value)
    assert history.pair_acknowledged <= number <= history.pair_sent
    assert found[PAIR_RIGHT].value == found[PAIR_LEFT].value, "half a transaction"
    marks = [key for key in found if key.startswith(PAIR_MARK)]
    assert marks == [PAIR_MARK + b"%d" % number], "half a transaction"
    # The next one deletes the mark that is there.
    history.pair_sent = history.pair_acknowledged = number


def check_deleted(rpc, history):
    found = _range(rpc, b"/deleted/")
    back = set(history.deleted) & set(found)
    assert not back, f"deleted, and there again: {sorted(back)[:3]}"
    rpc.delete(b"/deleted/", end_of(b"/deleted/"))
    history.deleted = []


def check_leases(rpc, history):
    """Every lease whose time is not over by the end of the question must be there."""
    granted = dict(history.leases)
    there = set(rpc.leases())
    keys = _range(rpc, b"/lease/")
    now = time.monotonic()
    for lease in granted.values():
        if lease.safe_until > now:
            assert lease.id in there, f"lease {lease.id} of {lease.ttl} s is gone early"
            assert not lease.has_key or lease.key in keys, f"{lease.key} is gone early"
    unknown = {kv.lease for kv in keys.values()} - there
    assert not unknown, f"keys of leases that are not there: {unknown}"


def check_ends(history):
    """No key of a lease was deleted before the holder had to stop."""
    for lease in history.leases.values():
        if lease.gone_at is not None:
            early = lease.safe_until - lease.gone_at
            assert early <= 0, f"lease {lease.id} of {lease.ttl} s ended {early:.3f} s early"


def check_tokens(history):
    tokens = history.tokens
    for first, second in zip(tokens, tokens[1:]):
        assert first < second, f"fencing token {second} came after {first}"


def check_watched(rpc, watcher):
    """The events, replayed, are the store."""
    answer = rpc.range(*ALL)
    watcher.wait_until(answer.header.revision)
    assert not watcher.faults, watcher.faults[:5]
    held = {
        kv.key: Seen(kv.create_revision, kv.mod_revision, kv.version, bytes(kv.value), kv.lease)
        for kv in answer.kvs
    }
    if watcher.revision == answer.header.revision:
        assert held == watcher.keys
        return True
    return False
