"""Intervals and paired tests of finished runs, over the pairs of a suite."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import AVERAGES
from workbench.errors import RunError, printable
from workbench.files import file_checksum, set_name
from workbench.metrics import IntervalMethod, bootstrap_interval, permutation_test
from workbench.runs import Run
from workbench.views.finished import BEFORE, default_baseline, measure_of, read_or_warn, rows_by_suite, with_start


def intervals(
    runs: pd.DataFrame, suite: str, *, samples: int = 1000, method: IntervalMethod = "percentile"
) -> pd.DataFrame:
    """Return label, seed, value, low, high: the score of each run with its 95% bootstrap interval over pairs.

    The score is Spearman in [-1, 1], or the accuracy on a transfer task. Pairs of an average are drawn within each of
    its sets. If all runs (of `finished_runs`) have one label, the first run's encoder before training comes first. The
    method "bca" corrects for bias and skewness.
    """
    options: dict[str, Any] = {"suite": suite, "measure": measure_of(runs), "samples": samples, "method": method}
    rows = []
    for label, seed, path, stage in with_start(runs):
        interval = read_or_warn(path, partial(resampled, bootstrap_interval, stage=stage, **options))
        rows += [(label, seed, *interval)] if interval else []
    return pd.DataFrame(rows, columns=["label", "seed", "value", "low", "high"])


def paired_tests(runs: pd.DataFrame, suite: str, baseline: str = "", *, samples: int = 1000) -> pd.DataFrame:
    """Test every run against the baseline's run of the same seed, or its first, on the same pairs.

    Args:
        runs: As `finished_runs` returns them.
        suite: A set, or an average of sets, whose pairs are exchanged within each set.
        baseline: A label; "before": each run's own encoder before training; "": the first SimCSE, otherwise the first
            label, and "before" if there is one label only.
        samples: Number of resamples, and of permutations.

    Returns:
        label, seed, against, difference of Spearman or accuracy in [-2, 2] (positive: better than the baseline), low,
        high (95% bootstrap interval over pairs), p_value (permutation test), pairs, mean and std of the difference over
        the label's seeds (std nan for one). `summarize_tests` puts it into words.

    Raises:
        ValueError: No such label, or two runs scored different pairs.
    """
    labels = list(dict.fromkeys(runs["label"]))
    name = baseline or (default_baseline(labels) if len(labels) > 1 else BEFORE)
    if labels and name not in (*labels, BEFORE):
        raise ValueError(f"no runs {name!r}; there are {', '.join([*labels, BEFORE])}")
    options: dict[str, Any] = {"measure": measure_of(runs), "samples": samples}
    rows = []
    for run, path, seed in with_opponents(runs, name):
        base = (path, BEFORE if name == BEFORE else "")
        numbers = read_or_warn(run["path"], partial(_interval_and_test, suite=suite, base=base, **options))
        if numbers:
            interval, (_, p_value) = numbers
            rows.append((run["label"], run["seed"], f"{name}, seed {seed}", *interval, p_value, int(run["pairs"])))
    table = pd.DataFrame(rows, columns=["label", "seed", "against", "difference", "low", "high", "p_value", "pairs"])
    over_seeds = table.groupby("label")["difference"]
    return table.assign(mean=over_seeds.transform("mean"), std=over_seeds.transform("std"))


def _interval_and_test(run: Run, **options: Any) -> list[list[float]]:
    return [resampled(resample, run, **options) for resample in (bootstrap_interval, permutation_test)]


def with_opponents(runs: pd.DataFrame, baseline: str) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yield each other run with path and seed of the baseline's run of its seed, or of its first.

    For "before" this is the run itself; evaluated encoders, which were not trained, are left out.
    """
    base = {run["seed"]: run["path"] for run in runs.to_dict("records") if run["label"] == baseline}
    for run in runs.loc[runs["label"] != baseline].to_dict("records"):
        seed = run["seed"] if run["seed"] in base else min(base, default=run["seed"])
        if baseline != BEFORE or run["method"] != BaselineConfig.method:
            yield run, base.get(seed, run["path"]), seed


