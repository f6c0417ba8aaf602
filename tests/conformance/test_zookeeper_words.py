"""The four-letter words, for whoever watches over an ensemble: the same lines at ZooKeeper and at leased."""
import re
import time

import pytest
from kazoo.client import KazooClient

from harness import zookeeper
from harness.zookeeper_client import Client

PROGRAM_SECONDS = 90.0


@pytest.fixture(scope="module")
def pair():
    with zookeeper.ZooKeeper() as original, zookeeper.leased() as ours:
        yield original, ours


def test_kazoo_reads_the_version(pair):
    for server in pair:
        client = KazooClient(hosts=server.address)
        client.start(timeout=PROGRAM_SECONDS)
        assert client.server_version() >= (3, 4)
        assert client.command(b"ruok") == "imok"
        client.stop()


def keys_of(text, separator):
    return {line.split(separator)[0] for line in text.splitlines() if separator in line}


def test_words(pair):
    """What monitoring reads: the same lines with the same names."""
    original, ours = (server.address for server in pair)
    for word in ("ruok", "isro"):
        assert zookeeper.word(ours, word) == zookeeper.word(original, word)
    for word in ("srvr", "stat"):
        missing = keys_of(zookeeper.word(original, word), ": ") - keys_of(zookeeper.word(ours, word), ": ")
        assert not missing, word
    expected = {"zk_version", "zk_server_state", "zk_avg_latency", "zk_max_latency", "zk_min_latency",
                "zk_packets_received", "zk_packets_sent", "zk_num_alive_connections", "zk_outstanding_requests",
                "zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_approximate_data_size",
                "zk_open_file_descriptor_count", "zk_max_file_descriptor_count"}  # fmt: skip
    for address in (original, ours):
        assert expected <= keys_of(zookeeper.word(address, "mntr"), "\t")
    assert {"clientPort", "tickTime", "minSessionTimeout", "maxSessionTimeout"} <= keys_of(
        zookeeper.word(ours, "conf"), "="
    )
    assert zookeeper.word(ours, "envi").startswith("Environment:\n")


def test_words_about_sessions(pair):
    for server in pair:
        with Client(server.address).connect() as client:
            client.create("/of-words", flags=1)
            client.exists("/of-words", watch=True)
            session = f"0x{client.session_id & (2**64 - 1):x}"
            assert re.search(r"[1-9]\d* connections watching [1-9]\d* paths\nTotal watches:[1-9]",
                             zookeeper.word(server.address, "wchs"))  # fmt: skip
            assert session in zookeeper.word(server.address, "cons"), server.kind
            dump = zookeeper.word(server.address, "dump")
            assert session in dump and "/of-words" in dump, server.kind
            client.end()


def test_half_a_word_and_an_unknown_one(pair):
    for server in pair:
        with Client(server.address) as client:
            client.send(b"ruo")
            client.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.receive_frame()
            client.socket.settimeout(PROGRAM_SECONDS)
            client.send(b"k")
            assert client.socket.recv(100) == b"imok"
        # Not a word: the length of a frame that is far too long.
        with Client(server.address) as client:
            client.send(b"nope")
            assert client.is_closed()


def test_words_are_answered_quickly_while_others_work(pair):
    _, ours = pair
    begin = time.monotonic()
    for _ in range(50):
        assert zookeeper.word(ours.address, "ruok") == "imok"
    assert time.monotonic() - begin < PROGRAM_SECONDS
