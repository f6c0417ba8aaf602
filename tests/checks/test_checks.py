"""Health checks of registered instances, through a running server and through a cluster of three."""

import http.server
import json
import os
import pathlib
import pwd
import socketserver
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

from harness import KIND_LEASED, Server, wait_for
from harness.cluster import Cluster

WAIT_SECONDS = 40  # of a machine that is busy with other things


def post(url, path, body):
    request = urllib.request.Request(url + "/lease/v1/registry/" + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read() or "{}")


def register(url, service, instance, *checks, **more):
    body = {"service": service, "id": instance, "address": "127.0.0.1", "port": 80, "ttl_ms": -1,
            "checks": list(checks), **more}
    return post(url, "register", {"instance": body})


def instances(url, service, **query):
    answer = post(url, "discover", {"service": service, "with_unhealthy": True, "with_checks": True, **query})
    return {each["id"]: each for each in answer.get("instances", ())}


def check_of(url, service, instance, check="c"):
    found = instances(url, service).get(instance, {})
    return next((each for each in found.get("checks", ()) if each["id"] == check), {})


def health_of(url, service, instance, check="c"):
    """None: it has no result yet."""
    found = check_of(url, service, instance, check)
    return found.get("health", "PASSING") if found.get("output") else None


def wait_health(url, service, instance, health, check="c"):
    wait_for(lambda: health_of(url, service, instance, check) == health, WAIT_SECONDS,
             f"{service}/{instance} is {health}")
    return check_of(url, service, instance, check)


def http_check(target, **more):
    return {"id": "c", "kind": "CHECK_HTTP", "target": target, "interval_ms": 200, "timeout_ms": 5000,
            "health": "CRITICAL", **more}


class Switch:
    """A web server whose answer can be chosen for each path, and which counts who asked what."""

    def __init__(self):
        statuses = self.statuses = {}
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                asked.append((time.monotonic(), self.path))
                self.send_response(statuses.get(self.path, 200))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *arguments: None  # a check that is over resets its connection
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def web():
    switch = Switch()
    yield switch
    switch.close()


@pytest.fixture(scope="module")
def script():
    with tempfile.TemporaryDirectory(prefix="leased-test-script-") as folder:
        path = pathlib.Path(folder) / "check"
        path.parent.chmod(0o755)  # an unprivileged user has to reach it
        path.write_text("#!/bin/sh\necho \"I am $(id -un)\"\nexit $1\n")
        path.chmod(0o755)
        yield str(path)


@pytest.fixture(scope="module")
def server(script):
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with Server(KIND_LEASED, extra_flags=["--enable-script-checks", "--script-checks-allow", script,
                                          "--script-checks-user", user]) as one:
        yield one


@pytest.fixture(scope="module")
def url(server):
    return server.client_url


def test_a_first_result_counts_at_once_and_thresholds_afterwards(url, web):
    register(url, "web", "1", http_check(web.url + "/1", rises=3, falls=3))
    found = wait_health(url, "web", "1", "PASSING")
    assert "200" in found["output"]
    assert instances(url, "web")["1"]["serving"] is True
    web.statuses["/1"] = 500
    began = time.monotonic()
    found = wait_health(url, "web", "1", "CRITICAL")
    assert "500" in found["output"]
    asked = [at for at, path in web.asked if path == "/1" and at > began]
    assert len(asked) >= 3
    assert not instances(url, "web")["1"].get("serving")
    assert instances(url, "web", with_unhealthy=False) == {}
    web.statuses["/1"] = 200
    began = time.monotonic()
    wait_health(url, "web", "1", "PASSING")
    assert len([at for at, path in web.asked if path == "/1" and at > began]) >= 3


def test_runs_keep_their_interval(url, web):
    register(url, "steady", "1", http_check(web.url + "/steady", interval_ms=300))
    wait_health(url, "steady", "1", "PASSING")
    asked = wait_for(lambda: [at for at, path in web.asked if path == "/steady"][9:] and
                     [at for at, path in web.asked if path == "/steady"], WAIT_SECONDS, "ten runs")
    gaps = [after - before for before, after in zip(asked, asked[1:])]
    assert sum(gaps) / len(gaps) > 0.2  # not more often than the jitter explains


