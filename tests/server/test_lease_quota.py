"""Leases alone can fill a node: they count toward its quota as keys do."""
import grpc
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for

LEASES_MAX = 20000
QUOTA_BYTES = 500000


def test_leases_without_keys_raise_the_space_alarm_too():
    with Server(KIND_LEASED, extra_flags=["--quota-backend-bytes", str(QUOTA_BYTES)]) as server:
        with grpc.insecure_channel(server.endpoint) as channel:
            leases = etcdrpc.LeaseStub(channel)
            futures = [
                leases.LeaseGrant.future(etcdrpc.LeaseGrantRequest(TTL=9000000))
                for _ in range(LEASES_MAX)
            ]
            granted = [future.result().ID for future in futures if future.exception() is None]
            assert granted
            wait_for(lambda: server.http_get("/health")[0] == 503, 10, "the alarm")
            # What makes room goes on.
            leases.LeaseRevoke(etcdrpc.LeaseRevokeRequest(ID=granted[0]))
