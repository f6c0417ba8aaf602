#!/usr/bin/python3
"""grpc_instance.py PORT: a gRPC server that serves grpc.health.v1.Health/Check and says in its trailers who it is."""
import concurrent.futures
import sys

import grpc


class Service(grpc.GenericRpcHandler):
    def __init__(self, name):
        self.name = name

    def service(self, details):
        def answer(_, context):
            context.set_trailing_metadata((("instance", self.name),))
            return b"\x08\x01"

        return grpc.unary_unary_rpc_method_handler(answer)


def main():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[Service(sys.argv[1])])
    if server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}") == 0:
        sys.exit(f"port {sys.argv[1]} is taken")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


main()
