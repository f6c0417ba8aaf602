"""redis-cli, redis-benchmark, celery with its Redis broker and result store, and rq, unchanged."""
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import redis

from harness.kinds import KIND_LEASED
from harness.lease_bench import bench
from harness.redis import KIND_REDIS, RedisServer, leased_with_redis, redis_server_of
from harness.wait import wait_for

TOOL_SECONDS = 100
JOB_SECONDS = 90.0

# What people type at redis-cli; answers are compared as it shows them.
SESSION = """\
PING
SET greeting "hello world" EX 1000
GET greeting
TTL greeting
INCR counter
HSET user:1 name Ann age 30
HGET user:1 name
LPUSH list a b c
LRANGE list 0 -1
ZADD board 1 one 2.5 two
ZRANGE board 0 -1 WITHSCORES
SADD tags x
SMEMBERS tags
TYPE board
EVAL "return {1,'two',{3}}" 0
MULTI
INCR counter
EXEC
GET nosuch
LPUSH greeting x
NOSUCH
EXISTS greeting nosuch
DEL greeting
DBSIZE
SELECT 3
SET there 1
SELECT 0
EXISTS there
"""


@pytest.fixture(scope="module")
def servers():
    with RedisServer() as server, leased_with_redis() as leased:
        yield server, leased


def redis_cli(server, *words, given=""):
    path = shutil.which("redis-cli")
    assert path, "no redis-cli: install Debian's redis-tools"
    done = subprocess.run([path, "-p", str(server.redis_port), *words], input=given, capture_output=True, text=True,
                          timeout=TOOL_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [(), ("-3",), ("--no-raw",), ("--csv",), ("--json",)], ids=" ".join)
def test_a_session_of_redis_cli(servers, words):
    for server in servers:
        assert redis_cli(server, "FLUSHALL") == (0, "OK\n", "")
    wanted, got = (redis_cli(server, *words, given=SESSION) for server in servers)
    assert got == wanted
    assert wanted[0] == 0


def test_redis_cli_scans_and_pipes(servers):
    results = []
    for server in servers:
        redis_cli(server, "FLUSHALL")
        mass = "".join(f"SET key:{i} {i}\r\n" for i in range(300))
        results.append([
            redis_cli(server, "--pipe", given=mass)[1].splitlines()[-1],
            sorted(redis_cli(server, "--scan", "--pattern", "key:1*")[1].split()),
            redis_cli(server, "-r", "3", "INCR", "n"),
            redis_cli(server, "-n", "2", "DBSIZE"),
            redis_cli(server, "--eval", "/dev/stdin", "k", ",", "v", given="return {KEYS[1],ARGV[1]}"),
        ])
    assert results[0] == results[1]


def test_redis_benchmark(servers):
    _, leased = servers
    path = shutil.which("redis-benchmark")
    assert path, "no redis-benchmark: install Debian's redis-tools"
    tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"
    for extra in ([], ["-P", "8"]):
        done = subprocess.run([path, "-p", str(leased.redis_port), "-n", "300", "-c", "10", "-q", "-t", tests, *extra],
                              capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rror" not in done.stdout + done.stderr.replace("WARNING: Could not fetch server CONFIG", "")
        assert done.stdout.count("requests per second") >= 15


@pytest.mark.parametrize("words", [(), ("--connections", 2), ("--rate", 200)], ids=str)
def test_locks_of_lease_bench(servers, words):
    for server in servers:
        seen = bench(f"127.0.0.1:{server.redis_port}", "redis-lock", "--clients", 10, *words)
        assert seen["operations"] > 0 and seen["latency_ms"]["p50"] > 0
        with redis.Redis(port=server.redis_port) as client:
            assert not client.keys("/bench/*")


def environment(folder):
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.parametrize("kind", [KIND_REDIS, KIND_LEASED])
def test_tasks_of_celery(kind, tmp_path):
    with redis_server_of(kind) as server:
        url = f"redis://127.0.0.1:{server.redis_port}"
        pathlib.Path(tmp_path / "some_tasks.py").write_text(textwrap.dedent(f"""
            import celery
            app = celery.Celery("some_tasks", broker="{url}/0", backend="{url}/1")

            @app.task
            def add(a, b):
                return a + b

            @app.task
            def total(numbers):
                return sum(numbers)
            """), encoding="utf-8")
        program = textwrap.dedent(f"""
            import celery, some_tasks
            results = [some_tasks.add.delay(i, 1) for i in range(5)]
            print([result.get(timeout={JOB_SECONDS}) for result in results])
            print(celery.chord([some_tasks.add.s(i, i) for i in range(4)], some_tasks.total.s())().get(
                timeout={JOB_SECONDS}))
            print((some_tasks.add.s(1, 2) | some_tasks.add.s(10)).apply_async(countdown=0.1).get(
                timeout={JOB_SECONDS}))
            """)
        log_path = tmp_path / "worker.log"
        with open(log_path, "w", encoding="utf-8") as log, subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "some_tasks", "worker", "-P", "solo", "-l", "INFO",
                 "--without-mingle"], env=environment(tmp_path), cwd=tmp_path, stdout=log,
                stderr=subprocess.STDOUT) as worker:
            try:
                wait_for(lambda: " ready." in log_path.read_text(encoding="utf-8"), JOB_SECONDS, "worker ready")
                done = subprocess.run([sys.executable, "-c", program], env=environment(tmp_path), cwd=tmp_path,
                                      capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
            finally:
                worker.kill()
        assert done.returncode == 0, done.stderr + log_path.read_text(encoding="utf-8")
        assert done.stdout.splitlines() == ["[1, 2, 3, 4, 5]", "12", "13"]
        assert redis.Redis(port=server.redis_port).llen("celery") == 0


@pytest.mark.parametrize("kind", [KIND_REDIS, KIND_LEASED])
def test_jobs_of_rq(kind, tmp_path):
    pathlib.Path(tmp_path / "some_jobs.py").write_text(textwrap.dedent("""
        def add(a, b):
            return a + b

        def fail():
            raise ValueError("wrong")
        """), encoding="utf-8")
    program = textwrap.dedent("""
        import sys, redis, rq, some_jobs
        connection = redis.Redis(port=int(sys.argv[1]))
        queue = rq.Queue(connection=connection)
        jobs = [queue.enqueue(some_jobs.add, i, i) for i in range(5)]
        jobs.append(queue.enqueue(some_jobs.add, 1, 1, depends_on=jobs[0]))
        wrong = queue.enqueue(some_jobs.fail)
        rq.SimpleWorker([queue], connection=connection).work(burst=True)
        print([job.latest_result().return_value for job in jobs])
        print(wrong.get_status(), wrong.latest_result().exc_string.splitlines()[-1], len(queue.failed_job_registry))
        """)
    with redis_server_of(kind) as server:
        done = subprocess.run([sys.executable, "-c", program, str(server.redis_port)], env=environment(tmp_path),
                              cwd=tmp_path, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[0, 2, 4, 6, 8, 2]", "failed ValueError: wrong 1"]
