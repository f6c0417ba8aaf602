"""The examples, each with a holder that lost its lock and does not know it."""
import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

import pytest

import lease
from harness import PROJECT_ROOT, Server
from harness.kinds import KIND_LEASED, clean_environment, lease_tool

EXAMPLES = PROJECT_ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import conditional_write  # noqa: E402
import fenced_file  # noqa: E402
import fenced_service  # noqa: E402


@pytest.fixture(scope="module")
def tokens():
    """Of two holders of one lock, one after the other: (stale, current)."""
    with Server(KIND_LEASED) as server, lease.Client(server.endpoint) as client:
        with client.lock("example") as first:
            stale = first.token
        with client.lock("example") as second:
            yield stale, second.token


def test_a_file_refuses_the_stale_holder(tokens, tmp_path):
    stale, current = tokens
    path = str(tmp_path / "report.txt")
    assert fenced_file.write(path, stale, b"one")
    assert fenced_file.write(path, current, b"two")
    assert fenced_file.write(path, current, b"three")
    program = subprocess.run([sys.executable, str(EXAMPLES / "fenced_file.py"), path, str(stale)], input=b"late",
                             capture_output=True, check=False)  # fmt: skip
    assert program.returncode == 1 and b"older" in program.stderr
    assert (tmp_path / "report.txt").read_bytes() == b"three"


def test_a_service_refuses_the_stale_holder(tokens):
    stale, current = tokens
    service = fenced_service.Service(0)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{service.server_address[1]}/speed"

    def put(token, value):
        request = urllib.request.Request(url, value, {"Lease-Token": str(token)}, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert [put(stale, b"1"), put(current, b"2"), put(stale, b"3"), put("x", b"4")] == [204, 204, 409, 400]
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == b"2"
    service.shutdown()
    service.server_close()


def test_a_conditional_write_refuses_the_stale_holder(tokens):
    stale, current = tokens
    store = conditional_write.Store()
    conditional_write.write(store, "object", stale, "one")

    class Paused(conditional_write.Store):
        """The stale holder is stopped between its look and its write, and the other one writes."""

        def put(self, name, content, if_match):
            if not getattr(self, "is_past", False):
                self.is_past = True
                conditional_write.write(self, name, current, "two")
            super().put(name, content, if_match)

    paused = Paused()
    with pytest.raises(conditional_write.Stale):
        conditional_write.write(paused, "object", stale, "late")
    assert conditional_write.read(paused, "object") == "two"
    assert conditional_write.read(store, "object") == "one"


@pytest.fixture
def postgres():
    """psql of a PostgreSQL of its own; a function of SQL text."""
    programs = os.path.dirname(glob.glob("/usr/lib/postgresql/*/bin/initdb")[-1])
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    folder = tempfile.mkdtemp(prefix="leased-test-pg-")
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = os.path.join(folder, "data")

    def run(*command, text=None, check=True):
        return subprocess.run(command, cwd=folder, input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=check, timeout=100, **who)  # fmt: skip

    run(f"{programs}/initdb", "-D", data, "--no-sync", "--auth=trust", "--username=boss")
    flags = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    run(f"{programs}/pg_ctl", "-D", data, "-w", "-o", flags, "-l", os.path.join(folder, "log"), "start")
    psql = ["psql", "-h", folder, "-U", "boss", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qtA"]
    try:
        yield lambda text: run(*psql, text=text, check=False)
    finally:
        run(f"{programs}/pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_table_refuses_the_stale_holder(tokens, postgres):
    stale, current = tokens
    made = postgres((EXAMPLES / "fenced_table.sql").read_text())
    assert made.returncode == 0, made.stdout
    assert postgres(f"SELECT put('balance', '1', {stale});").returncode == 0
    assert postgres(f"SELECT put('balance', '2', {current});").returncode == 0
    refused = postgres(f"SELECT put('balance', '3', {stale});")
    assert refused.returncode != 0 and "older" in refused.stdout
    assert postgres("SELECT value FROM fenced;").stdout.strip() == "2"


def test_a_transaction_refuses_the_stale_holder():
    """The next holder comes between the stale one's look at the fence and its write."""
    program = str(EXAMPLES / "fenced_transaction")
    with Server(KIND_LEASED) as server:
        tool = lease_tool()
        env = {**clean_environment(), "PATH": f"{os.path.dirname(tool)}:{os.environ['PATH']}", "LEASED_ENDPOINTS": server.endpoint,
               "ETCDCTL_ENDPOINTS": server.endpoint, "ETCDCTL_API": "3", "LEASE_CONFIG": ""}  # fmt: skip

        def run(*words, **more):
            return subprocess.run(words, env={**env, **more}, capture_output=True, text=True, timeout=100, check=False)

        first = run(tool, "lock", "ledger", "--", program, "balance", "one")
        assert first.returncode == 0, first.stderr
        token = run(tool, "fence", "get", "ledger").stdout.split()[-1]
        assert int(token) > 0
        meanwhile = f"{tool} lock ledger -- {program} balance two"
        stale = run(program, "balance", "late", LEASE_NAME="ledger", LEASE_TOKEN=token, PAUSE=f"PAUSE= {meanwhile}")
        assert stale.returncode == 1 and "is stale" in stale.stderr, stale
        assert run("etcdctl", "get", "balance", "--print-value-only").stdout == "two\n"
        assert run(program, "balance", "later", LEASE_NAME="ledger", LEASE_TOKEN=token).returncode == 1
