"""The papers' numbers, beside what was measured here."""

import pandas as pd

from workbench.config import CONFIGS
from workbench.files import project_path
from workbench.look.comparison import measure_of, spread

_PUBLISHED = ["table", "model", "method", "task", "value"]
# What the papers call our suites. No paper reports any other suite; its runs stand beside the average of the seven.
TASKS = {
    **{f"sts{year}-test": f"STS{year}" for year in range(12, 17)},
    **{"stsb-test": "STS-B", "sick-test": "SICK-R", "paws-test": "PAWS", "mrpc-test": "MRPC"},
    **{"zh-lcqmc-test": "LCQMC", "zh-bq-test": "BQ", "zh-atec-test": "ATEC", "zh-pawsx-test": "PAWSX"},
    **{"zh-stsb-test": "Chinese STS-B", "allnli-test": "NLI"},
    **{"mr": "MR", "cr": "CR", "subj": "SUBJ", "mpqa": "MPQA", "sst2": "SST", "trec": "TREC", "mrpc": "MRPC"},
    "transfer-average": "transfer average",
}
AVERAGE = "average"


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
        By method: name, model, data, "measured here" (Spearman or accuracy x 100, mean ± deviation over seeds),
        "published" (as printed, x 100), from. A row is either measured or published; what several tables repeat is one
        row.
    """
    known = published.loc[published["task"] == TASKS.get(suite, AVERAGE)]
    if suite in ("mrpc", "mrpc-test"):  # classified as a transfer task, or ranked: two numbers of one name
        transfer = set(published.loc[published["task"] == "MR", "table"])
        known = known.loc[known["table"].isin(transfer) == (suite == "mrpc")]
    known = known.loc[~known["table"].str.contains("deviation") & known["model"].str.startswith(model)]
    rows = []
    for method in dict.fromkeys(runs["method"]):
        for label, group in runs.loc[runs["method"] == method].groupby("label", sort=False):
            ours = {"name": label, "model": group["encoder"].iloc[0], "data": suite, "from": f"seeds: {len(group)}"}
            rows.append({"method": method, **ours, "measured here": spread(group[measure_of(runs)].to_numpy())})
        theirs = known.loc[known["method"].map(_method_of) == method]
        for _, group in theirs.groupby(["method", "model", "value"], sort=False):
            first = group.iloc[0].to_dict()
            row = {"name": first["method"], "model": first["model"], "data": first["task"], "published": first["value"]}
            rows.append({"method": method, **row, "from": "; ".join(group["table"])})
    columns = ["method", "name", "model", "data", "measured here", "published", "from"]
    return pd.DataFrame(rows, columns=columns, dtype=object).fillna("").set_index("method")


def _method_of(published: str) -> str:
    """The method of ours that a paper's name stands for: the last in it, as in "SimCSE + RankEncoder"; "": none."""
    # Behind a comma stands what it was made with, such as its teachers.
    found = [
        name for part in published.casefold().split(",")[0].split(" + ") for name in CONFIGS if part.startswith(name)
    ]
    return found[-1] if found else ""
