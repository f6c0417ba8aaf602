"""Fixtures and hooks of all black-box tests."""
import os
import signal

import pytest

# Clients inherit this process's settings: loopback must never go through a proxy,
# and grpc's fork handlers only produce noise beside the servers we start.
for _name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy"):
    os.environ.pop(_name, None)
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from harness import Server, kinds  # noqa: E402
from harness.process import end_all  # noqa: E402
from harness.server import open_servers  # noqa: E402


# A client that waits for an answer that never comes must fail its test, not the whole run.
TEST_SECONDS_MAX = 120


def pytest_configure(config):
    config.addinivalue_line(
        "markers", f"seconds_max(number): fail after so long instead of {TEST_SECONDS_MAX} s"
    )
    config.addinivalue_line(
        "markers", "alone: measures time; `make test` runs no other test beside it"
    )

    def interrupt(_number, _frame):
        # Whoever runs us passes Ctrl-C on as a SIGTERM: it must not interrupt the clean-up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    # A run ended by `kill` must tear its servers down as Ctrl-C does.
    signal.signal(signal.SIGTERM, interrupt)
    # Whoever runs this in the background has us ignore Ctrl-C, and all that we start with us: a
    # program that is to end by it would not.
    signal.signal(signal.SIGINT, interrupt)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("seconds_max")
    seconds = marker.args[0] if marker else TEST_SECONDS_MAX

    def give_up(_number, _frame):
        raise TimeoutError(f"the test did not end within {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    del item, call
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in open_servers():
            state = "running" if server.is_running() else "ended"
            title = f"log of {server.kind} at {server.endpoint} ({state})"
            report.sections.append((title, server.log_tail()))


def pytest_sessionfinish():
    for server in open_servers():
        server.close()
    end_all()


@pytest.fixture(scope="module", params=kinds())
def server(request):
    """A server of each kind, shared by the tests of one module: use your own key prefix."""
    with Server(request.param) as running:
        yield running


@pytest.fixture
def prefix(request):
    """A key prefix no other test of the module uses."""
    name = request.node.originalname or request.node.name
    return f"/{name}/"
