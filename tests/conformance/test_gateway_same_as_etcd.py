"""One list of requests to the JSON gateway of etcd and of leased: the same comes back.

Ids are hidden; revisions are compared, so both servers are fresh. An error is its code and its text: some builds
of etcd leave the field `error` out, and older ones answer 412 to what newer ones answer 400. The texts about JSON
that cannot be read are each server's own; the code and the status are compared.
"""
import http.client
import json

import pytest

from harness import KIND_ETCD, KIND_LEASED, Server, gateway
from harness.rpc import CALL_SECONDS

A, B, C = "YQ==", "Yg==", "Yw=="
ALL = {"key": "AA==", "range_end": "AA=="}

# Path, body (text, or what becomes JSON), how many lines of the answer are read: None is all of it.
CASES = [
    ("/kv/put", {"key": A, "value": "MQ=="}),
    ("/kv/put", {"key": A, "value": "Mg==", "prev_kv": True}),
    ("/kv/put", {"key": B, "value": "Mw==", "prevKv": True, "nobody_knows": {"this": [1, {}]}}),
    ("/kv/put", '{"key":"Yg==","lease":null,"prev_kv":true}'),
    ("/kv/put", {"key": C, "value": "4pyT+/8="}),
    ("/kv/put", '{"key":"YQ=="} what follows does not matter'),
    ("/kv/put", {}),
    ("/kv/put", ""),
    ("/kv/put", {"key": A, "lease": "12345"}),
    ("/kv/put", {"key": A, "ignore_value": True, "value": A}),
    ("/kv/range", {"key": A}),
    ("/kv/range", {"key": "bm90aGluZw=="}),
    ("/kv/range", ALL),
    ("/kv/range", {**ALL, "limit": "1"}),
    ("/kv/range", {**ALL, "limit": 2, "keys_only": True}),
    ("/kv/range", {**ALL, "countOnly": True}),
    ("/kv/range", {**ALL, "sort_order": "DESCEND", "sort_target": "MOD"}),
    ("/kv/range", {**ALL, "sortOrder": 2, "sortTarget": 1}),
    ("/kv/range", {**ALL, "revision": "3", "serializable": True}),
    ("/kv/range", {**ALL, "revision": 999999}),
    ("/kv/range", {**ALL, "min_mod_revision": "4", "maxCreateRevision": 5}),
    ("/kv/deleterange", {"key": C, "prev_kv": True}),
    ("/kv/deleterange", {"key": C}),
    ("/kv/deleterange", {}),
    (
        "/kv/txn",
        {
            "compare": [{"result": "EQUAL", "target": "CREATE", "key": C, "createRevision": "0"}],
            "success": [{"requestPut": {"key": C, "value": A}}],
        },
    ),
    (
        "/kv/txn",
        {
            "compare": [{"result": "GREATER", "target": "VERSION", "key": A, "version": 99}],
            "success": [{"request_put": {"key": C}}],
            "failure": [
                {"request_range": {"key": A}},
                {"request_delete_range": {"key": A, "prev_kv": True}},
                {"request_put": {"key": A, "value": C}},
            ],
        },
    ),
    ("/kv/txn", {"success": [{"request_txn": {"success": [{"request_put": {"key": B}}]}}]}),
    ("/kv/txn", {}),
    ("/kv/txn", {"success": [{}]}),
    ("/kv/txn", {"success": [{"request_put": {"key": A}}, {"request_put": {"key": A}}]}),
    ("/lease/grant", {"TTL": 600, "ID": "77"}),
    ("/lease/grant", {"TTL": "600", "ID": 77}),
    ("/lease/grant", {"TTL": 99999999999}),
    ("/kv/put", {"key": A, "lease": 77}),
    ("/lease/keepalive", {"ID": 77}),
    ("/lease/keepalive", '{"ID":"77"}{"ID":78}\n {"ID":77}'),
    ("/lease/keepalive", ""),
    ("/lease/keepalive", '{"ID":77} nonsense'),
    ("/kv/lease/timetolive", {"ID": 78}),
    ("/lease/leases", {}),
    ("/kv/lease/leases", ""),
    ("/watch", {"create_request": {"key": A, "start_revision": 2, "prev_kv": True}}, 2),
    (
        "/watch",
        '{"create_request":{"key":"YQ==","watch_id":7}} {"create_request":{"key":"YQ==","watch_id":7}}'
        '{"cancelRequest":{"watchId":"7"}}',
        3,
    ),
    ("/watch", {"createRequest": {**ALL, "startRevision": "4", "filters": ["NOPUT"]}}, 2),
    ("/lease/revoke", {"ID": 77}),
    ("/kv/lease/revoke", {"ID": 77}),
    ("/lease/grant", {"TTL": 600, "ID": 79}),
    ("/lock/lock", {"name": "bG9jaw==", "lease": "79"}),
    ("/lock/unlock", {"key": "bG9jay80Zg=="}),
    ("/lock/unlock", {"key": "bG9jay80Zg=="}),
    ("/election/campaign", {"name": "ZWxlY3Rpb24=", "lease": 79, "value": A}),
    ("/election/leader", {"name": "ZWxlY3Rpb24="}),
    ("/election/observe", {"name": "ZWxlY3Rpb24="}, 1),
    ("/election/leader", {"name": "bm9ib2R5"}),
    ("/election/proclaim", {"value": A}),
    ("/election/resign", {}),
    ("/lease/revoke", {"ID": 79}),
    ("/maintenance/defragment", {}),
    ("/maintenance/transfer-leadership", {"targetID": "5"}),
    ("/cluster/member/add", {"peerURLs": ["nonsense"]}),
    ("/cluster/member/remove", {"ID": "5"}),
    ("/auth/user/add", {"name": "ann", "password": "secret"}),
    ("/auth/user/add", {"name": "ann", "password": "secret"}),
    ("/auth/user/add", {"name": "bob", "options": {"no_password": True}}),
    ("/auth/user/list", {}),
    ("/auth/role/add", {"name": "reader"}),
    ("/auth/role/grant", {"name": "reader", "perm": {"permType": "READWRITE", "key": A, "rangeEnd": C}}),
    ("/auth/role/grant", {"name": "reader", "perm": {"key": B}}),
    ("/auth/role/get", {"role": "reader"}),
    ("/auth/user/grant", {"user": "ann", "role": "reader"}),
    ("/auth/user/get", {"name": "ann"}),
    ("/auth/user/get", {"name": "<nobody>"}),
    ("/auth/authenticate", {"name": "ann", "password": "secret"}),
    ("/auth/role/list", {}),
    ("/auth/role/revoke", {"role": "reader", "key": B}),
    ("/auth/user/revoke", {"name": "ann", "role": "reader"}),
    ("/auth/role/delete", {"role": "reader"}),
    ("/auth/user/changepw", {"name": "ann", "password": "other"}),
    ("/auth/user/delete", {"name": "ann"}),
    ("/auth/enable", {}),
    ("/kv/compaction", {"revision": "4"}),
    ("/kv/compaction", {"revision": 4}),
    ("/kv/range", {"key": A, "revision": 2}),
    ("/watch", {"create_request": {"key": A, "start_revision": 2}}, 2),
]  # fmt: skip

