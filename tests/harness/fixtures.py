"""Data directories of earlier releases, stored under tests/fixtures without the zeros at their files' ends."""
import os
import pathlib

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


def unpack(name, data_dir):
    """Makes data_dir from fixtures/<name>; answers its facts, a dict of numbers."""
    facts = {}
    for line in (FIXTURES / name / "contents").read_text().splitlines():
        kind, key, value = line.split()
        if kind == "fact":
            facts[key] = int(value)
            continue
        path = pathlib.Path(data_dir) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = FIXTURES / name / key
        path.write_bytes(stored.read_bytes() if stored.exists() else b"")
        os.truncate(path, int(value))
    os.chmod(data_dir, 0o700)
    return facts
