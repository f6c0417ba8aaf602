"""Watches: which events come, to whom, in which order, and before which answer."""
from zookeeper_cases.case import case

from harness import jute

PERSISTENT, RECURSIVE = 0, 1
KIND_CHILDREN, KIND_DATA, KIND_ANY = 1, 2, 3


@case
def one_time_watches(talk):
    client = talk.client()
    client.exists("/a", watch=True)
    client.create("/a")
    client.create("/b")
    client.get("/a", watch=True)
    client.set("/a", b"1")
    client.set("/a", b"2")
    client.exists("/a", watch=True)
    client.delete("/a")
    client.get("/a", watch=True)
    client.create("/a")
    client.children("/", watch=True)
    client.create("/c")
    client.create("/d")
    client.children2("/", watch=True)
    client.delete("/d")
    client.delete("/c")


@case
def watches_of_another(talk):
    client = talk.client()
    watcher = talk.client()
    watcher.exists("/a", watch=True)
    watcher.children("/", watch=True)
    client.create("/a")
    watcher.drain()
    watcher.get("/a", watch=True)
    watcher.children("/a", watch=True)
    client.create("/a/k")
    client.set("/a", b"x")
    watcher.drain()
    watcher.get("/a", watch=True)
    watcher.children("/a", watch=True)
    watcher.children("/", watch=True)
    client.delete("/a/k")
    client.delete("/a")
    watcher.drain()


@case
def both_watches_of_a_deleted_node(talk):
    client = talk.client()
    client.create("/a")
    client.get("/a", watch=True)
    client.children("/a", watch=True)
    client.children("/", watch=True)
    client.delete("/a")
    client.create("/a")
    client.children("/a", watch=True)
    client.delete("/a")


@case
def a_watch_asked_twice(talk):
    client = talk.client()
    client.create("/a")
    client.get("/a", watch=True)
    client.exists("/a", watch=True)
    client.get("/a", watch=True)
    client.set("/a", b"1")
    client.set("/a", b"2")


@case
def no_watch_after_an_error(talk):
    client = talk.client()
    client.get("/a", watch=True)
    client.children("/a", watch=True)
    client.children2("/a", watch=True)
    client.create("/a")
    client.create("/a/k")
    client.delete("/a/k")
    client.delete("/a")


@case
def changes_of_rights_are_no_event(talk):
    client = talk.client()
    client.create("/a")
    client.get("/a", watch=True)
    client.add_watch("/a", PERSISTENT)
    client.set_acl("/a", jute.OPEN_ACL)
    client.set("/a", b"")


@case
def persistent(talk):
    client = talk.client()
    client.add_watch("/a", PERSISTENT)
    client.create("/a")
    client.set("/a", b"1")
    client.create("/a/k")
    client.set("/a/k", b"1")
    client.create("/a/k/deep")
    client.delete("/a/k/deep")
    client.delete("/a/k")
    client.delete("/a")
    client.create("/a")


@case
def recursive(talk):
    client = talk.client()
    client.add_watch("/a", RECURSIVE)
    client.create("/a")
    client.create("/ab")
    client.set("/a", b"1")
    client.create("/a/k")
    client.set("/a/k", b"1")
    client.create("/a/k/deep")
    client.create("/a/k/s-", flags=jute.SEQUENTIAL)
    client.delete("/a/k/deep")
    client.delete("/a/k/s-0000000001")
    client.delete("/a/k")
    client.delete("/a")
    client.create("/a")


@case
def recursive_at_the_root(talk):
    client = talk.client()
    client.add_watch("!/", RECURSIVE)
    client.create("/a")
    client.create("/a/b")
    client.delete("/a/b")
    client.remove_watches("!/", KIND_ANY)
    client.create("/b")


@case
def several_kinds_on_one_node(talk):
    client = talk.client()
    # Not a persistent one and one that fires once on the same path: ZooKeeper 3.8 forgets the first with the second.
    client.create("/a")
    client.add_watch("/a", PERSISTENT)
    client.set("/a", b"1")
    client.create("/a/k")
    client.get("/a/k", watch=True)
    client.add_watch("/", RECURSIVE)
    client.set("/a/k", b"4")
    client.delete("/a/k")


@case
def two_recursive_watches_on_one_path(talk):
    client = talk.client()
    client.add_watch("/", RECURSIVE)
    client.add_watch("/a", RECURSIVE)
    client.add_watch("/a", PERSISTENT)
    client.create("/a")
    client.create("/a/b")
    client.set("/a/b", b"")
    client.get("/a/b", watch=True)
    client.set("/a/b", b"")
    client.delete("/a/b")


@case
def add_watch_with_wrong_modes(talk):
    client = talk.client()
    client.add_watch("/a", 2)
    client = talk.client()
    client.add_watch("/a", -1)


@case
def removed(talk):
    client = talk.client()
    client.create("/a")
    client.remove_watches("/a", KIND_ANY)
    client.get("/a", watch=True)
    client.remove_watches("/a", KIND_CHILDREN)
    client.remove_watches("/a", KIND_DATA)
    client.set("/a", b"1")
    client.children("/a", watch=True)
    client.remove_watches("/a", KIND_DATA)
    client.remove_watches("/a", KIND_CHILDREN)
    client.create("/a/k")
    client.get("/a", watch=True)
    client.children("/a", watch=True)
    client.remove_watches("/a", KIND_ANY)
    client.remove_watches("/a", KIND_ANY)
    client.set("/a", b"2")
    client.delete("/a/k")
    client.exists("/none", watch=True)
    client.remove_watches("/none", KIND_DATA)
    client.create("/none")


