"""Short words for the parts of a transaction."""
from etcd3 import etcdrpc

Compare = etcdrpc.Compare
EQUAL, GREATER, LESS, NOT_EQUAL = (
    Compare.EQUAL,
    Compare.GREATER,
    Compare.LESS,
    Compare.NOT_EQUAL,
)


def put_op(key, value=b"", **fields):
    return etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=key, value=value, **fields))


def range_op(key, range_end=b"", **fields):
    request = etcdrpc.RangeRequest(key=key, range_end=range_end, **fields)
    return etcdrpc.RequestOp(request_range=request)


def delete_op(key, range_end=b"", **fields):
    request = etcdrpc.DeleteRangeRequest(key=key, range_end=range_end, **fields)
    return etcdrpc.RequestOp(request_delete_range=request)


def txn_op(compare=(), success=(), failure=()):
    request = etcdrpc.TxnRequest(compare=compare, success=success, failure=failure)
    return etcdrpc.RequestOp(request_txn=request)


def version_is(key, version, result=EQUAL, **fields):
    return Compare(key=key, target=Compare.VERSION, result=result, version=version, **fields)


def created_is(key, revision, result=EQUAL, **fields):
    return Compare(
        key=key, target=Compare.CREATE, result=result, create_revision=revision, **fields
    )


def modified_is(key, revision, result=EQUAL, **fields):
    return Compare(key=key, target=Compare.MOD, result=result, mod_revision=revision, **fields)


def value_is(key, value, result=EQUAL, **fields):
    return Compare(key=key, target=Compare.VALUE, result=result, value=value, **fields)


def lease_is(key, lease, result=EQUAL, **fields):
    return Compare(key=key, target=Compare.LEASE, result=result, lease=lease, **fields)


def end_of(prefix):
    """The range_end that makes `prefix` a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
