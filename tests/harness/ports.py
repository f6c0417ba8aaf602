"""Free loopback ports.

They come from below the kernel's range for outgoing connections, so that no
client of a test running beside us can take one between the moment it is chosen
and the moment a server listens on it. All have five digits: outputs that contain
them keep their width. A port that was given out is not given again for long: its
server may be down for a moment, between two starts, or not have started yet.
Other test processes on this machine are kept off it too, for as long as this one lives: a port is a byte of a
file that all of them lock.
"""
import collections
import fcntl
import os
import random
import socket
import tempfile
import threading

PORT_FIRST = 10000
PORT_LAST = 32700
PORT_ATTEMPTS_MAX = 200

GIVEN_MAX = 4000
LOCK_PATH = os.path.join(tempfile.gettempdir(), "leased-test-ports")

_random = random.SystemRandom()
_given = collections.deque(maxlen=GIVEN_MAX)
_lock = threading.Lock()
_lock_file = None  # open for good: closing it would give up all of its locks


def _open_lock_file():
    try:
        return os.open(LOCK_PATH, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        file = os.open(LOCK_PATH, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(file, 0o666)  # whatever the umask says: another user may test here
        return file


def _claim(port):
    """False: another process has been given it."""
    global _lock_file  # pylint: disable=global-statement
    if _lock_file is None:
        _lock_file = _open_lock_file()
    try:
        fcntl.lockf(_lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port):
    if port in _given or not _claim(port):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count):
    """count different ports nobody listens on now."""
    chosen = []
    with _lock:
        for _ in range(PORT_ATTEMPTS_MAX):
            port = _random.randint(PORT_FIRST, PORT_LAST)
            if _is_free(port):
                _given.append(port)
                chosen.append(port)
            if len(chosen) == count:
                return chosen
    raise OSError(f"no {count} free ports between {PORT_FIRST} and {PORT_LAST}")


def free_block(count):
    """The first of count ports in a row that nobody listens on now."""
    with _lock:
        for _ in range(PORT_ATTEMPTS_MAX):
            first = _random.randint(PORT_FIRST, PORT_LAST - count)
            block = range(first, first + count)
            if all(_is_free(port) for port in block):
                _given.extend(block)
                return first
    raise OSError(f"no {count} free ports in a row between {PORT_FIRST} and {PORT_LAST}")
