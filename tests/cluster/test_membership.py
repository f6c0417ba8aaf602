"""Members come and go while the cluster runs: added, promoted, removed, moved."""
import socket

import etcd3
from clients import Load
from membership import (
    EXIT_REMOVED,
    Refused,
    add_member,
    ctl,
    hexadecimal,
    id_of,
    is_learner,
    join,
    log_of,
    members,
    new_server,
    refusal,
    remove_member,
    wait_exit,
    wait_voting,
    wipe,
)

from harness import wait_for
from harness.certificates import Authority
from harness.cluster import Cluster
from harness.exit_codes import EXIT_CODES
from harness.ports import free_ports


def test_one_node_grows_to_three_and_shrinks_back():
    with Cluster(size=1) as cluster:
        cluster.rpc(0).put(b"/before", b"x")
        lease = cluster.rpc(0).grant(600).ID
        cluster.rpc(0).put(b"/leased", b"x", lease=lease)
        with Load(cluster, [0], writers=2, holders=2) as load:
            for name in ("second", "third"):
                index = join(cluster, name)
                wait_voting(cluster, index)
        load.check_kept(cluster.rpc(2))
        assert load.failures() == 0
        assert set(members(cluster[1])) == {"n0", "second", "third"}
        assert cluster.rpc(2).time_to_live(lease, keys=True).keys == [b"/leased"]
        cluster.wait_equal()
        # Three are three: one may go down.
        cluster.kill(0)
        cluster.leader()
        cluster.rpc(1).put(b"/without", b"the first")
        cluster.restart(0)
        cluster.wait_equal()
        for index in (1, 2):
            remove_member(cluster[0], cluster[index].name)
            cluster.forget(index)
            assert wait_exit(cluster[index]) == EXIT_REMOVED
        assert set(members(cluster[0])) == {"n0"}
        assert cluster.rpc(0).range(b"/without").kvs[0].value == b"the first"
        cluster.rpc(0).put(b"/after", b"x")
        cluster.kill(0)
        cluster.restart(0)
        assert cluster.rpc(0).range(b"/after").kvs[0].value == b"x"


def test_a_learner_votes_only_when_it_is_promoted():
    with Cluster() as cluster:
        leader = cluster.leader()
        follower = cluster.followers()[0]
        server = new_server(cluster, "learner")
        member_id = add_member(cluster, cluster[follower], server, "--learner")
        listed = members(cluster[leader])[server.peer_url]
        assert listed["isLearner"] and hexadecimal(listed["ID"]) == member_id
        assert "in sync with leader" in refusal(cluster[follower], "member", "promote", member_id)
        index = cluster.add(server)
        cluster.restart(index)
        assert is_learner(cluster[index])
        # It serves like any other, but its word does not count.
        cluster.rpc(index).put(b"/through", b"the learner")
        assert cluster.rpc(index).range(b"/through").kvs[0].value == b"the learner"
        lost = [node for node in range(3) if node != cluster.leader()]
        for node in lost:
            cluster.kill(node)
        wait_for(lambda: cluster.status(index).leader == 0, 15, "no leader without a majority of voters")
        cluster.restart(*lost)
        cluster.leader()

        def promoted():
            try:
                return ctl(cluster[follower], "member", "promote", member_id)
            except Exception as error:  # not in sync yet
                assert "in sync" in str(error), error
                return None

        wait_for(promoted, 20, "the promotion")
        wait_voting(cluster, index)
        assert "can only promote a learner member" in refusal(cluster[0], "member", "promote", member_id)
        assert not members(cluster[0])["learner"].get("isLearner")
        cluster.wait_equal()


def test_what_etcd_refuses_is_refused_in_its_words():
    with Cluster() as cluster:
        server = cluster[cluster.followers()[0]]
        for words, said in (
            (("member", "remove", "1234"), "etcdserver: member not found"),
            (("member", "promote", "1234"), "etcdserver: member not found"),
            (("member", "update", "1234", "--peer-urls=http://127.0.0.1:1"), "etcdserver: member not found"),
            (("member", "promote", id_of(server, "n0")), "etcdserver: can only promote a learner member"),
            (("member", "add", "x", f"--peer-urls={cluster[0].peer_url}"), "etcdserver: Peer URLs already exists"),
            (("member", "update", id_of(server, "n1"), f"--peer-urls={cluster[0].peer_url}"),
             "etcdserver: Peer URLs already exists"),
        ):  # fmt: skip
            assert said in refusal(server, *words), words
        ctl(server, "member", "add", "l1", "--learner", "--peer-urls=http://127.0.0.1:1")
        assert "etcdserver: too many learner members in cluster" in refusal(
            server, "member", "add", "l2", "--learner", "--peer-urls=http://127.0.0.1:2"
        )
        ctl(server, "member", "remove", id_of(server, "http://127.0.0.1:1"))
        # With one of three gone, the other two are needed.
        gone, left = cluster.followers()
        cluster.kill(gone)
        wait_for(
            lambda: "etcdserver: unhealthy cluster"
            in refusal(cluster[left], "member", "remove", id_of(cluster[left], cluster[left].name)),
            10, "the refusal",
        )  # fmt: skip
        remove_member(cluster[left], cluster[gone].name)
        assert len(members(cluster[left])) == 2
    with Cluster(size=1) as cluster:
        assert "not enough started members" in refusal(cluster[0], "member", "remove", id_of(cluster[0], "n0"))