@case
def removed_persistent(talk):
    client = talk.client()
    client.create("/a")
    client.add_watch("/a", PERSISTENT)
    client.remove_watches("/a", KIND_DATA)
    client.set("/a", b"1")
    client.add_watch("/a", PERSISTENT)
    client.remove_watches("/a", KIND_ANY)
    client.set("/a", b"3")
    client.add_watch("/a", RECURSIVE)
    client.remove_watches("/a", KIND_ANY)
    client.set("/a", b"4")


@case
def checked(talk):
    client = talk.client()
    client.create("/a")
    client.remove_watches("/a", KIND_ANY, op=jute.CHECK_WATCHES)
    client.get("/a", watch=True)
    client.remove_watches("/a", KIND_ANY, op=jute.CHECK_WATCHES)
    client.remove_watches("/a", KIND_DATA, op=jute.CHECK_WATCHES)
    client.remove_watches("/a", KIND_CHILDREN, op=jute.CHECK_WATCHES)
    client.add_watch("/a", PERSISTENT)
    client.remove_watches("/b", KIND_ANY, op=jute.CHECK_WATCHES)
    client.set("/a", b"1")


@case
def removed_with_wrong_kinds(talk):
    for kind in (0, 6, -1, 100):
        client = talk.client()
        client.create(f"/a{kind}")
        client.get(f"/a{kind}", watch=True)
        client.remove_watches(f"/a{kind}", kind)


@case
def the_end_of_a_session_is_seen(talk):
    client = talk.client()
    watcher = talk.client()
    client.create("/p")
    client.create("/p/b", flags=jute.EPHEMERAL)
    client.create("/p/a", flags=jute.EPHEMERAL)
    watcher.exists("/p/a", watch=True)
    watcher.exists("/p/b", watch=True)
    watcher.children("/p", watch=True)
    client.close_session()
    # The order of the ephemerals of one session is that of a set: only what came is compared.
    before = len(talk.lines)
    watcher.drain()
    talk.lines[before:] = sorted(talk.lines[before:])
    watcher.exists("/p")


@case
def set_watches_tells_what_was_missed(talk):
    client = talk.client()
    for path in ("/same", "/changed", "/deleted", "/parent", "/parent2", "/was", "/childless"):
        client.create(path)
    client.create("/parent/k")
    seen = client.wire.exists(client.path("/parent/k"))["mzxid"]
    client.set("/changed", b"x")
    client.delete("/deleted")
    client.create("/created")
    client.create("/parent/new")
    client.delete("/childless")
    client.set("/parent2", b"only data")
    client.set_watches(
        seen,
        data=["/same", "/changed", "/deleted"],
        exist=["/created", "/none", "/was"],
        child=["/parent", "/parent2", "/childless"],
    )
    client.drain()
    client.set("/same", b"now")
    client.set("/changed", b"no watch any more")
    client.create("/none")
    client.create("/parent2/k")


@case
def set_watches_of_all_kinds(talk):
    client = talk.client()
    for path in ("/same", "/persistent", "/recursive", "/recursive/k"):
        client.create(path)
    seen = client.wire.exists(client.path("/recursive/k"))["mzxid"]
    client.set_watches(seen, data=["/same"], persistent=["/persistent"], recursive=["/recursive"])
    client.drain()
    client.set("/same", b"x")
    client.set("/same", b"x")
    client.set("/persistent", b"x")
    client.set("/persistent", b"y")
    client.create("/recursive/m")
    client.set("/recursive/m", b"")


@case
def set_watches_with_nothing(talk):
    client = talk.client()
    client.set_watches(0)
    client.set_watches(1 << 62, data=["/none"])
    client.set_watches(0, persistent=[], recursive=[])
    client.raw("as a plain request", jute.SET_WATCHES, jute.set_watches(0))


@case
def watches_end_with_the_connection(talk):
    client = talk.client()
    other = talk.client()
    client.create("/a")
    client.get("/a", watch=True)
    client.add_watch("/a", PERSISTENT)
    again = talk.client(begin=False)
    again.resume(client)
    again.note(f"same session {again.wire.session_id == client.wire.session_id}")
    other.set("/a", b"x")
    again.drain()
    again.set_watches(again.wire.zxid, data=["/a"])
    other.set("/a", b"y")
    again.drain()


@case
def two_clients_watch_one_node(talk):
    writer = talk.client()
    watchers = [talk.client() for _ in range(3)]
    writer.create("/a")
    for watcher in watchers:
        watcher.get("/a", watch=True)
    writer.set("/a", b"x")
    for watcher in watchers:
        watcher.drain()


@case
def a_containers_end_is_seen(talk):
    client = talk.client()
    client.container("/c")
    client.create("/c/k")
    client.add_watch("/", RECURSIVE)
    client.delete("/c/k")
    event = client.wire.next_event()
    while event.path != client.path("/c"):
        event = client.wire.next_event()
    client.note(f"{event.kind} {talk.short(event.path)}")
