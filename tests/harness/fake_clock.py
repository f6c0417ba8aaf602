"""Clocks that lie: one process is told another time than the rest of the machine (libfaketime).

Wall clocks can be moved while the process runs, forth and back. Monotonic clocks are left alone,
unless a rate is given: then all clocks of the process run that much too fast or too slow.
"""
import glob
import os

LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class FakeClock:
    """Goes into the environment of one server, before it is started."""

    def __init__(self, server, rate=1.0):
        found = glob.glob(LIBRARIES)
        assert found, "clocks cannot be faked without libfaketime: tools/setup test"
        self._path = os.path.join(server.home, "faketime")
        self._rate = rate
        self.jump("+0")
        server.env.update(
            LD_PRELOAD=found[0],
            FAKETIME_TIMESTAMP_FILE=self._path,
            FAKETIME_NO_CACHE="1",
        )
        if rate == 1.0:
            server.env["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"

    def jump(self, offset):
        """The wall clock is so far away from the true one from now on: "+1d", "-1d", "+0"."""
        assert self._rate == 1.0 or offset == "+0", "monotonic clocks do not jump"
        speed = "" if self._rate == 1.0 else f" x{self._rate}"
        # Renamed into place: whoever looks at the clock meanwhile must not read half of it.
        with open(self._path + ".new", "w", encoding="ascii") as file:
            file.write(f"{offset}{speed}\n")
        os.rename(self._path + ".new", self._path)
