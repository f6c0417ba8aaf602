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


def pytest_configure():
    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    # A run ended by `kill` must tear its servers down as Ctrl-C does.
    signal.signal(signal.SIGTERM, interrupt)


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
