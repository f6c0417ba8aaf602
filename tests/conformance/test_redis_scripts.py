"""The list of scripts and replies that the sandbox is tested with is true: redis-server says so, and leased, too."""
import pathlib
import re

import pytest

from harness.kinds import KIND_LEASED
from harness.redis import KIND_REDIS, Resp, redis_server_of

LIST = pathlib.Path(__file__).parents[1] / "fixtures" / "redis" / "scripts.txt"
ESCAPES = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"\\": b"\\"}


def unescape(text):
    return re.sub(rb"\\(x..|.)",
                  lambda match: ESCAPES.get(match[1]) or bytes([int(match[1][1:], 16)]), text)


def read_list():
    lines = [line for line in LIST.read_bytes().split(b"\n") if line and not line.startswith(b"#")]
    return [(script.replace(b"\\N", b"\n"), unescape(reply[4:])) for script, reply in zip(lines[::2], lines[1::2])]


def raw(connection, script):
    """The bytes of the reply; what is behind it shows where it ends."""
    connection.send("EVAL", script, "0")
    connection.send("ECHO", "--end--")
    end = b"$7\r\n--end--\r\n"
    while not connection.buffer.endswith(end):
        connection._more()
    reply, connection.buffer = connection.buffer[:-len(end)], b""
    return reply


@pytest.mark.parametrize("kind", [KIND_REDIS, KIND_LEASED])
def test_scripts_reply_as_listed(kind):
    differences = []
    with redis_server_of(kind) as server, Resp(server.redis_port) as connection:
        for script, expected in read_list():
            reply = raw(connection, script)
            if reply != expected:
                differences.append(f"{script!r}\n    expected {expected!r}\n    got      {reply!r}")
    assert not differences, f"{len(differences)} differ:\n" + "\n".join(differences)


def test_scripts_that_are_kept_are_bounded():
    """Somebody who sends another script each time fills no store; what was used last is still known."""
    with redis_server_of(KIND_LEASED) as server, Resp(server.redis_port) as connection:
        first = connection("SCRIPT", "LOAD", "return 'first'")[1]
        for start in range(0, 1100, 100):
            for i in range(start, start + 100):
                connection.send("EVAL", f"return {i}", "0")
            for i in range(start, start + 100):
                assert connection.reply() == (":", str(i).encode())
        last = connection("SCRIPT", "LOAD", "return 1099")[1]
        assert connection("SCRIPT", "EXISTS", last, first) == ("*", [(":", b"1"), (":", b"0")])
        assert connection("EVALSHA", last, "0") == (":", b"1099")
        assert connection("EVALSHA", first, "0")[1].startswith(b"NOSCRIPT")
        connection("SCRIPT", "FLUSH")
        assert connection("SCRIPT", "EXISTS", last) == ("*", [(":", b"0")])
        assert connection("SCRIPT", "LOAD", "return 'first'")[1] == first
        assert connection("EVALSHA", first, "0") == ("$", b"first")
