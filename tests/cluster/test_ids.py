"""Ids of members: as etcd derives them for a new cluster, unchanged for one of an earlier release."""
import hashlib
import os

from etcd3 import etcdrpc

from harness.cluster import Cluster
from harness.peer_protocol import crc32c
from harness.rpc import CALL_SECONDS

MASK = 2**64 - 1


def _hash_text(state, text):
    for byte in text.encode() + b"\0":
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def legacy_id(token, *texts):
    """As releases 0.1 and 0.2 made ids."""
    state = 0xCBF29CE484222325
    for text in (token, *texts):
        state = _hash_text(state, text)
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def etcd_id(text):
    return int.from_bytes(hashlib.sha1(text).digest()[:8], "big")


def write_identity(server, cluster_id, member_id):
    os.makedirs(server.data_dir, mode=0o700)
    text = f"leased-identity 1\ncluster {cluster_id:016x}\nmember {member_id:016x}\nname {server.name}\n"
    text += f"birth {member_id ^ 1:016x}\n"
    text += f"checksum {crc32c(text.encode()):08x}\n"
    with open(os.path.join(server.data_dir, "identity"), "w", encoding="ascii") as file:
        file.write(text)


def ids_of(cluster):
    answer = cluster.rpc(0).cluster.MemberList(etcdrpc.MemberListRequest(), timeout=CALL_SECONDS)
    return answer.header.cluster_id, sorted(member.ID for member in answer.members)


def test_a_new_cluster_has_the_ids_of_etcd():
    with Cluster() as cluster:
        expected = sorted(etcd_id((one.peer_url + one.token).encode()) for one in cluster.servers)
        together = b"".join(one.to_bytes(8, "big") for one in expected)
        assert ids_of(cluster) == (etcd_id(together), expected)


def test_a_cluster_of_an_earlier_release_keeps_its_ids():
    cluster = Cluster()
    token = cluster[0].token
    members = {server.name: legacy_id(token, server.peer_url) for server in cluster.servers}
    cluster_id = legacy_id(token, *(f"{one:016x}" for one in sorted(members.values())))
    for server in cluster.servers:
        write_identity(server, cluster_id, members[server.name])
    with cluster:
        assert ids_of(cluster) == (cluster_id, sorted(members.values()))
        cluster.rpc(1).put(b"k", b"v")
        cluster.stop(2)
        cluster.restart(2)
        assert cluster.rpc(2).range(b"k").kvs[0].value == b"v"
