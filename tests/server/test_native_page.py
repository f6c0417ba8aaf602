"""Runs the commands of docs/doors/native.md, each as it is written there but for the address."""
import json
import pathlib
import re
import subprocess

from harness import KIND_LEASED, Server

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "doors" / "native.md"


def commands():
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1]
    return block.splitlines()


def test_the_commands_of_the_page_work():
    answers = []
    with Server(KIND_LEASED) as server:
        for command in commands():
            assert command.startswith("curl -s ")
            line = command.replace("127.0.0.1:2379", server.endpoint)
            run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=30)
            answers.append([json.loads(text) for text in run.stdout.splitlines()])
    session, held, state, waited, pool, slots, fence, history = answers
    assert session[0]["session"]["owner"] == "web-1"
    assert held[0]["acquisition"]["stage"] == "STAGE_ACQUIRED"
    assert state[0]["state"]["holders"][0]["owner"] == "web-1"
    assert waited[0]["result"]["position"] == 1 and waited[1]["error"]["http_code"] == 409
    assert "error" not in pool[0]
    assert slots[0]["acquisition"]["slots"] == [{"pool": "gpu", "slots": ["gpu0", "gpu1"]}]
    assert fence[0]["accepted"] and fence[0]["highest"] == "17"
    assert history[0]["ended"][0]["reason"] == "END_LEFT_QUEUE"
