"""A holder cut off from the server: its command is stopped before the next one holds the lock. Needs root."""
import os
import signal
import subprocess
import time

import pytest

from cli_tool import Running, environment
from harness import Server
from harness.acceptance import either, report
from harness.cluster import Cluster
from harness.kinds import lease_tool
from harness.network import Network
from harness.wait import wait_for

ROUNDS = either(1, 100)
CLUSTER_ROUNDS = either(1, 100)
STOPPED = either(2, 100)
STOPPED_SECONDS = either(2.5, 20.0)
# A round takes the TTL, and with a new leader a while more.
ROUND_SECONDS = 15
SECONDS = 90.0
BEAT = 'echo "started $LEASE_TOKEN $$"; while :; do date +%s%N; sleep 0.02; done'
NEXT = "date +%s%N; echo $LEASE_TOKEN"


def start_server(network):
    server = Server("leased", extra_flags=["--allow-insecure"])
    server.host = network.address(0)
    server.command_prefix = network.command_in(0)
    return server.start()


def holder(network, server, node=1, name="cut"):
    """`lease lock` on a machine of its own, which can be cut off without us."""
    return Inside(network, node, "lock", name, "--ttl", "2s", "--", "sh", "-c", BEAT, server=server)


class Endpoints:
    """All members of a cluster, as a server's address is given."""

    def __init__(self, cluster):
        self.client_url = cluster.endpoints


class Inside(Running):
    """In the namespace of a node."""

    def __init__(self, network, node, *words, server):
        self.prefix = network.command_in(node)
        self.process = subprocess.Popen(
            [*self.prefix, lease_tool(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment(server),
        )  # fmt: skip
        self.lines = self._read(self.process.stdout)


def take_over(server, name="cut"):
    """When the next one held the lock, and its token."""
    done = subprocess.run([lease_tool(), "lock", name, "--", "sh", "-c", NEXT], env=environment(server),
                          capture_output=True, text=True, timeout=SECONDS, check=True)  # fmt: skip
    at_ns, token = map(int, done.stdout.split())
    return at_ns, token


def wait_gone(pid):
    wait_for(lambda: not os.path.exists(f"/proc/{pid}/exe"), SECONDS, f"pid {pid} gone")


@pytest.mark.seconds_max(120 + ROUNDS * ROUND_SECONDS)
def test_the_command_of_a_holder_that_is_cut_off_stops_first():
    margins_ms = []
    with Network(2) as network:
        server = start_server(network)
        try:
            for _ in range(ROUNDS):
                with holder(network, server) as running:
                    _, token, pid = running.line().split()
                    network.cut(1, 0)
                    at_ns, next_token = take_over(server)
                    wait_gone(pid)
                    network.heal()
                    assert running.wait(SECONDS) == 76
                    last_ns = max(int(line) for line in running.rest())
                assert next_token > int(token)
                assert last_ns < at_ns, "two at once"
                margins_ms.append((at_ns - last_ns) / 1e6)
        finally:
            network.heal()
            server.close()
    report("network cut", rounds=ROUNDS, two_at_once=0, least_margin_ms=round(min(margins_ms), 1))


@pytest.mark.seconds_max(120 + CLUSTER_ROUNDS * 2 * ROUND_SECONDS)
def test_nor_when_the_leader_is_killed_meanwhile():
    """Of three members: the holder is cut off, the leader is killed, and the next one waits at the others."""
    holder_node = 3
    margins_ms = []
    with Network(4) as network, Cluster(network=network) as cluster:
        everybody = Endpoints(cluster)
        for _ in range(CLUSTER_ROUNDS):
            leader = cluster.leader()
            with holder(network, everybody, holder_node) as running:
                _, token, pid = running.line().split()
                network.cut(holder_node, 0, 1, 2)
                cluster.kill(leader)
                at_ns, next_token = take_over(everybody)
                wait_gone(pid)
                network.heal()
                cluster.restart(leader)
                assert running.wait(SECONDS) == 76
                last_ns = max(int(line) for line in running.rest())
            assert next_token > int(token)
            assert last_ns < at_ns, "two at once"
            margins_ms.append((at_ns - last_ns) / 1e6)
    report("network cut, leader killed", rounds=CLUSTER_ROUNDS, two_at_once=0, least_margin_ms=round(min(margins_ms), 1))


@pytest.mark.seconds_max(300 + 5 * STOPPED)
def test_holders_that_were_stopped_wake_to_nothing():
    with Network(2) as network:
        server = start_server(network)
        holders = []
        try:
            for number in range(STOPPED):
                running = holder(network, server, name=f"stopped-{number}")
                holders.append((running, *running.line().split()[1:]))
            for running, _, _ in holders:
                running.signal(signal.SIGSTOP)
            begun = time.monotonic()
            next_ones = [take_over(server, f"stopped-{number}") for number in range(STOPPED)]
            time.sleep(max(0.0, STOPPED_SECONDS - (time.monotonic() - begun)))
            for running, _, _ in holders:
                running.signal(signal.SIGCONT)
            for number, ((running, token, pid), (at_ns, next_token)) in enumerate(zip(holders, next_ones)):
                assert running.wait(SECONDS) == 76
                wait_gone(pid)
                # On a busy machine its command may have been stopped before it did anything.
                assert max((int(line) for line in running.rest()), default=0) < at_ns and next_token > int(token)
                assert fence(server, f"stopped-{number}", next_token) == 0
                assert fence(server, f"stopped-{number}", token) == 1, "the fence refuses the old token"
        finally:
            for running, _, _ in holders:
                running.__exit__()
            server.close()
    report("holders stopped", holders=STOPPED, seconds=STOPPED_SECONDS, two_at_once=0)


def fence(server, name, token):
    return subprocess.run([lease_tool(), "fence", "check", name, str(token)], env=environment(server), check=False).returncode
