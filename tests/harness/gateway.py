"""The JSON gateway of the etcd API: its routes, and requests to it."""
import http.client
import json

from etcd3 import etcdrpc
from google.protobuf import json_format, symbol_database

from harness import lock_messages
from harness.auth import http_connection
from harness.rpc import CALL_SECONDS

PREFIXES = ("/v3", "/v3beta")

# The path behind the prefix, and the method that is behind it.
ROUTES = {
    "/lock/lock": "Lock/Lock",
    "/lock/unlock": "Lock/Unlock",
    "/election/campaign": "Election/Campaign",
    "/election/proclaim": "Election/Proclaim",
    "/election/leader": "Election/Leader",
    "/election/observe": "Election/Observe",
    "/election/resign": "Election/Resign",
    "/kv/range": "KV/Range",
    "/kv/put": "KV/Put",
    "/kv/deleterange": "KV/DeleteRange",
    "/kv/txn": "KV/Txn",
    "/kv/compaction": "KV/Compact",
    "/watch": "Watch/Watch",
    "/lease/grant": "Lease/LeaseGrant",
    "/lease/revoke": "Lease/LeaseRevoke",
    "/kv/lease/revoke": "Lease/LeaseRevoke",
    "/lease/keepalive": "Lease/LeaseKeepAlive",
    "/lease/timetolive": "Lease/LeaseTimeToLive",
    "/kv/lease/timetolive": "Lease/LeaseTimeToLive",
    "/lease/leases": "Lease/LeaseLeases",
    "/kv/lease/leases": "Lease/LeaseLeases",
    "/cluster/member/list": "Cluster/MemberList",
    "/cluster/member/add": "Cluster/MemberAdd",
    "/cluster/member/remove": "Cluster/MemberRemove",
    "/cluster/member/update": "Cluster/MemberUpdate",
    "/cluster/member/promote": "Cluster/MemberPromote",
    "/maintenance/alarm": "Maintenance/Alarm",
    "/maintenance/status": "Maintenance/Status",
    "/maintenance/defragment": "Maintenance/Defragment",
    "/maintenance/hash": "Maintenance/Hash",
    "/maintenance/hashkv": "Maintenance/HashKV",
    "/maintenance/snapshot": "Maintenance/Snapshot",
    "/maintenance/transfer-leadership": "Maintenance/MoveLeader",
    "/maintenance/downgrade": "Maintenance/Downgrade",
    "/auth/enable": "Auth/AuthEnable",
    "/auth/disable": "Auth/AuthDisable",
    "/auth/status": "Auth/AuthStatus",
    "/auth/authenticate": "Auth/Authenticate",
    "/auth/user/add": "Auth/UserAdd",
    "/auth/user/get": "Auth/UserGet",
    "/auth/user/list": "Auth/UserList",
    "/auth/user/delete": "Auth/UserDelete",
    "/auth/user/changepw": "Auth/UserChangePassword",
    "/auth/user/grant": "Auth/UserGrantRole",
    "/auth/user/revoke": "Auth/UserRevokeRole",
    "/auth/role/add": "Auth/RoleAdd",
    "/auth/role/get": "Auth/RoleGet",
    "/auth/role/list": "Auth/RoleList",
    "/auth/role/delete": "Auth/RoleDelete",
    "/auth/role/grant": "Auth/RoleGrantPermission",
    "/auth/role/revoke": "Auth/RoleRevokePermission",
}

# Requests that the protocol files of python3-etcd3 do not know, or not with all their fields.
BODIES = {
    "Cluster/MemberAdd": {"peerURLs": ["http://127.0.0.1:1"], "isLearner": True},
    "Cluster/MemberPromote": {"ID": 1},
}


def grpc_path(method):
    """Of a method of ROUTES."""
    package = {"Lock": "v3lockpb", "Election": "v3electionpb"}.get(method.split("/")[0], "etcdserverpb")
    return f"/{package}.{method}"


def body_of(method, payload):
    """The message of a gRPC request as JSON."""
    if method in BODIES:
        return json.dumps(BODIES[method])
    if not payload:
        return "{}"
    service, name = method.split("/")
    if service in ("Lock", "Election"):
        kind = lock_messages.kind_of({"Observe": "Leader"}.get(name, name) + "Request")
        return json_format.MessageToJson(kind.FromString(payload), preserving_proto_field_name=True)
    descriptor = etcdrpc.rpc_pb2.DESCRIPTOR.services_by_name[service].methods_by_name[name].input_type
    message = symbol_database.Default().GetSymbol(descriptor.full_name).FromString(payload)
    return json_format.MessageToJson(message, preserving_proto_field_name=True)


def post(server, path, body, headers=None, timeout=CALL_SECONDS, method="POST", context=None):
    """Status and the first value of the answer; with an SSL context over TLS."""
    connection = http_connection(server, timeout, context)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.readline())
    finally:
        connection.close()


def error_text(answer):
    """Of an answer that is no success; "" of one that is."""
    error = answer.get("error", "")
    return error["message"] if isinstance(error, dict) else error
