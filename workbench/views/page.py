"""Rankings of one query as HTML: a table and a slope chart, without script, style sheet or
network."""

import base64
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML
from plotly.colors import sample_colorscale

from workbench.errors import DataError
from workbench.metrics import kendall, ndcg
from workbench.views._style import (
    GREY,
    details,
    framed,
    inlined,
    paragraph,
    shortened,
    table_tag,
    tag,
    td,
    th,
    truncate,
)
from workbench.views.queries import QueryView, SuiteRankings, rank_displacement

DRAWN = 20  # targets that a slope chart has room for
_APART = 20  # pixels from rank to rank in it
_LONG = 400  # characters of a target that a row shows; the rest opens with a click
# From the nearest target to the furthest.
_LINES = ["rgb(0,114,178)", "rgb(140,140,140)", "rgb(213,94,0)"]
_CHART = "slope chart of the ranks in the table"
_SVG = (
    f'<svg xmlns="http://www.w3.org/2000/svg" aria-label="{_CHART}" width="{{wide:g}}" '
    f'height="{{high:g}}" '
    'viewBox="0 0 {wide:g} {high:g}" text-anchor="middle" font-family="sans-serif" font-size="12" '
    f'fill="{GREY}" role="img">{{drawn}}</svg>'
)
_HEADING = (
    '<g><title>{name}</title><text x="{x}" y="{y}" text-anchor="start" '
    'transform="rotate(-30 {x} {y})" '
    'font-weight="bold">{cut}</text></g>'
)
_LEGEND = (
    "Rank 1 is the most similar; the score is below the rank. <b>=</b>: equal scores share a rank."
)
_COMPARED = (
    " <b>▲</b>/<b>▼</b>: so many places higher/lower than by {reference} (places that "
    "{reference} ties count as one). "
    "The darker a cell, the larger the difference."
)


def ranking_html(
    tables: Mapping[str, Any], query_id: str, *, suite: str | None = None, targets: int = 100
) -> HTML:
    """Show the targets of a query with gold and the rank under each label (as RankCSE table 1), and
    a slope chart.

    `tables` has a ranking table, a `Run` or a `Report` of the same data for each label; `suite` is
    by default the first. Of more than `targets` those nearest under gold or a label are shown, with
    their ranks among all.

    Raises ValueError for tables of different data or no such suite, KeyError for no such query.
    """
    view = SuiteRankings(tables, suite).view(query_id)
    return HTML(inlined(view_html(view, targets=targets)))


def most_changed(
    tables: Mapping[str, Any], between: tuple[str, str] | None = None, *, suite: str | None = None
) -> HTML:
    """Show the query that two labels, by default the first and the last, rank most differently, as
    `ranking_html`.

    A label without the suite is left out. If there is no query, a sentence is shown. Errors as of
    `ranking_html`."""
    try:
        rankings = SuiteRankings(tables, suite)
    except DataError as problem:
        return HTML(f"<p>{escape(str(problem))}.</p>")
    distances = rankings.distances(*(between or (rankings.labels[0], rankings.labels[-1])))
    first = list(rankings.rows)[np.argsort(-distances, kind="stable")[0]]
    return HTML(inlined(view_html(rankings.view(first))))


def view_html(
    view: QueryView, *, is_live: bool = False, targets: int = 100, explains: str = ""
) -> str:
    """Return the query, its table and its chart, with classes of `STYLES`.

    is_live: The chart is a drawing, whose lines can be pointed at, and not an image, which every
        front end shows.
    explains: If not "", letters are buttons, with this and the letter as their value."""
    reference = "gold"
    by = "gold or a model"
    measures = " KCC and NDCG &times; 100."
    if view.gold is None:
        reference = escape(truncate(next(iter(view.ranks)), 48))
        by = "a model"
        measures = ""
    total = len(view.table)
    part = f"{targets} of {total:,} targets, the nearest under {by}" if targets < total else ""
    place = escape(": ".join(filter(None, [view.place, part])))
    title = paragraph(f"<b>{escape(view.query)}</b>{f' <small>({place})</small>' if place else ''}")
    # Both are in one row if there is room; a table that may scroll is reached by Tab.
    width = (
        f"flex:1 1 {20 + 4.3 * len(view.ranks):g}em;min-width:0;max-width:max-content;overflow:auto"
    )
    table = _target_table(view, targets, explains)
    chart = slope_svg(view)
    if chart and not is_live:  # front ends remove drawings from HTML
        data = base64.b64encode(chart.encode()).decode()
        chart = (
            f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%" alt="{_CHART}">'
        )
    both = (
        f'<div class="both"><div style="{width}" data-scroll="yes" tabindex="0" '
        'role="group" aria-label="targets">'
        f'{table}</div><div class="drawn">{chart}</div></div>'
    )
    compared = _COMPARED.format(reference=reference) if len(view.ranks) > 1 else ""
    return framed(title, both, paragraph(tag("small", _LEGEND + compared + measures)))


