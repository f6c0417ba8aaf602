"""The tree keeps its promises, and each check is shown to fail on a tree that breaks one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tidy

ROOT = Path(__file__).resolve().parents[2]
BUILD_ROOT = Path(os.environ.get("LEASED_BUILD_ROOT", ROOT / "build"))


@pytest.mark.parametrize("check", tidy.TREE_CHECKS, ids=lambda check: check.__name__)
def test_the_tree_is_tidy(check):
    problems = check(ROOT)
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


def test_compiled_core_calls_nothing_impure():
    archive = BUILD_ROOT / "libcore.a"
    assert archive.is_file(), f"{archive.name} is not built: run `make build` first"
    problems = tidy.core_symbols(archive)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", ["leased", "lease"])
def test_programs_override_nothing_of_their_libraries(name):
    program = BUILD_ROOT / name
    assert program.is_file(), f"{name} is not built: run `make build` first"
    problems = tidy.overridden_symbols(program)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("source, problem", [
    ("long syscall(long number, ...) { return number; }", "syscall is overridden: libraries get their own functions"),
    ("int __wrap_close(int fd) { return fd; }", "__wrap_close: a function is wrapped"),
])
def test_an_overridden_symbol_is_found(source, problem, tmp_path):
    (tmp_path / "a.c").write_text(f"#include <stdio.h>\n{source}\nint main(void) {{ return fprintf(stderr, \"x\"); }}\n")
    subprocess.run(["gcc", "-w", "a.c", "-o", "a"], cwd=tmp_path, check=True)
    assert tidy.overridden_symbols(tmp_path / "a") == [problem]


def plant(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


UNFINISHED_WORD = "TO" + "DO"
MACHINE_FOLDER = "/hom" + "e/somebody/leased"

# (check, the files of a wrong tree, what the one problem must say)
WRONG_TREES = {
    "not_formatted": (
        tidy.formatted, {"src/core/a.c": "int  a;\n"},
        "`make format` does it"),
    "two_test_files_of_one_name": (
        tidy.test_names, {"tests/a/test_one.py": "", "tests/b/test_one.py": ""},
        "has the same name"),
    "a_package_that_may_be_missing": (
        tidy.no_optional_packages, {"tests/a/test_one.py": 'grpc = pytest.import' 'orskip("grpc")\n'},
        "must fail, not skip"),
    "door_includes_what_others_share": (
        tidy.include_edges,
        {"src/doors/etcd/a.c": '#include "doors/leased_v1/l.h"\n', "src/doors/leased_v1/l.h": ""},
        'doors may not include "doors/leased_v1/l.h"'),
    "core_includes_uv": (
        tidy.include_edges, {"src/core/a.c": "#include <uv.h>\n"},
        "core may not include <uv.h>"),
    "core_includes_time": (
        tidy.include_edges, {"src/core/a.c": "#include <time.h>\n"},
        "core may not include <time.h>"),
    "core_includes_stdio": (
        tidy.include_edges, {"src/core/a.h": "# include <stdio.h>\n"},
        "core may not include <stdio.h>"),
    "core_includes_log": (
        tidy.include_edges, {"src/core/a.c": '#include "base/log.h"\n', "src/base/log.h": ""},
        "core never logs"),
    "core_includes_replication": (
        tidy.include_edges,
        {"src/core/a.c": '#include "replication/r.h"\n', "src/replication/r.h": ""},
        'core may not include "replication/r.h"'),
    "base_includes_core": (
        tidy.include_edges, {"src/base/a.c": '#include "core/c.h"\n', "src/core/c.h": ""},
        'base may not include "core/c.h"'),
    "base_includes_uv": (
        tidy.include_edges, {"src/base/a.c": "#include <uv.h>\n"},
        "base may not include <uv.h>"),
    "net_includes_core": (
        tidy.include_edges, {"src/net/a.c": '#include "core/c.h"\n', "src/core/c.h": ""},
        'net may not include "core/c.h"'),
    "door_includes_replication": (
        tidy.include_edges,
        {"src/doors/etcd/a.c": '#include "replication/r.h"\n', "src/replication/r.h": ""},
        'doors may not include "replication/r.h"'),
    "door_includes_another_door": (
        tidy.include_edges,
        {"src/doors/etcd/a.c": '#include "doors/redis/r.h"\n', "src/doors/redis/r.h": ""},
        'doors may not include "doors/redis/r.h"'),
    "door_includes_the_list_of_doors": (
        tidy.include_edges,
        {"src/doors/etcd/a.c": '#include "doors/doors.h"\n', "src/doors/doors.h": ""},
        'doors may not include "doors/doors.h"'),
    "rule_includes_stdio": (
        tidy.pure_rules, {"src/doors/etcd/etcd_rules.c": "#include <stdio.h>\n"},
        "a rule may not include stdio.h"),
    "rule_includes_clock": (
        tidy.pure_rules, {"src/doors/etcd/etcd_rules.c": '#include "base/clock.h"\n'},
        "a rule may not include base/clock.h"),
    "rule_includes_net": (
        tidy.pure_rules, {"tests/doors/sample_rules.h": '#include "net/http.h"\n'},
        "a rule may not include net/http.h"),
    "rule_includes_lua": (
        tidy.pure_rules, {"src/doors/redis/redis_rules.c": "#include <lua.h>\n",
                          "src/doors/redis/redis_script_rules.c": "#include <lua.h>\n#include <stdio.h>\n"},
        "redis_rules.c:1: a rule may not include lua.h"),
    "server_includes_lua": (
        tidy.include_edges, {"src/server/a.c": "#include <lua.h>\n"},
        "server may not include <lua.h>"),
    "server_includes_raft": (
        tidy.include_edges, {"src/server/a.c": "#include <raft.h>\n"},
        "server may not include <raft.h>"),
    "client_includes_core": (
        tidy.include_edges, {"src/client/a.c": '#include "core/c.h"\n', "src/core/c.h": ""},
        'client may not include "core/c.h"'),
    "cli_includes_a_door": (
        tidy.include_edges,
        {"src/cli/a.c": '#include "doors/etcd/d.h"\n', "src/doors/etcd/d.h": ""},
        'cli may not include "doors/etcd/d.h"'),
    "include_by_relative_path": (
        tidy.include_edges, {"src/base/a.c": '#include "../base/b.h"\n', "src/base/b.h": ""},
        "name it from src/ on"),
    "include_of_a_neighbour": (
        tidy.include_edges, {"src/base/a.c": '#include "b.h"\n', "src/base/b.h": ""},
        "name it from src/ on"),
    "include_of_nothing": (
        tidy.include_edges, {"src/base/a.c": '#include "base/b.h"\n'},
        '"base/b.h" does not exist'),
    "folder_without_a_rule": (
        tidy.include_edges, {"src/extra/a.c": ""}, "src/extra is not in MAY_INCLUDE"),
    "source_folder_without_readme": (
        tidy.readmes, {"src/core/a.c": ""}, "src/core/README.md is missing"),
    "door_without_readme": (
        tidy.readmes, {"src/doors/etcd/a.c": "", "src/doors/README.md": ""},
        "src/doors/etcd/README.md is missing"),
    "test_folder_without_readme": (
        tidy.readmes, {"tests/unit/test_a.c": ""}, "tests/unit/README.md is missing"),
    "file_too_long": (
        tidy.long_files, {"src/base/a.c": "\n" * (tidy.LINES_MAX + 1)}, "1001 lines"),
    "tab": (tidy.white_space, {"src/base/a.c": "int\ta;\n"}, "src/base/a.c:1: a tab"),
    "space_at_the_end": (
        tidy.white_space, {"README.md": "one\ntwo \n"}, "README.md:2: space at the end"),
    "line_without_end": (
        tidy.white_space, {"tools/setup": "exit 0"}, "tools/setup: the last line has no end"),
    "unfinished_word": (
        tidy.unfinished_words, {"src/base/a.c": f"/* {UNFINISHED_WORD}: later */\n"},
        "src/base/a.c:1: finish it"),
    "machine_path": (
        tidy.machine_paths, {"tools/setup": f"cd {MACHINE_FOLDER}\n"}, "a path of one machine"),
    "source_not_built": (
        tidy.build_lists,
        {"src/base/a.c": "", "src/base/meson.build": "base_sources = files(\n)\n"},
        "a.c is not in base_sources"),
    "main_not_built": (
        tidy.build_lists,
        {"src/cli/main.c": "", "src/cli/meson.build": "cli_main = files(\n)\n\n"
                                                      "cli_sources = files(\n)\n"},
        "main.c is not in cli_main"),
    "list_names_nothing": (
        tidy.build_lists,
        {"src/base/a.c": "",
         "src/base/meson.build": "base_sources = files(\n  'a.c',\n  'b.c',\n)\n"},
        "base_sources names b.c"),
    "list_not_sorted": (
        tidy.build_lists,
        {"src/base/a.c": "", "src/base/b.c": "",
         "src/base/meson.build": "base_sources = files(\n  'b.c',\n  'a.c',\n)\n"},
        "base_sources is not sorted"),
    "test_not_run": (
        tidy.build_lists,
        {"tests/unit/test_a.c": "", "tests/unit/meson.build": "unit_tests = [\n]\n"},
        "a is not in unit_tests"),
    "target_without_corpus": (
        tidy.corpora, {"tests/fuzz/fuzz_a.c": ""}, "has no input for fuzz_a.c"),
    "safety_rule_without_text": (
        tidy.safety_rules,
        {"ARCHITECTURE.md": "## Time and safety\n\n1. One.\n2. Two.\n\n## Decisions\n\n3. No rule.\n",
         "src/base/a.c": "/* (safety rules 1 and 2)\n * (safety\n * rule 3) */\n"},
        "src/base/a.c:2: ARCHITECTURE.md has no safety rule 3"),
    "mutant_that_does_not_apply": (
        tidy.mutants,
        {"src/core/a.c": "int one;\nint two;\n",
         "tests/sim/mutants/rule-1.patch": "none\n\n--- a/src/core/a.c\n+++ b/src/core/a.c\n"
                                           "@@ -1,2 +1,1 @@\n int one;\n-int three;\n"},
        "rule-1.patch: does not apply any more"),
    "corpus_without_target": (
        tidy.corpora, {"tests/fuzz/corpus/a/1": "x"}, "corpus/a/ belongs to no target"),
}


@pytest.mark.parametrize("name", WRONG_TREES)
def test_a_wrong_tree_is_found(name, tmp_path):
    check, files, expected = WRONG_TREES[name]
    plant(tmp_path, files)
    problems = check(tmp_path)
    assert len(problems) == 1, problems
    assert expected in problems[0]


def test_a_right_tree_passes(tmp_path):
    plant(tmp_path, {
        "src/base/README.md": "base\n",
        "src/base/meson.build": "base_sources = files(\n  'a.c',\n)\n",
        "src/base/a.c": '#include "base/a.h"\n\n#include <stdio.h>\n',
        "src/base/a.h": "",
        "src/core/README.md": "core\n",
        "src/core/c.h": '#include "base/a.h"\n#include <stdint.h>\n',
        "src/doors/README.md": "doors\n",
        "src/doors/etcd/README.md": "etcd\n",
        "src/doors/etcd/d.h": '#include "core/c.h"\n#include "doors/door.h"\n#include "proto/etcd.pb-c.h"\n',
        "src/doors/door.h": '#include "core/c.h"\n',
        "src/doors/meson.build": "doors_sources = files(\n  'doors.c',\n)\n",
        "src/doors/doors.c": '#include "doors/etcd/d.h"\n',
        "src/server/README.md": "server\n",
        "src/server/s.h": '#include "build_info.h"\n#include "doors/etcd/d.h"\n#include <uv.h>\n',
        "tests/fuzz/README.md": "fuzz\n",
        "tests/fuzz/corpus/a/1": b"\t \r",
        "tests/fuzz/fuzz_a.c": "",
        "tests/fuzz/meson.build": "fuzz_targets = [\n  'a',\n]\n",
        "Makefile": "all:\n\ttrue\n",
        "tests/sim/README.md": "sim\n",
        "tests/sim/mutants/rule-1.patch": "none\n\n--- a/src/base/a.c\n+++ b/src/base/a.c\n@@ -1,3 +1,2 @@\n"
                                          ' #include "base/a.h"\n-\n #include <stdio.h>\n',
    })
    for check in tidy.TREE_CHECKS:
        assert check(tmp_path) == []


@pytest.mark.parametrize("call", [
    "time(0)", "clock_gettime(0, 0)", "rand()", "getrandom(0, 0, 0)", "printf(\"x\")", "uv_now(0)",
    "fopen(\"x\", \"r\")", "log_write(0)",
])
def test_an_impure_call_in_core_is_found(call, tmp_path):
    name = call.split("(")[0]
    source = tmp_path / "a.c"
    source.write_text(f"extern long {name}();\nlong f(void) {{ return (long){call}; }}\n")
    subprocess.run([shutil.which("gcc") or "cc", "-w", "-fno-builtin", "-c", "a.c", "-o", "a.o"],
                   cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "liba.a", "a.o"], cwd=tmp_path, check=True)
    problems = tidy.core_symbols(tmp_path / "liba.a")
    assert problems == [f"core calls {name}(), which it may not: see src/core/README.md"]


def test_a_pure_core_passes(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("#include <assert.h>\n#include <stdlib.h>\n#include <string.h>\n"
                      "void *f(size_t n) { assert(n); void *p = malloc(n); memset(p, 1, n);"
                      " if (!p) abort(); return p; }\n")
    subprocess.run(["gcc", "-O1", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "liba.a", "a.o"], cwd=tmp_path, check=True)
    assert tidy.core_symbols(tmp_path / "liba.a") == []
