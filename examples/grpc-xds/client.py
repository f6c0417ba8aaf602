#!/usr/bin/python3
"""client.py SERVICE: asks the instances of a gRPC service for their health, over and over, balanced by the registry.

    leased --listen-xds 127.0.0.1:18000
    GRPC_XDS_BOOTSTRAP=examples/grpc-xds/bootstrap.json examples/grpc-xds/client.py web

Nothing in it knows the registry: `xds:///web` is all. Instances that come are used, those that go, drain or are
critical are not.
"""
import sys
import time

import grpc


def main():
    with grpc.insecure_channel(f"xds:///{sys.argv[1]}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        while True:
            try:
                _, call = check.with_call(b"", timeout=5, wait_for_ready=True)
                print("served", dict(call.trailing_metadata()).get("instance", ""), flush=True)
            except grpc.RpcError as error:
                print(error.code(), error.details(), flush=True)
            time.sleep(0.5)


main()
