"""`lease lock`: a command that runs while a lock is held, and never longer."""
import contextlib
import os
import re
import signal
import time

import pytest

from cli_tool import Running, lease, lease_json
from harness import Server
from harness.wait import wait_for

GONE_SECONDS = 60.0
HOLD = 'echo "started $LEASE_TOKEN $$"; exec sleep 600'


@pytest.fixture(scope="module", name="server")
def _server():
    with Server("leased") as running:
        yield running


@pytest.fixture(name="name")
def _name(request):
    return request.node.name


def holder(server, name, *options, script=HOLD):
    """A `lease lock` whose command has started, with its token and the command's pid."""
    running = Running("lock", name, *options, "--", "sh", "-c", script, server=server)
    word, token, pid = running.line().split()
    assert word == "started"
    return running, int(token), int(pid)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pid):
    wait_for(lambda: not is_alive(pid), GONE_SECONDS, f"pid {pid} gone")


# Who has it


def test_a_lock_that_is_not_free_is_told_with_its_holder(server, name):
    running, _, _ = holder(server, name, "--owner", "web-7")
    with running:
        done = lease("lock", name, "--no-wait", "--", "true", server=server)
        assert done.returncode == 75
        assert re.fullmatch(rf"lease: {name} is not free: held by web-7, ends in \d+s unless renewed\n", done.stderr)


def test_slots_that_are_not_free_are_told_with_their_number(server, name):
    assert lease("pool", "set", name, "a,b,c", server=server).returncode == 0
    with Running("reserve", f"{name}=2", "--", "sh", "-c", "echo started; exec sleep 600", server=server) as running:
        assert running.line() == "started"
        done = lease("reserve", f"{name}=2", "--no-wait", "--", "true", server=server)
        assert done.returncode == 75 and "free are 1 of 3 slots" in done.stderr


def test_an_owner_cannot_write_to_the_terminals_of_those_who_wait(server, name):
    running, _, _ = holder(server, name, "--owner", "web\x1b]0;owned\x07")
    with running, Running("lock", name, "--verbose", "--", "true", server=server) as waiting:
        line = waiting.error_line()
        assert "held by web" in line and line.isprintable()


# What it runs


def test_the_command_knows_what_it_holds(server, name):
    script = ('read first second < /dev/fd/$LEASE_DEADLINE_FD; [ "$first" = "$second" ] && '
              'echo "$LEASE_NAME $LEASE_TOKEN $LEASE_ID ${first##*(0)}"')  # fmt: skip
    done = lease("lock", name, "--", "bash", "-c", "shopt -s extglob; " + script, server=server)
    assert done.returncode == 0, done.stderr
    got_name, token, session, deadline = done.stdout.split()
    now_ms = time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
    assert got_name == name
    assert int(token) > 0 and re.fullmatch(r"[0-9a-f]{1,16}", session)
    assert now_ms - 60_000 < int(deadline) < now_ms + 15_000, "the usual TTL of a lock is 15 s"


def test_the_exit_code_is_passed_on(server, name):
    assert lease("lock", name, "--", "sh", "-c", "exit 7", server=server).returncode == 7
    assert lease("lock", name, "--", "sh", "-c", "kill -USR1 $$", server=server).returncode == 128 + signal.SIGUSR1
    missing = lease("lock", name, "--", "/nowhere/command", server=server)
    assert missing.returncode == 127 and "cannot be run: No such file" in missing.stderr
    assert lease("lock", name, "--", "/", server=server).returncode == 126


def test_signals_are_passed_down(server, name):
    script = 'trap "echo told; exit 9" USR1; echo "started $LEASE_TOKEN $$"; while :; do sleep 0.02; done'
    running, _, pid = holder(server, name, script=script)
    with running:
        running.signal(signal.SIGUSR1)
        assert running.line() == "told"
        assert running.wait() == 9
    wait_gone(pid)


def test_tokens_grow_and_the_lock_is_free_afterwards(server, name):
    tokens = [int(lease("lock", name, "--", "sh", "-c", "echo $LEASE_TOKEN", server=server).stdout) for _ in range(3)]
    assert tokens == sorted(set(tokens))
    assert lease_json(server, "get", name)["holders"] == []


# Who waits


def test_one_after_the_other(server, name):
    first, first_token, _ = holder(server, name)
    with first:
        second = Running("lock", name, "--verbose", "--", "sh", "-c", HOLD, server=server)
        with second:
            told = second.error_line()
            assert f"waiting for {name}: position 1, held by " in told
            state = lease_json(server, "get", name)
            assert state["waiting"] == 1 and state["holders"][0]["token"] == first_token
            first.signal(signal.SIGTERM)
            assert first.wait() == 128 + signal.SIGTERM
            _, token, _ = second.line().split()
            assert int(token) > first_token


def test_who_does_not_wait_is_told_who_has_it(server, name):
    first, _, _ = holder(server, name, "--owner", "ann")
    with first:
        busy = lease("lock", name, "--no-wait", "--", "true", server=server)
        assert busy.returncode == 75 and f"{name} is not free" in busy.stderr
        assert lease("lock", name, "--wait", "100ms", "--", "true", server=server).returncode == 75
        assert lease_json(server, "get", name)["waiting"] == 0, "who gives up leaves the queue"
        both = lease("lock", name, "--no-wait", "--wait", "1s", "--", "true", server=server)
        assert both.returncode == 2


def test_who_waits_and_is_interrupted_leaves_the_queue(server, name):
    first, _, _ = holder(server, name)
    with first, Running("lock", name, "--verbose", "--", "true", server=server) as second:
        assert "waiting" in second.error_line()
        second.signal(signal.SIGINT)
        assert second.wait() == 128 + signal.SIGINT
        assert lease_json(server, "get", name)["waiting"] == 0


