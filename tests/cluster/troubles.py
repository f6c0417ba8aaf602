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


def chaos(cluster, choose, until):
    """Everything at once: nodes are killed and stopped, also most of them together, while links come
    and go. At the end all are back. Counts what it did."""
    size, network = len(cluster), cluster.network
    done = {"kills": 0, "stops": 0, "cuts": 0, "storms": 0}
    while time.monotonic() < until:
        time.sleep(choose.uniform(0.05, 0.5))
        trouble = choose.choice(["kill", "stop", "cut", "deafen", "isolate", "storm"])
        victims = [choose.randrange(size)]
        if choose.random() < 0.5:
            leader = next((n for n in range(size) if cluster.seems_leader(n)), None)
            victims = [leader] if leader is not None else victims
        if trouble == "storm":
            victims = choose.sample(range(size), choose.randint(size // 2, size))
        if trouble in ("kill", "storm"):
            for node in victims:
                cluster.kill(node)
            time.sleep(choose.uniform(0, 0.5))
            for node in victims:
                cluster.launch(node)
            done["storms" if trouble == "storm" else "kills"] += 1
        elif trouble == "stop":
            cluster.pause(victims[0])
            time.sleep(choose.uniform(0.05, 1.2))
            cluster.resume(victims[0])
            done["stops"] += 1
        else:
            others = [node for node in range(size) if node != victims[0]]
            if trouble == "isolate":
                network.isolate(victims[0])
            else:
                getattr(network, trouble)(victims[0], choose.choice(others))
            # The next trouble may come before the link is back.
            if choose.random() < 0.7:
                time.sleep(choose.uniform(0.05, 1.0))
                network.heal()
            done["cuts"] += 1
        if done["cuts"] % 3 == 0:
            network.heal()
    network.heal()
    for node in range(size):
        cluster[node].wait_ready()
    return done
