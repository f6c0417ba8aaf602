"""The pages that people and monitors look at."""
import http.client
import json
import re
import subprocess

import pytest
from etcd3 import etcdrpc

from harness import KIND_LEASED, Server, wait_for
from harness.etcdctl import call
from harness.ports import free_ports
from harness.rpc import CALL_SECONDS, Rpc

SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(\{(?:[a-z_][a-z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)+\})? '
    r"(\+Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)"
)


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED) as running:
        yield running


def metrics(server):
    """{name with labels: number}; fails on a line that Prometheus would not read."""
    status, body = server.http_get("/metrics")
    assert status == 200
    text = body.decode()
    assert text.endswith("\n")
    samples, typed, helped = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped, "a family stands twice"
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            typed[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            family = re.sub(r"_(bucket|sum|count)$", "", match[1])
            family = match[1] if match[1] in typed else family
            assert family in typed and family in helped, line
            samples[match[1] + (match[2] or "")] = float(match[3])
    return samples


def test_health_is_told_in_etcds_words(server):
    status, body = server.http_get("/health")
    assert status == 200
    assert json.loads(body) == {"health": "true", "reason": ""}
    assert server.http_get("/livez") == (200, b"ok\n")
    assert server.http_get("/readyz") == (200, b"ok\n")


def test_checks_are_named_asked_for_alone_and_left_out(server):
    assert server.http_get("/livez?verbose") == (200, b"[+]serializable_read ok\nok\n")
    status, body = server.http_get("/readyz?verbose")
    checks = ["data_corruption", "serializable_read", "linearizable_read", "non_learner"]
    assert (status, body.decode()) == (200, "".join(f"[+]{name} ok\n" for name in checks) + "ok\n")
    status, body = server.http_get("/readyz?verbose&exclude=data_corruption&exclude=linearizable_read")
    assert (status, body) == (200, b"[+]serializable_read ok\n[+]non_learner ok\nok\n")
    assert server.http_get("/livez/serializable_read") == (200, b"ok\n")
    assert server.http_get("/readyz/linearizable_read?verbose") == (200, b"[+]linearizable_read ok\nok\n")
    assert server.http_get("/readyz/nothing")[0] == 404
    assert server.http_get("/livez/linearizable_read")[0] == 404


def test_a_page_is_told_behind_another_request_of_http2(server):
    def curl(path, *arguments):
        command = ["curl", "-s", "--max-time", "30", "--http2-prior-knowledge", *arguments]
        url = f"http://{server.host}:{server.client_port}{path}"
        return subprocess.run([*command, url], check=True, capture_output=True, timeout=60).stdout

    assert b"header" in curl("/v3/kv/range", "-d", '{"key":"YQ=="}')
    assert json.loads(curl("/health"))["health"] == "true"


def test_an_alarm_can_be_left_out_of_health():
    with Server(KIND_LEASED, extra_flags=["--quota-backend-bytes", "100000"]) as server:
        for number in range(2):
            call(server, "put", f"key{number}", stdin=b"x" * 90000)
        wait_for(lambda: server.http_get("/health")[0] == 503, 10, "the alarm")
        assert server.http_get("/health?serializable=true")[0] == 503
        status, body = server.http_get("/health?exclude=CORRUPT&exclude=NOSPACE")
        assert (status, json.loads(body)["health"]) == (200, "true")
        assert server.http_get("/readyz")[0] == 200
        assert metrics(server)["etcd_server_health_failures"] >= 2


def test_an_alarm_of_no_type_is_none(server):
    with Rpc(server) as rpc:
        for action in (etcdrpc.AlarmRequest.ACTIVATE, etcdrpc.AlarmRequest.DEACTIVATE, etcdrpc.AlarmRequest.GET):
            request = etcdrpc.AlarmRequest(action=action, alarm=etcdrpc.NONE)
            answer = rpc.maintenance.Alarm(request, timeout=CALL_SECONDS)
            assert not answer.alarms
    status, body = server.http_get("/health?exclude=NOSPACE")
    assert (status, json.loads(body)["health"]) == (200, "true")


def test_variables_tell_of_raft(server):
    status, body = server.http_get("/debug/vars")
    variables = json.loads(body)
    assert status == 200
    assert variables["raft.status"]["raftState"] == "StateLeader"
    assert variables["raft.status"]["applied"] <= variables["raft.status"]["commit"]
    assert variables["file_descriptor_limit"] > 0


def test_version_is_one_that_clients_of_etcd_accept(server):
    status, body = server.http_get("/version")
    version = json.loads(body)
    assert status == 200
    assert tuple(map(int, version["etcdserver"].split("."))) >= (3, 5, 13)
    assert version["etcdcluster"] == "3.5.0"
    assert version["leased"] == "0.3.0"


def test_a_version_is_told_whatever_comes_with_the_question(server):
    """Patroni asks with a body; and goes on over the same connection."""
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=30)
    for body in (b"{}", None, b"x" * 4096):
        connection.request("GET", "/version", body=body)
        answer = connection.getresponse()
        assert answer.status == 200 and b"etcdserver" in answer.read()
    connection.close()


