"""Clients that begin TLS and mean no good: noise, torn and bent handshakes, thousands of first messages at
once. A well-behaved client beside them is served all the time, and memory comes back."""
import contextlib
import random
import socket
import ssl
import time

import pytest
from bystander import Bystander

from harness import KIND_LEASED, wait_for
from harness.acceptance import either, report
from harness.certificates import Authority
from harness.tls_server import BothServer

MIB = 1024 * 1024
HANDSHAKES = either(3000, 9000)
NOISES = either(200, 2000)
# 2,048 handshakes at a time of some 40 KiB, however many are begun.
GROWTH_MAX = 160 * MIB
HANDSHAKES_MAX = 2048
# What the allocator may keep of it afterwards.
KEPT_MAX = 32 * MIB
WAIT_SECONDS_MAX = either(5.0, 0.25)
SEED = 20261116


@pytest.fixture(name="server")
def a_server():
    with Authority() as authority, BothServer(KIND_LEASED, authority) as one:
        yield one


def client_hello():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    output = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), output).do_handshake()
    return output.read()


def connect(server):
    one = socket.create_connection(("127.0.0.1", server.tls.port), timeout=10)
    one.setblocking(False)
    return one


def bent(hello, chance):
    """A first message with some bytes changed, cut off, or doubled."""
    data = bytearray(hello)
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    data = data[: chance.randint(1, len(data))]
    return bytes(data) * chance.randint(1, 3)


def test_noise_ends_in_a_closed_connection_and_disturbs_nobody(server):
    chance = random.Random(SEED)
    hello = client_hello()
    with Bystander(server) as bystander:
        for _ in range(NOISES):
            noise = chance.choice([
                lambda: chance.randbytes(chance.randint(1, 2000)),
                lambda: b"\x16\x03\x01" + chance.randbytes(chance.randint(1, 400)),
                lambda: bent(hello, chance),
            ])()  # fmt: skip
            with connect(server) as one, contextlib.suppress(OSError):
                one.send(noise)
        bystander.check_served()
    wait_for(lambda: server.metric("leased_connections") <= 1, 30, "the connections closed")
    assert server.metric("leased_tls_failures_total") > 0


def flood(server, hello):
    """Begins handshakes and never goes on with them; answers how many got an answer."""
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connect(server)) for _ in range(HANDSHAKES)]
        begun = time.monotonic()
        for one in waiting:
            one.send(hello)
        n_answered = sum(is_answered(one, begun + 60) for one in waiting)
        # Somebody who means it gets through beside them.
        context = ssl.create_default_context(cafile=server.tls.trusted)
        with socket.create_connection(("127.0.0.1", server.tls.port), timeout=10) as one:
            with context.wrap_socket(one, server_hostname="127.0.0.1") as stream:
                assert stream.version() == "TLSv1.3"
        return n_answered


def test_a_flood_of_handshakes_delays_others_by_little(server):
    hello = client_hello()
    with Bystander(server) as bystander:
        bystander.check_served()
        before = server.rss_bytes()
        begun = time.monotonic()
        # The oldest have to go; whether their answers or their ends come first is chance.
        assert flood(server, hello) >= HANDSHAKES_MAX
        took = time.monotonic() - begun
        growth = server.rss_bytes() - before
        assert server.metric("leased_tls_failures_total") >= HANDSHAKES - HANDSHAKES_MAX
        wait_for(lambda: server.metric("leased_connections") <= 3, 30, "the connections closed")
        # What the first flood took is used again.
        flood(server, hello)
        growth_again = server.rss_bytes() - before
        bystander.check_served()
    report("handshakes", begun=HANDSHAKES, seconds=round(took, 2), grown_mib=growth // MIB,
           grown_again_mib=growth_again // MIB,
           longest_wait_ms=round(bystander.longest_s * 1000))  # fmt: skip
    wait_for(lambda: server.rss_bytes() - before < KEPT_MAX, 30,
             f"less than {KEPT_MAX // MIB} MiB more than before the flood")  # fmt: skip
    assert growth <= GROWTH_MAX
    assert growth_again <= growth + GROWTH_MAX / 4
    assert bystander.longest_s <= WAIT_SECONDS_MAX


def is_answered(one, deadline):
    one.settimeout(max(0.1, deadline - time.monotonic()))
    try:
        return one.recv(1) == b"\x16"
    except ConnectionError:
        return False
