"""The Eureka API at a cluster: every member registers, renews and lists, and a leader's death costs no instance."""
import contextlib
import threading

import pytest

from harness.auth_matrix import CALM
from harness.cluster import Cluster
from harness.eureka import DOORS, Eureka
from harness.wait import wait_for

WAIT_SECONDS = 40
DURATION_SECONDS = 30


@pytest.fixture(name="cluster", scope="module")
def a_cluster():
    with Cluster(extra_flags=["--doors", DOORS], timing_flags=CALM) as cluster:
        yield cluster


def seen(server):
    with Eureka(server.client_port) as eureka:
        found, hash_code = eureka.apps()
        return sorted(found.get("MEMBERS", {})), hash_code


def beat(servers, lost, stopped):
    """As a client does it: at the next server when one does not answer."""
    while not stopped.wait(1):
        for server in servers:
            with contextlib.suppress(OSError), Eureka(server.client_port) as eureka:
                status = eureka.status("PUT", "/apps/MEMBERS/m-0")
                lost += [status] if status == 404 else []
                if status == 200:
                    break


def test_every_member_serves_it_and_one_may_die(cluster):
    servers = [cluster[index] for index in range(3)]
    for index, server in enumerate(servers):
        with Eureka(server.client_port) as eureka:
            lease = {"durationInSecs": DURATION_SECONDS if index == 0 else 600}
            assert eureka.register("members", f"m-{index}", leaseInfo=lease) == 204
    wanted = (["m-0", "m-1", "m-2"], "UP_3_")
    for server in servers:
        assert seen(server) == wanted  # reads are linearizable
        with Eureka(server.client_port) as eureka:
            for index in range(3):
                assert eureka.status("PUT", f"/apps/MEMBERS/m-{index}") == 200
    lost, stopped = [], threading.Event()
    beating = threading.Thread(target=beat, args=(servers, lost, stopped))
    beating.start()
    try:
        leader = cluster.leader()
        cluster.kill(leader)
        left = [server for index, server in enumerate(servers) if index != leader]

        def is_whole(server):
            with contextlib.suppress(OSError, AssertionError):
                return seen(server) == wanted
            return False

        for server in left:
            wait_for(lambda asked=server: is_whole(asked), WAIT_SECONDS, "the others list all")
    finally:
        stopped.set()
        beating.join()
    assert lost == []
    with Eureka(left[0].client_port) as eureka:
        assert eureka.status("DELETE", "/apps/MEMBERS/m-0") == 200
    assert seen(left[1]) == (["m-1", "m-2"], "UP_2_")
