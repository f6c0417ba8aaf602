"""The executors of health checks against real servers: good ones, slow ones, and those that send anything."""

import contextlib
import http.server
import os
import pwd
import socket
import socketserver
import ssl
import subprocess
import tempfile
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from harness.certificates import Authority

BUILD_ROOT = Path(os.environ.get("LEASED_BUILD_ROOT", Path(__file__).resolve().parents[2] / "build"))
PROBE = BUILD_ROOT / "tests" / "checks" / "probe_check"


class Prober:
    """One process that runs checks one after the other."""

    def __init__(self, **environment):
        self.process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def __call__(self, kind, target, **options):
        headers = options.pop("headers", {})
        words = [kind, target] + [f"{key}={value}" for key, value in options.items()]
        words += [f"header={key}:{value}" for key, value in headers.items()]
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        health, _, output = self.process.stdout.readline().rstrip("\n").partition("\t")
        return health, output

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0
        self.process.stdout.close()


@contextlib.contextmanager
def probing(**environment):
    prober = Prober(**environment)
    try:
        yield prober
    finally:
        prober.close()


@pytest.fixture(scope="module")
def probe():
    with probing() as prober:
        yield prober


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, dict(self.headers), body, self.client_address))
        status = int(self.path.rsplit("/", 1)[-1].split("?")[0] or 200)
        self.send_response(status)
        text = b"" if self.command == "HEAD" else b"I am well"
        self.send_header("Content-Length", str(len(text)))
        if status == 302:
            self.send_header("Location", "/200")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_HEAD = answer

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving_http(context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.requests = []
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *arguments: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def serving_bytes(handle):
    """A server that does anything with its connections."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError):
                handle(self.request)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def web():
    with serving_http() as server:
        yield server


def url_of(server, path="/200", scheme="http"):
    return f"{scheme}://127.0.0.1:{server.server_address[1]}{path}"


@pytest.mark.parametrize("status, health", [
    (200, "passing"), (204, "passing"), (302, "critical"), (404, "critical"), (429, "warning"), (500, "critical")])
def test_the_status_decides(probe, web, status, health):
    found, output = probe("http", url_of(web, f"/{status}"))
    assert found == health
    assert str(status) in output


def test_the_range_of_good_statuses_can_be_given(probe, web):
    assert probe("http", url_of(web, "/404"), min=404, max=404)[0] == "passing"
    assert probe("http", url_of(web, "/429"), max=499)[0] == "passing"
    assert probe("http", url_of(web, "/200"), min=201)[0] == "critical"


def test_the_body_has_to_match(probe, web):
    assert probe("http", url_of(web), match="am well")[0] == "passing"
    health, output = probe("http", url_of(web), match="am ill")
    assert health == "critical"
    assert "does not contain" in output


def test_method_headers_and_body_are_sent(probe, web):
    assert probe("http", url_of(web, "/200?a=b"), method="PUT", body="{}",
                 headers={"X-Token": "secret", "Host": "web.example"})[0] == "passing"
    method, path, headers, body, _ = web.requests[-1]
    assert (method, path, body) == ("PUT", "/200?a=b", b"{}")
    assert headers["X-Token"] == "secret" and headers["Host"] == "web.example"
    assert probe("http", url_of(web), method="HEAD")[0] == "passing"


def test_checks_of_one_target_share_a_connection(probe, web):
    for _ in range(5):
        assert probe("http", url_of(web))[0] == "passing"
    assert len({request[4] for request in web.requests[-5:]}) == 1


def test_a_connection_that_was_closed_meanwhile_is_opened_anew(probe):
    def answer_once(connection):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with serving_bytes(answer_once) as address:
        for _ in range(5):
            assert probe("http", f"http://{address}/")[0] == "passing"


def test_nobody_listens(probe):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        for kind, target in (("http", f"http://{address}/"), ("tcp", address), ("grpc", address)):
            health, output = probe(kind, target)
            assert health == "critical"
            assert "connection refused" in output


def test_tcp(probe, web):
    assert probe("tcp", f"127.0.0.1:{web.server_address[1]}")[0] == "passing"
    assert probe("tcp", f"localhost:{web.server_address[1]}")[0] == "passing"


def test_a_name_that_does_not_exist(probe):
    health, output = probe("http", "http://name.invalid/")
    assert health == "critical"
    assert output


def send_slowly(connection):
    connection.recv(4096)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def test_a_slow_answer_is_not_waited_for(probe):
    with serving_bytes(send_slowly) as address:
        began = time.monotonic()
        assert probe("http", f"http://{address}/", timeout=300) == ("critical", "timed out")
        assert time.monotonic() - began < 5


def send_for_ever(start, piece):
    def handle(connection):
        connection.recv(4096)
        connection.sendall(start)
        while True:
            connection.sendall(piece)
    return handle


@pytest.mark.parametrize("start, piece, health", [
    (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, "passing"),  # a body without end: its first part counts
    (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000, "critical"),
    (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536, "critical"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000, "critical"),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "critical"),
    (b"", os.urandom(65536), "critical"),
])
def test_an_answer_without_end(probe, start, piece, health):
    with serving_bytes(send_for_ever(start, piece)) as address:
        assert probe("http", f"http://{address}/")[0] == health
        assert probe("grpc", address)[0] == "critical"


def test_targets_that_cannot_be(probe):
    for kind, target in (("http", "ftp://host/"), ("http", "http://user@host/"), ("tcp", "host"),
                         ("grpc", "host:port"), ("http", "http://300.1.1.1.1:99999/")):
        health, output = probe(kind, target)
        assert health == "critical"
        assert output


# --- TLS. ---

@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@contextlib.contextmanager
def serving_https(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("web"))
    with serving_http(context) as server:
        yield server


def test_certificates_are_verified_unless_the_check_says_otherwise(authority):
    with serving_https(authority) as server, probing(CHECK_CA=authority.certificate) as trusting, \
            probing() as strange:
        target = url_of(server, scheme="https")
        assert trusting("http", target)[0] == "passing"
        assert trusting("http", target)[0] == "passing"
        health, output = strange("http", target)
        assert health == "critical"
        assert "unknown authority" in output
        assert strange("http", target, skip=1)[0] == "passing"
        health, output = trusting("http", target, name="other.example")
        assert health == "critical"
        assert "not for the host" in output
        address = target.removeprefix("https://").split("/")[0]
        assert trusting("tcp", address, tls=1)[0] == "passing"
        assert strange("tcp", address, tls=1)[0] == "critical"


def test_a_server_without_tls_is_told_apart(authority, web):
    with probing(CHECK_CA=authority.certificate) as probe:
        health, output = probe("http", url_of(web, scheme="https"))
        assert health == "critical"
        assert "TLS" in output


# --- gRPC. ---

@pytest.fixture(scope="module")
def grpc_address():
    statuses = {b"": 1, b"up": 1, b"down": 2, b"odd": 0}

    class Health(grpc.GenericRpcHandler):
        def service(self, details):
            if details.method != "/grpc.health.v1.Health/Check":
                return None

            def check(request, context):
                name = request[2:]
                if name not in statuses:
                    context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
                return bytes([8, statuses[name]])

            return grpc.unary_unary_rpc_method_handler(check)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Health(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("service, health, text", [
    ("", "passing", "SERVING"), ("/up", "passing", "SERVING"), ("/down", "critical", "NOT_SERVING"),
    ("/odd", "critical", "UNKNOWN"), ("/none", "critical", "does not know the service")])
def test_grpc_health(probe, grpc_address, service, health, text):
    found, output = probe("grpc", grpc_address + service)
    assert (found, text in output) == (health, True), output


def test_a_web_server_has_no_grpc(probe, web):
    assert probe("grpc", f"127.0.0.1:{web.server_address[1]}")[0] == "critical"


def test_networks_that_are_not_allowed_are_not_connected_to(web):
    with probing(CHECK_NETWORKS="10.0.0.0/8") as probe:
        for target in (url_of(web), url_of(web).replace("127.0.0.1", "localhost")):
            health, output = probe("http", target)
            assert health == "critical"
            assert "--checks-allow-net" in output


# --- Commands. ---

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(prefix="leased-test-scripts-") as made:
        path = Path(made)
        path.chmod(0o777)  # an unprivileged user reaches it, and writes there
        yield path


@pytest.fixture(scope="module")
def scripts(folder):
    def script(name, text):
        path = folder / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)
        return str(path)

    return script


@contextlib.contextmanager
def running(*programs):
    user = "nobody" if os.geteuid() == 0 else ME
    with probing(CHECK_ALLOW=",".join(programs), CHECK_USER=user) as prober:
        yield prober


def test_the_exit_code_decides(scripts):
    program = scripts("exit", 'echo "it is $2"; exit $1')
    with running(program) as probe:
        assert probe("command", f"{program}|0|fine") == ("passing", "it is fine|")
        assert probe("command", f"{program}|1|so so") == ("warning", "it is so so|")
        assert probe("command", f"{program}|2|bad; rm x")[0] == "critical"
        assert probe("command", f"{program}|2|bad; rm x")[1] == "it is bad; rm x|"


def test_only_listed_programs_run(scripts, probe):
    program = scripts("listed", "exit 0")
    other = scripts("other", "exit 0")
    with running(program) as allowed:
        assert allowed("command", program)[0] == "passing"
        for refused in (other, "listed", program + "x", "/bin/sh|-c|exit 0", program.replace("/listed", "//listed")):
            health, output = allowed("command", refused)
            assert health == "critical"
            assert "--script-checks-allow" in output
    health, output = probe("command", program)
    assert health == "critical"
    assert "--enable-script-checks" in output


def test_a_program_has_nothing_of_the_server(scripts):
    program = scripts("look", "id -un; ls /proc/self/fd | wc -w; pwd; env | sort | cut -d= -f1 | tr '\\n' ' '")
    with running(program) as probe:
        health, output = probe("command", program)
        user, descriptors, folder, environment = output.split("|")[:4]
        assert health == "passing"
        assert user == ("nobody" if os.geteuid() == 0 else ME)
        assert int(descriptors) == 4  # three, and that of ls
        assert folder == "/"
        assert set(environment.split()) <= {"LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids):
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(is_alive(pid) for pid in pids)


def test_a_program_that_hangs_is_killed_with_all_it_started(scripts, folder):
    pids = folder / "pids"
    program = scripts("hang", f"sleep 600 & echo $$ $! > {pids}; wait")
    with running(program) as probe:
        assert probe("command", program, timeout=5000)[1] == "timed out"
        found = [int(pid) for pid in pids.read_text().split()]
        assert len(found) == 2
        assert wait_until_gone(found)


def test_an_output_without_end_is_cut(scripts):
    program = scripts("yes", "head -c 1000000 /dev/zero | tr '\\0' x; exit 0")
    with running(program) as probe:
        health, output = probe("command", program)
        assert health == "passing"
        assert output == "x" * 1024


def test_a_program_that_is_not_there(scripts):
    with running("/nowhere/program") as probe:
        health, output = probe("command", "/nowhere/program")
        assert health == "critical"
        assert "No such file" in output
