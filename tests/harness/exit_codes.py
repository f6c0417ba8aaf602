"""The exit codes of leased by name, read from the one place that defines them."""
import re

from harness.kinds import PROJECT_ROOT

_HEADER = PROJECT_ROOT / "src" / "server" / "exit_code.h"

EXIT_CODES = {
    name: int(number)
    for name, number in re.findall(r"X\((\w+), (\d+),", _HEADER.read_text(encoding="utf-8"))
}
