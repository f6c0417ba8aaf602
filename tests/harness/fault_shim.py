"""Makes the n-th file call of one server fail, wait, or be its last.

`fault_shim.c` is compiled once a run and loaded into the server with LD_PRELOAD; both sides map one file of 64
bytes. A fault can be armed at any moment, and `calls` and `fired` say what has happened since. Only
calls on files below the server's data directory count.
"""
import atexit
import errno
import functools
import mmap
import os
import shutil
import struct
import subprocess
import tempfile

from harness.wait import wait_for

WRITE, SYNC, RENAME, UNLINK, TRUNCATE, ALLOCATE = 1, 2, 4, 8, 16, 32
_COUNT, _FAIL, _KILL, _HOLD = range(4)
# kinds, action, error, fired, nth, repeat, calls: as struct control of fault_shim.c
_FIELDS = struct.Struct("<IIiIQQQ")
_CONTROL_BYTES = 64
_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fault_shim.c")


@functools.lru_cache(maxsize=None)
def _library():
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "faults of the disk need a compiler: tools/setup test"
    folder = tempfile.mkdtemp(prefix="leased-fault-shim-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "fault_shim.so")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", path, _SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


class FaultShim:
    """Goes into the environment of one server before it is started, and stays over its restarts."""

    def __init__(self, server):
        path = os.path.join(server.home, "fault")
        with open(path, "wb") as file:
            file.write(b"\0" * _CONTROL_BYTES)
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _CONTROL_BYTES)
        server.env.update(
            LD_PRELOAD=_library(),
            FAULT_CONTROL=path,
            FAULT_FOLDER=os.path.realpath(server.data_dir),
        )

    def _arm(self, kinds, action, nth=1, repeat=1, error=0):
        # The kinds last: nothing happens before all of it is there.
        _FIELDS.pack_into(self._map, 0, 0, action, error, 0, nth, repeat, 0)
        struct.pack_into("<I", self._map, 0, kinds)

    def disarm(self):
        """Nothing happens from now on; whoever is held goes on."""
        self._arm(0, _COUNT)

    def count(self, kinds):
        """Only counts."""
        self._arm(kinds, _COUNT)

    def fail(self, kinds, error=errno.EIO, nth=1, repeat=1):
        """The n-th call from now on, and those that follow it up to `repeat`, fail with the error."""
        self._arm(kinds, _FAIL, nth, repeat, error)

    def kill(self, kinds, nth=1):
        """The process gets SIGKILL instead of the n-th call from now on."""
        self._arm(kinds, _KILL, nth)

    def hold(self, kinds, nth=1):
        """The n-th call from now on does not begin before disarm()."""
        self._arm(kinds, _HOLD, nth)

    @property
    def calls(self):
        return _FIELDS.unpack_from(self._map)[6]

    @property
    def fired(self):
        return _FIELDS.unpack_from(self._map)[3]

    def wait_fired(self, timeout_s):
        wait_for(lambda: self.fired > 0, timeout_s, "the fault")