def test_metrics_follow_what_happens(server):
    before = metrics(server)
    lease = call(server, "lease", "grant", "1").stdout.split()[1].decode()
    call(server, "put", "--lease", lease, "metrics-key", "value")
    during = metrics(server)
    assert during["leased_leases"] == before["leased_leases"] + 1
    assert during["leased_keys"] == before["leased_keys"] + 1
    assert during["leased_revision"] == before["leased_revision"] + 1
    assert during["etcd_debugging_mvcc_keys_total"] == during["leased_keys"]
    assert during["leased_connections_total"] > before["leased_connections_total"]

    def expired():
        now = metrics(server)
        return now["leased_lease_expiries_total"] > before["leased_lease_expiries_total"] and now

    after = wait_for(expired, 10, "the expiry")
    assert after["leased_leases"] == before["leased_leases"]
    name = "leased_lease_expiry_lateness_seconds"
    assert after[name + "_count"] == after[name + '_bucket{le="+Inf"}']
    assert after[name + "_count"] == before[name + "_count"] + 1


def test_metrics_of_the_process_are_the_truth(server):
    samples = metrics(server)
    assert abs(samples["process_resident_memory_bytes"] - server.rss_bytes()) < 4 * 1024 * 1024
    assert samples["process_open_fds"] > 3
    assert 0 <= samples["process_cpu_seconds_total"] < 60
    assert samples["etcd_server_has_leader"] == 1


def test_metrics_can_be_served_on_a_port_of_their_own():
    (port,) = free_ports(1)
    with Server(KIND_LEASED, extra_flags=["--listen-metrics-urls", f"http://127.0.0.1:{port}"]) as server:
        assert metrics(server)["leased_leases"] == 0
        client_port, server.client_port = server.client_port, port
        assert metrics(server)["leased_leases"] == 0
        assert server.http_get("/health")[0] == 200
        refused = call(server, "--command-timeout=2s", "get", "key")
        assert refused.returncode != 0
        server.client_port = client_port
        assert server.stop() == 0


def test_history_is_compacted_by_itself():
    with Server(KIND_LEASED, extra_flags=["--auto-compaction-retention=1s"]) as server:
        for value in range(5):
            call(server, "put", "key", value)
        wait_for(lambda: metrics(server)["leased_compacted_revision"] >= 6, 20, "compaction")
        old = call(server, "get", "key", "--rev", "2")
        assert b"required revision has been compacted" in old.stderr
        assert call(server, "get", "key").stdout == b"key\n4\n"


def test_a_full_store_refuses_writes_until_there_is_room():
    flags = ["--quota-backend-bytes", "300000", "--auto-compaction-retention=0"]
    with Server(KIND_LEASED, extra_flags=flags) as server:
        for number in range(4):
            call(server, "put", f"key{number}", stdin=b"x" * 100000)
        wait_for(lambda: server.http_get("/health")[0] == 503, 10, "the alarm")
        assert json.loads(server.http_get("/health")[1])["reason"] == "ALARM NOSPACE"
        refused = call(server, "put", "one", "more")
        assert b"database space exceeded" in refused.stderr
        assert b"database space exceeded" in call(server, "lease", "grant", "60").stderr
        assert call(server, "get", "key0", "--keys-only").returncode == 0

        assert call(server, "del", "--prefix", "key").returncode == 0
        revision = int(metrics(server)["leased_revision"])
        assert call(server, "compaction", revision).returncode == 0
        wait_for(lambda: metrics(server)["leased_key_memory_bytes"] < 300000, 10, "room")
        assert call(server, "alarm", "disarm").returncode == 0
        assert call(server, "put", "one", "more").stdout == b"OK\n"
        assert server.http_get("/health")[0] == 200


def test_a_snapshot_cuts_the_log():
    with Server(KIND_LEASED, extra_flags=["--snapshot-log-bytes", "250000"]) as server:
        for number in range(3):
            call(server, "put", f"key{number}", stdin=b"x" * 100000)
        wait_for(lambda: metrics(server)["leased_raft_snapshots_total"] >= 1, 10, "a snapshot")
        assert metrics(server)["leased_raft_log_bytes"] < 250000
