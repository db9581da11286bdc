"""Compare finished runs: intervals, paired tests, and one table of all suites."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import AVERAGES
from workbench.errors import RunError, SettingError, unknown_name
from workbench.files import set_name
from workbench.metrics import (
    PermutationTest,
    bootstrap_interval,
    bootstrap_values,
    effects_of_pairs,
    permutation_test,
    seed_interval,
    seed_spread,
    smallest_difference,
)
from workbench.runs import Run
from workbench.views import run_tables
from workbench.views.run_tables import BEFORE, measure_of, read_or_warn

PairColumns = dict[str, np.ndarray]
_IDENTITY = ["subset", "pair_id", "gold"]  # of a scored pair
_COLUMNS = ["suite", *_IDENTITY, "predicted"]
_TEST = list(PermutationTest._fields)
_FORMATS = {  # columns of a test: differences x 100, and p
    "difference": "{difference:+z.2f}",
    "95% interval": "{low:+z.2f} to {high:+z.2f}",
    "p": "{p}",
    "over seeds": "{mean:+z.2f} [{mean_low:z.2f}, {mean_high:z.2f}]",
}
_LATEX = {"±": r"$\pm$", " ↑": r"$^{\uparrow}$", " ↓": r"$^{\downarrow}$"}


def intervals(runs: pd.DataFrame, suite: str, *, samples: int = 1000) -> pd.DataFrame:
    """Return label, seed, value, low, high of each run.

    low and high are the score's 95% bootstrap interval over pairs.

    The score is Spearman in [-1, 1], or the accuracy on a transfer task. Pairs of an average are
    drawn within each of its sets. If all runs (of `finished_runs`) have one label, the first run's
    encoder before training comes first.
    """
    measure = measure_of(runs)
    rows = []
    for label, seed, path, stage in run_tables.with_start(runs):
        interval = read_or_warn(
            path,
            resample_scores,
            suite=suite,
            resample=bootstrap_interval,
            stage=stage,
            measure=measure,
            samples=samples,
        )
        rows += [(label, seed, *interval)] if interval else []
    return pd.DataFrame(rows, columns=["label", "seed", "value", "low", "high"])


def paired_tests(
    runs: pd.DataFrame, suite: str, baseline: str = "", *, samples: int = 1000
) -> pd.DataFrame:
    """Test every run against the baseline's run of the same seed, or its first, on the same pairs.

    Args:
        runs: As `finished_runs` returns them.
        suite: A set, or an average of sets, whose pairs are exchanged within each set.
        baseline: A label, or "before": each run's own encoder before training; by default the first
            SimCSE, otherwise the first label, and "before" if there is one label only.
        samples: Number of resamples, and of permutations.

    Returns:
        label, seed, against, difference of Spearman or accuracy in [-2, 2] (positive: better than
        the baseline), low, high (95% bootstrap interval over pairs), p_value (permutation test),
        pairs, mean and std of the difference over the label's seeds, mean_low and mean_high (95% t
        interval over seeds; nan if two are compared with one run). `summarize_tests` puts it into
        words.

    Raises ValueError if there is no such label, or if two runs scored different pairs.
    """
    name = baseline_of(runs, baseline)
    measure = measure_of(runs)
    rows = []
    for run in with_base(runs, name).to_dict("records"):
        # A run is compared with its own start, or with the baseline's run of its seed.
        base = (run["base"], BEFORE if name == BEFORE else "")
        tested = read_or_warn(
            run["path"],
            resample_scores,
            suite=suite,
            resample=_interval_and_test,
            base=base,
            measure=measure,
            samples=samples,
        )
        if tested:
            against = f"{name}, seed {run['base_seed']}"
            rows.append((run["label"], run["seed"], against, *tested, int(run["pairs"])))
    table = pd.DataFrame(
        rows, columns=["label", "seed", "against", "difference", "low", "high", "p_value", "pairs"]
    )
    ends = {}
    for label, group in table.groupby("label"):
        # Differences from one run are not independent: they have no interval.
        differences = group["difference"] if group["against"].is_unique else []
        ends[label] = seed_interval(differences)[1:]
    intervals_over_seeds = pd.DataFrame(ends, ["mean_low", "mean_high"], dtype=float).T
    over_seeds = table.groupby("label")["difference"].agg(["mean", "std"])
    return table.join(over_seeds.join(intervals_over_seeds), on="label")


def _interval_and_test(*scores: Any, **options: Any) -> list[float]:
    """Return the interval of a difference, and its p-value."""
    test = permutation_test(*scores, **options)
    return [*bootstrap_interval(*scores, **options), test.p_value]


def smallest_differences(
    runs: pd.DataFrame,
    suite: str,
    baseline: str = "",
    *,
    seeds: Sequence[int] = range(2, 11),
    power: float = 0.8,
    samples: int = 1000,
) -> pd.DataFrame:
    """Return the smallest detectable difference from the baseline, by number of seeds.

    Args:
        runs, suite: As for `paired_tests`.
        baseline: As for `paired_tests`; two trained settings differ less by pair than a run and its
            start, "before".
        seeds: Numbers of seeds, each at least 2.
        power: Probability of a 95% interval (`hierarchical_interval`) without 0 if this is the
            difference.
        samples: Number of resamples of the pairs.

    Returns:
        label, against, pairs (a quarter, all, and four times those of the suite), seeds, smallest,
        and the two standard deviations that it follows from: seed_std, of the difference over seeds
        (the label's times the root of 2 if it is compared with one run; both nan for one seed), and
        pairs_std, over pairs in common to all seeds. Differences of Spearman or accuracy are in [0,
        2].
    """
    name = baseline_of(runs, baseline)
    stage = BEFORE if name == BEFORE else ""
    # Spearman of scored pairs, or accuracy of a transfer task; runs of one suite have one of them.
    measure = measure_of(runs)
    resample = partial(
        resample_scores, suite=suite, resample=bootstrap_values, measure=measure, samples=samples
    )

    def draws_of(run: Any) -> Any:
        base = read_or_warn(run.base, resample, stage=stage)
        own = base and read_or_warn(run.path, resample)
        return np.subtract(own, base) if base and own else None

    compared = with_base(runs, name)
    base_values = compared["base"].map(runs.set_index("path")["before" if stage else measure])
    compared["difference"] = compared[measure] - base_values.astype(float)
    compared["draws"] = pd.Series(map(draws_of, compared.itertuples()), compared.index, object)
    is_trained = (runs.loc[runs["label"] == name, "method"] != BaselineConfig.method).any()
    rows = []
    for label, group in compared.dropna(subset=["draws"]).groupby("label", sort=False):
        # Other seeds of the shared run would vary as much as the label's.
        varying = 1 if group["base"].is_unique or not is_trained else 2
        seed_std = seed_spread(group["difference"]).std * math.sqrt(varying)
        pairs = int(group["pairs"].iloc[0])
        draws = group["draws"].tolist()
        # The deviation over pairs falls with the root of their number; that over seeds does not.
        for times, n in product((0.25, 1, 4), seeds):
            pairs_std = float(effects_of_pairs(draws).std()) / math.sqrt(times)
            smallest = smallest_difference(float(seed_std), n, power=power, pairs_std=pairs_std)
            rows.append((label, name, round(times * pairs), n, smallest, seed_std, pairs_std))
    return pd.DataFrame(
        rows, columns=["label", "against", "pairs", "seeds", "smallest", "seed_std", "pairs_std"]
    )


def baseline_of(runs: pd.DataFrame, baseline: str) -> str:
    run_tables.require_labels(runs)
    labels = list(dict.fromkeys(runs["label"]))
    # With one label there is nothing to compare with but the start.
    name = baseline or (run_tables.default_baseline(labels) if len(labels) > 1 else BEFORE)
    if labels and name not in (*labels, BEFORE):
        raise SettingError(unknown_name("runs", name, [*labels, BEFORE], "on this suite"))
    return name


def with_base(runs: pd.DataFrame, baseline: str) -> Any:
    """Return the other runs with `base` and `base_seed`: path and seed of the run to compare with.

    It is the baseline's run of the same seed, otherwise of its lowest; for "before" the run itself,
    where evaluated encoders, which were not trained, are left out.
    """
    if baseline == BEFORE:
        trained: Any = runs[runs["method"] != BaselineConfig.method]
        return trained.assign(base=trained["path"], base_seed=trained["seed"])
    is_base = runs["label"] == baseline
    # A seed occurs once, unless the caller has joined the runs of two roots.
    path_of_seed: Any = runs[is_base].groupby("seed")["path"].last()
    others: Any = runs[~is_base]
    # A seed that the baseline lacks is compared with its lowest.
    has_base = others["seed"].isin(path_of_seed.index)
    base_seed = others["seed"].where(has_base, path_of_seed.index.min())
    return others.assign(base=base_seed.map(path_of_seed), base_seed=base_seed)


def summarize_tests(tests: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `paired_tests` x 100, with each result in words."""
    percent: Any = tests[["difference", "low", "high", "mean", "mean_low", "mean_high"]].mul(100)
    percent["p"] = tests["p_value"].map(lambda p: "< 0.001" if p < 0.001 else f"{p:.3g}")
    readings = {  # the first that holds
        "no clear difference on these pairs": ~((percent["low"] > 0) | (percent["high"] < 0)),
        "clear on these pairs, but under 0.1 points": percent["difference"].abs() < 0.1,
        "clear on these pairs; no interval over seeds": percent["mean_low"].isna(),
        "clear on these pairs, not over seeds": (percent["mean_low"] <= 0)
        & (percent["mean_high"] >= 0),
    }
    table = tests[["label", "seed", "against"]].set_index("label")
    numbers = percent.to_dict("records")
    for column, form in _FORMATS.items():
        texts = list(map(form.format_map, numbers))
        table[column] = [text.replace(" [nan, nan]", "") for text in texts]
    otherwise = "clear on these pairs and over seeds"
    table["reads as"] = np.select([*readings.values()], [*readings], otherwise)
    table.attrs["caption"] = "x 100; over seeds: mean difference [95% t interval]"
    return table


def compare_with_start(run: Run) -> str:
    """Return a sentence on whether the run is better than its start.

    It is about an average of sets, or the first suite of the run.

    Example:
        print(views.compare_with_start(run))
    """
    if not run.has(BEFORE):
        return "The start was not evaluated, so the run cannot be compared with it."
    if run_tables.is_its_start(run):
        advice = "Try a lower learning_rate, more training data, or a teacher (rankcse)."
        return f"It is its start: no step was better on dev, so that the start is kept. {advice}"
    metrics = run.metrics()
    suite = next((average for average in AVERAGES if average in metrics), next(iter(metrics)))
    measure = "spearman" if "spearman" in metrics[suite] else "accuracy"
    # The same pairs before and after, so their common difficulty cancels.
    interval = resample_scores(
        run, suite, bootstrap_interval, base=(run.path, BEFORE), measure=measure
    )
    value, low, high = (100 * number for number in interval)
    # Value may be a number: the interval needs most resamples to have a correlation.
    if math.isnan(low):
        cause = "all gold scores, or all scores of an encoder, are equal or differ too little"
        return (
            f"Not comparable with its start on {suite}: {cause}. Use another suite or a "
            "lower learning_rate."
        )
    text = (
        f"its start on {suite}: {value:+.1f} {measure} x 100, 95% interval {low:+.1f} to "
        f"{high:+.1f}."
    )
    if low > 0:
        return f"Better than {text}"
    if high < 0:
        return f"Worse than {text} Try a lower learning_rate, fewer epochs, or more training data."
    return (
        f"Not clearly different from {text} Try more training data, more epochs or more test pairs."
    )


def resample_scores(
    run: Run,
    suite: str,
    resample: Callable[..., Any],
    *,
    stage: str = "",
    base: tuple[Any, ...] = (),
    **options: Any,
) -> list[float]:
    """Return the numbers of `resample` for a run, or for it and a base.

    base: Its folder and stage. options: Passed to `resample`.

    Raises RunError if a run cannot be read or has no pairs of the suite, ValueError if the two
    scored different pairs.
    """
    pairs, *predicted = _scores_on(run, suite, stage, base)
    return list(resample(pairs["gold"], *predicted, sets=pairs["suite"].tolist(), **options))


def _scores_on(run: Run, suite: str, stage: str = "", base: tuple[Any, ...] = ()) -> list[Any]:
    """Return the columns of the pairs, and the scores of the run and of the base, if any."""
    pairs = _scored_pairs(run.path, stage, suite)
    if not base:
        return [pairs, pairs["predicted"]]
    base_path, base_stage = base
    other = _scored_pairs(base_path, base_stage, suite)
    if not all(np.array_equal(pairs[column], other[column]) for column in _IDENTITY):
        own_file = Path(run.path, stage, "scores.csv")
        base_file = Path(base_path, base_stage, "scores.csv")
        raise ValueError(
            f"{own_file} and {base_file} have different pairs of {suite!r}; score both "
            "runs on one version of the set"
        )
    return [pairs, pairs["predicted"], other["predicted"]]


def _scored_pairs(path: str | Path, stage: str, suite: str) -> PairColumns:
    """Return the columns of the pairs of a suite, or of all sets of an average."""
    file = Path(path, stage, "scores.csv")
    parts = _read_columns(str(path), stage, run_tables.time_changed(file))
    sets = AVERAGES.get(suite, [set_name(suite)])
    if missing := [name for name in sets if name not in parts]:
        raise RunError(f"{file} has no pairs of {', '.join(missing)}; run it again")
    if len(sets) == 1:
        return parts[sets[0]]
    return {name: np.concatenate([parts[set_][name] for set_ in sets]) for name in _COLUMNS}


@lru_cache(maxsize=64)
def _read_columns(path: str, stage: str, _changed: int) -> dict[Any, PairColumns]:
    """Return suite -> column -> values, as arrays: frames made `compare` four times slower.

    The time of the last change is only part of the cache's key.
    """
    # Text as objects of Python: an array of Arrow's would be converted.
    with pd.option_context("mode.string_storage", "python"):
        table = Run(path).scores(stage)
    columns = {name: table[name].to_numpy() for name in _COLUMNS}
    rows_of = table.groupby("suite", sort=False).indices
    return {
        suite: {name: values[rows] for name, values in columns.items()}
        for suite, rows in rows_of.items()
    }
