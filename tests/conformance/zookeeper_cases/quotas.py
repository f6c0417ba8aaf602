"""Quotas as zkCli makes them: limits and statistics below /zookeeper/quota. Nothing is enforced by default."""
from zookeeper_cases.case import case

from harness import jute

LIMITS, STATS = "zookeeper_limits", "zookeeper_stats"
NOTHING = b"count=0,bytes=0"


def quota(client, path, name=""):
    return "!/zookeeper/quota" + client.path(path) + ("/" + name if name else "")


def make_folders(client, path):
    folder = "!/zookeeper/quota"
    for name in client.path(path).split("/")[1:]:
        folder += "/" + name
        client.create(folder, None)


def set_quota(client, path, limits=b"count=2,bytes=-1"):
    make_folders(client, path)
    client.create(quota(client, path, LIMITS), limits)
    client.create2(quota(client, path, STATS), NOTHING)


def show(client, path):
    client.get(quota(client, path, STATS))


def two_nodes(client):
    client.create("/a", b"12345")
    client.create("/a/b", b"678")


@case
def statistics_follow_changes(talk):
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a")
    show(client, "/a")
    for path, data in (("/a/b/c", b"x"), ("/a/empty", b""), ("/a/null", None), ("/ab", b"not of it"), ("/a/b/d", b"yz")):
        client.create(path, data)
        show(client, "/a")
    client.set("/a", b"")
    show(client, "/a")
    client.set("/a/null", b"123456789")
    show(client, "/a")
    client.set("/a/null", None)
    client.delete("/a/b/c")
    show(client, "/a")
    client.create("/a/s-", b"s", flags=jute.SEQUENTIAL)
    client.create2("/a/two", b"22")
    show(client, "/a")


@case
def statistics_with_multis(talk):
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a")
    client.multi("several", (jute.CREATE, jute.create, "/a/1", b"1"), (jute.CREATE, jute.create, "/a/1/2", b"22"),
                 (jute.SET_DATA, jute.set_data, "/a/b", b""), (jute.DELETE, jute.versioned, "/a/1/2"))  # fmt: skip
    show(client, "/a")
    client.multi("that fails", (jute.CREATE, jute.create, "/a/3", b"1"), (jute.CREATE, jute.create, "/a/b", b"22"))
    show(client, "/a")
    stats, other = quota(client, "/a", STATS), quota(client, "/a", LIMITS)
    reads = [(jute.GET_DATA, jute.watched, path) for path in (stats, other, stats)]
    client.multi("of reads", *reads, op=jute.MULTI_READ)


@case
def statistics_and_sessions(talk):
    client, other = talk.client(), talk.client()
    client.create("/a")
    set_quota(client, "/a")
    for number in range(3):
        other.create(f"/a/e{number}", b"eph", flags=jute.EPHEMERAL)
    client.sync("/a")
    show(client, "/a")
    other.delete("/a/e1")
    client.sync("/a")
    show(client, "/a")
    other.close_session()
    client.sync("/a")
    show(client, "/a")


@case
def stats_of_statistics(talk):
    """The length is that of what is shown; versions and times are those of the node, which nobody writes."""
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a")
    client.create("/a/c", b"x" * 20)
    stats = quota(client, "/a", STATS)
    client.exists(stats)
    client.get(stats)
    client.get_acl(stats)
    client.children2(stats)
    client.children(stats)
    client.get(quota(client, "/a", LIMITS))


@case
def statistics_fire_no_watches(talk):
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a")
    stats = quota(client, "/a", STATS)
    client.get(stats, watch=True)
    client.add_watch(stats, 0)
    client.create("/a/c", b"x")
    client.delete("/a/c")
    client.get(stats)
    client.delete(stats)


@case
def a_quota_beyond_its_limits(talk):
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a", b"count=1,bytes=1")
    client.create("/a/c", b"more")
    client.set("/a/c", b"much more")
    show(client, "/a")
    client.set(quota(client, "/a", LIMITS), b"count=1,bytes=1=;byteHardLimit=1;countHardLimit=1")
    client.create("/a/d", b"more")
    show(client, "/a")


@case
def a_quota_before_its_node(talk):
    client = talk.client()
    set_quota(client, "/a/b")
    show(client, "/a/b")
    client.create("/a", b"12345")
    show(client, "/a/b")
    client.create("/a/b", b"678")
    client.create("/a/b/c", b"9")
    show(client, "/a/b")
    client.delete("/a/b/c")
    client.delete("/a/b")
    show(client, "/a/b")
    client.create("/a/b", b"again")
    show(client, "/a/b")


@case
def statistics_made_behind_the_limits(talk):
    client = talk.client()
    two_nodes(client)
    make_folders(client, "/a")
    client.create(quota(client, "/a", LIMITS), b"count=1,bytes=-1")
    client.create("/a/c", b"9")
    client.create2(quota(client, "/a", STATS), b"whatever")
    show(client, "/a")
    client.create("/a/d", b"9")
    show(client, "/a")


@case
def statistics_made_before_the_limits(talk):
    client = talk.client()
    two_nodes(client)
    make_folders(client, "/a")
    client.create2(quota(client, "/a", STATS), None)
    show(client, "/a")
    client.create(quota(client, "/a", LIMITS), b"count=1,bytes=-1")
    client.create("/a/d", b"9")
    show(client, "/a")


@case
def a_quota_that_goes_and_comes(talk):
    client = talk.client()
    two_nodes(client)
    set_quota(client, "/a")
    client.delete(quota(client, "/a", LIMITS))
    client.delete(quota(client, "/a", STATS))
    client.exists(quota(client, "/a", STATS))
    show(client, "/a")
    client.create("/a/c", b"9")
    set_quota(client, "/a")
    show(client, "/a")


@case
def nodes_with_names_of_quotas(talk):
    """Elsewhere they are nodes as others."""
    client = talk.client()
    client.create("/a", b"")
    client.create(f"/a/{STATS}", b"own")
    client.get(f"/a/{STATS}")
    set_quota(client, "/a")
    show(client, "/a")
    make_folders(client, "/b")
    client.create(quota(client, "/b", "stats"), b"own")
    client.get(quota(client, "/b", "stats"))
    client.get(quota(client, "/a"))


@case
def a_quota_of_a_part_of_a_quota(talk):
    """Each counts what was there when it was made; what happens then differs, see docs/doors/zookeeper.md."""
    client = talk.client()
    two_nodes(client)
    client.create("/a/b/c", b"x")
    set_quota(client, "/a")
    set_quota(client, "/a/b")
    show(client, "/a")
    show(client, "/a/b")
    client.create("/a/b/d", b"x")
    show(client, "/a/b")
