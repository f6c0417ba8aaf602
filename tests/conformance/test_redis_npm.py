"""npm's ioredis, redis, redlock 4 and redlock 5, unchanged: the same results at redis-server and at leased."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness.redis import RedisServer, leased_with_redis

JS = pathlib.Path(__file__).parent / "js"
SCENARIO_SECONDS = 100
INSTALL_SECONDS = 300


@pytest.fixture(scope="module")
def node():
    """Path of node, with the packages of js/ in place."""
    path = shutil.which("node") or shutil.which("nodejs")
    assert path, "no node: install Debian's nodejs and npm"
    installed = JS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (JS / "package-lock.json").stat().st_mtime:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=JS, capture_output=True, text=True,
                              timeout=INSTALL_SECONDS, check=False)
        assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
    return path


@pytest.fixture(scope="module")
def servers():
    with RedisServer() as redis, leased_with_redis() as leased:
        yield redis, leased


def play(node, server, *words):
    done = subprocess.run([node, str(JS / "redis_scenario.js"), words[0], str(server.redis_port), *words[1:]],
                          capture_output=True, text=True, timeout=SCENARIO_SECONDS, check=False)
    assert done.returncode == 0, f"{server.kind}: {done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [("ioredis",), ("nodeRedis", "2"), ("nodeRedis", "3"), ("redlock4",), ("redlock5",)],
                         ids=" ".join)
def test_same_results(node, servers, words):
    wanted, got = (play(node, server, *words) for server in servers)
    assert got == wanted
    if words[0].startswith("redlock"):
        assert wanted["most"] == 1
        assert wanted["left"] == 0 and wanted["extended"]
