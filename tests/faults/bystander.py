"""A well-behaved client that works while others misbehave: each of its requests must succeed."""
import threading
import time

from etcd3 import etcdrpc

from harness.rpc import Rpc
from harness.wait import wait_for

TTL_SECONDS = 10
PAUSE_SECONDS = 0.01


class Bystander(threading.Thread):
    """Puts, reads and renews until stopped. Use as a context manager around the attack."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.count = 0
        self.longest_s = 0.0
        self.failure = None
        self._done = threading.Event()
        self._rpc = Rpc(server)
        self._lease = self._rpc.grant(TTL_SECONDS).ID
        self._stream = self._rpc.keep_alive()

    def run(self):
        try:
            while not self._done.wait(PAUSE_SECONDS):
                begun = time.monotonic()
                self._work()
                self.longest_s = max(self.longest_s, time.monotonic() - begun)
                self.count += 1
        except BaseException as error:  # pylint: disable=broad-except
            self.failure = error

    def _work(self):
        value = b"%d" % self.count
        put = self._rpc.put(b"/bystander", value, lease=self._lease)
        read = self._rpc.range(b"/bystander")
        assert read.kvs[0].value == value
        assert read.kvs[0].mod_revision == put.header.revision
        self._stream.send(etcdrpc.LeaseKeepAliveRequest(ID=self._lease))
        assert self._stream.receive().TTL == TTL_SECONDS

    def check_served(self):
        """A whole round that began now must succeed."""
        before = self.count
        wait_for(lambda: self.failure or self.count > before + 1, 30, "the well-behaved client")
        assert self.failure is None, f"the well-behaved client failed: {self.failure!r}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self._done.set()
        self.join(60)
        self._stream.close()
        self._rpc.revoke(self._lease)
        self._rpc.close()
        if kind is None:
            assert not self.is_alive(), "the well-behaved client hangs"
            assert self.failure is None, f"the well-behaved client failed: {self.failure!r}"
            assert self.count > 0, "the well-behaved client got nothing done"
            print(f"bystander: {self.count} rounds, longest {self.longest_s * 1000:.0f} ms")


def is_sanitized(server):
    """Built with AddressSanitizer: it keeps freed memory for a while, on purpose."""
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        size = next(line for line in status if line.startswith("VmSize")).split()[1]
    return int(size) > 10**9  # kB: its shadow takes terabytes of addresses
