"""Several operations in one, all or nothing."""
from zookeeper_cases.case import case

from harness import jute


@case
def multi_succeeds(talk):
    client = talk.client()
    client.create("/a", b"0")
    client.multi(
        "all kinds",
        (jute.CREATE, jute.create, "/b", b"1"),
        (jute.CREATE2, jute.create, "/b/c", b"2"),
        (jute.SET_DATA, jute.set_data, "/a", b"3", 0),
        (jute.CHECK, jute.versioned, "/a", 1),
        (jute.DELETE, jute.versioned, "/b/c", 0),
        (jute.CREATE, jute.create, "/b/s-", b"", None, jute.SEQUENTIAL),
        (jute.CREATE, jute.create, "/e", b"", None, jute.EPHEMERAL),
    )
    client.children2("/")
    client.children2("/b")
    client.get("/a")
    client.exists("/e")


@case
def multi_fails(talk):
    client = talk.client()
    client.create("/a", b"0")
    client.multi(
        "in the middle",
        (jute.CREATE, jute.create, "/b"),
        (jute.SET_DATA, jute.set_data, "/a", b"3", 7),
        (jute.CREATE, jute.create, "/c"),
        (jute.DELETE, jute.versioned, "/none"),
    )
    client.multi("check", (jute.CHECK, jute.versioned, "/a", 3), (jute.DELETE, jute.versioned, "/a"))
    client.multi("check of nothing", (jute.CHECK, jute.versioned, "/none", -1))
    client.multi("twice", (jute.CREATE, jute.create, "/b"), (jute.CREATE, jute.create, "/b"))
    client.multi("delete twice", (jute.DELETE, jute.versioned, "/a"), (jute.DELETE, jute.versioned, "/a"))
    client.multi("not empty", (jute.CREATE, jute.create, "/a/k"), (jute.DELETE, jute.versioned, "/a"))
    client.multi("bad path", (jute.CREATE, jute.create, "/ok"), (jute.CREATE, jute.create, "/bad/"))
    client.multi("bad acl", (jute.CREATE, jute.create, "/ok"), (jute.CREATE, jute.create, "/b", b"", []))
    client.children2("/")


@case
def multi_sees_its_own_changes(talk):
    client = talk.client()
    client.multi(
        "tree",
        (jute.CREATE, jute.create, "/p"),
        (jute.CREATE, jute.create, "/p/q"),
        (jute.CREATE, jute.create, "/p/q/r"),
        (jute.SET_DATA, jute.set_data, "/p/q", b"1", 0),
        (jute.SET_DATA, jute.set_data, "/p/q", b"2", 1),
        (jute.CHECK, jute.versioned, "/p/q", 2),
        (jute.DELETE, jute.versioned, "/p/q/r", 0),
    )
    client.children2("/p")
    client.get("/p/q")
    client.multi(
        "gone and back",
        (jute.DELETE, jute.versioned, "/p/q"),
        (jute.CREATE, jute.create, "/p/q", b"new"),
        (jute.CREATE, jute.create, "/p/s", b"", None, jute.SEQUENTIAL),
        (jute.CREATE, jute.create, "/p/s", b"", None, jute.SEQUENTIAL),
    )
    client.children2("/p")
    client.get("/p/q")


@case
def multi_and_watches(talk):
    client = talk.client()
    watcher = talk.client()
    client.create("/a", b"0")
    watcher.get("/a", watch=True)
    watcher.children("/", watch=True)
    watcher.exists("/b", watch=True)
    client.multi(
        "several",
        (jute.SET_DATA, jute.set_data, "/a", b"1"),
        (jute.CREATE, jute.create, "/b"),
        (jute.CREATE, jute.create, "/b/c"),
    )
    watcher.drain()
    watcher.exists("/a", watch=True)
    client.multi("failing", (jute.SET_DATA, jute.set_data, "/a", b"1"), (jute.DELETE, jute.versioned, "/none"))
    watcher.drain()


@case
def events_of_a_multi_keep_its_order(talk):
    client = talk.client()
    client.add_watch("/", 1)
    client.multi(
        "grow",
        (jute.CREATE, jute.create, "/b"),
        (jute.CREATE, jute.create, "/a"),
        (jute.CREATE, jute.create, "/b/c"),
        (jute.SET_DATA, jute.set_data, "/", b"x"),
        (jute.CREATE, jute.create, "/b/c/d"),
    )
    client.multi(
        "shrink",
        (jute.DELETE, jute.versioned, "/b/c/d"),
        (jute.DELETE, jute.versioned, "/b/c"),
        (jute.DELETE, jute.versioned, "/a"),
        (jute.DELETE, jute.versioned, "/b"),
    )


@case
def odd_multis(talk):
    client = talk.client()
    client.multi("empty")
    client.create("/a")
    client.multi("read inside", (jute.GET_DATA, jute.watched, "/a"))
    client = talk.client()
    client.multi("set acl inside", (jute.SET_ACL, jute.set_acl, "/a", jute.OPEN_ACL))
    client = talk.client()
    client.multi("ping inside", (jute.PING, jute.text, "/a"))
    client = talk.client()
    client.raw("no end", jute.MULTI, jute.multi([(jute.CREATE, jute.create(client.path("/b")))])[:-9])
    client = talk.client()
    client.raw("nothing", jute.MULTI, b"")
    client = talk.client()
    client.children("/")


@case
def multi_read(talk):
    client = talk.client()
    client.create("/a", b"data")
    client.create("/a/k")
    client.multi(
        "read",
        (jute.GET_DATA, jute.watched, "/a", False),
        (jute.GET_CHILDREN, jute.watched, "/a", False),
        (jute.GET_DATA, jute.watched, "/none", False),
        (jute.GET_CHILDREN, jute.watched, "/none", False),
        (jute.GET_CHILDREN, jute.watched, "/a/k", False),
        op=jute.MULTI_READ,
    )
    client.multi("read nothing", op=jute.MULTI_READ)
    talk.client().children("/")


@case
def multi_read_with_watches(talk):
    client = talk.client()
    client.create("/a", b"data")
    client.multi(
        "read and watch",
        (jute.GET_DATA, jute.watched, "/a", True),
        (jute.GET_CHILDREN, jute.watched, "/a", True),
        op=jute.MULTI_READ,
    )
    client.set("/a", b"x")
    client.create("/a/k")


@case
def multi_of_hundreds(talk):
    client = talk.client()
    client.create("/p")
    client.multi("300", *((jute.CREATE, jute.create, f"/p/{number:03}") for number in range(300)))
    client.count("/p")
    client.exists("/p")
    client.multi("300 gone", *((jute.DELETE, jute.versioned, f"/p/{number:03}") for number in range(300)))
    client.exists("/p")
