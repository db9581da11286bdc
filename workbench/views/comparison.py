"""Finished runs as tables to compare: spread over seeds, intervals over pairs, paired tests, rankings.

Reads what runs left on disk, trains nothing, needs no torch. A label names runs of one setting; its seeds are its runs.
"""

import logging
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from workbench.config import BaseConfig
from workbench.data import AVERAGES
from workbench.errors import RunError, printable
from workbench.files import set_name
from workbench.metrics import (
    Interval,
    IntervalMethod,
    Measure,
    bootstrap_interval,
    permutation_test,
    seed_spread,
)
from workbench.runs import Run, read_rows, select_runs, short_value, told_apart
from workbench.views._kept import kept, scores_checksum

_LOG = logging.getLogger("workbench")
_T = TypeVar("_T")
_LINE = 96  # characters of a line of print, on a screen of 1280
_FACTS = ["label", "method", "settings", "encoder", "seed", "path"]
_VALUES = ["before", "spearman", "kcc", "ndcg", "accuracy", "f1", "pairs", "queries"]
_PAIR = ["suite", "subset", "pair_id"]
_ALIKE = [*_PAIR, "gold"]
_BEFORE = "before"  # the stage of a run in which its encoder is untrained, and what the others can be held against


def finished_runs(runs_root: str | Path, suite: str) -> pd.DataFrame:
    """The finished runs under `runs_root` that were scored on `suite`, a row each, empty where there are none.

    A file of one's own is a suite by its name here and in all of `look`, with its endings or without.

    A run that cannot be read is left out, here and in every table of this module, and a line says which and why. So is
    a copy of a run, which would count as a further seed.

    Returns:
        label, method, settings (profile and what differs from it), encoder, seed, path; before (Spearman, of a transfer
        task accuracy, of the encoder before training), spearman, kcc, ndcg in [-1, 1], accuracy, f1 in [0, 1], nan
        where a run has none; pairs, queries.

    Raises:
        ValueError: There are finished runs, but none was scored on `suite`, which is no file that is there; the text
            has the suites that they have.
    """
    file, rows, others, first, suite = file_of(suite), [], set(), {}, set_name(suite)
    for row in read_rows(runs_root):
        if str(row["status"]).startswith("unreadable"):
            _LOG.warning("left out: %s: %s", row["path"], row["status"])
        found = readable(row["path"], lambda run: _evaluated(run, suite)) if row["status"] == "finished" else None
        if found is None:
            continue
        known, values = found
        others |= known
        same = first.setdefault((row["digest"], row["seed"]), row["path"])
        if same != row["path"]:
            _LOG.warning("left out: %s: of the settings and the seed of %s, so no further seed", row["path"], same)
        elif suite in known:
            rows.append(row | values)
    if others and not rows and file is None:
        raise ValueError(f"no finished run was scored on {suite!r}; they were scored on {', '.join(sorted(others))}")
    table = pd.DataFrame(rows, columns=[*_FACTS[1:], *_VALUES]).astype(dict.fromkeys(_VALUES, float))
    table["settings"] = list(map(settings_text, rows))
    table.insert(0, "label", labels_of(rows))
    return table.sort_values(["label", "seed"], ignore_index=True)


def file_of(suite: str) -> Path | None:
    """Where the file of one's own lies that `suite` names; None where it names a set, or no file is there."""
    path = Path(suite).expanduser()
    return path.absolute() if suite != set_name(suite) and path.is_file() else None


def what_there_is(runs: pd.DataFrame, runs_root: str | Path, suite: str = "") -> str:
    """How many runs there are, what can be compared with what, and what to do for more runs on `suite`."""
    file = file_of(suite)
    if runs.empty and file:
        scored = f"    workbench evaluate MODEL --suites {quote(str(file))} --runs {quote(str(runs_root))}"
        return (
            f"No finished run under {runs_root} was scored on {file.name}. Score models on it with\n{scored}\n"
            "where MODEL is the folder of a run or model, or a name such as english-encoder, and run this again."
        )
    if runs.empty:
        return (
            f"No finished runs under {runs_root}. Make some with\n"
            "    workbench run simcse --seed 0\n    workbench run simcse --seed 1\nand run this notebook again."
        )
    labels = list(dict.fromkeys(runs["label"]))
    shared, _ = told_apart(runs["settings"].tolist())
    there = f"{len(runs)} finished runs of {len(labels)} settings under {runs_root}{shared and f', all with {shared}'}"
    ours, commands = f"each is compared with {first_baseline(labels)}; in 20_compare `baseline` names another.", ""
    if len(labels) == 1:
        ours = "each is compared with its own encoder before training. To compare settings or methods run more, as"
        commands = "\n    workbench run simcse --seed 0 --set temperature=0.1\n    workbench run compcse --seed 0"
    lines = textwrap.fill(f"{there}: {ours}", _LINE, break_long_words=False, break_on_hyphens=False)
    return f"{lines}{commands}"


