"""Write the tables of losses in lists (experiments/lists.py) from data/lists.csv.

`experiments/claims.py` puts them into docs/results.md and docs/results-details.md. The rows are
means over five seeds on test and the differences from CoSENT over the batch with 95 per cent
intervals of Student's t over seeds, as they were printed: to 0.1, and without the pairs. Holm's
correction is over all comparisons in Spearman and KCC. The p-value of each is the largest that its
rounded numbers allow."""

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from workbench.files import project_path
from workbench.metrics import holm

SUMMARY = project_path("data") / "lists.csv"
SEEDS, ROUNDING = 5, 0.05
BASE = "cosent over batch"
LOSSES = {
    "mse": "MSE",
    "listnet in lists": "ListNet in lists",
    "listmle in lists": "ListMLE in lists",
    "cosent in lists": "CoSENT in lists",
    "approx_ndcg in lists": "ApproxNDCG in lists",
}
CONDITIONS = {"all": "", "rescaled": "gold rescaled per query: "}


def list_tables() -> list[tuple[str, str, str]]:
    """Return page, name of the part, and its table."""
    table = pd.read_csv(SUMMARY, dtype={"condition": str})
    table["text"] = texts_of(table)
    cells = table.set_index(["set", "condition", "loss", "metric"])["text"]
    parts = [("results.md", "order", order_table(cells))]
    return parts + [
        ("results-details.md", f"lists {name}", details_table(cells[name]))
        for name in ("world", "sick")
    ]


def texts_of(table: pd.DataFrame) -> pd.Series:
    """Return each value with its difference, marked if it is clear after Holm's correction."""
    compared = (table["loss"] != BASE) & (table["metric"] != "ndcg")
    adjusted = pd.Series(np.nan, table.index)
    adjusted[compared] = holm(largest_p(table[compared]))
    texts = table["mean"].map("{:.1f}".format)
    for index, row in table[table["loss"] != BASE].iterrows():
        interval = f"{row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]"
        sign = "▲" if row["difference"] > 0 else "▼"
        texts[index] += f", {interval}"
        if adjusted[index] < 0.05:
            texts[index] += f" {sign}"
    return texts


def largest_p(table: pd.DataFrame) -> np.ndarray:
    """Return the largest p of a t test that gives these numbers when rounded."""
    half = (table["high"] - table["low"]) / 2 + ROUNDING
    error = half / stdtrit(SEEDS - 1, 0.975)
    distance = np.maximum(table["difference"].abs() - ROUNDING, 0)
    return 2 * stdtr(SEEDS - 1, -distance / error)


def order_table(cells: pd.Series) -> str:
    """Return the table of results.md: all queries, and gold rescaled for each query."""
    lines = ["| | bundled world | SICK, from `english-encoder` |", "|---|---|---|"]
    lines.append("| start | 53.3 and 43.4 | 68.4 and 49.8 |")
    for condition, words in CONDITIONS.items():
        for loss, label in {BASE: "CoSENT over the batch", **LOSSES}.items():
            both = [
                " and ".join(
                    cells[name, condition, loss, metric].partition(", ")[2 if loss != BASE else 0]
                    for metric in ("spearman", "kcc")
                )
                for name in ("world", "sick")
            ]
            lines.append(f"| {words}{label} | {' | '.join(both)} |")
    return "\n".join(lines) + "\n"


def details_table(cells: pd.Series) -> str:
    """Return the table of one set: every condition, loss and metric."""
    lines = ["| condition | loss | Spearman | KCC | NDCG |", "|---|---|---|---|---|"]
    wide = cells.unstack("metric")[["spearman", "kcc", "ndcg"]]
    order = cells.index.droplevel("metric").unique()
    for condition, loss in order:
        lines.append(f"| {condition} | {loss} | {' | '.join(wide.loc[(condition, loss)])} |")
    return "\n".join(lines) + "\n"
