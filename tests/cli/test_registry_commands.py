"""`lease register`, `discover`, `render` and `service`: instances while commands run, and files made of them. Does what
docs/lease-cli.md and examples/nginx/README.md show, with addresses and files of its own."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess

import pytest

from cli_tool import COMMAND_SECONDS, Running, environment, lease, lease_json
from harness import Server
from harness.kinds import lease_tool
from harness.wait import wait_for

UP_SECONDS = 60.0
SERVE = 'trap "exit 7" TERM; echo "up $LEASE_SERVICE $LEASE_INSTANCE $LEASE_TOKEN"; while :; do sleep 0.05; done'


@pytest.fixture(scope="module", name="server")
def _server():
    with Server("leased") as running:
        yield running


@pytest.fixture(name="name")
def _name(request):
    return request.node.name


def registered(server, name, *options, script=SERVE):
    """A `lease register` whose command runs."""
    running = Running("register", name, "--addr", "10.0.0.1:80", *options, "--", "sh", "-c", script, server=server)
    line = running.line()
    assert line and line.startswith(f"up {name} "), running.error_line()
    return running


def instances(server, name, *options):
    done = lease("discover", name, "--json", *options, server=server)
    return json.loads(done.stdout)["instances"] if done.stdout else []


def wait_states(server, name, *states):
    wait_for(
        lambda: [each["state"] for each in instances(server, name, "--all")] == list(states), UP_SECONDS,
        f"{name} {states}",
    )  # fmt: skip


# register


def test_an_instance_is_there_while_its_command_runs(server, name):
    options = ["--tag", "v2", "--tag", "x", "--meta", "k=v=w", "--zone", "a", "--weight", "3", "--release", "1.2"]
    with registered(server, name, *options, "--id", "one", script='echo "up $LEASE_SERVICE x"; read -r _ < fifo') as it:
        wait_states(server, name)  # the command has ended: there is no such file
        assert it.wait() not in (0, 69)
    with registered(server, name, *options, "--id", "one", "--drain", "0s") as running:
        wait_states(server, name, "up")
        (shown,) = instances(server, name)
        assert shown | {
            "id": "one", "address": "10.0.0.1", "port": 80, "tags": ["v2", "x"], "metadata": {"k": "v=w"}, "zone": "a",
            "weight": 3, "version": "1.2", "serving": True,
        } == shown  # fmt: skip
        running.signal(signal.SIGTERM)
        assert running.wait() == 7, "the exit code is the command's"
    assert lease("discover", name, server=server).returncode == 1


def test_sigterm_drains_before_the_command_is_told(server, name):
    with registered(server, name, "--drain", "10m") as running:
        wait_states(server, name, "up")
        running.signal(signal.SIGTERM)
        wait_states(server, name, "draining")
        assert running.process.poll() is None and not instances(server, name)
        running.signal(signal.SIGTERM)  # the second one does not wait
        assert running.wait() == 7
    assert not instances(server, name, "--all")


def test_it_waits_for_a_server_and_comes_back_with_it(name):
    """Without a server the command is not run yet; after a server that lost everything the instance is there again."""
    with Server("leased") as server:
        server.stop()
        words = ["register", name, "--addr", "10.0.0.1:80", "--ttl", "1s"]
        with Running(*words, server=server) as ended:
            assert "waits until a server is reached" in ended.error_line()
            ended.signal(signal.SIGTERM)
            assert ended.wait() == -signal.SIGTERM
        with Running(*words, "--drain", "0s", "--", "sh", "-c", SERVE, server=server) as running:
            assert "waits until a server is reached" in running.error_line()
            server.start()
            assert "is registered" in running.error_line()
            assert running.line().startswith(f"up {name} ")
            wait_states(server, name, "up")
            server.kill()
            shutil.rmtree(server.data_dir)
            server.start()
            wait_states(server, name, "up")
            running.signal(signal.SIGTERM)
            assert running.wait() == 7


def test_a_successor_ends_the_stale_process(server, name):
    with registered(server, name, "--id", "i", "--ttl", "1s") as old:
        with registered(server, name, "--id", "i", "--drain", "0s") as new:
            assert old.wait() == 76
            assert "replaced" in old.error_line()
            (shown,) = instances(server, name)
            new.signal(signal.SIGTERM)
            assert new.wait() == 7
        assert shown["ttl_ms"] == 15_000


def test_without_a_command_it_stays_until_sigterm(server, name):
    running = Running("register", name, "--addr", "[::1]:8080", "--drain", "0s", "--json", server=server)
    with running:
        told = json.loads(running.line())
        assert told["service"] == name and told["id"] == "[::1]:8080" and told["token"] > 0
        assert [each["address"] for each in instances(server, name)] == ["::1"]
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
    assert not instances(server, name, "--all")


def test_a_check_hides_it_until_it_passes(server, name, tmp_path):
    listener = subprocess.Popen(
        ["/usr/bin/python3", "-u", "-c", "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), "
         "h.SimpleHTTPRequestHandler); print(s.server_port); s.serve_forever()"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{int(listener.stdout.readline())}/health"
        with registered(server, name, "--check", url, "--check-interval", "100ms", "--drain", "0s"):
            wait_for(lambda: instances(server, name, "--all"), UP_SECONDS, "registered")
            assert not instances(server, name), "there is no such file yet"
            (tmp_path / "health").touch()
            wait_for(lambda: instances(server, name), UP_SECONDS, "healthy")
            (tmp_path / "health").unlink()
            wait_for(lambda: not instances(server, name), UP_SECONDS, "ill")
    finally:
        listener.kill()
        listener.wait()


def test_what_cannot_be_registered(server, name):
    assert lease("register", name, "--addr", "10.0.0.1:80", "--", "no-such-command", server=server).returncode == 127
    assert not instances(server, name, "--all")
    done = lease("register", name, "-t", "300ms", "--addr", "h:1", "--", "true", env={"LEASED_ENDPOINTS": "127.0.0.1:1"})
    assert done.returncode == 69
    for words in (
        ["--", "true"], ["--addr", "10.0.0.1", "--", "true"], ["--addr", "h:1", "--meta", "k"],
        ["--addr", "h:1", "--check", "ftp://h"], ["--addr", "h:1", "--ttl", "10ms"], ["--addr", "h:1", "--weight", "-1"],
    ):  # fmt: skip
        assert lease("register", name, *words, server=server).returncode == 2, words


# discover and service


def test_discover_watches(server, name):
    with Running("discover", name, "--watch", "--json", server=server) as watching:
        assert json.loads(watching.line())["instances"] == []
        with registered(server, name, "--id", "i", "--drain", "0s") as running:
            while not [each["id"] for each in json.loads(watching.line())["instances"]] == ["i"]:
                pass
            running.signal(signal.SIGTERM)
            while json.loads(watching.line())["instances"]:
                pass
        watching.signal(signal.SIGTERM)
        assert watching.wait() == 0


def test_operators_drain_and_deregister(server, name):
    with registered(server, name, "--id", "i", "--tag", "t"):
        wait_states(server, name, "up")
        drained = lease("service", "drain", name, "i", server=server)
        assert drained.returncode == 0 and drained.stdout.startswith(f"{name} i is draining")
        assert not instances(server, name) and instances(server, name, "--all")[0]["overridden"]
        assert lease_json(server, "service", "undrain", name, "i") == {"service": name, "id": "i", "override": None}
        assert len(instances(server, name, "--tag", "t")) == 1 and not instances(server, name, "--tag", "u")
        assert lease("service", "set", name, "--grace", "2s", "--guard-percent", "101", server=server).returncode == 0
        shown = lease_json(server, "service", "show", name)
        assert shown["settings"]["grace_ms"] == 2000 and shown["live"] == 1
        assert "no guard" in lease("service", "show", name, server=server).stdout
        assert lease("service", "deregister", name, "no", server=server).returncode == 1
        assert name in lease("service", "ls", name[:5], server=server).stdout
        assert lease_json(server, "service", "deregister", name, "i") == {"service": name, "id": "i", "drain_ms": 0}


def test_a_service_without_instances_is_shown_and_ends_with_1(server, name):
    for options in ((), ("--json",)):
        shown = lease("service", "show", name, *options, server=server)
        assert shown.returncode == 1 and shown.stdout and not shown.stderr


def test_the_guard_is_shown(server, name):
    assert lease_json(server, "service", "set", name, "--guard-minimum", "2") == {"service": name}
    held = [registered(server, name, "--id", str(i), "--ttl", "1s") for i in range(2)]
    for each in held:
        each.process.kill()
        each.wait()
    wait_for(lambda: "kept" in lease("discover", name, server=server).stdout, UP_SECONDS, "guard")
    assert "guarded: 2 of 2 instances were lost at once" in lease("discover", name, server=server).stdout
    assert [each["kept"] for each in instances(server, name)] == [True, True]


# render


def render(server, template, *options, **more):
    return lease("render", "-", *options, server=server, stdin=template, **more)


def test_a_template_over_services_and_keys(server, name):
    lease("grant", "1h", "--key", f"{name}/title", "--value", "T", server=server)
    template = (
        '# {{key "N/title" or "none"}} {{key "N/no" or "none"}}\n'
        '{{- each keys "N/"}} {{.name}}={{.value}}{{end}}\n'
        '{{each service "N" tag "t"}}{{if not .zone == "b"}}server {{.address}}:{{.port}} {{.meta.k}};\n{{end}}'
        "{{else}}nobody\n{{end}}"
        '{{each services "N"}}{{.name}}:{{.live}}{{each service .name all}} {{.id}}{{end}}{{end}}\n'
    ).replace("N", name)
    assert render(server, template, "--once").stdout == "# T none title=T\nnobody\n\n"
    with registered(server, name, "--id", "i", "--tag", "t", "--meta", "k=v", "--zone", "a"):
        wait_states(server, name, "up")
        done = render(server, template, "--once")
        assert done.stdout == f"# T none title=T\nserver 10.0.0.1:80 v;\n{name}:1 i\n", done.stderr


def test_a_file_is_replaced_only_when_it_changes(server, name, tmp_path):
    template, out, told = tmp_path / "t", tmp_path / "out", tmp_path / "told"
    template.write_text(f'{{{{each service "{name}"}}}}{{{{.id}}}} {{{{end}}}}.\n', encoding="utf-8")
    out.write_text(".\n", encoding="utf-8")
    out.chmod(0o640)
    words = ["render", template, "-o", out, "--settle", "0s", "--exec", f"cat {out} >> {told}"]
    with Running(*words, server=server) as rendering:
        with registered(server, name, "--id", "i", "--drain", "0s") as running:
            wait_for(lambda: out.read_text(encoding="utf-8") == "i .\n", UP_SECONDS, "rendered")
            wait_for(lambda: told.exists() and told.read_text(encoding="utf-8") == "i .\n", UP_SECONDS, "told once")
            assert stat.S_IMODE(out.stat().st_mode) == 0o640
            running.signal(signal.SIGTERM)
            wait_for(lambda: told.read_text(encoding="utf-8") == "i .\n.\n", UP_SECONDS, "told again")
        rendering.signal(signal.SIGTERM)
        assert rendering.wait() == 0
    before = out.stat().st_ino
    done = lease("render", template, "-o", out, "--once", "--exec", "exit 3", server=server)
    assert done.returncode == 0 and out.stat().st_ino == before, "unchanged: not written, nothing run"
    assert sorted(os.listdir(tmp_path)) == ["out", "t", "told"]


def test_the_shells_file_is_replaced_as_a_whole(server, name, tmp_path):
    template, out = tmp_path / "t", tmp_path / "out"
    template.write_text('{{key "no"}}text\n', encoding="utf-8")
    with open(out, "wb") as file:
        words = [lease_tool(), "render", template, "--once", "--exec", "echo told >&2; exit 3"]
        done = subprocess.run(
            words, stdout=file, stderr=subprocess.PIPE, text=True, timeout=COMMAND_SECONDS, check=False,
            env=environment(server),
        )  # fmt: skip
        assert os.fstat(file.fileno()).st_nlink == 0
    assert done.returncode == 1 and "told" in done.stderr and "exit code 3" in done.stderr
    assert out.read_text(encoding="utf-8") == "text\n"


def test_a_file_of_the_shell_that_others_have_written_to_is_kept(server, name, tmp_path):
    (tmp_path / "t").write_text('{{key "no"}}text\n', encoding="utf-8")
    script = f"{{ echo before; {lease_tool()} render t --once; echo behind; }} > out"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment(server), timeout=COMMAND_SECONDS, check=True)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before\ntext\nbehind\n"


@pytest.mark.parametrize(
    "template, error",
    [
        ("a\n{{each service}}", "line 2: a service is needed"), ("{{each}}", "line 1: each is followed by"),
        ("{{if .a}}\n\n", "line 1: the block that begins here has no end"), ("\n{{end}}", "line 2: end without"),
        ("{{.a", "has no }}"), ('{{key "a}}', "has no }}"), ("{{nonsense}}", "is needed"), ("{{.a b}}", 'unexpected "b"'),
        ("{{else}}", "else without"), ("{{if .a}}" * 9, "more than 8 blocks"),
    ],
)  # fmt: skip
def test_templates_that_are_refused(server, template, error):
    done = render(server, template, "--once")
    assert done.returncode == 1 and error in done.stderr


def test_the_example_for_nginx(server, tmp_path):
    example = pathlib.Path(__file__).parents[2] / "examples" / "nginx" / "upstream.tmpl"
    empty = lease("render", example, "--once", server=server).stdout
    assert empty == "upstream web {\n    zone web 64k;\n    server 127.0.0.1:1 down; # no instance serves\n}\n\n"
    with registered(server, "web", "--id", "one", "--weight", "3", "--zone", "a"):
        wait_states(server, "web", "up")
        done = lease("render", example, "-o", tmp_path / "conf", "--once", "--exec", "true", server=server)
    assert done.returncode == 0 and (tmp_path / "conf").read_text(encoding="utf-8") == (
        "upstream web {\n    zone web 64k;\n    server 10.0.0.1:80 weight=3 max_fails=1; # one, zone a\n}\n\n"
    )
