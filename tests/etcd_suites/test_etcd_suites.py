"""What compares results of etcd's suites with the lists: no failure is lost, and every line of the lists is well formed."""
from pathlib import Path

import cases
import pytest
import verdict

HERE = Path(__file__).resolve().parent
NAMES = ["TestGood", "TestBad", "TestFlaky", "TestListed", "TestCured", "TestGone", "TestSkipped", "TestEtcd"]
EXPECTED = {"TestListed": (verdict.FAILS, "why"), "TestCured": (verdict.FAILS, "why"), "TestGone": (verdict.LEFT_OUT, "why"),
            "TestEtcd": (verdict.ETCD_FAILS, "why")}  # fmt: skip


def results(**outcomes):
    return {name: cases.Result(name, outcome, 1.0, None) for name, outcome in outcomes.items()}


@pytest.fixture
def one():
    first = results(TestGood="passed", TestBad="failed", TestFlaky="failed", TestListed="failed", TestCured="passed",
                    TestSkipped="skipped", TestEtcd="failed")  # fmt: skip
    return verdict.Verdict(NAMES, EXPECTED, first, results(TestBad="failed", TestFlaky="passed"))


def test_only_what_fails_twice_outside_of_the_list_is_unexpected(one):
    assert one.unexpected == ["TestBad"]
    assert one.by_kind["passed when run again"] == ["TestFlaky"]
    assert one.by_kind["failed as listed (fails)"] == ["TestListed"]
    assert verdict.failed_outside(one.first, EXPECTED) == ["TestBad", "TestFlaky"]


def test_a_listed_case_that_passes_is_told(one):
    assert one.by_kind["passed, though listed"] == ["TestCured"]


def test_a_case_that_skips_itself_unexpectedly_is_told(one):
    assert one.by_kind["skipped, though not listed"] == ["TestSkipped"]


def test_what_is_left_out_skipped_or_failed_by_etcd_does_not_count(one):
    assert sorted(one.counted) == ["TestBad", "TestCured", "TestFlaky", "TestGood", "TestListed"]
    assert sorted(one.passed) == ["TestCured", "TestFlaky", "TestGood"]
    assert "    8  in the suite" in one.lines()


@pytest.mark.parametrize("code, text, outcome", [
    (0, "--- PASS: TestA (0.1s)\nPASS\n", "passed"),
    (0, "--- SKIP: TestA (0.1s)\nPASS\n", "skipped"),
    (1, "--- PASS: TestA (0.1s)\nPASS\nToo many goroutines\n", "failed"),
    (1, "--- FAIL: TestA (0.1s)\n", "failed"),
    (0, "testing: warning: no tests to run\n", "failed"),
    (-9, "", "failed"),
])  # fmt: skip
def test_an_outcome_is_read_from_what_the_binary_says(code, text, outcome):
    assert cases.outcome_of(cases.Case("p/TestA", "TestA", Path("a"), Path("b")), code, text) == outcome


@pytest.mark.parametrize("name", ["e2e_expected.txt", "integration_expected.txt"])
def test_the_lists_are_well_formed(name):
    assert verdict.read_expected(HERE / name)


@pytest.mark.parametrize("line", ["TestA", "TestA | fails |", "TestA | breaks | why", "TestA | fails | why\nTestA | fails | why"])
def test_a_wrong_line_is_refused(line, tmp_path):
    (tmp_path / "list.txt").write_text(line + "\n")
    with pytest.raises(ValueError, match=r"list\.txt:\d"):
        verdict.read_expected(tmp_path / "list.txt")
