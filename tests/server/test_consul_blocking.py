"""Many blocking queries, each for a service of its own: one service changes, and only its own query wakes."""
import select
import socket
import time

from harness.acceptance import either, report
from harness.consul import Consul, leased_with_consul
from harness.wait import wait_for

N = either(200, 10_000)
WAIT_SECONDS = either(30.0, 120.0)
QUIET_SECONDS = 0.5


def waiting_socket(port, service, index):
    waiter = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
    waiter.sendall(f"GET /v1/health/service/{service}?index={index}&wait=10m HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return waiter


def metric(consul, server, name):
    connection = Consul(server.client_port).connection
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def test_only_its_own_query_wakes():
    with leased_with_consul() as server, Consul(server.consul_port) as consul:
        for i in range(N):
            assert consul.put("agent/service/register", {"Name": f"s{i}", "Port": 1}).status == 200
        waiters = [waiting_socket(server.consul_port, f"s{i}", consul.get(f"health/service/s{i}").index) for i in range(N)]
        wait_for(lambda: metric(consul, server, "leased_consul_waiting_queries") == N, WAIT_SECONDS, "all of them wait")
        poll = select.epoll()
        for waiter in waiters:
            poll.register(waiter, select.EPOLLIN)
        changed = N // 2
        began = time.monotonic()
        consul.put("agent/service/register", {"Name": f"s{changed}", "Port": 2})
        ready = poll.poll(WAIT_SECONDS)
        delay_ms = (time.monotonic() - began) * 1000
        assert [fd for fd, _ in ready] == [waiters[changed].fileno()]
        assert b'"Port":2' in waiters[changed].recv(65536)
        poll.unregister(waiters[changed])
        assert poll.poll(QUIET_SECONDS) == []
        assert metric(consul, server, "leased_consul_woken_queries_total") == 1
        report("consul-blocking", queries=N, woken=1, delay_ms=round(delay_ms, 1))
        for waiter in waiters:
            waiter.close()


def test_a_client_that_gives_up_is_forgotten():
    with leased_with_consul() as server, Consul(server.consul_port) as consul:
        index = consul.get("health/service/given-up").index
        impatient = Consul(server.consul_port)
        impatient.send("GET", "health/service/given-up", index=index, wait="10m")
        wait_for(lambda: metric(consul, server, "leased_consul_waiting_queries") == 1, WAIT_SECONDS, "it waits")
        impatient.close()
        wait_for(lambda: metric(consul, server, "leased_consul_waiting_queries") == 0, WAIT_SECONDS, "nobody waits")
