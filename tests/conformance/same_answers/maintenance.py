"""Maintenance and Cluster."""
from etcd3 import etcdrpc

from harness.rpc import CALL_SECONDS

from .case import case

Alarm = etcdrpc.AlarmRequest


def ask(method, request):
    return lambda: method(request, timeout=CALL_SECONDS)


@case(since=(3, 5))
def alarms(talk):
    alarm = talk.rpc.maintenance.Alarm
    for action in (Alarm.GET, Alarm.DEACTIVATE):
        for kind in (0, 1, 2):
            talk.say(f"{action} {kind}", ask(alarm, Alarm(action=action, alarm=kind)))
    member = talk.rpc.put(talk.at("k")).header.member_id
    for action in (Alarm.ACTIVATE, Alarm.ACTIVATE, Alarm.GET, Alarm.DEACTIVATE, Alarm.DEACTIVATE, Alarm.GET):
        answer = alarm(Alarm(action=action, memberID=member, alarm=1), timeout=CALL_SECONDS)
        raised = [(one.memberID == member, one.alarm) for one in answer.alarms]
        talk.note(f"{action}: {answer.HasField('header')} {raised}")
        talk.say("put", talk.rpc.put, talk.at("k"))


@case(since=(3, 5))
def hashes(talk):
    for number in range(4):
        talk.rpc.put(talk.at("k"), b"%d" % number)
    talk.rpc.compact(talk.base + 2)
    base = talk.base
    revisions = {"compacted": base + 1, "kept": base + 2, "later": base + 3, "newest": base + 4,
                 "future": base + 5, "none": 0, "negative": -1}  # fmt: skip
    for label, revision in revisions.items():
        request = etcdrpc.HashKVRequest(revision=revision)
        answer = talk.rpc.maintenance.HashKV
        talk.say(label, lambda: answer(request, timeout=CALL_SECONDS).header)


@case
def members(talk):
    cluster = talk.rpc.cluster
    talk.say("add without URLs", ask(cluster.MemberAdd, etcdrpc.MemberAddRequest()))
    for url in ("", "127.0.0.1:1", "http://127.0.0.1", "ftp://127.0.0.1:1",
                "http://127.0.0.1:1/path", "http://host:port"):  # fmt: skip
        talk.say(f"add {url}", ask(cluster.MemberAdd, etcdrpc.MemberAddRequest(peerURLs=[url])))
    unknown = etcdrpc.MemberUpdateRequest(ID=1, peerURLs=["http://127.0.0.1:1"])
    talk.say("update unknown", ask(cluster.MemberUpdate, unknown))
    talk.say("remove unknown", ask(cluster.MemberRemove, etcdrpc.MemberRemoveRequest(ID=1)))
    me = cluster.MemberList(etcdrpc.MemberListRequest(), timeout=CALL_SECONDS)
    own = me.members[0]
    talk.note(f"header {me.header.revision}")
    talk.say("add a known URL", ask(cluster.MemberAdd, etcdrpc.MemberAddRequest(peerURLs=own.peerURLs)))
    talk.say("remove the only one", ask(cluster.MemberRemove, etcdrpc.MemberRemoveRequest(ID=own.ID)))


@case
def leadership_and_defragmentation(talk):
    raw = talk.rpc.channel.unary_unary
    for label, method, request in (
        ("defragment", "Maintenance/Defragment", b""),
        ("move to nobody", "Maintenance/MoveLeader", b""),
        ("move to an unknown member", "Maintenance/MoveLeader", b"\x08\x05"),
        ("promote an unknown member", "Cluster/MemberPromote", b"\x08\x05"),
    ):
        talk.say(label, lambda: raw(f"/etcdserverpb.{method}")(request, timeout=CALL_SECONDS))


@case
def status(talk):
    answer = talk.rpc.maintenance.Status(etcdrpc.StatusRequest(), timeout=CALL_SECONDS)
    talk.note(f"leads {answer.leader == answer.header.member_id}")
    talk.note(f"term {answer.raftTerm == answer.header.raft_term}")
    talk.note(f"sizes {answer.dbSize > 0} {answer.raftIndex > 0}")
