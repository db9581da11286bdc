"""Cells of a sweep that train nothing."""

import sys
from pathlib import Path

# A cell without papermill: takes the run's lock as `run_method` does, notes that it ran, and finishes or fails.
# Those of seed 3 fail; all wait while there is a file "hold".
_CODE = """
import fcntl, json, pathlib, sys, time
given = json.loads(sys.argv[1])
root = pathlib.Path(given["runs_root"])
sweep = json.loads(next((root / "sweeps").glob("*/sweep.json")).read_text())
names = set(given) - {"runs_root"}
(path,) = [root / cell["path"] for cell in sweep["cells"] if all(cell[name] == given[name] for name in names)]
path.mkdir(parents=True, exist_ok=True)
lock = open(path / ".headless.lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("another process is working on it")
if (path / "metrics.json").exists():
    sys.exit(0)
with open(root / "ran.txt", "a") as file:
    print(path.parent.name + "/" + path.name, file=file)
time.sleep(0.05)
while (root / "hold").exists():
    time.sleep(0.05)
facts = {"method": given["method"], "settings": given["overrides"], "seconds": 0.01}
(path / "config.json").write_text(json.dumps(facts))
if given["seed"] == 3:
    print("error: no luck with 3")
    sys.exit(1)
(path / "metrics.json").write_text("{}")
"""
STAND_IN = [sys.executable, "-S", "-c", _CODE]


def ran(root: Path) -> list[str]:
    return sorted((root / "ran.txt").read_text().splitlines())
