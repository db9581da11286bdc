"""Many runs: how long it takes to list them and to compare them. Run: python benchmarks/many_runs.py [RUNS [COMPARED]]

The runs are made here: scores that are gold and noise, no training. Wall and processor seconds of this machine.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from workbench.config import SimCSEConfig
from workbench.metrics import spearman
from workbench.runs import Run

RUNS, COMPARED, SUITES, PAIRS = 1000, 300, 8, 200
TABLE = """
from workbench import look
table = look.compare({root!r}, tests={tests})
assert table.values.shape == ({labels}, 8)
assert {tests} is bool(len(table.tests))
table.to_latex()
"""


def make(root: Path, count: int) -> None:
    """`count` runs of SUITES suites: a setting has ten seeds."""
    draw = np.random.default_rng(0)
    gold = {f"suite{number}": draw.uniform(0, 5, PAIRS).round(1) for number in range(SUITES)}
    for number in range(count):
        config = SimCSEConfig.from_parameters("demo", number % 10, {"temperature": 0.01 * (1 + number // 10)})
        run = Run.create(config, root)
        for stage, noise in (("before", 4), ("", 2 + number // 10 / 20)):
            scored = {suite: values + noise * draw.standard_normal(PAIRS) for suite, values in gold.items()}
            metrics = {suite: {"spearman": spearman(gold[suite], scored[suite]), "n": PAIRS} for suite in gold}
            ids = {"subset": "", "pair_id": [str(row) for row in range(PAIRS)]}
            tables = [
                pd.DataFrame({"suite": suite, **ids, "gold": gold[suite], "predicted": values.round(6)})
                for suite, values in scored.items()
            ]
            run.write_evaluation(metrics, pd.concat(tables), pd.DataFrame({"suite": []}), stage)
        run.release()


def timed(name: str, *words: str) -> None:
    """Prints how long a command takes, in a process of its own."""
    call = f"import sys\nsys.argv = {['workbench', *words]}\nfrom workbench.cli import main\n"
    timed_code(name, call + "try:\n    main()\nexcept SystemExit:\n    pass")


def timed_code(name: str, code: str) -> None:
    """Prints how long it takes, in a process of its own."""
    code += "\nimport resource, sys\nused = resource.getrusage(resource.RUSAGE_SELF)\n"
    code += "print([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file=sys.stderr)"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - started
    processor, memory = json.loads(done.stderr.splitlines()[-1])
    print(f"{name:<34} {wall:6.2f} s, of the processor {processor:5.2f} s, {memory:4.0f} MiB")


def main() -> None:
    """Makes the runs and times the commands."""
    count, compared = (*map(int, sys.argv[1:]), *(RUNS, COMPARED)[len(sys.argv) - 1 :])
    root = Path(tempfile.mkdtemp())
    try:
        make(root, count)
        timed("workbench --help", "--help")
        timed(f"workbench runs, {count} runs", "runs", str(root))
        timed("the same, one tenth by a filter", "runs", str(root), "seed=3")
        shutil.rmtree(root)
        make(root, compared)
        what = f"{compared} runs x {SUITES} suites"
        labels = -(-compared // 10)
        code = {tests: TABLE.format(root=str(root), tests=tests, labels=labels) for tests in (False, True)}
        timed_code(f"means and spread, {what}", code[False])
        timed_code("with tests against the baseline", code[True])
        timed_code("the same once more", code[True])
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
