"""Runs the commands of docs/doors/registry.md, each as it is written there but for the address."""
import json
import pathlib
import re
import subprocess

from harness import KIND_LEASED, Server

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "doors" / "registry.md"


def test_the_commands_of_the_page_work():
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1]
    answers = []
    with Server(KIND_LEASED) as server:
        for command in block.splitlines():
            assert command.startswith("curl -s ")
            line = command.replace("127.0.0.1:2379", server.endpoint)
            run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=30)
            answers.append(json.loads(run.stdout))
    registered, found, drained, settings, services, gone = answers
    assert int(registered["token"]) > 0
    assert [each["id"] for each in found["instances"]] == ["web-1"]
    assert "header" in drained and "header" in settings and "header" in gone
    assert [each["name"] for each in services["services"]] == ["web"]
