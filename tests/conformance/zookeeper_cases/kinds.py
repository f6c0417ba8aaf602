"""Containers and nodes with a time to live."""
from zookeeper_cases.case import case

from harness import jute
from harness.wait import wait_for

GONE_SECONDS = 60.0


def until_gone(client, path):
    wait_for(lambda: client.wire.exists(client.path(path)) is None, GONE_SECONDS, f"{path} gone")


@case
def a_container_goes_with_its_last_child(talk):
    client = talk.client()
    client.container("/c", b"x")
    client.exists("/c")
    client.create("/c/k")
    client.exists("/c")
    client.delete("/c/k")
    until_gone(client, "/c")
    client.exists("/c")


@case
def a_container_that_never_had_a_child_stays(talk):
    client = talk.client()
    client.container("/empty")
    client.container("/full")
    client.create("/full/k")
    client.delete("/full/k")
    until_gone(client, "/full")
    client.exists("/empty")


@case
def a_container_goes_with_its_last_ephemeral(talk):
    client, other = talk.client(), talk.client()
    client.container("/c")
    other.create("/c/e", flags=jute.EPHEMERAL)
    other.create("/c/f", flags=jute.EPHEMERAL)
    other.close_session()
    until_gone(client, "/c")
    client.exists("/c")


@case
def a_ttl_node_goes(talk):
    client = talk.client()
    client.create_ttl("/t", 50)
    client.exists("/t", watch=True)
    until_gone(client, "/t")
    client.create_ttl("/long", 1_000_000, data=b"x")
    client.exists("/long")
    client.create_ttl("/s-", 1_000_000, flags=jute.TTL_SEQUENTIAL)
    client.create("/long/child")
    client.exists("/long")
    client.delete("/long/child")
    client.delete("/long")


@case
def wrong_ttls(talk):
    client = talk.client()
    client.create_ttl("/zero", 0)
    client.create_ttl("/negative", -1)
    client.create_ttl("/huge", 1 << 50)
    client.create_ttl("/largest", 0xFFFFFFFFFF)
    client.create_ttl("/beyond", 0x10000000000)
    client.create_ttl("/flags", 1000, flags=jute.PERSISTENT)
    client.create_ttl("/flags2", 1000, flags=jute.EPHEMERAL)
    client.create_ttl("/flags3", 1000, flags=jute.CONTAINER)
    client.children("/")


@case
def kinds_by_the_wrong_request(talk):
    client = talk.client()
    client.create("/container", flags=jute.CONTAINER)
    client.create2("/container2", flags=jute.CONTAINER)
    client.create("/ttl", flags=jute.TTL)
    client.create2("/ttl2", flags=jute.TTL)
    client.create2("/plain", flags=jute.PERSISTENT, op=jute.CREATE_CONTAINER)
    client.create2("/ephemeral", flags=jute.EPHEMERAL, op=jute.CREATE_CONTAINER)
    client.create("/seven", flags=7)
    client.create2("/minus", flags=-1)
    client.create("/many", flags=1000)
    client.children("/")


@case
def containers_in_a_multi(talk):
    client = talk.client()
    client.multi(
        "container",
        (jute.CREATE_CONTAINER, jute.create, "/c", b"", None, jute.CONTAINER),
        (jute.CREATE, jute.create, "/c/k"),
        (jute.CREATE_TTL, jute.create_ttl, "/t", b"", None, jute.TTL, 1_000_000),
        (jute.CREATE2, jute.create, "/two"),
    )
    client.children2("/")
    client.delete("/c/k")
    until_gone(client, "/c")
