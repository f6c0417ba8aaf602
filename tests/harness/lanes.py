"""A plugin of pytest: several processes share one run.

tools/pytest-lanes starts them with `-p harness.lanes`. All collect the same tests; each claims the next file that no
other has claimed, runs it whole, and comes back for another. A file is the unit because its tests may share servers.
LEASED_TEST_CLAIMS names a folder, empty when the run begins, that the processes share.
"""
import collections
import os

import pytest


def claim(claims, path):
    """True for the first lane that asks for this file."""
    name = os.path.relpath(path).replace(os.sep, "+")
    try:
        os.close(os.open(os.path.join(claims, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def run_claimed(session):
    """The tests of the files that this lane can claim, as pytest's own loop would run them."""
    claims = os.environ["LEASED_TEST_CLAIMS"]
    files = collections.defaultdict(list)
    for item in session.items:
        files[item.path].append(item)
    for path, items in files.items():
        if not claim(claims, path):
            continue
        for item, following in zip(items, [*items[1:], None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if session.testsfailed or session.config.option.collectonly:
        return None  # pytest's own loop says why nothing is run
    run_claimed(session)
    return True
