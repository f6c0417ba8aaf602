"""The library that was built and the module of this tree; servers of each kind."""
import os
import pathlib
import sys

import pytest

from harness import KIND_LEASED, PROJECT_ROOT, Server, kinds

BUILD_ROOT = pathlib.Path(os.environ.get("LEASED_BUILD_ROOT", PROJECT_ROOT / "build"))
os.environ["LEASE_LIBRARY"] = str(BUILD_ROOT / "src" / "lease" / "liblease.so.0")
sys.path.insert(0, str(PROJECT_ROOT / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="module", params=kinds())
def any_server(request):
    """etcd, and leased as the library finds it."""
    with Server(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def leased_server():
    """What takes seconds is shown with one server."""
    with Server(KIND_LEASED) as running:
        yield running
