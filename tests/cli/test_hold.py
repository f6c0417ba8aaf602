"""`lease elect`, `reserve`, `session`, `exec` and `cron`: commands that run while something is held."""
import queue
import signal

import pytest

from cli_tool import Running, lease, lease_json
from harness import Server
from harness.certificates import Authority
from harness.tls_server import TlsServer, server_files

HOLD = 'echo "started $LEASE_TOKEN"; exec sleep 600'


@pytest.fixture(scope="module", name="server")
def _server():
    with Server("leased") as running:
        yield running


# elect


def test_the_next_leads_when_the_leader_is_killed(server):
    with Running("elect", "boss", "--observe", server=server) as observer:
        assert observer.line() == "no leader"
        one = Running("elect", "boss", "--value", "a:1", "--owner", "one", "--ttl", "1s", "--", "sh", "-c", HOLD, server=server)
        with one:
            token = int(one.line().split()[1])
            assert observer.line() == f"leader one, token {token}, value a:1"
            two = Running("elect", "boss", "--value", "b:2", "--owner", "two", "--", "sh", "-c", HOLD, server=server)
            with two:
                one.process.kill()
                next_token = int(two.line().split()[1])
                assert next_token > token
                lines = [observer.line()]
                if lines[-1] == "no leader":
                    lines.append(observer.line())
                assert lines[-1] == f"leader two, token {next_token}, value b:2"


def test_who_loses_the_leadership_stands_again(server):
    with Running("elect", "again", "--ttl", "2s", "--", "sh", "-c", HOLD, server=server) as running:
        first = int(running.line().split()[1])
        (leader,) = lease_json(server, "get", "again")["holders"]
        assert lease("revoke", leader["session"], server=server).returncode == 0
        assert int(running.line().split()[1]) > first
        running.signal(signal.SIGTERM)
        assert running.wait() == 128 + signal.SIGTERM


def test_a_command_that_ends_resigns(server):
    assert lease("elect", "short", "--", "sh", "-c", "exit 4", server=server).returncode == 4
    assert lease_json(server, "get", "short")["holders"] == []


def test_a_command_that_ends_by_itself_as_after_a_loss_is_not_run_again(server):
    """76 is what `lease` itself ends with when the leadership was lost."""
    with Running("elect", "seventy-six", "--", "sh", "-c", "echo run; exit 76", server=server) as running:
        assert running.wait() == 76
        assert running.rest() == ["run"]
        assert running.error_line() is None


def test_a_signal_while_the_command_is_being_ended_is_the_end(server):
    """It does not stand for election again: somebody told it to stop."""
    script = 'trap "echo ending" TERM; echo started; while :; do sleep 0.1; done'
    with Running("elect", "told to stop", "--ttl", "5s", "--", "sh", "-c", script, server=server) as running:
        assert running.line() == "started"
        (leader,) = lease_json(server, "get", "told to stop")["holders"]
        assert lease("revoke", leader["session"], server=server).returncode == 0
        assert running.line() == "ending"
        running.signal(signal.SIGTERM)
        assert running.wait() == 128 + signal.SIGTERM
        assert "started" not in running.rest()


# reserve


def test_jobs_share_a_pool(server):
    assert lease("pool", "set", "gpus", "0,1,2,3", server=server).stdout == "pool gpus has 4 slots\n"
    script = 'echo "$LEASE_SLOTS $LEASE_SLOTS_GPUS"; exec sleep 600'
    jobs = [Running("reserve", "gpus=2", "--owner", f"job-{i}", "--", "sh", "-c", script, server=server) for i in range(2)]
    try:
        slots = [job.line().split() for job in jobs]
        assert all(both[0] == both[1] for both in slots)
        assert sorted(",".join(both[0] for both in slots).split(",")) == ["0", "1", "2", "3"]
        assert lease("reserve", "gpus", "--no-wait", "--", "true", server=server).returncode == 75
        (pool,) = lease_json(server, "pool", "ls")["pools"]
        assert {slot["owner"] for slot in pool["slots"]} == {"job-0", "job-1"}
        refused = lease("pool", "rm", "gpus", server=server)
        assert refused.returncode == 1 and refused.stderr
        with Running("reserve", "gpus=3", "--owner", "large", "--", "sh", "-c", script, server=server) as large:
            for job in jobs:
                job.signal(signal.SIGTERM)
                job.wait()
            assert len(large.line().split()[0].split(",")) == 3
            large.signal(signal.SIGTERM)
            large.wait()
        assert lease("pool", "rm", "gpus", server=server).returncode == 0
    finally:
        for job in jobs:
            job.process.kill()
            job.process.wait()


