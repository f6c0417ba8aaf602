"""Members come and go at random while others are killed: nothing that was acknowledged is lost."""
import os
import random

from clients import Load
from membership import Refused, ctl, id_of, members, new_server, wait_exit, wait_voting, wipe

from harness import wait_for
from harness.acceptance import either, report
from harness.cluster import Cluster

SEED = int(os.environ.get("LEASED_CLUSTER_SEED", random.SystemRandom().randrange(10**6)))
ROUNDS = either(6, 60)
# What a cluster that has just changed, or lost its leader, may say.
EXCUSES = ("unhealthy cluster", "no leader", "leader changed", "request timed out", "deadline exceeded")
# So that those who join are given a snapshot as often as a log.
FLAGS = ("--snapshot-log-bytes", 64 * 1024)
STEP_SECONDS = 40.0


class Churn:
    """Keeps the first two nodes for the clients, and changes the others."""

    def __init__(self, cluster, choose):
        self.cluster = cluster
        self.choose = choose
        self.n_joined = 0
        self.done = []

    def insist(self, *words):
        """Until etcdctl is allowed to, or finds it done."""

        def tried():
            asked = self.cluster[self.choose.choice((0, 1))]
            try:
                return ctl(asked, *words)
            except Refused as error:
                # Of a change whose answer was lost one is told that it has been made.
                if "member not found" in str(error) or "Peer URLs already exists" in str(error):
                    return "done before"
                assert any(excuse in str(error) for excuse in EXCUSES), error
                return None

        return wait_for(tried, STEP_SECONDS, f"etcdctl {' '.join(words)}")

    def join(self):
        self.n_joined += 1
        server = new_server(self.cluster, f"joined{self.n_joined}", FLAGS)
        self.insist("member", "add", server.name, f"--peer-urls={server.peer_url}")
        index = self.cluster.add(server)
        self.cluster.launch(index)
        return index

    def kill_and_restart(self, index):
        self.cluster.kill(index)
        self.cluster.launch(index)

    def rejoin(self, index):
        """Loses its disk, is removed and added again."""
        server = self.cluster[index]
        self.cluster.kill(index)
        wipe(server)
        self.insist("member", "remove", id_of(self.cluster[0], server.name))
        server.cluster_state = "existing"
        server.initial_cluster = ",".join(
            f"{one.name}={one.peer_url}" for one in self.cluster.servers if one.is_running() or one is server
        )
        self.insist("member", "add", server.name, f"--peer-urls={server.peer_url}")
        self.cluster.launch(index)

    def leave(self, index):
        self.cluster.forget(index)
        self.insist("member", "remove", id_of(self.cluster[0], self.cluster[index].name))
        wait_exit(self.cluster[index], STEP_SECONDS)

    def round(self):
        """One change, and perhaps a kill in the middle of it."""
        others = [index for index in self.cluster.answering() if index > 1]
        kinds = ["join"] if len(others) < 2 else ["rejoin", "leave", "kill", "rejoin", "leave"]
        kind = self.choose.choice(kinds)
        self.done.append(kind)
        if kind == "join":
            changed = self.join()
        else:
            changed = self.choose.choice(others)
            {"rejoin": self.rejoin, "leave": self.leave, "kill": self.kill_and_restart}[kind](changed)
        if self.choose.randrange(2):
            # Not the one that is changing, and one at a time: three of four or five stay.
            victim = self.choose.choice([index for index in self.cluster.answering() if index != changed])
            self.done.append(f"kill {self.cluster[victim].name}")
            self.kill_and_restart(victim)
        for index in self.cluster.answering():
            self.cluster[index].wait_ready()
            wait_voting(self.cluster, index, STEP_SECONDS)


def test_members_come_and_go_at_random():
    print(f"seed {SEED}")
    choose = random.Random(SEED)
    with Cluster(extra_flags=FLAGS) as cluster:
        churn = Churn(cluster, choose)
        try:
            with Load(cluster, [0, 1]) as load:
                for _ in range(ROUNDS):
                    churn.round()
            load.check_kept(cluster.rpc(0))
            cluster.leader()
            cluster.wait_equal()
            listed = {one["ID"] for one in members(cluster[0]).values()}
            assert len(listed) == len(cluster.answering())
        finally:
            report("members come and go", seed=SEED, rounds=ROUNDS, did=churn.done)
