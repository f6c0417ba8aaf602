"""--force-new-cluster: a cluster that lost its majority goes on from the data of one member.

Everything here depends on the engine, which cuts raft's configuration down when it opens the log; what
is checked before that is in tests/server/test_force_new_cluster_flag.py.
"""
import time

import pytest
from membership import add_member, join, log_of, members, new_server, remove_member, wait_exit, wait_voting, wipe

from harness import wait_for
from harness.cluster import Cluster
from harness.exit_codes import EXIT_CODES

FLAG = "--force-new-cluster"
KEYS = 50
TTL_SECONDS = 120


def fill(rpc):
    """Keys, some of them of a lease; answers the lease."""
    lease = rpc.grant(TTL_SECONDS).ID
    for number in range(KEYS):
        rpc.put(b"/key/%d" % number, b"value %d" % number, lease=lease if number % 2 else 0)
    return lease


def check_filled(rpc, lease):
    for number in range(KEYS):
        (kv,) = rpc.range(b"/key/%d" % number).kvs
        assert (kv.value, kv.lease) == (b"value %d" % number, lease if number % 2 else 0)
    assert lease in rpc.leases()


def force(cluster, index):
    """Starts a node that is down with the flag, and takes the flag away again for later starts."""
    cluster[index].extra_flags.append(FLAG)
    cluster.restart(index)
    cluster[index].extra_flags.remove(FLAG)
    # It serves before the others have left the table.
    wait_for(lambda: len(members(cluster[index])) == 1, 10, "one member in the list")


@pytest.mark.parametrize("survivor", ["leader", "follower"])
def test_one_of_three_goes_on_with_all_data(survivor):
    with Cluster() as cluster:
        leader = cluster.leader()
        lease = fill(cluster.rpc(leader))
        cluster.wait_equal()
        kept = leader if survivor == "leader" else cluster.followers()[0]
        revision = cluster.status(kept).header.revision
        for node in range(3):
            cluster.kill(node)

        force(cluster, kept)
        rpc = cluster.rpc(kept)
        check_filled(rpc, lease)
        assert list(members(cluster[kept])) == [cluster[kept].name]
        assert rpc.put(b"/after", b"x").header.revision > revision, "fencing tokens must go on growing"
        assert cluster.leader() == kept

        # Without the flag it goes on as what it is now, although --initial-cluster names three.
        cluster.stop(kept)
        cluster.restart(kept)
        rpc = cluster.rpc(kept)
        check_filled(rpc, lease)
        assert list(members(cluster[kept])) == [cluster[kept].name]
        rpc.put(b"/again", b"x")

        # And after a crash, from the log alone.
        cluster.kill(kept)
        cluster.restart(kept)
        check_filled(cluster.rpc(kept), lease)

        # It grows again, and the new member can do without it.
        fresh = [join(cluster, name, cluster[kept]) for name in ("fresh1", "fresh2")]
        for index in fresh:
            wait_voting(cluster, index)
            assert cluster.rpc(index).range(b"/again").kvs[0].value == b"x"
        cluster.wait_equal()
        cluster.kill(kept)
        cluster.leader()
        cluster.rpc(fresh[0]).put(b"/without", b"x")
        check_filled(cluster.rpc(fresh[1]), lease)


def test_a_wiped_node_of_before_comes_back_as_a_new_member():
    """Two of three lost their disks: the case that the message about a lost disk leads here from."""
    with Cluster() as cluster:
        lease = fill(cluster.rpc(cluster.leader()))
        cluster.wait_equal()
        for node in range(3):
            cluster.kill(node)
        wipe(cluster[1])
        wipe(cluster[2])
        force(cluster, 0)
        add_member(cluster, cluster[0], cluster[1])
        cluster[1].cluster_state = "existing"
        cluster[1].initial_cluster = ",".join(f"{one.name}={one.peer_url}" for one in cluster.servers[:2])
        cluster.restart(1)
        wait_voting(cluster, 1)
        check_filled(cluster.rpc(1), lease)
        cluster.wait_equal()


