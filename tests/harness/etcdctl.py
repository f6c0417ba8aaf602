"""An etcdctl session with one server, written down as a transcript.

Each command becomes one step: its words, its input, what it printed on both of
its outputs and its exit code, normalised. A step never raises because a server
misbehaves: that shows in the transcript, beside what the other server did.
"""
import json
import os
import re
import shutil
import signal
import subprocess

from google.protobuf import text_format

from harness.kinds import clean_environment
from harness.normalise import Normaliser
from harness.wait import wait_for

COMMAND_SECONDS = 20.0
BACKGROUND_SECONDS = 8.0

_GRANTED = re.compile(r"lease ([0-9a-f]{16}) granted")
_GRANTED_STRUCTURED = re.compile(r'"ID"(?: : |:)(-?\d+)')


def etcdctl_path():
    path = os.environ.get("ETCDCTL_BINARY") or shutil.which("etcdctl") or "/usr/bin/etcdctl"
    if not os.access(path, os.X_OK):
        raise FileNotFoundError("no etcdctl: install Debian's etcd-client")
    return path


def _command(server, words):
    return [etcdctl_path(), "--endpoints", server.endpoint] + [str(word) for word in words]


def _environment():
    # etcd hashes a password for every request of a user: on a busy machine the default of 5 s is short.
    return {**clean_environment(), "ETCDCTL_API": "3", "ETCDCTL_COMMAND_TIMEOUT": "30s"}


def call(server, *words, stdin=b""):
    """Runs one command to its end; nothing is written down."""
    return subprocess.run(
        _command(server, words),
        input=stdin,
        capture_output=True,
        timeout=COMMAND_SECONDS,
        env=_environment(),
        check=False,
    )


