"""Gets the peers. Debian packages are downloaded and unpacked below a folder, never installed: no
service starts, nothing on the machine changes, and root is not needed."""
import glob
import os
import pathlib
import re
import shutil
import subprocess

# The newest first; each may carry etcd 3.5.
NEWER_SUITES = ("sid", "forky", "trixie")
SOURCES_FOLDER = pathlib.Path("/etc/apt/sources.list.d")
SOURCES_LIST = pathlib.Path("/etc/apt/sources.list")


class PeerMissing(Exception):
    """A peer cannot be had on this machine; the run goes on without it."""


def _run(*words, cwd=None):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise PeerMissing(f"{' '.join(words[:3])}: {lines[-1] if lines else done.returncode}")
    return done.stdout


def _codename():
    found = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(),
                      re.MULTILINE)  # fmt: skip
    return found[1] if found else "stable"


def _main_source():
    """(URI, Signed-By) of the source from which this machine has its main suite."""
    suites = {_codename(), "stable"}
    for path in sorted(SOURCES_FOLDER.glob("*.sources")):
        for stanza in path.read_text().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if suites & set(fields.get("Suites", "").split()) and "URIs" in fields:
                return fields["URIs"].split()[0], fields.get("Signed-By", "")
    for path in [SOURCES_LIST, *sorted(SOURCES_FOLDER.glob("*.list"))]:
        for line in path.read_text().splitlines() if path.is_file() else []:
            match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)", line)
            if match and match[3] in suites:
                signed = re.search(r"signed-by=(\S+)", match[1] or "")
                return match[2], signed[1] if signed else ""
    raise PeerMissing("no apt source of this machine has its main suite")


def _apt_options(folder, suite):
    """apt with a state of its own and one source: the machine's mirror, another suite."""
    uri, signed_by = _main_source()
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    source = folder / f"{suite}.sources"
    signed = f"Signed-By: {signed_by}\n" if signed_by else ""
    source.write_text(f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\n{signed}")
    settings = {
        "Dir::Etc::SourceList": source, "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root", "Acquire::Retries": 3,
    }  # fmt: skip
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _unpack(folder, root, packages, options=()):
    """Downloads these packages and unpacks them below `root`."""
    downloads = folder / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    _run("apt-get", *options, "download", *packages, cwd=downloads)
    for name in packages:
        newest = max(glob.glob(f"{glob.escape(str(downloads))}/{name}_*.deb"), key=os.path.getmtime)
        _run("dpkg-deb", "-x", newest, str(root))


def _unpack_with_needs(folder, root, packages):
    """From the machine's own suite, with what apt would install beside them."""
    options = _apt_options(folder / "apt-own", _codename())
    _run("apt-get", *options, "update")
    listed = _run("apt-get", *options, "-s", "install", "--no-install-recommends", *packages)
    needed = re.findall(r"^Inst (\S+)", listed, re.MULTILINE)
    _unpack(folder, root, sorted({*needed, *packages}), options)


def etcd_version(binary):
    return re.search(r"etcd Version: (\S+)", _run(str(binary), "--version"))[1]


def package_version(folder, name):
    """Of what was unpacked, as its package says."""
    package = {"redis": "redis-server", "zookeeper": "libzookeeper-java"}[name]
    found = sorted((folder / "packages").glob(f"{package}_*.deb"))
    return found[-1].name.split("_")[1].replace("%3a", ":") if found else "of this machine"


def etcd_35(folder):
    """Path of etcd 3.5, the newest that the machine's mirror has in any suite."""
    binary = folder / "etcd-3.5" / "usr" / "bin" / "etcd"
    if binary.is_file() and binary.with_name("etcdctl").is_file():
        return binary
    own = shutil.which("etcd")
    reasons = []
    for suite in NEWER_SUITES:
        try:
            options = _apt_options(folder / f"apt-{suite}", suite)
            _run("apt-get", *options, "update")
            _unpack(folder, folder / "etcd-3.5", ["etcd-server", "etcd-client"], options)
            if etcd_version(binary).startswith("3.5."):
                return binary
            shutil.rmtree(folder / "etcd-3.5")
        except PeerMissing as error:
            reasons.append(f"{suite}: {error}")
    if own and etcd_version(own).startswith("3.5."):
        return pathlib.Path(own)
    raise PeerMissing("etcd 3.5 is in no suite of this mirror: " + "; ".join(reasons))


def etcdctl_35(folder):
    """Of the same packages as etcd_35()."""
    return etcd_35(folder).with_name("etcdctl")


def etcdctl_34(folder):
    return etcd_34(folder).with_name("etcdctl")


def etcd_34(folder):
    """Path of etcd 3.4: what Debian 12 installs."""
    own = shutil.which("etcd")
    if own and etcd_version(own).startswith("3.4."):
        return pathlib.Path(own)
    binary = folder / "etcd-3.4" / "usr" / "bin" / "etcd"
    if not binary.is_file():
        options = _apt_options(folder / "apt-bookworm", "bookworm")
        _run("apt-get", *options, "update")
        _unpack(folder, folder / "etcd-3.4", ["etcd-server", "etcd-client"], options)
    return binary


def redis(folder):
    """Folder with usr/bin/redis-server and redis-benchmark; "/" when they are installed."""
    if all(os.access(f"/usr/bin/{name}", os.X_OK) for name in ("redis-server", "redis-benchmark")):
        return pathlib.Path("/")
    root = folder / "redis"
    if not (root / "usr/bin/redis-server").is_file():
        _unpack_with_needs(folder, root, ["redis-server", "redis-tools"])
    return root


def zookeeper(folder):
    """Folder with usr/share/java/zookeeper.jar and what it needs; Java must be there."""
    if not shutil.which("java"):
        raise PeerMissing("there is no java")
    root = folder / "zookeeper"
    if not (root / "usr/share/java/zookeeper.jar").exists():
        _unpack_with_needs(folder, root, [
            "libzookeeper-java", "libslf4j-java", "libcommons-cli-java", "libcommons-io-java",
            "libguava-java",
        ])  # fmt: skip
    return root
