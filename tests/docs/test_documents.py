"""Every command of the documents is run, and what it prints is what the document shows. See README.md here."""
import os
import re

import page
import pytest
import shell
from cli_help import help_of
from harness import KIND_LEASED, PROJECT_ROOT, Server
from harness.ports import free_ports

PAGES = page.pages()
RUN = [name for name in PAGES if any(one.how in ("run", "run without a server") for one in page.blocks(name))]
# Commands that are written in the text of a page.
INLINE = re.compile(r"`lease ([a-z]+)(?: ([a-z]+))?")


@pytest.mark.parametrize("name", PAGES)
def test_it_is_known_how_every_block_is_run(name):
    unknown = [one.where for one in page.blocks(name) if one.how is None]
    assert not unknown, f"no line above says how these are run, see tests/docs/README.md: {unknown}"
    assert not page.indented_commands(name), "these are not in fenced blocks"


@pytest.mark.parametrize("name", PAGES)
def test_a_test_that_a_block_names_is_there_and_knows_the_page(name):
    for one in page.blocks(name):
        if one.how and one.how.startswith("run by "):
            path = PROJECT_ROOT / one.how.removeprefix("run by ")
            assert path.is_file(), f"{one.where}: there is no {path}"
            assert name.rpartition("/")[2] in path.read_text(encoding="utf-8"), f"{one.where}: {path.name} does not name the page"


@pytest.mark.parametrize("name", RUN)
def test_its_commands_print_what_it_shows(name, tmp_path):
    todo = [one for one in page.blocks(name) if one.how in ("run", "run without a server")]
    with Server(KIND_LEASED) as server:
        ports = {"run": server.client_port, "run without a server": free_ports(1)[0]}
        for how, port in ports.items():
            commands = shell.Shell(tmp_path / how.replace(" ", "-"), words_of(server, tmp_path), port)
            try:
                for block in todo:
                    for line, shown in block.commands() if block.how == how else []:
                        commands.run(line, shown, block.where)
            finally:
                commands.close()


def words_of(server, folder):
    """What a page's folders and times are here."""
    return [("/var/lib/leased", str(folder)), ("/backup/", f"{folder}/"), ("/run/leased/", f"{folder}/"),
            ("$(pidof leased)", str(server.pid)), ("--duration 10s", "--duration 2s --warm-up 100ms")]  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_command_of_the_text_exists(name):
    text = page.text_of(name).replace("`lease already exists`", "")  # an error of etcd
    for word, second in INLINE.findall(text):
        assert help_of(word, second), f"{name}: `lease {word} {second}`: there is no such command"


def anchors_of(path):
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("name", [*PAGES, "ARCHITECTURE.md", "CHANGELOG.md"])
def test_every_link_leads_somewhere(name):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.text_of(name)):
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        path = (PROJECT_ROOT / name).parent / file if file else PROJECT_ROOT / name
        assert os.path.exists(path), f"{name}: {link}"
        assert not anchor or anchor in anchors_of(path), f"{name}: {link}"


def test_every_alert_has_something_to_do():
    rules = (PROJECT_ROOT / "packaging" / "monitoring" / "alerts.yml").read_text(encoding="utf-8")
    alerts = set(re.findall(r"- alert: (\w+)", rules))
    advised = page.text_of("docs/troubleshooting.md").split("## By alert")[1]
    assert alerts == set(re.findall(r"`(Leased\w+)`", advised))
