"""`make demo`: what a newcomer sees first."""

import time
from pathlib import Path

from workbench.headless import export_html, run_method
from workbench.metrics import seed_spread
from workbench.runs import Run

_SHOWN = {"spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG"}


def demonstrate(*, runs_root: str | Path = "runs", seeds: int = 3) -> list[Run]:
    """Runs SimCSE's demo for `seeds` seeds and prints before | after, x 100, with the spread over the seeds."""
    runs: list[Run] = []
    for seed in range(seeds):
        started = time.perf_counter()
        run = run_method("simcse", profile="demo", seed=seed, runs_root=runs_root)
        runs.append(run)
        page = export_html(run.path / "notebook.ipynb")
        print(f"\nseed {seed}: {time.perf_counter() - started:.0f} s; {page}", flush=True)
        print(before_after([run]), flush=True)
    if seeds > 1:
        print(f"\nover {seeds} seeds, mean ± standard deviation:\n{before_after(runs)}")
    print(
        f"\nexecuted notebook: {runs[0].path / 'notebook.ipynb'}\nas a web page:     {runs[0].path / 'notebook.html'}"
    )
    return runs


def before_after(runs: list[Run]) -> str:
    """suite, metric, before, after, gain as aligned text; several runs: mean ± standard deviation of each."""
    lines = [f"{'suite':<12} {'metric':<9} {'before':>15} {'after':>15} {'gain':>15}"]
    for suite, after in runs[0].metrics().items():
        for key, label in _SHOWN.items():
            if key not in after:
                continue
            pairs = [(100 * run.metrics("before")[suite][key], 100 * run.metrics()[suite][key]) for run in runs]
            columns = [[b for b, _ in pairs], [a for _, a in pairs], [a - b for b, a in pairs]]
            lines.append(f"{suite:<12} {label:<9} " + " ".join(f"{seed_spread(values)!s:>15}" for values in columns))
    return "\n".join(lines)
