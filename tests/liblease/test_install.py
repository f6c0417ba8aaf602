"""What `make install` puts under a prefix is enough: programs are built by pkg-config, Python imports."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness import PROJECT_ROOT, Server
from harness.kinds import KIND_LEASED, lease_tool

BUILD_ROOT = pathlib.Path(os.environ.get("LEASED_BUILD_ROOT", PROJECT_ROOT / "build"))
HERE = pathlib.Path(__file__).parent
GUIDE = (PROJECT_ROOT / "docs" / "liblease.md").read_text(encoding="utf-8")
README = (PROJECT_ROOT / "README.md").read_text(encoding="utf-8")


def run(*command, env=None, **options):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env={**os.environ, **(env or {})}, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where it was installed: DESTDIR."""
    folder = tmp_path_factory.mktemp("root")
    run("meson", "install", "-C", str(BUILD_ROOT), "--no-rebuild", "--quiet", "--destdir", str(folder))
    return folder


def find(root, name):
    return next(path for path in sorted(root.rglob(name)))


@pytest.fixture(scope="module")
def server():
    with Server(KIND_LEASED) as running:
        yield running


def compile_with(root, source, program, *flags):
    words = run("pkg-config", "--cflags", "--libs", *flags, "lease", env=pkg_config_environment(root)).split()
    strict = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    run("cc", *strict, str(source), *words, *(["-static-libgcc"] if flags else []), "-o", str(program))


def code_of(page, language):
    return re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1]


def code_of_guide(language):
    return code_of(GUIDE, language)


def pkg_config_environment(root):
    return {"PKG_CONFIG_PATH": str(find(root, "lease.pc").parent), "PKG_CONFIG_SYSROOT_DIR": str(root)}


def test_the_programs_of_the_readme_build_and_run(root, server, tmp_path):
    """As they are written there, with nothing but pkg-config and import."""
    (tmp_path / "nightly.c").write_text(code_of(README, "c"))
    line = re.search(r"^\$ (cc .*pkg-config.*)$", README, re.MULTILINE)[1]
    env = {"LD_LIBRARY_PATH": str(find(root, "liblease.so.0").parent), "LEASE_ENDPOINTS": server.endpoint}
    said = run("sh", "-c", line, env={**env, **pkg_config_environment(root)}, cwd=tmp_path)
    assert re.fullmatch(r"mine, token \d+\n", said)
    env |= {"PYTHONPATH": str(find(root, "_library.py").parents[1]), "LEASE_LIBRARY": ""}
    again = run(sys.executable, "-c", code_of(README, "python"), env=env)
    assert re.fullmatch(r"mine, token \d+\n", again)
    assert int(again.split()[2]) > int(said.split()[2]), "each holder has a larger token"


def test_the_c_program_of_the_guide_builds_and_runs(root, server, tmp_path):
    source = tmp_path / "backup.c"
    source.write_text(code_of_guide("c"))
    compile_with(root, source, tmp_path / "backup")
    env = {"LD_LIBRARY_PATH": str(find(root, "liblease.so.0").parent), "LEASE_ENDPOINTS": server.endpoint}
    said = run(str(tmp_path / "backup"), env=env)
    assert re.fullmatch(r"token \d+, valid for \d+ ms\n", said)


def test_a_program_is_linked_with_the_archive(root, server, tmp_path):
    source = tmp_path / "backup.c"
    # A name that the library has inside: nobody sees it.
    source.write_text(code_of_guide("c") + "\nint buffer_append(void);\nint buffer_append(void) { return 0; }\n")
    archive = str(find(root, "liblease.a"))
    words = run("pkg-config", "--libs", "libnghttp2", "libssl", "libcrypto").split()
    include = str(find(root, "lease.h").parent)
    run("cc", str(source), "-I", include, archive, *words, "-pthread", "-o", str(tmp_path / "backup"))
    assert "token" in run(str(tmp_path / "backup"), env={"LEASE_ENDPOINTS": server.endpoint})


def test_a_foreign_loop_drives_it(root, server, tmp_path):
    compile_with(root, HERE / "foreign_loop.c", tmp_path / "foreign_loop")
    env = {"LD_LIBRARY_PATH": str(find(root, "liblease.so.0").parent)}
    said = run(str(tmp_path / "foreign_loop"), server.endpoint, "foreign", env=env)
    assert re.fullmatch(r"token \d+ valid 1\nwaiting here: 1\n", said)


def test_the_python_program_of_the_guide_runs(root, server):
    env = {"PYTHONPATH": str(find(root, "_library.py").parents[1]), "LEASE_ENDPOINTS": server.endpoint}
    env["LEASE_LIBRARY"] = ""
    said = run(sys.executable, "-c", code_of_guide("python"), env=env)
    assert re.fullmatch(r"token \d+ valid for [\d.]+\n", said)


def test_the_discovery_of_the_guide_runs(root, server):
    env = {"PYTHONPATH": str(find(root, "_library.py").parents[1]), "LEASE_ENDPOINTS": server.endpoint, "LEASE_LIBRARY": ""}
    tool = [lease_tool(), "--endpoint", server.endpoint, "grant", "5m", "--value", "10.0.0.1:80"]
    run(*tool, "--key", "/services/web/1")
    program = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)[1]
    assert run(sys.executable, "-c", program, env=env) == "web: ['10.0.0.1:80']\nas of 0 seconds ago\n"


def test_the_header_is_c_plus_plus_too(root, tmp_path):
    source = tmp_path / "a.cc"
    source.write_text('#include <lease.h>\nlease_options options = LEASE_OPTIONS_INIT;\n'
                      "lease_status f(lease_session *s, lease_hold **h) { return lease_try(s, \"x\", h); }\n")
    include = str(find(root, "lease.h").parent)
    run("clang", "-x", "c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-I", include, str(source))


def test_only_the_public_names_are_exported(root):
    said = run("nm", "-D", "--defined-only", str(find(root, "liblease.so.0").resolve()))
    names = [line.split()[2] for line in said.splitlines()]
    functions = {name.split("@")[0] for name in names if not name.startswith("LEASE_")}
    declared = set(re.findall(r"\b(lease_\w+)\(", find(root, "lease.h").read_text()))
    assert functions == {name for name in functions if name.startswith("lease_")}
    assert functions <= declared
    assert all("@@LEASE_" in name for name in names if name.startswith("lease_"))


def test_the_manual_pages_are_there(root):
    for page in sorted(path.name for path in (PROJECT_ROOT / "man").iterdir()):
        assert find(root, page).stat().st_size > 0
