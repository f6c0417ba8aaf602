"""One file that says who acts as the holder of a lock: what the lock itself must never let be wrong.

Whoever was told that it holds the lock takes the file's kernel lock, which ends with its process, and
notes until when it may act. The next holder must find it free. Two cases are told apart: a holder that
was stalled beyond its own deadline is its own fault; one that died must have been given its time.
Run as a program it is a holder for a moment (etcdctl lock NAME -- python3 lock_witness.py FILE).
"""
import fcntl
import os
import struct
import sys
import time

_STATE = struct.Struct("<QqdB")  # holders so far, token of the last one, its deadline, whether it left by itself
# Clocks of the server and of holders are one here; what is measured before and after a call differs.
SLACK_SECONDS = 0.005


class Witness:
    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def close(self):
        os.close(self.file)

    def _read(self):
        found = os.pread(self.file, _STATE.size, 0)
        return _STATE.unpack(found) if len(found) == _STATE.size else (0, 0, 0.0, 1)

    def _wrong(self, text):
        with open(self.path + ".wrong", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def holders(self):
        return self._read()[0]

    def enter(self, token, deadline):
        """A token of 0 is not compared."""
        now = time.monotonic()
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = self._read()
            if now < other[2]:
                self._wrong(f"two holders: {token} beside {other}, {other[2] - now:.3f} s before its deadline")
            fcntl.flock(self.file, fcntl.LOCK_EX)
        count, last_token, last_deadline, left = self._read()
        if not left and now < last_deadline - SLACK_SECONDS:
            self._wrong(f"{token} holds {last_deadline - now:.3f} s before the end of {last_token}, which died")
        if token and token <= last_token:
            self._wrong(f"token {token} after {last_token}")
        os.pwrite(self.file, _STATE.pack(count + 1, max(token, last_token), deadline, 0), 0)

    def leave(self):
        count, token, deadline, _ = self._read()
        os.pwrite(self.file, _STATE.pack(count, token, deadline, 1), 0)
        fcntl.flock(self.file, fcntl.LOCK_UN)


if __name__ == "__main__":
    witness = Witness(sys.argv[1])
    witness.enter(0, time.monotonic() + float(sys.argv[2]))
    witness.leave()
