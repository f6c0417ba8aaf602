"""The requests of test_auth_matrix.py once more, with certificates on both sides: the caller is the name in his
certificate, over gRPC, as JSON and on the HTTP pages, asked of the leader and of a member that forwards.
"""
import ssl

import grpc
import pytest

from harness import auth, gateway
from harness.auth_matrix import CALM, LISTED, MORE, REQUESTS, TlsMatrix, check
from harness.certificates import Authority
from harness.cluster import Cluster
from harness.tls_server import credentials_of, server_files

USERS = ("root", "worker", "guest", "nobody")


@pytest.fixture(name="matrix", scope="module")
def a_matrix():
    with Authority() as authority:
        trusted = authority.certificate
        pairs = {name: authority.sign(name, common_name=name) for name in USERS}
        flags = [*server_files(authority), "--client-cert-auth", "--trusted-ca-file", trusted]
        client_tls = (flags, trusted, pairs["root"])
        with Cluster(authority=authority, client_tls=client_tls, timing_flags=CALM) as cluster:
            made = TlsMatrix(cluster, pairs, trusted)
            yield made
            made.close()


@pytest.mark.parametrize("name", REQUESTS)
def test_request(matrix, name):
    check(matrix, name, name, REQUESTS[name], LISTED[name])


@pytest.mark.parametrize("name", MORE)
def test_request_that_needs_more(matrix, name):
    right, method, recipe = MORE[name]
    check(matrix, name, method, recipe, right)


def test_nobody_is_served_without_a_certificate_of_ours(matrix):
    server = matrix.servers[0]
    with Authority() as other:
        foreign = ssl.create_default_context(cafile=server.trusted)
        foreign.load_cert_chain(*other.sign("root", common_name="root"))
        for context in (ssl.create_default_context(cafile=server.trusted), foreign):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                auth.get(server, "/health", context=context)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                gateway.post(server, "/v3/maintenance/status", "{}", context=context)
        for pair in (None, other.sign("root", common_name="root")):
            with grpc.secure_channel(server.endpoint, credentials_of(server.trusted, pair)) as channel:
                with pytest.raises(grpc.RpcError) as failure:
                    channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5)
                assert failure.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
