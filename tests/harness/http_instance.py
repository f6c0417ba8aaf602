#!/usr/bin/python3
"""http_instance.py REGISTRY,... SERVICE PORT TTL_MS [CHECK]...: registers itself as an instance, renews its lease as
long as it lives, and answers every request with its port; /health with 200, and with 500 after /ill was asked for.
Checks are JSON."""
import http.server
import json
import sys
import threading
import time
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_ill = False

    def do_GET(self):
        if self.path == "/ill":
            Handler.is_ill = True
        body = self.server.name.encode()
        self.send_response(500 if self.path == "/health" and Handler.is_ill else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def ask(registry, what, body):
    request = urllib.request.Request(f"http://{registry}/lease/v1/registry/{what}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def renew(registries, lease_id, ttl_ms):
    """At whichever member answers."""
    while True:
        time.sleep(ttl_ms / 4000)
        for registry in registries:
            try:
                ask(registry, "renew", {"lease_ids": [lease_id]})
                break
            except OSError:
                continue


def main():
    registry, service, port, ttl_ms, *checks = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.name = port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registries = registry.split(",")
    instance = {"service": service, "id": port, "address": "127.0.0.1", "port": int(port), "ttl_ms": int(ttl_ms),
                "checks": [json.loads(check) for check in checks]}
    lease_id = ask(registries[0], "register", {"instance": instance})["lease_id"]
    print("ready", flush=True)
    renew(registries, lease_id, int(ttl_ms))


main()
