#!/usr/bin/python3
"""grpc_calls.py TARGET...: calls Health/Check at each target over and over until it is killed; one line a call: the
target, the port of the instance or the code of the error. A program of its own, because gRPC reads its bootstrap
once a process."""
import sys
import time

import grpc


def main():
    channels = {target: grpc.insecure_channel(target) for target in sys.argv[1:]}
    while True:
        time.sleep(0.003)
        for target, channel in channels.items():
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            try:
                _, call = check.with_call(b"", timeout=10)
                said = dict(call.trailing_metadata())["instance"]
            except grpc.RpcError as error:
                said = error.code().name
            print(target, said, flush=True)


main()
