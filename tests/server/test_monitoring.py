"""Alert rules, the board, and what dashboards made for etcd ask for: all of it is in /metrics.

The queries are taken apart far enough to know which metrics they read and by which labels; three
members that have done a little of everything must have each of them."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from harness import dns, promql, wait_for
from harness.cluster import Cluster
from harness.etcdctl import call

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "monitoring"

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*,?')
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^}]*)\})?")
TEMPLATE = re.compile(r"\{\{ \$(?:labels\.[a-z_]+|value)(?: \| humanize(?:Percentage|Duration)?)? \}\}")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)")

# Labels that Prometheus itself adds, and a metric of its own.
SCRAPED = {"job", "instance"}
OF_PROMETHEUS = {"up"}

# What etcd's own alert rules and board read, by the labels that they name.
OF_ETCD = """
etcd_server_has_leader
etcd_server_is_leader
etcd_server_leader_changes_seen_total
etcd_server_proposals_failed_total
etcd_server_proposals_pending
etcd_server_proposals_committed_total
etcd_server_proposals_applied_total
etcd_server_quota_backend_bytes
etcd_server_client_requests_total{type="unary",client_api_version!=""}
etcd_server_client_requests_total{type="stream",client_api_version!=""}
etcd_network_snapshot_send_inflights_total{To!=""}
etcd_network_snapshot_receive_inflights_total{From!=""}
etcd_mvcc_db_total_size_in_bytes
etcd_mvcc_db_total_size_in_use_in_bytes
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"}
etcd_disk_backend_commit_duration_seconds_bucket{le="+Inf"}
etcd_disk_wal_fsync_duration_seconds_sum
etcd_debugging_snap_save_total_duration_seconds_sum
etcd_network_client_grpc_received_bytes_total
etcd_network_client_grpc_sent_bytes_total
etcd_network_peer_sent_bytes_total{To!=""}
etcd_network_peer_received_bytes_total{From!=""}
etcd_network_peer_sent_failures_total{To!=""}
etcd_network_peer_round_trip_time_seconds_bucket{To!="",le="+Inf"}
etcd_network_active_peers{Local!="",Remote!=""}
grpc_server_started_total{grpc_type="unary"}
grpc_server_started_total{grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"}
grpc_server_started_total{grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}
grpc_server_handled_total{grpc_type="unary",grpc_code="OK"}
grpc_server_handled_total{grpc_type="unary",grpc_code!="OK"}
grpc_server_handled_total{grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"}
grpc_server_handled_total{grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}
grpc_server_handling_seconds_bucket{grpc_method!="Defragment",grpc_type="unary",le="+Inf"}
grpc_server_msg_received_total{grpc_method="Put"}
grpc_server_msg_sent_total{grpc_method="Put"}
etcd_debugging_mvcc_keys_total
etcd_debugging_mvcc_watcher_total
etcd_debugging_mvcc_slow_watcher_total
etcd_debugging_lease_granted_total
etcd_mvcc_put_total
process_resident_memory_bytes
process_open_fds
process_max_fds
os_fd_used
os_fd_limit
"""


def samples_of(server):
    """[(name, {label: value}, number)]"""
    status, body = server.http_get("/metrics")
    assert status == 200
    found = []
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            name, labels, number = SAMPLE.fullmatch(line).groups()
            found.append((name, dict(LABEL.findall(labels or "")), float(number)))
    return found


@pytest.fixture(scope="module")
def samples():
    """Of all three members with every protocol, after some traffic and with a link and a ping to each."""
    cluster = Cluster(extra_flags=["--doors", "etcd,native,registry,redis,zookeeper,consul,eureka,xds"])
    for member in cluster.servers:
        dns.add_listener(member)
    with cluster:
        server = cluster[cluster.leader()]
        call(server, "put", "key", "value")
        call(server, "get", "key")
        call(server, "lease", "grant", "60")

        def all_samples():
            together = [sample for index in range(3) for sample in samples_of(cluster[index])]
            trips = {
                labels["member"]
                for name, labels, number in together
                if name == "leased_peer_round_trip_seconds_count" and number > 0
            }
            return len(trips) == 2 and together

        yield wait_for(all_samples, 30, "pings that were answered")


def selectors_of(query):
    """[(metric, [(label, operator, value)])] that a PromQL expression reads."""
    query = GROUPING.sub(" ", query)
    query = re.sub(r"\[[^\]]*\]", " ", query)
    found = []
    for match in SELECTOR.finditer(query):
        name, matchers = match.groups()
        is_function = query[match.end() :].lstrip().startswith("(") and matchers is None
        is_operator = name in ("and", "or", "unless", "bool", "group_left", "group_right", "offset")
        if is_function or is_operator or not re.search("[a-z]_|^up$", name):
            assert is_function or is_operator or re.fullmatch("sum|max|min|count|avg|rate|increase|e|s", name), name
            continue
        found.append((name, MATCHER.findall(matchers or "")))
    return found


def check(samples, query):
    selectors = selectors_of(query)
    assert selectors, query
    for name, matchers in selectors:
        if name in OF_PROMETHEUS:
            continue
        of_name = [labels for sample, labels, _ in samples if sample == name]
        assert of_name, f"{name} is not in /metrics: {query}"
        for label, operator, value in matchers:
            if label in SCRAPED:
                continue
            of_name = [labels for labels in of_name if label in labels]
            assert of_name, f"{name} has no label {label}: {query}"
            fits = {
                "=": lambda text: text == value,
                "!=": lambda text: text != value,
                "=~": lambda text: re.fullmatch(value, text),
                "!~": lambda text: not re.fullmatch(value, text),
            }[operator]
            of_name = [labels for labels in of_name if fits(labels[label])]
            assert of_name, f"{name} has nothing with {label}{operator}{value}: {query}"


def board():
    return json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))


def rules():
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_no_panel_of_the_board_is_empty(samples):
    panels = [panel for panel in board()["panels"] if panel["type"] != "row"]
    assert len(panels) > 20
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])
    for panel in panels:
        assert panel["title"] and panel["targets"]
        for target in panel["targets"]:
            check(samples, target["expr"])
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            check(samples, re.match(r"label_values\((.*), \w+\)", variable["query"])[1])


def test_every_alert_reads_metrics_that_exist(samples):
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 10
    for rule in rules():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        check(samples, rule["expr"])


def test_what_dashboards_of_etcd_read_is_there(samples):
    for query in OF_ETCD.split():
        check(samples, query)


def test_a_query_for_what_is_not_there_is_noticed(samples):
    for query in ("leased_nothing", 'grpc_server_started_total{grpc_type="both"}', 'leased_leases{shard="1"}'):
        with pytest.raises(AssertionError):
            check(samples, f"rate({query}[5m])")


def alert_rules():
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    assert set(group) == {"name", "rules"}
    return group["rules"]


def test_the_rules_are_well_formed():
    """What promtool would look at, where it is not installed."""
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert re.fullmatch(r"(\d+[smh])+", rule["for"]), rule
        assert rule["labels"]["severity"] in ("warning", "critical"), rule
        assert set(rule["annotations"]) == {"summary", "description"}, rule
        for text in rule["annotations"].values():
            left = TEMPLATE.sub("", text)
            assert "{{" not in left and "}}" not in left and "$" not in left, text
        promql.check(rule["expr"])


def test_the_queries_of_the_board_are_well_formed():
    board = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 10
    for query in queries:
        promql.check(query)


@pytest.mark.parametrize(
    "query",
    [
        "", "rate(", "rate(x[5m]", "rate(x)", "x[5m]", "sum by job (x)", "x == ", "x{job=leased}", 'x{job~"a"}', "nosuch(x)",
        "x y", "x[5q]", "sum(x[5m])", "x > > 1", "and x", 'x{job="a}',
    ],
)  # fmt: skip
def test_malformed_queries_are_noticed(query):
    with pytest.raises(promql.Malformed):
        promql.check(query)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_rules():
    subprocess.run(["promtool", "check", "rules", MONITORING / "alerts.yml"], check=True)


def test_errors_are_counted_from_zero(samples):
    """The first error of a method that was called before is an increase, and a panel of errors is not empty without one."""
    codes = {labels["grpc_code"] for name, labels, _ in samples
             if name == "grpc_server_handled_total" and labels["grpc_method"] == "Put"}  # fmt: skip
    assert len(codes) == 17
    errors = [number for name, labels, number in samples
              if name == "grpc_server_handled_total" and labels["grpc_code"] != "OK"]  # fmt: skip
    assert set(errors) == {0.0}


def test_calls_are_counted_by_method_and_code(samples):
    handled = {
        labels["grpc_method"]: number
        for name, labels, number in samples
        if name == "grpc_server_handled_total" and number > 0
    }
    assert handled["Put"] == handled["LeaseGrant"] == 1
    for name in ("leased_log_sync_seconds_count", "leased_commit_seconds_count", "leased_apply_seconds_count"):
        assert sum(number for sample, _, number in samples if sample == name) > 0
    assert all(number >= 1 for name, _, number in samples if name == "leased_raft_leader_changes_total")


def test_watches_of_the_server_itself_are_none_of_etcds_clients(samples):
    watches = [number for name, _, number in samples if name == "etcd_debugging_mvcc_watcher_total"]
    assert watches == [0.0] * 3


def test_history_is_no_fragmentation(samples):
    """The alert of etcd's users for a fragmented database divides these two."""
    sizes = {name: [n for sample, _, n in samples if sample == name]
             for name in ("etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes")}  # fmt: skip
    everything, in_use = sizes.values()
    assert in_use == everything