class Background:
    """A command that goes on until stopped: watch, elect, keep-alive and the like."""

    def __init__(self, session, words):
        self._session = session
        self._title = session.title_of(words)
        # Both outputs go to files: nobody has to read a pipe while we do other things.
        self._out = open(session.next_path("out"), "w+b")
        self._err = open(session.next_path("err"), "w+b")
        self._popen = subprocess.Popen(
            _command(session.server, words),
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=self._err,
            env=_environment(),
        )

    def kill(self):
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()

    def write(self, text):
        """Into its standard input, which stays open."""
        self._popen.stdin.write(text.encode())
        self._popen.stdin.flush()

    def _wait(self):
        try:
            return self._popen.wait(BACKGROUND_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"none within {BACKGROUND_SECONDS} s"

    def output(self):
        with open(self._out.name, "rb") as out:
            return out.read().decode("utf-8", "replace")

    def wait_for_output(self, text, count=1, timeout_s=BACKGROUND_SECONDS):
        """True once `text` was printed count times; False if it ended or time ran out."""

        def done():
            return self.output().count(text) >= count or self._popen.poll() is not None

        try:
            wait_for(done, timeout_s, f"{self._title} prints {text}")
        except TimeoutError:
            return False
        return self.output().count(text) >= count

    def stop(self, **how):
        """Ctrl-C, then as end(). Its input stays open, or it might end because of that."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)
            self._wait()
        return self.end(**how)

    def end(self, edit=None, leases=None):
        """Closes its input, waits for it to end, then writes the step down.

        `edit` changes stdout first; `leases` is a pattern whose matches are ids of leases.
        """
        try:
            self._popen.stdin.close()
        except BrokenPipeError:
            pass
        code = self._wait()
        with open(self._err.name, "rb") as err:
            stderr = err.read().decode("utf-8", "replace")
        stdout = self.output()
        self._out.close()
        self._err.close()
        if leases is not None:
            self._session.learn_leases_in(stdout, leases)
        if edit is not None:
            stdout = edit(stdout)
        self._session.note(self._title, stdout, stderr, code)
        return stdout


class Session:
    """All steps of one session. `directory` is the caller's and may be removed afterwards."""

    def __init__(self, server, directory):
        self.server = server
        self.directory = directory
        self.steps = []
        self._files = 0
        self._backgrounds = []
        self._normalise = Normaliser()
        self._normalise.learn(server.endpoint, "<endpoint>")
        self._normalise.learn(server.peer_url.split("//")[1], "<peer>")
        self._normalise.learn(directory, "<directory>")
        header = self._header()
        self._normalise.learn_id(header["cluster_id"], "<cluster>")
        self._normalise.learn_id(header["member_id"], "<member>")

    def _header(self):
        result = call(self.server, "get", "~", "-w", "json")
        if result.returncode != 0:
            raise RuntimeError(f"{self.server.kind} answers no get: {result.stderr.decode()}")
        header = json.loads(result.stdout)["header"]
        missing = {"cluster_id", "member_id", "revision", "raft_term"} - set(header)
        if missing:
            raise RuntimeError(f"{self.server.kind}: header without {sorted(missing)}: {header}")
        return header

    def revision(self):
        """The store's revision now; not a step."""
        return self._header()["revision"]

    def raise_revision_to(self, revision):
        """Fills up with puts of a key outside every section, so that revisions agree."""
        while self.revision() < revision:
            call(self.server, "put", "~filler", "x")

    def server_put(self, key, value):
        """A put that is not a step."""
        call(self.server, "put", key, value)

    def wait_for_keys(self, prefix, count, timeout_s=BACKGROUND_SECONDS):
        """Until so many keys have the prefix; time running out becomes a step."""

        def there():
            result = call(self.server, "get", prefix, "--prefix", "--keys-only")
            return len(result.stdout.split()) == count

        try:
            wait_for(there, timeout_s, f"{count} keys under {prefix}")
        except TimeoutError as error:
            self.note("wait", "", str(error), 1)

    def next_path(self, suffix):
        self._files += 1
        return os.path.join(self.directory, f"{self._files}.{suffix}")

    def title_of(self, words):
        return self._normalise(" ".join(["etcdctl"] + [str(word) or "''" for word in words]))

    def note(self, title, stdout, stderr, code):
        parts = [f"$ {title}", self._normalise(stdout).rstrip("\n")]
        if stderr:
            parts.append("stderr: " + self._normalise(stderr).rstrip("\n"))
        parts.append(f"exit: {code}")
        self.steps.append("\n".join(part for part in parts if part))

    def run(self, *words, stdin="", protobuf=None):
        """One command to its end. With `protobuf`, stdout is decoded as that message."""
        title = self.title_of(words)
        if stdin:
            title += "\n" + self._normalise("\n".join("< " + line for line in stdin.split("\n")))
        try:
            result = call(self.server, *words, stdin=stdin.encode())
        except subprocess.TimeoutExpired:
            self.note(title, "", "", f"none within {COMMAND_SECONDS} s")
            return ""
        stdout = result.stdout
        text = self._decode(stdout, protobuf) if protobuf else stdout.decode("utf-8", "replace")
        self.note(title, text, result.stderr.decode("utf-8", "replace"), result.returncode)
        return text

    @staticmethod
    def _decode(data, message_type):
        message = message_type()
        try:
            message.ParseFromString(data)
        except Exception as error:  # pylint: disable=broad-except
            return f"not a {message_type.DESCRIPTOR.name}: {error}: {data!r}"
        message.header.cluster_id = 0
        message.header.member_id = 0
        message.header.raft_term = 0
        return text_format.MessageToString(message, print_unknown_fields=True)

    def grant(self, *words):
        """`lease grant`; answers the id in hexadecimal, as the other commands take it."""
        before = len(self.steps)
        text = self.run("lease", "grant", *words)
        granted = _GRANTED.search(text)
        structured = _GRANTED_STRUCTURED.search(text)
        if not granted and not structured:
            return "0"
        number = int(granted[1], 16) if granted else int(structured[1])
        self._normalise.learn_lease(number)
        # The step was noted before the id had a name.
        self.steps[before:] = [self._normalise(step) for step in self.steps[before:]]
        return f"{number & (2**64 - 1):016x}"

    def learn_leases_in(self, text, pattern):
        """Names ids that a command printed without a grant of ours: lock and elect."""
        for word in re.findall(pattern, text):
            self._normalise.learn_lease(int(word, 16))

    def background(self, *words):
        command = Background(self, words)
        self._backgrounds.append(command)
        return command

    def close(self):
        """Ends what a failed section left running."""
        for command in self._backgrounds:
            command.kill()
