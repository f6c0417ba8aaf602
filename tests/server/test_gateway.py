"""The JSON gateway as a server: streams, large answers, clients that leave, origins and hosts. What it answers is
compared with etcd in tests/conformance/test_gateway_same_as_etcd.py, who may ask in test_auth_matrix.py."""
import base64
import contextlib
import http.client
import json
import select
import socket
import ssl

import pytest

from harness import KIND_LEASED, Server, gateway
from harness.certificates import Authority
from harness.rpc import CALL_SECONDS
from harness.tls_server import TlsServer, server_files
from harness.wait import wait_for

MIB = 1024 * 1024
ASKED_BYTES_MAX = 128 * MIB
# Nothing was taken for so long: the server has stopped to read.
HELD_UP_SECONDS = 3.0


def text64(text):
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(name="server", scope="module")
def a_server():
    with Server(KIND_LEASED) as server:
        yield server


class Stream:
    """A request whose body is sent in pieces while the answer is read."""

    def __init__(self, server, path, headers=()):
        self.socket = socket.create_connection((server.host, server.client_port), timeout=CALL_SECONDS)
        lines = [f"POST {path} HTTP/1.1", "Host: test", "Transfer-Encoding: chunked", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.answer = None

    def send(self, text):
        self.socket.sendall(f"{len(text.encode()):x}\r\n{text}\r\n".encode())

    def end(self):
        self.socket.sendall(b"0\r\n\r\n")

    def line(self):
        if self.answer is None:
            self.answer = http.client.HTTPResponse(self.socket, method="POST")
            self.answer.begin()
        return json.loads(self.answer.readline())

    def close(self):
        if self.answer is not None:
            self.answer.close()
        self.socket.close()


@contextlib.contextmanager
def stream_of(server, path, headers=()):
    stream = Stream(server, path, headers)
    try:
        yield stream
    finally:
        stream.close()


def create(key, **more):
    return json.dumps({"create_request": {"key": text64(key), **more}})


# Streams


def test_a_stream_is_answered_while_it_is_asked(server):
    with stream_of(server, "/v3/watch") as watch:
        watch.send(create("duplex", watch_id=5))
        assert watch.line()["result"]["created"] is True
        gateway.post(server, "/v3/kv/put", json.dumps({"key": text64("duplex"), "value": "YQ=="}))
        [event] = watch.line()["result"]["events"]
        assert event["kv"]["value"] == "YQ=="
        request = json.dumps({"cancel_request": {"watch_id": "5"}})
        watch.send(request[:7])
        watch.send(request[7:])
        assert watch.line()["result"]["canceled"] is True
        watch.end()


def test_a_reader_that_was_slow_misses_nothing(server):
    n_events = 40
    value = base64.b64encode(b"v" * 300_000).decode()
    with stream_of(server, "/v3/watch") as watch:
        watch.send(create("slow"))
        assert watch.line()["result"]["created"] is True
        for _ in range(n_events):
            body = json.dumps({"key": text64("slow"), "value": value})
            assert gateway.post(server, "/v3/kv/put", body)[0] == 200
        versions = []
        while len(versions) < n_events:
            versions += [int(event["kv"]["version"]) for event in watch.line()["result"]["events"]]
        assert versions == list(range(1, n_events + 1))


def test_a_keepalive_stream_ends_with_its_requests(server):
    gateway.post(server, "/v3/lease/grant", '{"ID":41,"TTL":600}')
    with stream_of(server, "/v3/lease/keepalive") as stream:
        for _ in range(3):
            stream.send('{"ID":"41"}')
            assert stream.line()["result"]["TTL"] == "600"
        stream.end()
        assert stream.answer.read() == b""


def test_a_client_that_asks_and_does_not_read_has_to_wait(server):
    """It is held up, not cut off, and gets all its answers when it reads."""
    request, in_a_piece = f'{{"ID":"4711"}}{"":>400}', 200
    piece = f"{len(request):x}\r\n{request}\r\n".encode() * in_a_piece
    with stream_of(server, "/v3/lease/keepalive") as stream:
        stream.socket.settimeout(HELD_UP_SECONDS)
        sent, left = 0, b""
        try:
            while sent < ASKED_BYTES_MAX:
                left = piece
                while left:
                    left = left[stream.socket.send(left) :]
                sent += len(piece)
            pytest.fail(f"{sent} bytes of requests were taken, and no answer was read")
        except TimeoutError:
            pass
        stream.socket.settimeout(CALL_SECONDS)
        for _ in range(sent // len(piece) * in_a_piece):
            assert "result" in stream.line()
        stream.socket.sendall(left)
        stream.end()
        for _ in range(in_a_piece):
            assert "result" in stream.line()
        assert stream.answer.read() == b""


def test_a_client_that_leaves_takes_its_watches_along(server):
    before = server.metric("leased_watchers")
    watches = [Stream(server, "/v3/watch") for _ in range(20)]
    for i, watch in enumerate(watches):
        watch.send(create("left"))
        if i % 2 == 0:
            watch.end()
        assert watch.line()["result"]["created"] is True
        if i % 4 == 0:
            # It will never be answered, and must not hide that the client leaves.
            watch.socket.sendall(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
    assert server.metric("leased_watchers") == before + 20
    for watch in watches:
        watch.close()
    wait_for(lambda: server.metric("leased_watchers") == before, CALL_SECONDS, "the watches are gone")


def test_a_waiter_that_leaves_leaves_no_key(server):
    def keys():
        body = json.dumps({"key": text64("queue/"), "range_end": text64("queue0"), "count_only": True})
        return int(gateway.post(server, "/v3/kv/range", body)[1].get("count", "0"))

    name = json.dumps({"name": text64("queue")})
    status, held = gateway.post(server, "/v3/lock/lock", name)
    assert status == 200
    for end in (True, False):
        with stream_of(server, "/v3/lock/lock") as waiter:
            waiter.send(name)
            if end:
                waiter.end()
            wait_for(lambda: keys() == 2, CALL_SECONDS, "the waiter is in the queue")
        wait_for(lambda: keys() == 1, CALL_SECONDS, "the waiter's key is gone")
    with stream_of(server, "/v3/lock/lock") as waiter:
        waiter.send(name)
        wait_for(lambda: keys() == 2, CALL_SECONDS, "the waiter is in the queue")
        gateway.post(server, "/v3/lock/unlock", json.dumps({"key": held["key"]}))
        next_key = waiter.line()["key"]
        assert next_key != held["key"]
    gateway.post(server, "/v3/lock/unlock", json.dumps({"key": next_key}))
    assert keys() == 0


def test_time_may_be_limited(server):
    with stream_of(server, "/v3/watch", ["Grpc-Timeout: 50m"]) as watch:
        watch.send(create("limited"))
        assert watch.line()["result"]["created"] is True
        error = watch.line()["error"]
        assert (error["grpc_code"], error["http_code"], error["http_status"]) == (4, 504, "Gateway Timeout")


def is_answered(stream, seconds):
    return bool(select.select([stream.socket], [], [], seconds)[0])


def test_calls_beyond_the_limit_wait_for_their_turn():
    body = json.dumps({"key": text64("limited")})
    with Server(KIND_LEASED, extra_flags=["--max-concurrent-streams", "2"]) as server:
        watches = [Stream(server, "/v3/watch") for _ in range(2)]
        for watch in watches:
            watch.send(create("limited"))
            assert watch.line()["result"]["created"] is True
        waiting = [Stream(server, "/v3/kv/range") for _ in range(3)]
        for stream in waiting:
            stream.send(body[:5])
            stream.send(body[5:])
            stream.end()
        with stream_of(server, "/v3/kv/range", ["Grpc-Timeout: 50m"]) as limited:
            limited.send(body)
            limited.end()
            assert limited.line()["code"] == 4
        with stream_of(server, "/v3/kv/range") as endless:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    endless.send("[" * 65536)
            assert endless.line()["code"] == 8
        # Who leaves does not take a turn, and others are not in the way.
        waiting.pop(0).close()
        assert not any(is_answered(stream, 0.1) for stream in waiting)
        assert server.http_get("/version")[0] == 200
        watches.pop().close()
        for stream in waiting:
            assert "header" in stream.line()
        for stream in (*waiting, *watches):
            stream.close()


def test_a_stopping_server_ends_streams():
    with Server(KIND_LEASED) as server, stream_of(server, "/v3/watch") as watch:
        watch.send(create("stopping"))
        assert watch.line()["result"]["created"] is True
        assert server.stop() == 0
        assert watch.line()["error"]["grpc_code"] == 14


def test_metadata_goes_with_the_call(server):
    versions = {"Grpc-Metadata-Client-Api-Version": "7.1", "grpc-metadata-client-api-version": "7.2"}
    for header, version in {**versions, "Client-Api-Version": "7.3"}.items():
        assert gateway.post(server, "/v3/kv/range", '{"key":"YQ=="}', {header: version})[0] == 200
    metrics = server.http_get("/metrics")[1].decode()
    for version in versions.values():
        sample = f'etcd_server_client_requests_total{{type="unary",client_api_version="{version}"}} 1'
        assert sample in metrics
    assert '"7.3"' not in metrics
    # While authentication is off tokens are not looked at, as in etcd 3.5.
    for header in ("Authorization", "Grpc-Metadata-Token", "Token"):
        assert gateway.post(server, "/v3/kv/range", '{"key":"YQ=="}', {header: "x"})[0] == 200


# Callers


def post_over_tls(server, client, path, body, **headers):
    context = ssl.create_default_context(cafile=server.trusted)
    context.load_cert_chain(*client)
    connection = http.client.HTTPSConnection(
        server.host, server.client_port, timeout=CALL_SECONDS, context=context
    )
    try:
        connection.request("POST", "/v3" + path, body=json.dumps(body), headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_users_are_known_by_certificates_and_tokens():
    with Authority() as authority:
        flags = [
            *server_files(authority), "--client-cert-auth", "--trusted-ca-file", authority.certificate,
            "--host-whitelist", "nobody.example",
        ]  # fmt: skip
        alice = authority.sign("alice", common_name="alice")
        nobody = authority.sign("nobody", common_name="nobody")
        permission = {"permType": "READWRITE", "key": text64("a")}
        with TlsServer(KIND_LEASED, flags, authority.certificate, client=alice) as server:
            for path, body in (
                ("/auth/user/add", {"name": "alice", "options": {"no_password": True}}),
                ("/auth/user/add", {"name": "root", "password": "root's"}),
                ("/auth/role/add", {"name": "root"}),
                ("/auth/role/add", {"name": "a"}),
                ("/auth/role/grant", {"name": "a", "perm": permission}),
                ("/auth/user/grant", {"user": "root", "role": "root"}),
                ("/auth/user/grant", {"user": "alice", "role": "a"}),
                ("/auth/enable", {}),
            ):
                assert post_over_tls(server, alice, path, body)[0] == 200, path
            put_a, put_b = {"key": text64("a")}, {"key": text64("b")}
            assert post_over_tls(server, alice, "/kv/put", put_a)[0] == 200
            assert post_over_tls(server, alice, "/kv/put", put_b)[0] == 403
            status, answer = post_over_tls(server, nobody, "/kv/put", put_a)
            assert (status, answer["code"], answer["error"]) == (400, 3, "etcdserver: user name is empty")
            login = {"name": "root", "password": "root's"}
            token = post_over_tls(server, nobody, "/auth/authenticate", login)[1]["token"]
            assert post_over_tls(server, nobody, "/kv/put", put_b, Authorization=token)[0] == 200
            status, answer = post_over_tls(server, alice, "/kv/put", put_a, Authorization="x" + token)
            assert (status, answer["error"]) == (401, "etcdserver: invalid auth token")


# Sizes


def test_a_large_answer_is_not_held_whole(server):
    value = base64.b64encode(b"v" * MIB).decode()
    for i in range(24):
        body = json.dumps({"key": text64(f"large/{i:02}"), "value": value})
        assert gateway.post(server, "/v3/kv/put", body)[0] == 200
    before = server.rss_bytes()
    body = json.dumps({"key": text64("large/"), "range_end": text64("large0")})
    connections = []
    for _ in range(8):
        connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
        connection.request("POST", "/v3/kv/range", body=body)
        connections.append((connection, connection.getresponse()))
    # Nobody has read more than the beginning: 8 x 32 MiB are not in memory.
    assert server.rss_bytes() - before < 100 * MIB
    for connection, response in connections[:2]:
        answer = json.loads(response.read())
        assert [kv["value"] for kv in answer["kvs"]] == [value] * 24
        assert answer["count"] == "24"
    for connection, _response in connections:
        connection.close()


def test_a_request_that_is_too_large_is_refused(server):
    value = base64.b64encode(b"v" * (2 * MIB)).decode()
    status, answer = gateway.post(server, "/v3/kv/put", json.dumps({"key": "YQ==", "value": value}))
    assert status in (400, 429)
    assert "too large" in gateway.error_text(answer) or "larger than max" in gateway.error_text(answer)


def test_a_value_without_end_is_refused(server):
    with stream_of(server, "/v3/kv/put") as stream:
        stream.send('{"key":"')
        with contextlib.suppress(OSError):
            for _ in range(64):
                stream.send("A" * (256 * 1024))
        assert stream.line()["code"] == 8


def test_a_value_that_is_cut_off_is_refused(server):
    with stream_of(server, "/v3/kv/put") as stream:
        stream.send('{"key":"YQ=="')
        stream.end()
        assert stream.line()["code"] == 3


# Origins and hosts


def fetch(server, method, path, **headers):
    connection = http.client.HTTPConnection(server.host, server.client_port, timeout=CALL_SECONDS)
    try:
        connection.request(method, path, headers=headers, body="{}" if method == "POST" else None)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


CORS = {
    "access-control-allow-methods": "POST, GET, OPTIONS, PUT, DELETE",
    "access-control-allow-headers": "accept, content-type, authorization",
}


def cors_of(headers):
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


def test_every_origin_may_by_default(server):
    for method, path, wanted in (
        ("POST", "/v3/maintenance/status", 200),
        ("OPTIONS", "/v3/maintenance/status", 200),
        ("OPTIONS", "/anything", 200),
        ("GET", "/health", 200),
        ("GET", "/v3/kv/range", 405),
        ("HEAD", "/v3/kv/range", 405),
        ("GET", "/anything", 404),
    ):
        status, headers = fetch(server, method, path, Host="any.example", Origin="http://any.example")
        assert (status, cors_of(headers)) == (wanted, {**CORS, "access-control-allow-origin": "*"})


def test_origins_and_hosts_can_be_limited():
    flags = ["--cors", "http://a.example,http://b.example:8080", "--host-whitelist", "127.0.0.1, leased.example"]
    with Server(KIND_LEASED, extra_flags=flags) as server:
        status, headers = fetch(server, "POST", "/v3/maintenance/status", Origin="http://b.example:8080")
        assert (status, headers["access-control-allow-origin"], headers["vary"]) == (
            200, "http://b.example:8080", "Origin",
        )  # fmt: skip
        for origin in ("http://c.example", "http://a.example.org", "null"):
            status, headers = fetch(server, "OPTIONS", "/v3/kv/put", Origin=origin)
            assert (status, cors_of(headers)) == (200, {})
        for host, wanted in (
            ("leased.example", 200),
            ("Leased.Example:2379", 200),
            ("127.0.0.1:1", 200),
            ("leased.example.org", 421),
            ("[::1]:2379", 421),
            ("", 421),
        ):
            assert fetch(server, "GET", "/health", Host=host)[0] == wanted, host
            assert fetch(server, "POST", "/v3/maintenance/status", Host=host)[0] == wanted, host


def test_the_gateway_can_be_switched_off():
    with Server(KIND_LEASED, extra_flags=["--enable-grpc-gateway=false"]) as server:
        assert fetch(server, "POST", "/v3/maintenance/status")[0] == 404
        assert fetch(server, "GET", "/health")[0] == 200
