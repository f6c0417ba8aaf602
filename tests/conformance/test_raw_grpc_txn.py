"""Txn on the wire: every compare, nested transactions, limits."""
import grpc
import pytest
from etcd3 import etcdrpc

from harness.ops import (
    EQUAL,
    GREATER,
    LESS,
    NOT_EQUAL,
    Compare,
    created_is,
    delete_op,
    end_of,
    lease_is,
    modified_is,
    put_op,
    range_op,
    txn_op,
    value_is,
    version_is,
)
from harness.rpc import refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE

OPS_MAX = 128
DUPLICATE = "etcdserver: duplicate key given in txn request"
TOO_MANY = "etcdserver: too many operations in txn request"


def holds(rpc, *compares):
    return rpc.txn(compare=compares).succeeded


def outcomes(rpc, make, key, number):
    """Which of = > < != hold for this number, its neighbours below and above."""
    return [
        [holds(rpc, make(key, number + delta, sign)) for delta in (-1, 0, 1)]
        for sign in (EQUAL, GREATER, LESS, NOT_EQUAL)
    ]


AROUND = [
    [False, True, False],
    [True, False, False],
    [False, False, True],
    [True, False, True],
]


# Compares


def test_compares_of_numbers(rpc, at):
    lease = rpc.grant(600).ID
    created = rpc.put(at("k")).header.revision
    rpc.put(at("k"))
    modified = rpc.put(at("k"), lease=lease).header.revision
    assert outcomes(rpc, version_is, at("k"), 3) == AROUND
    assert outcomes(rpc, created_is, at("k"), created) == AROUND
    assert outcomes(rpc, modified_is, at("k"), modified) == AROUND
    assert outcomes(rpc, lease_is, at("k"), lease) == AROUND
    rpc.revoke(lease)


def test_compares_of_values_are_of_bytes(rpc, at):
    rpc.put(at("k"), b"m\x00\xff")
    assert holds(rpc, value_is(at("k"), b"m\x00\xff"))
    assert not holds(rpc, value_is(at("k"), b"m\x00"))
    assert holds(rpc, value_is(at("k"), b"m\x00", GREATER))
    assert holds(rpc, value_is(at("k"), b"m\x01", LESS))
    assert holds(rpc, value_is(at("k"), b"m", NOT_EQUAL))


def test_missing_key_counts_as_zero_but_has_no_value(rpc, at):
    for make in (version_is, created_is, modified_is, lease_is):
        assert outcomes(rpc, make, at("missing"), 0) == AROUND
    for sign in (EQUAL, GREATER, LESS, NOT_EQUAL):
        for value in (b"", b"x"):
            assert not holds(rpc, value_is(at("missing"), value, sign))


def test_all_compares_must_hold(rpc, at):
    rpc.put(at("k"), b"v")
    assert holds(rpc)
    assert holds(rpc, version_is(at("k"), 1), value_is(at("k"), b"v"))
    assert not holds(rpc, version_is(at("k"), 1), value_is(at("k"), b"w"))


def test_compare_of_a_range_must_hold_for_every_key(rpc, at):
    everything = {"range_end": end_of(at())}
    for name in "abc":
        rpc.put(at(name), b"same")
    assert holds(rpc, version_is(at(), 1, **everything))
    assert holds(rpc, value_is(at(), b"same", **everything))
    assert holds(rpc, created_is(at(), 0, GREATER, **everything))
    assert holds(rpc, lease_is(at(), 0, **everything))
    rpc.put(at("b"), b"other")
    assert not holds(rpc, version_is(at(), 1, **everything))
    assert holds(rpc, version_is(at(), 0, GREATER, **everything))
    assert not holds(rpc, value_is(at(), b"same", **everything))
    assert holds(rpc, value_is(at("c"), b"same", **everything))


def test_compare_of_an_empty_range_is_that_of_a_missing_key(rpc, at):
    nothing = {"range_end": end_of(at())}
    assert holds(rpc, version_is(at(), 0, **nothing))
    assert not holds(rpc, version_is(at(), 1, **nothing))
    assert not holds(rpc, value_is(at(), b"", **nothing))
    assert not holds(rpc, value_is(at(), b"x", NOT_EQUAL, **nothing))


def test_compare_whose_operand_is_of_another_target_takes_zero(rpc, at):
    rpc.put(at("k"), b"1")
    wrong = Compare(key=at("k"), target=Compare.VERSION, result=EQUAL, value=b"1")
    assert not holds(rpc, wrong)
    absent = Compare(key=at("missing"), target=Compare.VERSION, result=EQUAL)
    assert holds(rpc, absent)


