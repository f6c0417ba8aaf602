"""`leased restore` refuses what it cannot do whole, says why, and leaves nothing behind."""
import os
import resource
import signal

import pytest

from harness import KIND_LEASED, Server, backup
from harness.kinds import binary_of
from harness.rpc import Rpc

USAGE, DISK_FAILED, CORRUPT = 2, 5, 6
FILE_BYTES_MAX = 8192


@pytest.fixture(scope="module", name="saved")
def fixture_saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "backup.db"
    with Server(KIND_LEASED) as server:
        with Rpc(server) as rpc:
            for i in range(100):
                rpc.put(b"key %d" % i, b"value" * 20)
        done = backup.run([backup.etcdctl.etcdctl_path(), "--endpoints", server.endpoint, "snapshot", "save", path])
        assert done.returncode == 0, done.stderr
    return path


def restore(*words, **how):
    done = backup.run([binary_of(KIND_LEASED), "restore", *words], **how)
    return done.returncode, done.stderr.decode()


def limit_files():
    """In the child: a file that grows beyond this ends the process, or fails the write if the signal is ignored."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def assert_refused(code, text, *words, within):
    """With this exit code and text, and nothing was made."""
    before = sorted(os.listdir(within))
    refused = restore(*words)
    assert refused[0] == code and text in refused[1], refused
    assert sorted(os.listdir(within)) == before


def test_a_directory_with_anything_in_it_stays_as_it_is(saved, tmp_path):
    target = tmp_path / "data"
    target.mkdir()
    (target / "mine").write_text("kept")
    assert_refused(USAGE, "not empty", saved, "--data-dir", target, within=tmp_path)
    assert (target / "mine").read_text() == "kept"
    (target / "mine").unlink()
    assert restore(saved, "--data-dir", target)[0] == 0
    assert_refused(USAGE, "not empty", saved, "--data-dir", target, within=tmp_path)


def test_a_file_that_is_damaged_cut_or_no_backup_is_refused(saved, tmp_path):
    target = tmp_path / "data"
    whole = saved.read_bytes()
    bad = tmp_path / "bad.db"
    for content, text in [
        (whole[:5000] + b"!" + whole[5001:], "its hash is not the one at its end"),
        (whole[:-100], "has no hash at its end"),
        (whole[:-32], "has no hash at its end"),
        (b"", "it is empty"),
    ]:
        bad.write_bytes(content)
        code = USAGE if content == b"" else CORRUPT
        assert_refused(code, text, bad, "--data-dir", target, within=tmp_path)
    bad.write_bytes(b"no backup" * 1000)
    assert_refused(CORRUPT, "not a bbolt file", bad, "--data-dir", target, "--skip-hash-check", within=tmp_path)
    bad.write_bytes(whole[: len(whole) // 2])
    assert_refused(CORRUPT, "cannot be restored", bad, "--data-dir", target, "--skip-hash-check", within=tmp_path)
    assert_refused(USAGE, "No such file", tmp_path / "none", "--data-dir", target, within=tmp_path)
    bad.write_bytes(whole[:-32])
    assert restore(bad, "--data-dir", target, "--skip-hash-check")[0] == 0


@pytest.mark.parametrize(
    "words, text",
    [
        ([], "missing argument FILE"),
        (["a", "b"], "unexpected argument"),
        (["FILE", "--wal-dir", "x"], "keeps its log in the data directory"),
        (["FILE", "--bump-revision", "5"], "go together"),
        (["FILE", "--mark-compacted"], "go together"),
        (["FILE", "--bump-revision", "x", "--mark-compacted"], "whole number"),
        (["FILE", "--colour"], "no flag of restore"),
        (["FILE", "--name", "a", "--initial-cluster", "b=http://127.0.0.1:1"], "does not name this member"),
        (
            ["FILE", "--name", "a", "--initial-cluster", "a=http://127.0.0.1:1", "--initial-advertise-peer-urls",
             "http://127.0.0.1:2"],
            "other URLs",
        ),
    ],
)  # fmt: skip
def test_flags_that_make_no_sense_are_refused(saved, tmp_path, words, text):
    words = [str(saved) if word == "FILE" else word for word in words]
    assert_refused(USAGE, text, *words, "--data-dir", tmp_path / "data", within=tmp_path)


def test_what_an_interrupted_restore_left_is_in_nobodys_way(saved, tmp_path):
    target = tmp_path / "data"
    left = tmp_path / "data.restoring" / "raft"
    left.mkdir(parents=True)
    (left / "snap-00000000000000000009-00000000000000000009").write_text("half")
    (left / "meta.1").write_text("half")
    # A server does not take it for data, because the directory it was told of is not there.
    assert restore(saved, "--data-dir", target)[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["data"]
    assert "snap-00000000000000000009-00000000000000000009" not in os.listdir(target / "raft")


def test_a_write_that_fails_leaves_nothing(saved, tmp_path):
    # Python ignores the signal, and so does its child: the write fails as on a full disk.
    code, text = restore(
        saved, "--data-dir", tmp_path / "data", preexec_fn=limit_files, restore_signals=False
    )
    assert code == DISK_FAILED and "writing the snapshot failed" in text, (code, text)
    assert os.listdir(tmp_path) == []


def test_a_process_that_is_killed_leaves_no_data_directory(saved, tmp_path):
    code, _ = restore(saved, "--data-dir", tmp_path / "data", preexec_fn=limit_files)
    assert code == -signal.SIGXFSZ
    assert "data" not in os.listdir(tmp_path)
    assert restore(saved, "--data-dir", tmp_path / "data")[0] == 0
    assert os.listdir(tmp_path) == ["data"]


def test_members_over_tls_need_no_certificate_to_be_restored(saved, tmp_path):
    members = "a=https://127.0.0.1:1,b=https://127.0.0.1:2"
    for name in "ab":
        assert restore(saved, "--data-dir", tmp_path / name, "--name", name, "--initial-cluster", members)[0] == 0


def test_help_names_every_flag():
    done = backup.run([binary_of(KIND_LEASED), "restore", "--help"])
    assert done.returncode == 0
    for flag in ("data-dir", "name", "initial-cluster", "initial-cluster-token", "initial-advertise-peer-urls",
                 "skip-hash-check", "bump-revision", "mark-compacted"):  # fmt: skip
        assert f"--{flag}" in done.stdout.decode()
