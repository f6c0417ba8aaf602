"""lock and elect: what sessions with a lease of their own do."""

# Keys of both are a name and the lease's id.
LOCK_LEASE = r"(?m)^lo/\w+/([0-9a-f]+)$"
ELECT_LEASE = r"(?m)^el/\w+/([0-9a-f]+)$"


def locking(s):
    show = 'echo "rev=$ETCD_LOCK_REV"'
    s.run("lock", "lo/exec", "--", "sh", "-c", show)
    s.run("lock", "lo/exec", "--ttl=5", "--", "sh", "-c", "exit 7")
    s.run("get", "lo/", "--prefix", "-w", "json")
    holder = s.background("lock", "lo/name")
    holder.wait_for_output("lo/name")
    waiter = s.background("lock", "lo/name", "echo", "got it")
    # The waiter's key stands behind the holder's before the lock is given up.
    s.wait_for_keys("lo/name", 2)
    s.note("waiter before unlock", waiter.output(), "", 0)
    holder.stop(leases=LOCK_LEASE)
    waiter.wait_for_output("got it")
    waiter.end(leases=LOCK_LEASE)
    s.run("get", "lo/", "--prefix", "-w", "json")
    s.run("lock")


def electing(s):
    observer = s.background("elect", "-l", "el/name")
    leader = s.background("elect", "el/name", "first")
    leader.wait_for_output("first")
    observer.wait_for_output("first")
    follower = s.background("elect", "el/name", "second")
    s.wait_for_keys("el/name", 2)
    s.note("follower before resignation", follower.output(), "", 0)
    leader.stop(leases=ELECT_LEASE)
    follower.wait_for_output("second")
    observer.wait_for_output("second")
    follower.stop(leases=ELECT_LEASE)
    s.wait_for_keys("el/name", 0)
    observer.stop()
    s.run("get", "el/", "--prefix", "-w", "json")
    s.run("elect", "el/name", "-l", "proposal")
    s.run("elect")
