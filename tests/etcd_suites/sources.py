"""The sources of etcd's suites, laid out as in etcd's own repository, and what is built of them."""
import json
import os
import shutil
import subprocess
from pathlib import Path

VERSION = "v3.5.21"
VERSION_V2 = "v2.305.21"
# Folder of etcd's repository: the module that holds it. The suites' go.mod replaces modules by these folders.
MODULES = {
    "api": f"go.etcd.io/etcd/api/v3@{VERSION}",
    "client/pkg": f"go.etcd.io/etcd/client/pkg/v3@{VERSION}",
    "client/v2": f"go.etcd.io/etcd/client/v2@{VERSION_V2}",
    "client/v3": f"go.etcd.io/etcd/client/v3@{VERSION}",
    "etcdctl": f"go.etcd.io/etcd/etcdctl/v3@{VERSION}",
    "etcdutl": f"go.etcd.io/etcd/etcdutl/v3@{VERSION}",
    "pkg": f"go.etcd.io/etcd/pkg/v3@{VERSION}",
    "raft": f"go.etcd.io/etcd/raft/v3@{VERSION}",
    "server": f"go.etcd.io/etcd/server/v3@{VERSION}",
    "tests": f"go.etcd.io/etcd/tests/v3@{VERSION}",
}
ROOT_MODULE = f"go.etcd.io/etcd/v3@{VERSION}"
ROOT_FILES = ("etcd.conf.yml.sample",)
DONE = ".complete"


def run_go(folder, *arguments):
    """What `go` prints; its errors are shown as they come."""
    done = subprocess.run(["go", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"go {' '.join(map(str, arguments))} failed: {done.stdout.strip()}")
    return done.stdout


def module_folder(module, scratch):
    """Where the module cache has a module, which is downloaded if it is not there."""
    return Path(json.loads(run_go(scratch, "mod", "download", "-json", module))["Dir"])


def copy_writable(source, target):
    """A copy that can be changed and removed: the module cache is read-only."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        os.chmod(folder, 0o755)
    return target


def fetch(root):
    """Downloads all of it into `root`, once."""
    if (root / DONE).is_file():
        return
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "go.mod").write_text("module sources\n", encoding="utf-8")  # `go mod download` asks for one
    for folder, module in MODULES.items():
        print(f"  source {module}", flush=True)
        (root / folder).parent.mkdir(parents=True, exist_ok=True)
        copy_writable(module_folder(module, root), root / folder)
    for name in ROOT_FILES:
        shutil.copyfile(module_folder(ROOT_MODULE, root) / name, root / name)
    (root / "go.mod").unlink()
    (root / DONE).touch()


def build_clients(root):
    """bin/ of etcd's repository, where its e2e suite looks for programs: etcdctl and etcdutl."""
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("etcdctl", "etcdutl"):
        if not (programs / name).is_file():
            print(f"  build {name}", flush=True)
            run_go(root / name, "build", "-o", programs / name, ".")


def place_server(root, server, target):
    """A copy of the server under the name of etcd, whose defaults it then has."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if server == "etcd":
        print("  build etcd", flush=True)
        run_go(root / "server", "build", "-o", target, ".")
    else:
        shutil.copy2(server, target)
    return target


V2_CLIENT = '"go.etcd.io/etcd/client/v2"'
V2_CLIENT_BY_V3 = 'client "go.etcd.io/etcd/tests/v3/integration/v2client"'


def lay_launcher(root, launcher, left_out):
    """A copy of the suites in which clusters are processes: what starts etcd's server as a library, or cannot be compiled
    without it (`left_out`), is removed, the launcher is put there, and what was asked through v2 is asked through v3."""
    target = root / "tests-of-processes"
    suite = target / "integration"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / "tests", target)
    for name in left_out:
        path = suite / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in suite.glob("*_test.go"):
        text = path.read_text(encoding="utf-8")
        if V2_CLIENT in text:
            path.write_text(text.replace(V2_CLIENT, V2_CLIENT_BY_V3), encoding="utf-8")
    shutil.copytree(launcher, suite, dirs_exist_ok=True)
    return target