def every_run(runs_root: str | Path, runs: pd.DataFrame) -> pd.DataFrame:
    """Every run under `runs_root`, finished or not, as `select_runs` has it, without host and path.

    Where there are finished `runs`, `changed` is without what all share, which `what_there_is` names. Columns that no
    run fills are left out.
    """
    table = select_runs(runs_root).drop(columns=["host", "path"]).astype({"seed": "Int64"})
    table["started"] = table["started"].astype(object).str.slice(0, 16).str.replace("T", " ")
    read = table["changed"].notna()  # of an unreadable run nothing is known
    if len(runs):
        table.loc[read, "changed"] = told_apart(table.loc[read, "changed"].tolist())[1]
    return table.dropna(axis=1, how="all") if len(table) else table


def seed_table(runs: pd.DataFrame) -> pd.DataFrame:
    """By label: settings | seeds | Spearman before | Spearman | KCC | NDCG, mean ± deviation over seeds, x 100.

    Settings without those that all have, which `what_there_is` names; columns that no label fills are left out. Of a
    transfer task: accuracy before | accuracy | F1 instead.
    """
    shown = {"before": "Spearman before", "spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG"}
    if measure_of(runs) == "accuracy":
        shown = {"before": "accuracy before", "accuracy": "accuracy", "f1": "F1"}
    own = pd.Series(told_apart(runs["settings"].tolist())[1], index=runs.index)
    rows = [
        {
            "label": label,
            "settings": own[group.index[0]],
            "seeds": len(group),
            **{title: spread(group[name].to_numpy()) for name, title in shown.items()},
            "pairs": group["pairs"].iloc[0],
            "queries": group["queries"].fillna(0).iloc[0],
        }
        for label, group in runs.groupby("label", sort=False)
    ]
    columns = ["label", "settings", "seeds", *shown.values(), "pairs", "queries"]
    table = pd.DataFrame(rows, columns=columns).set_index("label").astype({"pairs": "Int64", "queries": "Int64"})
    filled = (table != "").any() | (table.columns == list(shown.values())[1])  # an undefined score stands there, empty
    return table.loc[:, filled if len(table) else table.columns]


def measure_of(runs: pd.DataFrame) -> Measure:
    """What the runs of `finished_runs` were scored by on their suite."""
    return "accuracy" if runs["accuracy"].notna().to_numpy().any() else "spearman"


def intervals(
    runs: pd.DataFrame, suite: str, *, samples: int = 1000, method: IntervalMethod = "percentile"
) -> pd.DataFrame:
    """label, seed, value, low, high: each run's Spearman with its 95% bootstrap interval over pairs, in [-1, 1].

    `method`: "percentile", or "bca", which corrects for bias and skewness (see `metrics.bootstrap_interval`). What was
    computed is kept beside the run.

    Of a transfer task the accuracy over all its rows. Of "sts-average", the mean of the seven sets, and
    "transfer-average", each set's pairs are drawn again from its own. Where all runs have one label, "before" stands in
    front of it: the first run's encoder before training.
    """
    rows, measure = [], measure_of(runs)
    for label, seed, path, stage in _with_start(runs):
        found = _kept_interval(path, stage, suite, measure=measure, samples=samples, method=method)
        if found is not None:
            rows.append({"label": label, "seed": seed, **found._asdict()})
    return pd.DataFrame(rows, columns=["label", "seed", "value", "low", "high"])


