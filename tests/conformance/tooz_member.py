"""python3 tooz_member.py URL GROUP NAME: one that belongs to a group, takes its lock and leads it, as far as others let it.

Whenever something has changed it prints what it sees, as a line of JSON. SIGTERM ends it in good order.
"""
import json
import signal
import sys
import threading

import tooz
import tooz_gaps  # noqa: F401
from tooz import coordination

LOOK_SECONDS = 0.2
NO_MEMBER = "leader"  # the zookeeper driver keeps who leads beside the members


class Member:
    def __init__(self, url, group, name):
        self.group, self.name = group.encode(), name
        self.coordinator = coordination.get_coordinator(url, name.encode())
        self.coordinator.start(start_heart=True)
        self.left, self.leads = [], False
        try:
            self.coordinator.create_group(self.group).get()
        except coordination.GroupAlreadyExist:
            pass
        self.coordinator.join_group(self.group, b"what it can do").get()
        self.watches = self.is_there(self.coordinator.watch_leave_group, self.on_left)
        self.elects = self.is_there(self.coordinator.watch_elected_as_leader, self.on_elected)
        self.lock = self.coordinator.get_lock(self.group + b"-lock")
        self.has_lock = False

    def is_there(self, watch, callback):
        """Not every driver can do everything."""
        try:
            watch(self.group, callback)
        except tooz.NotImplemented:
            return False
        return True

    def on_left(self, event):
        if event.member_id.decode() != NO_MEMBER:
            self.left.append(event.member_id.decode())

    def on_elected(self, event):
        self.leads = event.member_id == self.name.encode()

    def look(self):
        try:
            self.coordinator.run_watchers()
        except tooz.NotImplemented:
            self.watches = self.elects = False
        self.has_lock = self.has_lock or self.lock.acquire(blocking=False)
        members = {member.decode() for member in self.coordinator.get_members(self.group).get()} - {NO_MEMBER}
        return {
            "members": sorted(members),
            "has_lock": self.has_lock,
            "leads": self.leads if self.elects else None,
            "left": list(self.left) if self.watches else None,
        }


def main(url, group, name):
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    member = Member(url, group, name)
    before = None
    while not end.wait(LOOK_SECONDS):
        now = member.look()
        if now != before:
            print(json.dumps(now), flush=True)
        before = now
    member.lock.release()
    member.coordinator.stop()


main(*sys.argv[1:])
