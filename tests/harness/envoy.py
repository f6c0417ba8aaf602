"""Envoy itself, in front of the services of a registry: ENVOY names the program (tools/accept envoy downloads it)."""
import json
import os
import socket
import tempfile
import threading
import time

from harness.ports import free_ports
from harness.process import Process
from harness.wait import wait_for

START_SECONDS = 30.0
HTTP2 = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            "http2_protocol_options": {"connection_keepalive": {"interval": "2s", "timeout": "1s"}},
        },
    }
}


def _address(endpoint):
    host, port = endpoint.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _registry_cluster(endpoints, is_http2):
    return {
        "name": "registry", "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "registry",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(at)}} for at in endpoints]}],
        },
        **({"typed_extension_protocol_options": HTTP2} if is_http2 else {}),
    }  # fmt: skip


def _source(kind):
    api = {"transport_api_version": "V3"}
    grpc = {**api, "grpc_services": [{"envoy_grpc": {"cluster_name": "registry"}}]}
    return {
        "whole": {**grpc, "api_type": "GRPC"},
        "delta": {**grpc, "api_type": "DELTA_GRPC"},
        "rest": {**api, "api_type": "REST", "cluster_names": ["registry"], "refresh_delay": "0.02s",
                 "request_timeout": "2s"},
    }[kind]  # fmt: skip


def _routes(service, aggregated):
    if aggregated:
        source = {"ads": {}, "resource_api_version": "V3"}
        return {"rds": {"config_source": source, "route_config_name": service}}
    return {"route_config": {"virtual_hosts": [{
        "name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": service}}],
    }]}}  # fmt: skip


def _listener(port, service, aggregated):
    return {
        "name": "front", "address": _address(f"127.0.0.1:{port}"),
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
                         "HttpConnectionManager",
                "stat_prefix": "front",
                **_routes(service, aggregated),
                "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
            },
        }]}],
    }  # fmt: skip


def bootstrap(kind, aggregated, endpoints, service, front_port, admin_port, zone=""):
    """`kind`: whole, delta or rest; `aggregated`: cluster and route come from the registry too, over ADS."""
    clusters = [_registry_cluster(endpoints, kind != "rest")]
    dynamic = {}
    if aggregated:
        dynamic = {"ads_config": _source(kind), "cds_config": {"ads": {}, "resource_api_version": "V3"}}
    else:
        clusters.append({
            "name": service, "type": "EDS", "connect_timeout": "1s",
            "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
            "eds_cluster_config": {
                "eds_config": {"resource_api_version": "V3", "api_config_source": _source(kind)},
            },
        })  # fmt: skip
    return {
        "node": {"id": "envoy-1", "cluster": "front", **({"locality": {"zone": zone}} if zone else {})},
        "admin": {"address": _address(f"127.0.0.1:{admin_port}")},
        "static_resources": {"listeners": [_listener(front_port, service, aggregated)], "clusters": clusters},
        "dynamic_resources": dynamic,
    }


class Envoy:
    """Use as a context manager."""

    def __init__(self, endpoints, service, kind="whole", aggregated=False, zone=""):
        self.front_port, self.admin_port = free_ports(2)
        self.home = tempfile.mkdtemp(prefix="envoy-test-")
        path = os.path.join(self.home, "envoy.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(bootstrap(kind, aggregated, endpoints, service, self.front_port, self.admin_port, zone), file)
        self.log_path = os.path.join(self.home, "envoy.log")
        self._arguments = (
            [os.environ["ENVOY"], "-c", path, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warning"],
            self.log_path,
        )

    def __enter__(self):
        self.process = Process(*self._arguments)
        wait_for(lambda: get(self.front_port)[0] == 200, START_SECONDS, "Envoy serves")
        return self

    def __exit__(self, *_):
        self.process.kill()


def get(port, path="/", seconds=5.0):
    """(status, body) over a connection of its own; (0, …): there was none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while part := connection.recv(65536):
                data += part
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode(errors="replace")
    except (OSError, IndexError, ValueError) as error:
        return 0, str(error)


class Traffic:
    """Requests one after the other, on a few threads; every answer with the time at which it was asked."""

    def __init__(self, port, threads=2, pause=0.002):
        self.answers = []  # (asked, status, body)
        self._port, self._pause = port, pause
        self._stops = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _run(self):
        while not self._stops.is_set():
            asked = time.monotonic()
            self.answers.append((asked, *get(self._port)))
            time.sleep(self._pause)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stops.set()
        for thread in self._threads:
            thread.join()

    def since(self, moment):
        return [answer for answer in list(self.answers) if answer[0] >= moment]
