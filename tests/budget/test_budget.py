"""What the hot paths cost, in instructions of the server, against what was recorded.

Not timed: callgrind counts, so a busy machine changes little. One server runs under callgrind;
asking for /version makes it write down what it has counted since the last time, so that start-up
and warm-up are left out. What the server does by the clock is done by a clock that is as slow as
callgrind (slow_stopwatch.c). See README.md for how budgets are recorded anew.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

from harness.kinds import KIND_LEASED, binary_of, clean_environment
from harness.process import Process
from harness.server import Server

HERE = pathlib.Path(__file__).resolve().parent
BUDGETS = HERE / "budgets.json"
GROWTH_MAX = 1.10
# On a busy machine fewer requests share an iteration of the loop and an entry of the log, each of which then
# costs more of them: it only ever adds, so the least of several measures counts.
MEASURES_MAX = 4
# How far below its budget a path may lie before somebody should record the win.
SHRINK_NOTED = 0.90

MARK_PAGE = "/version"
MARK_FUNCTION = "serve_version"
ROUNDS_WARM = 4
ROUNDS = {"put": 40, "range": 40, "grant": 40, "keepalive": 200, "watch": 100, "session": 40, "renew": 200}
# Others on the machine may slow the server down as they like.
PATIENCE_SECONDS = 60.0


class CountedServer(Server):
    """leased under callgrind."""

    def launch(self):
        self.counts = os.path.join(self.home, "counts")
        self.n_marks = 0
        command = [
            "valgrind", "-q", "--tool=callgrind", f"--dump-before={MARK_FUNCTION}",
            f"--callgrind-out-file={self.counts}",
            binary_of(self.kind),
        ]  # fmt: skip
        self.process = Process(
            command + [str(flag) for flag in self.flags()],
            self.log_path,
            env={**clean_environment(), **self.env, "LD_PRELOAD": built("slow_stopwatch.so")},
            cwd=self.home,
        )

    def wait_ready(self, timeout_s=PATIENCE_SECONDS):
        super().wait_ready(timeout_s)

    def mark(self):
        """Instructions since the last mark."""
        status, _ = self.http_get(MARK_PAGE, PATIENCE_SECONDS)
        assert status == 200
        self.n_marks += 1
        text = pathlib.Path(f"{self.counts}.{self.n_marks}").read_text(encoding="utf-8")
        assert MARK_FUNCTION in text.split("desc: Trigger:")[1].splitlines()[0]
        return int(re.search(r"^totals: (\d+)$", text, re.M).group(1))


def built(name):
    """What meson makes of this folder."""
    folder = pathlib.Path(binary_of(KIND_LEASED)).parent
    path = folder / "tests" / "budget" / name
    if not path.exists():
        subprocess.run(["ninja", "-C", folder, f"tests/budget/{name}"], check=True)
    return str(path)


def do_work(server, work, rounds):
    """Number of operations done."""
    run = subprocess.run(
        [built("budget_load"), str(server.client_port), work, str(rounds)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
    )
    return int(run.stdout)


def measure():
    """Instructions for each operation of each kind."""
    costs = {}
    with CountedServer(KIND_LEASED) as server:
        for work, rounds in ROUNDS.items():
            do_work(server, work, ROUNDS_WARM)
            server.mark()
            n_operations = do_work(server, work, rounds)
            costs[work] = round(server.mark() / n_operations)
        assert server.stop() == 0
    return costs


@pytest.mark.seconds_max(300)
def test_no_hot_path_costs_a_tenth_more_than_recorded(capfd):
    budgets = json.loads(BUDGETS.read_text(encoding="utf-8"))
    costs = measure()
    for _ in range(MEASURES_MAX - 1):
        if all(cost <= budgets[work] * GROWTH_MAX for work, cost in costs.items()):
            break
        again = measure()
        costs = {work: min(cost, again[work]) for work, cost in costs.items()}
    lines = []
    for work, cost in costs.items():
        ratio = cost / budgets[work]
        note = ""
        if ratio > GROWTH_MAX:
            note = "  GREW BY MORE THAN A TENTH"
        elif ratio < SHRINK_NOTED:
            note = "  much less than recorded: record it (tests/budget/README.md)"
        lines.append(f"{work:10} {cost:7} instructions, budget {budgets[work]:7}{note}")
    with capfd.disabled():
        print("", *lines, sep="\n")
    assert all(cost <= budgets[work] * GROWTH_MAX for work, cost in costs.items()), "\n".join(lines)
    assert set(costs) == set(budgets)


if __name__ == "__main__":
    measured = measure()
    BUDGETS.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    print(BUDGETS.read_text(encoding="utf-8"), end="")
