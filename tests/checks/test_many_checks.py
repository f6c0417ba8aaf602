"""Many checks at once: what they cost, what they delay, and how soon a failure shows. Small in `make test`; the figures
of the issue are the line `checks` of tools/accept."""

import asyncio
import http.client
import json
import multiprocessing
import threading
import time

import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for
from harness.acceptance import either, report
from harness.rpc import Rpc

CHECKS = either(200, 10_000)
INTERVAL_MS = either(1000, 10_000)
MEASURE_SECONDS = either(2.0, 30.0)
CPU_SHARE_MAX = either(1.0, 0.25)
LOOP_MS_MAX = 100  # of CPU time, whatever else the machine does
RENEWAL_MS_MAX = either(5000, 50)
ROUNDS = either(1, 10)
HIDDEN_LATE_MS_MAX = either(20_000, 50)
WRITERS = 8
WAIT_SECONDS = 120


async def _serve(connection, failing):
    async def handle(reader, writer):
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                status = b"500 Failing" if failing.value else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "0.0.0.0", 0, backlog=4096)
    connection.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(connection, failing):
    asyncio.run(_serve(connection, failing))


@pytest.fixture(scope="module")
def target():
    """(port, failing): a web server in a process of its own, on every loopback address."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    failing = context.Value("b", 0)
    process = context.Process(target=_run, args=(there, failing), daemon=True)
    process.start()
    yield here.recv(), failing
    process.kill()
    process.join()


@pytest.fixture(scope="module")
def many_targets():
    """The port of a server that answers on every loopback address: another leased, which is quick enough."""
    server = Server(KIND_LEASED, extra_flags=["--allow-insecure"])
    server.host = "0.0.0.0"
    with server:
        yield server.client_port


def register(server, jobs):
    """Registers (service, id, check) by several connections."""
    def work(mine):
        connection = http.client.HTTPConnection(server.host, server.client_port, timeout=60)
        for service, instance, check in mine:
            body = {"instance": {"service": service, "id": instance, "address": "127.0.0.1", "port": 80, "ttl_ms": -1,
                                 "checks": [check]}}
            connection.request("POST", "/lease/v1/registry/register", json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
        connection.close()

    threads = [threading.Thread(target=work, args=(jobs[i::WRITERS],)) for i in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Renewing:
    """Renews one lease again and again; knows the longest time that an answer took."""

    def __init__(self, server):
        self.rpc = Rpc(server)
        self.lease = self.rpc.grant(600).ID
        self.longest_ms = 0.0
        self.count = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def requests(self, turns):
        while not self.is_over.is_set():
            turns.acquire()
            yield etcdrpc.LeaseKeepAliveRequest(ID=self.lease)

    def run(self):
        turns = threading.Semaphore(0)
        answers = self.rpc.lease.LeaseKeepAlive(self.requests(turns))
        while not self.is_over.is_set():
            began = time.monotonic()
            turns.release()
            next(answers)
            self.longest_ms = max(self.longest_ms, (time.monotonic() - began) * 1000)
            self.count += 1
            time.sleep(0.002)
        turns.release()
        answers.cancel()

    def measure(self, seconds):
        self.longest_ms, self.count = 0.0, 0
        time.sleep(seconds)
        return round(self.longest_ms, 1)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.rpc.close()


def check_of(host, port):
    return {"id": "c", "kind": "CHECK_HTTP", "target": f"http://{host}:{port}/version", "interval_ms": INTERVAL_MS,
            "health": "CRITICAL"}


def results(server):
    return server.metric("leased_checks_started_total")


@pytest.mark.parametrize("targets", ["one target", "a target each"])
def test_many_checks_cost_little_and_delay_no_renewal(many_targets, targets):
    port = many_targets
    with Server(KIND_LEASED) as server, Renewing(server) as renewing:
        alone_ms = renewing.measure(MEASURE_SECONDS / 3)
        hosts = (f"127.{1 + i // 62500}.{i // 250 % 250}.{i % 250 + 1}" if targets == "a target each" else "127.0.0.1"
                 for i in range(CHECKS))
        register(server, [(f"s{i % 100}", str(i), check_of(host, port)) for i, host in enumerate(hosts)])
        wait_for(lambda: server.metric("leased_checks_changes_total") >= CHECKS, WAIT_SECONDS, "first results")
        cpu, started, began = server.cpu_seconds(), results(server), time.monotonic()
        with_checks_ms = renewing.measure(MEASURE_SECONDS)
        seconds = time.monotonic() - began
        share = (server.cpu_seconds() - cpu) / seconds
        rate = (results(server) - started) / seconds
        loop_ms = int(server.metric("leased_loop_cpu_milliseconds_max"))
        report(f"checks, {targets}", checks=CHECKS, per_second=round(rate), cpu_share=round(share, 3),
               renewal_ms_max=with_checks_ms, renewal_ms_max_alone=alone_ms,
               late_ms_max=int(server.metric("leased_checks_late_milliseconds_max")),
               loop_cpu_ms_max=loop_ms, sockets=int(server.metric("leased_checks_sockets")))
        assert rate >= CHECKS / (INTERVAL_MS / 1000) * 0.9
        assert share <= CPU_SHARE_MAX
        assert loop_ms <= LOOP_MS_MAX
        assert with_checks_ms <= RENEWAL_MS_MAX


def is_serving(server):
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=20)
    connection.request("POST", "/lease/v1/registry/discover", json.dumps({"service": "web"}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return bool(answer.get("instances"))


def test_an_instance_that_fails_is_hidden_in_time(target):
    port, failing = target
    check = {**check_of("127.0.0.1", port), "interval_ms": 500, "falls": 2, "rises": 1}
    with Server(KIND_LEASED) as server:
        register(server, [("web", "1", check)])
        late_ms = []
        for _ in range(ROUNDS):
            wait_for(lambda: is_serving(server), WAIT_SECONDS, "serving")
            began = time.monotonic()
            failing.value = 1
            wait_for(lambda: not is_serving(server), WAIT_SECONDS, "hidden")
            late_ms.append((time.monotonic() - began) * 1000 - check["falls"] * check["interval_ms"])
            failing.value = 0
        report("checks, hidden after falls x interval", rounds=ROUNDS, late_ms_max=round(max(late_ms), 1))
        assert max(late_ms) <= HIDDEN_LATE_MS_MAX
