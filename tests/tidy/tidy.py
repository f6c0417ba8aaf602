"""What the tree promises about itself, as functions: each takes a root folder and gives a list of
problems, one line each, empty when all is well. test_tidy.py runs them on this tree, and on small
wrong trees to show that each can fail."""

import os
import re
import subprocess
from pathlib import Path

LINES_MAX = 1000

# Who may include whom (DESIGN: base <- core; base <- raft; base, tls <- peers; all of them <- replication;
# base <- net; base, core <- registry <- checks; base, core, net, registry, checks <- doors; the list of doors knows
# every door, a door none but itself).
MAY_INCLUDE = {
    "base": {"base"},
    "core": {"base", "core"},
    "bolt": {"base", "bolt"},
    "raft": {"base", "raft"},
    "tls": {"base", "tls"},
    "peers": {"base", "tls", "peers"},
    "replication": {"base", "core", "raft", "peers", "tls", "replication"},
    "net": {"base", "tls", "net"},
    "registry": {"base", "core", "registry"},
    "checks": {"base", "core", "tls", "registry", "checks"},
    "lease": {"base", "tls", "lease"},
    "client": {"base", "tls", "net", "client", "proto"},
    "bench": {"base", "tls", "net", "client", "bench", "proto"},
    "cli": {"base", "tls", "net", "client", "bench", "cli", "proto"},
    "server": {"base", "core", "tls", "peers", "replication", "net", "doors", "bolt", "server", "proto"},
}
DOOR_MAY_INCLUDE = {"base", "core", "bolt", "net", "registry", "checks", "proto"}  # its own folder, and what is for every door:
DOOR_SHARED = {"doors/door.h", "doors/authenticator.h"}
# What doors of one API share; no door itself.
DOOR_PARTS = {"doors/native": {"doors/leased_v1"}, "doors/registry": {"doors/leased_v1"}}

# core reads no clock, no randomness, no file, and never logs: it needs no more than these.
CORE_SYSTEM_HEADERS = {
    "assert.h", "endian.h", "inttypes.h", "limits.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h",
    "stddef.h", "stdint.h", "stdlib.h", "stdnoreturn.h", "string.h",
}
CORE_FORBIDDEN_BASE = {"base/clock.h", "base/log.h", "base/progress.h"}

# Libraries that only some folders may touch.
LIBRARY_USERS = [
    (re.compile(r"raft\.h$"), {"raft"}),
    (re.compile(r"raft/(uv|fixture)\.h"), set()),
    (re.compile(r"uv(\.h|/)"), {"raft", "replication", "peers", "net", "doors", "server", "client", "bench",
                                "cli", "checks"}),
    (re.compile(r"nghttp2/"), {"net", "client", "lease", "checks"}),
    (re.compile(r"openssl/"), {"tls", "net", "doors", "server"}),
    (re.compile(r"crypt\.h$"), {"server"}),
    (re.compile(r"protobuf-c/"), {"net", "doors", "client", "bench", "cli"}),
    (re.compile(r"yaml\.h"), {"server"}),
    (re.compile(r"jansson\.h"), {"doors", "server", "client", "bench", "cli"}),
    (re.compile(r"(lua|lauxlib|lualib|luaconf)\.h"), {"doors"}),
]

# What core's objects may not call, as the linker sees it (with the names that fortified builds use).
CORE_FORBIDDEN_SYMBOLS = re.compile(
    r"""^(
        uv_.* | raft_.* | nghttp2_.* | hash_key_fill | EVP_.* | SSL_.* | RAND_.* | SHA\d.* | log_(write|enabled) |
        clock_.* | time | gettimeofday | times | nanosleep | usleep | sleep |
        rand | srand | random | srandom | drand48 | arc4random.* | getrandom | getentropy |
        getenv | secure_getenv |
        f?open(64|at)? | read | write | pread.* | pwrite.* | f(read|write|puts|putc|gets|close) |
        (__)?v?f?printf(_chk)? | puts | putchar | perror | v?syslog | v?dprintf |
        socket | send.* | recv.* | connect | pthread_create
    )$""",
    re.VERBOSE,
)

TEXT_SUFFIXES = {
    ".c", ".h", ".py", ".js", ".mjs", ".md", ".proto", ".build", ".sh", ".ini", ".service", ".yml",
}
FORMAT = Path(__file__).resolve().parents[2] / ".clang-format"
TEXT_NAMES = {"Makefile", "meson_options.txt", ".clang-format", ".editorconfig", ".gitignore"}
SCRIPT_FOLDERS = ("tools", ".ci")
TABS_ALLOWED = {"Makefile"}

