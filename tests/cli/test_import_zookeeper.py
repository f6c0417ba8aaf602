"""`lease import zk://…`: the tree of Debian's ZooKeeper goes to leased, and the copy is verified."""
import contextlib
import json
import os
import pty
import signal
import subprocess
import threading

import pytest
from cli_tool import COMMAND_SECONDS, Running, environment, import_lines, lease
from harness import jute
from harness.kinds import lease_tool
from harness.zookeeper import ZooKeeper, leased
from harness.zookeeper_client import Client
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

N_NODES = 10000
DIGEST = ("digest", "ann:secret")
HOUR_MS = 3600 * 1000


@contextlib.contextmanager
def client_of(server, *auth):
    client = KazooClient(server.address, auth_data=list(auth), timeout=30.0)
    client.start(timeout=60.0)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def fill(client, root, n_nodes):
    """Nodes at several depths: 100 folders with nodes each, written in large transactions."""
    client.create(root, b"root")
    for i in range(100):
        transaction = client.transaction()
        transaction.create(f"{root}/f{i}", b"folder")
        for j in range(n_nodes // 100 - 1):
            transaction.create(f"{root}/f{i}/n{j}", b"%d-%d" % (i, j))
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]


@pytest.fixture(scope="module")
def source():
    """Has /many with N_NODES below it; each test has a tree of its own beside that."""
    with ZooKeeper() as server:
        with client_of(server) as client:
            fill(client, "/many", N_NODES)
        yield server


@pytest.fixture(scope="module")
def old(source):
    with client_of(source) as client:
        yield client


@pytest.fixture()
def destination():
    with leased() as server:
        yield server


def import_tree(source, destination, path, *words):
    done = lease("import", f"zk://{source.address}{path}", "--to", destination.address, "--json", *words)
    return done, json.loads(done.stdout) if done.stdout else None


def tree_of(client, path):
    """All that is copied, by path."""
    data, _ = client.get(path)
    acls, _ = client.get_acls(path)
    found = {path: (data, acls)}
    for name in client.get_children(path):
        child = f"{path}/{name}"
        if client.exists(child).ephemeralOwner == 0:
            found.update(tree_of(client, child))
    return found


def test_ten_thousand_nodes_are_copied_and_verified(source, destination):
    done, result = import_tree(source, destination, "/")
    assert done.returncode == 0, done.stderr
    assert result["verified"] and result["copied"] >= N_NODES and result["failed"] == 0, result
    with client_of(destination) as new:
        assert len(new.get_children("/many")) == 100
        assert new.get("/many/f99/n7")[0] == b"99-7"
    # A second time there is nothing to do, and --replace is not needed.
    done, result = import_tree(source, destination, "/")
    assert done.returncode == 0, done.stderr
    assert (result["copied"], result["replaced"], result["rounds"]) == (0, 0, 1)


def test_the_commands_of_the_pages(source, destination, old):
    old.create("/other/node", b"x", makepath=True)
    for page in ("docs/lease-cli.md", "docs/migrating-from-zookeeper.md"):
        lines = list(import_lines(page, "zk", source.address, destination.address))
        assert lines
        for words in lines:  # a part of the tree in place of the whole, so that it is short
            words[1] = f"zk://{source.address}/other"
            done = lease(*words)
            assert done.returncode == 0, (words, done.stderr)
    with client_of(destination) as new:
        assert tree_of(new, "/other") == tree_of(old, "/other")


