"""A process that puts and renews all the time and measures how long each request waits.

    probe.py PORT [USER PASSWORD]

It says "ready" after its first round, ends when its standard input does, and then prints one line
of JSON. It is a process of its own, of high priority where it may be, and speaks frames by hand, so that the attacker's work
in the test's process does not count as the server's."""
import contextlib
import json
import os
import pathlib
import sys
import threading
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.http2_frames import DATA, Connection, Ended, call, frame, message  # noqa: E402

AUTHENTICATE = b"/etcdserverpb.Auth/Authenticate"
PUT = b"/etcdserverpb.KV/Put"
GRANT = b"/etcdserverpb.Lease/LeaseGrant"
KEEP_ALIVE = b"/etcdserverpb.Lease/LeaseKeepAlive"
TTL_SECONDS = 60
PAUSE_SECONDS = 0.01
# Longer than any wait that is to be measured; what takes longer is a failure.
GIVE_UP_SECONDS = 60.0
PRIORITY = -10
PREFIX_SIZE = 5


def varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes(out) + bytes([number])


def pack(**fields):
    """pack(_1=b"key", _3=7): a message of bytes and numbers by field number. The libraries that could do
    this take longer to load than most attacks."""
    out = b""
    for name, value in fields.items():
        if isinstance(value, bytes):
            out += varint(int(name[1:]) << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(int(name[1:]) << 3) + varint(value)
    return out


def unpack(data):
    """The numbers and bytes of a message by their field numbers."""
    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at, fields = 0, {}
    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            fields[tag >> 3] = number()
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size = number()
            fields[tag >> 3] = data[at: at + size]
            at += size
    return fields


class Measured:
    """Longest and count of one kind of request."""

    def __init__(self):
        self.count = 0
        self.longest_s = 0.0
        self.longest_at_s = 0.0

    def add(self, begun):
        waited = time.monotonic() - begun
        self.count += 1
        if waited > self.longest_s:
            self.longest_s, self.longest_at_s = waited, begun


class Client:
    """One connection for puts and one for the stream of renewals."""

    def __init__(self, server, user=None):
        """`user` is a name and a password."""
        self._token = ()
        self._writes = Connection(server, timeout_s=GIVE_UP_SECONDS)
        self._renewals = Connection(server, timeout_s=GIVE_UP_SECONDS)
        self._stream = 1
        if user is not None:
            name, password = (text.encode() for text in user)
            answer = unpack(self._unary(AUTHENTICATE, pack(_1=name, _2=password)))
            self._token = ((b"token", answer[2]),)
        self._lease = unpack(self._unary(GRANT, pack(_1=TTL_SECONDS)))[2]
        self._renewal = pack(_1=self._lease)
        self._renewals.send(call(1, KEEP_ALIVE, self._renewal, *self._token, flags=0))
        self._received = 0
        self._wait_renewed()

    def _unary(self, path, request):
        stream, self._stream = self._stream, self._stream + 2
        self._writes.send(call(stream, path, request, *self._token))
        answer = self._writes.wait_answer(stream)
        assert answer.grpc_status == 0, f"{path}: {answer.grpc_status} {answer.grpc_message}"
        del self._writes.answers[stream]
        return bytes(answer.data[PREFIX_SIZE:])

    def put(self, number):
        self._unary(PUT, pack(_1=b"/probe", _2=b"%d" % number, _3=self._lease))

    def renew(self):
        self._renewals.send(frame(DATA, 0, 1, message(self._renewal)))
        self._wait_renewed()

    def _wait_renewed(self):
        answer = self._renewals.answers[1]
        self._renewals.wait_for(lambda: answer.is_complete or len(answer.data) > self._received)
        assert not answer.is_complete, f"the stream ended: {answer.grpc_message}"
        renewed = unpack(bytes(answer.data[PREFIX_SIZE:]))
        assert renewed.get(3) == TTL_SECONDS, "the lease has ended"
        answer.data.clear()


def main():
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    server = types.SimpleNamespace(client_port=int(sys.argv[1]))
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    puts, renewals = Measured(), Measured()
    late_s, failure = 0.0, None
    try:
        client = Client(server, sys.argv[2:] or None)
        client.put(0)
        print("ready", flush=True)
        while not done.is_set():
            begun = time.monotonic()
            client.put(puts.count)
            puts.add(begun)
            begun = time.monotonic()
            client.renew()
            renewals.add(begun)
            begun = time.monotonic()
            done.wait(PAUSE_SECONDS)
            late_s = max(late_s, time.monotonic() - begun - PAUSE_SECONDS)
    except (AssertionError, Ended, TimeoutError, OSError) as error:
        failure = repr(error)
    print(json.dumps({
        "puts": puts.count, "renewals": renewals.count, "longest_put_s": puts.longest_s,
        "longest_renewal_s": renewals.longest_s, "own_delay_s": late_s, "failure": failure,
    }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