# What cannot be read: the code alone is compared.
UNREADABLE = [
    ("/kv/put", "nonsense"),
    ("/kv/put", '{"key":"YQ=="'),
    ("/kv/put", '{"key":"YQ==",}'),
    ("/kv/put", "[]"),
    ("/kv/put", {"key": "!"}),
    ("/kv/put", {"key": 12}),
    ("/kv/put", {"key": A, "prev_kv": 1}),
    ("/kv/put", {"key": A, "lease": "x"}),
    ("/kv/put", {"key": A, "lease": 1.5}),
    ("/kv/put", {"key": A, "lease": 9223372036854775808}),
    ("/kv/txn", {"success": {}}),
    ("/kv/txn", {"success": ["text"]}),
]


def ask(server, case):
    """Status and lines of the answer, each parsed."""
    path, body, lines = (*case, None)[:3]
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
    try:
        connection.request("POST", "/v3" + path, body=body if isinstance(body, str) else json.dumps(body))
        answer = connection.getresponse()
        texts = answer.read().splitlines() if lines is None else [answer.readline() for _ in range(lines)]
        return answer.status, [json.loads(text) for text in texts], answer.getheader("content-type")
    finally:
        connection.close()


HIDDEN = ("cluster_id", "member_id", "raft_term", "token")


def without_ids(value):
    if isinstance(value, dict):
        return {name: without_ids(of) for name, of in value.items() if name not in HIDDEN}
    return [without_ids(of) for of in value] if isinstance(value, list) else value


def normalise(outcome):
    status, values, content_type = outcome
    shown = []
    for value in values:
        if "code" in value:
            assert value.get("error", value["message"]) == value["message"]
            value = {"code": value["code"], "message": value["message"]}
        shown.append(without_ids(value))
    return 400 if status == 412 else status, shown, content_type if values else None


@pytest.fixture(name="pair", scope="module")
def a_pair():
    with Server(KIND_ETCD) as etcd, Server(KIND_LEASED) as leased:
        yield etcd, leased


def test_the_same_comes_back(pair):
    for case in CASES:
        etcd, leased = (normalise(ask(server, case)) for server in pair)
        assert leased == etcd, case


@pytest.mark.parametrize("case", UNREADABLE, ids=str)
def test_what_cannot_be_read_is_refused_alike(pair, case):
    etcd, leased = (normalise(ask(server, case)) for server in pair)
    for status, [error], _type in (etcd, leased):
        assert (status, error["code"]) == (400, 3)
    assert leased[2] == etcd[2]


def test_errors_have_the_fields_that_clients_look_for(pair):
    _etcd, leased = pair
    status, answer = gateway.post(leased, "/v3/lease/revoke", '{"ID":5}')
    text = "etcdserver: requested lease not found"
    assert (status, answer) == (404, {"error": text, "code": 5, "message": text})


@pytest.mark.parametrize("path", ["/v3alpha/kv/range", "/v3/kv/", "/v3/kv/range/", "/v3/nothing"])
def test_other_paths_lead_nowhere(pair, path):
    for server in pair:
        connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
        connection.request("POST", path, body="{}")
        assert connection.getresponse().status == 404
        connection.close()