def test_access_lists_and_sequences_are_the_same(source, destination, old):
    old.create("/app", b"")
    old.create("/app/null", None)
    old.create("/app/large", bytes(range(256)) * 2000)
    old.create("/app/with \u00fcmlaut", b"x")
    old.create("/app/readable", b"r")
    old.create("/app/readable/below", b"s")
    old.set_acls("/app/readable", [make_acl("world", "anyone", read=True)])
    old.create("/app/ip", b"i", acl=[make_acl("ip", "127.0.0.1", all=True), make_acl("world", "anyone", read=True)])
    old.create("/app/queue", b"")
    for _ in range(5):
        old.create("/app/queue/item-", b"", sequence=True)
    old.delete("/app/queue/item-0000000001")
    old.delete("/app/queue/item-0000000004")
    old.create("/app/session", b"", ephemeral=True)
    with client_of(source, DIGEST) as owner:
        owner.create("/app/closed", b"c", acl=[make_digest_acl("ann", "secret", all=True)])
        owner.create("/app/closed/below", b"d", acl=[make_digest_acl("ann", "secret", read=True, admin=True)])
    done, result = import_tree(source, destination, "/app")
    assert done.returncode == 1 and "/app/closed" in done.stderr and "--auth" in done.stderr, done.stderr
    done, result = import_tree(source, destination, "/app", "--auth", "digest:ann:secret")
    assert done.returncode == 0, done.stderr
    assert result["verified"] and result["ephemeral"] == 1, result
    with client_of(source, DIGEST) as before, client_of(destination, DIGEST) as after:
        assert tree_of(after, "/app") == tree_of(before, "/app")
        # The next number of the sequence is the same, though its last node is gone.
        expected = before.create("/app/queue/item-", b"", sequence=True)
        assert after.create("/app/queue/item-", b"", sequence=True) == expected == "/app/queue/item-0000000005"


def test_containers_and_ttl_nodes_become_persistent_and_the_path_may_be_another(source, destination, old):
    with Client(source.address) as client:
        client.connect()
        client.create("/kinds")
        client.request(jute.CREATE_CONTAINER, jute.create("/kinds/container", flags=jute.CONTAINER))
        client.create("/kinds/container/child", b"x")
        client.request(jute.CREATE_TTL, jute.create_ttl("/kinds/ttl", ttl_ms=HOUR_MS))
    done, _ = import_tree(source, destination, "/kinds", "--to", f"{destination.address}/other/place")
    assert done.returncode == 0, done.stderr
    with client_of(destination) as new:
        copied = {path.replace("/other/place", "/kinds"): node for path, node in tree_of(new, "/other/place").items()}
    assert copied == tree_of(old, "/kinds")
    assert set(copied) == {"/kinds", "/kinds/container", "/kinds/container/child", "/kinds/ttl"}


def test_a_long_sequence_goes_on(source, destination, old):
    old.create("/queue", b"")
    for _ in range(30):
        transaction = old.transaction()
        for _ in range(100):
            transaction.create("/queue/x", b"")
            transaction.delete("/queue/x")
        transaction.commit()
    done, _ = import_tree(source, destination, "/queue")
    assert done.returncode == 0, done.stderr
    with client_of(destination) as new:
        assert new.get_children("/queue") == []
        assert new.create("/queue/s", b"", sequence=True) == "/queue/s0000003000"


def test_what_is_there_is_kept_unless_it_may_be_replaced(source, destination, old):
    old.create("/kept/a", b"1", makepath=True)
    old.create("/kept/b", b"2")
    with client_of(destination) as new:
        new.create("/kept/a", b"other", makepath=True)
        new.create("/kept/c/d", b"theirs", makepath=True)
        done, result = import_tree(source, destination, "/kept")
        assert done.returncode == 1 and "--replace" in done.stderr, done.stderr
        assert new.get("/kept/a")[0] == b"other" and new.exists("/kept/b") is None
        done, result = import_tree(source, destination, "/kept", "--dry-run")
        assert done.returncode == 0, done.stderr
        assert (result["copied"], result["replaced"], result["removed"]) == (1, 1, 2), result
        assert new.get("/kept/a")[0] == b"other"
        # A session of the destination keeps its own.
        new.create("/kept/session", b"", ephemeral=True)
        done, result = import_tree(source, destination, "/kept", "--replace")
        assert done.returncode == 0 and result["verified"], done.stderr
        assert tree_of(new, "/kept") == tree_of(old, "/kept") and new.exists("/kept/session")


