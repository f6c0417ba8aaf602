#!/usr/bin/python3
"""A file that refuses writers whose token is older than one it has seen.

    lease lock report -- sh -c 'make-report | fenced_file.py report.txt "$LEASE_TOKEN"'

The highest token is kept in report.txt.token. Both files are changed under one lock of the kernel, the token first: a
writer that dies in between leaves the old content, and nobody older can write any more.
"""
import fcntl
import os
import sys


def write(path, token, data):
    """False: somebody with a newer token has written, or is about to."""
    with open(path + ".token", "a+", encoding="ascii") as fence:
        fcntl.flock(fence, fcntl.LOCK_EX)
        fence.seek(0)
        if token < int(fence.read() or 0):
            return False
        fence.truncate(0)
        fence.write(str(token))
        fence.flush()
        os.fsync(fence.fileno())
        with open(path + ".new", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        return True


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: fenced_file.py FILE TOKEN < content")
    if not write(sys.argv[1], int(sys.argv[2]), sys.stdin.buffer.read()):
        sys.exit(f"{sys.argv[1]}: token {sys.argv[2]} is older than one that was seen; the lock is somebody else's")
