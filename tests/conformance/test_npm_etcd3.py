"""npm's etcd3, unchanged, against both servers. js/scenario.js acts, the tests here judge."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness import Server, kinds

JS = pathlib.Path(__file__).parent / "js"
SCENARIO_SECONDS = 60
INSTALL_SECONDS = 300


@pytest.fixture(scope="session")
def node():
    """Path of node, with the packages of js/ in place."""
    path = shutil.which("node") or shutil.which("nodejs")
    assert path, "no node: install Debian's nodejs and npm"
    installed = JS / "node_modules" / ".package-lock.json"
    lock = JS / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"],
            cwd=JS,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
    return path


def play(node, name, server, steps=None):
    """Runs a scenario; does what it asks for, answers what it reports."""
    command = [node, str(JS / "scenario.js"), name, server.client_url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stdout:
                message = json.loads(line)
                if "step" in message:
                    steps[message["step"]]()
                    process.stdin.write("done\n")
                    process.stdin.flush()
                    continue
                assert "failed" not in message, message["failed"]
                return message["result"]
            process.wait(SCENARIO_SECONDS)
            raise AssertionError(f"no result:\n{process.stderr.read()}")
        finally:
            process.kill()


def test_keys(node, server):
    assert play(node, "keys", server) == {
        "missing": None,
        "text": "text",
        "number": 42,
        "json": {"a": [1, 2]},
        "bytes": [0, 255, 128],
        "previousVersion": "4",
        "deleted": "1",
        "exists": False,
    }


def test_ranges(node, server):
    assert play(node, "ranges", server) == {
        "strings": {"a": "5", "b": "2", "c": "4", "d": "1"},
        "numbers": {"a": 5, "b": 2, "c": 4, "d": 1},
        "keys": "abcd",
        "count": 4,
        "limited": "ab",
        "more": True,
        "byKey": "dcba",
        "byValue": "dbca",
        "byMod": "bdca",
        "byCreate": "cdab",
        "byVersion": "a",
        "newest": "c",
        "inRange": "bc",
        "deleted": "4",
        "left": 0,
    }


def test_transactions(node, server):
    assert play(node, "transactions", server) == {
        "first": True,
        "second": False,
        "found": "created",
        "several": True,
        "left": ["other"],
        "duplicate": "3 INVALID_ARGUMENT: etcdserver: duplicate key given in txn request",
    }


def test_software_transactions(node, server):
    result = play(node, "stm", server)
    assert result["sum"] == 2 * result["rounds"]


def test_namespaces(node, server):
    assert play(node, "namespaces", server) == {
        "inside": ["a", "c", "deep/b"],
        "outside": ["a", "c", "deep/b"],
        "nested": "2",
        "watched": "c",
        "left": 0,
    }


def test_leases_are_kept_alive(node, server):
    assert play(node, "leases", server) == {
        "ttls": ["2"] * 5,
        "kept": "x",
        "sameId": True,
        "listed": True,
        "afterRevoke": None,
        "revoked": True,
    }


def test_lost_leases_are_noticed(node, server):
    assert play(node, "lostLeases", server) == {
        "lost": True,
        "key": None,
        "released": None,
        # The client recognised the text, or it would not have said this.
        "late": "Lease 5 NOT_FOUND: etcdserver: requested lease not found is expired or revoked",
    }


def test_locks(node, server):
    assert play(node, "locks", server) == {
        "order": ["held", "held by other"],
        "failure": True,
        "result": "returned",
        "left": None,
    }


def test_elections(node, server):
    assert play(node, "elections", server) == {
        "before": "one",
        "after": "two",
        "nobody": True,
        "leaders": ["one", "one again", "two"],
    }


def test_watchers(node, server):
    assert play(node, "watchers", server) == {
        "exact": ["put a=1", "put a=3", "delete a=", "put a=end"],
        "all": [
            "put a=1",
            "put b=2",
            "put a=3 was 1",
            "delete a= was 3",
            "delete b= was 2",
            "put a=end",
        ],
        "deletes": ["delete a=", "delete b="],
        "puts": ["put a=1", "put b=2", "put a=3", "put a=end", "put a=after cancel"],
        "ids": 3,
    }


def test_history(node, server):
    result = play(node, "history", server)
    assert result["saw"] == ["put k=0", "put k=1", "put k=2", "put k=3"]
    assert result["compacted"]


@pytest.mark.parametrize("kind", kinds())
def test_watchers_resume_after_a_restart(node, kind):
    with Server(kind) as server:
        result = play(
            node, "resumption", server, steps={"stop": server.kill, "start": server.restart}
        )
    assert result == {
        "saw": ["put a=before", "put b=meanwhile", "put idle=after"],
        "sawIdle": ["put idle=after"],
    }