def summarize_tests(tests: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `paired_tests` x 100, with each result in words.

    A difference can be certain on these pairs and still be too small to matter, or smaller than the change from one
    seed to another.
    """
    percent: Any = tests[["difference", "low", "high", "mean", "std"]].mul(100)
    deviation = percent["std"].map(" ± {:.2f}".format).replace(" ± nan", "")
    columns = {
        "difference": percent["difference"].map("{:+.2f}".format),
        "95% interval": percent["low"].map("{:+.2f} to ".format) + percent["high"].map("{:+.2f}".format),
        "p": tests["p_value"].map("{:.3g}".format),
        "over seeds": percent["mean"].map("{:+.2f}".format) + deviation,
        "reads as": np.select(
            [
                ~((percent["low"] > 0) | (percent["high"] < 0)),
                percent["difference"].abs() < 0.1,
                percent["std"].isna(),
                percent["mean"].abs() <= percent["std"],
            ],
            [
                "no clear difference on these pairs",
                "clear on these pairs, but under 0.1 points",
                "clear on these pairs; of one seed",
                "clear on these pairs, within the deviation over seeds",
            ],
            "clear on these pairs, beyond the deviation over seeds",
        ),
    }
    return tests[["label", "seed", "against"]].assign(**columns).set_index("label")


def compare_with_start(run: Run) -> str:
    """Return a sentence: is the run better than its start, by how much, and what to try if it is worse.

    It is about the average of the seven sets if all were evaluated, otherwise about the run's first suite.
    """
    if not run.has(BEFORE):
        return "The start was not evaluated, so that the run cannot be compared with it."
    metrics = run.metrics()
    suite = next((average for average in AVERAGES if average in metrics), next(iter(metrics)))
    measure = "spearman" if "spearman" in metrics[suite] else "accuracy"
    interval = resampled(bootstrap_interval, run, suite, base=(run.path, BEFORE), measure=measure)
    value, low, high = (100 * number for number in interval)
    text = f"its start on {printable(suite)}: {value:+.1f} {measure} x 100, 95% interval {low:+.1f} to {high:+.1f}."
    if low > 0:
        return f"Better than {text}"
    if high < 0:
        return f"Worse than {text} Try a lower learning_rate, fewer epochs, or more training data."
    return f"Not clearly different from {text} Try more training data, more epochs or more test pairs."


def resampled(
    resample: Callable[..., Any],
    run: Run,
    suite: str,
    *,
    stage: str = "",
    base: tuple[str | Path, str] | None = None,
    **options: Any,
) -> list[float]:
    """Return the numbers of `resample`, with these `options`, for a run, or for it and a `base` (folder and stage).

    They are stored in significance.jsonl in the folder of the run, under all that they depend on. Raises RunError if a
    run cannot be read or has no pairs of the suite, ValueError if the two scored different pairs.
    """
    sources = [(run, stage), *([(Run(base[0]), base[1])] if base else [])]
    files = [source.path / kind / "scores.csv" for source, kind in sources]
    checksums = [file_checksum(file)[:16] if file.is_file() else "" for file in files]
    key, stored, file = json.dumps([resample.__name__, suite, checksums, options]), {}, run.path / "significance.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with suppress(ValueError):  # a line that was cut
            stored.update([json.loads(line)])
    if key in stored:
        return stored[key]
    pairs, *others = (_scored_pairs(*source, suite) for source in sources)
    identity = ["suite", "subset", "pair_id", "gold"]
    if any(not pairs[identity].equals(other[identity]) for other in others):
        raise ValueError(
            f"{files[0]} and {files[1]} have different pairs of {suite!r}; score both runs on one version of the set"
        )
    predicted = [table["predicted"].to_numpy() for table in (pairs, *others)]
    numbers = list(resample(pairs["gold"].to_numpy(), *predicted, sets=pairs["suite"].tolist(), **options))
    with suppress(OSError), file.open("a", encoding="utf-8") as lines:  # a folder that cannot be written to
        lines.write(json.dumps([key, numbers]) + "\n")
    return numbers


def _scored_pairs(run: Run, stage: str, suite: str) -> pd.DataFrame:
    parts, sets = rows_by_suite(run, "scores", stage), AVERAGES.get(suite, [set_name(suite)])
    if missing := [name for name in sets if name not in parts]:
        raise RunError(f"{run.path / stage / 'scores.csv'} has no pairs of {', '.join(missing)}; run it again")
    return pd.concat([parts[name] for name in sets], ignore_index=True)
