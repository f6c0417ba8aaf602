"""Lease."""
from etcd3 import etcdrpc

from .case import case

HUGE = 2**63 - 1
KEEP_ALIVE_SECONDS = 20.0


def grant(talk, label, ttl, lease_id):
    talk.say(label, talk.rpc.grant, ttl, lease_id)


@case
def grants(talk):
    grant(talk, "plain", 600, 1001)
    grant(talk, "again", 600, 1001)
    grant(talk, "negative id", 600, -1001)
    grant(talk, "largest id", 600, HUGE)
    grant(talk, "smallest id", 600, -HUGE - 1)
    grant(talk, "longest", 9_000_000_000, 1002)
    grant(talk, "too long", 9_000_000_001, 1003)
    grant(talk, "far too long", HUGE, 1004)
    for lease_id in (1001, -1001, HUGE, -HUGE - 1, 1002):
        talk.say(f"revoke {lease_id}", talk.rpc.revoke, lease_id)
    talk.say("revoke again", talk.rpc.revoke, 1001)
    talk.say("revoke 0", talk.rpc.revoke, 0)


@case
def time_to_live(talk):
    grant(talk, "grant", 600, 2001)
    for name in ("z", "a", "m"):
        talk.rpc.put(talk.at(name), b"", lease=2001)
    for keys in (False, True):
        for lease_id in (2001, 0, 9999, -1):
            answer = talk.rpc.time_to_live(lease_id, keys=keys)
            facts = (answer.ID, answer.grantedTTL, answer.TTL > 500, answer.TTL < 0)
            talk.note(f"{lease_id} {keys}: {facts} {sorted(answer.keys)}")
    talk.say("header", lambda: talk.rpc.time_to_live(0).header)
    talk.say("revoke", talk.rpc.revoke, 2001)
    talk.say("gone", talk.rpc.range, talk.at(), talk.end())


@case
def leases(talk):
    for lease_id, ttl in ((3003, 900), (3001, 700), (3002, 800)):
        grant(talk, "grant", ttl, lease_id)
    talk.note(f"order {talk.rpc.leases()}")
    for lease_id in (3001, 3002, 3003):
        talk.rpc.revoke(lease_id)


@case
def keep_alives(talk):
    grant(talk, "grant", 600, 4001)
    with talk.rpc.keep_alive() as stream:
        for lease_id in (4001, 0, 9999, -1, 4001):
            stream.send(etcdrpc.LeaseKeepAliveRequest(ID=lease_id))
            talk.note(f"{lease_id}: {talk.text(stream.receive(KEEP_ALIVE_SECONDS))}")
        talk.rpc.revoke(4001)
        stream.send(etcdrpc.LeaseKeepAliveRequest(ID=4001))
        talk.note(f"revoked: {talk.text(stream.receive(KEEP_ALIVE_SECONDS))}")


@case
def moved_keys(talk):
    grant(talk, "one", 600, 5001)
    grant(talk, "other", 600, 5002)
    talk.say("attach", talk.rpc.put, talk.at("k"), b"1", lease=5001)
    talk.say("move", talk.rpc.put, talk.at("k"), b"2", lease=5002, prev_kv=True)
    talk.say("revoke the first", talk.rpc.revoke, 5001)
    talk.say("still there", talk.rpc.range, talk.at("k"))
    talk.say("detach", talk.rpc.put, talk.at("k"), b"3")
    talk.say("revoke the other", talk.rpc.revoke, 5002)
    talk.say("still there", talk.rpc.range, talk.at("k"))
