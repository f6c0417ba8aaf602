"""Changing the members of a cluster as an operator does: with etcdctl, and by starting nodes."""
import json
import shutil

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import TIMING_FLAGS
from harness.etcdctl import call
from harness.exit_codes import EXIT_CODES

EXIT_REMOVED = EXIT_CODES["REMOVED"]
MEMBER_SECONDS = 20.0


class Refused(Exception):
    """etcdctl was told no; the message is what it printed."""


def ctl(server, *words):
    """What etcdctl printed."""
    done = call(server, *words)
    if done.returncode != 0:
        raise Refused(done.stderr.decode())
    return done.stdout.decode()


def refusal(server, *words):
    """The words of a refusal, which there must be."""
    try:
        printed = ctl(server, *words)
    except Refused as error:
        return str(error)
    raise AssertionError(f"etcdctl {' '.join(map(str, words))} was allowed: {printed}")


def members(server):
    """{name or peer URL: member} as `member list` tells."""
    listed = json.loads(ctl(server, "member", "list", "-w", "json"))["members"]
    return {one.get("name") or one["peerURLs"][0]: one for one in listed}


def hexadecimal(member_id):
    return f"{member_id:x}"


def id_of(server, name):
    return hexadecimal(members(server)[name]["ID"])


def is_learner(server):
    """As `endpoint status` tells of this node."""
    (status,) = json.loads(ctl(server, "endpoint", "status", "-w", "json"))
    return status["Status"].get("isLearner", False)


def new_server(cluster, name, extra_flags=()):
    """A node that will join; its URLs are known, it is not running."""
    server = Server(KIND_LEASED, name=name, extra_flags=[*TIMING_FLAGS, *extra_flags])
    server.cluster_state = "existing"
    known = [one for one in cluster.servers if one.is_running()]
    server.initial_cluster = ",".join(f"{one.name}={one.peer_url}" for one in [*known, server])
    return server


def add_member(cluster, asked, server, *flags):
    """`member add`; answers the new member's id."""
    printed = ctl(asked, "member", "add", server.name, f"--peer-urls={server.peer_url}", *flags)
    assert "added to cluster" in printed, printed
    return printed.split()[1]


def remove_member(asked, name):
    """`member remove`, as soon as the cluster is well enough for it."""
    member_id = id_of(asked, name)

    def removed():
        try:
            return ctl(asked, "member", "remove", member_id)
        except Refused as error:
            assert "etcdserver: unhealthy cluster" in str(error), error
            return None

    assert "removed from cluster" in wait_for(removed, MEMBER_SECONDS, f"the removal of {name}")


def join(cluster, name, asked=None, extra_flags=()):
    """Adds, starts and waits; answers the new node's index."""
    server = new_server(cluster, name, extra_flags)
    add_member(cluster, asked or cluster[cluster.answering()[0]], server)
    index = cluster.add(server)
    cluster.restart(index)
    return index


def wait_voting(cluster, index, timeout_s=MEMBER_SECONDS):
    wait_for(lambda: not is_learner(cluster[index]), timeout_s, f"{cluster[index].name} votes")


def wait_exit(server, timeout_s=MEMBER_SECONDS):
    wait_for(lambda: not server.is_running(), timeout_s, f"{server.name} ends")
    return server.process.exit_code()


def log_of(server):
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        return log.read()


def wipe(server):
    shutil.rmtree(server.data_dir)