@pytest.mark.parametrize("words", [["gpus=0"], ["gpus=x"], ["=2"], ["gpus="], ["gpus=99999"]])
def test_slots_that_cannot_be_are_refused(words):
    assert lease("reserve", *words, "--", "true").returncode == 2


def test_a_pool_that_does_not_exist_is_told(server):
    done = lease("reserve", "nothing", "--no-wait", "--", "true", server=server)
    assert done.returncode == 69 and "nothing" in done.stderr


# session and exec


def test_a_session_ends_with_its_command(server):
    with Running("session", "--owner", "sue", "--", "sh", "-c", "echo $LEASE_ID; exec sleep 600", server=server) as running:
        session = running.line()
        (found,) = [one for one in lease_json(server, "ls")["sessions"] if one["owner"] == "sue"]
        assert (found["id"], found["class"], found["ttl_ms"]) == (session, "session", 900_000)
        running.signal(signal.SIGTERM)
        running.wait()
    assert [one for one in lease_json(server, "ls")["sessions"] if one["owner"] == "sue"] == []


@pytest.mark.parametrize("how", [[], ["--for", "reservation"], ["--renew", "explicit"]])
def test_a_session_lives_as_long_as_its_command_writes(server, how):
    """Longer than its TTL while there is activity, then none: the command is ended."""
    script = ('for i in 1 2 3 4 5 6; do echo >&$LEASE_RENEW_FD; sleep 0.5; done; echo quiet; '
              'exec sleep 600')  # fmt: skip
    with Running("session", "--ttl", "2s", *how, "--", "sh", "-c", script, server=server) as running:
        assert running.line() == "quiet"
        assert running.wait() == 76


def test_exec_holds_locks_and_slots_together(server):
    lease("pool", "set", "tapes", "a,b", server=server)
    script = 'echo "$LEASE_NAME $LEASE_SLOTS"'
    done = lease("exec", "--lock", "x", "--shared", "y", "--reserve", "tapes=2", "--", "sh", "-c", script, server=server)
    assert done.stdout == "x,y,tapes=2 a,b\n"
    assert lease("exec", server=server).returncode == 2
    assert lease("exec", "--", "sh", "-c", "test -n \"$LEASE_ID\"", server=server).returncode == 0


# cron


def test_a_tick_runs_once_on_one_machine(server):
    machines = [Running("cron", "tick", "0 0 1 1 *", "--now", "--owner", f"machine-{i}", "--", "sh", "-c",
                        "echo ran $LEASE_TICK", server=server) for i in range(4)]  # fmt: skip
    lines = []
    for machine in machines:
        with machine:
            lines += machine.rest()
            assert machine.wait() == 0
    assert len(lines) == 1 and lines[0].startswith("ran ")
    late = lease("cron", "tick", "0 0 1 1 *", "--now", "--verbose", "--", "echo", "again", server=server)
    assert late.stdout == "" and "was run already" in late.stderr
    other = lease("cron", "other", "0 0 1 1 *", "--now", "--", "sh", "-c", "exit 3", server=server)
    assert other.returncode == 3


def test_a_schedule_that_cannot_be_is_refused():
    done = lease("cron", "job", "* * *", "--", "true")
    assert done.returncode == 2 and "five fields are needed" in done.stderr


# looking and changing


def test_ls_is_a_tree_of_owners(server):
    with Running("lock", "tree", "--owner", "zoe", "--ttl", "3s", "--", "sh", "-c", HOLD, server=server) as running:
        token = running.line().split()[1]
        lines = lease("ls", "--owner", "zoe", server=server).stdout.splitlines()
        assert lines[0].split()[:3] == ["OWNER,", "SESSION,", "RESOURCE"]
        assert lines[1].strip() == "zoe"
        assert lines[2].split()[1:3] == ["lock", "3s"]
        assert lines[3].split() == ["tree", "held", token]
        session = lines[2].split()[0]
        assert lease("renew", session, server=server).stdout == f"{session} renewed, ttl 3s\n"
        dry = lease("revoke", "--owner", "zoe", "--dry-run", server=server)
        assert dry.stdout == f"{session} would be revoked\n"
        assert lease("revoke", "--prefix", "tree", server=server).stdout == f"{session} revoked\n"
        assert running.wait() == 76
    assert lease("revoke", "--owner", "zoe", server=server).returncode == 1
    assert lease("revoke", server=server).returncode == 2
    assert lease("renew", session, server=server).returncode == 1


