"""Rights."""
import base64
import hashlib

from zookeeper_cases.case import case

from harness import jute


def digest(user):
    """user is name:password; what an ACL holds of it."""
    return user.split(":")[0] + ":" + base64.b64encode(hashlib.sha1(user.encode()).digest()).decode()


ANN, BOB = digest("ann:secret"), digest("bob:secret")


@case
def who(talk):
    client = talk.client()
    client.who_am_i()
    client.auth("digest", b"ann:secret")
    client.who_am_i()
    client.auth("digest", b"bob:secret")
    client.auth("digest", b"ann:secret")
    client.who_am_i()


@case
def unknown_scheme(talk):
    client = talk.client()
    client.auth("nonsense", b"x")
    client.exists("/")


@case
def odd_credentials(talk):
    for scheme, secret in (("digest", b""), ("digest", b"noname"), ("digest", b":"), ("digest", b"a:b:c"),
                           ("world", b"anyone"), ("auth", b"x"), ("ip", b"127.0.0.1"), ("", b""), ("digest", None),
                           ("x509", b"x"), ("super", b"x"), ("sasl", b"x")):  # fmt: skip
        client = talk.client()
        client.auth(scheme, secret)
        client.who_am_i()


@case
def an_auth_that_is_a_plain_request(talk):
    client = talk.client()
    client.raw("auth with a number", jute.AUTH, jute.auth("digest", b"ann:secret"))
    client.who_am_i()


@case
def kept_and_read(talk):
    client = talk.client()
    client.auth("digest", b"ann:secret")
    client.create("/a", b"x", [(jute.READ, "world", "anyone"), (jute.ALL, "digest", ANN)])
    client.get_acl("/a")
    client.create("/creator", b"x", jute.CREATOR_ACL)
    client.get_acl("/creator")
    client.set_acl("/a", [(jute.ALL, "auth", "")])
    client.get_acl("/a")
    client.set_acl("/a", [(jute.ALL, "digest", ANN)], 0)
    client.set_acl("/a", [(jute.ALL, "digest", ANN)], 1)
    client.get_acl("/a")
    client.set_acl("/none", jute.OPEN_ACL)
    client.get_acl("/none")
    client.exists("/a")


@case
def two_users_create(talk):
    client = talk.client()
    client.auth("digest", b"ann:secret")
    client.auth("digest", b"bob:secret")
    client.create("/a", b"", jute.CREATOR_ACL)
    # The order is that of a set.
    client.note(client.text(sorted(client.wire.request(jute.GET_ACL, jute.text(client.path("/a"))).acl())))


@case
def what_each_right_allows(talk):
    owner = talk.client()
    owner.auth("digest", b"ann:secret")
    guest = talk.client()
    for right in (0, jute.READ, jute.WRITE, jute.CREATE_RIGHT, jute.DELETE_RIGHT, jute.ADMIN, 32, -1):
        path = f"/right{right}"
        owner.create(path, b"x", [(right, "world", "anyone"), (jute.ALL, "digest", ANN)])
        owner.create(path + "/k")
        guest.exists(path)
        guest.get(path)
        guest.children(path)
        guest.children2(path)
        guest.count(path)
        guest.set(path, b"y")
        guest.create(path + "/l")
        guest.delete(path + "/k")
        guest.get_acl(path)
        guest.set_acl(path, jute.OPEN_ACL)
        guest.get(path, watch=True)
        guest.multi("check", (jute.CHECK, jute.versioned, path, -1))
        guest.multi("set", (jute.SET_DATA, jute.set_data, path, b"z"))
        guest.multi("read", (jute.GET_DATA, jute.watched, path), (jute.GET_CHILDREN, jute.watched, path),
                    op=jute.MULTI_READ)  # fmt: skip


@case
def deletion_is_a_right_of_the_parent(talk):
    owner = talk.client()
    owner.auth("digest", b"ann:secret")
    guest = talk.client()
    owner.create("/open", b"", jute.OPEN_ACL)
    owner.create("/open/closed", b"", jute.CREATOR_ACL)
    guest.get("/open/closed")
    guest.delete("/open/closed")
    owner.create("/closed", b"", jute.CREATOR_ACL)
    owner.create("/closed/open", b"", jute.OPEN_ACL)
    guest.set("/closed/open", b"x")
    guest.delete("/closed/open")
    guest.create("/closed/mine")
    guest.children("/closed")


@case
def wrong_acls(talk):
    client = talk.client()
    for number, entries in enumerate((
        [], None, [(jute.ALL, "nonsense", "x")], [(jute.ALL, "world", "nobody")], [(jute.ALL, "world", "")],
        [(jute.ALL, "auth", "")], [(jute.ALL, "digest", "noname")], [(jute.ALL, "digest", "a:b:c")],
        [(jute.ALL, "digest", "")], [(jute.ALL, "ip", "127.0.0.1")], [(jute.ALL, "ip", "127.0.0.0/8")],
        [(jute.ALL, "ip", "127.0.0.1/33")], [(jute.ALL, "ip", "nowhere")],
        [(jute.ALL, "super", "x")], [(jute.ALL, "sasl", "x")],
        [(0, "world", "anyone")], [(jute.ALL, "", "")], [(jute.ALL, "digest", "a:b"), (jute.ALL, "x", "y")],
        [(jute.READ, "world", "anyone"), (jute.READ, "world", "anyone")],
    )):  # fmt: skip
        packed = jute.text(client.path(f"/a{number}")) + jute.buffer(b"") + jute.acl(entries) + jute.integer(0)
        client.say(f"create with {entries}", jute.CREATE, packed, jute.Reader.text)
        client.get_acl(f"/a{number}")
    client.create("/set")
    client.set_acl("/set", [])
    client.set_acl("/set", [(jute.ALL, "auth", "")])
    client.get_acl("/set")


@case
def null_scheme_in_an_acl(talk):
    client = talk.client()
    client.create("/a", b"", [(jute.ALL, None, None)])
    client.children("/")


@case
def addresses(talk):
    client = talk.client()
    for entry in ("127.0.0.1", "127.0.0.0/8", "10.0.0.1", "10.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0"):
        path = "/" + entry.replace("/", "-")
        client.create(path, b"x", [(jute.ALL, "ip", entry)])
        client.get(path)
        client.set(path, b"y")


@case
def rights_last_as_long_as_the_connection(talk):
    client = talk.client()
    client.auth("digest", b"ann:secret")
    client.create("/a", b"x", jute.CREATOR_ACL)
    again = talk.client(begin=False)
    again.resume(client)
    again.get("/a")
    again.auth("digest", b"ann:secret")
    again.get("/a")


@case
def wrong_password(talk):
    client = talk.client()
    client.auth("digest", b"ann:secret")
    client.create("/a", b"x", jute.CREATOR_ACL)
    guest = talk.client()
    guest.auth("digest", b"ann:wrong")
    guest.get("/a")
    guest.exists("/a")
    guest.exists("/a", watch=True)
    client.set("/a", b"y")
    guest.drain()


@case
def a_closed_node_blocks_watches_of_what_is_inside(talk):
    owner = talk.client()
    owner.auth("digest", b"ann:secret")
    guest = talk.client()
    owner.create("/closed", b"", jute.CREATOR_ACL)
    guest.add_watch("/closed", 1)
    guest.add_watch("/closed", 0)
    guest.children("/closed", watch=True)
    owner.create("/closed/k", b"", jute.CREATOR_ACL)
    owner.set("/closed", b"x")
    guest.drain()
