"""The grammar of PromQL, as far as the alert rules and the board use it: expressions that Prometheus would not read
are refused. Debian's promtool would do it, but comes with hundreds of megabytes."""
import re

TOKEN = re.compile(
    r'\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])|(?P<duration>(?:\d+(?:ms|[smhdwy]))+)\b'
    r'|(?P<string>"(?:[^"\\]|\\.)*")|(?P<variable>\$\w+)|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)'
    r"|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],:]))"
)
AGGREGATIONS = {"sum", "min", "max", "avg", "count", "stddev", "stdvar", "group", "topk", "bottomk", "quantile"}
FUNCTIONS = {
    "rate", "irate", "increase", "delta", "deriv", "histogram_quantile", "abs", "ceil", "floor", "round", "absent",
    "clamp_min", "clamp_max", "time", "vector", "scalar", "label_replace", "max_over_time", "min_over_time",
    "avg_over_time", "sum_over_time", "last_over_time", "changes", "resets", "sort", "sort_desc",
}  # fmt: skip
# From loose to tight.
OPERATORS = [{"or"}, {"and", "unless"}, {"==", "!=", ">", "<", ">=", "<="}, {"+", "-"}, {"*", "/", "%"}]
COMPARISONS = OPERATORS[2]
WORDS = {"or", "and", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}
RANGE_FUNCTIONS = {name for name in FUNCTIONS if name.endswith("_over_time")} | {
    "rate", "irate", "increase", "delta", "deriv", "changes", "resets",
}  # fmt: skip


class Malformed(Exception):
    """What is wrong, and with which expression."""


class _Parser:
    def __init__(self, text):
        self.text, self.tokens, at = text, [], 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            if match is None:
                self.fail(f"unexpected {text[at:].strip()[:10]!r}")
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        self.at = 0

    def fail(self, what):
        raise Malformed(f"{what} in {self.text!r}")

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def accept(self, *texts):
        if self.peek()[1] in texts and self.peek()[0] in ("sign", "name"):
            self.at += 1
            return True
        return False

    def need(self, text):
        if not self.accept(text):
            self.fail(f"no {text!r} before {self.peek()[1]!r}")

    def take(self, *kinds):
        kind, text = self.peek()
        if kind not in kinds:
            self.fail(f"{text!r} where {' or '.join(kinds)} is wanted")
        self.at += 1
        return text

    def labels(self):
        self.need("(")
        while not self.accept(")"):
            self.take("name")
            if not self.accept(","):
                self.need(")")
                return

    def grouping(self):
        if self.accept("by", "without"):
            self.labels()
            return True
        return False

    def binary(self, level=0):
        """True: a range of samples, of which one cannot make anything but the argument of a function."""
        if level == len(OPERATORS):
            return self.unary()
        is_range = self.binary(level + 1)
        while self.peek()[1] in OPERATORS[level] and self.peek()[0] in ("sign", "name"):
            operator = self.peek()[1]
            self.at += 1
            if operator in COMPARISONS:
                self.accept("bool")
            if self.accept("on", "ignoring"):
                self.labels()
                if self.accept("group_left", "group_right") and self.peek()[1] == "(":
                    self.labels()
            if self.binary(level + 1) or is_range:
                self.fail(f"{operator!r} of a range")
        return is_range

    def unary(self):
        while self.accept("-", "+"):
            pass
        return self.primary()

    def primary(self):
        kind, text = self.peek()
        if kind in ("number", "string"):
            self.at += 1
            return False
        if self.accept("("):
            is_range = self.binary()
            self.need(")")
            return is_range
        name = self.take("name")
        if name in WORDS:
            self.fail(f"unexpected {name!r}")
        if name in AGGREGATIONS:
            is_grouped = self.grouping()
            self.arguments(name)
            if not is_grouped:
                self.grouping()
            return False
        if self.peek()[1] == "(":
            if name not in FUNCTIONS:
                self.fail(f"unknown function {name!r}")
            self.arguments(name)
            return False
        return self.selector()

    def arguments(self, function):
        self.need("(")
        is_range = False
        while not self.accept(")"):
            is_range |= self.binary()
            if not self.accept(","):
                self.need(")")
                break
        if is_range != (function in RANGE_FUNCTIONS):
            self.fail(f"{function!r} of {'a range' if is_range else 'no range'}")

    def selector(self):
        if self.accept("{"):
            while not self.accept("}"):
                self.take("name")
                if not self.accept("=", "!=", "=~", "!~"):
                    self.fail(f"{self.peek()[1]!r} where a matcher is wanted")
                self.take("string")
                if not self.accept(","):
                    self.need("}")
                    break
        is_range = self.accept("[")
        if is_range:
            self.take("duration", "variable")
            self.need("]")
        if self.accept("offset"):
            self.take("duration")
        return is_range


def check(text):
    """Raises Malformed unless it is an expression whose value can be compared or drawn."""
    parser = _Parser(text)
    if parser.binary():
        parser.fail("a range")
    if parser.peek()[0] != "end":
        parser.fail(f"unexpected {parser.peek()[1]!r}")
