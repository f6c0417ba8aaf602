"""lease grant, timetolive, keep-alive, revoke, list; and what expiry leaves."""


def granting(s):
    s.run("lease", "list")
    s.run("lease", "list", "-w", "json")
    hour = s.grant(3600)
    minute = s.grant(60)
    longest = s.grant(9000000000)
    as_json = s.grant(600, "-w", "json")
    as_fields = s.grant(700, "-w", "fields")
    s.grant(9000000001)
    s.grant("9223372036854775807")
    s.grant("many")
    s.grant()
    s.grant(1, 2)
    for form in ("simple", "json", "fields", "table"):
        s.run("lease", "timetolive", longest, "-w", form)
    for lease in (hour, minute, longest, as_json, as_fields):
        s.run("lease", "revoke", lease)


def looking_at(s):
    short = s.grant(100)
    middle = s.grant(200)
    empty = s.grant(300)
    for form in ("simple", "json", "fields", "table"):
        s.run("lease", "list", "-w", form)
    for name in ("b", "a", "c"):
        s.run("put", f"lt/{name}", name, f"--lease={middle}")
    s.run("put", "lt/only", "x", f"--lease={short}")
    for form in ("simple", "json", "fields", "table"):
        s.run("lease", "timetolive", short, "-w", form)
        s.run("lease", "timetolive", short, "--keys", "-w", form)
        s.run("lease", "timetolive", empty, "--keys", "-w", form)
        s.run("lease", "timetolive", "123abc", "-w", form)
        s.run("lease", "timetolive", "123abc", "--keys", "-w", form)
    s.run("del", "lt/a")
    s.run("put", "lt/b", "free")
    s.run("lease", "timetolive", middle, "--keys")
    s.run("lease", "timetolive", "not-hexadecimal")
    s.run("lease", "timetolive")
    for lease in (short, middle, empty):
        s.run("lease", "revoke", lease)
    s.run("lease", "list")


def keeping_alive(s):
    lease = s.grant(300)
    for form in ("simple", "json", "fields", "table"):
        s.run("lease", "keep-alive", lease, "--once", "-w", form)
    s.run("lease", "keep-alive", "123abc", "--once")
    s.run("lease", "keep-alive", "123abc")
    s.run("lease", "keep-alive", "not-hexadecimal", "--once")
    s.run("lease", "keep-alive")
    s.run("lease", "timetolive", lease)
    s.run("lease", "revoke", lease)
    s.run("lease", "keep-alive", lease, "--once")
    # Renewed for as long as the command runs; it ends when the lease does.
    held = s.grant(3)
    s.run("put", "lk/held", "x", f"--lease={held}")
    renewing = s.background("lease", "keep-alive", held)
    renewing.wait_for_output("keepalived with TTL(3)", count=4)
    s.run("get", "lk/held")
    s.run("lease", "revoke", held)
    renewing.end(edit=lambda text: "\n".join(dict.fromkeys(text.splitlines())))
    s.run("get", "lk/held")


def revoking(s):
    lease = s.grant(300)
    for name in ("b", "c", "a"):
        s.run("put", f"lr/{name}", name, f"--lease={lease}")
    s.run("put", "lr/free", "x")
    s.run("lease", "revoke", lease)
    s.run("lease", "revoke", lease)
    s.run("get", "lr/", "--prefix", "-w", "json")
    s.run("lease", "revoke", "123abc")
    s.run("lease", "revoke", "not-hexadecimal")
    s.run("lease", "revoke")
    empty = s.grant(300)
    s.run("lease", "revoke", empty, "-w", "json")
    again = s.grant(300)
    s.run("put", "lr/again", "x", f"--lease={again}")
    s.run("lease", "revoke", again, "-w", "fields")
    s.run("get", "lr/", "--prefix", "-w", "json")


def expiring(s):
    start = s.revision() + 1
    watch = s.background("watch", "le/", "--prefix", f"--rev={start}", "--prev-kv")
    lease = s.grant(3)
    for name in ("b", "a", "c"):
        s.run("put", f"le/{name}", name, f"--lease={lease}")
    s.run("put", "le/kept", "x", f"--lease={lease}")
    s.run("put", "le/kept", "y")
    watch.wait_for_output("DELETE", count=3)
    s.run("put", "le/end", "of events")
    watch.wait_for_output("of events")
    watch.stop()
    s.run("lease", "timetolive", lease)
    s.run("lease", "keep-alive", lease, "--once")
    s.run("lease", "revoke", lease)
    s.run("lease", "list")
    s.run("put", "le/late", "x", f"--lease={lease}")
    s.run("get", "le/", "--prefix", "-w", "json")
    # What nobody may wait for: the smallest TTL.
    s.grant(0)
    s.grant("--", -5)
    s.grant(1)
