#!/usr/bin/python3
"""Fencing with an object store that can write on condition, as S3 with If-Match.

The store knows nothing of leases. Each object carries the token of its writer; a writer reads the object, gives up if
its token is older, and writes on condition that the version is still the one it read. Whoever comes in between changes
the version, so a stale writer's write is refused by the store.
"""
import json
import threading


class Conflict(Exception):
    """The object's version is not the expected one (S3: 412 Precondition Failed)."""


class Store:
    """What such a store promises: get with a version, put on condition. Stands for the real one."""

    def __init__(self):
        self._mutex = threading.Lock()
        self._objects = {}

    def get(self, name):
        """(version, content); (0, None): there is none."""
        with self._mutex:
            return self._objects.get(name, (0, None))

    def put(self, name, content, if_match):
        with self._mutex:
            version, _ = self._objects.get(name, (0, None))
            if version != if_match:
                raise Conflict(name)
            self._objects[name] = (version + 1, content)


class Stale(Exception):
    """Somebody with a newer token has written."""


def write(store, name, token, value):
    """Writes unless a newer token was seen."""
    while True:
        version, content = store.get(name)
        if content is not None and json.loads(content)["token"] > token:
            raise Stale(f"token {token} is older than one that was seen; the lock is somebody else's")
        try:
            store.put(name, json.dumps({"token": token, "value": value}), if_match=version)
            return
        except Conflict:
            pass  # somebody wrote meanwhile: look again at whose token it was


def read(store, name):
    _, content = store.get(name)
    return None if content is None else json.loads(content)["value"]
