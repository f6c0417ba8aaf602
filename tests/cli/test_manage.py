"""`lease member`, `snapshot`, `user`, `role` and `auth`: what etcdctl does, with `lease` alone."""
import fcntl
import os
import pty
import signal
import subprocess
import termios

import pytest
from cli_tool import lease, lease_json
from harness import Server
from harness.kinds import lease_tool
from harness.wait import wait_for

ROOT = ["--user", "root:secret"]


def test_members_are_listed_added_and_removed():
    with Server("leased") as server:
        (alone,) = lease_json(server, "member", "ls")["members"]
        assert (alone["name"], alone["state"]) == ("node1", "voter")
        assert alone["client_urls"] == [server.client_url]
        members = lease_json(server, "member", "add", "http://127.0.0.1:1", "--learner")["members"]
        (added,) = [one for one in members if one["id"] != alone["id"]]
        assert (added["state"], added["peer_urls"]) == ("not started", ["http://127.0.0.1:1"])
        table = lease("member", "ls", server=server).stdout
        assert added["id"] in table and "not started" in table
        again = lease("member", "add", "http://127.0.0.1:1", server=server)
        assert again.returncode == 1 and "Peer URLs already exists" in again.stderr
        assert len(lease_json(server, "member", "rm", added["id"])["members"]) == 1
        assert lease("member", "rm", "xyz", server=server).returncode == 2


def test_a_snapshot_is_saved_and_restored(tmp_path):
    path, folder = tmp_path / "backup.db", tmp_path / "data"
    with Server("leased") as server:
        granted = lease_json(server, "grant", "1h", "--key", "greeting", "--value", "hello")
        done = lease("snapshot", "save", path, server=server)
        assert done.returncode == 0, done.stderr
        assert f"{path} saved, {path.stat().st_size} bytes" in done.stdout
        assert sorted(os.listdir(tmp_path)) == ["backup.db"]
    done = lease("snapshot", "restore", path, "--data-dir", folder)
    assert done.returncode == 0, done.stderr
    with Server("leased", name="default", extra_flags=["--data-dir", str(folder)]) as server:
        assert granted["id"] in {row["id"] for row in lease_json(server, "ls")["leases"]}


def test_a_snapshot_that_fails_leaves_nothing(tmp_path):
    done = lease("snapshot", "save", tmp_path / "backup.db", "-e", "127.0.0.1:1")
    assert done.returncode == 1 and os.listdir(tmp_path) == []
    assert "missing --data-dir" in lease("snapshot", "restore", "x").stderr


def test_users_and_roles_from_nothing_to_authentication():
    with Server("leased") as server:
        def done(*words, stdin=None):
            result = lease(*words, server=server, stdin=stdin)
            assert result.returncode == 0, result.stderr
            return result.stdout.strip()

        assert done("auth", "status") == "authentication is off"
        assert done("user", "add", "root", stdin="secret\n") == "user added"
        done("user", "grant", "root", "root")
        done("user", "add", "ann", stdin="hers\n")
        done("role", "add", "reader")
        done("role", "grant", "reader", "read", "/public/", "--prefix")
        assert done("role", "get", "reader").split() == ["read", "/public/", "to", "/public0"]
        done("user", "grant", "ann", "reader")
        assert done("user", "get", "ann") == "reader"
        assert done("auth", "enable") == "authentication is on"

        for command in (("user", "ls"), ("status",), ("lock", "a", "--", "true")):
            refused = lease(*command, server=server)
            assert refused.returncode == (69 if command[0] == "lock" else 1) and "user name is empty" in refused.stderr
            assert "give --user NAME:PASSWORD" in refused.stderr
        assert done(*ROOT, "status").split()[-1] == "ms"
        assert "itself" in done("--user", "ann:hers", "status")
        assert lease("--user", "root", "status", server=server).returncode == 2
        wrong = lease("--user", "root:wrong", "status", server=server)
        assert wrong.returncode == 1 and "invalid user ID or password" in wrong.stderr
        assert done(*ROOT, "user", "ls").split() == ["ann", "root"]
        wrong = lease("--user", "root:wrong", "user", "ls", server=server)
        assert wrong.returncode == 1 and "invalid user ID or password" in wrong.stderr
        assert lease("--user", "root", "user", "ls", server=server).returncode == 2
        denied = lease("--user", "ann:hers", "user", "add", "bob", "--no-password", server=server)
        assert denied.returncode == 1 and "permission denied" in denied.stderr
        done("--user", "ann", "--password", "hers", "grant", "10")

        done(*ROOT, "user", "passwd", "ann", stdin="new\n")
        assert lease("--user", "ann:hers", "grant", "10", server=server).returncode == 1
        done(*ROOT, "user", "revoke", "ann", "reader")
        done(*ROOT, "role", "revoke", "reader", "/public/", "--prefix")
        assert done(*ROOT, "role", "get", "reader") == ""
        done(*ROOT, "role", "rm", "reader")
        assert done(*ROOT, "role", "ls") == ""
        done(*ROOT, "user", "rm", "ann")
        assert done(*ROOT, "auth", "disable") == "authentication is off"
        assert done("user", "ls") == "root"


def test_a_password_is_never_empty():
    done = lease("user", "add", "ann", stdin="\n")
    assert done.returncode == 2 and "the password is empty" in done.stderr


def test_a_lease_is_renewed_and_revoked_as_a_session_is():
    with Server("leased") as server:
        granted = lease_json(server, "grant", "1m", "--key", "greeting", "--value", "hello")["id"]
        assert lease("renew", granted, server=server).stdout == f"{granted} renewed, ttl 1m\n"
        assert lease("revoke", granted, server=server).stdout == f"{granted} revoked\n"
        assert lease_json(server, "ls")["leases"] == []
        for word in ("renew", "revoke"):
            gone = lease(word, granted, server=server)
            assert gone.returncode == 1 and gone.stderr.startswith("lease: ") and gone.stderr.count("lease: ") == 1, gone.stderr


def test_version_is_a_command_too():
    assert lease("version").stdout == lease("--version").stdout


@pytest.mark.parametrize("typed, status", [(b"secret\n", 0), (b"\x03", -signal.SIGINT)])
def test_a_password_is_asked_for_on_a_terminal_and_not_shown(typed, status):
    with Server("leased") as server:
        ours, theirs = pty.openpty()
        is_shown = termios.tcgetattr(theirs)[3]
        done = subprocess.Popen([lease_tool(), "-e", server.endpoint, "user", "add", "ann"], stdin=theirs, stderr=theirs,
                                stdout=subprocess.PIPE, preexec_fn=lambda: take_terminal(theirs))  # fmt: skip
        said = os.read(ours, 100)
        assert said == b"password: "
        wait_for(lambda: not termios.tcgetattr(theirs)[3] & termios.ECHO, 10, "a terminal that shows nothing")
        os.write(ours, typed)
        assert done.wait(10) == status
        assert termios.tcgetattr(theirs)[3] == is_shown
        os.set_blocking(ours, False)
        try:
            said = os.read(ours, 100)
        except BlockingIOError:
            said = b""
        assert b"secret" not in said
        assert (b"user added" in done.stdout.read()) == (status == 0)
        os.close(ours), os.close(theirs)


def take_terminal(terminal):
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
