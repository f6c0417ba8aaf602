"""A holder cut off from the server: its command is stopped before the next one holds the lock. Needs root."""
import os
import signal
import subprocess
import time

from cli_tool import Running, environment
from harness import Server
from harness.acceptance import either, report
from harness.kinds import lease_tool
from harness.network import Network
from harness.wait import wait_for

ROUNDS = either(1, 100)
STOPPED_SECONDS = either(2.5, 20.0)
SECONDS = 90.0
BEAT = 'echo "started $LEASE_TOKEN $$"; while :; do date +%s%N; sleep 0.02; done'
NEXT = "date +%s%N; echo $LEASE_TOKEN"


def start_server(network):
    server = Server("leased", extra_flags=["--allow-insecure"])
    server.host = network.address(0)
    server.command_prefix = network.command_in(0)
    return server.start()


def holder(network, server):
    """`lease lock` on a machine of its own, which can be cut off without us."""
    return Inside(network, "lock", "cut", "--ttl", "2s", "--", "sh", "-c", BEAT, server=server)


class Inside(Running):
    """In the namespace of node 1."""

    def __init__(self, network, *words, server):
        self.prefix = network.command_in(1)
        self.process = subprocess.Popen(
            [*self.prefix, lease_tool(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment(server),
        )  # fmt: skip
        self.lines = self._read(self.process.stdout)


def take_over(server):
    """When the next one held the lock, and its token."""
    done = subprocess.run([lease_tool(), "lock", "cut", "--", "sh", "-c", NEXT], env=environment(server),
                          capture_output=True, text=True, timeout=SECONDS, check=True)  # fmt: skip
    at_ns, token = map(int, done.stdout.split())
    return at_ns, token


def wait_gone(pid):
    wait_for(lambda: not os.path.exists(f"/proc/{pid}/exe"), SECONDS, f"pid {pid} gone")


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


def test_a_holder_that_was_stopped_wakes_to_nothing():
    with Network(2) as network:
        server = start_server(network)
        try:
            with holder(network, server) as running:
                _, token, pid = running.line().split()
                running.signal(signal.SIGSTOP)
                begun = time.monotonic()
                at_ns, next_token = take_over(server)
                time.sleep(max(0.0, STOPPED_SECONDS - (time.monotonic() - begun)))
                running.signal(signal.SIGCONT)
                assert running.wait(SECONDS) == 76
                wait_gone(pid)
                beats = [int(line) for line in running.rest()]
                assert max(beats) < at_ns and next_token > int(token)
            stale = subprocess.run([lease_tool(), "fence", "check", "cut", str(next_token)], env=environment(server), check=False)
            assert stale.returncode == 0
            stale = subprocess.run([lease_tool(), "fence", "check", "cut", token], env=environment(server), check=False)
            assert stale.returncode == 1, "the fence refuses the old token"
        finally:
            server.close()
