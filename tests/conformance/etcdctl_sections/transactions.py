"""txn: compares, operations and refusals.

etcdctl 3.4 cannot compare leases (it panics on them): test_raw_grpc.py does.
"""
from etcd3 import etcdrpc


def _txn(s, compares, success, failure, *flags, **how):
    """etcdctl reads three blocks of lines, each ended by an empty one."""
    blocks = (compares, success, failure)
    text = "".join("".join(line + "\n" for line in block) + "\n" for block in blocks)
    s.run("txn", *flags, stdin=text, **how)


def _answers(s, *compares):
    _txn(s, compares, ["get tc/yes"], ["get tc/no"])


def comparing(s):
    s.run("put", "tc/yes", "yes")
    s.run("put", "tc/no", "no")
    s.run("put", "tc/k", "m")
    created = s.revision()
    s.run("put", "tc/k", "m")
    s.run("put", "tc/k", "m")
    modified = s.revision()
    for sign in ("=", "!=", "<", ">"):
        for value in ("a", "m", "z"):
            _answers(s, f'value("tc/k") {sign} "{value}"')
        for version in (2, 3, 4):
            _answers(s, f'version("tc/k") {sign} "{version}"')
            _answers(s, f'ver("tc/k") {sign} "{version}"')
        for delta in (-1, 0, 1):
            _answers(s, f'create("tc/k") {sign} "{created + delta}"')
            _answers(s, f'c("tc/k") {sign} "{created + delta}"')
            _answers(s, f'mod("tc/k") {sign} "{modified + delta}"')
            _answers(s, f'm("tc/k") {sign} "{modified + delta}"')
        # A key that is not there has version and revisions 0, but no value at all.
        _answers(s, f'value("tc/absent") {sign} "a"')
        _answers(s, f'value("tc/absent") {sign} ""')
        _answers(s, f'version("tc/absent") {sign} "0"')
        _answers(s, f'create("tc/absent") {sign} "0"')
        _answers(s, f'mod("tc/absent") {sign} "0"')
    _answers(s)
    _answers(s, 'value("tc/k") = "m"', 'version("tc/k") = "3"')
    _answers(s, 'value("tc/k") = "m"', 'version("tc/k") = "4"')
    _answers(s, 'value("tc/k") = "m"', 'value("tc/k") = "m"')


def operations(s):
    _txn(s, [], ["put to/a one", "put to/b two", "get to/a", "get to/ --prefix"], [])
    _txn(s, ['version("to/a") = "1"'], ["put to/a three", "del to/b", "get to/b"], [])
    s.run("get", "to/", "--prefix", "-w", "json")
    _txn(s, ['version("to/a") = "1"'], ["put to/a never"], ["put to/c four", "get to/c"])
    _txn(s, [], ["put to/a five --prev-kv", "del to/c --prev-kv"], [])
    _txn(s, [], ["put to/a six", "get to/a", "del to/", "get to/a"], [])
    _txn(s, [], ["get to/absent", "del to/absent"], [])
    _txn(s, [], ["get to/a --rev=1"], [])
    _txn(s, [], ["del to/absent"], [], "-w", "json")
    _txn(s, [], ["put to/x 1", "put to/y 2", "put to/z 3"], [], "-w", "json")
    s.run("get", "to/", "--prefix", "-w", "json")
    _txn(s, [], ["get to/ --prefix --limit=2 --order=DESCEND --sort-by=KEY"], [], "-w", "json")
    _txn(s, [], ["get to/ --prefix --keys-only"], [], "-w", "fields")
    _txn(s, [], ["del to/x --prev-kv", "del to/y to/z"], [], "-w", "json")
    _txn(s, [], ["del to/ --prefix --prev-kv"], [], "-w", "fields")
    _txn(s, [], ["put to/p 1", "get to/p"], [], "-w", "protobuf", protobuf=etcdrpc.TxnResponse)
    _txn(s, [], ["put to/p 1"], [], "-w", "table")
    _txn(s, [], [], [])
    _txn(s, [], [], [], "-w", "json")
    lease = s.grant(600)
    _txn(s, [], [f"put to/leased v --lease={lease}"], [])
    s.run("lease", "timetolive", lease, "--keys")
    s.run("lease", "revoke", lease)
    s.run("get", "to/leased", "-w", "json")


def refusals(s):
    s.run("put", "tr/a", "one")
    _txn(s, [], ["put tr/a x", "put tr/a y"], [])
    _txn(s, [], [], ["put tr/a x", "put tr/a y"])
    _txn(s, ['value("tr/a") = "one"'], ["get tr/a"], ["put tr/b x", "put tr/b y"])
    _txn(s, [], ["put tr/a x", "del tr/a"], [])
    _txn(s, [], ["del tr/a", "put tr/a x"], [])
    _txn(s, [], ["del tr/ --prefix", "put tr/c x"], [])
    _txn(s, [], ["put tr/c x", "del tr/b tr/d"], [])
    _txn(s, [], ["del tr/a", "del tr/a"], [])
    _txn(s, [], ["put tr/a x --lease=123abc"], [])
    _txn(s, [], ["put tr/before x", "put tr/a x --lease=123abc"], [])
    _txn(s, [], ["put tr/absent --ignore-value"], [])
    _txn(s, [], ["put tr/absent x --ignore-lease"], [])
    _txn(s, [], ["put tr/before x", "get tr/a --rev=100000"], [])
    _txn(s, [], [f"put tr/n{number} x" for number in range(128)], [])
    _txn(s, [], [f"put tr/n{number} x" for number in range(129)], [])
    _txn(s, ['version("tr/a") > "0"'] * 129, ["get tr/a"], [])
    _txn(s, ['size("tr/a") > "0"'], [], [])
    _txn(s, ['version("tr/a") = "many"'], [], [])
    _txn(s, [], ["frobnicate tr/a"], [])
    _txn(s, [], ["put tr/a"], [])
    s.run("txn", "unexpected")
    s.run("get", "tr/", "--prefix", "-w", "json")


def interactive(s):
    s.run("put", "ti/a", "one")
    _txn(s, ['value("ti/a") = "one"'], ["put ti/a two"], ["get ti/a"], "-i")
    _txn(s, ['value("ti/a") = "one"'], ["put ti/a two"], ["get ti/a"], "--interactive")
