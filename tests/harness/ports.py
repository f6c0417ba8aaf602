"""Free loopback ports.

They come from below the kernel's range for outgoing connections, so that no
client of a test running beside us can take one between the moment it is chosen
and the moment a server listens on it. All have five digits: outputs that contain
them keep their width.
"""
import random
import socket

PORT_FIRST = 10000
PORT_LAST = 32700
PORT_ATTEMPTS_MAX = 200

_random = random.SystemRandom()


def _is_free(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count):
    """count different ports nobody listens on now."""
    chosen = set()
    for _ in range(PORT_ATTEMPTS_MAX):
        port = _random.randint(PORT_FIRST, PORT_LAST)
        if port not in chosen and _is_free(port):
            chosen.add(port)
        if len(chosen) == count:
            return list(chosen)
    raise OSError(f"no {count} free ports between {PORT_FIRST} and {PORT_LAST}")


def free_block(count):
    """The first of count ports in a row that nobody listens on now."""
    for _ in range(PORT_ATTEMPTS_MAX):
        first = _random.randint(PORT_FIRST, PORT_LAST - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports in a row between {PORT_FIRST} and {PORT_LAST}")
