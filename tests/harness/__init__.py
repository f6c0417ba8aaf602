"""What the black-box tests share: servers to start, ports, waiting and clients.

Nothing here knows a test. Everything that is started is ended by its pid, also
when a test fails or the run is interrupted.
"""
from harness.kinds import KINDS, KIND_ETCD, KIND_LEASED, PROJECT_ROOT, binary_of, kinds
from harness.process import Process
from harness.server import Server, ServerFailed
from harness.wait import wait_for

__all__ = [
    "KINDS",
    "KIND_ETCD",
    "KIND_LEASED",
    "PROJECT_ROOT",
    "Process",
    "Server",
    "ServerFailed",
    "binary_of",
    "kinds",
    "wait_for",
]
