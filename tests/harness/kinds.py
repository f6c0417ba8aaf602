"""The two servers every conformance test runs against, and where they are found.

LEASED_TEST_KINDS chooses among them, "etcd,leased" unless told otherwise. LEASED
names the binary of leased, ETCD that of etcd.
"""
import os
import pathlib
import shutil

PROJECT_ROOT = pathlib.Path(__file__).resolve().parents[2]

KIND_ETCD = "etcd"
KIND_LEASED = "leased"
KINDS = (KIND_ETCD, KIND_LEASED)


def kinds():
    """The kinds asked for, in the order given. An unknown word is an error, not a skip."""
    words = os.environ.get("LEASED_TEST_KINDS", ",".join(KINDS)).split(",")
    chosen = [word.strip() for word in words if word.strip()]
    unknown = [word for word in chosen if word not in KINDS]
    if unknown or not chosen:
        raise ValueError(f"LEASED_TEST_KINDS must name some of {KINDS}, not {words}")
    return chosen


def binary_of(kind):
    """Path of the kind's executable; FileNotFoundError says how to get one."""
    if kind == KIND_LEASED:
        path = os.environ.get("LEASED", str(PROJECT_ROOT / "build" / "leased"))
        hint = "run `make build`, or name one in LEASED"
    else:
        path = os.environ.get("ETCD") or shutil.which("etcd") or "/usr/bin/etcd"
        hint = "install Debian's etcd-server, or name one in ETCD"
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"no executable {path}: {hint}")
    return path


def lease_tool():
    """Path of lease, which is built beside leased."""
    path = pathlib.Path(binary_of(KIND_LEASED)).with_name("lease")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"no executable {path}: run `ninja -C {path.parent} lease`")
    return str(path)


def clean_environment():
    """The environment of a child: without what would configure it behind a test's back."""
    ambient = ("ETCD_", "ETCDCTL_", "LEASED_")
    proxies = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ambient) and name.lower() not in proxies
    }
