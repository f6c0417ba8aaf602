"""Range, Put, DeleteRange and Compact on the wire: what no client exposes."""
import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED
from harness.ops import end_of
from harness.rpc import CALL_SECONDS, refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED

REQUEST_BYTES_MAX = 1536 * 1024

Range = etcdrpc.RangeRequest


def names(response):
    return "".join(kv.key.decode()[-1] for kv in response.kvs)


@pytest.fixture
def filled(rpc, at):
    """c a d b, then a again, then c twice: every order differs. Answers the first revision."""
    first = rpc.put(at("c"), b"beta").header.revision
    for name, value in (
        ("a", b"delta"),
        ("d", b"alpha"),
        ("b", b"gamma"),
        ("a", b"epsilon"),
        ("c", b"zeta"),
        ("c", b"beta"),
    ):
        rpc.put(at(name), value)
    yield first
    rpc.delete(at(), end_of(at()))


def test_range_by_mod_revision(rpc, at, filled):
    def between(low, high):
        return names(
            rpc.range(at(), end_of(at()), min_mod_revision=low, max_mod_revision=high)
        )

    assert between(0, 0) == "abcd"
    assert between(filled + 3, 0) == "abc"
    assert between(filled + 4, 0) == "ac"
    assert between(0, filled + 4) == "abd"
    assert between(filled + 3, filled + 4) == "ab"
    assert between(filled + 7, 0) == ""


def test_range_by_create_revision(rpc, at, filled):
    def between(low, high):
        return names(
            rpc.range(at(), end_of(at()), min_create_revision=low, max_create_revision=high)
        )

    assert between(filled + 1, 0) == "abd"
    assert between(0, filled + 1) == "ac"
    assert between(filled + 1, filled + 2) == "ad"
    assert between(filled + 4, 0) == ""


def test_revision_bounds_leave_the_count_of_the_whole_range(rpc, at, filled):
    response = rpc.range(at(), end_of(at()), min_mod_revision=filled + 4)
    assert (names(response), response.count, response.more) == ("ac", 4, False)
    response = rpc.range(at(), end_of(at()), min_mod_revision=filled + 3, limit=1)
    assert (names(response), response.count, response.more) == ("a", 4, True)


@pytest.mark.parametrize(
    "target, ascending",
    [
        (Range.KEY, "abcd"),
        (Range.VERSION, "bdac"),
        (Range.CREATE, "cadb"),
        (Range.MOD, "dbac"),
        (Range.VALUE, "dcab"),
    ],
)
def test_range_sorted(rpc, at, filled, target, ascending):
    def sort(order, **fields):
        return rpc.range(
            at(), end_of(at()), sort_order=order, sort_target=target, **fields
        )

    if target == Range.VERSION:
        # b and d are equal: their order among themselves is nobody's promise.
        assert sorted(names(sort(Range.ASCEND))[:2]) == ["b", "d"]
        assert names(sort(Range.ASCEND))[2:] == "ac"
        assert names(sort(Range.DESCEND))[:2] == "ca"
    else:
        assert names(sort(Range.ASCEND)) == ascending
        assert names(sort(Range.DESCEND)) == ascending[::-1]
    limited = sort(Range.DESCEND, limit=2)
    assert names(limited) == ascending[::-1][:2]
    assert (limited.count, limited.more) == (4, True)


def test_sort_target_without_order_sorts_ascending(rpc, at, filled):
    # What etcd does for every target but the key.
    response = rpc.range(at(), end_of(at()), sort_target=Range.MOD)
    assert names(response) == "dbac"


@pytest.mark.parametrize(
    "limit, found, more",
    [
        (0, "abcd", False),
        (3, "abc", True),
        (4, "abcd", False),
        (9, "abcd", False),
        (-1, "abcd", False),
    ],
)
def test_limit_more_and_count(rpc, at, filled, limit, found, more):
    response = rpc.range(at(), end_of(at()), limit=limit)
    assert (names(response), response.more, response.count) == (found, more, 4)


