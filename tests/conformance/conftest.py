"""Fixtures of the conformance tests."""
import pytest

from harness.rpc import Rpc


@pytest.fixture
def rpc(server):
    """A gRPC connection of the test's own."""
    with Rpc(server) as connection:
        yield connection


@pytest.fixture
def at(prefix):
    """Makes keys of the test's own: at("a")."""
    return lambda name="": (prefix + name).encode()
