"""What a cell of a sweep costs beside its training, and cells an hour. Run: python benchmarks/sweeps.py [CELLS]

The same short cells one after the other, each in a process that loads everything itself; then forked; then two at a
time; and what the finished ones let a sweep expect. Wall and processor seconds of this machine: the ratios of one run
are what to look at.
"""

import os
import resource
import shutil
import sys
import tempfile
import time

from workbench import sweeps
from workbench.sweeps import _local

CELLS = 4
SETTINGS = {"max_steps": 4, "eval_steps": 4, "train_limit": 200, "batch_size": 8, "dev": "world-dev"}
SETTINGS |= {"suites": [["world-test"]]}


def timed(name: str, cells: int, *, jobs: int, forked: bool) -> None:
    """Prints what `cells` cells take."""
    _local.WARM = forked
    root = tempfile.mkdtemp()
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found = sweeps.sweep("simcse", seeds=range(cells), grid=SETTINGS, runs_root=root, jobs=jobs)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert set(found.table()["state"]) == {"finished"}
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = f"{wall / cells:6.1f} s a cell, of the processor {used / cells:5.1f} s"
    again = sweeps.sweep("simcse", seeds=range(cells, 2 * cells), grid=SETTINGS, runs_root=root, dry=True).outlook()
    assert again.seconds is not None
    expected = f"of an equal sweep {again.seconds / jobs:.0f} s are expected once all is loaded, it took {wall:.0f} s"
    print(f"{name:<44} {each}, {3600 * cells / wall:5.0f} cells an hour; {expected}", flush=True)
    shutil.rmtree(root)


def main() -> None:
    """Runs the sweeps."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else CELLS
    print(f"loads of the last 1, 5 and 15 minutes, on {os.cpu_count()} cores: {os.getloadavg()}")
    timed("one after the other, each loads all itself", cells, jobs=1, forked=False)
    timed("two at a time, each loads all itself", cells, jobs=2, forked=False)
    if sys.platform == "linux":
        timed("one after the other, forked", cells, jobs=1, forked=True)
        timed("two at a time, forked", cells, jobs=2, forked=True)


if __name__ == "__main__":
    main()