def test_a_removed_follower_stops_and_says_why():
    with Cluster() as cluster, Load(cluster, [cluster.leader()]) as load:
        leader = cluster.leader()
        removed, other = cluster.followers()
        cluster.forget(removed)
        remove_member(cluster[other], cluster[removed].name)
        assert wait_exit(cluster[removed]) == EXIT_REMOVED
        assert "removed from the cluster" in log_of(cluster[removed])
        assert len(members(cluster[leader])) == 2
        before = len(load.acknowledged())
        wait_for(lambda: len(load.acknowledged()) > before + 20, 20, "writes")
        assert cluster.leader() == leader


def test_the_leader_can_be_removed_through_any_node():
    for through_leader in (True, False):
        with Cluster() as cluster:
            leader = cluster.leader()
            followers = cluster.followers()
            asked = leader if through_leader else followers[0]
            with Load(cluster, followers) as load:
                cluster.forget(leader)
                remove_member(cluster[asked], cluster[leader].name)
                assert wait_exit(cluster[leader]) == EXIT_REMOVED
                assert cluster.leader() in followers
                before = len(load.acknowledged())
                wait_for(lambda: len(load.acknowledged()) > before + 20, 20, "writes")
            load.check_kept(cluster.rpc(followers[0]))
            cluster.wait_equal()
            assert len(members(cluster[followers[0]])) == 2


def test_a_dead_node_is_removed_and_told_when_it_returns():
    with Cluster() as cluster:
        dead, other = cluster.followers()
        cluster.kill(dead)
        remove_member(cluster[other], cluster[dead].name)
        index = join(cluster, "instead", cluster[other])
        wait_voting(cluster, index)
        term = cluster.status(other).raftTerm
        cluster.launch(dead)
        cluster.forget(dead)
        assert wait_exit(cluster[dead]) == EXIT_REMOVED
        assert cluster.status(other).raftTerm == term
        # Nor may it begin anew under the id that was removed.
        wipe(cluster[dead])
        cluster[dead].launch()
        assert wait_exit(cluster[dead]) == EXIT_REMOVED
        assert "was removed from the cluster" in log_of(cluster[dead])


def test_a_wiped_node_rejoins_under_load():
    with Cluster() as cluster:
        wiped, other = cluster.followers()
        nodes = [node for node in range(3) if node != wiped]
        with Load(cluster, nodes) as load:
            cluster.kill(wiped)
            wipe(cluster[wiped])
            remove_member(cluster[other], cluster[wiped].name)
            cluster[wiped].cluster_state = "existing"
            add_member(cluster, cluster[other], cluster[wiped])
            cluster.restart(wiped)
            wait_voting(cluster, wiped)
            before = len(load.acknowledged())
            wait_for(lambda: len(load.acknowledged()) > before + 20, 20, "writes")
        assert load.failures() == 0
        load.check_kept(cluster.rpc(wiped))
        cluster.wait_equal()
        # It is as good as any other.
        cluster.kill(other)
        cluster.leader()
        cluster.rpc(wiped).put(b"/after", b"x")


def test_a_node_that_lost_its_disk_may_not_go_on_as_if_nothing_had_happened():
    with Cluster() as cluster:
        wiped = cluster.followers()[0]
        cluster.rpc(wiped).put(b"/key", b"value")
        for state in ("new", "existing"):
            if cluster[wiped].is_running():
                cluster.kill(wiped)
            wipe(cluster[wiped])
            cluster[wiped].cluster_state = state
            cluster[wiped].launch()
            assert wait_exit(cluster[wiped]) == EXIT_CODES["DATA_DIR_REPLACED"]
            log = log_of(cluster[wiped])
            assert "this data directory is empty" in log and "etcdctl member remove" in log
            assert "--force-new-cluster" in log, "no way is named for a cluster without a majority"
        cluster.leader()
        cluster.rpc(cluster.leader()).put(b"/key", b"more")


