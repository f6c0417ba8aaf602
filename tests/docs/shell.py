"""Runs the commands of a page and compares what they print with what the page shows."""
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import threading
import time

from harness.etcdctl import etcdctl_path
from harness.kinds import KIND_LEASED, binary_of, clean_environment
from harness.ports import free_ports

SECONDS = 90.0
CLIENT_PORT = "2379"
PORT = re.compile(r"(127\.0\.0\.1[: ])(\d+)\b")
STAGE = pathlib.Path(__file__).parent / "stage"
# These go on until somebody ends them.
ENDLESS = re.compile(r"--observe|^lease watch|^lease top$|curl .*-N|^curl -sN")
# What differs from run to run, and what stands for it.
LOOSE = {
    "owner": (r"\bweb-\d+:\d+", r"[\w.-]+:\d+"),
    # Ids of members are written without leading zeros, as etcd writes them.
    "id": (r"\b[0-9a-f]{16}\b", r"[0-9a-f]{12,16}"),
    "moment": (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
    "size": (r"\d[\d,.]* (?:B|KiB|MiB|GiB|MB|GB)\b", r"\d[\d,.]* (?:B|KiB|MiB|GiB|MB|GB)"),
    "time": (r"\b(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\b", r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+"),
    "number": (r"-?\d[\d,]*(?:\.\d+)?", r"-?\d[\d,]*(?:\.\d+)?"),
    "anything": ("…", ".*"),
}
TOKEN = re.compile("|".join(f"(?P<{name}>{what})" for name, (what, _) in LOOSE.items()))


def pattern_of(line):
    """A regular expression for what a page shows as one line of output."""
    line, found, at = " ".join(line.split()), "", 0
    for token in TOKEN.finditer(line):
        found += re.escape(line[at : token.start()]) + LOOSE[token.lastgroup][1]
        at = token.end()
    return found + re.escape(line[at:])


def is_same(shown, printed):
    return re.fullmatch(pattern_of(shown), " ".join(printed.split())) is not None


def difference(shown, printed):
    """None, or the first line that is not as it is shown. A line `…` stands for any number of lines."""
    at = 0
    for index, line in enumerate(shown):
        if line.strip() == "…":
            rest = shown[index + 1 :]
            if not rest:
                return None
            at = next((i for i in range(at, len(printed)) if is_same(rest[0], printed[i])), len(printed))
        elif at < len(printed) and is_same(line, printed[at]):
            at += 1
        else:
            return f"shown {line!r}, printed {printed[at] if at < len(printed) else 'nothing'!r}"
    return None if at == len(printed) else f"not shown: {printed[at]!r}"


class Command:
    """One that runs, with the lines of both of its outputs."""

    def __init__(self, line, folder, env):
        self.process = subprocess.Popen(
            ["bash", "-c", line], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.printed = []
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def read_until(self, is_enough):
        """Until it has printed enough (True) or ends (False)."""
        deadline = time.monotonic() + SECONDS
        while not is_enough(self.printed):
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            if line is None:
                return False
            self.printed.append(line)
        return True

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(SECONDS)


class Shell:
    """A folder with what the pages speak of, and the words and ports of a page that stand for something else here."""

    def __init__(self, folder, words, client_port):
        shutil.copytree(STAGE, folder, dirs_exist_ok=True)
        self.folder = folder
        self.words = words
        self.ports = {CLIENT_PORT: str(client_port)}
        self.running = []
        programs = [os.path.dirname(os.path.abspath(binary_of(KIND_LEASED))), os.path.dirname(etcdctl_path())]
        endpoint = f"127.0.0.1:{client_port}"
        self.env = {
            **clean_environment(), "PATH": ":".join([*programs, os.environ.get("PATH", "/usr/bin:/bin")]), "ETCDCTL_API": "3",
            "LEASED_ENDPOINTS": endpoint, "LEASE_CONFIG": "", "NO_COLOR": "1",
        }  # fmt: skip

    def _port(self, written):
        """Each port of a page is a free one here, the same whenever it is written."""
        if written not in self.ports:
            (self.ports[written],) = map(str, free_ports(1))
        return self.ports[written]

    def run(self, line, shown, where):
        for written, here in self.words:
            line = line.replace(written, here)
        line = PORT.sub(lambda found: found[1] + self._port(found[2]), line)
        env, endpoint = {**self.env}, self.env["LEASED_ENDPOINTS"]
        # A setting that is given twice is refused.
        if "--endpoints" not in line:
            env["ETCDCTL_ENDPOINTS"] = endpoint
        if "--listen-client-urls" not in line:
            env["LEASED_LISTEN_CLIENT_URLS"] = env["LEASED_ADVERTISE_CLIENT_URLS"] = f"http://{endpoint}"
        command = Command(line.rstrip().removesuffix("&"), self.folder, env)
        self.running.append(command)
        if line.rstrip().endswith("&"):
            self._begin(command, line, shown, where)
            return
        is_endless = ENDLESS.search(line) is not None
        if is_endless:
            command.read_until(lambda printed: printed if shown is None else difference(shown, printed) is None)
        else:
            command.read_until(lambda _: False)
            command.process.wait(SECONDS)  # a program closes its output a moment before it ends
        code = command.end()
        self.running.remove(command)
        printed = "\n".join(command.printed)
        if shown is None:
            assert is_endless or code == 0, f"{where}: {line}\nexit code {code}\n{printed}"
            return
        wrong = difference(shown, command.printed)
        assert wrong is None, f"{where}: {line}\n{wrong}\nall of it:\n{printed}"
        is_failure = any(text.startswith(("lease: ", "refused: ")) for text in shown)
        assert is_endless or (code != 0) == is_failure, f"{where}: {line}: exit code {code}\n{printed}"

    @staticmethod
    def _begin(command, line, shown, where):
        def is_there(printed):
            if shown:
                return difference(shown, printed) is None
            return not line.startswith(("leased", "build/leased")) or any(" serves " in text for text in printed)

        assert command.read_until(is_there), f"{where}: {line} ended:\n" + "\n".join(command.printed)

    def close(self):
        for command in reversed(self.running):
            command.end()
