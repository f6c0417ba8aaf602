"""A holder and a waiter of a cluster whose leader is killed, with their connections to it."""
import threading

import lease
from harness.cluster import Cluster

SECONDS = 60.0


def test_a_lock_and_its_queue_outlive_the_leader():
    with Cluster() as cluster:
        leader = cluster.leader()
        # The leader first: both are connected to it when it dies.
        order = [cluster[leader].endpoint] + [cluster[i].endpoint for i in range(len(cluster)) if i != leader]
        endpoints = ",".join(order)
        events = []
        with lease.Client(endpoints) as client, lease.Client(endpoints) as other:
            session = client.session(ttl=20, on_event=lambda _session, event, _reason: events.append(event))
            hold = session.lock("cluster")
            placed, results = threading.Event(), []

            def wait():
                results.append(other.lock("cluster", wait=SECONDS, on_progress=lambda *_: placed.set()))

            waiter = threading.Thread(target=wait, daemon=True)
            waiter.start()
            assert placed.wait(SECONDS)
            cluster.kill(leader)
            for _ in range(20):
                try:
                    session.renew()
                    break
                except lease.Error as error:
                    assert error.status in (lease.Status.UNAVAILABLE, lease.Status.TIMEOUT), error
            assert hold.valid_for > 10
            assert not results
            hold.release()
            waiter.join(SECONDS)
            assert results[0].token > hold.token
            assert lease.Event.LOST not in events
            assert [holder.token for holder in client.resource("cluster").holders] == [results[0].token]
            results[0].release()
            session.end()
        cluster.restart(leader)