def test_a_warning_still_serves(url, web):
    web.statuses["/busy"] = 429
    register(url, "busy", "1", http_check(web.url + "/busy"))
    wait_health(url, "busy", "1", "WARNING")
    assert instances(url, "busy")["1"]["serving"] is True


def test_only_changes_of_health_are_written(server, url, web):
    register(url, "quiet", "1", http_check(web.url + "/quiet", interval_ms=100))
    wait_health(url, "quiet", "1", "PASSING")
    asked = len(web.asked)
    revision = instances(url, "quiet")["1"]["revision"]
    reports = server.metric("leased_checks_reports_total")
    wait_for(lambda: len([1 for _, path in web.asked[asked:] if path == "/quiet"]) >= 20, WAIT_SECONDS, "twenty runs")
    assert instances(url, "quiet")["1"]["revision"] == revision
    assert server.metric("leased_checks_reports_total") - reports <= 2  # of the other tests' checks, at most


def test_tcp_and_an_instance_that_nobody_answers_for(url, web):
    address = web.url.removeprefix("http://")
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        hanging = f"http://127.0.0.1:{silent.server_address[1]}/"  # accepted by the kernel, never answered
        register(url, "tcp", "good", {"id": "c", "kind": "CHECK_TCP", "target": address, "interval_ms": 200,
                                      "health": "CRITICAL"})
        register(url, "tcp", "hangs", http_check(hanging, timeout_ms=150))
        register(url, "tcp", "wrong", http_check("http://127.0.0.1:1/"))
        wait_health(url, "tcp", "good", "PASSING")
        assert "150 ms" in wait_health(url, "tcp", "hangs", "CRITICAL")["output"]
        assert "refused" in wait_health(url, "tcp", "wrong", "CRITICAL")["output"]


def test_commands(url, script):
    def command(*arguments):
        return {"id": "c", "kind": "CHECK_COMMAND", "command": list(arguments), "interval_ms": 500,
                "timeout_ms": 20000, "health": "CRITICAL"}

    register(url, "scripts", "good", command(script, "0"))
    register(url, "scripts", "so-so", command(script, "1"))
    register(url, "scripts", "bad", command(script, "7"))
    register(url, "scripts", "shell", command("/bin/sh", "-c", "exit 0"))
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    assert wait_health(url, "scripts", "good", "PASSING")["output"] == f"I am {user}\n"
    wait_health(url, "scripts", "so-so", "WARNING")
    wait_health(url, "scripts", "bad", "CRITICAL")
    assert "--script-checks-allow" in wait_health(url, "scripts", "shell", "CRITICAL")["output"]


def test_an_alias_follows_at_once(url, web):
    alias = {"id": "c", "kind": "CHECK_ALIAS", "alias_service": "origin", "alias_id": "1", "health": "CRITICAL",
             "interval_ms": 60000}
    register(url, "follower", "1", alias)
    wait_health(url, "follower", "1", "CRITICAL")  # there is no such instance
    register(url, "origin", "1", http_check(web.url + "/origin"))
    wait_health(url, "follower", "1", "PASSING")
    web.statuses["/origin"] = 503
    wait_health(url, "follower", "1", "CRITICAL")
    web.statuses["/origin"] = 200
    wait_health(url, "follower", "1", "PASSING")


def test_a_check_that_is_replaced_or_removed_is_run_no_more(server, url, web):
    register(url, "moved", "1", http_check(web.url + "/old"))
    wait_health(url, "moved", "1", "PASSING")
    web.statuses["/new"] = 500
    register(url, "moved", "1", http_check(web.url + "/new"))
    wait_health(url, "moved", "1", "CRITICAL")
    asked = len(web.asked)
    wait_for(lambda: len([1 for _, path in web.asked[asked:] if path == "/new"]) >= 5, WAIT_SECONDS, "runs")
    assert not [1 for _, path in web.asked[asked:] if path == "/old"]
    before = server.metric("leased_checks_own")
    post(url, "deregister", {"service": "moved", "id": "1"})
    wait_for(lambda: server.metric("leased_checks_own") == before - 1, WAIT_SECONDS, "the check is gone")


