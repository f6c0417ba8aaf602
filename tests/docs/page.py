"""The blocks of a page, and the commands of a block."""
import dataclasses
import re

from harness import PROJECT_ROOT

# Code in these languages is neither a command nor what one prints.
SILENT_LANGUAGES = ("ini", "json", "proto", "text", "yaml")
# What a line of indented code begins with when it is a command.
COMMAND_WORDS = ("lease ", "leased ", "etcdctl ", "curl ", "make ", "tools/", "build/", "openssl ", "systemctl ", "cc ", "$ ")
MARK = re.compile(r"<!-- (run|run without a server|run by (\S+)|not run: (.+)) -->")
# docs/benchmarks.md is written by tools/bench, with the commands that it ran.
WRITTEN_BY_TOOLS = ("docs/benchmarks.md",)


def pages():
    found = [PROJECT_ROOT / "README.md", PROJECT_ROOT / "examples" / "README.md"]
    found += sorted((PROJECT_ROOT / "docs").glob("*.md")) + sorted((PROJECT_ROOT / "docs" / "doors").glob("*.md"))
    names = [str(path.relative_to(PROJECT_ROOT)) for path in found]
    return [name for name in names if name not in WRITTEN_BY_TOOLS]


def text_of(name):
    return (PROJECT_ROOT / name).read_text(encoding="utf-8")


@dataclasses.dataclass
class Block:
    page: str
    line: int
    language: str
    mark: str  # the line above it
    lines: list

    @property
    def how(self):
        """The words of its mark; None: it has none."""
        found = MARK.fullmatch(self.mark.strip())
        return found[1] if found else None

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """[(command, lines that it prints)]; None instead of lines: not shown."""
        has_prompts = any(line.startswith("$ ") for line in self.lines)
        found = []
        for line in _joined(self.lines):
            if not has_prompts:
                if line.strip() and not line.startswith("#"):
                    found.append((line, None))
            elif line.startswith("$ "):
                found.append((line[2:], []))
            else:
                assert found, f"{self.where}: {line!r} comes before any command"
                found[-1][1].append(line)
        return found


def _joined(lines):
    """A command that goes on behind a backslash is one line."""
    whole = ""
    for line in lines:
        if line.endswith("\\"):
            whole += line[:-1].rstrip() + " "
        else:
            yield whole + (line.lstrip() if whole else line)
            whole = ""


def blocks(name):
    found, above, block = [], "", None
    for number, line in enumerate(text_of(name).splitlines(), start=1):
        if line.startswith("```") and block is None:
            block = Block(name, number, line[3:].strip(), above, [])
        elif line.startswith("```"):
            if block.language not in SILENT_LANGUAGES:
                found.append(block)
            block, above = None, ""
        elif block is not None:
            block.lines.append(line)
        else:
            above = line
    return found


def indented_commands(name):
    """Lines of code that is indented by four spaces and is a command."""
    found, is_fenced, is_after_blank = [], False, True
    for number, line in enumerate(text_of(name).splitlines(), start=1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        if not is_fenced and is_after_blank and line.startswith("    ") and line[4:].startswith(COMMAND_WORDS):
            found.append(f"{name}:{number}: {line.strip()}")
        is_after_blank = not line.strip() or (is_after_blank and line.startswith("    "))
    return found
