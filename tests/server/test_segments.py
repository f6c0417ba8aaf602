"""Segments of the log are written ahead (src/raft/log_segment.h): a write into one allocates nothing."""
import errno
import fcntl
import os
import pathlib
import struct

import pytest

from harness import KIND_LEASED, Server

# linux/fs.h, linux/fiemap.h
FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 1
FIEMAP_EXTENT_UNWRITTEN = 0x800
HEADER = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")
EXTENTS_MAX = 64


def extent_flags(path):
    """The flags of each extent; None: the file system does not tell."""
    request = bytearray(HEADER.size + EXTENTS_MAX * EXTENT.size)
    HEADER.pack_into(request, 0, 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, EXTENTS_MAX, 0)
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(file, FS_IOC_FIEMAP, request)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL):
            return None
        raise
    finally:
        os.close(file)
    n_extents = HEADER.unpack_from(request, 0)[3]
    return [EXTENT.unpack_from(request, HEADER.size + i * EXTENT.size)[5] for i in range(n_extents)]


def test_segments_are_written_before_they_are_used():
    with Server(KIND_LEASED) as server:
        paths = sorted(pathlib.Path(server.data_dir, "raft").glob("log-*"))
        assert paths, "it serves without a log"
        for path in paths:
            flags = extent_flags(path)
            if not flags:
                pytest.skip("this file system does not tell what is written")
            assert not any(flag & FIEMAP_EXTENT_UNWRITTEN for flag in flags), path.name
