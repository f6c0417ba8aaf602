"""A child process whose output goes to a file and which is ended by its pid.

Every process started is registered until it was waited for, so that whatever a
failing test leaves behind is found and ended at the end of the run.
"""
import os
import signal
import subprocess

from harness.wait import wait_for

_CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

TERM_SECONDS = 10.0
PAUSE_SECONDS = 5.0

_running = {}


class Process:
    """One run of one program. The caller owns the log file's directory."""

    def __init__(self, argv, log_path, env=None, cwd=None):
        self.argv = list(argv)
        self.log_path = log_path
        with open(log_path, "ab") as log:
            self._popen = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
            )
        _running[self.pid] = self

    @property
    def pid(self):
        return self._popen.pid

    def exit_code(self):
        """None while it runs; negative when a signal ended it."""
        code = self._popen.poll()
        if code is not None:
            _running.pop(self.pid, None)
        return code

    def is_running(self):
        return self.exit_code() is None

    def signal(self, number):
        """Sends a signal unless the process was already waited for."""
        if self.is_running():
            self._popen.send_signal(number)

    def wait(self, timeout_s):
        code = self._popen.wait(timeout_s)
        _running.pop(self.pid, None)
        return code

    def terminate(self, timeout_s=TERM_SECONDS):
        """SIGTERM and wait; TimeoutError (after SIGKILL) if it does not obey."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.argv[0]} ignored SIGTERM for {timeout_s} s") from None

    def kill(self):
        """SIGKILL and wait."""
        self.signal(signal.SIGKILL)
        return self.wait(TERM_SECONDS)

    def pause(self):
        """SIGSTOP, and waits until every thread has stopped: the signal alone is a promise."""
        self.signal(signal.SIGSTOP)
        wait_for(self._is_stopped, PAUSE_SECONDS, f"pid {self.pid} stopped")

    def _is_stopped(self):
        folder = f"/proc/{self.pid}/task"
        states = [self._stat_fields(f"{folder}/{task}/stat")[0] for task in os.listdir(folder)]
        return all(state == "T" for state in states)

    def resume(self):
        self.signal(signal.SIGCONT)

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES

    def cpu_seconds(self):
        """User and system time so far."""
        fields = self._stat_fields(f"/proc/{self.pid}/stat")
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS_PER_SECOND

    @staticmethod
    def _stat_fields(path):
        """What follows the program's name, which may hold blanks; the state is first."""
        with open(path, encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()

    def log_tail(self, bytes_max=2000):
        try:
            with open(self.log_path, "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - bytes_max))
                return log.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return "(no log)"


def end_all():
    """Kills what is still running: the net under every test."""
    for process in list(_running.values()):
        process.kill()
