"""Backups of etcd and leased: taken, restored by either side's own tool, and what a server holds, to be compared.

ETCDUTL names etcdutl, which etcd 3.5 and later restore with; otherwise etcdctl 3.4 does it.
"""
import json
import os
import subprocess

from harness import etcdctl
from harness.kinds import KIND_ETCD, KIND_LEASED, binary_of, clean_environment

COMMAND_SECONDS = 300.0
ROOT = ("--user", "root:root's")


def run(command, **how):
    """Runs it to its end; answers the process, whatever its exit code."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, timeout=COMMAND_SECONDS, check=False,
        env={**clean_environment(), "ETCDCTL_API": "3"}, **how
    )  # fmt: skip


def restore_flags(server):
    return [
        "--data-dir", server.data_dir,
        "--name", server.name,
        "--initial-cluster", server.initial_cluster or f"{server.name}={server.peer_url}",
        "--initial-cluster-token", server.token,
        "--initial-advertise-peer-urls", server.peer_url,
    ]  # fmt: skip


def restore_tool(kind):
    if kind == KIND_LEASED:
        return [binary_of(KIND_LEASED), "restore"]
    assert kind == KIND_ETCD
    return [os.environ.get("ETCDUTL") or etcdctl.etcdctl_path(), "snapshot", "restore"]


def restore(server, path, *flags):
    """The data directory of a server that is not running yet; the same flags for both kinds."""
    done = run([*restore_tool(server.kind), path, *restore_flags(server), *flags])
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def status(path):
    """What etcd's tool says of a file."""
    tool = os.environ.get("ETCDUTL") or etcdctl.etcdctl_path()
    done = run([tool, "snapshot", "status", path, "-w", "json"])
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def ctl(server, *words):
    """Output of one etcdctl command, of root."""
    done = run([etcdctl.etcdctl_path(), "--endpoints", server.endpoint, "--command-timeout", "120s", *ROOT, *words])
    assert done.returncode == 0, f"{words}: {done.stderr.decode()}"
    return done.stdout.decode()


def save(server, path):
    ctl(server, "snapshot", "save", path)
    return path


def without_ids(text):
    """JSON of an answer, without what tells members and clusters apart."""
    answers = json.loads(text)
    for answer in answers if isinstance(answers, list) else [answers]:
        answer.pop("Endpoint", None)
        header = answer.get("HashKV", answer)["header"]
        for name in ("cluster_id", "member_id", "raft_term"):
            header.pop(name, None)
    return answers


def contents(server, revisions, leases, users, roles):
    """All that must be equal on both sides of a migration."""
    held = {}
    for revision in revisions:
        held[f"keys at {revision}"] = without_ids(
            ctl(server, "get", "--prefix", "", "-w", "json", f"--rev={revision}")
        )
        held[f"hash at {revision}"] = without_ids(
            ctl(server, "endpoint", "hashkv", "-w", "json", f"--rev={revision}")
        )
    listed = json.loads(ctl(server, "lease", "list", "-w", "json"))
    held["leases"] = sorted(str(lease) for lease in listed["leases"])
    for lease in leases:
        answer = json.loads(ctl(server, "lease", "timetolive", f"{lease:x}", "--keys", "-w", "json"))
        held[f"lease {lease:x}"] = (answer["granted-ttl"], sorted(answer["keys"] or []))
    held["users"] = ctl(server, "user", "list")
    held["roles"] = ctl(server, "role", "list")
    for user in users:
        held[f"user {user}"] = ctl(server, "user", "get", user)
    for role in roles:
        held[f"role {role}"] = ctl(server, "role", "get", role)
    return held
