"""Several servers as one cluster, each a process of its own that can be killed, stopped and started.

Nodes are named by their index. Who was killed or stopped through here is remembered, so that a
question for the leader goes only to those who can answer, and so that an end nobody asked for is
noticed: close() looks for it, and for broken assertions in the logs.
"""
import re

import grpc
from etcd3 import etcdrpc

from harness.kinds import KIND_LEASED
from harness.rpc import Rpc
from harness.server import Server
from harness.tls_server import TlsServer
from harness.wait import wait_for

TIMING_FLAGS = ("--heartbeat-interval", "50", "--election-timeout", "300")
STATUS_SECONDS = 2.0
SHORT_SECONDS = 0.3
LEADER_SECONDS = 20.0
EQUAL_SECONDS = 30.0
LOG_TAIL_BYTES = 4000

# A client that comes back at once when its node does. The middle one is the time a connection has to
# come about: too short, and a busy client never gets one.
QUICK_RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 200),
)

_CRASH = re.compile(r"Assertion .* failed|AddressSanitizer|runtime error:|Segmentation|stack smashing")


class Cluster:
    """Use as a context manager, or call start() and close()."""

    def __init__(
        self, size=3, extra_flags=(), timing_flags=TIMING_FLAGS, kind=KIND_LEASED, network=None,
        authority=None, client_tls=None,
    ):  # fmt: skip
        """With an authority (harness.certificates) the members speak TLS with each other; client_tls are the
        arguments of a TlsServer but its kind, when their clients do."""
        self.servers = [
            TlsServer(kind, *client_tls) if client_tls is not None else Server(kind) for _ in range(size)
        ]
        for index, server in enumerate(self.servers):
            server.name = f"n{index}"
            server.extra_flags = [*timing_flags, *server.extra_flags, *extra_flags]
        self.network = network
        if network is not None:
            for index, server in enumerate(self.servers):
                server.host = network.address(index)
                server.command_prefix = network.command_in(index)
                server.extra_flags.append("--allow-insecure")
        for server in self.servers if authority is not None else ():
            server.use_peer_tls(authority.flags(server.name))
        members = ",".join(f"{server.name}={server.peer_url}" for server in self.servers)
        for server in self.servers:
            server.initial_cluster = members
        self._rpcs = {}
        self._down = set()
        self._paused = set()

    def add(self, server):
        """One more node, which is not running yet; answers its index."""
        self.servers.append(server)
        self._down.add(len(self.servers) - 1)
        return len(self.servers) - 1

    def forget(self, index):
        """This node has ended, or will end by itself: nobody is surprised."""
        self._down.add(index)

    def __len__(self):
        return len(self.servers)

    def __getitem__(self, index):
        return self.servers[index]

    @property
    def endpoints(self):
        return ",".join(server.endpoint for server in self.servers)

    # Their lives

    def start(self):
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()
        return self

    def kill(self, index):
        """SIGKILL and wait."""
        self.check_alive(index)
        self._down.add(index)
        self._paused.discard(index)
        self.servers[index].kill()

    def stop(self, index):
        """SIGTERM and wait; answers the exit code."""
        self.check_alive(index)
        self._down.add(index)
        return self.servers[index].stop()

    def pause(self, index):
        self.check_alive(index)
        self._paused.add(index)
        self.servers[index].pause()

    def resume(self, index):
        self.servers[index].resume()
        self._paused.discard(index)

    def wait_end(self, index, timeout_s):
        """Until a node has ended by itself, which somebody expects; answers the exit code."""
        self._down.add(index)
        return self.servers[index].process.wait(timeout_s)

    def launch(self, index):
        """Starts a node that is down and waits for nothing: alone it would never be healthy."""
        if index in self._rpcs:
            self._rpcs.pop(index).close()
        self.servers[index].launch()
        self._down.discard(index)

    def restart(self, *indexes):
        """Starts nodes that are down, all before any is waited for."""
        for index in indexes:
            self.launch(index)
        for index in indexes:
            self.servers[index].wait_ready()

    def close(self):
        for rpc in self._rpcs.values():
            rpc.close()
        for server in self.servers:
            server.close()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.check_sound()
            else:
                for server in self.servers:
                    print(f"log of {server.name}:\n{server.log_tail(LOG_TAIL_BYTES)}")
        finally:
            self.close()

    def check_alive(self, index):
        server = self.servers[index]
        assert server.is_running(), (
            f"{server.name} ended by itself with {server.process.exit_code()}: {server.log_tail()}"
        )

    def check_sound(self):
        """Nobody ended unasked, and no log tells of a broken assertion."""
        for index, server in enumerate(self.servers):
            with open(server.log_path, encoding="utf-8", errors="replace") as log:
                crash = _CRASH.search(log.read())
            assert crash is None, f"{server.name}: {crash[0]}"
            if index not in self._down:
                self.check_alive(index)

    # Asking them

    def rpc(self, index):
        """The client of one node, a new one after each start of the node."""
        if index not in self._rpcs:
            self._rpcs[index] = self.new_rpc(index)
        return self._rpcs[index]

    def new_rpc(self, index):
        """A client with a connection of its own; the caller closes it."""
        return Rpc(self.servers[index], QUICK_RECONNECT)

    def answering(self):
        """Indexes of the nodes that are neither down nor stopped."""
        return [
            index for index in range(len(self))
            if index not in self._down and index not in self._paused
        ]  # fmt: skip

    def status(self, index, timeout_s=STATUS_SECONDS):
        return self.rpc(index).maintenance.Status(
            etcdrpc.StatusRequest(), timeout=timeout_s, wait_for_ready=True
        )

    def seems_leader(self, index):
        """Whether the node takes itself for the leader; a node that does not answer does not."""
        if index not in self.answering():
            return False
        try:
            status = self.status(index, timeout_s=SHORT_SECONDS)
        except grpc.RpcError:
            return False
        return status.leader == status.header.member_id

    def _agreed_leader(self, among):
        """Who leads, if all of these agree; else None."""
        try:
            statuses = {index: self.status(index) for index in among or self.answering()}
        except grpc.RpcError:
            return None
        if len({(status.leader, status.raftTerm) for status in statuses.values()}) != 1:
            return None
        for index, status in statuses.items():
            if status.leader == status.header.member_id:
                return index
        return None

    def leader(self, timeout_s=LEADER_SECONDS, among=None):
        """The index of the node that all who answer, or all of some, take for the leader."""
        found = wait_for(
            lambda: [index] if (index := self._agreed_leader(among)) is not None else None,
            timeout_s, "a leader all agree on",
        )  # fmt: skip
        return found[0]

    def followers(self):
        leader = self.leader()
        return [index for index in self.answering() if index != leader]

    def hash_of(self, index):
        """(revision, compact revision, hash) of all keys of one node, as it is now."""
        answer = self.rpc(index).maintenance.HashKV(
            etcdrpc.HashKVRequest(), timeout=STATUS_SECONDS, wait_for_ready=True
        )
        return answer.header.revision, answer.compact_revision, answer.hash

    def wait_equal(self, timeout_s=EQUAL_SECONDS):
        """Until every node holds the same keys at the same revision; answers that revision.
        Nobody may write meanwhile."""

        def equal():
            try:
                hashes = {self.hash_of(index) for index in self.answering()}
            except grpc.RpcError:
                return None
            return hashes if len(hashes) == 1 else None

        return wait_for(equal, timeout_s, "equal replicas").pop()[0]
