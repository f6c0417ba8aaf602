"""A file system of a few megabytes that a test may fill, break, mend and slow down.

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

    def _device(self):
        device = os.stat(self.path).st_dev
        return f"{os.major(device)}:{os.minor(device)}"

    def writes(self):
        """How many writes the loop device has completed so far, journal and all."""
        with open(f"/sys/dev/block/{self._device()}/stat", encoding="ascii") as stat:
            return int(stat.read().split()[4])

    def slow_down(self, pid, writes_a_second):
        """What this process writes takes its time from now on; answers what speed_up() wants."""
        if not self.is_ext4:
            pytest.skip("only a loop device can be slowed down")
        name = self._device()
        for root, file, rule in (
            ("/sys/fs/cgroup/blkio", "blkio.throttle.write_iops_device", f"{name} {writes_a_second}"),
            ("/sys/fs/cgroup", "io.max", f"{name} wiops={writes_a_second}"),
        ):
            group = os.path.join(root, f"leased-{pid}")
            if not os.path.exists(os.path.join(root, "cgroup.procs")):
                continue
            try:
                os.mkdir(group)
                with open(os.path.join(group, file), "w", encoding="ascii") as limit:
                    limit.write(rule)
                with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as members:
                    members.write(str(pid))
                return group
            except OSError:
                if os.path.isdir(group):
                    os.rmdir(group)
        pytest.skip("no control group can slow a disk down here")
        return None

    @staticmethod
    def speed_up(group, pid):
        """Ends what slow_down() began; the process may have ended meanwhile."""
        try:
            with open(os.path.join(os.path.dirname(group), "cgroup.procs"), "w", encoding="ascii") as root:
                root.write(str(pid))
        except OSError:
            pass
        os.rmdir(group)

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
