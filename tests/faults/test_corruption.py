"""Files of the data directory that are damaged: the start ends with what and where, and changes
nothing, so that whoever repairs it finds all there is."""
import hashlib
import pathlib
import shutil

import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, ServerFailed, log_files, wait_for
from harness.exit_codes import EXIT_CODES
from harness.rpc import Rpc

SNAPSHOT_LOG_BYTES = 200_000
# Written and forgotten, so that the first segment of the log is not needed any more.
CHURN_BYTES, CHURN_PUTS = 1_000_000, 9
# The log behind the snapshot fills more than one segment.
BEFORE_SNAPSHOT, AFTER_SNAPSHOT = 600, 150
SIZE_BEFORE, SIZE_AFTER = 8_000, 80_000
# The log seals its last batch when nothing was written for a second.
REST_SECONDS = 10


def put_all(rpc, numbers, size):
    for number in numbers:
        rpc.put(b"/corrupt/%06d" % number, b"v" * size)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A data directory with snapshots and several segments, as kill -9 left it after a rest."""
    with Server(KIND_LEASED, extra_flags=["--snapshot-log-bytes", SNAPSHOT_LOG_BYTES]) as server:
        with Rpc(server) as rpc:
            for _ in range(CHURN_PUTS):
                revision = rpc.put(b"/churn", b"v" * CHURN_BYTES).header.revision
                rpc.compact(revision)
            put_all(rpc, range(BEFORE_SNAPSHOT), SIZE_BEFORE)
        wait_for(lambda: server.metric("leased_raft_snapshots_total") >= 2, 30, "snapshots")
        server.kill()
        server.extra_flags = []
        server.restart()
        with Rpc(server) as rpc:
            put_all(rpc, range(BEFORE_SNAPSHOT, BEFORE_SNAPSHOT + AFTER_SNAPSHOT), SIZE_AFTER)
        wait_for(lambda: last_record(server).type == log_files.SEAL, REST_SECONDS, "a seal")
        server.kill()
        segments = log_files.segments(server.data_dir)
        assert len(segments) >= 2
        assert log_files.records(segments[0])[0].index > 0, "the log reaches back to its beginning"
        copy = tmp_path_factory.mktemp("killed") / "data"
        shutil.copytree(server.data_dir, copy)
    return copy


def last_record(server):
    return log_files.records(log_files.segments(server.data_dir)[-1])[-1]


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


def snapshot(server):
    return log_files.snapshots(server.data_dir)[-1]


def old_segment(server):
    return log_files.segments(server.data_dir)[0]


def newest_segment(server):
    """The one in use."""
    return log_files.segments(server.data_dir)[-1]


def promise(server):
    return pathlib.Path(server.data_dir, "raft", "promise")


def identity(server):
    return pathlib.Path(server.data_dir, "identity")


def flip(path, share):
    """Changes one byte, a share of the way through what was written."""
    data = bytearray(path.read_bytes())
    data[int(log_files.used_size(path) * share)] ^= 0x40
    path.write_bytes(data)


def zero(path, share):
    """A block of the disk that came back empty."""
    data = bytearray(path.read_bytes())
    at = int(log_files.used_size(path) * share) & ~511
    data[at : at + 512] = bytes(512)
    path.write_bytes(data)


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(log_files.used_size(path) * share)])


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
    (snapshot, flip, 0.5), (snapshot, flip, 0.00001), (snapshot, flip, 0.99999), (snapshot, zero, 0.3),
    (snapshot, cut, 0.7), (snapshot, empty, 0),
    (old_segment, flip, 0.5), (old_segment, flip, 0.000001), (old_segment, zero, 0.7), (old_segment, cut, 0.6),
    (old_segment, empty, 0), (old_segment, remove, 0),
    (newest_segment, flip, 0.5), (newest_segment, flip, 0.000001), (newest_segment, flip, 0.99), (newest_segment, zero, 0.4),
    (newest_segment, cut, 0.5), (newest_segment, empty, 0),
    (identity, flip, 0.5), (identity, cut, 0.5), (identity, empty, 0), (identity, remove, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    "which, damage, share", DAMAGES,
    ids=[f"{which.__name__}-{damage.__name__}-{share}" for which, damage, share in DAMAGES],
)  # fmt: skip
def test_damage_stops_the_start_and_nothing_is_changed(server, which, damage, share):
    path = which(server)
    damage(path, share)
    check_refused(server, path)


def test_without_its_snapshots_the_log_is_not_taken_for_a_whole(server):
    for path in log_files.snapshots(server.data_dir):
        path.unlink()
    check_refused(server, path)


def test_an_older_snapshot_serves_where_the_log_reaches_back_to_it(server):
    assert len(log_files.snapshots(server.data_dir)) > 1
    snapshot(server).unlink()
    start_and_check(server)


@pytest.mark.parametrize("damage", [flip, cut, empty], ids=lambda damage: damage.__name__)
def test_a_damaged_promise_counts_as_the_longest(server, damage):
    """Too long a wait does no harm, and a node that is alone waits for nobody."""
    damage(promise(server), 0.6)
    start_and_check(server)


def votes(server):
    return [pathlib.Path(server.data_dir, "raft", name) for name in ("meta.1", "meta.2")]


@pytest.mark.parametrize("damage", [flip, cut, empty, remove], ids=lambda damage: damage.__name__)
def test_damage_to_both_copies_of_the_vote_stops_the_start(server, damage):
    for path in votes(server):
        damage(path, 0.4)
    check_refused(server, path)


@pytest.mark.parametrize("damage", [flip, cut, empty], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("number", [0, 1])
def test_damage_to_one_copy_of_the_vote_is_mended_from_the_other(server, number, damage):
    term = term_of(server)
    damage(votes(server)[number], 0.4)
    start_and_check(server)
    assert term_of(server) > term, "the term went back"
    first, second = (path.read_bytes() for path in votes(server))
    assert first == second


def term_of(server):
    """What a start and a stop say."""
    server.launch()
    server.wait_ready()
    with Rpc(server) as rpc:
        term = rpc.maintenance.Status(etcdrpc.StatusRequest()).raftTerm
    assert server.stop() == 0
    return term


def start_and_check(server):
    """All that was acknowledged is there."""
    server.launch()
    server.wait_ready()
    with Rpc(server) as rpc:
        answer = rpc.range(b"/corrupt/", b"/corrupt0", count_only=True)
    assert answer.count == BEFORE_SNAPSHOT + AFTER_SNAPSHOT
    assert server.stop() == 0


def test_undamaged_it_starts_with_all_there_is(server):
    start_and_check(server)


def test_the_last_write_is_no_torn_tail_once_the_log_has_rested(server):
    """What was acknowledged last lies before a seal: damage to it must not look like a crash."""
    path = newest_segment(server)
    last = next(one for one in reversed(log_files.records(path)) if one.type == log_files.COMMAND)
    data = bytearray(path.read_bytes())
    data[last.start + log_files.RECORD_HEAD_SIZE + last.size // 2] ^= 1
    path.write_bytes(data)
    check_refused(server, path)


@pytest.mark.parametrize("tail", [bytes(range(1, 25)), b"\xff" * 4096, b"leasedpr" * 100], ids=["short", "block", "text"])
def test_a_tail_that_was_never_finished_is_no_damage(server, tail):
    """A write cut short by the crash, of which nobody was told."""
    path = newest_segment(server)
    data = bytearray(path.read_bytes())
    end = log_files.used_size(path)
    data[end : end + len(tail)] = tail
    path.write_bytes(data)
    start_and_check(server)


def test_a_whole_record_behind_damage_is_damage(server):
    """The same bytes as of a record that was written, with a hole before them."""
    path = newest_segment(server)
    last = log_files.records(path)[-1]
    data = bytearray(path.read_bytes())
    data[last.start - 64 : last.start] = bytes(64)
    path.write_bytes(data)
    check_refused(server, path)


def test_what_lies_in_spare_files_does_not_matter(server):
    """Nothing that counts was ever in them."""
    # One more, such as a crash leaves when it was not renamed yet.
    shutil.copy(newest_segment(server), pathlib.Path(server.data_dir, "raft", f"free-{99:020}"))
    for path in log_files.spares(server.data_dir):
        data = bytearray(path.read_bytes())
        data[1000:5000] = b"\x55" * 4000
        path.write_bytes(data)
    start_and_check(server)
