"""All runs of a folder, and the numbers of one, as tables."""

import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.errors import RunError
from workbench.runs._run import NAME, Run, config_of, folder_of_runs
from workbench.runs._state import failure_of

_LOG = logging.getLogger("workbench")
# In front of a suite's name in the columns of `list_runs`, which so never meets another column.
SCORE, ACCURACY = "spearman ", "accuracy "
# A setting in `changed`: up to a comma that stands neither in quotes nor in brackets or braces.
_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_WORD = re.compile(rf"""(?:[^,'"\[{{]|{_QUOTED}|[\[{{](?:[^'"\]}}]|{_QUOTED})*[\]}}])+""")


def list_folders(root: str | Path) -> list[Path]:
    """The folders of the runs under `root`. Raises RunError when `root` is no folder."""
    root = folder_of_runs(root)
    try:
        if root.exists() and not root.is_dir():
            raise RunError(f"{root} is a file; give the folder that holds the runs")
        found = sorted(root.glob("*/*"))
    except OSError as problem:
        raise RunError(f"the runs under {root} cannot be listed: {problem.strerror}") from None
    found = [path for path in found if not path.name.startswith(".")]  # being removed
    return [path for path in found if NAME.fullmatch(path.name) or (path / "config.json").exists()]


def list_runs(root: str | Path = "runs") -> pd.DataFrame:
    """Every run under `root`, a row each: method, profile, seed, digest, status, changed settings, scores, path.

    status: "finished", "failed" (a headless start ended so; failed.json says why), "unfinished", or "unreadable: " and
    why; a broken run never hides the others.
    A column "spearman <suite>" holds that in [-1, 1], "accuracy <suite>" that of a transfer task in [0, 1]; nan where
    a run has not (yet) been scored on the suite.
    A folder that is not there has none, and a line says so. Raises RunError when `root` is no folder.
    """
    table = pd.DataFrame(read_rows(root))
    first = ["method", "profile", "seed", "digest", "status", "changed"]
    table = table.reindex(columns=[*first, *(name for name in table if name.startswith((SCORE, ACCURACY))), "path"])
    return table.astype({"seed": "Int64"})


def read_rows(root: str | Path) -> list[dict[str, Any]]:
    """What `list_runs` has of each run, and: facts, settings, started, seconds, host, failure; read once."""
    found = [_row(path) for path in list_folders(root)]
    if not (folder := folder_of_runs(root)).exists():
        _LOG.warning("there is no folder %s, and so no run", folder.absolute())
    return found


def _row(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"method": path.parent.name, "path": str(path)}
    try:
        run = Run(path)
        facts = row["facts"] = run.facts()
        config = config_of(facts, path)
        row |= {"method": config.method, "profile": config.profile, "seed": config.seed}
        row["digest"] = facts.get("digest", "")
        # What is outside the digest says where or how, not what was computed.
        changed = {name: value for name, value in config.changed().items() if name not in config.outside_digest}
        row["changed"] = ", ".join(f"{name}={short_value(value, config.seed)}" for name, value in changed.items())
        row |= {name: facts.get(name) for name in ("settings", "started", "seconds", "host")}
        stages = run.check_files(facts)
        row["failure"] = failure_of(path)
        row["status"] = "finished" if "" in stages else "failed" if row["failure"] is not None else "unfinished"
        found = dict(_score(suite, values) for suite, values in stages.get("", {}).items())
        row |= {name: math.nan if value is None else value for name, value in found.items()}
    except Exception as problem:  # whatever is odd about one run, the others are listed
        row["status"] = f"unreadable: {problem}"
    return row


def _score(suite: str, values: Mapping[str, Any]) -> tuple[str, float | None]:
    """The column of a suite, and what stands in it."""
    return (ACCURACY + suite, values["accuracy"]) if "accuracy" in values else (SCORE + suite, values.get("spearman"))


def told_apart(changed: Sequence[str], without: Collection[str] = ()) -> tuple[str, list[str]]:
    """What all of these lists of settings, as `changed` has them, have in common, and what each has besides.

    A profile may stand in front. Two lists that differ still do, but for the settings `without`, which are left out.
    """
    listed = map(setting_words, changed)
    words = [[word for word in each if word.partition("=")[0] not in without] for each in listed]
    common = [word for word in words[0] if all(word in others for others in words)] if words else []
    return ", ".join(common), [", ".join(word for word in each if word not in common) for each in words]


def setting_words(text: str) -> list[str]:
    """The settings of a list, as `changed` has them, each name=value."""
    return [word.strip() for word in _WORD.findall(text)]


def scored(row: Mapping[str, Any]) -> dict[str, tuple[float, str]]:
    """Suite -> value and measure ("spearman" or "accuracy"), of a row of `read_rows`."""
    return {
        name.removeprefix(kind): (value, kind.strip())
        for name, value in row.items()
        for kind in (SCORE, ACCURACY)
        if name.startswith(kind)
    }


def short_value(value: Any, seed: int | None = None) -> str:
    """A setting's value in short: of a path what names it; of a run its method and digest, and its seed if another's.

    So a run that learns from the run of its own seed reads as its siblings of other seeds do.
    """
    if isinstance(value, list):
        items = ", ".join(short_value(item, seed) for item in value)
        return items if len(value) == 1 else f"[{items}]"
    text, path = str(value), Path(str(value))
    if path.is_absolute():
        text = f"{path.parent.name} {path.name.removesuffix(f'-s{seed}')}" if NAME.fullmatch(path.name) else path.name
    return repr(text) if isinstance(value, str) and re.search(r"""[,'"[\]{}]""", text) else text


def metrics_table(metrics: Mapping[str, Any]) -> pd.DataFrame:
    """metrics.json as a table, correlations and accuracies x 100."""
    names = {"spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG", "accuracy": "accuracy", "f1": "F1"}
    rows = []
    for suite, values in metrics.items():
        shown = {label: math.nan if (v := values.get(key)) is None else 100 * v for key, label in names.items()}
        count = "classified" if "accuracy" in values else "pairs"
        rows.append({"suite": suite, count: values.get("n"), **shown, "queries": values.get("queries")})
    columns = ["suite", "pairs", "Spearman", "KCC", "NDCG", "queries", "classified", "accuracy", "F1"]
    table = pd.DataFrame(rows, columns=columns)
    # An undefined Spearman is shown, as nan; what no suite has is left out.
    undefined = ["Spearman"] if any("spearman" in values for values in metrics.values()) else []
    table = table.drop(columns=table.columns[table.isna().all()].difference(undefined))
    whole = [name for name in ("pairs", "queries", "classified") if name in table]
    return table.astype(dict.fromkeys(whole, "Int64"))
