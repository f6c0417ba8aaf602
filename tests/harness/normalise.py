"""Makes what etcdctl printed about one server comparable with what it printed about another.

Only what must differ is replaced: addresses, ids of cluster, member and leases,
raft's own counters, sizes, hashes, versions and durations. Everything else stays
byte for byte, so that a difference that is left is a difference a user sees.
"""
import re

_NUMBERS = [
    # JSON and fields output
    (r'("raft_term":)\d+', r"\1<term>"),
    (r'("raftTerm":)\d+', r"\1<term>"),
    (r'("RaftTerm" : )\d+', r"\1<term>"),
    (r'("raftIndex":)\d+', r"\1<index>"),
    (r'("raftAppliedIndex":)\d+', r"\1<index>"),
    (r'("RaftIndex" : )\d+', r"\1<index>"),
    (r'("RaftAppliedIndex" : )\d+', r"\1<index>"),
    (r'("dbSize":)\d+', r"\1<size>"),
    (r'("dbSizeInUse":)\d+', r"\1<size>"),
    (r'("DBSize" : )\d+', r"\1<size>"),
    (r'("hash":)\d+', r"\1<hash>"),
    (r'("Hash" : )\d+', r"\1<hash>"),
    (r'("version":)"[0-9.]+"', r"\1<version>"),
    (r'("Version" : )"[0-9.]+"', r"\1<version>"),
    (r'("took":)("[0-9.]+[a-zµ]+"|[0-9.]+)', r"\1<duration>"),
    (r'("Took" : )[0-9.]+[a-zµ]+', r"\1<duration>"),
    (r'("size":)"[0-9.]+ [kM]?B"', r"\1<size>"),
    # What etcdctl logs about itself
    (r'"ts":("[^"]*"|[0-9.]+)', '"ts":<time>'),
    (r"endpoint://client-[0-9a-f-]{36}/", "endpoint://<client>/"),
    (r"etcd-endpoints://0x[0-9a-f]+/", "etcd-endpoints://<client>/"),
    (r"(LocalAddr: ')[^']*'", r"\1<address>'"),
    (r"(took = )[0-9.]+[a-zµ]+", r"\1<duration>"),
    (r"(etcd member\[\S+\]\. took )[0-9.]+[a-zµ]+", r"\1<duration>"),
    # endpoint status, simple: version, size, leader, learner, term, index, applied index
    (
        r"(<member>, )[0-9.]+, [0-9.]+ [kM]?B, (\w+), (\w+), \d+, \d+, \d+,",
        r"\1<version>, <size>, \2, \3, <term>, <index>, <index>,",
    ),
    # endpoint status, table
    (
        r"(<member> \|) +[0-9.]+ \| +[0-9.]+ [kM]?B \| +(\w+) \| +(\w+) \| +\d+ \| +\d+ \| +\d+ \|",
        r"\1 <version> | <size> | \2 | \3 | <term> | <index> | <index> |",
    ),
    # endpoint hashkv, simple and table
    (r"(?m)^((?:http://)?<endpoint>, )\d+$", r"\1<hash>"),
    (r"(?m)^(\| <endpoint> \|) +\d+ \|$", r"\1 <hash> |"),
    # endpoint health, table
    (r"(<endpoint> \| +\w+ \|) +[0-9.]+[a-zµ]+ \|", r"\1 <duration> |"),
]
_NUMBERS = [(re.compile(pattern), replacement) for pattern, replacement in _NUMBERS]

_REMAINING = re.compile(r"(granted with TTL\((\d+)s\), remaining\()(-?\d+)(s\))")
_REMAINING_JSON = re.compile(r'("ttl":)(-?\d+)(,"granted-ttl":(\d+))')
_REMAINING_FIELDS = re.compile(r'("TTL" : )(-?\d+)(\n"GrantedTTL" : (\d+))')

# How much of its TTL a lease may have used up between two steps of a session.
REMAINING_SLACK_SECONDS = 30


def _is_fresh(remaining, granted):
    return max(0, granted - REMAINING_SLACK_SECONDS) <= remaining <= granted


def _hide_remaining(text):
    def simple(match):
        granted, remaining = int(match[2]), int(match[3])
        shown = "<fresh>" if _is_fresh(remaining, granted) else match[3]
        return match[1] + shown + match[4]

    def structured(match):
        remaining, granted = int(match[2]), int(match[4])
        shown = "<fresh>" if _is_fresh(remaining, granted) else match[2]
        return match[1] + shown + match[3]

    text = _REMAINING.sub(simple, text)
    text = _REMAINING_JSON.sub(structured, text)
    return _REMAINING_FIELDS.sub(structured, text)


# Tables of newer releases have lines of their own characters.
_LINES = {**dict.fromkeys("┌┬┐├┼┤└┴┘", "+"), "─": "-", "│": "|"}


def _squeeze_tables(text):
    """A table's columns are as wide as the values that were just replaced."""

    def squeeze(line):
        if line.startswith(("┌", "├", "└", "│")):
            line = line.translate(str.maketrans(_LINES))
        if line.startswith("+-"):
            return re.sub(r"-+", "-", line)
        if line.startswith("|"):
            return re.sub(r" +", " ", line)
        return line

    return "\n".join(squeeze(line) for line in text.split("\n"))


class Normaliser:
    """Remembers the ids of one server and what to call them."""

    def __init__(self):
        self._names = {}
        self._pattern = None
        self._leases = 0

    def learn(self, value, name):
        self._names[str(value)] = name
        # Longest first: an id may begin like a shorter one.
        words = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(
            r"(?<![0-9A-Za-z])(" + "|".join(map(re.escape, words)) + r")(?![0-9A-Za-z])"
        )

    def learn_id(self, number, name):
        """A 64-bit id in each of the ways etcdctl prints one."""
        unsigned = number & (2**64 - 1)
        signed = unsigned - 2**64 if unsigned >= 2**63 else unsigned
        for form in (str(unsigned), str(signed), f"{unsigned:x}", f"{unsigned:016x}"):
            self.learn(form, name)

    def learn_lease(self, number):
        """The n-th lease of a session gets the same name on every server."""
        self._leases += 1
        name = f"<lease-{self._leases}>"
        self.learn_id(number, name)
        return name

    def __call__(self, text):
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._names[match[1]], text)
        text = _hide_remaining(_squeeze_tables(text))
        for pattern, replacement in _NUMBERS:
            text = pattern.sub(replacement, text)
        return text
