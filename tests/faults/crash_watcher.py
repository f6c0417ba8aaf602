"""A watcher of everything that comes back after each crash and goes on where it was.

What it was told, replayed, must give exactly what the server holds: no gap, no event
twice, no revision used for something else after a restart.
"""
import collections
import threading
import time

import grpc

from harness.rpc import Rpc
from harness.watch_messages import EVENT_DELETE

ALL = (b"\0", b"\0")

Seen = collections.namedtuple("Seen", "create_revision mod_revision version value lease")


class Watcher:
    """One log of events over all connections. Only one of them is open at a time."""

    def __init__(self, history):
        self.history = history
        self.revision = 1  # of an empty store
        self.keys = {}
        self.events = 0
        self.faults = []
        self._changed = threading.Condition()
        self._thread = None
        self._rpc = None
        self._stop = None

    def connect(self, server):
        """Goes on at the first revision it has not seen."""
        self._rpc = Rpc(server)
        self._stop = threading.Event()
        stream = self._rpc.watch()
        stream.create(*ALL, start_revision=self.revision + 1)
        self._thread = threading.Thread(target=self._read, args=(stream, self._stop), daemon=True)
        self._thread.start()

    def disconnect(self):
        self._stop.set()
        self._rpc.close()
        self._thread.join()

    def wait_until(self, revision, timeout_s=30.0):
        with self._changed:
            reached = self._changed.wait_for(lambda: self.revision >= revision, timeout_s)
        assert reached, f"the watcher got to {self.revision}, not to {revision}"

    def _read(self, stream, stop):
        while not stop.is_set():
            try:
                response = stream.receive(1.0)
            except TimeoutError:
                continue
            except (grpc.RpcError, EOFError):
                return
            self._take(response, time.monotonic())

    def _take(self, response, now):
        if response.canceled:
            self.faults.append(f"canceled: {response}")
        told = self.revision
        for event in response.events:
            revision = event.kv.mod_revision
            if revision not in (told, told + 1) or revision <= self.revision:
                self.faults.append(f"revision {revision} came after {told} ({self.revision} before)")
            told = revision
            self._apply(event, now)
            self.events += 1
        with self._changed:
            self.revision = told
            self._changed.notify_all()

    def _apply(self, event, now):
        kv = event.kv
        before = self.keys.get(kv.key)
        if event.type == EVENT_DELETE:
            if before is None:
                self.faults.append(f"{kv.key} deleted at {kv.mod_revision} but not there")
            self.keys.pop(kv.key, None)
            self._note_end(kv.key, now)
            return
        version = 1 if before is None else before.version + 1
        created = kv.mod_revision if before is None else before.create_revision
        if (kv.version, kv.create_revision) != (version, created):
            self.faults.append(f"{kv.key}: version {kv.version}, made at {kv.create_revision}")
        self.keys[kv.key] = Seen(
            kv.create_revision, kv.mod_revision, kv.version, bytes(kv.value), kv.lease
        )

    def _note_end(self, key, now):
        if key.startswith(b"/lease/"):
            lease = self.history.leases.get(int(key[len(b"/lease/"):]))
            if lease is not None:
                lease.gone_at = now