def _kept_interval(
    path: str, stage: str, suite: str, *, measure: Measure, samples: int, method: IntervalMethod
) -> Interval | None:
    """Of one run, computed once; None where its scores cannot be read."""

    def compute(_: str) -> Interval | None:
        scores = readable(path, partial(_scores, suite=suite, stage=stage))
        if scores is None:
            return None
        sets = scores["suite"].tolist()
        options: dict[str, Any] = {"measure": measure, "samples": samples, "method": method}
        return bootstrap_interval(scores["gold"], scores["predicted"], sets=sets, **options)

    checksum = readable(path, lambda run: scores_checksum(run.facts(), stage))
    how = "" if method == "percentile" else f", {method}"
    key = f"{measure}, {samples} draws of {checksum}{how}" if checksum else ""
    found = kept(path, key, [suite], compute).get(suite)
    return None if found is None else Interval(*found)


def paired_tests(runs: pd.DataFrame, suite: str, baseline: str = "", *, samples: int = 1000) -> pd.DataFrame:
    """Every run against the baseline's run of the same seed (else its first), on the same pairs.

    Args:
        runs: As `finished_runs` gives them.
        suite: On which pairs; "sts-average": on the mean of the seven sets, pairs drawn and exchanged within each.
        baseline: A label; "before": each run's own encoder before training, which an evaluation has not; "": the first
            SimCSE, from which every method here starts, else the first label, and "before" where all have one label.
        samples: Of the bootstrap and of the permutations.

    Returns:
        label, seed, against (label and seed), difference of Spearman (of a transfer task: accuracy) in [-2, 2]
        (positive: better than the baseline),
        low, high (95% bootstrap interval over pairs), p_value (permutation test), pairs, mean and std of the difference
        over the label's seeds (std nan for one). `in_words` says it in words.

    Raises:
        ValueError: No such label, or two runs scored different pairs.
    """
    known = list(dict.fromkeys(runs["label"]))
    name = baseline or first_baseline(known)
    if name not in (*known, _BEFORE) and known:
        raise ValueError(f"no runs {name!r}; there are {', '.join([*known, _BEFORE])}")
    base = {row["seed"]: row["path"] for row in runs.to_dict("records") if row["label"] == name}
    rows = []
    tested = runs["label"] != name
    if name == _BEFORE:
        tested &= runs["method"] != BaseConfig.method  # `workbench evaluate` trains nothing: no "before" to ask for
    for run in runs.loc[tested].to_dict("records"):
        seed = run["seed"] if run["seed"] in base else min(base, default=run["seed"])
        path, stage = (run["path"], _BEFORE) if name == _BEFORE else (base[seed], "")
        ours = readable(run["path"], partial(_scores, suite=suite))
        theirs = readable(path, partial(_scores, suite=suite, stage=stage))
        if ours is None or theirs is None:
            continue
        both = on_same_pairs(run["path"], ours, path, theirs, suite)
        sides = [both[column].to_numpy() for column in ("gold", "predicted", "predicted_base")]
        sets = both["suite"].tolist()
        options: dict[str, Any] = {"sets": sets, "measure": measure_of(runs), "samples": samples}
        found, test = bootstrap_interval(*sides, **options), permutation_test(*sides, **options)
        row = {"label": run["label"], "seed": run["seed"], "against": f"{name}, seed {seed}", "pairs": len(both)}
        rows.append(row | {"difference": found.value, "low": found.low, "high": found.high, "p_value": test.p_value})
    table = pd.DataFrame(rows, columns=["label", "seed", "against", "difference", "low", "high", "p_value", "pairs"])
    over_seeds = table.groupby("label")["difference"]
    return table.assign(mean=over_seeds.transform("mean"), std=over_seeds.transform("std"))


def compare_with_start(run: Run) -> str:
    """Return a sentence: is the run better than its start, by how much, and what to try if it is worse.

    It is about the average of the seven sets if all were evaluated, otherwise about the run's first suite, and has the
    95% bootstrap interval of the paired difference.
    """
    if not run.has(_BEFORE):
        return "The start was not evaluated, so that the run cannot be compared with it."
    metrics = run.metrics()
    suite = next((average for average in AVERAGES if average in metrics), next(iter(metrics)))
    measure: Measure = "spearman" if "spearman" in metrics[suite] else "accuracy"
    after, before = _scores(run, suite), _scores(run, suite, _BEFORE)
    sides = after["gold"], after["predicted"], before["predicted"]
    value, low, high = (100 * x for x in bootstrap_interval(*sides, sets=after["suite"].tolist(), measure=measure))
    found = f"{printable(suite)}: {value:+.1f} {measure} x 100, 95% interval {low:+.1f} to {high:+.1f}."
    if low > 0:
        return f"Better than its start on {found}"
    if not high < 0:
        return (
            f"Not clearly different from its start on {found} Try more training data, more epochs or more test pairs."
        )
    rate = run.config.model_dump().get("learning_rate")
    return (
        f"Worse than its start on {found} Try a lower learning_rate (now {rate}), fewer epochs, or more training data."
    )


