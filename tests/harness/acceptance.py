"""How much a test does: little in `make test`, the issue's own figures in acceptance mode.

LEASED_ACCEPTANCE=1 switches to the figures that were promised. They need a machine that
has little else to do; `make test` must pass on a busy one and uses generous bounds.
"""
import json
import os
import pathlib

ACCEPTANCE = os.environ.get("LEASED_ACCEPTANCE", "") not in ("", "0")


def either(usual, acceptance):
    """The first value in `make test`, the second in acceptance mode."""
    return acceptance if ACCEPTANCE else usual


def report(name, **figures):
    """Prints what was measured; adds it to the file LEASED_FIGURES names, if any."""
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
    path = os.environ.get("LEASED_FIGURES")
    if path:
        with pathlib.Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, **figures}) + "\n")