def test_compare_without_a_key_is_refused(rpc):
    with refused(INVALID, "etcdserver: key is not provided"):
        rpc.txn(compare=[version_is(b"", 0)])


# Operations


def test_operations_answer_in_order_and_see_each_other(rpc, at):
    before = rpc.revision()
    response = rpc.txn(
        success=[
            range_op(at("a"), count_only=True),
            put_op(at("a"), b"1"),
            range_op(at("a")),
            put_op(at("b"), b"2", prev_kv=True),
            delete_op(at("missing")),
            range_op(at(), end_of(at()), limit=1),
        ]
    )
    assert (response.succeeded, response.header.revision) == (True, before + 1)
    kinds = [op.WhichOneof("response") for op in response.responses]
    assert kinds == [
        "response_range",
        "response_put",
        "response_range",
        "response_put",
        "response_delete_range",
        "response_range",
    ]
    assert response.responses[0].response_range.count == 0
    assert response.responses[2].response_range.kvs[0].value == b"1"
    assert response.responses[4].response_delete_range.deleted == 0
    last = response.responses[5].response_range
    assert (last.count, last.more, last.kvs[0].key) == (2, True, at("a"))
    revisions = {kv.mod_revision for kv in rpc.range(at(), end_of(at())).kvs}
    assert revisions == {before + 1}


def test_transaction_that_writes_nothing_takes_no_revision(rpc, at):
    before = rpc.revision()
    response = rpc.txn(success=[range_op(at("a")), delete_op(at("missing"))])
    assert response.header.revision == before
    assert rpc.txn().succeeded is True
    assert rpc.revision() == before


def test_delete_then_get_in_one_transaction(rpc, at):
    rpc.put(at("a"), b"1")
    response = rpc.txn(success=[delete_op(at("a"), prev_kv=True), range_op(at("a"))])
    assert response.responses[0].response_delete_range.prev_kvs[0].value == b"1"
    assert response.responses[1].response_range.count == 0


