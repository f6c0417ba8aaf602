"""Flags and metrics: the documents name those that the programs have, all of them and no others."""
import re
import subprocess

import page
from harness import KIND_LEASED, PROJECT_ROOT, Server
from harness.dns import add_listener
from harness.kinds import binary_of, lease_tool

FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])")
METRIC = re.compile(r"(?<![a-z_])(leased_[a-z0-9_]+)")
ROW = re.compile(r"^\| `(leased_[a-z0-9_]+)` \| (.*) \|$", re.MULTILINE)
# Words of documents that look like metrics: files, packages.
NO_METRICS = {"leased_sample", "leased_v1", "leased_registry_v1"}
# Of pkg-config, etcdctl, curl, ld, the simulation and the sample door; one that --help leaves out; beginnings of names.
OF_OTHERS = {
    "cflags", "libs", "interactive", "peer-urls", "unix-socket", "lease", "jobs", "natives", "registrars", "pipelines", "seed", "seeds", "plan",
    "keys-only", "listen-sample", "list-requests", "experimental", "listen", "peer",
}  # fmt: skip
DOORS = "etcd,native,registry,redis,zookeeper,consul,eureka,xds"


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def flags_of_leased():
    """What `leased --help` explains, and all that it knows."""
    text = output_of(binary_of(KIND_LEASED), "--help")
    explained = set(re.findall(r"^  --([a-z][a-z0-9-]*)", text.split("\nOther flags of etcd's")[0], re.MULTILINE))
    return explained, set(FLAG.findall(text)) | set(FLAG.findall(output_of(binary_of(KIND_LEASED), "restore", "--help")))


def flags_of_lease():
    """Of its manual page, which is made from the table of commands."""
    return set(FLAG.findall(re.sub(r"\\f[BIR]", " ", output_of(lease_tool(), "help", "--man")).replace("\\-", "-")))


def flags_of(name):
    return set(FLAG.findall(page.text_of(name)))


def test_every_flag_of_leased_is_in_a_page():
    explained, _ = flags_of_leased()
    named = set().union(*(flags_of(name) for name in page.pages()))
    assert not explained - named - {"help", "version"}


def test_every_option_of_lease_is_in_its_page():
    assert not flags_of_lease() - flags_of("docs/lease-cli.md")


def test_every_flag_of_a_page_exists():
    known = flags_of_leased()[1] | flags_of_lease() | OF_OTHERS
    unknown = {f"{name}: --{flag}" for name in page.pages() for flag in flags_of(name) - known}
    assert not unknown


def test_every_metric_is_explained_as_the_server_does():
    server = add_listener(Server(KIND_LEASED, extra_flags=["--doors", DOORS]))
    with server:
        text = server.http_get("/metrics")[1].decode()
    helps = dict(line.split(" ", 3)[2:] for line in text.splitlines() if line.startswith("# HELP leased_"))
    listed = page.text_of("docs/monitoring.md").split("## Every metric of leased's own")[1]
    assert {name: what + "." for name, what in ROW.findall(listed)} == helps
    named = {metric for name in page.pages() for metric in METRIC.findall(page.text_of(name))}
    assert not named - set(helps) - NO_METRICS
    rules = "".join(path.read_text(encoding="utf-8") for path in (PROJECT_ROOT / "packaging" / "monitoring").iterdir())
    asked = {re.sub("_(bucket|sum|count)$", "", metric) for metric in METRIC.findall(rules)}
    assert not asked - set(helps)
