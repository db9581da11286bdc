"""Rankings of one query as HTML: a table and a slope chart.

They need no script, style sheet or network."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    svg_image,
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
_LINE = (
    '<path d="{path}" stroke="{colour}" stroke-width="2.5" class="seen"></path>'
    '<polyline points="{points}" fill="none" stroke="transparent" stroke-width="14"></polyline>'
)
_BOTH = (
    '<div class="both"><div style="flex:1 1 {width:g}em;min-width:0;max-width:max-content;'
    'overflow:auto" data-scroll="yes" tabindex="0" role="group" aria-label="targets">'
    '{table}</div><div class="drawn">{chart}</div></div>'
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
    tables: Mapping[str, Any], between: tuple[str, str] | None = None, *, suite: str | None = None
) -> HTML:
    """Show the query that two labels, by default the first and the last, rank most differently.

    A label without the suite is left out. If there is no query, a sentence is shown. Arguments and
    errors as of `ranking_html`.

    Example:
        most_changed({"before": before, "SimCSE": run})
    """
    try:
        rankings = SuiteRankings(tables, suite)
    except DataError as problem:
        return HTML(f"<p>{escape(str(problem))}.</p>")
    labels = between or (rankings.labels[0], rankings.labels[-1])
    # The first of equals in the order of the data; nan, of a query without an order, is last.
    order = np.argsort(-rankings.distances(*labels), kind="stable")
    query_id = list(rankings.rows)[order[0]]
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
    # Without gold all are compared with the first label, and nothing can be scored.
    if view.gold is None:
        reference = escape(truncate(next(iter(view.ranks)), 48))
        by = "a model"
        measures = ""
    else:
        reference = "gold"
        by = "gold or a model"
        measures = " KCC and NDCG &times; 100."
    places = [view.place] if view.place else []
    total = len(view.table)
    if targets < total:
        places.append(f"{targets} of {total:,} targets, the nearest under {by}")
    title = f"<b>{escape(view.query)}</b>"
    if places:
        title += f" <small>({escape(': '.join(places))})</small>"
    chart = slope_svg(view)
    if chart and not is_live:
        chart = svg_image(chart, _CHART)
    # Both are in one row if there is room; a table that may scroll is reached by Tab.
    both = _BOTH.format(
        width=20 + 4.3 * len(view.ranks), table=_target_table(view, targets, explains), chart=chart
    )
    legend = _LEGEND
    if len(view.ranks) > 1:
        legend += _COMPARED.format(reference=reference)
    return framed(paragraph(title), both, paragraph(tag("small", legend + measures)))


def _target_table(view: QueryView, targets: int, explains: str) -> str:
    """Return a table of letter, target, gold and its rank if known, and each label.

    KCC and NDCG of each label are below, if gold is known."""
    gold = view.gold
    reference, *_ = view.ranks
    heads = th("") + th("target", "text")
    columns = []
    if gold is not None:
        heads += th("gold") + th("gold rank", "narrow")
        columns.append([td(f"{value:.4g}") for value in gold])
        columns.append(map(td, _format_ranks(view.ranks["gold"])))
    for label in view.scores:
        columns.append(_rank_cells(view, label, is_shaded=label != reference))
    lines = []
    # Ranks are among all targets; only the rows of the nearest are written.
    nearest = {*view.nearest(targets).table.index}
    rows = zip(view.table.index, view.table["target"], *columns, strict=True)
    for letter, target, *cells in rows:
        if letter not in nearest:
            continue
        button = letter
        if explains:
            button = tag("button", letter, value=explains + letter, title="why this rank?")
        text = escape(target[:_LONG])
        # Documents are targets too.
        if rest := target[_LONG:]:
            text = details(target[:_LONG], escape(rest))
        lines.append(tag("tr", td(button), td(text, "text"), *cells, data_row=letter))
    if gold is not None:
        lines.append(_measure_row(view, "KCC", kendall))
        lines.append(_measure_row(view, "NDCG", ndcg))
    return table_tag(heads, view.scores, lines)


def _measure_row(view: QueryView, name: str, measure: Callable[..., float]) -> str:
    cells = [tag("th", name, class_="measure", colspan=4)]
    for scores in view.scores.values():
        value = measure(view.gold, scores)
        # Of equal gold scores alone no order can be right.
        cells.append(td("undefined" if np.isnan(value) else f"{100 * value:.1f}"))
    return tag("tr", *cells)


def _rank_cells(view: QueryView, label: str, *, is_shaded: bool) -> list[str]:
    """Return a cell for each target: rank, distance from the reference (shaded), and score."""
    ranks = view.ranks[label]
    reference, *_ = view.ranks.values()
    # 0 anywhere among the places that the reference ties.
    moves = rank_displacement(ranks, reference)
    last = max(len(ranks) - 1, 1)
    cells = []
    for rank, move, score in zip(_format_ranks(ranks), moves, view.scores[label], strict=True):
        text = f"<b>{rank}</b>"
        kind = "number"
        places = abs(move)
        if places:
            text += f" {'▲' if move > 0 else '▼'}{places:g}"
        if is_shaded:
            # In sixths of the list: up to 1/6, 1/3, 1/2, and more.
            sixths = math.ceil(6 * places / last - 1e-6)
            kind += f" shade{min(4, sixths)}"
        cells.append(td(f"{text}<br><small>{score:.3f}</small>", kind))
    return cells


def _format_ranks(ranks: np.ndarray) -> list[str]:
    values = ranks.tolist()
    times = Counter(values)
    return [f"{'=' if times[rank] > 1 else ''}{rank:g}" for rank in values]


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
    names = shortened(ranks, 18)
    name_width = 7.2 * max(map(len, names.values()))
    # All charts are about 200 pixels wide, those of few labels less.
    step = min(80, max(36, 200 // (len(names) - 1)))
    across = range(24, 24 + step * len(names), step)
    # Headings lean by 30 degrees: half of their width is height.
    top = 14 + round(0.5 * name_width)
    deepest = float(ranks.max(axis=None))
    depth = _APART * min(deepest, DRAWN)

    def height(rank: float) -> float:
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        share = np.log(rank) / np.log(deepest)
        return top + _APART / 2 + (depth - _APART / 2) * share

    # rank -> the letters of the targets that share it, for each label
    ties: Any = [ranks.index.groupby(column) for _, column in ranks.items()]
    colours: Any = sample_colorscale(_LINES, np.linspace(0, 1, len(ranks)))
    drawn = []
    for letter, target, colour in zip(ranks.index, shown.table["target"], colours, strict=True):
        own = ranks.loc[letter]
        ends = []
        title = f"{letter}: {truncate(target, _LONG)}"
        for x, tied, (name, rank) in zip(across, ties, own.items(), strict=True):
            # A line ends beside the letters.
            ends.append((x, height(rank), 4 + 5 * len(tied[rank])))
            title += f"\n{name}: rank {rank:g}"
        line = _draw_line(ends, colour)
        drawn.append(tag("g", tag("title", escape(title)), line, data_row=letter))
    for (name, short), x, tied in zip(names.items(), across, ties, strict=True):
        drawn.append(_HEADING.format(name=escape(name), cut=escape(short), x=x, y=top - 8))
        texts = []
        for rank, tied_letters in tied.items():
            texts.append(tag("text", " ".join(tied_letters), x=x, y=f"{height(rank) + 4:g}"))
        # The letters would catch the pointer on its way to their line.
        drawn.append(tag("g", *texts, pointer_events="none"))
    wide = across[-1] + 0.87 * name_width + 24
    return _SVG.format(wide=wide, high=top + depth + 8, drawn="".join(drawn))


def _draw_line(ends: Sequence[tuple[float, float, float]], colour: str) -> str:
    """Draw a line from letter to letter, and a wider transparent one that reacts to the pointer.

    ends: x, y and half the width of the letters, in pixels.
    """
    path = ""
    for start, end in pairwise(ends):
        x, y, half_width = start
        from_right_edge = f"{x + half_width:g} {y:g}"
        x, y, half_width = end
        to_left_edge = f"{x - half_width:g} {y:g}"
        path += f"M{from_right_edge}L{to_left_edge}"
    points = " ".join(f"{x:g},{y:g}" for x, y, _ in ends)
    return _LINE.format(path=path, colour=colour, points=points)