def test_count_only_ignores_the_limit(rpc, at, filled):
    response = rpc.range(at(), end_of(at()), limit=1, count_only=True)
    assert (len(response.kvs), response.more, response.count) == (0, False, 4)
    assert rpc.range(at("a"), count_only=True).count == 1
    assert rpc.range(at("zzz"), count_only=True).count == 0


def test_keys_only_leaves_all_but_the_value(rpc, at, filled):
    kv = rpc.range(at("a"), keys_only=True).kvs[0]
    assert (kv.key, kv.value, kv.version) == (at("a"), b"", 2)
    assert (kv.create_revision, kv.mod_revision) == (filled + 1, filled + 4)


def test_range_ends(rpc, at, filled):
    everything = rpc.range(b"\0", b"\0", count_only=True).count
    assert everything >= 4
    assert rpc.range(at("c"), b"\0", keys_only=True).kvs[0].key == at("c")
    assert names(rpc.range(at("b"), at("d"))) == "bc"
    assert names(rpc.range(at("d"), at("b"))) == ""
    assert names(rpc.range(at("b"), at("b"))) == ""
    assert names(rpc.range(at("b"), at("b") + b"\0")) == "b"


def test_range_in_the_past(rpc, at, filled):
    response = rpc.range(at(), end_of(at()), revision=filled + 1)
    assert [(kv.key, kv.value, kv.version) for kv in response.kvs] == [
        (at("a"), b"delta", 1),
        (at("c"), b"beta", 1),
    ]
    assert response.header.revision >= filled + 6
    assert names(rpc.range(at(), end_of(at()), revision=-1)) == "abcd"
    with refused(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision"):
        rpc.range(at("a"), revision=rpc.revision() + 1)


def test_serializable_range(rpc, at, filled):
    assert names(rpc.range(at(), end_of(at()), serializable=True)) == "abcd"


def test_unknown_sort_target_does_no_harm(server, rpc, at, filled):
    """etcd 3.4 dies of it, so only leased is asked; later etcd answers this."""
    if server.kind == KIND_LEASED:
        with refused(INVALID, "etcdserver: invalid sort option"):
            rpc.range(at(), end_of(at()), sort_order=Range.ASCEND, sort_target=9)
    assert names(rpc.range(at(), end_of(at()))) == "abcd"


# Put


def test_empty_keys_are_refused(rpc):
    for call in (rpc.put, rpc.range, rpc.delete):
        with refused(INVALID, "etcdserver: key is not provided"):
            call(b"")


def test_put_gives_the_previous_pair_only_when_asked(rpc, at):
    rpc.put(at("k"), b"one")
    assert not rpc.put(at("k"), b"two").HasField("prev_kv")
    previous = rpc.put(at("k"), b"three", prev_kv=True).prev_kv
    assert (previous.key, previous.value, previous.version) == (at("k"), b"two", 2)
    assert previous.mod_revision == previous.create_revision + 1


def test_ignore_value_keeps_the_value(rpc, at):
    rpc.put(at("k"), b"kept")
    lease = rpc.grant(600).ID
    rpc.put(at("k"), lease=lease, ignore_value=True)
    kv = rpc.range(at("k")).kvs[0]
    assert (kv.value, kv.version, kv.lease) == (b"kept", 2, lease)
    rpc.revoke(lease)


def test_ignore_lease_keeps_the_lease(rpc, at):
    lease = rpc.grant(600).ID
    rpc.put(at("k"), b"old", lease=lease)
    rpc.put(at("k"), b"new", ignore_lease=True)
    kv = rpc.range(at("k")).kvs[0]
    assert (kv.value, kv.version, kv.lease) == (b"new", 2, lease)
    rpc.revoke(lease)


def test_ignore_flags_are_refused_when_they_make_no_sense(rpc, at):
    with refused(INVALID, "etcdserver: value is provided"):
        rpc.put(at("k"), b"value", ignore_value=True)
    with refused(INVALID, "etcdserver: lease is provided"):
        rpc.put(at("k"), b"value", lease=5, ignore_lease=True)
    with refused(INVALID, "etcdserver: key not found"):
        rpc.put(at("missing"), ignore_value=True)
    with refused(INVALID, "etcdserver: key not found"):
        rpc.put(at("missing"), b"value", ignore_lease=True)
    assert rpc.range(at("missing"), count_only=True).count == 0


def test_put_with_an_unknown_lease_changes_nothing(rpc, at):
    before = rpc.revision()
    for lease in (987654321, -987654321):
        with refused(NOT_FOUND, "etcdserver: requested lease not found"):
            rpc.put(at("k"), b"value", lease=lease)
    assert rpc.revision() == before
    assert rpc.range(at("k"), count_only=True).count == 0


def test_requests_have_a_largest_size(rpc, at):
    rpc.put(at("k"), b"x" * (REQUEST_BYTES_MAX - 1024))
    with refused(INVALID, "etcdserver: request is too large"):
        rpc.put(at("k"), b"x" * REQUEST_BYTES_MAX)
    # So large that it is not even read.
    for size in (3 * 1024 * 1024, 12 * 1024 * 1024):
        with refused(EXHAUSTED):
            rpc.put(at("k"), b"x" * size)
    assert len(rpc.range(at("k")).kvs[0].value) == REQUEST_BYTES_MAX - 1024
    rpc.delete(at("k"))


# DeleteRange


def test_delete_is_one_revision_and_nothing_is_none(rpc, at):
    for name in "abc":
        rpc.put(at(name), name.encode())
    before = rpc.revision()
    nothing = rpc.delete(at("zzz"), prev_kv=True)
    assert (nothing.deleted, nothing.header.revision) == (0, before)
    response = rpc.delete(at("a"), at("c"), prev_kv=True)
    assert (response.deleted, response.header.revision) == (2, before + 1)
    assert [(kv.key, kv.value) for kv in response.prev_kvs] == [(at("a"), b"a"), (at("b"), b"b")]
    plain = rpc.delete(at("c"))
    assert (plain.deleted, len(plain.prev_kvs)) == (1, 0)


# Compact


def test_compaction_forgets_the_past_and_keeps_the_present(rpc, at):
    first = rpc.put(at("k"), b"0").header.revision
    for number in (b"1", b"2", b"3"):
        rpc.put(at("k"), number)
    rpc.compact(first + 2)
    compacted = "etcdserver: mvcc: required revision has been compacted"
    for revision in (first, first + 1):
        with refused(OUT_OF_RANGE, compacted):
            rpc.range(at("k"), revision=revision)
    assert rpc.range(at("k"), revision=first + 2).kvs[0].value == b"2"
    assert rpc.range(at("k")).kvs[0].value == b"3"
    for revision in (first + 2, first, 0, -1):
        with refused(OUT_OF_RANGE, compacted):
            rpc.compact(revision)
    with refused(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision"):
        rpc.compact(rpc.revision() + 1)
    response = rpc.compact(first + 3, physical=True)
    assert response.header.revision == rpc.revision()


def test_hash_kv(rpc, at):
    def hash_kv(revision=0):
        return rpc.maintenance.HashKV(
            etcdrpc.HashKVRequest(revision=revision), timeout=CALL_SECONDS
        )

    revision = rpc.put(at("k"), b"0").header.revision
    first = hash_kv()
    rpc.put(at("k"), b"1")
    assert hash_kv().hash != first.hash
    # The past hashes as it did when it was the present.
    assert hash_kv(revision).hash == first.hash
    assert first.header.revision == revision
    with refused(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision"):
        hash_kv(revision + 100)
    rpc.compact(revision)
    assert hash_kv().compact_revision == revision