def test_failed_transaction_leaves_nothing_behind(rpc, at):
    before = rpc.revision()
    with refused(NOT_FOUND, "etcdserver: requested lease not found"):
        rpc.txn(success=[put_op(at("a"), b"1"), put_op(at("b"), b"2", lease=987654321)])
    with refused(INVALID, "etcdserver: key not found"):
        rpc.txn(success=[put_op(at("a"), b"1"), put_op(at("b"), ignore_value=True)])
    with refused(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision"):
        rpc.txn(success=[put_op(at("a"), b"1"), range_op(at("a"), revision=before + 1000)])
    assert rpc.revision() == before
    assert rpc.range(at(), end_of(at()), count_only=True).count == 0


@pytest.mark.parametrize("branch", ["success", "failure"])
def test_a_key_may_be_written_once(rpc, at, branch):
    def ask(*ops):
        return rpc.txn(**{branch: ops})

    for ops in (
        [put_op(at("a")), put_op(at("a"))],
        [put_op(at("a")), delete_op(at("a"))],
        [delete_op(at("a")), put_op(at("a"))],
        [delete_op(at(), end_of(at())), put_op(at("a"))],
        [put_op(at("a")), txn_op(success=[put_op(at("a"))])],
        [txn_op(success=[put_op(at("a"))]), txn_op(failure=[put_op(at("a"))])],
        [txn_op(success=[put_op(at("a"))]), delete_op(at(), end_of(at()))],
        [delete_op(at(), end_of(at())), txn_op(failure=[put_op(at("a"))])],
    ):
        with refused(INVALID, DUPLICATE):
            ask(*ops)
    # Deletes may overlap, reads may repeat, branches exclude each other.
    ask(delete_op(at("a")), delete_op(at(), end_of(at())), range_op(at("a")), range_op(at("a")))
    ask(txn_op(success=[put_op(at("a"))], failure=[put_op(at("a"))]))
    ask(put_op(at("a")), delete_op(at("b"), at("c")))


def test_operations_of_both_branches_are_checked(rpc, at):
    for operation in (put_op(b""), range_op(b""), delete_op(b"")):
        for branch in ("success", "failure"):
            with refused(INVALID, "etcdserver: key is not provided"):
                rpc.txn(**{branch: [operation]})
            with refused(INVALID, "etcdserver: key is not provided"):
                rpc.txn(success=[txn_op(**{branch: [operation]})])
    with refused(INVALID, "etcdserver: value is provided"):
        rpc.txn(failure=[put_op(at("a"), b"x", ignore_value=True)])
    with refused(INVALID, "etcdserver: lease is provided"):
        rpc.txn(failure=[put_op(at("a"), b"x", lease=1, ignore_lease=True)])


# Nesting


def test_nested_transactions_take_one_revision(rpc, at):
    before = rpc.revision()
    inner = txn_op(success=[put_op(at("c")), range_op(at("a"))])
    middle = txn_op(compare=[version_is(at("a"), 0)], success=[put_op(at("b")), inner])
    response = rpc.txn(success=[put_op(at("a"), b"1"), middle])
    assert response.header.revision == before + 1
    # Every compare is decided before anything runs, so a is still missing to the middle one.
    nested = response.responses[1].response_txn
    assert nested.succeeded is True
    innermost = nested.responses[1].response_txn
    assert innermost.responses[1].response_range.kvs[0].value == b"1"
    revisions = {kv.mod_revision for kv in rpc.range(at(), end_of(at())).kvs}
    assert revisions == {before + 1}


def test_nested_transaction_takes_its_failure_branch(rpc, at):
    inner = txn_op(
        compare=[version_is(at("missing"), 1)],
        success=[put_op(at("yes"))],
        failure=[put_op(at("no"))],
    )
    response = rpc.txn(success=[inner])
    assert response.succeeded is True
    assert response.responses[0].response_txn.succeeded is False
    assert [kv.key for kv in rpc.range(at(), end_of(at())).kvs] == [at("no")]


def test_nesting_ten_deep(rpc, at):
    operation = put_op(at("deep"), b"x")
    for _ in range(10):
        operation = txn_op(success=[operation])
    assert rpc.txn(success=[operation]).succeeded is True
    assert rpc.range(at("deep")).kvs[0].value == b"x"


# Limits


def puts(at, count):
    return [put_op(at(f"{number}")) for number in range(count)]


def test_number_of_operations_and_compares_is_limited(rpc, at):
    compares = [version_is(at("a"), 0)]
    rpc.txn(compare=compares * OPS_MAX, success=puts(at, OPS_MAX), failure=puts(at, OPS_MAX))
    assert rpc.range(at(), end_of(at()), count_only=True).count == OPS_MAX
    with refused(INVALID, TOO_MANY):
        rpc.txn(success=puts(at, OPS_MAX + 1))
    with refused(INVALID, TOO_MANY):
        rpc.txn(failure=puts(at, OPS_MAX + 1))
    with refused(INVALID, TOO_MANY):
        rpc.txn(compare=compares * (OPS_MAX + 1))


def test_nested_operations_count_too(rpc, at):
    assert rpc.txn(success=[txn_op(success=puts(at, OPS_MAX - 1))]).succeeded
    with refused(INVALID, TOO_MANY):
        rpc.txn(success=[txn_op(success=puts(at, OPS_MAX))])
    operation = put_op(at("deep"))
    for _ in range(OPS_MAX):
        operation = txn_op(success=[operation])
    with refused(INVALID, TOO_MANY):
        rpc.txn(success=[operation])


def test_transaction_has_a_largest_size(rpc, at):
    half = b"x" * (800 * 1024)
    with refused(INVALID, "etcdserver: request is too large"):
        rpc.txn(success=[put_op(at("a"), half), put_op(at("b"), half)])
    assert rpc.range(at(), end_of(at()), count_only=True).count == 0


def test_mutex_of_clientv3(rpc, at):
    """concurrency.Mutex as two sessions would run it: create revisions decide who is first."""
    newest = etcdrpc.RangeRequest.DESCEND
    by_creation = etcdrpc.RangeRequest.CREATE
    revisions = []
    for lease in (rpc.grant(600).ID, rpc.grant(600).ID):
        key = at(f"{lease:x}")
        response = rpc.txn(
            compare=[created_is(key, 0)],
            success=[
                put_op(key, lease=lease),
                range_op(at(), end_of(at()), sort_order=1, sort_target=by_creation, limit=1),
            ],
            failure=[range_op(key)],
        )
        assert response.succeeded
        owner = response.responses[1].response_range.kvs[0]
        revisions.append((lease, response.header.revision))
        assert owner.create_revision == revisions[0][1]
    (first, _), (second, mine) = revisions
    last_before = {
        "sort_order": newest,
        "sort_target": by_creation,
        "limit": 1,
        "max_create_revision": mine - 1,
    }
    waited_for = rpc.range(at(), end_of(at()), **last_before).kvs
    assert [kv.lease for kv in waited_for] == [first]
    rpc.revoke(first)
    assert not rpc.range(at(), end_of(at()), **last_before).kvs
    rpc.revoke(second)
