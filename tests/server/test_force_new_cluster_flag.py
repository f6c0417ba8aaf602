"""What --force-new-cluster refuses before it touches anything; the rest is in tests/cluster."""
import os

from harness import KIND_LEASED, Server
from harness.exit_codes import EXIT_CODES


def test_without_data_there_is_nothing_to_go_on_with():
    server = Server(KIND_LEASED, extra_flags=["--force-new-cluster"])
    try:
        server.launch()
        assert server.process.wait(10) == EXIT_CODES["USAGE"]
        log = server.log_tail()
        assert "--force-new-cluster" in log and f"{server.data_dir} has none" in log
        assert not os.path.exists(os.path.join(server.data_dir, "identity"))
        # Nothing stands in the way of an ordinary first start.
        server.extra_flags.clear()
        server.launch()
        server.wait_ready()
    finally:
        server.close()


def test_false_and_the_environment_are_understood():
    with Server(KIND_LEASED, extra_flags=["--force-new-cluster=false"]) as server:
        server.stop()
        server.extra_flags.clear()
        server.env["ETCD_FORCE_NEW_CLUSTER"] = "true"
        server.restart()
        assert "--force-new-cluster: this member goes on alone" in server.log_tail(100000)
