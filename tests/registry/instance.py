"""An instance of a service as a process: it serves HTTP, registers itself and renews, until somebody ends it.

    instance.py SERVICE ID PORT TTL_MS CHECK_MS MEMBER…

A GET is answered with its id; /health with 200, or with 503 once /sicken was asked for. With a CHECK_MS other than 0 the
server is to ask for /health so often, and to call it critical after two answers. After each renewal that was answered it writes
the time (CLOCK_MONOTONIC) as a line.
"""
import http.client
import http.server
import json
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_ill = False

    def do_GET(self):
        if self.path == "/sicken":
            Handler.is_ill = True
        body = self.server.id.encode()
        self.send_response(503 if self.path == "/health" and Handler.is_ill else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that went away is none: the output is for times."""


class Members:
    """One connection to whichever member answers."""

    def __init__(self, members):
        self.members = members
        self.connection = None

    def post(self, path, body):
        for _ in range(100):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.members[0], timeout=1)
                self.connection.request("POST", f"/lease/v1/registry/{path}", body=json.dumps(body))
                answer = self.connection.getresponse()
                text = answer.read()
                if answer.status == 200:
                    return json.loads(text)
            except (OSError, http.client.HTTPException):
                pass
            self.connection = None
            self.members = self.members[1:] + self.members[:1]
            time.sleep(0.02)
        raise SystemExit("no member answers")


def checks_of(port, check_ms):
    target = f"http://127.0.0.1:{port}/health"
    check = {"id": "health", "kind": "CHECK_HTTP", "target": target, "interval_ms": int(check_ms), "falls": 2}
    return [check] if int(check_ms) > 0 else []


def main(service, id, port, ttl_ms, check_ms, *members):
    server = Server(("127.0.0.1", int(port)), Handler)
    server.id = id
    threading.Thread(target=server.serve_forever, daemon=True).start()
    api = Members(list(members))
    instance = {"service": service, "id": id, "address": "127.0.0.1", "port": int(port), "ttl_ms": int(ttl_ms),
                "checks": checks_of(port, check_ms)}  # fmt: skip
    lease_id = api.post("register", {"instance": instance})["lease_id"]
    while True:
        print(time.monotonic(), flush=True)
        time.sleep(int(ttl_ms) / 1000 / 5)
        if api.post("renew", {"lease_ids": [lease_id]}).get("ended"):
            raise SystemExit("the registration has ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
