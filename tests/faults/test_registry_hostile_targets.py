"""What the targets of health checks can do, which anybody may name: see test_registry_hostile.py."""
import contextlib
import selectors
import socket
import ssl
import threading
import time

import pytest
from bystander import is_sanitized
from hostile_client import attacked

from harness.acceptance import either, report
from harness.certificates import Authority
from harness.consul import Consul, leased_with_consul
from harness.wait import wait_for

CHECKS = either(240, 960)
CHECKS_OF_INSTANCE = 16
LOOP_MS_MAX = 100  # of CPU time, whatever else the machine does
HELLO_RETRY_MAX = 300
QUIET_SECONDS = 0.3


class SlowCurveTarget(threading.Thread):
    """Wants a curve that takes long, and answers all who have begun a handshake at the same moment. `bursts`: how
    many those were."""

    def __init__(self, certificate, key):
        super().__init__(daemon=True)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._tls.set_ecdh_curve("secp521r1")
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.bursts = []
        self._held = []
        self._done = threading.Event()

    def run(self):
        sessions, heard = {}, time.monotonic()
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._done.is_set():
                for key, _ in selector.select(0.02):
                    heard = time.monotonic()
                    if key.fileobj is self._listener:
                        self._accept(selector, sessions)
                    elif not self._shake(sessions[key.fileobj], key.fileobj):
                        selector.unregister(key.fileobj)
                        del sessions[key.fileobj]
                        key.fileobj.close()
                if self._held and (len(self._held) >= CHECKS or time.monotonic() > heard + QUIET_SECONDS):
                    self._answer_all()
        for connection in sessions:
            connection.close()

    def _accept(self, selector, sessions):
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
                sessions[connection] = into, out, self._tls.wrap_bio(into, out, server_side=True)
                selector.register(connection, selectors.EVENT_READ)

    def _shake(self, session, connection):
        into, out, tls = session
        with contextlib.suppress(OSError):
            data = connection.recv(65536)
            into.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            answer = out.read()
            if 0 < len(answer) <= HELLO_RETRY_MAX:
                connection.send(answer)
            elif answer:
                self._held.append((connection, answer))
            return bool(data)
        return False

    def _answer_all(self):
        self.bursts.append(len(self._held))
        for connection, answer in self._held:
            with contextlib.suppress(OSError):
                connection.send(answer)
        self._held.clear()

    def stop(self):
        self._done.set()
        self.join()


@pytest.fixture(name="target")
def a_target():
    with Authority() as authority:
        target = SlowCurveTarget(*authority.sign("target"))
        target.start()
        yield target
        target.stop()


def test_many_handshakes_at_once(target):
    with leased_with_consul() as server, Consul(server.consul_port) as consul:
        with attacked(server, f"checks: {CHECKS} TLS handshakes at once"):
            for first in range(0, CHECKS, CHECKS_OF_INSTANCE):
                checks = [{"CheckID": f"check-{first + number}", "HTTP": f"https://127.0.0.1:{target.port}/",
                           "TLSSkipVerify": True, "Interval": "1s", "Timeout": "20s"}
                          for number in range(CHECKS_OF_INSTANCE)]  # fmt: skip
                answer = consul.put("agent/service/register", {"Name": "web", "ID": str(first), "Port": 1,
                                                               "Checks": checks})  # fmt: skip
                assert answer.status == 200, answer.text
            wait_for(lambda: sum(target.bursts) >= CHECKS, 60.0, "all have begun a handshake")
            time.sleep(either(1.0, 4.0))
        loop_ms = int(server.metric("leased_loop_cpu_milliseconds_max"))
        report("checks: TLS handshakes at once", bursts=target.bursts, loop_cpu_ms_max=loop_ms)
        assert max(target.bursts) >= CHECKS // 2
        assert is_sanitized(server) or loop_ms <= LOOP_MS_MAX
