"""compaction, endpoint, member, alarm, defrag, snapshot, make-mirror; auth that is off."""
import os

from harness import wait_for
from harness.etcdctl import call

FORMATS = ("simple", "json", "fields", "table", "protobuf")


def compacting(s):
    start = s.revision() + 1
    for number in range(5):
        s.run("put", "co/a", number)
    s.run("put", "co/gone", "x")
    s.run("del", "co/gone")
    last = s.revision()
    s.run("compaction", start + 2)
    s.run("compaction", start + 2)
    s.run("compaction", start + 1)
    s.run("compaction", last + 1)
    s.run("compaction", 0)
    s.run("compaction", "--", -1)
    s.run("compaction", "now")
    s.run("compaction")
    for revision in range(start, last + 2):
        s.run("get", "co/", "--prefix", f"--rev={revision}")
    s.run("get", "co/a", f"--rev={start}", "-w", "json")
    s.run("get", "co/a", f"--rev={start}", "--consistency=s")
    s.run("txn", stdin=f"\nget co/a --rev={start}\n\n\n")
    s.run("compaction", start + 3, "--physical")
    s.run("compaction", start + 4, "-w", "json")
    s.run("compaction", last, "--physical", "-w", "json")
    s.run("get", "co/", "--prefix", "-w", "json")
    s.run("endpoint", "hashkv", "-w", "json")


def endpoints(s):
    for form in FORMATS:
        s.run("endpoint", "health", "-w", form)
        s.run("endpoint", "status", "-w", form)
        s.run("endpoint", "hashkv", "-w", form)
        s.run("endpoint", "health", "--cluster", "-w", form)
    s.run("endpoint", "status", "--cluster")
    s.run("endpoint", "hashkv", "--cluster")
    # The compacted revision itself, which 3.4 refuses and 3.5 accepts, is left to same_answers.
    s.run("put", "ep/a", "x")
    now = s.revision()
    s.run("endpoint", "hashkv", f"--rev={now}", "-w", "json")
    s.run("endpoint", "hashkv", f"--rev={now + 1}")
    s.run("endpoint", "hashkv", "--rev=1")


def members_and_alarms(s):
    for form in ("simple", "json", "fields", "table"):
        s.run("member", "list", "-w", form)
        # etcd 3.4 answers Alarm without a header; same_answers compares it with 3.5.
        if form in ("simple", "table"):
            s.run("alarm", "list", "-w", form)
            s.run("alarm", "disarm", "-w", form)
    s.run("defrag")
    s.run("defrag", "--cluster")
    s.run("move-leader", "123abc")


def snapshots(s):
    path = os.path.join(s.directory, "saved.db")
    s.run("snapshot", "save", path)
    size = os.path.getsize(path) if os.path.exists(path) else 0
    s.note("snapshot file", "non-empty" if size > 0 else "missing or empty", "", 0)
    s.run("snapshot", "save")


def mirroring(s):
    s.run("put", "mi/a", "one")
    s.run("put", "mi/b", "two")
    mirror = s.background(
        "make-mirror", "--prefix=mi/", "--dest-prefix=mirrored/", s.server.endpoint
    )

    def arrived(key, value):
        def look():
            result = call(s.server, "get", key, "--print-value-only")
            return result.stdout.decode().strip() == value

        try:
            wait_for(look, 8.0, f"{key} mirrored")
        except TimeoutError:
            s.note(f"mirror of {key}", "never arrived", "", 1)

    arrived("mirrored/b", "two")
    s.run("put", "mi/c", "three")
    arrived("mirrored/c", "three")
    s.run("del", "mi/a")
    arrived("mirrored/a", "")
    s.run("get", "mirrored/", "--prefix")
    mirror.stop()


def without_auth(s):
    s.run("user", "list")
    s.run("user", "list", "-w", "json")
    s.run("role", "list")
    s.run("role", "list", "-w", "json")
    s.run("user", "get", "root")
    s.run("role", "get", "root")
    s.run("auth", "enable")
    s.run("auth", "disable")
    s.run("auth", "status")
    s.run("get", "x", "--user=root:secret")