def in_words(tests: pd.DataFrame) -> pd.DataFrame:
    """What `paired_tests` found, to read: x 100, the size beside the p-value, and how far apart seeds are.

    A difference can be certain on these pairs and still be nothing: too small to matter, or smaller than what another
    seed changes. "reads as" names the first of: not told apart, under 0.1 points, one seed, within or beyond the
    deviation over seeds.
    """
    shown = tests.loc[:, ["label", "seed", "against"]].copy()
    percent = 100 * tests[["difference", "low", "high", "mean", "std"]]
    shown["difference"] = [f"{value:+.2f}" for value in percent["difference"]]
    shown["95% interval"] = [
        f"{low:+.2f} to {high:+.2f}" for low, high in zip(percent["low"], percent["high"], strict=True)
    ]
    shown["p"] = tests["p_value"].map("{:.3g}".format)
    shown["over seeds"] = [
        f"{mean:+.2f}" + ("" if pd.isna(std) else f" ± {std:.2f}")
        for mean, std in zip(percent["mean"], percent["std"], strict=True)
    ]
    shown["reads as"] = [_reading(*row) for row in percent.itertuples(index=False)]
    return shown.set_index("label")


def _reading(difference: float, low: float, high: float, mean: float, std: float) -> str:
    """A difference (x 100) in words."""
    if not (low > 0 or high < 0):
        return "not told apart on these pairs"
    if abs(difference) < 0.1:
        return "sure on these pairs, but under 0.1 points"
    if pd.isna(std):
        return "sure on these pairs; one seed says nothing of others"
    return f"sure on these pairs, {'within' if abs(mean) <= std else 'beyond'} the deviation over seeds"


def parts(runs: pd.DataFrame) -> pd.DataFrame:
    """label, part, mean, std, n: Spearman on every suite and on every subset of a suite, in [-1, 1], over seeds.

    Of runs that were compared on a transfer task: the accuracy on every transfer task. Where all runs have one label,
    "before" stands in front of it.
    """
    rows, measure = [], measure_of(runs)
    for label, _, path, stage in _with_start(runs):
        for suite, values in (readable(path, partial(Run.metrics, stage=stage)) or {}).items():
            found = {suite: values, **{f"{suite}: {name}": part for name, part in values.get("subsets", {}).items()}}
            known = {part: one[measure] for part, one in found.items() if measure in one}
            rows += [{"label": label, "part": part, "value": value} for part, value in known.items()]
    table = pd.DataFrame(rows, columns=["label", "part", "value"]).astype({"value": float})
    spread = [
        {**group[["label", "part"]].iloc[0].to_dict(), **seed_spread(group["value"].to_numpy())._asdict()}
        for _, group in table.groupby(["label", "part"], sort=False)
    ]
    return pd.DataFrame(spread, columns=["label", "part", "mean", "std", "n"])


