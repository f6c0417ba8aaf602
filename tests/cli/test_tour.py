"""examples/tour: the README's tour, without the pauses."""
import os
import subprocess

from cli_tool import environment
from harness import PROJECT_ROOT, Server
from harness.kinds import lease_tool


def test_the_tour_shows_what_it_says():
    with Server("leased") as server:
        env = environment(server, {"TOUR_PAUSE": "0", "LEASE_BIN": os.path.dirname(os.path.abspath(lease_tool()))})
        done = subprocess.run([str(PROJECT_ROOT / "examples" / "tour")], env=env, capture_output=True, text=True,
                              timeout=110, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    tokens = [int(text.split(f"\n{who} has token ")[1].split()[0]) for who in ("first", "second", "the next")]
    assert tokens == sorted(set(tokens)), "each holder has a larger token than the one before"
    for line in ("victim has token", "leader two, token", "value 10.0.0.2:80", "pool tour/gpus has 4 slots",
                 "accepted: token", "the stale holder is refused", "expired: its holder did not renew it in time"):  # fmt: skip
        assert line in text, f"{line!r} is not in\n{text}"
    assert sum(f"job {i} runs on" in text for i in range(1, 6)) == 5
    assert "taken" not in text, "every slot was given back"