def _target_table(view: QueryView, targets: int, explains: str) -> str:
    """Return a table: letter, target, gold and its rank if known, a column for each label; KCC and
    NDCG below."""
    gold = view.gold
    first = next(iter(view.ranks))
    heads = th("") + th("target", "text")
    columns = [_rank_cells(view, label, is_shaded=label != first) for label in view.scores]
    measures = {}
    if gold is not None:
        heads += th("gold") + th("gold rank", "narrow")
        columns = [
            [td(f"{value:.4g}") for value in gold],
            map(td, _format_ranks(view.ranks["gold"])),
            *columns,
        ]
        measures = {"KCC": kendall, "NDCG": ndcg}
    lines = []
    nearest = {*view.nearest(targets).table.index}
    for letter, target, *cells in zip(
        view.table.index, view.table["target"], *columns, strict=True
    ):
        if letter in nearest:
            button = tag("button", letter, value=explains + letter, title="why this rank?")
            rest = target[_LONG:]
            text = details(target[:_LONG], escape(rest)) if rest else escape(target)
            lines.append(
                tag(
                    "tr",
                    td(button if explains else letter),
                    td(text, "text"),
                    *cells,
                    data_row=letter,
                )
            )
    for name, measure in measures.items():
        values = [measure(gold, scores) for scores in view.scores.values()]
        numbers = [td("undefined" if np.isnan(value) else f"{100 * value:.1f}") for value in values]
        lines.append(tag("tr", tag("th", name, class_="measure", colspan=4), *numbers))
    return table_tag(heads, view.scores, lines)


def _rank_cells(view: QueryView, label: str, *, is_shaded: bool) -> list[str]:
    """Return a cell for each target: rank, distance from the reference (shaded), and score."""
    cells = []
    ranks = view.ranks[label]
    moves = rank_displacement(ranks, next(iter(view.ranks.values())))
    for rank, move, score in zip(_format_ranks(ranks), moves, view.scores[label], strict=True):
        places = abs(move)
        arrow = f" {'▲' if move > 0 else '▼'}{places:g}" if places else ""
        kind = "number"
        if is_shaded:
            shade = math.ceil(6 * places / max(len(ranks) - 1, 1) - 1e-6)
            kind += f" shade{min(4, shade)}"
        cells.append(td(f"<b>{rank}</b>{arrow}<br><small>{score:.3f}</small>", kind))
    return cells


def _format_ranks(ranks: np.ndarray) -> list[str]:
    times = Counter(ranks.tolist())
    return [f"{'=' if times[rank] > 1 else ''}{rank:g}" for rank in ranks.tolist()]


def slope_svg(view: QueryView) -> str:
    """Draw a line for each target from its rank by gold to its rank by each label; a crossing is a
    disagreement.

    Of more than `DRAWN` targets the nearest by gold or a label are drawn, at their ranks among all
    on a log scale, which gives the first ranks the most room. "" if there is nothing to compare.
    """
    shown = view.nearest(DRAWN)
    ranks = pd.DataFrame(shown.ranks, shown.table.index)
    if len(ranks.columns) < 2:
        return ""
    short = shortened(ranks, 18)
    deepest = float(ranks.max(axis=None))
    step = max(36, min(80, 200 // (len(short) - 1)))
    across = range(24, 24 + step * len(short), step)
    name_width = 7.2 * max(map(len, short.values()))
    top = 14 + round(0.5 * name_width)
    depth = _APART * min(deepest, DRAWN)

    def height(rank: float) -> float:
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        return top + _APART / 2 + (depth - _APART / 2) * np.log(rank) / np.log(deepest)

    ties = [ranks.index.groupby(column) for _, column in ranks.items()]  # rank -> letters
    colours: Any = sample_colorscale(_LINES, np.linspace(0, 1, len(ranks)))
    drawn = []
    for letter, target, colour in zip(ranks.index, shown.table["target"], colours, strict=True):
        own = ranks.loc[letter]
        rooms = [4 + 5 * len(tied[rank]) for tied, rank in zip(ties, own, strict=True)]
        line = _draw_line(list(zip(across, map(height, own), rooms, strict=True)), colour)
        named = "".join(f"\n{name}: rank {rank:g}" for name, rank in own.items())
        title = tag("title", escape(f"{letter}: {truncate(target, _LONG)}{named}"))
        drawn.append(tag("g", title, line, data_row=letter))
    for (name, cut), x, tied in zip(short.items(), across, ties, strict=True):
        drawn.append(_HEADING.format(name=escape(name), cut=escape(cut), x=x, y=top - 8))
        letters = (
            tag("text", " ".join(both), x=x, y=f"{height(rank) + 4:g}")
            for rank, both in tied.items()
        )
        drawn.append(tag("g", *letters, pointer_events="none"))
    return _SVG.format(
        wide=across[-1] + 0.87 * name_width + 24,
        high=top + depth + 8,
        drawn="".join(drawn),
    )


def _draw_line(ends: Sequence[tuple[float, float, float]], colour: str) -> str:
    """Draw a line from letter to letter (x, y, half width), and a wider transparent one that reacts
    to the pointer."""
    parts = [
        f"M{x + room:g} {y:g}L{to - other:g} {down:g}"
        for (x, y, room), (to, down, other) in pairwise(ends)
    ]
    reach = " ".join(f"{x:g},{y:g}" for x, y, _ in ends)
    return (
        f'<path d="{"".join(parts)}" stroke="{colour}" stroke-width="2.5" class="seen"></path>'
        f'<polyline points="{reach}" fill="none" stroke="transparent" stroke-width="14"></polyline>'
    )
