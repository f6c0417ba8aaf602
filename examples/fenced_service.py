#!/usr/bin/python3
"""An HTTP service that refuses requests with an older token: fenced_service.py PORT.

    lease lock motor -- sh -c 'curl -X PUT -H "Lease-Token: $LEASE_TOKEN" -d 42 http://127.0.0.1:8080/speed'

It keeps the highest token in memory: a service that must remember over restarts stores it, as fenced_file.py does, or
asks the lease server (lease_fence_check).
"""
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service(ThreadingHTTPServer):
    """Values by path, and the highest token seen."""

    daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Handler)
        self.mutex = threading.Lock()
        self.values = {}
        self.highest = 0


class Handler(BaseHTTPRequestHandler):
    """PUT with a token, GET without."""

    def do_PUT(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(min(size, 65536))
        token = self.headers.get("Lease-Token", "")
        if not token.isdecimal():
            self.answer(400, b"the header Lease-Token is missing\n")
            return
        # Compare and write are one step: nobody comes between.
        with self.server.mutex:
            is_stale = int(token) < self.server.highest
            if not is_stale:
                self.server.highest = int(token)
                self.server.values[self.path] = body
        if is_stale:
            self.answer(409, b"a newer token was seen; the lock is somebody else's\n")
        else:
            self.answer(204, b"")

    def do_GET(self):
        with self.server.mutex:
            body = self.server.values.get(self.path)
        self.answer(404 if body is None else 200, body or b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fenced_service.py PORT")
    Service(int(sys.argv[1])).serve_forever()
