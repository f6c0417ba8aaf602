#!/usr/bin/env python3
"""What a Spring application does with Eureka, in a page of Python: it registers, beats, keeps a list of all instances
by the delta, and leaves when it stops.

    leased --doors etcd,native,registry,eureka --listen-eureka 127.0.0.1:8761
    examples/eureka/client.py --app orders --port 8080
"""
import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request


class Registry:
    """Requests to the server, and the list of instances that is kept here."""

    def __init__(self, url):
        self.url = url
        self.apps = None  # {application: {id: instance}}

    def ask(self, method, path, body=None):
        """(status, document); 404 is an answer, too."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, None

    def hash_code(self):
        """How many instances have each status: the server says the same of the whole."""
        counts = {}
        for instances in self.apps.values():
            for instance in instances.values():
                counts[instance["status"]] = counts.get(instance["status"], 0) + 1
        return "".join(f"{status}_{counts[status]}_" for status in sorted(counts))

    def fetch(self):
        """All of it the first time, and whenever what was kept here does not fit."""
        if self.apps is not None:
            _, document = self.ask("GET", "apps/delta")
            for app in document["applications"]["application"]:
                for instance in app["instance"]:
                    kept = self.apps.setdefault(app["name"], {})
                    kept.pop(instance["instanceId"], None)
                    if instance["actionType"] != "DELETED":
                        kept[instance["instanceId"]] = instance
            if self.hash_code() == document["applications"]["apps__hashcode"]:
                return
        _, document = self.ask("GET", "apps/")
        self.apps = {app["name"]: {one["instanceId"]: one for one in app["instance"]}
                     for app in document["applications"]["application"]}


def description(app, port, interval):
    """The instance: its lease is three times as long as the interval of its beats."""
    host = socket.gethostname()
    return {
        "instanceId": f"{host}:{app}:{port}:{os.getpid()}", "hostName": host, "ipAddr": "127.0.0.1", "app": app.upper(),
        "vipAddress": app, "status": "UP", "port": {"$": port, "@enabled": "true"},
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {"renewalIntervalInSecs": max(1, round(interval)), "durationInSecs": max(3, round(3 * interval))},
        "metadata": {"pid": str(os.getpid())}, "lastDirtyTimestamp": str(int(time.time() * 1000)),
    }  # fmt: skip


def show(registry):
    for name, instances in sorted(registry.apps.items()):
        for instance in instances.values():
            print(f"{name} {instance['ipAddr']}:{instance['port']['$']} {instance['status']}", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--url", default="http://127.0.0.1:8761/eureka/")
    options.add_argument("--app", default="orders")
    options.add_argument("--port", type=int, default=8080)
    options.add_argument("--interval", type=float, default=10, help="seconds between two beats")
    options.add_argument("--beats", type=int, default=0, help="leave after so many; 0: at Ctrl-C")
    chosen = options.parse_args()
    registry = Registry(chosen.url)
    mine = description(chosen.app, chosen.port, chosen.interval)
    place = f"apps/{mine['app']}/{mine['instanceId']}"
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def register():
        status, _ = registry.ask("POST", f"apps/{mine['app']}", {"instance": mine})
        if status != 204:
            sys.exit(f"the registration was refused: HTTP {status}")
        print(f"registered {mine['app']} {mine['instanceId']}", flush=True)

    register()
    registry.fetch()
    beats = 0
    while not stop.wait(chosen.interval) and not 0 < chosen.beats <= beats:
        status, _ = registry.ask("PUT", f"{place}?status=UP&lastDirtyTimestamp={mine['lastDirtyTimestamp']}")
        if status == 404:  # the lease ran out while nobody beat
            register()
        registry.fetch()
        beats += 1
    show(registry)
    registry.ask("DELETE", place)
    print("canceled", flush=True)


if __name__ == "__main__":
    main()
