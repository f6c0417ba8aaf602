"""`lease bench` against etcd and against leased: small runs whose figures must be possible."""
import json
import os
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree

import pytest

from harness.kinds import clean_environment, lease_tool

RUN_SECONDS = 60.0
SHORT = ("--duration", "300ms", "--warm-up", "100ms")


def bench(server, *words, check=True):
    done = subprocess.run(
        [lease_tool(), "bench", *map(str, words), "--json", "--endpoint", server.endpoint,
         "--server-pid", str(server.pid)],
        capture_output=True, text=True, timeout=RUN_SECONDS, env=clean_environment(), check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return json.loads(done.stdout) if check else done


@pytest.mark.parametrize("words", [
    ("grant", "--clients", 10),
    ("put", "--clients", 10, "--keys", 50, "--value-size", 32),
    ("range", "--clients", 10, "--keys", 50),
    ("range", "--clients", 10, "--keys", 50, "--serializable"),
    ("txn", "--clients", 10),
    ("keepalive", "--clients", 20, "--leases", 100, "--streams", 5, "--connections", 2),
    ("watch", "--clients", 2, "--streams", 20),
    ("watch", "--clients", 2, "--streams", 20, "--rate", 50),
    ("keepalive", "--clients", 20, "--leases", 100, "--rate", 500),
    ("mixed", "--clients", 40, "--rate", 500),
    ("lock", "--clients", 6, "--locks", 2, "--connections", 3),
    ("mixed", "--clients", 40, "--connections", 2),
], ids=lambda words: words[0] + ("-at-a-rate" if "--rate" in words else ""))
def test_a_workload_counts_and_times_what_it_did(server, prefix, words):
    seen = bench(server, *words, *SHORT, "--prefix", prefix)
    assert seen["workload"] == words[0]
    assert seen["operations"] > 0
    assert 0.25 < seen["seconds"] < 5
    assert seen["ops_per_second"] == pytest.approx(seen["operations"] / seen["seconds"], rel=0.01)
    latency = seen["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99_9"]
    assert latency["p99_9"] <= latency["max"]
    assert seen["server_rss_bytes"] > 1_000_000
    assert seen["client_cpu_seconds"] > 0


def test_deliveries_are_puts_times_streams(server, prefix):
    seen = bench(server, "watch", "--clients", 1, "--streams", 10, *SHORT, "--prefix", prefix)
    puts = seen["kinds"]["puts"]["operations"]
    assert seen["operations"] == pytest.approx(puts * 10, abs=20)


def test_a_rate_is_kept(server, prefix):
    seen = bench(server, "put", "--rate", 200, "--duration", "1s", "--warm-up", "100ms",
                 "--prefix", prefix)  # fmt: skip
    assert seen["scheduled"] == pytest.approx(200 * seen["seconds"], abs=2)
    # What was under way at either end of the window, at most one of each client, may be missing.
    assert seen["operations"] + seen["unsent"] == pytest.approx(seen["scheduled"], abs=100)


def test_a_stall_shows_in_every_operation_that_it_delayed(server, prefix):
    """Coordinated omission: one client in a closed loop sees a stall once, a schedule sees it all."""
    def stall():
        time.sleep(1.2)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(0.6)
        os.kill(server.pid, signal.SIGCONT)

    thread = threading.Thread(target=stall)
    thread.start()
    try:
        seen = bench(server, "put", "--rate", 500, "--clients", 1, "--duration", "3s",
                     "--warm-up", "100ms", "--prefix", prefix)  # fmt: skip
    finally:
        thread.join()
    # 300 of the 1,500 were due during the stall: the median of those waited 300 ms.
    assert seen["latency_ms"]["p90"] > 200
    assert seen["latency_ms"]["max"] > 550


def test_every_lease_of_a_mass_expiry_is_seen(server, prefix):
    seen = bench(server, "expire", "--leases", 50, "--ttl", 3, "--prefix", prefix)
    assert (seen["deleted"], seen["early"]) == (50, 0)
    assert seen["due_window_seconds"] < 1.2
    assert seen["puts_during"]["puts"] > 0


def test_lateness_is_counted_from_the_answer(server, prefix):
    seen = bench(server, "lateness", "--leases", 2, "--ttl", 2, "--stagger", "100ms",
                 "--prefix", prefix)  # fmt: skip
    assert seen["early"] == 0
    assert -50 < seen["late_min_ms"] <= seen["late_median_ms"] <= seen["late_max_ms"] < 2000


def test_memory_tells_what_a_lease_weighs(server, prefix):
    seen = bench(server, "memory", "--leases", 10000, "--settle", "300ms", "--prefix", prefix)
    assert seen["bytes_per_lease_with_keys"] > 50
    assert seen["keys_rss_bytes"] >= seen["idle_rss_bytes"]


def test_idle_connections_are_held(server):
    seen = bench(server, "connections", "--connections", 50, "--duration", "200ms")
    assert (seen["connections"], seen["closed_by_server"]) == (50, 0)


def test_fill_leaves_what_it_was_told(server, prefix):
    seen = bench(server, "fill", "--leases", 30, "--keys-per-lease", 2, "--prefix", prefix)
    assert (seen["leases"], seen["keys_per_lease"]) == (30, 2)


def test_a_plot_is_a_picture(server, prefix, tmp_path):
    picture = tmp_path / "out.svg"
    bench(server, "put", *SHORT, "--prefix", prefix, "--plot", picture)
    root = xml.etree.ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert any("puts" in (text.text or "") for text in root.iter("{http://www.w3.org/2000/svg}text"))


# What cannot be measured is refused


@pytest.mark.parametrize("words, says", [
    (("nothing",), "there is no workload nothing"),
    (("put", "--leases", "5"), "--leases has no meaning here"),
    (("put", "--clients", "0"), "a whole number from 1"),
    (("put", "--rate", "fast"), "operations a second"),
    (("put", "--duration", "soon"), "a time like"),
    (("put", "--server-pid", "1,x"), "process ids with commas"),
    (("memory",), "--server-pid is needed"),
    (("failover",), "--server-pid must name the process of each endpoint"),
], ids=lambda value: "-".join(value) if isinstance(value, tuple) else "")
def test_a_wrong_command_line_is_refused_before_connecting(words, says):
    done = subprocess.run([lease_tool(), "bench", *words, "-e", "127.0.0.1:1"], check=False,
                          capture_output=True, text=True, timeout=20, env=clean_environment())
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_a_server_that_is_not_there_is_told():
    done = subprocess.run([lease_tool(), "bench", "put", "-e", "127.0.0.1:1"], check=False,
                          capture_output=True, text=True, timeout=20, env=clean_environment())
    assert done.returncode == 1
    assert "127.0.0.1:1 cannot be reached" in done.stderr


def test_a_plot_that_cannot_be_written_fails(server, prefix):
    done = bench(server, "put", *SHORT, "--prefix", prefix, "--plot", "/nowhere/out.svg",
                 check=False)  # fmt: skip
    assert done.returncode == 1
    assert "/nowhere/out.svg" in done.stderr
