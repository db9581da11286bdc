"""Rankings of one query as HTML: a table and a slope chart.

They need no script, style sheet or network."""

from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from plotly.colors import sample_colorscale

from workbench.errors import DataError
from workbench.metrics import kendall, ndcg
from workbench.views._style import inlined, problem_html, render, shortened, svg_image
from workbench.views.queries import QueryView, Sources, SuiteRankings, rank_displacement

DRAWN = 20  # targets that a slope chart has room for
# From the nearest target to the furthest.
_LINES = ["rgb(0,114,178)", "rgb(140,140,140)", "rgb(213,94,0)"]
_CHART = "slope chart of the ranks in the table"
_MEASURES = {"KCC": kendall, "NDCG": ndcg}


def ranking_html(
    tables: Sources, query_id: str, *, suite: str | None = None, targets: int = 100
) -> HTML:
    """Show the targets of a query, their ranks under gold and each label, and a slope chart.

    As RankCSE table 1.

    Args:
        tables: label -> a ranking table, a `Run` or a `Report`, all of the same data.
        suite: By default the first.
        targets: Of more than so many those nearest under gold or a label are shown, with their
            ranks among all.

    Raises ValueError for tables of different data or no such suite, KeyError for no such query.

    Example:
        ranking_html({"before": before.rankings, "SimCSE": run}, "bird-park")
    """
    view = SuiteRankings(tables, suite).view(query_id)
    return HTML(inlined(view_html(view, targets=targets)))


def most_changed(
    tables: Sources, between: tuple[str, str] | None = None, *, suite: str | None = None
) -> HTML:
    """Show the query that two labels, by default the first and the last, rank most differently.

    A label without the suite is left out, so that `between` must have it. If there is no query, a
    sentence is shown. Arguments and errors as of `ranking_html`.

    Example:
        most_changed({"before": before, "SimCSE": run})
    """
    try:
        rankings = SuiteRankings(tables, suite)
    except DataError as problem:
        return HTML(problem_html(problem))
    labels = between or (rankings.labels[0], rankings.labels[-1])
    # The first of equals in the order of the data; nan, of a query without an order, is last.
    distances = np.nan_to_num(rankings.distances(*labels), nan=-1)
    query_id = list(rankings.rows)[distances.argmax()]
    return HTML(inlined(view_html(rankings.view(query_id))))


def view_html(
    view: QueryView, *, is_live: bool = False, targets: int = 100, explains: str = ""
) -> str:
    """Return the query, its table and its chart, with classes of `STYLES`.

    Args:
        is_live: The chart is a drawing, whose lines can be pointed at, and not an image, which
            every front end shows.
        explains: If not "", letters are buttons, with this and the letter as their value.
    """
    measures = {}
    if view.gold is not None:
        for name, measure in _MEASURES.items():
            measures[name] = [measure(view.gold, scores) for scores in view.scores.values()]
    ranks = pd.DataFrame(view.ranks, view.table.index)
    # By how many places a target is nearer than by the first column, gold if it is known; 0
    # anywhere among the places that it ties.
    reference = ranks.iloc[:, 0].to_numpy()
    moves: Any = ranks.apply(rank_displacement, raw=True, reference=reference)
    # In sixths of the list: up to 1/6, 1/3, 1/2, and more.
    sixths = np.ceil(6 * moves.abs() / max(len(ranks) - 1, 1) - 1e-6)
    cells = {
        "moves": moves,
        "shades": sixths.clip(upper=4).astype(int),
        "is_tied": ranks.apply(pd.Series.duplicated, keep=False),
    }
    # Ranks are among all targets; only the rows of the nearest are written.
    rows = view.nearest(targets).table
    chart = slope_svg(view)
    if chart and not is_live:
        chart = svg_image(chart, _CHART)
    return render(
        "ranking.html",
        view=view,
        targets=targets,
        rows=rows.to_dict("index"),
        **{name: table.loc[rows.index].to_dict("index") for name, table in cells.items()},
        explains=explains,
        measures={**measures, **view.measures},
        chart=chart,
    )


def slope_svg(view: QueryView) -> str:
    """Draw a line for each target from its rank by gold to its rank by each label.

    A crossing is a disagreement. Of more than `DRAWN` targets the nearest by gold or a label are
    drawn, at their ranks among all on a log scale, which gives the first ranks the most room. ""
    if there is nothing to compare.
    """
    shown = view.nearest(DRAWN)
    ranks = pd.DataFrame(shown.ranks, shown.table.index)
    if len(ranks.columns) < 2:
        return ""
    deepest = ranks.max(axis=None)
    places = ranks - 0.5
    if deepest > DRAWN:
        places = 0.5 + (DRAWN - 0.5) * np.log(ranks) / np.log(deepest)
    # Of objects: pandas is slow to take a few of its own strings.
    letters = ranks.index.astype(object)
    columns = []
    for name, short in shortened(ranks, 18).items():
        column: Any = places[name]
        # place -> the letters of the targets that share it
        ties = letters.groupby(column)
        columns.append((name, short, ranks[name].tolist(), column.tolist(), ties))
    colours = sample_colorscale(_LINES, np.linspace(0, 1, len(ranks)))
    return render(
        "slope.svg",
        lines=zip(letters, shown.table["target"], colours, strict=True),
        columns=columns,
        depth=min(deepest, DRAWN),
        alt=_CHART,
    )
