"""One list of commands at redis-server and at leased, in RESP2 and RESP3: every reply is the same."""
import codecs
import pathlib
import re

import pytest

from harness.redis import Resp, leased_with_redis, plain, RedisServer
from harness.wait import wait_for

CASES = pathlib.Path(__file__).parent / "redis_cases"
GONE_SECONDS = 30.0
BLOCKED_SECONDS = 30.0


def read_cases():
    """(file, name, lines) of each case."""
    cases = []
    for path in sorted(CASES.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("== "):
                cases.append((path.stem, line[3:], []))
            elif line.strip():
                cases[-1][2].append(line)
    return cases


def split(text):
    """Words of a command: bare, or in double quotes with C's escapes."""
    words = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text):
        words.append(codecs.escape_decode(quoted.encode())[0] if not bare else bare.encode())
    return words


class Player:
    """Runs the lines of a case at one server."""

    def __init__(self, port, protocol):
        self.port = port
        self.protocol = protocol
        self.connections = {}

    def connection(self, number):
        if number not in self.connections:
            connection = Resp(self.port)
            if self.protocol == 3:
                connection("HELLO", "3")
            self.connections[number] = connection
        return self.connections[number]

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def play(self, line):
        """What the line shows; None when nothing is to be compared."""
        if line.startswith("gone "):
            key = line[5:].strip()
            with Resp(self.port) as other:
                wait_for(lambda: other("EXISTS", key) == (":", b"0"), GONE_SECONDS, f"{key} gone")
            return None
        if line.startswith("blocked "):
            with Resp(self.port) as other:
                wanted = b"blocked_clients:%d\r\n" % int(line[8:])
                wait_for(lambda: wanted in other("INFO", "clients")[1], BLOCKED_SECONDS, line)
            return None
        match = re.match(r"(\d)([<>&])\s*(.*)", line)
        connection = self.connection(int(match[1]) if match else 1)
        if match and match[2] == "<":
            return plain(connection.reply())
        if match and match[2] == "&":
            connection.send(*split(match[3]))
            return None
        text = match[3] if match else line
        mark = text[0] if text[0] in "~%" else ""
        reply = plain(connection(*split(text[len(mark):])))
        if mark == "~":
            return reply[0]
        return without_order(reply) if mark == "%" else reply


def without_order(reply):
    letter, values = reply
    if not isinstance(values, list):
        return reply
    if letter == "*" and len(values) == 2 and isinstance(values[1][1], list):  # a cursor and its elements
        return letter, [values[0], without_order(values[1])]
    return letter, sorted(values, key=repr)


@pytest.fixture(scope="module")
def servers():
    with RedisServer() as redis, leased_with_redis() as leased:
        yield redis, leased


def show(reply):
    return reply if not isinstance(reply, tuple) else f"{reply[0]} {reply[1]!r}"


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
@pytest.mark.parametrize("file,name,lines", read_cases(), ids=lambda value: value if isinstance(value, str) else "")
def test_same_replies(servers, file, name, lines, protocol):
    del file, name
    players = [Player(server.redis_port, protocol) for server in servers]
    differences = []
    try:
        for player in players:
            assert player.play("FLUSHALL") == ("+", b"OK")
            player.play("SCRIPT FLUSH")
        for line in lines:
            wanted, got = (player.play(line) for player in players)
            if wanted != got:
                differences.append(f"{line}\n    redis:  {show(wanted)}\n    leased: {show(got)}")
    finally:
        for player in players:
            player.close()
    assert not differences, f"{len(differences)} differ:\n" + "\n".join(differences)