def labels_of(rows: Sequence[Mapping[str, Any]], without: Sequence[str] = ()) -> list[str]:
    """Of each run (a row of `read_rows`) the method, or the encoder that was evaluated, and, where there are several
    settings of it, what tells them apart.

    Runs of different seeds whose settings read the same are one: each learned from the run of its own seed. without:
    settings of which a label says nothing.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[_called(row)].append(row)
    apart = {}
    for name, group in groups.items():
        evaluated = ["encoder"] if {row["method"] for row in group} == {BaseConfig.method} else []  # which it is called
        apart[name] = iter(told_apart(list(map(settings_text, group)), [*without, *evaluated])[1])
    named = [(name, next(apart[name])) for name in map(_called, rows)]
    names = [f"{name} ({text})" if text else name for name, text in named]
    # Two runs of one name and one seed differ in what the settings' words do not say.
    values = [str([row["settings"][name] for name in without]) for row in rows]
    counts = Counter(zip(names, (row["seed"] for row in rows), values, strict=True))
    clash = {name for (name, *_), count in counts.items() if count > 1}
    return [f"{name} {row['digest']}" if name in clash else name for name, row in zip(names, rows, strict=True)]


def _called(row: Mapping[str, Any]) -> str:
    """The method of a run; of `workbench evaluate` the encoder, with what was made of it if that is not its vectors."""
    if row["method"] != BaseConfig.method:
        return row["method"]
    kind, encoder = row["settings"]["kind"], short_value(row["settings"]["encoder"])
    return {"pooling": encoder, "tfidf": kind}.get(kind, f"{encoder}, {kind}")


def settings_text(row: Mapping[str, Any]) -> str:
    """Profile and what differs from it, of a row of `read_rows`."""
    return ", ".join(text for text in (row["profile"], row["changed"]) if text)


def readable(path: str | Path, read: Callable[[Run], _T]) -> _T | None:
    """What `read` finds in the run; None, and a line that says why, where the run cannot be read."""
    try:
        return read(Run(path))
    except RunError as problem:
        _LOG.warning("left out: %s: %s", path, problem)
        return None


def _evaluated(run: Run, suite: str) -> tuple[set[str], dict[str, Any]]:
    """The suites that a run was scored on, and its values on one of them."""
    metrics = run.metrics()
    before = run.metrics(_BEFORE).get(suite, {}) if (run.path / _BEFORE / "metrics.json").is_file() else {}
    first = before.get("spearman", before.get("accuracy"))
    found = {**metrics.get(suite, {}), "encoder": run.config.encoder, "before": first}
    found["pairs"] = sum(metrics[name].get("n", 0) for name in _sets(suite, metrics))
    return set(metrics), {name: found.get(name) for name in ("encoder", *_VALUES)}


def _with_start(runs: pd.DataFrame) -> list[tuple[str, int, str, str]]:
    """label, seed, path, stage of each run; of runs with one label first that of the start, to see them beside it."""
    found = [(run["label"], run["seed"], run["path"], "") for run in runs.to_dict("records")]
    started = [(_BEFORE, seed, path, _BEFORE) for _, seed, path, _ in found if Run(path).has(_BEFORE)]
    return [*(started[:1] if len(set(runs["label"])) == 1 else []), *found]


def _sets(suite: str, known: Container[str]) -> list[str]:
    """The sets that a suite stands for: the seven of an average, else itself."""
    return [name for name in AVERAGES.get(suite, [set_name(suite)]) if name in known]


def suite_version(facts: Mapping[str, Any], suite: str) -> list[str | None]:
    """Return the checksums of the sets of `suite` that the run with these facts was scored on."""
    inputs = facts.get("inputs", {})
    names = AVERAGES.get(suite, [set_name(suite)])
    return [inputs.get(f"suite {name}", inputs.get(name, {})).get("sha256") for name in names]


def _scores(run: Run, suite: str, stage: str = "") -> pd.DataFrame:
    """A run's scored pairs of a suite. Raises RunError where they are not as many as its metrics say."""
    scores, metrics = run.scores(stage), run.metrics(stage)
    found = scores.loc[scores["suite"].isin(_sets(suite, metrics))]
    expected = sum(metrics[name].get("n", 0) for name in _sets(suite, metrics))
    if len(found) != expected or not expected:
        raise RunError(
            f"scores.csv has {len(found)} pairs of {suite!r} and metrics.json counts {expected}; run it again"
        )
    return found


def on_same_pairs(path: str, ours: pd.DataFrame, base: str, theirs: pd.DataFrame, suite: str) -> pd.DataFrame:
    if all(np.array_equal(ours[name].to_numpy(), theirs[name].to_numpy()) for name in _ALIKE):
        return ours.assign(predicted_base=theirs["predicted"].to_numpy())  # as a rule; a merge takes ten times as long
    both = ours.merge(theirs, on=_PAIR, suffixes=("", "_base"), validate="one_to_one")
    if not len(both) == len(ours) == len(theirs) or not both["gold"].equals(both["gold_base"]):
        raise ValueError(
            f"{path} and {base} were not scored on the same pairs of {suite!r} ({len(both)} of {len(ours)} and "
            f"{len(theirs)} in common); score both on one version of the set"
        )
    return both


def first_baseline(labels: list[str]) -> str:
    """What the others are held against where nobody says: SimCSE, from which every method starts, else the first."""
    if len(labels) < 2:
        return _BEFORE
    return next((label for label in labels if label.startswith("simcse")), labels[0])


def spread(values: np.ndarray) -> str:
    found = seed_spread(100 * values)
    return "" if pd.isna(found.mean) else str(found)
