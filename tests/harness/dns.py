"""leased with a DNS listener, and its clients: dig, and dnspython where a test looks closer."""
import re
import subprocess

import dns.message
import dns.query
import dns.rcode

from harness.kinds import KIND_LEASED
from harness.ports import free_ports
from harness.server import Server

QUERY_SECONDS = 30.0


def add_listener(server, *flags):
    """Gives a Server of leased that is not started yet its DNS listener; `dns_port` is where."""
    server.dns_port = free_ports(1)[0]
    server.extra_flags += ["--listen-dns", f"{server.host}:{server.dns_port}", *flags]
    return server


def leased(*flags):
    return add_listener(Server(KIND_LEASED), *flags)


def query(server, name, kind="A", tcp=False, **options):
    """The answer as dnspython reads it; without EDNS unless use_edns or payload says so."""
    message = dns.message.make_query(name, kind, **options)
    ask = dns.query.tcp if tcp else dns.query.udp
    return ask(message, server.host, port=server.dns_port, timeout=QUERY_SECONDS, one_rr_per_rrset=True)


def values(answer):
    return sorted(item.to_text() for rrset in answer.answer for item in rrset)


def status(answer):
    return dns.rcode.to_text(answer.rcode())


def dig(server, *arguments):
    """What dig prints."""
    return subprocess.run(
        ["dig", f"@{server.host}", "-p", str(server.dns_port), "+tries=3", "+timeout=10", *arguments],
        capture_output=True, text=True, check=True, timeout=QUERY_SECONDS * 2,
    ).stdout  # fmt: skip


def dig_short(server, *arguments):
    return sorted(dig(server, "+short", *arguments).split("\n")[:-1])


def dig_header(server, *arguments):
    """{"status": …, "flags": set, "ANSWER": n, …, "size": n}"""
    text = dig(server, *arguments)
    counts = {name: int(n) for name, n in re.findall(r"(QUERY|ANSWER|AUTHORITY|ADDITIONAL): (\d+)", text)}
    return {
        "status": re.search(r"status: (\w+)", text)[1],
        "flags": set(re.search(r"flags: ([\w ]*);", text)[1].split()),
        "size": int(re.search(r"MSG SIZE\s+rcvd: (\d+)", text)[1]),
        "text": text,
        **counts,
    }