def test_a_lost_disk_is_noticed_although_nobody_could_be_asked():
    """All go down, one comes back first and empty, and the others know it all the same."""
    with Cluster() as cluster:
        cluster.rpc(0).put(b"/key", b"value")
        wait_for(lambda: all(one.get("clientURLs") for one in members(cluster[0]).values()), 10, "all are known")
        cluster.wait_equal()
        wiped = cluster.followers()[0]
        others = [node for node in range(3) if node != wiped]
        for node in range(3):
            cluster.kill(node)
        wipe(cluster[wiped])
        cluster.launch(wiped)
        cluster[wiped].wait_listening()
        cluster.forget(wiped)
        for node in others:
            cluster.launch(node)
        assert wait_exit(cluster[wiped]) == EXIT_CODES["DATA_DIR_REPLACED"]
        log = log_of(cluster[wiped])
        assert "with another data directory" in log and "--force-new-cluster" in log
        assert f"etcdctl member add {cluster[wiped].name} --peer-urls={cluster[wiped].peer_url}" in log
        cluster.leader()
        assert cluster.rpc(others[0]).range(b"/key").kvs[0].value == b"value"


def test_nodes_of_a_new_cluster_may_start_at_any_time():
    cluster = Cluster()
    try:
        cluster.launch(0)
        cluster.kill(0)
        cluster.launch(0)
        cluster.launch(1)
        for index in (0, 1):
            cluster[index].wait_ready()
        cluster.rpc(0).put(b"/early", b"x")
        # The others have begun long since; it has never been there.
        cluster.launch(2)
        cluster[2].wait_ready()
        assert cluster.rpc(2).range(b"/early").kvs[0].value == b"x"
        cluster.wait_equal()
    finally:
        cluster.close()


def test_a_node_that_was_not_added_is_told_so():
    with Cluster() as cluster:
        stranger = new_server(cluster, "stranger")
        try:
            stranger.launch()
            assert wait_exit(stranger) == EXIT_CODES["NOT_ADDED"]
            assert "this member was never added" in log_of(stranger)
            assert f"etcdctl member add stranger --peer-urls={stranger.peer_url}" in log_of(stranger)
            add_member(cluster, cluster[0], stranger)
            stranger.token = "another"
            wipe(stranger)
            stranger.launch()
            assert wait_exit(stranger) == EXIT_CODES["USAGE"]
            assert "--initial-cluster-token" in log_of(stranger)
        finally:
            stranger.close()


def test_a_node_that_joins_need_not_know_the_token():
    """As in etcd, it is known by the URL under which it was added."""
    with Cluster(size=1) as cluster:
        joiner = new_server(cluster, "joiner")
        joiner.token = "etcd-cluster"  # the flag's default
        add_member(cluster, cluster[0], joiner)
        cluster.restart(cluster.add(joiner))
        cluster.rpc(0).put(b"/key", b"value")
        assert cluster.rpc(1).range(b"/key").kvs[0].value == b"value"
        # Its own restart does not depend on it either.
        cluster.kill(1)
        cluster.restart(1)
        cluster.wait_equal()


def test_a_node_returns_to_a_leader_that_was_added_without_it():
    """It has applied nothing yet and knows only the members of its log: it must not refuse the leader."""
    with Cluster() as cluster:
        away = cluster.followers()[0]
        cluster.kill(away)
        index = join(cluster, "fourth")
        wait_voting(cluster, index)
        fourth = id_of(cluster[index], "fourth")

        def leads():
            leader = cluster.leader()
            if leader == index:
                return True
            try:
                ctl(cluster[leader], "move-leader", fourth)
            except Refused:  # it has just lost the leadership, or the fourth is not up to date yet
                pass
            return None

        wait_for(leads, 20, "the fourth leads")
        cluster.restart(away)
        cluster.rpc(away).put(b"/through", b"it")
        assert cluster.leader() == index
        cluster.wait_equal()


def test_a_node_is_added_before_the_one_that_is_dead_is_removed():
    """The next leader has not heard of the dead one, which was a voter from the beginning."""
    with Cluster() as cluster:
        dead = cluster.leader()
        cluster.kill(dead)
        cluster.leader()
        index = join(cluster, "fourth")
        wait_voting(cluster, index)
        remove_member(cluster[index], cluster[dead].name)
        cluster.forget(dead)
        cluster.wait_equal()


def test_a_node_started_as_new_beside_a_running_cluster_is_told_how_to_join():
    """With --initial-cluster-state=new, the default, it would wait for a majority for ever."""
    with Cluster() as cluster:
        stranger = new_server(cluster, "stranger")
        stranger.cluster_state = "new"
        try:
            stranger.launch()
            assert wait_exit(stranger) == EXIT_CODES["NOT_ADDED"]
            log = log_of(stranger)
            assert "already runs in a cluster without this member" in log
            assert f"etcdctl member add stranger --peer-urls={stranger.peer_url}" in log
            assert "--initial-cluster-state=existing" in log
        finally:
            stranger.close()


