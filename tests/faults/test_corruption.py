"""Files of the data directory that are damaged: the start ends with what and where, and changes
nothing, so that whoever repairs it finds all there is."""
import hashlib
import os
import pathlib
import shutil

import pytest

from harness import KIND_LEASED, Server, ServerFailed, wait_for
from harness.exit_codes import EXIT_CODES
from harness.rpc import Rpc

SNAPSHOT_LOG_BYTES = 200_000
VALUE = b"v" * 1000
BEFORE_SNAPSHOT, AFTER_SNAPSHOT = 600, 120


def put_all(rpc, numbers):
    for number in numbers:
        rpc.put(b"/corrupt/%06d" % number, VALUE)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A data directory with snapshots, closed and open segments, as kill -9 left it."""
    with Server(KIND_LEASED, extra_flags=["--snapshot-log-bytes", SNAPSHOT_LOG_BYTES]) as server:
        with Rpc(server) as rpc:
            put_all(rpc, range(BEFORE_SNAPSHOT))
        wait_for(lambda: server.metric("leased_raft_snapshots_total") >= 2, 30, "snapshots")
        # Killed and started again: what was open is closed now, and more is open.
        server.kill()
        server.extra_flags = []
        server.restart()
        with Rpc(server) as rpc:
            put_all(rpc, range(BEFORE_SNAPSHOT, BEFORE_SNAPSHOT + AFTER_SNAPSHOT))
        server.kill()
        copy = tmp_path_factory.mktemp("killed") / "data"
        shutil.copytree(server.data_dir, copy)
    return copy


@pytest.fixture
def server(killed):
    """Not started; its data directory is a copy of its own."""
    made = Server(KIND_LEASED)
    shutil.copytree(killed, made.data_dir)
    yield made
    made.close()


def digests(server):
    """{path: digest} of everything but the lock, which is for people."""
    return {
        str(path.relative_to(server.data_dir)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pathlib.Path(server.data_dir).rglob("*")
        if path.is_file() and path.name != "lock"
    }


def newest(server, pattern):
    """The last by name of the files that match."""
    found = sorted(pathlib.Path(server.data_dir, "raft").glob(pattern))
    assert found, f"no {pattern} in {os.listdir(pathlib.Path(server.data_dir, 'raft'))}"
    return found[-1]


def snapshot(server):
    return newest(server, "snapshot-*.meta").with_suffix("")


def snapshot_description(server):
    return newest(server, "snapshot-*.meta")


def closed_segment(server):
    return newest(server, "0*-0*")


def open_segment(server):
    """The one in use: the first of the open ones."""
    found = sorted(pathlib.Path(server.data_dir, "raft").glob("open-*"),
                   key=lambda path: int(path.name.split("-")[1]))  # fmt: skip
    return found[0]


def metadata(server):
    return newest(server, "metadata*")


def identity(server):
    return pathlib.Path(server.data_dir, "identity")


def used_size(path):
    """Without the zeros that were allocated ahead."""
    return len(path.read_bytes().rstrip(b"\0"))


def flip(path, share):
    """Changes one byte, a share of the way through what was written."""
    data = bytearray(path.read_bytes())
    data[int(used_size(path) * share)] ^= 0x40
    path.write_bytes(data)


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(used_size(path) * share)])


def empty(path, _share):
    path.write_bytes(b"")


def remove(path, _share):
    path.unlink()


def check_refused(server, path):
    """It ends by itself, tells of the directory, and leaves every file as it was."""
    before = digests(server)
    with pytest.raises(ServerFailed) as failure:
        server.launch()
        server.wait_ready()
    # A file that is too short may count as one that cannot be read.
    codes = (EXIT_CODES["DATA_CORRUPT"], EXIT_CODES["DISK_FAILED"])
    assert server.process.exit_code() in codes, failure.value
    log = server.log_tail()
    assert server.data_dir in log, log
    assert "ERROR" in log, log
    assert digests(server) == before, f"the start changed something after {path.name} was damaged"
    return log


DAMAGES = [
    (snapshot, flip, 0.5), (snapshot, flip, 0.01), (snapshot, cut, 0.7), (snapshot, empty, 0),
    (snapshot_description, flip, 0.3), (snapshot_description, cut, 0.5),
    (closed_segment, flip, 0.5), (closed_segment, cut, 0.6), (closed_segment, empty, 0),
    (open_segment, flip, 0.5), (open_segment, flip, 0.05), (open_segment, flip, 0.9),
    (metadata, flip, 0.05), (metadata, cut, 0.5), (metadata, empty, 0),
    (identity, flip, 0.5), (identity, cut, 0.5), (identity, empty, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    "which, damage, share", DAMAGES,
    ids=[f"{which.__name__}-{damage.__name__}-{share}" for which, damage, share in DAMAGES],
)  # fmt: skip
def test_damage_stops_the_start_and_nothing_is_changed(server, which, damage, share):
    path = which(server)
    damage(path, share)
    check_refused(server, path)


def test_undamaged_it_starts_with_all_there_is(server):
    server.launch()
    server.wait_ready()
    with Rpc(server) as rpc:
        answer = rpc.range(b"/corrupt/", b"/corrupt0", count_only=True)
    assert answer.count == BEFORE_SNAPSHOT + AFTER_SNAPSHOT


def test_a_tail_that_was_never_finished_is_no_damage(server):
    """A write cut short by the crash, of which nobody was told."""
    path = open_segment(server)
    data = bytearray(path.read_bytes())
    size = used_size(path)
    size += -size % 8
    data[size: size + 24] = bytes(range(1, 25))
    path.write_bytes(data)
    server.launch()
    server.wait_ready()
    with Rpc(server) as rpc:
        answer = rpc.range(b"/corrupt/", b"/corrupt0", count_only=True)
    assert answer.count == BEFORE_SNAPSHOT + AFTER_SNAPSHOT