# Put together here so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$})~-])/(wor" r"k|far" r"m|hom" r"e|roo" r"t|User" r"s)/[\w.]")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def list_files(root):
    """Relative paths of what belongs to the tree: what git knows or would take."""
    root = Path(root)
    if (root / ".git").exists():
        output = subprocess.run(
            ["git", "-c", f"safe.directory={root}", "-C", str(root),
             "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE,
        ).stdout.decode()
        names = [name for name in output.split("\0") if name]
        return sorted(name for name in names if (root / name).is_file())
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in {"node_modules", "__pycache__", "data"}
                      and not f.startswith(("build", ".git"))]
        found += [str((Path(folder) / name).relative_to(root)) for name in names]
    return sorted(found)


def text_files(root):
    for name in list_files(root):
        path = Path(name)
        if name.startswith("tests/fuzz/corpus/") or path.suffix == ".json":
            continue
        is_script = path.suffix == "" and name.startswith(tuple(f + "/" for f in SCRIPT_FOLDERS))
        if path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES or is_script:
            yield name


def lines_of(root, name):
    text = (Path(root) / name).read_text(encoding="utf-8")
    return text.splitlines()


def source_files(root, under="src/"):
    return [n for n in list_files(root) if n.startswith(under) and n.endswith((".c", ".h"))]


def part_of(name):
    """("core", "core") for src/core/x.c; ("doors", "doors/etcd") for src/doors/etcd/x.c; ("doors", "doors")
    for the list of them, src/doors/x.c."""
    words = name.split("/")
    if words[1] == "doors" and len(words) > 3:
        return "doors", "/".join(words[1:3])
    return words[1], words[1]


def include_edges(root):
    problems = []
    for name in source_files(root):
        part, folder = part_of(name)
        if part == "doors":
            allowed = DOOR_MAY_INCLUDE | {folder} | DOOR_PARTS.get(folder, set())
        elif part in MAY_INCLUDE:
            allowed = MAY_INCLUDE[part]
        else:
            problems.append(f"{name}: src/{part} is not in MAY_INCLUDE of tests/tidy/tidy.py")
            continue
        for number, line in enumerate(lines_of(root, name), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            where = f"{name}:{number}"
            if match[1] == "<":
                problems += [f"{where}: {p}" for p in system_include(part, match[2])]
            else:
                problems += [f"{where}: {p}" for p in own_include(root, part, allowed, match[2])]
    return problems


def system_include(part, header):
    if part == "core" and header not in CORE_SYSTEM_HEADERS:
        return [f"core may not include <{header}>: it is pure and deterministic"]
    for pattern, users in LIBRARY_USERS:
        if pattern.match(header) and part not in users:
            return [f"{part} may not include <{header}>; only {', '.join(sorted(users))} may"]
    return []


def own_include(root, part, allowed, header):
    if header == "build_info.h":
        return ["core may not know its build"] if part == "core" else []
    words = header.split("/")
    if ".." in words or len(words) < 2 or words[0] == "src":
        return [f'"{header}": name it from src/ on, as in "core/lease_table.h"']
    target = "/".join(words[:2]) if words[0] == "doors" and len(words) > 2 else words[0]
    is_shared = part == "doors" and header in DOOR_SHARED
    if target not in allowed and words[0] not in allowed and not is_shared:
        return [f'{part} may not include "{header}"; it may include {", ".join(sorted(allowed))}']
    if part == "core" and header in CORE_FORBIDDEN_BASE:
        return [f'core may not include "{header}": time is an argument, and core never logs']
    if words[0] != "proto" and not (Path(root) / "src" / header).is_file():
        return [f'"{header}" does not exist']
    return []


SAFETY_RULES = re.compile(r"safety\s+(?:\*\s*)?rules?\s+(\d+)(?:\s*(?:,|and|to)\s*(\d+))*", re.IGNORECASE)


def safety_rules(root):
    """A safety rule that is cited by its number stands under that number in ARCHITECTURE.md."""
    path = Path(root) / "ARCHITECTURE.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    section = text.partition("## Time and safety")[2].partition("\n## ")[0]
    known = {int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)}
    problems = []
    for name in text_files(root):
        content = (Path(root) / name).read_text(encoding="utf-8")
        for match in SAFETY_RULES.finditer(content):
            cited = {int(number) for number in re.findall(r"\d+", match[0])}
            line = content.count("\n", 0, match.start()) + 1
            problems += [f"{name}:{line}: ARCHITECTURE.md has no safety rule {number}"
                         for number in sorted(cited - known)]
    return problems


