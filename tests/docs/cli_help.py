"""Which commands `lease` has."""
import functools
import subprocess

from harness.kinds import lease_tool


@functools.cache
def help_of(*words):
    """Whether `lease help` knows the first of these words, alone or with the second."""
    for known in (words, words[:1]):
        command = [lease_tool(), "help", *filter(None, known)]
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0:
            return True
    return False
