"""Finished runs as tables to compare: spread over seeds, intervals over pairs, paired tests, published numbers beside.

Reads what runs left on disk, trains nothing, needs no torch. A label names runs of one setting; its seeds are its runs.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from workbench.config import CONFIGS
from workbench.files import project_path
from workbench.metrics import bootstrap_interval, paired_bootstrap, permutation_test, seed_spread
from workbench.runs import Run, list_runs

_FACTS = ["label", "method", "settings", "encoder", "seed", "path"]
_VALUES = ["before", "spearman", "kcc", "ndcg", "pairs", "queries"]
_PUBLISHED = ["table", "model", "method", "task", "value"]
_PAIR = ["subset", "pair_id"]
# What the papers call our suites. No paper reports any other suite; its runs stand beside the average of the seven.
TASKS = {
    **{f"sts{year}-test": f"STS{year}" for year in range(12, 17)},
    **{"stsb-test": "STS-B", "sick-test": "SICK-R", "paws-test": "PAWS", "mrpc-test": "MRPC"},
    **{"zh-lcqmc-test": "LCQMC", "zh-bq-test": "BQ", "zh-atec-test": "ATEC", "zh-pawsx-test": "PAWSX"},
    **{"zh-stsb-test": "Chinese STS-B", "allnli-test": "NLI"},
}
AVERAGE = "average"


def finished_runs(runs_root: str | Path, suite: str) -> pd.DataFrame:
    """The finished runs under `runs_root` that were scored on `suite`, a row each, empty where there are none.

    Returns:
        label, method, settings (profile and what differs from it), encoder, seed, path; before (Spearman of the encoder
        before training), spearman, kcc, ndcg in [-1, 1], nan where a run has none; pairs, queries.

    Raises:
        ValueError: There are finished runs, but none was scored on `suite`; the text has the suites that they have.
    """
    listed = list_runs(runs_root)
    listed = listed.loc[listed["status"] == "finished"]
    rows, others = [], set()
    for row in listed.to_dict("records"):
        run = Run(row["path"])
        metrics = run.metrics()
        others |= set(metrics)
        if suite in metrics:
            before = run.metrics("before").get(suite, {}) if (run.path / "before" / "metrics.json").is_file() else {}
            found = {**metrics[suite], "pairs": metrics[suite].get("n"), "before": before.get("spearman")}
            settings = ", ".join(text for text in (row["profile"], row["changed"]) if text)
            facts = {**row, "settings": settings, "encoder": run.config.encoder, "seed": int(row["seed"])}
            rows.append(facts | {name: found.get(name) for name in _VALUES})
    if others and not rows:
        raise ValueError(f"no finished run was scored on {suite!r}; they were scored on {', '.join(sorted(others))}")
    table = pd.DataFrame(rows, columns=["digest", "profile", "changed", *_FACTS[1:], *_VALUES])
    table = table.astype(dict.fromkeys(_VALUES, float))
    table.insert(0, "label", _labels(table))
    return table.sort_values(["label", "seed"], ignore_index=True).loc[:, [*_FACTS, *_VALUES]]


def no_runs(runs: pd.DataFrame, runs_root: str | Path) -> str:
    """What to do where `runs` is empty; else how many there are."""
    if len(runs):
        return f"{len(runs)} finished runs of {runs['label'].nunique()} settings under {runs_root}"
    return (
        f"No finished runs under {runs_root}. Make some with\n"
        "    workbench run simcse --seed 0\n    workbench run simcse --seed 1\nand run this notebook again."
    )


def seed_table(runs: pd.DataFrame) -> pd.DataFrame:
    """By label: settings | seeds | Spearman before | Spearman | KCC | NDCG, mean ± deviation over seeds, x 100."""
    shown = {"before": "Spearman before", "spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG"}
    rows = [
        {
            "label": label,
            "settings": group["settings"].iloc[0],
            "seeds": len(group),
            **{title: _spread(group[name].to_numpy()) for name, title in shown.items()},
            "pairs": int(group["pairs"].iloc[0]),
            "queries": 0 if pd.isna(group["queries"].iloc[0]) else int(group["queries"].iloc[0]),
        }
        for label, group in runs.groupby("label", sort=False)
    ]
    columns = ["label", "settings", "seeds", *shown.values(), "pairs", "queries"]
    return pd.DataFrame(rows, columns=columns).set_index("label")


def intervals(runs: pd.DataFrame, suite: str, *, samples: int = 1000) -> pd.DataFrame:
    """label, seed, value, low, high: each run's Spearman with its 95% bootstrap interval over pairs, in [-1, 1]."""
    rows = []
    for run in runs.to_dict("records"):
        scores = _scores(run["path"], suite)
        found = bootstrap_interval(scores["gold"], scores["predicted"], samples=samples)
        rows.append({"label": run["label"], "seed": run["seed"], **found._asdict()})
    return pd.DataFrame(rows, columns=["label", "seed", "value", "low", "high"])