def test_a_planted_difference_is_found(source, destination, old):
    old.create("/planted/node", b"true", makepath=True)
    assert import_tree(source, destination, "/planted")[0].returncode == 0
    with client_of(destination) as new:
        for plant in (lambda: new.set("/planted/node", b"false"), lambda: new.create("/planted/more", b""),
                      lambda: new.set_acls("/planted/node", [make_acl("ip", "127.0.0.1", all=True)])):
            plant()
            done, result = import_tree(source, destination, "/planted")
            assert done.returncode == 1 and not result["verified"], result
            done, result = import_tree(source, destination, "/planted", "--replace")
            assert done.returncode == 0 and result["replaced"] + result["removed"] == 1, result


def test_what_is_written_meanwhile_is_copied_too(source, destination, old):
    fill(old, "/live", 1000)
    stop = threading.Event()

    def write():
        i = 0
        while not stop.is_set():
            folder = f"/live/f{i % 100}"
            old.set(f"{folder}/n3", b"changed %d" % i)
            old.create(f"{folder}/new{i}", b"x")
            if i % 3 == 0:
                old.delete(f"{folder}/new{i}")
            i += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        done, result = import_tree(source, destination, "/live", "--rounds", "3")
    finally:
        stop.set()
        thread.join()
    assert done.returncode in (0, 1) and result["copied"] > 0, (result, done.stderr)
    # The writer has stopped: this run ends with a verified copy.
    done, result = import_tree(source, destination, "/live", "--replace")
    assert done.returncode == 0 and result["verified"], done.stderr
    with client_of(destination) as new:
        for i in range(0, 100, 20):
            assert tree_of(new, f"/live/f{i}") == tree_of(old, f"/live/f{i}")


def test_ctrl_c_leaves_whole_nodes_and_the_same_command_goes_on(source, destination):
    with client_of(destination) as new, Running(
            "import", f"zk://{source.address}/many", "--to", destination.address) as running:
        seen = threading.Event()
        new.ChildrenWatch("/", lambda names: seen.set() if "many" in names else None)
        assert seen.wait(COMMAND_SECONDS)
        running.signal(signal.SIGINT)
        code = running.wait()
        errors = running.error_line()
        assert (code, errors) == (0, None) or (code == 130 and "goes on" in errors)
    done, result = import_tree(source, destination, "/many")
    assert done.returncode == 0 and result["verified"], done.stderr


def test_a_terminal_shows_how_far_it_is(source, destination):
    parent, child = pty.openpty()
    with subprocess.Popen(
            [lease_tool(), "import", f"zk://{source.address}/many", "--to", destination.address],
            stdout=subprocess.PIPE, stderr=child, env=environment()) as process:
        os.close(child)
        shown = b""
        with contextlib.suppress(OSError):  # the other side was closed
            while part := os.read(parent, 65536):
                shown += part
        out, _ = process.communicate(timeout=COMMAND_SECONDS)
    os.close(parent)
    assert process.returncode == 0, shown
    assert b" nodes (" in shown and b"/s, " in shown and b" left" in shown, shown
    assert b"verified" in out


def test_errors_say_what_to_do(source, destination):
    done, _ = import_tree(source, destination, "/no/such")
    assert done.returncode == 1 and "no node /no/such" in done.stderr
    done = lease("import", f"zk://{source.address}", server=destination)
    assert done.returncode == 1 and "--listen-zookeeper" in done.stderr, done.stderr
    done = lease("import", "zk://127.0.0.1:1", "--to", destination.address)
    assert done.returncode == 1 and "cannot be reached" in done.stderr
    for words in (["mysql://x"], ["zk://h:1//x"], ["zk://h:1", "--match", "x"], ["redis://h:1/x"],
                  ["redis://h:1", "--auth", "digest:a:b"], ["zk://h:1", "--to", "redis://h:1"]):
        assert lease("import", *words).returncode == 2, words