def test_shared_locks_are_held_together_and_exclude_others(server, name):
    one, _, _ = holder(server, name, "--shared")
    two, _, _ = holder(server, name, "--shared")
    with one, two:
        assert len(lease_json(server, "get", name)["holders"]) == 2
        assert lease("lock", name, "--no-wait", "--", "true", server=server).returncode == 75
        one.signal(signal.SIGTERM)
        two.signal(signal.SIGTERM)
        one.wait(), two.wait()
    assert lease("lock", name, "--no-wait", "--", "true", server=server).returncode == 0


def test_several_locks_are_held_at_once_or_not_at_all(server, name):
    first, _, _ = holder(server, name + "/b", "--ttl", "1s")
    with first:
        assert lease("lock", "--no-wait", name + "/a", name + "/b", "--", "true", server=server).returncode == 75
        assert lease("lock", "--no-wait", name + "/a", "--", "true", server=server).returncode == 0
    wait_for(lambda: lease("lock", name + "/a", name + "/b", "--", "true", server=server).returncode == 0,
             GONE_SECONDS, "both are free")  # fmt: skip


def test_without_a_command_it_is_held_until_a_signal(server, name):
    with Running("lock", name, server=server) as running:
        assert re.fullmatch(rf"{name} held, token \d+, session [0-9a-f]+", running.line())
        assert len(lease_json(server, "get", name)["holders"]) == 1
        running.signal(signal.SIGINT)
        assert running.wait() == 0
    assert lease_json(server, "get", name)["holders"] == []


def test_without_a_command_it_ends_with_its_hold_limit(server, name):
    with Running("lock", name, "--hold-limit", "1s", server=server) as running:
        assert running.line().startswith(f"{name} held")
        assert running.wait() == 76
        assert running.error_line() == f"lease: {name} was lost: its hold limit is over"
    assert lease_json(server, "get", name)["holders"] == []


# What must never be left behind


def test_a_killed_lease_leaves_nothing_and_the_next_gets_the_lock(server, name):
    script = '(setsid sh -c "trap \'\' TERM HUP; echo $$ >&2; exec sleep 600") & ' + HOLD
    running, token, pid = holder(server, name, "--ttl", "1s", script=script)
    with running:
        stray = int(running.error_line())
        running.process.kill()
        wait_gone(pid)
        del stray
    done = lease("lock", name, "--", "sh", "-c", "echo $LEASE_TOKEN", server=server)
    assert int(done.stdout) > token
    ended = lease_json(server, "why", name)["ended"]
    assert any(one["reason"] == "expired" and one["acquisition"]["token"] == token for one in ended)


def test_a_stopped_lease_cannot_keep_its_command_alive(server, name):
    """SIGSTOP of `lease` alone: its guard ends the command before the next one can hold the lock."""
    beat = 'echo "started $LEASE_TOKEN $$"; while :; do date +%s%N; sleep 0.02; done'
    running, token, pid = holder(server, name, "--ttl", "2s", script=beat)
    with running:
        running.signal(signal.SIGSTOP)
        done = lease("lock", name, "--", "sh", "-c", "date +%s%N; echo $LEASE_TOKEN", server=server)
        next_ns, next_token = map(int, done.stdout.split())
        wait_gone(pid)
        running.signal(signal.SIGCONT)
        assert running.wait() == 76, "its lease was lost"
        beats = [int(line) for line in running.rest()]
    assert next_token > token
    assert max(beats) < next_ns, "the command was still alive when the next one held the lock"


def test_a_server_that_is_gone_ends_the_command_in_time(name):
    with Server("leased") as server:
        beat = 'echo "started $LEASE_TOKEN $$"; while :; do sleep 0.02; done'
        running, _, pid = holder(server, name, "--ttl", "1s", script=beat)
        with running:
            server.process.pause()
            try:
                assert running.wait() == 76
                assert not is_alive(pid)
                errors = []
                while (line := running.error_line()) is not None:
                    errors.append(line)
                assert any(f"{name} was lost and the command was ended" in line for line in errors)
            finally:
                server.process.resume()


def test_a_holder_that_slept_too_long_is_refused_by_the_fence(server, name):
    """The whole group stopped, `lease` and guard and command: nothing here can end it, so the resource must."""
    running, token, pid = holder(server, name, "--ttl", "1s")
    with running:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            guard = int(stat.read().rpartition(")")[2].split()[1])
        for one in (running.process.pid, guard, pid):
            os.kill(one, signal.SIGSTOP)
        check = 'lease fence check "$LEASE_NAME"'
        done = lease("lock", name, "--", "sh", "-c", check, server=server)
        assert done.returncode == 0, done.stderr
        stale = lease("fence", "check", name, token, server=server)
        assert stale.returncode == 1 and f"refused: token {token} is older than" in stale.stdout
        for one in (guard, pid, running.process.pid):
            # The guard that was woken may have ended the others already.
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)
        assert running.wait() == 76
        wait_gone(pid)


def test_a_revoked_holder_is_ended_and_why_tells_it(server, name):
    running, token, pid = holder(server, name, "--ttl", "2s")
    with running:
        (found,) = lease_json(server, "get", name)["holders"]
        assert lease("revoke", found["session"], server=server).returncode == 0
        assert running.wait() == 76
        wait_gone(pid)
    (ended,) = [one for one in lease_json(server, "why", name)["ended"] if one["acquisition"]["token"] == token]
    assert ended["reason"] == "revoked"
    assert "revoked by somebody else" in lease("why", name, server=server).stdout