def paired_tests(runs: pd.DataFrame, suite: str, baseline: str = "", *, samples: int = 1000) -> pd.DataFrame:
    """Every run against the baseline's run of the same seed (else its first), on the same pairs.

    Args:
        runs: As `finished_runs` gives them.
        suite: On which pairs.
        baseline: A label; "": the first SimCSE, from which every method here starts, else the first of all.
        samples: Of the bootstrap and of the permutations.

    Returns:
        label, seed, against (label and seed), difference of Spearman in [-2, 2] (positive: better than the baseline),
        low, high (95% bootstrap interval over pairs), p_value (permutation test), pairs.

    Raises:
        ValueError: No such label, or two runs scored different pairs.
    """
    columns = ["label", "seed", "against", "difference", "low", "high", "p_value", "pairs"]
    if runs.empty:
        return pd.DataFrame(columns=columns)
    known = list(dict.fromkeys(runs["label"]))
    name = baseline or next((label for label in known if label.startswith("simcse")), known[0])
    if name not in known:
        raise ValueError(f"no runs {name!r}; there are {', '.join(known)}")
    base = runs.loc[runs["label"] == name].set_index("seed")["path"].to_dict()
    rows = []
    for run in runs.loc[runs["label"] != name].to_dict("records"):
        seed = run["seed"] if run["seed"] in base else min(base)
        both = _on_same_pairs(Path(run["path"]), Path(base[seed]), suite)
        gold, ours, theirs = (both[column].to_numpy() for column in ("gold", "predicted", "predicted_base"))
        found = paired_bootstrap(gold, ours, theirs, samples=samples)
        test = permutation_test(gold, ours, theirs, samples=samples)
        row = {"label": run["label"], "seed": run["seed"], "against": f"{name}, seed {seed}", "pairs": len(both)}
        rows.append(row | {"difference": found.value, "low": found.low, "high": found.high, "p_value": test.p_value})
    return pd.DataFrame(rows, columns=columns)


def parts(runs: pd.DataFrame) -> pd.DataFrame:
    """label, part, mean, std, n: Spearman on every suite and on every subset of a suite, in [-1, 1], over seeds."""
    rows = []
    for run in runs.to_dict("records"):
        for suite, values in Run(run["path"]).metrics().items():
            found = {suite: values, **{f"{suite}: {name}": part for name, part in values.get("subsets", {}).items()}}
            rows += [{"label": run["label"], "part": part, "spearman": one["spearman"]} for part, one in found.items()]
    table = pd.DataFrame(rows, columns=["label", "part", "spearman"]).astype({"spearman": float})
    spread = [
        {**group[["label", "part"]].iloc[0].to_dict(), **seed_spread(group["spearman"].to_numpy())._asdict()}
        for _, group in table.groupby(["label", "part"], sort=False)
    ]
    return pd.DataFrame(spread, columns=["label", "part", "mean", "std", "n"])


def published_numbers() -> pd.DataFrame:
    """table, model, method, task, value: the papers' numbers that come with the project, as printed (x 100)."""
    files = sorted(project_path("data").glob("published/*.csv"))
    read = [pd.read_csv(file, dtype=str, keep_default_na=False) for file in files]
    for file, table in zip(files, read, strict=True):
        if not set(_PUBLISHED) <= set(table.columns):
            raise ValueError(f"{file} has columns {', '.join(table.columns)}; it needs {', '.join(_PUBLISHED)}")
    return pd.concat(read, ignore_index=True).loc[:, _PUBLISHED] if read else pd.DataFrame(columns=_PUBLISHED)


