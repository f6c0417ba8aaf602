"""etcd's --config-file, its JSON log lines, and flags that harnesses made for etcd pass."""
import json
import os
import re
import subprocess

import pytest
import yaml

from harness import KIND_ETCD, KIND_LEASED, Server
from harness.certificates import Authority
from harness.etcdctl import call
from harness.kinds import binary_of
from harness.ports import free_ports


class FromFile(Server):
    """Started with a configuration file and, beside it, a flag that is ignored."""

    def __init__(self, **settings):
        super().__init__(KIND_LEASED)
        flags = super().flags()
        self.settings = {name[2:]: value for name, value in zip(flags[::2], flags[1::2])}
        self.settings.update(settings)
        self.path = os.path.join(self.home, "config.yml")

    def flags(self):
        with open(self.path, "w", encoding="utf-8") as file:
            yaml.safe_dump(self.settings, file)
        return ["--config-file", self.path, "--name", "ignored"]

    def text(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()


def refused(path):
    run = subprocess.run(
        [binary_of(KIND_LEASED), "--config-file", path], stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert run.returncode == 2, run.stderr
    return run.stderr.decode()


def test_a_file_alone_counts_and_says_so():
    with FromFile(**{"max-txn-ops": 128, "no-such-key": [1], "log-outputs": ["stderr"]}) as server:
        assert b"node1" in call(server, "member", "list").stdout
        text = server.text()
        assert "--name is ignored" in text
        assert "unknown key no-such-key" in text
        assert "command line flags and environment variables will be ignored" in text
        assert server.stop() == 0


def test_tls_has_a_section_of_its_own():
    authority = Authority()
    flags = authority.flags("node1")
    files = {name[len("--peer-") :]: path for name, path in zip(flags[::2], flags[1::2])}
    server = FromFile()
    server.settings["peer-transport-security"] = {**files, "client-cert-auth": True}
    for name in ("listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster"):
        server.settings[name] = server.settings[name].replace("http:", "https:")
    with server:
        assert call(server, "put", "key", "value").stdout == b"OK\n"


REFUSED = [
    ("name: [a, {b: c}]\n", "nothing but texts"),
    ("name: {a: b}\n", "a text, a number or a list is expected"),
    ("- name\n", "are expected"),
    ("name: a\n---\nname: b\n", "a second document"),
    ('name: "a\n', "line 2"),
    ("name: &a b\ndata-dir: *a\n", "is expected"),
    ("config-file: other.yml\n", "cannot name another"),
    ("heartbeat-interval: fast\n", "not a whole number"),
    ("max-request-bytes: " + "9" * 70000 + "\n", "a value of more than"),
    ("# " + "x" * (1 << 20) + "\n", "larger than 1 MiB"),
]


@pytest.mark.parametrize("text, reason", REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_file_that_cannot_be_meant_is_refused_with_its_line(tmp_path, text, reason):
    path = tmp_path / "config.yml"
    path.write_text(text, encoding="utf-8")
    assert reason in refused(str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "No such file" in refused(str(tmp_path / "none.yml"))


def test_lines_of_zap_with_the_texts_that_harnesses_wait_for():
    (port,) = free_ports(1)
    flags = ["--logger=zap", "--listen-client-http-urls", f"http://127.0.0.1:{port}"]
    with Server(KIND_LEASED, extra_flags=flags) as server:
        client_port, server.client_port = server.client_port, port
        assert server.http_get("/version")[0] == 200
        assert call(server, "put", "key", "value").stdout == b"OK\n"
        server.client_port = client_port
        assert server.stop() == 0
        with open(server.log_path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    for line in lines:
        assert list(line)[:2] == ["level", "ts"] and "msg" in line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["ts"])
        assert line["level"] in ("debug", "info", "warn", "error")
    texts = [line["msg"] for line in lines]
    for expected in (
        "ready to serve client requests", "became leader", "elected leader",
        "published local member to cluster through raft", "received signal; shutting down",
        "serving client traffic insecurely; this is strongly discouraged!", "closed etcd server",
    ):  # fmt: skip
        assert expected in texts, expected
    assert any(re.fullmatch(r"server/\w+\.c:\d+", line.get("caller", "")) for line in lines)


class AnyPort(Server):
    """Listens on port 0; the log tells which one that is."""

    def flags(self):
        flags = super().flags()
        flags[flags.index("--listen-client-urls") + 1] = "http://127.0.0.1:0"
        return flags

    def is_healthy(self):
        with open(self.log_path, encoding="utf-8") as file:
            told = re.search(r"for=clients url=http://127\.0\.0\.1:0 port=(\d+)", file.read())
        if told is None:
            return False
        self.client_port = int(told[1])
        return super().is_healthy()


def test_port_0_is_any_port_and_the_log_tells_it():
    with AnyPort(KIND_LEASED) as server:
        assert call(server, "put", "key", "value").stdout == b"OK\n"
        assert server.stop() == 0


def test_every_flag_of_etcd_is_known():
    """Of the etcd at hand: what has no meaning here is listed as such, or refused with a reason."""
    flag = re.compile(r"^\s+--([a-z0-9-]+)", re.M)
    ours = subprocess.run([binary_of(KIND_LEASED), "--help"], stdout=subprocess.PIPE, check=True).stdout
    theirs = subprocess.run([binary_of(KIND_ETCD), "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
    known = set(re.findall(r"--([a-z0-9-]+)", ours.decode()))
    assert len(set(flag.findall(theirs.decode()))) > 60
    assert set(flag.findall(theirs.decode())) <= known
