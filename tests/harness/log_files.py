"""Reads the files in data_dir/raft as far as tests need to know where to strike.

The layout is that of `src/raft/log_segment.h` and `log_record.h`: a header of 48 bytes, then records, each a head of
56 bytes, its payload, and zeros up to a multiple of eight. Nothing is checked but whose life a record is of.
"""
import pathlib
import struct

SEGMENT_HEADER_SIZE, RECORD_HEAD_SIZE, ALIGNMENT = 48, 56, 8
LAST_OF_BATCH = 1
COMMAND, BARRIER, CHANGE, TRUNCATE, RESET, SEAL, START = 1, 2, 3, 16, 17, 18, 19


class Record:
    """One record of a segment, from `start` to `end` of the file."""

    def __init__(self, head, start):
        self.index, self.size, self.type, self.flags = struct.unpack_from("<Q8xIBB", head, 32)
        self.start = start
        self.end = start + RECORD_HEAD_SIZE + self.size + -self.size % ALIGNMENT


def records(path):
    """Of a segment; none: it is a spare."""
    data = pathlib.Path(path).read_bytes()
    life = data[24:32]
    found, at = [], SEGMENT_HEADER_SIZE
    while data[at + 8 : at + 16] == life:
        found.append(Record(data[at : at + RECORD_HEAD_SIZE], at))
        at = found[-1].end
    return found


def segments(data_dir):
    """Those with records, oldest first."""
    return [path for path in sorted(pathlib.Path(data_dir, "raft").glob("log-*")) if records(path)]


def spares(data_dir):
    """Files that are not used yet, or not any more."""
    folder = pathlib.Path(data_dir, "raft")
    return [*folder.glob("free-*"), *(path for path in folder.glob("log-*") if not records(path))]


def snapshots(data_dir):
    """Oldest first."""
    return sorted(pathlib.Path(data_dir, "raft").glob("snap-*"))


def used_size(path):
    """Bytes of a file that mean something; those behind them in a segment may be anything."""
    found = records(path) if path.name.startswith("log-") else []
    return found[-1].end if found else path.stat().st_size