def published_beside(runs: pd.DataFrame, suite: str, published: pd.DataFrame, model: str = "") -> pd.DataFrame:
    """What was measured here and what the papers print, method by method: two things, in two columns, not one.

    Args:
        runs: As `finished_runs` gives them.
        suite: Its published task stands beside it; a suite that no paper has stands beside the average of the seven.
        published: As `published_numbers` gives them.
        model: Only published rows of this model, such as "BERT-base"; "": of all.

    Returns:
        By method: name, model, data, "measured here" (Spearman x 100, mean ± deviation over seeds), "published" (as
        printed, x 100), from. A row is either measured or published; what several tables repeat is one row.
    """
    known = published.loc[published["task"] == TASKS.get(suite, AVERAGE)]
    known = known.loc[~known["table"].str.contains("deviation") & known["model"].str.startswith(model)]
    rows = []
    for method in dict.fromkeys(runs["method"]):
        for label, group in runs.loc[runs["method"] == method].groupby("label", sort=False):
            ours = {"name": label, "model": group["encoder"].iloc[0], "data": suite, "from": f"seeds: {len(group)}"}
            rows.append({"method": method, **ours, "measured here": _spread(group["spearman"].to_numpy())})
        theirs = known.loc[known["method"].map(_method_of) == method]
        for _, group in theirs.groupby(["method", "model", "value"], sort=False):
            first = group.iloc[0].to_dict()
            row = {"name": first["method"], "model": first["model"], "data": first["task"], "published": first["value"]}
            rows.append({"method": method, **row, "from": "; ".join(group["table"])})
    columns = ["method", "name", "model", "data", "measured here", "published", "from"]
    return pd.DataFrame(rows, columns=columns).fillna("").set_index("method")


def _method_of(published: str) -> str:
    """The method of ours that a paper's name stands for: the last in it, as in "SimCSE + RankEncoder"; "": none."""
    # Behind a comma stands what it was made with, such as its teachers.
    found = [
        name for part in published.casefold().split(",")[0].split(" + ") for name in CONFIGS if part.startswith(name)
    ]
    return found[-1] if found else ""


def rankings_of_runs(
    runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True
) -> dict[str, pd.DataFrame]:
    """label -> ranking table of `suite`, of each label's first seed; "before" is the first run's encoder untrained.

    `labels`: only these, in this order; none: all. Raises ValueError for a label that no run has.
    """
    firsts = {row["label"]: row for row in runs.drop_duplicates("label").to_dict("records")}
    unknown = [label for label in labels if label not in firsts]
    if unknown:
        raise ValueError(
            f"no runs {', '.join(map(repr, unknown))}; there are {', '.join(firsts) or 'no finished runs'}"
        )
    found: dict[str, pd.DataFrame] = {}
    for row in [firsts[label] for label in labels or firsts]:
        run = Run(row["path"])
        if before and not found and (run.path / "before" / "rankings.csv").is_file():
            found["before"] = run.rankings("before")
        found[row["label"]] = run.rankings()
    tables = {label: table.loc[table["suite"] == suite] for label, table in found.items()}
    return {label: table for label, table in tables.items() if len(table)}


def _labels(table: pd.DataFrame) -> list[str]:
    """The method where it was run with one setting; else with what differs, and the digest where that says nothing."""
    names = {}
    for method, runs in table.drop_duplicates("digest").groupby("method"):
        shown = "changed" if len(set(runs["profile"])) == 1 else "settings"
        differs = dict(zip(runs["digest"], runs[shown], strict=True))
        named = {digest: f"{method} ({text})" if text else str(method) for digest, text in differs.items()}
        names |= named if len(runs) > 1 else dict.fromkeys(named, str(method))
    values = list(names.values())
    unique = {digest: name if values.count(name) == 1 else f"{name} {digest}" for digest, name in names.items()}
    return [unique[digest] for digest in table["digest"]]


def _scores(path: str | Path, suite: str) -> pd.DataFrame:
    scores = Run(path).scores()
    return scores.loc[scores["suite"] == suite]


def _on_same_pairs(path: Path, base: Path, suite: str) -> pd.DataFrame:
    ours, theirs = _scores(path, suite), _scores(base, suite)
    both = ours.merge(theirs, on=_PAIR, suffixes=("", "_base"), validate="one_to_one")
    if not len(both) == len(ours) == len(theirs) or not both["gold"].equals(both["gold_base"]):
        raise ValueError(
            f"{path} and {base} were not scored on the same pairs of {suite!r} ({len(both)} of {len(ours)} and "
            f"{len(theirs)} in common); score both on one version of the set"
        )
    return both


def _spread(values: np.ndarray) -> str:
    found = seed_spread(100 * values)
    return "" if pd.isna(found.mean) else str(found)
