"""What a run of a suite means: its results beside the list of what is expected."""
import collections

from cases import FAILED, PASSED, SKIPPED

# Why a case of the list is not expected to pass.
LEFT_OUT = "left out"  # not run: it asks for what leased does not have
FAILS = "fails"  # run, and its failure is explained
SKIPS = "skipped"  # the suite skips it
ETCD_FAILS = "etcd fails too"
KINDS = (LEFT_OUT, FAILS, SKIPS, ETCD_FAILS)


def read_expected(path):
    """{name: (kind, reason)} of lines `name | kind | reason`."""
    expected = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = [word.strip() for word in line.split("|", 2)]
        if len(words) != 3 or words[1] not in KINDS or not words[2]:
            raise ValueError(f"{path.name}:{number}: not `name | {' or '.join(KINDS)} | reason`")
        if words[0] in expected:
            raise ValueError(f"{path.name}:{number}: {words[0]} is there twice")
        expected[words[0]] = (words[1], words[2])
    return expected


class Verdict:
    """`first` and `again` are results by name; `again` has those that failed first."""

    def __init__(self, names, expected, first, again):
        self.left_out = sorted(name for name in names if expected.get(name, ("",))[0] == LEFT_OUT)
        self.first, self.again, self.expected = first, again, expected
        self.by_kind = collections.defaultdict(list)
        for name, result in sorted(first.items()):
            self.by_kind[self.kind_of(name, result)].append(name)

    def kind_of(self, name, result):
        listed = self.expected.get(name, ("",))[0]
        if result.outcome == SKIPPED:
            return "skipped" if listed == SKIPS else "skipped, though not listed"
        if result.outcome == PASSED:
            return "passed, though listed" if listed in (FAILS, ETCD_FAILS) else "passed"
        if name in self.again and self.again[name].outcome == PASSED:
            return "passed when run again"
        if listed in (FAILS, ETCD_FAILS):
            return f"failed as listed ({listed})"
        return "FAILED"

    @property
    def unexpected(self):
        return self.by_kind["FAILED"]

    @property
    def counted(self):
        """Cases that count: without those left out, skipped, or failed by etcd too."""
        return [name for name, result in self.first.items()
                if result.outcome != SKIPPED and self.expected.get(name, ("",))[0] != ETCD_FAILS]

    @property
    def passed(self):
        return [name for name in self.counted if self.first[name].outcome == PASSED
                or (name in self.again and self.again[name].outcome == PASSED)]

    def lines(self):
        """The table of figures, then the names of all but those that simply passed."""
        rows = [("in the suite", len(self.first) + len(self.left_out)), ("left out", len(self.left_out))]
        rows += [(kind, len(names)) for kind, names in sorted(self.by_kind.items()) if names]
        share = 100 * len(self.passed) / max(1, len(self.counted))
        rows += [("cases that count (not left out, skipped or failed by etcd too)", len(self.counted)),
                 (f"of these passed ({share:.1f} %)", len(self.passed)),
                 ("of these passed at once", sum(self.first[name].outcome == PASSED for name in self.counted))]
        lines = [f"{number:5}  {what}" for what, number in rows]
        for kind, names in sorted(self.by_kind.items()):
            if kind == "passed" or not names:
                continue
            lines += ["", f"{kind}:"]
            for name in names:
                reason = self.expected.get(name, ("", ""))[1]
                lines.append(f"  {name}" + (f": {reason}" if reason else ""))
        return lines

    def short(self):
        """One line, for tools/accept."""
        return (f"{len(self.passed)} of {len(self.counted)} pass, {len(self.by_kind['passed when run again'])} of them when "
                f"run again; outside of the list failed: {', '.join(self.unexpected) or 'none'}")


def failed_outside(results, expected):
    """Names of cases that failed and are not listed as failing."""
    return [name for name, result in results.items()
            if result.outcome == FAILED and expected.get(name, ("",))[0] not in (FAILS, ETCD_FAILS)]
