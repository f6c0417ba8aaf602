"""Debian's zkCli.sh and the C client's cli_mt, unmodified: the same at ZooKeeper and at leased."""
import difflib
import os
import re
import select
import subprocess

import pytest

from harness import zookeeper
from harness.lease_bench import bench
from harness.wait import wait_for
from harness.zookeeper_client import Client

PROGRAM_SECONDS = 90.0

ZKCLI = """
create /x data
get /x
stat /x
ls /x
set /x new
set -v 7 /x wrong
getAllChildrenNumber /x
create /x/k
create /x/k
ls -R /x
ls -s /x
create -e -s /x/e- q
getEphemerals /x
get -s /x/e-0000000001
addauth digest a:b
create /y
setAcl /y auth::cdrwa
getAcl -s /y
setAcl /y nonsense:x:r
delete /nope
delete -v 9 /y
delete /x
create -c /c
create -c /c/d
create -t 100000 /t
addWatch -m PERSISTENT /x
set /x again
removewatches /x
addWatch -m PERSISTENT_RECURSIVE /x
create /x/deep
set /x/deep 1
sync /x
get -w /y
set /y triggers
listquota /x
setquota -n 5 /x
listquota /x
setquota -b 1 /x
create /x/quota 12345
setquota -N 7 -B 8 /x
set /x/k longer
get -s /zookeeper/quota/x/zookeeper_stats
setquota -n 1 /x/k
setquota -n 1 /
setquota -n 1 /nope
setquota -n 1 /zookeeper/quota
delquota -n /x
listquota /x
delquota /x
listquota /x
delete /x/quota
setquota -b 3 /x
listquota /x
delquota -b /x
config
delete /x/k
delete /x/e-0000000001
deleteall /x
deleteall /y
ls /zookeeper
reconfig -add 1
quit
"""

# Words of a transcript that may differ: transaction ids are compared by their order, dates not at all.
DATE = re.compile(r"(ctime|mtime) ?= ?.* (UTC )?\d{4}$")
NUMBER = re.compile(r"(c[zZ]xid|m[zZ]xid|p[zZ]xid) ?= ?((?:0x)?[0-9a-f]+)")
SESSION = re.compile(r"(ephemeralOwner = |session id: |sessionid = )(?!(0x)?0\b)(0x)?[0-9a-f]+")


@pytest.fixture(scope="module")
def pair():
    with zookeeper.ZooKeeper() as original, zookeeper.leased() as ours:
        yield original, ours


def normal(text):
    """Lines without what must differ. At its end the client may, or may not, tell of the end of its own connection."""
    text = text.replace("\nWATCHER::\n\nWatchedEvent state:Closed type:None path:null\n", "")
    numbers = {found[1] for found in NUMBER.findall(text)}
    order = {number: rank for rank, number in enumerate(sorted(numbers, key=lambda one: int(one, 16)))}
    lines = []
    for line in text.splitlines():
        line = DATE.sub(r"\1 = then", line)
        line = NUMBER.sub(lambda found: f"{found[1]} = z{order[found[2]]}", line)
        line = SESSION.sub(r"\1somebody", line)
        line = re.sub(r"127\.0\.0\.1:\d+", "the server", line)
        line = re.sub(r"time = \d+ msec", "time", line)
        lines.append(line.rstrip())
    return lines


def zkcli(server):
    done = subprocess.run(
        [zookeeper.CLIENT_SCRIPT, "-server", server.address, "-timeout", "30000"], input=ZKCLI, capture_output=True,
        text=True, timeout=PROGRAM_SECONDS, check=False,
        env={**os.environ, "JVMFLAGS": "-Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )  # fmt: skip
    errors = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")]
    return done.returncode, normal(done.stdout), normal("\n".join(errors))


def test_zkcli(pair):
    original, ours = pair
    expected = zkcli(original)
    assert "Created /x" in expected[2] and "Sync is OK" in expected[1]
    for theirs, own in zip(expected[1:], zkcli(ours)[1:]):
        different = list(difflib.unified_diff(theirs, own, "zookeeper", "leased", lineterm="", n=1))
        assert not different, "\n".join(different)


def test_creates_of_lease_bench(pair):
    for server in pair:
        for _ in range(2):
            seen = bench(server.address, "zk-create", "--clients", 40, "--connections", 4)
            assert seen["operations"] > 0 and seen["connections"] == 4
        with Client(server.address).connect() as client:
            assert not client.children("/bench")


class CClient:
    """cli_mt, a command at a time: it answers from another thread and says nothing when it is done."""

    def __init__(self, address):
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", zookeeper.C_CLIENT, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = ""

    def _read(self, pattern):
        found = re.search(pattern, self.text)
        if not found and select.select([self.process.stdout], [], [], 0.05)[0]:
            self.text += (self.process.stdout.read() or b"").decode()
        return found

    def until(self, pattern):
        wait_for(lambda: self._read(pattern), PROGRAM_SECONDS, f"{pattern!r} in {self.text!r}")

    def say(self, command, pattern):
        """The lines of the answer; the last of them matches."""
        before, self.text = self.text, ""
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        self.until(pattern)
        answer, self.text = self.text, before
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(PROGRAM_SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()


C_SESSION = (
    ("create /cc", r"name = /cc"),
    ("ls /cc", r"rc = 0"),
    ("get /cc", r"ephemeralOwner"),
    ("set /cc hello", r"ephemeralOwner"),
    ("get /cc", r"ephemeralOwner"),
    ("wexists /cw", r"-101"),
    ("create /cw", r"name = /cw"),
    ("create2 +e /ce", r"ephemeralOwner"),
    ("create2 +es /cs", r"ephemeralOwner"),
    ("create /none/child", r"rc = -101"),
    ("create /cc", r"rc = -110"),
    ("delete /nope", r"rc = -101"),
    ("sync /cc", r"name = /cc"),
    ("delete /cc", r"rc = 0"),
    ("get /cc", r"null"),
)


def c_client(server):
    client = CClient(server.address)
    try:
        client.until("CONNECTED_STATE")
        # What comes from the other thread has no order of its own.
        return [(command, sorted(normal(client.say(command, pattern)))) for command, pattern in C_SESSION]
    finally:
        client.close()


def test_c_client(pair):
    original, ours = pair
    for (command, expected), (_, answer) in zip(c_client(original), c_client(ours)):
        if command.startswith("create2 +es"):
            # The number is that of the root, which has seen other things.
            expected, answer = ([re.sub(r"\d{10}", "number", line) for line in lines] for lines in (expected, answer))
        # What the other thread says when it likes.
        late = re.compile(r"Watcher|session id|^time$|^$")
        expected, answer = ([line for line in lines if not late.search(line)] for lines in (expected, answer))
        assert answer == expected, command


def test_c_client_watches(pair):
    for server in pair:
        client = CClient(server.address)
        try:
            client.until("CONNECTED_STATE")
            client.say("wexists /watched", "-101")
            with Client(server.address).connect() as other:
                other.create("/watched")
                client.until(r"CREATED_EVENT state = CONNECTED_STATE for path /watched")
                other.delete("/watched")
                other.end()
        finally:
            client.close()
