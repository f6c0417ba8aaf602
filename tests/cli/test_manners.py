"""What `lease` says of itself: help, completion, the manual page, settings, and words that are nearly right."""
import os
import re
import subprocess

import pytest

from cli_tool import lease
from harness import PROJECT_ROOT, Server


def commands():
    """The names of all commands, from the completion of fish, which has each on a line of its own."""
    text = lease("completion", "fish").stdout
    single = re.findall(r"^complete -c lease -n __fish_use_subcommand -a (\S+) -d", text, re.MULTILINE)
    double = re.findall(r"^complete -c lease -n '__fish_seen_subcommand_from (\S+)' -a (\S+) -d", text, re.MULTILINE)
    return [[name] for name in single] + [list(pair) for pair in double]


def test_every_command_has_help_with_examples():
    found = commands()
    assert len(found) > 20
    for words in found:
        asked = lease(*words, "--help")
        assert asked.returncode == 0 and asked.stdout == lease("help", *words).stdout
        name = " ".join(words)
        assert asked.stdout.startswith(f"usage: lease {name}")
        if name != "bench":
            assert "\nexamples:\n" in asked.stdout, name
            examples = asked.stdout.split("\nexamples:\n")[1].split("\n\n")[0]
            assert f"lease {name}" in examples or f"lease --user root:secret {name}" in examples, name


def test_help_lists_every_command():
    text = lease("help").stdout
    assert text == lease("--help").stdout
    for words in commands():
        assert re.search(rf"^  {' '.join(words)}( |$)", text, re.MULTILINE), words


def test_a_family_of_commands_lists_its_own():
    asked = lease("user", "--help")
    assert asked.returncode == 0 and "user add USER" in asked.stdout
    assert lease("help", "user").stdout == asked.stdout
    alone = lease("user")
    assert alone.returncode == 2 and "user add USER" in alone.stderr


@pytest.mark.parametrize("words, says", [
    (["lss"], "there is no command lss; did you mean ls?"),
    (["stauts"], "did you mean status?"),
    (["usr"], "did you mean user?"),
    (["user", "ad"], "did you mean user add?"),
    (["frobnicate"], "there is no command frobnicate\n"),
    (["ls", "--jsno"], "there is no option --jsno; did you mean --json?"),
    (["help", "gran"], "did you mean grant?"),
    (["grant"], "missing argument TTL"),
    (["user", "grant", "ann"], "missing argument ROLE"),
    (["ls", "more"], "unexpected argument more"),
])
def test_what_is_nearly_right_is_told(words, says):
    done = lease(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr


def test_the_version_names_the_protocols_too():
    lines = lease("--version").stdout.splitlines()
    assert lines[0].startswith("lease ") and "leased.v1" in lines[1] and "etcd v3" in lines[1]


def test_the_manual_page_is_the_one_of_this_table():
    written = (PROJECT_ROOT / "man" / "lease.1").read_text(encoding="utf-8")
    assert lease("help", "--man").stdout == written, "make it anew: build/lease help --man > man/lease.1"


def test_bash_completes_commands_and_options():
    script = lease("completion", "bash").stdout + (
        'compopt() { :; }\n'
        'complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lease; echo "${COMPREPLY[*]}"; }\n'
        'complete_line lease sta\ncomplete_line lease user gr\ncomplete_line lease grant --va\n'
    )  # fmt: skip
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["status", "grant", "--value"]
    assert done.stderr == ""


def test_completion_of_another_shell_is_refused():
    assert "bash, zsh or fish" in lease("completion", "tcsh").stderr


def test_the_config_file_gives_the_endpoints(tmp_path):
    with Server("leased") as server:
        folder = tmp_path / "lease"
        folder.mkdir()
        (folder / "config").write_text(f"# ours\nendpoints = {server.client_url}\njson = true\n", encoding="utf-8")
        env = {"XDG_CONFIG_HOME": str(tmp_path)}
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("LEASE", "ETCDCTL"))}
        from harness.kinds import lease_tool
        done = subprocess.run([lease_tool(), "ls"], env={**environment, **env}, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and '"leases":[]' in done.stdout
        # The command line comes first.
        done = lease("-e", "127.0.0.1:1", "ls", env={"LEASE_CONFIG": str(folder / "config")})
        assert done.returncode == 1 and "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("text, says", [
    ("endpoint", "a line is `name = value`"),
    ("colour = red", "there is no such setting"),
    ("user = ann\npassword = secret", "others may read it: chmod 600"),
])
def test_a_config_file_that_is_wrong_is_told(tmp_path, text, says):
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    done = lease("ls", env={"LEASE_CONFIG": str(path)})
    assert done.returncode == 2 and says in done.stderr and str(path) in done.stderr


def test_a_config_file_that_was_named_must_exist():
    done = lease("ls", env={"LEASE_CONFIG": "/nowhere/config"})
    assert done.returncode == 2 and "/nowhere/config cannot be read" in done.stderr
