"""Disks that are full, read-only, broken or not ours: the server stops and says why."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import grpc
import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, ServerFailed, binary_of
from harness.exit_codes import EXIT_CODES
from harness.ops import end_of
from harness.rpc import Rpc
from harness.small_disk import SmallDisk

MIB = 1024 * 1024
DISK_MIB = 80
VALUE_SIZE = 20_000
PUTS_MAX = 10_000
PUT_DEPTH = 16
STOP_SECONDS = 30.0
NOBODY = 65534
# Whoever is told anything at all before the connection ends is told that there is no room.
REFUSALS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


@pytest.fixture
def disk():
    with SmallDisk(DISK_MIB) as mounted:
        yield mounted


@pytest.fixture
def server(disk):
    """Not started; its data lies on the small disk."""
    made = Server(KIND_LEASED)
    made.data_dir = os.path.join(disk.path, "data")
    yield made
    made.close()


def key_of(number):
    return b"/disk/%06d" % number


def value_of(number):
    return (b"%d." % number) * (VALUE_SIZE // len(b"%d." % number))


def write_until_it_stops(server, first=0):
    """Puts, many in flight, until the server is gone; answers {number: revision}."""
    acknowledged, window, answer = {}, [], None
    with Rpc(server) as rpc:
        try:
            for number in range(first, first + PUTS_MAX):
                request = etcdrpc.PutRequest(key=key_of(number), value=value_of(number))
                window.append((number, rpc.kv.Put.future(request, timeout=STOP_SECONDS)))
                if len(window) >= PUT_DEPTH:
                    number, answer = window.pop(0)
                    acknowledged[number] = answer.result().header.revision
        except grpc.RpcError as error:
            assert error.code() in REFUSALS, error
        for number, answer in window:
            try:
                acknowledged[number] = answer.result().header.revision
            except grpc.RpcError:
                pass
    assert len(acknowledged) < PUTS_MAX, "the disk never got full"
    return acknowledged


def check_all_there(server, acknowledged):
    with Rpc(server) as rpc:
        found = {kv.key: kv for kv in rpc.range(b"/disk/", end_of(b"/disk/")).kvs}
    for number, revision in acknowledged.items():
        kv = found.get(key_of(number))
        assert kv is not None, f"put {number}, acknowledged at {revision}, is lost"
        assert (kv.mod_revision, kv.value) == (revision, value_of(number))


def check_stopped(server, code_name, *words):
    code = server.process.wait(STOP_SECONDS)
    log = server.log_tail(4000)
    assert code == EXIT_CODES[code_name], f"exit code {code}:\n{log}"
    for word in words:
        assert word.lower() in log.lower(), f"no {word!r} in:\n{log}"


# How much is free decides what hits the end: a segment, a snapshot, or both at once.
@pytest.mark.parametrize("free_mib", [28, 36, 44])
def test_a_full_disk_stops_the_server_and_loses_nothing(disk, server, free_mib):
    disk.leave(free_mib * MIB)
    server.start()
    acknowledged = write_until_it_stops(server)
    check_stopped(server, "DISK_FULL", "no space left", server.data_dir)
    assert acknowledged, "nothing was written at all"
    disk.make_room()
    server.restart()
    check_all_there(server, acknowledged)
    # It serves again, and a second time is no different.
    more = write_until_it_stops(server, first=PUTS_MAX)
    check_stopped(server, "DISK_FULL", "no space left", server.data_dir)
    assert more, "it served nothing although there was room"
    disk.grow(2 * DISK_MIB)
    server.restart()
    check_all_there(server, {**acknowledged, **more})


def test_a_disk_that_is_full_from_the_start_is_told(disk, server):
    disk.leave(64 * 1024)
    with pytest.raises(ServerFailed):
        server.start()
    check_stopped(server, "DISK_FULL", "space", server.data_dir)


def test_a_disk_that_fails_stops_the_server(disk, server):
    server.start()
    with Rpc(server) as rpc:
        revisions = {number: rpc.put(key_of(number), value_of(number)).header.revision
                     for number in range(20)}  # fmt: skip
        disk.fail_writes()
    # Segments are allocated ahead: it may take some of them before the disk is asked.
    revisions.update(write_until_it_stops(server, first=20))
    check_stopped(server, "DISK_FAILED", server.data_dir)
    disk.mend()
    server.restart()
    check_all_there(server, {number: revisions[number] for number in range(20)})


def test_a_read_only_disk_is_told_before_anything_is_served(disk, server):
    server.start()
    assert server.stop() == 0
    disk.make_read_only()
    with pytest.raises(ServerFailed):
        server.restart()
    check_stopped(server, "DISK_FAILED", "read-only", server.data_dir)


@pytest.fixture
def open_folder():
    """One that every user can enter, unlike pytest's."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="leased-open-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_directory_that_may_not_be_written_is_told(open_folder):
    data = open_folder / "data"
    data.mkdir(mode=0o500)
    # Nothing is forbidden to root.
    who = {"user": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    if who:
        os.chown(data, NOBODY, -1)
    program = shutil.copy(binary_of(KIND_LEASED), open_folder)
    done = subprocess.run(
        [program, "--data-dir", str(data)],
        capture_output=True, text=True, timeout=STOP_SECONDS, check=False, cwd="/", **who,
    )  # fmt: skip
    assert done.returncode == EXIT_CODES["DISK_FAILED"]
    assert "permission denied" in done.stderr.lower()
    assert str(data) in done.stderr
    assert list(data.iterdir()) == []
