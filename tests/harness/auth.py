"""Users of a server or a cluster: made, logged in, and what a call is told."""
import base64
import http.client

import grpc
from etcd3 import etcdrpc

from harness.rpc import CALL_SECONDS

READ, WRITE, READ_WRITE = 0, 1, 2

# What a call comes to.
OK, UNKNOWN_CALLER, DENIED = "ok", "caller is not known", "permission denied"


def auth(rpc, method, request=None, token=None):
    """One call of the Auth service."""
    metadata = [("token", token)] if token else None
    payload = request.SerializeToString() if request is not None else b""
    return rpc.channel.unary_unary(f"/etcdserverpb.Auth/{method}")(
        payload, metadata=metadata, timeout=CALL_SECONDS
    )


def log_in(rpc, name, password):
    """A token."""
    request = etcdrpc.AuthenticateRequest(name=name, password=password)
    answer = auth(rpc, "Authenticate", request)
    return etcdrpc.AuthenticateResponse.FromString(answer).token


def permission(key, range_end=b"", kind=READ_WRITE):
    message = etcdrpc.AuthRoleGrantPermissionRequest().perm
    message.permType, message.key, message.range_end = kind, key, range_end
    return message


def add_user(rpc, name, password, permissions=(), token=None):
    """With a role of the same name that has these permissions."""
    auth(rpc, "UserAdd", etcdrpc.AuthUserAddRequest(name=name, password=password), token)
    auth(rpc, "RoleAdd", etcdrpc.AuthRoleAddRequest(name=name), token)
    auth(rpc, "UserGrantRole", etcdrpc.AuthUserGrantRoleRequest(user=name, role=name), token)
    for each in permissions:
        grant = etcdrpc.AuthRoleGrantPermissionRequest(name=name, perm=each)
        auth(rpc, "RoleGrantPermission", grant, token)


def enable(rpc, root_password="root's"):
    """Authentication on, with a user root; answers root's token."""
    add_user(rpc, "root", root_password)
    auth(rpc, "AuthEnable")
    return log_in(rpc, "root", root_password)


def outcome_of_text(text):
    if "user name is empty" in text or "invalid auth token" in text:
        return UNKNOWN_CALLER
    return DENIED if "permission denied" in text else text


def outcome_of(call):
    """What a function that makes a call comes to: one of the words above, or the error's text."""
    try:
        call()
    except grpc.RpcError as error:
        return outcome_of_text(error.details())
    return OK


def http_connection(server, timeout=CALL_SECONDS, context=None):
    """To its client port; with an SSL context over TLS."""
    if context is None:
        return http.client.HTTPConnection(server.host, server.client_port, timeout=timeout)
    return http.client.HTTPSConnection(server.host, server.client_port, timeout=timeout, context=context)


def get(server, path, user=None, bearer=None, context=None):
    """Status and body of an HTTP request; `user` is (name, password)."""
    headers = {}
    if user is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
    if bearer is not None:
        headers["Authorization"] = "Bearer " + bearer
    connection = http_connection(server, context=context)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
