"""A network of its own for a cluster: one namespace a node, joined by a bridge that clients are on.

What one node sends to another can be dropped, in one direction or both, silently, as a broken cable
or a wrong firewall does it: the sender learns nothing. Rules lie in the receiver's namespace
(nftables), so nothing outside is touched but the bridge and its veth pairs, and those are removed
whatever happens. It needs root; the test is skipped, with the reason, where that is missing.
"""
import atexit
import glob
import ipaddress
import itertools
import json
import os
import random
import re
import shutil
import subprocess

import pytest

CLIENTS = "clients"  # where the tests' own clients are: the bridge
NODES_MAX = 9
SUBNETS = ipaddress.ip_network("10.64.0.0/10")
SUBNET_ATTEMPTS_MAX = 50
COMMAND_SECONDS = 10.0

# Nothing of it matches unless a test says so.
RULES = """
table inet faults {
    set deaf { type ipv4_addr; }
    chain lossy { }
    chain input {
        type filter hook input priority 0;
        ip saddr @deaf drop
        jump lossy
    }
}
"""

_numbers = itertools.count(1)
_open = []


class NoNetwork(Exception):
    """The machine does not let us; the message says what was missing."""


def _run(*command, text=None):
    done = subprocess.run(
        [str(word) for word in command],
        input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise NoNetwork(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def _subnets_in_use():
    routes = json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    found = []
    for route in routes:
        if route["dst"] != "default":
            found.append(ipaddress.ip_network(route["dst"], strict=False))
    return found


def _free_subnet():
    used = _subnets_in_use()
    for _ in range(SUBNET_ATTEMPTS_MAX):
        offset = random.SystemRandom().randrange(2 ** (24 - SUBNETS.prefixlen)) << 8
        subnet = ipaddress.ip_network((int(SUBNETS.network_address) + offset, 24))
        if not any(subnet.overlaps(other) for other in used):
            return subnet
    raise NoNetwork(f"no free network in {SUBNETS}")


def remove_leftovers():
    """What a run that was killed with -9 could not remove: names carry the pid of their maker."""
    for path in glob.glob("/run/netns/leased-*"):
        name = os.path.basename(path)
        maker = re.match(r"leased-(\d+)-", name)
        if maker and not os.path.exists(f"/proc/{maker[1]}"):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    for path in glob.glob("/sys/class/net/lsd*b*"):
        name = os.path.basename(path)
        maker = re.match(r"lsd(\d+)b", name)
        if maker and not os.path.exists(f"/proc/{maker[1]}"):
            subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)


class Network:
    """Use as a context manager. Nodes are named by their index, the clients by CLIENTS."""

    def __init__(self, size):
        assert 0 < size <= NODES_MAX
        number = next(_numbers)
        self.size = size
        # Names of interfaces have at most 15 characters.
        self._bridge = f"lsd{os.getpid()}b{number}"
        self._names = [f"leased-{os.getpid()}-{number}-{node}" for node in range(size)]
        self._veths = [f"lsd{os.getpid()}v{number}{node}" for node in range(size)]
        self._subnet = None

    def __enter__(self):
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        for program in ("ip", "nft", "nsenter"):
            assert shutil.which(program) is not None, f"network namespaces need {program}: tools/setup test"
        remove_leftovers()
        try:
            self._make()
        except NoNetwork as error:
            self.close()
            pytest.skip(f"no network namespaces here: {error}")
        except BaseException:
            self.close()
            raise
        return self

    def _make(self):
        self._subnet = _free_subnet()
        _open.append(self)
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.address(CLIENTS)}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for node, (name, veth) in enumerate(zip(self._names, self._veths)):
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", veth, "master", self._bridge, "up")
            _run("ip", "-n", name, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            self._nft(node, "-f", "-", text=RULES)

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes all of it. Processes inside must have ended, or live on without a network."""
        if self in _open:
            _open.remove(self)
        commands = [["ip", "link", "delete", veth] for veth in self._veths]
        commands += [["ip", "netns", "delete", name] for name in self._names]
        commands += [["ip", "link", "delete", self._bridge]]
        for command in commands:
            subprocess.run(command, capture_output=True, timeout=COMMAND_SECONDS, check=False)

    def _nft(self, node, *words, text=None):
        return _run(*self.command_in(node), "nft", *words, text=text)

    # Where they are

    def address(self, node):
        return str(self._subnet[254 if node == CLIENTS else node + 1])

    def command_in(self, node):
        """What to put before a command that is to run on this node; the pid stays the command's."""
        # Not `ip netns exec`: that copies all mounts, and keeps what others unmount meanwhile.
        return ["nsenter", f"--net=/run/netns/{self._names[node]}"]

    def everybody(self):
        return [*range(self.size), CLIENTS]

    # What can go wrong

    def deafen(self, node, *senders):
        """From now on the node gets nothing that these send: one direction only. Clients that hear
        nothing are not offered: whoever does not hear a node's answers might as well be cut off."""
        assert node != CLIENTS
        addresses = ", ".join(self.address(sender) for sender in senders if sender != node)
        self._nft(node, "add", "element", "inet", "faults", "deaf", f"{{ {addresses} }}")

    def cut(self, one, *others):
        """Nothing passes between the one and the others, in neither direction."""
        others = [other for other in others if other != one]
        self.deafen(one, *others)
        for other in others:
            if other != CLIENTS:
                self.deafen(other, one)

    def split(self, *sides):
        """Each side sees itself only, and clients reach everybody."""
        for side in sides:
            for node in side:
                strangers = [one for other in sides if other is not side for one in other]
                self.deafen(node, *strangers)

    def isolate(self, node, from_clients=False):
        """Cuts a node off from all others, and from the clients too if so told."""
        others = [other for other in range(self.size) if other != node]
        self.cut(node, *others, *([CLIENTS] if from_clients else []))

    def lose(self, percent, *nodes):
        """So much of what these nodes get from other nodes is thrown away at random."""
        rule = f"ip saddr != {self.address(CLIENTS)} numgen random mod 100 < {percent} drop"
        for node in nodes:
            self._nft(node, "add", "rule", "inet", "faults", "lossy", *rule.split())

    def heal(self):
        """Everything passes again, at once and for everybody."""
        for node in range(self.size):
            self._nft(node, "-f", "-", text="flush set inet faults deaf\nflush chain inet faults lossy\n")


def _close_all():
    for network in list(_open):
        network.close()


atexit.register(_close_all)
