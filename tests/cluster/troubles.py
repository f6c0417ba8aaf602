"""What happens to nodes at random, chosen by a seeded generator, until a given moment."""
import time


def kill_and_stop(cluster, choose, until):
    """Kills and stops leaders, and now and then another; counts what it did."""
    done = {"kills": 0, "stops": 0}
    while time.monotonic() < until:
        time.sleep(choose.uniform(0.2, 0.8))
        node = cluster.leader() if choose.random() < 0.8 else choose.randrange(len(cluster))
        if choose.random() < 0.5:
            cluster.kill(node)
            time.sleep(choose.uniform(0, 1.0))
            cluster.restart(node)
            done["kills"] += 1
        else:
            cluster.pause(node)
            # Around the time at which the others give up on it.
            time.sleep(choose.uniform(0.1, 1.0))
            cluster.resume(node)
            done["stops"] += 1
    return done


def flap(cluster, choose, until):
    """One link after the other goes and comes back; counts how often."""
    network, count = cluster.network, 0
    while time.monotonic() < until:
        one, two = choose.sample(range(len(cluster)), 2)
        trouble = choose.choice(["cut", "deafen", "isolate"])
        if trouble == "isolate":
            network.isolate(one)
        else:
            getattr(network, trouble)(one, two)
        # Around the time at which a leader is given up.
        time.sleep(choose.uniform(0.05, 0.9))
        network.heal()
        time.sleep(choose.uniform(0.05, 0.6))
        count += 1
    return count