RULES = re.compile(r"(src/doors/\w+|src/registry|tests/doors)/\w+_(rules|model|keys|reply)\.[ch]")
RULE_HEADERS = ("_rules.h", "_model.h", "_keys.h", "_reply.h")
# Pure all the same, in the files that are named: numbers to text and back (in the C locale, which the server never
# leaves), and the Lua interpreter, whose sandbox they are.
RULE_EXCEPTIONS = [
    (re.compile(r"src/doors/redis/redis_(reply|number_model|scripting_rules|script(_\w+)?_rules)\.c"), {"math.h", "stdio.h"}),
    (re.compile(r"src/doors/redis/redis_script(_\w+)?_rules\.[ch]"), {"lua.h", "lauxlib.h", "lualib.h"}),
    (re.compile(r"src/doors/redis/redis_script_memory_rules\.c"), {"sys/mman.h"}),  # at one address everywhere
]


def pure_rules(root):
    """The rules of doors, and the model, keys and replies they work on, run in apply, on every replica: as pure as
    core."""
    problems = []
    for name in list_files(root):
        if not RULES.fullmatch(name):
            continue
        for number, line in enumerate(lines_of(root, name), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            header = match[2]
            own = header.split("/")[-1].endswith(RULE_HEADERS)
            if match[1] == "<":
                pure = header in CORE_SYSTEM_HEADERS or any(
                    pattern.fullmatch(name) and header in headers for pattern, headers in RULE_EXCEPTIONS)
            else:
                pure = own or (header.startswith(("base/", "core/")) and header not in CORE_FORBIDDEN_BASE)
            if not pure:
                problems.append(f"{name}:{number}: a rule may not include {header}: it is pure, as core is")
    return problems


def core_symbols(archive):
    """What the compiled core calls outside itself and must not."""
    output = subprocess.run(
        ["nm", "--undefined-only", "--format=posix", str(archive)],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    names = {line.split()[0].split("@")[0] for line in output.splitlines() if " U" in line}
    return [f"core calls {name}(), which it may not: see src/core/README.md"
            for name in sorted(names) if CORE_FORBIDDEN_SYMBOLS.match(name)]


def defined_names(path, *flags):
    """Global names that a program or a library defines. A copy of a library's variable has a version behind an @."""
    output = subprocess.run(
        ["nm", "--defined-only", "--extern-only", "--format=posix", *flags, str(path)],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    return {line.split()[0] for line in output.splitlines()}


def overridden_symbols(program):
    """What a program defines in the place of a library that it is linked with, or wraps (ld --wrap)."""
    own = defined_names(program)
    listed = subprocess.run(["ldd", str(program)], check=True, stdout=subprocess.PIPE, text=True).stdout
    libraries = re.findall(r"=> (/\S+)", listed)
    theirs = {name.split("@")[0] for library in libraries for name in defined_names(library, "--dynamic")}
    problems = [f"{name} is overridden: libraries get their own functions" for name in sorted(own & theirs)]
    return problems + [f"{name}: a function is wrapped" for name in sorted(own) if name.startswith(("__wrap_", "__real_"))]


def readmes(root):
    """Each folder of src/ and tests/ that holds files of its own says what it is for."""
    folders = set()
    for name in list_files(root):
        words = name.split("/")
        if words[0] == "src" and len(words) > 2:
            folders.add("/".join(words[:3] if words[1] == "doors" and len(words) > 3 else words[:2]))
        elif words[0] == "tests" and len(words) > 2:
            folders.add("/".join(words[:2]))
    return [f"{folder}/README.md is missing: say purpose, invariants, what it may include and how "
            "to extend it" for folder in sorted(folders)
            if not (Path(root) / folder / "README.md").is_file()]


def long_files(root):
    problems = []
    for name in source_files(root):
        count = len(lines_of(root, name))
        if count > LINES_MAX:
            problems.append(f"{name}: {count} lines; over {LINES_MAX} it is two files")
    return problems


def white_space(root):
    problems = []
    for name in text_files(root):
        data = (Path(root) / name).read_bytes()
        if data and not data.endswith(b"\n"):
            problems.append(f"{name}: the last line has no end")
        if b"\r" in data:
            problems.append(f"{name}: a carriage return")
        for number, line in enumerate(data.decode("utf-8").split("\n"), 1):
            if "\t" in line and Path(name).name not in TABS_ALLOWED:
                problems.append(f"{name}:{number}: a tab")
            if line != line.rstrip():
                problems.append(f"{name}:{number}: space at the end of the line")
    return problems


def _find(root, pattern, message):
    return [f"{name}:{number}: {message}: {line.strip()}"
            for name in text_files(root)
            for number, line in enumerate(lines_of(root, name), 1) if pattern.search(line)]


def unfinished_words(root):
    return _find(root, UNFINISHED, "finish it or write an issue")


def machine_paths(root):
    return _find(root, MACHINE_PATH, "a path of one machine")


def _meson_list(root, file, variable):
    """The quoted words of one list in a meson.build, or None when there is no such list."""
    path = Path(root) / file
    if not path.is_file():
        return None
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    match = re.search(rf"^{variable} = (?:files\(|\[)(.*?)^[)\]]", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"'([^']+)'", match[1]) if match else None


def _compare(file, variable, listed, existing):
    if listed is None:
        return [f"{file}: no list {variable}"]
    problems = [f"{file}: {word} is not in {variable}, so it is never built"
                for word in sorted(existing - set(listed))]
    problems += [f"{file}: {variable} names {word}, which does not exist"
                 for word in sorted(set(listed) - existing)]
    if listed != sorted(listed):
        problems.append(f"{file}: {variable} is not sorted")
    return problems


def build_lists(root):
    """Everything that exists is built, and every test is run."""
    files = list_files(root)
    problems = []
    sources = {}
    for name in files:
        if name.startswith("src/") and name.endswith(".c"):
            sources.setdefault(str(Path(name).parent), set()).add(Path(name).name)
    for folder, existing in sorted(sources.items()):
        file = f"{folder}/meson.build"
        part, own = part_of(f"{folder}/x.c")
        variable = "door_" + own.split("/")[1] if "/" in own else part
        if part in {"server", "cli"}:
            main = _meson_list(root, file, f"{variable}_main") or []
            problems += _compare(file, f"{variable}_main", main, existing & {"main.c"})
            existing = existing - {"main.c"}
        problems += _compare(file, f"{variable}_sources",
                             _meson_list(root, file, f"{variable}_sources"), existing)
    for folder, pattern, variable in [
        ("proto", r"(\w+)\.proto", "proto_files"),
        ("tests/unit", r"test_(\w+)\.c", "unit_tests"),
        ("tests/storage", r"test_(\w+)\.c", "storage_tests"),
        ("tests/model", r"model_(\w+)\.c", "model_tests"),
        ("tests/scenarios", r"scenario_(\w+)\.c", "scenario_tests"),
        ("tests/fuzz", r"fuzz_(\w+)\.c", "fuzz_targets"),
    ]:
        matches = [re.fullmatch(rf"{folder}/{pattern}", name) for name in files]
        existing = {match[1] for match in matches if match}
        if existing or (Path(root) / folder / "meson.build").is_file():
            file = f"{folder}/meson.build"
            problems += _compare(file, variable, _meson_list(root, file, variable), existing)
    return problems


def corpora(root):
    """Each fuzz target has inputs, and no inputs lie there without a target."""
    files = list_files(root)
    targets = {m[1] for m in (re.fullmatch(r"tests/fuzz/fuzz_(\w+)\.c", n) for n in files) if m}
    folders = {n.split("/")[3] for n in files
               if n.startswith("tests/fuzz/corpus/") and n.count("/") > 3}
    problems = [f"tests/fuzz/corpus/{name}/ has no input for fuzz_{name}.c"
                for name in sorted(targets - folders)]
    problems += [f"tests/fuzz/corpus/{name}/ belongs to no target"
                 for name in sorted(folders - targets)]
    return problems


def mutants(root):
    """Each mutant of the simulation can still be applied, so that tools/sim-mutants can show what it is worth."""
    problems = []
    for name in list_files(root):
        if re.fullmatch(r"tests/sim/mutants/[\w-]+\.patch", name):
            # Outside of any repository: a folder that git ignores would be skipped without a word.
            result = subprocess.run(
                ["git", "apply", "--check", str(Path(root).resolve() / name)], cwd=root, text=True,
                env={**os.environ, "GIT_DIR": os.devnull}, stderr=subprocess.PIPE, check=False)
            if result.returncode != 0:
                problems.append(f"{name}: does not apply any more: {result.stderr.strip()}")
    return problems


def test_names(root):
    """pytest imports test files by their base names: two of one name end the whole run."""
    problems, seen = [], {}
    for name in list_files(root):
        base = Path(name).name
        if not name.startswith("tests/") or not base.startswith("test_") or not base.endswith(".py"):
            continue
        if base in seen:
            problems.append(f"{name}: {seen[base]} has the same name")
        seen[base] = name
    return problems


def formatted(root):
    names = source_files(root, "")
    command = ["clang-format", f"--style=file:{FORMAT}", "--dry-run", "-Werror", *names]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stderr
    wrong = {line.split(":")[0] for line in told.splitlines() if ": error: " in line}
    return [f"{name}: not formatted; `make format` does it" for name in sorted(wrong)]


def no_optional_packages(root):
    """What tests need is in tools/setup: a package that is missing fails a test, and does not skip it."""
    return [f"{name}:{number}: a missing package must fail, not skip"
            for name in list_files(root) if name.startswith("tests/") and name.endswith(".py")
            for number, line in enumerate(lines_of(root, name), 1) if "pytest.import" "orskip" in line]


TREE_CHECKS = [
    include_edges, pure_rules, readmes, long_files, white_space, unfinished_words, machine_paths, build_lists,
    corpora, safety_rules, mutants, test_names, formatted, no_optional_packages,
]