def test_an_old_member_that_returns_is_told_that_it_was_removed():
    with Cluster() as cluster:
        fill(cluster.rpc(cluster.leader()))
        cluster.wait_equal()
        for node in range(3):
            cluster.kill(node)
        force(cluster, 0)
        index = join(cluster, "fresh", cluster[0])
        wait_voting(cluster, index)
        cluster.launch(1)
        cluster.forget(1)
        assert wait_exit(cluster[1]) == EXIT_CODES["REMOVED"]
        cluster.rpc(index).put(b"/after", b"x")


def test_a_learner_can_be_the_one_that_is_left():
    with Cluster(size=1) as cluster:
        lease = fill(cluster.rpc(0))
        learner = new_server(cluster, "learner")
        add_member(cluster, cluster[0], learner, "--learner")
        index = cluster.add(learner)
        cluster.restart(index)
        cluster.wait_equal()
        cluster.kill(0)
        # What a majority has may be applied before it is on the own disk: a stop waits for that.
        assert cluster.stop(index) == 0
        force(cluster, index)
        check_filled(cluster.rpc(index), lease)
        cluster.rpc(index).put(b"/after", b"x")
        assert members(cluster[index])["learner"].get("isLearner", False) is False


def test_a_large_state_that_lies_in_a_snapshot_is_kept():
    with Cluster(extra_flags=["--snapshot-log-bytes", "65536"]) as cluster:
        leader = cluster.leader()
        for number in range(40):
            cluster.rpc(leader).put(b"/large/%d" % (number % 8), b"v" * 30000)
        lease = fill(cluster.rpc(leader))
        cluster.wait_equal()
        for node in range(3):
            cluster.kill(node)
        force(cluster, 1)
        check_filled(cluster.rpc(1), lease)
        assert len(cluster.rpc(1).range(b"/large/3").kvs[0].value) == 30000
        cluster.stop(1)
        cluster.restart(1)
        check_filled(cluster.rpc(1), lease)


@pytest.mark.parametrize("milliseconds", [0, 5, 20, 60])
def test_a_crash_at_any_moment_of_it_is_cured_by_doing_it_again(milliseconds):
    with Cluster() as cluster:
        lease = fill(cluster.rpc(cluster.leader()))
        cluster.wait_equal()
        for node in range(3):
            cluster.kill(node)
        cluster[2].extra_flags.append(FLAG)
        cluster.launch(2)
        wait_for(lambda: "goes on alone with its data" in log_of(cluster[2]), 10, "the start")
        time.sleep(milliseconds / 1000)  # a moment, whatever has happened by then
        cluster.kill(2)
        cluster[2].extra_flags.remove(FLAG)
        force(cluster, 2)
        check_filled(cluster.rpc(2), lease)
        cluster.rpc(2).put(b"/after", b"x")


def test_it_is_refused_while_another_member_runs():
    """Such as with a flag that was left in a unit file: it would remove members that are well."""
    with Cluster() as cluster:
        fill(cluster.rpc(cluster.leader()))
        cluster.wait_equal()
        for node in range(3):
            cluster.kill(node)
        force(cluster, 0)
        index = join(cluster, "fresh", cluster[0])
        wait_voting(cluster, index)
        cluster.stop(0)
        server = cluster[0]
        server.initial_cluster = f"{server.name}={server.peer_url},fresh={cluster[index].peer_url}"
        server.extra_flags.append(FLAG)
        cluster.launch(0)
        cluster.forget(0)
        assert wait_exit(server) == EXIT_CODES["USAGE"]
        assert "runs and belongs to this cluster" in log_of(server)
        server.extra_flags.remove(FLAG)
        cluster.restart(0)
        cluster.leader()
        assert len(members(server)) == 2
        remove_member(server, "fresh")
