"""Exit codes: one list, which the systemd unit and the operator's manual repeat."""
import re

import pytest

from harness import KIND_LEASED, PROJECT_ROOT, Server, binary_of
from harness.exit_codes import EXIT_CODES
from harness.process import Process

RESTART_HELPS = {"STOPPED", "FAILED"}


def test_the_unit_restarts_only_after_what_a_restart_may_cure():
    unit = (PROJECT_ROOT / "packaging" / "leased.service").read_text(encoding="utf-8")
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)[1].split()
    needs_a_person = {EXIT_CODES[name] for name in set(EXIT_CODES) - RESTART_HELPS}
    assert {int(code) for code in prevented} == needs_a_person
    assert "Restart=on-failure" in unit


def test_the_manual_lists_every_code():
    manual = (PROJECT_ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = manual.split("\n## Exit codes\n")[1].split("\n## ")[0]
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert listed == sorted(EXIT_CODES.values())


def test_codes_are_distinct():
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)


@pytest.mark.parametrize("flags, code, words", [
    (["--election-timeout", "10"], "USAGE", "--election-timeout"),
    (["--peer-cert-file", "/nowhere/a", "--peer-key-file", "/nowhere/b", "--peer-trusted-ca-file",
      "/nowhere/c", "--listen-peer-urls", "https://127.0.0.1:1"], "USAGE", "/nowhere/"),
    (["--data-dir", "/proc/leased"], "DISK_FAILED", "/proc/leased"),
])  # fmt: skip
def test_a_start_that_cannot_succeed_says_so_by_its_code(flags, code, words, tmp_path):
    process = Process([binary_of(KIND_LEASED), *flags], tmp_path / "log", cwd=tmp_path)
    assert process.wait(10) == EXIT_CODES[code], process.log_tail()
    assert words in process.log_tail()


def test_a_stop_is_code_0_and_the_log_of_a_failure_names_its_code():
    with Server(KIND_LEASED) as server:
        second = Process([binary_of(KIND_LEASED), *server.flags()], server.log_path + ".second")
        assert second.wait(10) == EXIT_CODES["DATA_DIR_IN_USE"]
        assert f'exit code={EXIT_CODES["DATA_DIR_IN_USE"]}' in second.log_tail().replace('"', "")
        assert server.stop() == EXIT_CODES["STOPPED"]
