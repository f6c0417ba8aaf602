"""get, with every flag it has."""
from etcd3 import etcdrpc

SORT_TARGETS = ("CREATE", "KEY", "MODIFY", "VALUE", "VERSION")


def _fill(s, prefix):
    """Keys whose order differs by name, creation, modification, value and version."""
    s.run("put", f"{prefix}c", "beta")
    s.run("put", f"{prefix}a", "delta")
    s.run("put", f"{prefix}d", "alpha")
    s.run("put", f"{prefix}b", "gamma")
    s.run("put", f"{prefix}a", "epsilon")
    s.run("put", f"{prefix}c", "zeta")
    s.run("put", f"{prefix}c", "beta")
    s.run("put", f"{prefix}e", "alpha")


def selecting(s):
    _fill(s, "sel/")
    s.run("get", "sel/a")
    s.run("get", "sel/absent")
    s.run("get", "sel/absent", "-w", "json")
    s.run("get", "sel/b", "sel/d")
    s.run("get", "sel/d", "sel/b")
    s.run("get", "sel/b", "sel/b")
    s.run("get", "sel/", "--prefix")
    s.run("get", "sel/nothing", "--prefix", "-w", "json")
    s.run("get", "sel/d", "--from-key", "--limit=2")
    s.run("get", "", "--from-key", "--limit=1", "--keys-only")
    s.run("get", "", "--prefix", "--limit=3", "--keys-only", "-w", "json")
    for limit in (0, 1, 4, 5, 6):
        s.run("get", "sel/", "--prefix", f"--limit={limit}", "-w", "json")
    s.run("get", "sel/", "--prefix", "--limit=2", "--keys-only", "-w", "fields")
    s.run("get", "sel/", "--prefix", "--limit=-1", "-w", "json")
    s.run("get", "sel/", "--prefix", "--keys-only")
    s.run("get", "sel/", "--prefix", "--keys-only", "-w", "json")
    s.run("get", "sel/", "--prefix", "--print-value-only")
    s.run("get", "sel/", "--prefix", "--print-value-only", "--keys-only")
    s.run("get", "sel/", "--prefix", "--print-value-only", "-w", "json")
    s.run("get", "sel/", "--prefix", "--hex")
    s.run("get", "sel/", "--prefix", "--consistency=s")
    s.run("get", "sel/", "--prefix", "--consistency=l")
    s.run("get", "sel/", "--prefix", "--consistency=x")
    s.run("get", "sel/", "--prefix", "--count-only")
    s.run("get")
    s.run("get", "")
    s.run("get", "a", "b", "c")
    s.run("get", "a", "b", "--prefix")
    s.run("get", "a", "b", "--from-key")
    s.run("get", "a", "--from-key", "--prefix")


def sorting(s):
    _fill(s, "sort/")
    s.run("get", "sort/", "--prefix", "--order=ASCEND")
    s.run("get", "sort/", "--prefix", "--order=DESCEND")
    s.run("get", "sort/", "--prefix", "--order=descend")
    s.run("get", "sort/", "--prefix", "--order=SIDEWAYS")
    s.run("get", "sort/", "--prefix", "--sort-by=SIZE")
    for target in SORT_TARGETS:
        s.run("get", "sort/", "--prefix", f"--sort-by={target}")
        for order in ("ASCEND", "DESCEND"):
            flags = (f"--sort-by={target}", f"--order={order}")
            s.run("get", "sort/", "--prefix", *flags)
            s.run("get", "sort/", "--prefix", *flags, "--limit=2", "-w", "json")
        s.run("get", "sort/", "--prefix", f"--sort-by={target}", "--keys-only", "--limit=3")
    s.run("get", "sort/b", "sort/e", "--sort-by=MODIFY", "--order=DESCEND")


def history(s):
    first = s.revision()
    _fill(s, "hist/")
    s.run("del", "hist/b")
    last = s.revision()
    for revision in range(first, last + 1):
        s.run("get", "hist/", "--prefix", f"--rev={revision}")
    s.run("get", "hist/", "--prefix", f"--rev={first + 3}", "-w", "json")
    s.run("get", "hist/a", f"--rev={first + 2}", "-w", "fields")
    s.run("get", "hist/", "--prefix", f"--rev={first + 5}", "--sort-by=VERSION", "--order=DESCEND")
    s.run("get", "hist/", "--prefix", f"--rev={first + 6}", "--limit=2", "-w", "json")
    s.run("get", "hist/", "--prefix", f"--rev={last + 1}")
    s.run("get", "hist/", "--prefix", f"--rev={last + 1000}", "--consistency=s")
    s.run("get", "hist/", "--prefix", "--rev=-1")


def formats(s):
    _fill(s, "fmt/")
    for form in ("simple", "json", "fields", "table", "no-such-format"):
        s.run("get", "fmt/a", "-w", form)
        s.run("get", "fmt/", "--prefix", "-w", form)
        s.run("get", "fmt/absent", "-w", form)
    for words in (("fmt/a",), ("fmt/", "--prefix", "--limit=2"), ("fmt/absent",)):
        s.run("get", *words, "-w", "protobuf", protobuf=etcdrpc.RangeResponse)
    s.run("get", "fmt/a", "-w", "json", "--hex")
    s.run("get", "fmt/a", "-w", "fields", "--hex")
