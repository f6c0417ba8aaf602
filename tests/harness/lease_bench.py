"""`lease bench` at an address, for the workloads of other protocols than etcd's."""
import json
import subprocess

from harness.kinds import clean_environment, lease_tool

RUN_SECONDS = 60.0


def bench(address, *words):
    """What it measured in a short run."""
    done = subprocess.run(
        [lease_tool(), "bench", *map(str, words), "--duration", "300ms", "--warm-up", "100ms", "--json", "--endpoint",
         address], capture_output=True, text=True, timeout=RUN_SECONDS, env=clean_environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