def test_a_node_joins_where_members_show_certificates():
    with Authority() as authority, Cluster(authority=authority) as cluster:
        server = new_server(cluster, "n3")
        server.use_peer_tls(authority.flags(server.name))
        server.initial_cluster = ",".join(f"{one.name}={one.peer_url}" for one in [*cluster.servers, server])
        add_member(cluster, cluster[0], server)
        index = cluster.add(server)
        cluster.restart(index)
        wait_voting(cluster, index)
        cluster.rpc(index).put(b"/key", b"value")
        cluster.wait_equal()
        cluster.kill(index)
        remove_member(cluster[0], server.name)
        cluster.launch(index)
        cluster.forget(index)
        assert wait_exit(server) == EXIT_REMOVED


def test_python_etcd3_changes_the_members():
    with Cluster() as cluster:
        follower = cluster[cluster.followers()[0]]
        with etcd3.client(host="127.0.0.1", port=follower.client_port) as client:
            added = client.add_member(["http://127.0.0.1:1"])
            assert len(list(client.members)) == 4
            client.update_member(added.id, ["http://127.0.0.1:2"])
            assert members(cluster[cluster.leader()])["http://127.0.0.1:2"]["ID"] == added.id
            client.remove_member(added.id)
            assert {one.name for one in client.members} == {"n0", "n1", "n2"}


def test_one_node_that_cannot_listen_for_peers_adds_nobody():
    cluster = Cluster(size=1)
    with socket.create_server(("127.0.0.1", cluster[0].peer_port)), cluster:
        assert "no member can be added while the peer port cannot be opened" in log_of(cluster[0])
        said = refusal(cluster[0], "member", "add", "second", "--peer-urls=http://127.0.0.1:1")
        assert "input or output failed" in said
        assert "cannot listen for peers" in log_of(cluster[0])
        cluster.rpc(0).put(b"/key", b"value")
        assert len(members(cluster[0])) == 1


def test_members_stay_as_they_are_over_restarts():
    with Cluster() as cluster:
        removed = cluster.followers()[0]
        cluster.forget(removed)
        asked = cluster[cluster.leader()]
        remove_member(asked, cluster[removed].name)
        assert wait_exit(cluster[removed]) == EXIT_REMOVED
        index = join(cluster, "fourth", asked)
        wait_voting(cluster, index)
        cluster.rpc(index).put(b"/key", b"value")
        before = members(asked)
        running = cluster.answering()
        for node in running:
            cluster.kill(node)
        cluster.restart(*running)
        cluster.leader()
        for node in running:
            wait_for(lambda node=node: members(cluster[node]) == before, 20, "the same members")
        assert cluster.rpc(index).range(b"/key").kvs[0].value == b"value"
        cluster.wait_equal()


def test_a_member_moves_to_another_peer_url():
    with Cluster() as cluster:
        moved = cluster.followers()[0]
        asked = cluster[cluster.leader()]
        member_id = id_of(asked, cluster[moved].name)
        cluster.kill(moved)
        (cluster[moved].peer_port,) = free_ports(1)
        ctl(asked, "member", "update", member_id, f"--peer-urls={cluster[moved].peer_url}")
        # Its first flags name the old place; who has data does not look at them.
        cluster.restart(moved)
        cluster.rpc(moved).put(b"/moved", b"x")
        assert members(asked)[cluster[moved].name]["peerURLs"] == [cluster[moved].peer_url]
        assert id_of(asked, cluster[moved].name) == member_id
        cluster.wait_equal()
        # The others find it there after a restart, too, and it can be one half of the majority.
        other = [node for node in range(3) if node not in (moved, cluster.leader())][0]
        cluster.kill(other)
        cluster.leader()
        cluster.rpc(moved).put(b"/moved", b"y")
        cluster.restart(other)
        cluster.wait_equal()


def test_a_member_that_is_behind_helps_to_elect_one_that_it_does_not_know():
    with Cluster() as cluster:
        leader = cluster.leader()
        removed, behind = cluster.followers()
        cluster.kill(behind)
        newest = join(cluster, "newest")
        wait_voting(cluster, newest)
        remove_member(cluster[leader], cluster[removed].name)
        cluster.forget(removed)
        assert wait_exit(cluster[removed]) == EXIT_REMOVED
        cluster.rpc(newest).put(b"/kept", b"x")
        cluster.kill(leader)
        # Of three voters these two are there: the one that has everything, and one that has never heard of it.
        cluster.launch(behind)
        assert cluster.leader(among=[behind, newest]) == newest
        assert cluster.rpc(behind).range(b"/kept").kvs[0].value == b"x"
        cluster.restart(leader)
        cluster.wait_equal()
