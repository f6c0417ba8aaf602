"""One long etcdctl session, typed at etcd and at the server under test: the same comes back.

Outputs, error texts and exit codes are compared after hiding ids, sizes, hashes,
versions and durations. Deliberate differences stand in DIFFERENCES and nowhere else.
"""
import collections
import difflib
import tempfile
import threading

import pytest

from etcdctl_sections import SECTIONS
from harness import KIND_ETCD, Server, kinds
from harness.etcdctl import Session

Difference = collections.namedtuple("Difference", "command etcd leased reason")

_SMALLEST_TTL = "smallest TTL is 1 s, not 1.5 election timeouts rounded up to 2 s"

# For a step that starts with `command`, etcd's text `etcd` must read `leased` here.
DIFFERENCES = [
    Difference("$ etcdctl lease grant 0", "TTL(2s)", "TTL(1s)", _SMALLEST_TTL),
    Difference("$ etcdctl lease grant 1\n", "TTL(2s)", "TTL(1s)", _SMALLEST_TTL),
    Difference("$ etcdctl lease grant -- -5", "TTL(2s)", "TTL(1s)", _SMALLEST_TTL),
]


def _subject_kind():
    """The server compared with etcd. With etcd alone: another etcd, to test the test."""
    others = [kind for kind in kinds() if kind != KIND_ETCD]
    return others[0] if others else KIND_ETCD


def _expected_of(step, subject_kind):
    """What etcd's step must look like on the other server."""
    if subject_kind == KIND_ETCD:
        return step
    for difference in DIFFERENCES:
        if step.startswith(difference.command):
            assert difference.etcd in step, f"stale entry in DIFFERENCES: {difference}"
            step = step.replace(difference.etcd, difference.leased)
    return step


class Pair:
    """Sessions with both servers, kept in step."""

    def __init__(self, reference, subject, directories):
        self.sessions = [
            Session(reference, directories[0]),
            Session(subject, directories[1]),
        ]
        # Sections may ask for equal revisions in their middle, on both threads at once.
        self._meeting = threading.Barrier(2)
        for session in self.sessions:
            session.align = lambda session=session: self._align_from(session)

    def _align_from(self, session):
        """Called by both threads: none goes on before both have the same revision."""
        self._revisions[session] = session.revision()
        self._meeting.wait(60)
        session.raise_revision_to(max(self._revisions.values()))
        self._meeting.wait(60)

    def play(self, section):
        """Both at once; answers the two lists of steps."""
        self._revisions = {}
        for session in self.sessions:
            session.steps = []
        highest = max(session.revision() for session in self.sessions)
        for session in self.sessions:
            session.raise_revision_to(highest)
        self._meeting.reset()
        threads = [_Playing(section, session, self._meeting) for session in self.sessions]
        for thread in threads:
            thread.join_or_raise()
        return [session.steps for session in self.sessions]


class _Playing(threading.Thread):
    def __init__(self, section, session, meeting):
        super().__init__(daemon=True)
        self._section, self._session, self._meeting = section, session, meeting
        self._error = None
        self.start()

    def run(self):
        try:
            self._section(self._session)
            self._session.run("get", "~nothing", "-w", "json")
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
            self._meeting.abort()

    def join_or_raise(self):
        self.join()
        if self._error is not None:
            raise self._error


@pytest.fixture(scope="module")
def pair():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        with Server(KIND_ETCD) as reference, Server(_subject_kind()) as subject:
            both = Pair(reference, subject, (one, two))
            yield both
            for session in both.sessions:
                session.close()


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_same_output(pair, section):
    steps_of_etcd, steps = pair.play(section)
    subject_kind = pair.sessions[1].server.kind
    expected = [_expected_of(step, subject_kind) for step in steps_of_etcd]
    if steps == expected:
        return
    diff = difflib.unified_diff(
        "\n\n".join(expected).split("\n"),
        "\n\n".join(steps).split("\n"),
        "etcd",
        subject_kind,
        lineterm="",
        n=4,
    )
    pytest.fail("etcdctl prints something else:\n" + "\n".join(diff), pytrace=False)
