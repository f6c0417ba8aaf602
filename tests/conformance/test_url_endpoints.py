"""Endpoints written as URLs: etcdctl 3.4 then puts the whole URL into HTTP/2's :authority."""
import subprocess

import pytest

from harness.etcdctl import etcdctl_path
from harness.kinds import clean_environment


@pytest.mark.parametrize("words", [
    ["endpoint", "status"], ["endpoint", "hashkv"], ["endpoint", "health"], ["put", "key", "value"],
    ["alarm", "list"], ["defrag"],
], ids=" ".join)  # fmt: skip
def test_an_endpoint_may_be_written_as_a_url(server, words):
    done = subprocess.run(
        [etcdctl_path(), "--endpoints", server.client_url, *words],
        env={**clean_environment(), "ETCDCTL_API": "3"}, capture_output=True, text=True,
        timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PROTOCOL_ERROR" not in done.stderr
