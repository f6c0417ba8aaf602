"""`lease` on a terminal: Ctrl-C, a closed terminal, and what is told while it waits."""
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from cli_tool import environment, lease_json
from harness import Server
from harness.kinds import lease_tool
from harness.wait import wait_for

SECONDS = 60.0


@pytest.fixture(scope="module", name="server")
def _server():
    with Server("leased") as running:
        yield running


class Terminal:
    """A program as the leader of a session of its own on a terminal of its own."""

    def __init__(self, server, *words):
        self.master, slave = pty.openpty()

        def begin():
            os.setsid()
            import fcntl
            import termios
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(list(map(str, words)), stdin=slave, stdout=slave, stderr=slave,
                                        env=environment(server, {"TERM": "xterm"}), preexec_fn=begin)  # fmt: skip
        os.close(slave)
        self.text = ""

    def wait_text(self, text):
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.text!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        assert text in self.text
        return self.text

    def type(self, keys):
        os.write(self.master, keys)

    def hang_up(self):
        os.close(self.master)
        self.master = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)


def wait_gone(pid):
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or
             open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[0] == "Z",
             SECONDS, f"pid {pid} gone")  # fmt: skip


def pid_in(text):
    return int(text.split("started ")[1].split()[0])


def test_ctrl_c_ends_the_command_and_gives_the_lock_back(server):
    with Terminal(server, lease_tool(), "lock", "tty", "--", "sh", "-c", "echo started $$; exec sleep 600") as terminal:
        pid = pid_in(terminal.wait_text("started ") + terminal.wait_text("\n"))
        terminal.type(b"\x03")
        assert terminal.process.wait(SECONDS) == -signal.SIGINT, "as the shell that runs it expects"
        wait_gone(pid)
    assert lease_json(server, "get", "tty")["holders"] == []


def test_a_command_that_handles_ctrl_c_goes_on(server):
    script = 'trap "echo heard; x=1" INT; echo started $$; while [ -z "$x" ]; do sleep 0.05; done; exit 5'
    with Terminal(server, lease_tool(), "lock", "deaf", "--", "bash", "-c", script) as terminal:
        terminal.wait_text("started ")
        terminal.type(b"\x03")
        terminal.wait_text("heard")
        assert terminal.process.wait(SECONDS) == 5


def test_the_command_reads_from_the_terminal(server):
    with Terminal(server, lease_tool(), "lock", "reads", "--", "sh", "-c",
                  "echo started; read line; echo got:$line") as terminal:  # fmt: skip
        terminal.wait_text("started")
        terminal.type(b"word\n")
        terminal.wait_text("got:word")
        assert terminal.process.wait(SECONDS) == 0


def test_a_closed_terminal_leaves_nothing_behind(server):
    script = "trap '' HUP INT; echo started $$; sleep 600 & wait; sleep 600"
    with Terminal(server, lease_tool(), "lock", "closed", "--", "sh", "-c", script) as terminal:
        pid = pid_in(terminal.wait_text("started ") + terminal.wait_text("\n"))
        terminal.hang_up()
        terminal.process.wait(SECONDS)
        wait_gone(pid)
    wait_for(lambda: lease_json(server, "get", "closed")["holders"] == [], SECONDS, "the lock is free")


def test_who_waits_sees_the_place_and_the_holder(server):
    with Terminal(server, lease_tool(), "lock", "shown", "--owner", "ann", "--", "sh", "-c", "echo started; exec sleep 600") as one:
        one.wait_text("started")
        with Terminal(server, lease_tool(), "lock", "shown", "--", "echo", "mine") as two:
            two.wait_text("waiting for shown: position 1, held by ann")
            one.type(b"\x03")
            two.wait_text("mine")
            assert two.process.wait(SECONDS) == 0