def test_health_survives_a_restart_of_the_server(web):
    with Server(KIND_LEASED) as server:
        register(server.client_url, "again", "1", http_check(web.url + "/again", falls=3))
        wait_health(server.client_url, "again", "1", "PASSING")
        web.statuses["/again"] = 500
        wait_health(server.client_url, "again", "1", "CRITICAL")
        web.statuses["/again"] = 200
        server.restart()
        wait_health(server.client_url, "again", "1", "PASSING")


def test_dead_targets_delay_neither_the_living_nor_clients(web):
    server = Server(KIND_LEASED)
    server.command_prefix = ["prlimit", "--nofile=300:300"]
    with server, socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        url = server.client_url
        silent.socket.listen(512)  # all are accepted by the kernel, none is answered
        hanging = f"http://127.0.0.1:{silent.server_address[1]}/"
        for i in range(40):
            register(url, "dead", str(i), http_check(hanging, timeout_ms=500))
        register(url, "alive", "1", http_check(web.url + "/alive"))
        wait_health(url, "alive", "1", "PASSING")
        wait_for(lambda: [each["health"] for each in instances(url, "dead").values() if each["checks"][0].get("output")]
                 == ["CRITICAL"] * 40, WAIT_SECONDS, "all dead")
        asked = len(web.asked)
        limit = server.metric("leased_checks_sockets_max")
        assert limit == 16
        wait_for(lambda: server.metric("leased_checks_waiting") > 0, WAIT_SECONDS, "the dead wait")
        wait_for(lambda: len([1 for _, path in web.asked[asked:] if path == "/alive"]) >= 10, WAIT_SECONDS, "runs")
        assert server.metric("leased_checks_sockets") <= limit
        assert health_of(url, "alive", "1") == "PASSING"


def test_flags_that_cannot_be_used_are_refused():
    for flags, text in ((["--enable-script-checks"], "--script-checks-allow"),
                        (["--enable-script-checks", "--script-checks-allow", "/bin/true,sh"], "absolute paths"),
                        (["--checks-allow-net", "10.0.0.0/99"], "--checks-allow-net"),
                        (["--enable-script-checks", "--script-checks-allow", "/bin/true",
                          "--script-checks-user", "root"], "root"),
                        (["--enable-script-checks", "--script-checks-allow", "/bin/true",
                          "--script-checks-user", "no-such-user"], "no such user")):
        server = Server(KIND_LEASED, extra_flags=flags)
        try:
            server.launch()
            wait_for(lambda server=server: not server.is_running(), WAIT_SECONDS, "refused")
            assert text in server.log_tail()
        finally:
            server.close()


def test_checks_are_shared_and_taken_over(web):
    n = 30

    def own(server):
        return int(server.metric("leased_checks_own"))

    with Cluster(3) as cluster:
        url = cluster[cluster.leader()].client_url
        for i in range(n):
            register(url, "fleet", str(i), http_check(f"{web.url}/fleet/{i}", interval_ms=250))
        wait_for(lambda: all(health_of(url, "fleet", str(i)) == "PASSING" for i in range(n)), WAIT_SECONDS, "all pass")
        wait_for(lambda: all(server.metric("leased_checks_members") == 3 for server in cluster.servers)
                 and sum(own(server) for server in cluster.servers) == n, WAIT_SECONDS, "shared")
        shares = [own(server) for server in cluster.servers]
        assert all(share > 0 for share in shares)
        victim = next(i for i, server in enumerate(cluster.servers) if server.client_url != url)
        left = [server for i, server in enumerate(cluster.servers) if i != victim]
        cluster.kill(victim)
        web.statuses["/fleet/0"] = web.statuses["/fleet/1"] = web.statuses["/fleet/2"] = 500
        wait_for(lambda: sum(own(server) for server in left) == n, WAIT_SECONDS, "taken over")
        asked = len(web.asked)
        wait_for(lambda: {path for _, path in web.asked[asked:]} >= {f"/fleet/{i}" for i in range(n)}, WAIT_SECONDS,
                 "all are checked")
        wait_for(lambda: [i for i in range(n) if health_of(url, "fleet", str(i)) == "CRITICAL"] == [0, 1, 2],
                 WAIT_SECONDS, "changes are seen")
