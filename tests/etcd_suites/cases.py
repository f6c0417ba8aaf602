"""Cases of a suite: test binaries are built, asked for their cases, and run one case at a time, each in namespaces of
its own, so that ports are free and nothing of a case is left when it ends."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import sources

LIMIT_SECONDS = 150
# What the test binary is given to print its goroutines when the limit is over.
GRACE_SECONDS = 15
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
END = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One function Test… of one package; the name is unique in its suite."""

    name: str
    function: str
    binary: Path
    folder: Path


@dataclass(frozen=True)
class Result:
    name: str
    outcome: str
    seconds: float
    log: Path


def build_package(module, package, prefix, binaries):
    """The cases of a package; none when it has no tests."""
    binary = binaries / ((prefix or package).strip("/").replace("/", "-") + ".test")
    sources.run_go(module, "test", "-c", "-o", binary, f"./{package}")
    if not binary.is_file():
        return []
    folder = module / package
    listed = subprocess.run(
        [binary, "-test.list", "^Test"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    return [Case(prefix + word, word, binary, folder) for word in listed.split() if word.startswith("Test")]


def command_of(case):
    """In a network namespace with its loopback up, and a process namespace that ends with the case. Not one of mounts, which
    would keep what others unmount meanwhile."""
    return ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c",
            'ip link set lo up && exec "$@"', "sh", str(case.binary), "-test.run", f"^{case.function}$", "-test.v",
            "-test.count", "1", "-test.timeout", f"{LIMIT_SECONDS}s"]  # fmt: skip


def outcome_of(case, code, text):
    """A binary may fail after its case has passed, when goroutines are left; that is a failure too."""
    if code != 0:
        return FAILED
    ends = {name: word for word, name in END.findall(text)}
    return {"PASS": PASSED, "SKIP": SKIPPED}.get(ends.get(case.function), FAILED)


class Runner:
    """Runs cases, several at a time, and prints each result as it comes."""

    def __init__(self, logs, environment, keep):
        self.logs = logs
        self.environment = environment
        self.keep = keep
        self.lock = threading.Lock()
        self.processes = set()
        self.stopped = False
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)

    def run_one(self, case, again=False):
        log = self.logs / (case.name.replace("/", "-") + (".again.log" if again else ".log"))
        scratch = tempfile.mkdtemp(prefix="suite-")
        begun = time.monotonic()
        try:
            with open(log, "wb") as output:
                env = {**os.environ, **self.environment, "TMPDIR": scratch}
                with self.lock:
                    if self.stopped:
                        raise KeyboardInterrupt
                    process = subprocess.Popen(
                        command_of(case), cwd=case.folder, env=env, stdin=subprocess.DEVNULL, stdout=output,
                        stderr=subprocess.STDOUT
                    )  # fmt: skip
                    self.processes.add(process)
                try:
                    code = process.wait(LIMIT_SECONDS + GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = process.wait()
                with self.lock:
                    self.processes.discard(process)
        finally:
            if not self.keep:
                shutil.rmtree(scratch, ignore_errors=True)
        outcome = outcome_of(case, code, log.read_text(encoding="utf-8", errors="replace"))
        if outcome != FAILED and not self.keep:
            log.unlink()
        return Result(case.name, outcome, time.monotonic() - begun, log)

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.processes:
                process.kill()

    def run(self, cases, jobs, again=False, note=lambda result: ""):
        """Results by name. `note` says more about a result on its line of progress."""
        results = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            todo = [pool.submit(self.run_one, case, again) for case in cases]
            try:
                for done in concurrent.futures.as_completed(todo):
                    result = done.result()
                    results[result.name] = result
                    print(f"[{len(results):3}/{len(cases)}] {result.outcome:7} {result.seconds:6.1f} s  {result.name}"
                          f"{note(result)}", flush=True)  # fmt: skip
            except BaseException:
                self.stop()
                raise
        return results
