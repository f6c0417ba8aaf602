"""Paths that are none."""
from zookeeper_cases.case import case

from harness import jute

WRONG = (
    "!", "!a", "!a/b", "//a", "/a//b", "/a/", "/a/.", "/a/..", "/a/./b", "/a/../b", "/.", "/..", "/...", "/a\0b", "/\x01",
    "/\x1f", "/\x7f", "/\x9f", "/\ud7ff", "/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\U0001f600", "/ ", "/a b", "/ä", "/.a",
    "/a.",
)  # fmt: skip


@case
def wrong_paths_for_create(talk):
    client = talk.client()
    for path in WRONG:
        client.create(path)
    client.create(None)
    client.create(b"/\xff\xfe")
    client.create(talk.root.encode() + b"/\xff\xfe")
    client.create(talk.root.encode() + b"/\xed\xa0\x80")
    client.children("/")


@case
def wrong_paths_for_sequences(talk):
    client = talk.client()
    client.create("/a")
    for path in ("/a/", "!", "//", "/a//"):
        client.create(path, flags=jute.SEQUENTIAL)
        talk.client().children("/a")
    client.children("/")


@case
def wrong_paths_elsewhere(talk):
    client = talk.client()
    for path in ("!a", "//", "/a/", "/\x01", "/.."):
        client.exists(path)
        client.get(path)
        client.children(path)
        client.children2(path)
        client.set(path)
        client.delete(path)
        client.get_acl(path)
        client.set_acl(path, jute.OPEN_ACL)
        client.sync(path)
        client.count(path)
        client.ephemerals(path)
    client.children("/")


@case
def null_paths_elsewhere(talk):
    for op, payload in (
        (jute.EXISTS, jute.watched(None)), (jute.GET_DATA, jute.watched(None)), (jute.GET_CHILDREN, jute.watched(None)),
        (jute.DELETE, jute.versioned(None)), (jute.SET_DATA, jute.set_data(None, b"")), (jute.GET_ACL, jute.text(None)),
        (jute.GET_EPHEMERALS, jute.text(None)), (jute.CREATE, jute.create(None)),
        (jute.GET_ALL_CHILDREN_NUMBER, jute.text(None)),
    ):  # fmt: skip
        talk.client().raw(f"null for {op}", op, payload)


@case
def watches_on_wrong_paths(talk):
    client = talk.client()
    client.exists("/a/", watch=True)
    client.exists("//", watch=True)
    client.create("/a")


@case
def a_long_path(talk):
    client = talk.client()
    client.create("/" + "x" * 1000)
    client.children("/")
    client.exists("/" + "y" * 100_000)
