"""Runs `lease`: to its end, or as a process whose lines are read as they come."""
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading

from harness.kinds import clean_environment, lease_tool

# The machine may be busy with other tests; what hangs is ended by the test's own limit.
COMMAND_SECONDS = 60.0


def environment(server=None, extra=None):
    """No settings but ours: the person who runs the tests may have some."""
    env = {**clean_environment(), "LEASE_CONFIG": ""}
    env["PATH"] = os.path.dirname(os.path.abspath(lease_tool())) + ":" + env.get("PATH", "/usr/bin:/bin")
    if server is not None:
        env["LEASED_ENDPOINTS"] = server.client_url
    return {**env, **(extra or {})}


def lease(*words, server=None, env=None, stdin=None):
    """Runs it to its end."""
    return subprocess.run(
        [lease_tool(), *map(str, words)], capture_output=True, text=True, timeout=COMMAND_SECONDS,
        input=stdin, env=environment(server, env), check=False,
    )  # fmt: skip


def lease_json(server, *words, **more):
    done = lease(*words, "--json", server=server, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Running:
    """A `lease` that runs; its lines of output and error come through a queue each."""

    def __init__(self, *words, server=None, env=None, **more):
        self.process = subprocess.Popen(
            [lease_tool(), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment(server, env), **more,
        )  # fmt: skip
        self.lines = self._read(self.process.stdout)
        self.errors = self._read(self.process.stderr)

    @staticmethod
    def _read(stream):
        lines = queue.Queue()

        def run():
            for line in stream:
                lines.put(line.rstrip("\n"))
            lines.put(None)

        threading.Thread(target=run, daemon=True).start()
        return lines

    def line(self, seconds=COMMAND_SECONDS):
        """The next line of its output; None: it has closed it."""
        return self.lines.get(timeout=seconds)

    def error_line(self, seconds=COMMAND_SECONDS):
        return self.errors.get(timeout=seconds)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=COMMAND_SECONDS):
        return self.process.wait(seconds)

    def rest(self):
        """All lines until its output ends."""
        found = []
        while (line := self.line()) is not None:
            found.append(line)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def import_lines(page, scheme, source, destination):
    """The `lease import` command lines of a page that copy from this scheme, as words, with addresses of servers of ours."""
    text = (pathlib.Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    for line in re.findall(rf"^lease (import {scheme}://.*)$", text, re.MULTILINE):
        line = re.sub(rf"{scheme}://[^/ ]+", f"{scheme}://{source}", line)
        yield re.sub(r"--to [^/ ]+", f"--to {destination}", line).split()
