"""watch: live, from history, several in one command, from compacted history."""


def _without_readiness(text):
    """Drops the events that only showed that the watch had begun."""
    lines = text.split("\n")
    return "\n".join(lines[lines.index("begin") :]) if "begin" in lines else text


def _when_watching(s, watch, key):
    """etcdctl does not say when its watch exists, so we put until it shows an event."""
    for _ in range(100):
        s.server_put(key, "ready?")
        if watch.wait_for_output("ready?", timeout_s=0.1):
            break


def watching_live(s):
    s.run("put", "wl/a", "before")
    for words in (
        ("wl/a",),
        ("wl/", "--prefix"),
        ("wl/a", "wl/b"),
        ("wl/", "--prefix", "--prev-kv"),
    ):
        # A marker of its own: --prev-kv shows that of the watch before.
        end = "end of " + " ".join(words)
        watch = s.background("watch", *words)
        _when_watching(s, watch, "wl/a")
        s.align()
        s.run("put", "wl/a", "begin")
        s.run("put", "wl/ab", "within every range")
        s.run("put", "wl/c", "outside some")
        s.run("del", "wl/a")
        s.run("put", "wl/a", "created again")
        s.run("del", "wl/", "--prefix")
        s.run("txn", stdin="\nput wl/a in-txn\nput wl/ab in-txn\nput wl/b in-txn\n\n\n")
        s.run("put", "wl/a", end)
        watch.wait_for_output(end)
        watch.stop(edit=_without_readiness)
    s.run("watch")
    s.run("watch", "a", "--rev=x")


def watching_history(s):
    start = s.revision() + 1
    s.run("put", "wh/a", "1")
    s.run("put", "wh/b", "2")
    s.run("put", "other", "3")
    s.run("put", "wh/a", "4")
    s.run("del", "wh/a")
    s.run("txn", stdin="\nput wh/a 5\nput wh/c 6\ndel wh/b\n\n\n")
    s.run("put", "wh/a", "end-of-history")
    for words in (
        ("wh/a",),
        ("wh/a", "--prev-kv"),
        ("wh/", "--prefix"),
        ("wh/", "--prefix", "--prev-kv"),
        ("wh/a", "wh/b"),
        ("wh/", "--prefix", "--hex"),
    ):
        watch = s.background("watch", *words, f"--rev={start}")
        watch.wait_for_output(r"\x68\x69\x73" if "--hex" in words else "end-of-history")
        watch.stop()
    for form, marker in (("json", "ZW5kLW9mLWhpc3Rvcnk"), ("fields", "end-of-history")):
        watch = s.background("watch", "wh/", "--prefix", "--prev-kv", f"--rev={start}", "-w", form)
        watch.wait_for_output(marker)
        watch.stop()
    later = s.background("watch", "wh/", "--prefix", f"--rev={start + 4}")
    later.wait_for_output("end-of-history")
    later.stop()
    future = s.background("watch", "wh/a", f"--rev={s.revision() + 3}")
    s.run("put", "wh/a", "too early 1")
    s.run("put", "wh/a", "too early 2")
    s.run("put", "wh/a", "due")
    future.wait_for_output("due")
    future.stop()
    # A command is run for each event, with the event in its environment.
    show = 'echo "$ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY $ETCD_WATCH_VALUE"'
    executing = s.background(
        "watch", "wh/", f"--rev={start}", "--prefix", "--", "sh", "-c", show
    )
    executing.wait_for_output('"due"', count=1)
    executing.stop()


def watching_several(s):
    start = s.revision() + 1
    watch = s.background("watch", "-i")
    watch.write(f"watch --rev={start} ws/a\n")
    watch.write(f"watch --rev={start} --prefix --prev-kv ws/p/\n")
    watch.write(f"watch --rev={start} ws/x ws/z\n")
    steps = [
        (("put", "ws/a", "one"), "one"),
        (("put", "ws/p/1", "two"), "two"),
        (("put", "ws/y", "three"), "three"),
        (("put", "ws/p/1", "four"), "four"),
        (("del", "ws/p/1"), "DELETE"),
        (("put", "ws/z", "unseen"), None),
        (("put", "ws/a", "five"), "five"),
    ]
    for words, seen in steps:
        s.run(*words)
        if seen:
            # One at a time: the order among watches of one command is nobody's promise.
            watch.wait_for_output(seen)
    watch.stop()
    wrong = s.background("watch", "-i")
    wrong.write("frobnicate\n")
    wrong.end()


def watching_compacted(s):
    start = s.revision() + 1
    for number in range(4):
        s.run("put", "wc/a", number)
    s.run("compaction", start + 2)
    s.run("watch", "wc/a", f"--rev={start}")
    s.run("watch", "wc/", "--prefix", f"--rev={start + 1}")
    s.run("watch", "wc/a", f"--rev={start}", "-w", "json")
    kept = s.background("watch", "wc/a", f"--rev={start + 2}")
    kept.wait_for_output("3")
    kept.stop()
    with_previous = s.background("watch", "wc/a", f"--rev={start + 2}", "--prev-kv")
    with_previous.wait_for_output("3")
    with_previous.stop()
