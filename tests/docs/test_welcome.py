"""What `make run` ends with is what README.md shows."""
import os
import re

import page
import shell
from harness import KIND_LEASED, Process, binary_of
from harness.kinds import clean_environment
from harness.ports import free_ports
from harness.wait import wait_for


def test_the_server_says_what_the_readme_shows(tmp_path):
    (block,) = [one for one in page.blocks("README.md") if one.lines[0].startswith("leased ")]
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    log = tmp_path / "log"
    process = Process([binary_of(KIND_LEASED), "--data-dir", str(tmp_path / "data"), "--listen-client-urls", url,
                       "--advertise-client-urls", url], log, env=clean_environment())  # fmt: skip
    try:
        wait_for(lambda: "greeting" in log.read_text(), 60, "the words at the start")
    finally:
        process.terminate()
    said = log.read_text()
    printed = said[said.index("leased ") :].splitlines()
    folder = os.path.dirname(binary_of(KIND_LEASED))
    # Off the default port the commands name it.
    plain = [re.sub(r" --endpoints?=\S+", "", line).replace(f"{folder}/lease", "build/lease") for line in printed]
    shown = [line.replace("/srv/leased/data", str(tmp_path / "data")) for line in block.lines]
    assert shell.difference(shown, plain[: len(shown)]) is None, said
