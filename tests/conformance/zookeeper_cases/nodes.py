"""Nodes: create, read, write, delete, and what their records say."""
from zookeeper_cases.case import case

from harness import jute


@case
def create_read_write_delete(talk):
    client = talk.client()
    client.create("/a", b"one")
    client.exists("/a")
    client.get("/a")
    client.set("/a", b"three")
    client.set("/a", b"", 1)
    client.get("/a")
    client.create2("/b", b"x")
    client.create("/a/k")
    client.exists("/a")
    client.children("/")
    client.children2("/")
    client.delete("/a")
    client.delete("/a/k")
    client.exists("/a")
    client.delete("/a")
    client.exists("/a")
    client.get("/a")
    client.set("/a", b"")
    client.delete("/a")
    client.children("/a")
    client.children2("/a")
    client.get_acl("/a")
    client.count("/a")
    client.children2("/")


@case
def versions(talk):
    client = talk.client()
    client.create("/a", b"0")
    client.set("/a", b"1", 0)
    client.set("/a", b"2", 0)
    client.set("/a", b"2", 2)
    client.set("/a", b"2", -2)
    client.set("/a", b"2", 1)
    client.delete("/a", 1)
    client.delete("/a", 3)
    client.delete("/a", -2)
    client.exists("/a")
    client.delete("/a", 2)
    client.exists("/a")


@case
def null_and_empty_data(talk):
    client = talk.client()
    client.create("/null", None)
    client.create("/empty", b"")
    client.get("/null")
    client.get("/empty")
    client.set("/empty", None)
    client.get("/empty")
    client.exists("/null")


@case
def counters_of_the_parent(talk):
    client = talk.client()
    client.create("/p")
    for number in range(4):
        client.create(f"/p/{number}")
    client.exists("/p")
    client.delete("/p/1")
    client.exists("/p")
    client.set("/p/2", b"new")
    client.exists("/p")
    client.create("/p/2/deep")
    client.exists("/p")
    client.delete("/p")
    client.count("/p")
    client.count("/")
    client.create("/p/2")
    client.create("/none/child")
    client.exists("/p")


@case
def sequences(talk):
    client = talk.client()
    client.create("/q")
    client.create("/q/n-", flags=jute.SEQUENTIAL)
    client.create("/q/n-", flags=jute.SEQUENTIAL)
    client.create("/q/plain")
    client.create("/q/n-", flags=jute.EPHEMERAL_SEQUENTIAL)
    client.delete("/q/plain")
    client.create("/q/other", flags=jute.SEQUENTIAL)
    client.create("/q/", flags=jute.SEQUENTIAL)
    client.create2("/q/n-", b"data", flags=jute.SEQUENTIAL)
    client.children2("/q")
    for name in talk.client("helper").children("/q") or []:
        client.delete(f"/q/{name}")
    client.create("/q/after", flags=jute.SEQUENTIAL)
    client.delete("/q/after0000000007")
    client.exists("/q")


@case
def sequences_start_anew_with_their_parent(talk):
    client = talk.client()
    for _ in range(2):
        client.create("/q")
        client.create("/q/n-", flags=jute.SEQUENTIAL)
        name = client.create("/q/n-", flags=jute.SEQUENTIAL)
        client.exists("/q/n-0000000001")
        assert name.endswith("0000000001")
        client.delete("/q/n-0000000000")
        client.delete("/q/n-0000000001")
        client.delete("/q")


@case
def a_sequence_meets_a_name_that_exists(talk):
    client = talk.client()
    client.create("/q")
    client.create("/q/n-0000000001")
    client.create("/q/n-", flags=jute.SEQUENTIAL)
    client.create("/q/n-", flags=jute.SEQUENTIAL)
    client.children("/q")


@case
def ephemerals(talk):
    client = talk.client()
    other = talk.client()
    client.create("/e", b"x", flags=jute.EPHEMERAL)
    other.exists("/e")
    client.create("/e/child")
    other.create("/e/child", flags=jute.EPHEMERAL)
    other.create("/e", flags=jute.EPHEMERAL)
    client.create2("/f", flags=jute.EPHEMERAL_SEQUENTIAL)
    client.ephemerals("/")
    client.ephemerals("/e")
    client.ephemerals("/none")
    other.ephemerals("/")
    other.set("/e", b"y")
    other.exists("/e")
    other.exists("/e", watch=True)
    client.close_session()
    other.exists("/e")
    other.children2("/")


@case
def deleting_the_ephemeral_of_another(talk):
    client = talk.client()
    other = talk.client()
    client.create("/e", flags=jute.EPHEMERAL)
    other.delete("/e")
    client.exists("/e")
    other.create("/e", flags=jute.EPHEMERAL)
    client.close_session()
    other.exists("/e")
    other.ephemerals("/")


@case
def many_children(talk):
    client = talk.client()
    client.create("/p")
    for number in range(300):
        client.create(f"/p/child-{number:04}")
    client.children2("/p")
    client.count("/p")
    client.count("/")


@case
def names_that_sort_between_a_node_and_its_children(talk):
    client = talk.client()
    for path in ("/a", "/a!", "/a-b", "/a.b", "/a/b", "/a0", "/a/b/c", "/a-b/c", "/ab"):
        client.create(path)
    client.children("/")
    client.children("/a")
    client.children2("/a/b")
    client.count("/a")
    client.count("/")
    client.delete("/a")
    client.delete("/a/b/c")
    client.delete("/a/b")
    client.delete("/a")
    client.children("/")


@case
def sync(talk):
    client = talk.client()
    client.create("/a")
    client.sync("/a")
    client.sync("/none")
    client.sync("/")


@case
def the_root(talk):
    client = talk.client()
    client.delete("!/")
    client.create("!/")
    client.note(client.text(client.wire.request(jute.GET_ACL, jute.text("/")).acl()))
    client.set("/", b"data of the case's node")
    client.get("/")
    client.exists("!/zookeeper/none")
    client.get("!/zookeeper/quota")
    client.children("!/zookeeper")
    client.delete("!/zookeeper")
    client.delete("!/zookeeper/quota")
    client.create("!/zookeeper/mine")
    client.delete("!/zookeeper/mine")


@case
def large_data(talk):
    client = talk.client()
    client.create("/a", b"x" * 500_000)
    client.exists("/a")
    client.set("/a", b"y" * 1_000_000)
    client.exists("/a")
    data = client.wire.get(client.path("/a"))[0]
    assert data == b"y" * 1_000_000
    # The largest frame.
    header = 8 + 4 + len(client.path("/b")) + 4 + 4
    client.set("/a", b"z" * (0xFFFFF - header))
    client.exists("/a")
    client.set("/a", b"z" * (0xFFFFF - header + 1))
    talk.client().exists("/a")
