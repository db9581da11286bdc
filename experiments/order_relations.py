"""By relation of the ladders, what each loss of experiments/order.py adds to no ranking loss.

    python experiments/order_relations.py RUNS [RUNS ...]

RUNS are the folders that experiments/order.py trained in (its --runs). The rows of data/order.csv
name their runs; a cell is shown if the five seeds of no ranking loss and of another loss are in
these folders. The table of a cell is made by `views.phenomena` and written into docs/results.md;
cells without runs keep the table that the page has."""

import argparse
import re
from pathlib import Path

from claims import fill, split_at_marks
from order import NO_RANKING
from order_tables import OF_RANKING, Cell, interval_text, read_cells, with_no_ranking

from workbench import views
from workbench.files import project_path, write_text
from workbench.runs import Run
from workbench.systems import SystemScores

PAGE = project_path("docs") / "results.md"
SUITE = "ladders-all"
MARKS = "relations of lists"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    folders = {
        path.parent.name: path.parent
        for root in options.runs
        for path in sorted(root.rglob("scores.csv"))
    }
    cells = [cell for cell in read_cells() if cell.question == "lists"]
    tables = tables_of_page()
    for cell in cells:
        trained = runs_of(with_no_ranking(cell, cells), folders)
        if len(trained) > 1 and NO_RANKING in trained:
            tables[cell.name] = table_of(trained)
            print(cell.name, *trained, sep=", ")
    parts = [f"#### {name}\n\n{text}\n" for name, text in tables.items()]
    write_text(PAGE, fill(PAGE, {MARKS: "\n".join(parts)}))


def tables_of_page() -> dict[str, str]:
    """Return cell -> its table, of those that the page has."""
    _, written, _ = split_at_marks(PAGE, PAGE.read_text(encoding="utf-8"), MARKS)
    blocks = re.findall(r"^#### (.+)\n\n((?:\|.*\n)+)", written, re.MULTILINE)
    return {name: table.removesuffix("\n") for name, table in blocks}


def runs_of(cell: Cell, folders: dict[str, Path]) -> dict[str, list[Run]]:
    """Return loss -> the runs of its seeds, of the losses whose runs are all in these folders."""
    trained = {}
    for loss in [NO_RANKING, *OF_RANKING]:
        names = cell.rows.loc[cell.rows["row"] == loss, "run"].tolist()
        if names and all(name in folders for name in names):
            trained[loss] = [Run(folders[name]) for name in names]
    return trained


def table_of(trained: dict[str, list[Run]]) -> str:
    """Return a line for each relation, with the share without a ranking loss and what each adds."""
    found = views.phenomena(SystemScores(trained), SUITE, baseline=NO_RANKING)
    losses = [loss for loss in trained if loss != NO_RANKING]
    lines = [f"| relation (targets) | {NO_RANKING} | {' | '.join(losses)} |"]
    lines.append("|---" * (2 + len(losses)) + "|")
    for relation, rows in found.table.groupby("relation", sort=False):
        of_label = rows.set_index("label")
        base = of_label.loc[NO_RANKING]
        texts = [f"{relation} ({base['targets']})", f"{100 * base['share']:.0f}"]
        for loss in losses:
            row = of_label.loc[loss]
            points = [100 * row[name] for name in ("difference", "low", "high")]
            texts.append(interval_text(*points, row["verdict"]))
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
