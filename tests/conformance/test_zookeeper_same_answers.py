"""One list of requests, asked of Debian's ZooKeeper and of leased: the answers are the same.

What differs on purpose is in docs/doors/zookeeper.md. Cases do not ask for it, but for this: a path that is none, and
a mode that nobody knows, is refused by both, by ZooKeeper with one of three errors.
"""
import difflib
import re

import pytest
from zookeeper_cases import acls, hostile, kinds, multis, nodes, paths, quotas, sessions, watches  # noqa: F401
from zookeeper_cases.case import CASES, Talk

from harness import zookeeper


@pytest.fixture(scope="module")
def pair():
    with zookeeper.ZooKeeper() as original, zookeeper.leased() as ours:
        yield original, ours


REFUSED_ALIKE = {
    "a_long_path", "add_watch_with_wrong_modes", "multi_fails", "null_paths_elsewhere", "removed_with_wrong_kinds",
    "watches_on_wrong_paths", "wrong_paths_elsewhere", "wrong_paths_for_create", "wrong_paths_for_sequences",
}  # fmt: skip
REFUSED = re.compile("no node|bad arguments|marshalling")


def answers(server, case):
    talk = Talk(server.address, case.__name__)
    case(talk)
    lines = talk.finish()
    return [REFUSED.sub("refused", line) for line in lines] if case.__name__ in REFUSED_ALIKE else lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_same(pair, case):
    original, ours = pair
    expected = answers(original, case)
    assert expected, "a case says something"
    different = list(difflib.unified_diff(expected, answers(ours, case), "zookeeper", "leased", lineterm="", n=1))
    assert not different, "\n".join(different)