def test_watch_tells_what_happens(server):
    with Running("watch", "seen/", server=server) as watch:
        # The watch may begin a moment after the process, also while a lock is held: locks are taken until it tells of one.
        first = ""
        for i in range(200):
            lease("lock", f"seen/{i}", "--owner", "eve", "--", "true", server=server)
            try:
                while "acquired" not in first:
                    first = watch.line(0.05)
                break
            except queue.Empty:
                continue
        assert "acquired" in first and "eve" in first
        rest = watch.line()
        assert "seen/" in rest
        watch.signal(signal.SIGINT)
        watch.wait()


def test_top_shows_members_and_the_lock_that_is_waited_for(server):
    with Running("lock", "hot", "--owner", "max", "--ttl", "3s", "--", "sh", "-c", HOLD, server=server) as running:
        running.line()
        with Running("lock", "hot", "--verbose", "--", "true", server=server) as second:
            assert "waiting" in second.error_line()
            (member,) = lease_json(server, "top", "--interval", "100ms")["members"]
            assert member["up"] and member["leader"] and member["sessions"] >= 2
            lines = lease("top", "--interval", "100ms", server=server).stdout.splitlines()
            assert lines[0].split()[:2] == ["MEMBER", "STATE"] and "leader" in lines[1]
            (row,) = [line.split() for line in lines if line.startswith("hot ")]
            assert row[1] == "max" and row[4] == "1", row
    gone = lease_json(None, "-e", "127.0.0.1:1", "top", "--interval", "100ms")["members"]
    assert gone == [{"endpoint": "127.0.0.1:1", "up": False, "problem": "down"}]


def test_top_shows_a_member_that_speaks_tls_and_asks_for_a_user():
    with Authority() as authority, TlsServer("leased", server_files(authority), authority.certificate) as server:
        top = ["top", "--rounds", "1", *server.client_flags()]
        (member,) = lease_json(server, *top)["members"]
        assert member["up"] and member["leader"]
        for words in (["user", "add", "root"], ["role", "add", "root"], ["user", "grant", "root", "root"], ["auth", "enable"]):
            done = lease(*words, *server.client_flags(), server=server, stdin="secret\n")
            assert done.returncode == 0, done.stderr
        assert lease_json(server, "--user", "root:secret", *top)["members"][0]["up"]
        (refused,) = lease_json(server, *top)["members"]
        assert refused["problem"] == "no metrics, or refused"


def test_advise_halves_a_ttl_that_others_waited_for_and_doubles_one_that_hit_the_living():
    with Server("leased") as server:
        for owner in ("dead", "alive"):
            with Running("lock", owner, "--owner", owner, "--ttl", "2s", "--for", "lock" if owner == "dead" else "leader", "--",
                         "sh", "-c", HOLD, server=server) as running:  # fmt: skip
                running.line()
                running.process.kill()
            again = owner if owner == "alive" else "other"
            lease("lock", owner, "--owner", again, "--for", "leader", "--ttl", "2s", "--", "true", server=server)
        advice = {one["class"]: one for one in lease_json(server, "advise")["classes"]}
        assert (advice["lock"]["expired"], advice["lock"]["expired_alive"]) == (1, 0)
        assert advice["lock"]["advised_ttl_ms"] == 1000
        assert (advice["leader"]["expired"], advice["leader"]["expired_alive"]) == (1, 1)
        assert advice["leader"]["advised_ttl_ms"] == 4000
        table = lease("advise", server=server).stdout
        assert "holders that were alive" in table and table.startswith("CLASS")


def test_the_commands_tell_that_etcd_cannot(server):
    del server
    with Server("etcd") as etcd:
        done = lease("lock", "plain", "--", "sh", "-c", "echo $LEASE_TOKEN", server=etcd)
        assert done.returncode == 0 and int(done.stdout) > 0, done.stderr
        assert lease("elect", "plain", "--", "true", server=etcd).returncode == 0
        refused = lease("reserve", "gpus=2", "--", "true", server=etcd)
        assert refused.returncode == 69 and refused.stderr
        assert lease("ls", server=etcd).returncode == 0
