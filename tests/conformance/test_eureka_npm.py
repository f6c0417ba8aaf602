"""npm's eureka-js-client, unchanged, against leased."""
import contextlib
import json
import pathlib
import shutil
import subprocess
import threading

import pytest

from harness.eureka import Eureka, leased_with_eureka
from harness.wait import wait_for

JS = pathlib.Path(__file__).parent / "js"
WAIT_SECONDS = 40
INSTALL_SECONDS = 300


@pytest.fixture(name="node", scope="module")
def a_node():
    """Path of node, with the packages of js/ in place."""
    path = shutil.which("node") or shutil.which("nodejs")
    assert path, "no node: install Debian's nodejs and npm"
    installed = JS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (JS / "package-lock.json").stat().st_mtime:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, capture_output=True, text=True,
                              timeout=INSTALL_SECONDS, check=False)
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
    return path


@pytest.fixture(name="server", scope="module")
def a_server():
    with leased_with_eureka() as server:
        yield server


class Client:
    def __init__(self, node, server, kind):
        self.process = subprocess.Popen(
            [node, str(JS / "eureka_scenario.js"), str(server.eureka_port), kind], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.first = self.read()

    def read(self):
        watchdog = threading.Timer(WAIT_SECONDS, self.process.kill)
        watchdog.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        assert line, "the client ended"
        return json.loads(line)

    def tell(self, word="tell"):
        self.process.stdin.write(word + "\n")
        return self.read()


@contextlib.contextmanager
def running(node, server, kind):
    client = Client(node, server, kind)
    try:
        yield client
    finally:
        client.process.kill()
        client.process.wait()
        client.process.stdin.close()
        client.process.stdout.close()


@pytest.mark.parametrize("kind", ["full", "delta"])
def test_registers_beats_follows_and_leaves(node, server, kind):
    with Eureka(server.eureka_port) as eureka, running(node, server, kind) as client:
        name = "js-true" if kind == "delta" else "js-false"
        assert client.first["counts"]["registered"] == 1
        assert client.first["mine"] == [[name, 8080, "UP"]]
        shown = eureka.json(f"/apps/JSAPP/{name}")["instance"]
        assert shown["vipAddress"] == "jq.test.example" and shown["statusPageUrl"] == "http://localhost:8080/info"
        wait_for(lambda: client.tell()["counts"]["heartbeat"] >= 3, WAIT_SECONDS, "three heartbeats")
        # What others do is seen: one comes, is taken out of service, comes back, and goes.
        assert eureka.register("others", "o-1", hostName="host-1") == 204
        wait_for(lambda: client.tell()["others"] == ["o-1"], WAIT_SECONDS, "the other is seen")
        assert eureka.register("others", "o-2", hostName="host-2") == 204
        wait_for(lambda: client.tell()["others"] == ["o-1", "o-2"], WAIT_SECONDS, "both are seen")
        assert eureka.status("DELETE", "/apps/OTHERS/o-1") == 200
        wait_for(lambda: client.tell()["others"] == ["o-2"], WAIT_SECONDS, "one is left")
        assert eureka.status("DELETE", "/apps/OTHERS/o-2") == 200
        wait_for(lambda: client.tell()["others"] == [], WAIT_SECONDS, "none is left")
        # It is told that it is not known any more, and registers again.
        assert eureka.status("DELETE", f"/apps/JSAPP/{name}") == 200
        wait_for(lambda: client.tell()["counts"]["registered"] == 2, WAIT_SECONDS, "it registers again")
        wait_for(lambda: eureka.json(f"/apps/JSAPP/{name}"), WAIT_SECONDS, "it is there again")
        assert client.tell("stop")["counts"]["deregistered"] == 1
        assert eureka.json(f"/apps/JSAPP/{name}") is None
