"""A file system of a few megabytes that a test may fill, break and mend.

An ext4 image on a loop device where the machine lets us, a limited tmpfs otherwise. Both
need root; the test is skipped, with the reason, where neither can be mounted.
"""
import os
import subprocess
import tempfile

import pytest


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


class SmallDisk:
    """Use as a context manager; `path` is where it is mounted."""

    def __init__(self, size_mib):
        self.size_mib = size_mib
        self.home = tempfile.mkdtemp(prefix="leased-disk-")
        self.path = os.path.join(self.home, "mounted")
        self.image = os.path.join(self.home, "image")
        self._ballast = os.path.join(self.path, "ballast")
        self.is_ext4 = False
        os.mkdir(self.path)

    def __enter__(self):
        with open(self.image, "wb") as image:
            image.truncate(self.size_mib * 1024 * 1024)
        made = _run("mkfs.ext4", "-q", "-m", "0", self.image)
        mounted = made.returncode == 0 and _run("mount", "-o", "loop", self.image, self.path)
        self.is_ext4 = bool(mounted) and mounted.returncode == 0
        if not self.is_ext4:
            mounted = _run("mount", "-t", "tmpfs", "-o", f"size={self.size_mib}m", "tmpfs", self.path)
            if mounted.returncode != 0:
                self._remove()
                pytest.skip(f"no small file system can be mounted: {mounted.stderr.strip()}")
        return self

    def __exit__(self, *_):
        # Lazily: a server that a failed test left behind must not keep it mounted.
        _run("umount", "-l", self.path)
        self._remove()

    def _remove(self):
        if os.path.exists(self.image):
            os.unlink(self.image)
        os.rmdir(self.path)
        os.rmdir(self.home)

    def free_bytes(self):
        info = os.statvfs(self.path)
        return info.f_bavail * info.f_frsize

    def leave(self, free_bytes):
        """Takes up room until only so much is free."""
        size = self.free_bytes() - free_bytes
        assert size > 0, f"only {self.free_bytes()} bytes are free"
        with open(self._ballast, "wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, size)

    def make_room(self):
        os.unlink(self._ballast)

    def grow(self, size_mib):
        """As an operator would who was given a larger volume."""
        if not self.is_ext4:
            assert _run("mount", "-o", f"remount,size={size_mib}m", self.path).returncode == 0
            return
        assert _run("umount", self.path).returncode == 0
        os.truncate(self.image, size_mib * 1024 * 1024)
        assert _run("e2fsck", "-fy", self.image).returncode in (0, 1)
        assert _run("resize2fs", self.image).returncode == 0
        assert _run("mount", "-o", "loop", self.image, self.path).returncode == 0

    def make_read_only(self):
        assert _run("mount", "-o", "remount,ro", self.path).returncode == 0

    def fail_writes(self):
        """As if the device had broken: every later write fails."""
        if not self.is_ext4:
            pytest.skip("only ext4 can be told to fail")
        assert _run("mount", "-o", "remount,abort", self.path).returncode == 0

    def mend(self):
        """Mounts it again, as after a repair."""
        assert _run("umount", self.path).returncode == 0
        assert _run("e2fsck", "-fy", self.image).returncode in (0, 1)
        assert _run("mount", "-o", "loop", self.image, self.path).returncode == 0
