"""Rankings of one query as HTML: a table and a slope chart, without script, style sheet or network."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.files import set_name
from workbench.metrics import kendall, ndcg
from workbench.views._charts import picture, svg
from workbench.views._html import (
    arrow,
    beside,
    cut,
    framed,
    head,
    inlined,
    label_heads,
    marked,
    note,
    shade,
    table,
    td,
    th,
    tr,
)
from workbench.views._style import shortened
from workbench.views.queries import (
    QueryView,
    as_table,
    ordered_queries,
    places_off,
    query_view,
    ranking_tables,
)

DRAWN = 20  # targets that a slope chart has room for
_APART = 20  # pixels from place to place in it

_LONG = 400  # characters of a target that a row has; the rest opens with a click
_LEGEND = (
    "Rank 1 is nearest. <b>=</b> shares its rank; <b>▲</b>/<b>▼</b> so many places nearer/further than {reference} has "
    "it, which may be anywhere among the places that {reference} ties; the darker the cell, the further. Under the "
    "rank: the score.{measures}"
)


class RankingHTML:
    """HTML that a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"RankingHTML of {len(self.html)} characters; a notebook shows it as a table"


def ranking_html(
    tables: Mapping[str, Any], query_id: str, *, suite: str | None = None, chart: bool = False, targets: int = 100
) -> RankingHTML:
    """Show the targets of a query with gold and the rank under each label (as RankCSE table 1).

    Args:
        tables: label -> a ranking table, a `Run` or a `Report`, all of the same data.
        query_id: Which query.
        suite: Which suite, where the tables hold several.
        chart: Also draw the slope chart.
        targets: At most so many rows: the targets that gold or a label has nearest, at their ranks among all.

    Raises:
        ValueError: No tables, tables of different data, no such query or suite.
    """
    view = query_view(ranking_tables(tables), query_id, suite=suite)
    return RankingHTML(inlined(view_html(view, chart=slope_image if chart else None, targets=targets)))


def most_changed(
    tables: Mapping[str, Any], between: tuple[str, str] | None = None, *, suite: str | None = None, chart: bool = True
) -> RankingHTML:
    """Show the query that two labels rank most differently as `ranking_html` does; a sentence if there is none.

    Args:
        tables: label -> a ranking table, a `Run` or a `Report`, all of the same data; those without the suite are left
            out.
        between: Which two labels; None: the first and the last.
        suite: Which suite; None: the first.
        chart: Also draw the slope chart.

    Raises:
        ValueError: No tables, tables of different data, no such label.
    """
    found = {label: as_table(label, given) for label, given in tables.items()}
    chosen = set_name(suite or "") or next((name for table in found.values() for name in table["suite"]), "")
    of_one = {label: table.loc[table["suite"] == chosen] for label, table in found.items()}
    of_one = {label: table for label, table in of_one.items() if len(table)}
    if found and not of_one:
        # A set without queries has no row here, and so looks like one that was never ranked.
        return RankingHTML(
            f"<p>No query in {escape(chosen) or 'the data'}: no sentence has more than three partners, or these "
            "rankings are not of this set.</p>"
        )
    read = ranking_tables(of_one)
    a, b = between or (next(iter(read)), list(read)[-1])
    first = ordered_queries(read, "disagreement", a, b)["query_id"].iloc[0]
    return ranking_html(read, first, chart=chart)


def view_html(view: QueryView, **shown: Any) -> str:
    """Return `view_parts` as one view."""
    return framed(view_parts(view, **shown))


def view_parts(
    view: QueryView,
    *,
    chart: Callable[[QueryView], str] | None = None,
    targets: int = 100,
    words: Sequence[str] = (),
    asks: bool = False,
) -> str:
    """Return the query, its table and, with `chart`, its chart, such as `slope_svg`, with classes of `STYLES`.

    `words` are marked. asks: Letters are buttons that explain the rank of a target.
    """
    where = f"{view.suite}, {view.query_id}" if view.query_id != "" else ""
    aside = f"{escape(where)}{view.nearest(targets).part}".removeprefix(": ")
    title = head(f"<b>{marked(view.query, words)}</b>{f' <small>({aside})</small>' if aside else ''}")
    drawn = f'<div class="drawn">{found}</div>' if chart and (found := chart(view)) else ""
    listed = beside(_table(view, targets, words, asks), drawn, len(view.ranks), scrolls="targets")
    return f"{title}{listed}{note(_legend(view))}"


def _table(view: QueryView, targets: int, words: Sequence[str], asks: bool) -> str:
    """Return a table: letter, target, gold and its rank if known, a column for each label; KCC and NDCG below."""
    heads = th("") + th("target", "text")
    columns = [_rank_cells(view, label) for label in view.ranks]
    if view.gold is not None and view.gold_rank is not None:
        heads += th("gold") + th("gold rank", "narrow")
        pairs = zip(view.gold, _with_ties(view.gold_rank), strict=True)
        columns = [[td(f"{value:.4g}") + td(rank) for value, rank in pairs], *columns]
    rows = []
    for place in view.nearest_places(targets):
        letter, target = view.letters[place], _opened(view.targets[place], words)
        texts = td(_letter(letter, asks)) + td(target, "text")
        rows.append(tr([texts, *(column[place] for column in columns)], row=letter))
    for name, measure in (("KCC", kendall), ("NDCG", ndcg)) if view.gold is not None else ():
        numbers = [td(_hundred(value)) for value in view.measured(measure).values()]
        rows.append(tr([f'<th class="measure" colspan="4">{name}</th>', *numbers]))
    return table(heads + label_heads(view.ranks), rows)


def _legend(view: QueryView) -> str:
    if len(view.columns) == 1:
        return "Rank 1 is nearest. <b>=</b> shares its rank. Under the rank: the score."
    held = {"reference": "gold", "measures": " KCC and NDCG &times; 100."}
    if view.gold is None:
        held = {"reference": escape(cut(next(iter(view.ranks)), 48)), "measures": ""}
    return _LEGEND.format(**held)


def slope_svg(view: QueryView) -> str:
    """Draw a line for each target from its rank by gold to its rank by each label; a crossing is a disagreement.

    Of more than `DRAWN` targets the nearest by gold or a label are drawn, at their ranks among all on a log scale,
    which gives the first ranks the most room. "" if there is nothing to compare.
    """
    shown = view.nearest(DRAWN)
    columns, short = shown.columns, shortened(shown.columns, 18)
    if len(columns) < 2:
        return ""
    deepest = max(float(ranks.max()) for ranks in columns.values())
    step = max(36, min(80, 200 // (len(columns) - 1)))
    wide = 7.2 * max(map(len, short.values()))
    slanted = wide > step
    left, right, top = (24, 0.87 * wide, 14 + 0.5 * wide) if slanted else (40, 40, 28)  # of the names' ends
    depth = _APART * min(deepest, DRAWN)

    def down(rank: float) -> float:
        """Return the height of a rank: linear, or on a log scale if there are more ranks than room."""
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        return top + _APART / 2 + (depth - _APART / 2) * np.log(rank) / np.log(deepest)

    groups = [shown.letters_by_rank(ranks) for ranks in columns.values()]
    across = [left + step * place for place in range(len(columns))]
    drawn = []
    for place, colour in enumerate(_line_colours(len(shown.targets))):
        ranks = [float(column[place]) for column in columns.values()]
        rooms = [4 + 5 * len(group[rank]) for group, rank in zip(groups, ranks, strict=True)]  # of letters that tie
        line = _line(list(zip(across, map(down, ranks), rooms, strict=True)), colour)
        drawn.append(f'<g data-row="{shown.letters[place]}"><title>{escape(_said(shown, place))}</title>{line}</g>')
    drawn.append('<g text-anchor="middle" pointer-events="none">')
    for name, x, group in zip(columns, across, groups, strict=True):
        turned = f'text-anchor="start" transform="rotate(-30 {x} {top - 8})"' if slanted else ""
        written = f'<text x="{x}" y="{top - 8}" font-weight="bold" {turned}>{escape(short[name])}</text>'
        drawn.append(f'<g pointer-events="all"><title>{escape(name)}</title>{written}</g>')
        drawn += [f'<text x="{x}" y="{down(rank) + 4:g}">{" ".join(tied)}</text>' for rank, tied in group.items()]
    drawn.append("</g>")
    return svg(left + step * (len(columns) - 1) + right, top + depth + 8, _in_words(shown), drawn)


def _line(ends: Sequence[tuple[float, float, float]], colour: str) -> str:
    """Draw a line from letter to letter (x, y, half width), and a wider transparent one that reacts to the pointer."""
    parts = [f"M{x + room:g} {y:g}L{to - other:g} {down:g}" for (x, y, room), (to, down, other) in pairwise(ends)]
    reach = " ".join(f"{x:g},{y:g}" for x, y, _ in ends)
    return (
        f'<path d="{"".join(parts)}" stroke="{colour}" stroke-width="2.5" class="seen"/>'
        f'<polyline points="{reach}" fill="none" stroke="transparent" stroke-width="14"/>'
    )


def _line_colours(count: int) -> list[str]:
    """Return colours from blue for the nearest target through grey to vermilion for the furthest."""
    ends = np.array([[0, 114, 178], [140, 140, 140], [213, 94, 0]])
    place = np.linspace(0, 1, count) if count > 1 else np.zeros(1)
    mixed = [np.interp(place, [0, 0.5, 1], ends[:, channel]).round().astype(int) for channel in range(3)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in zip(*mixed, strict=True)]


def slope_image(view: QueryView) -> str:
    """Return `slope_svg` as an image."""
    return picture(slope_svg(view), _in_words(view.nearest(DRAWN)))


def _letter(letter: str, asks: bool) -> str:
    return f'<button name="why" value="{letter}" title="why this rank?">{letter}</button>' if asks else letter


def _opened(target: str, words: Sequence[str]) -> str:
    """Return the target; the rest of a long one opens with a click."""
    if len(target) <= _LONG:
        return marked(target, words)
    return f"<details><summary>{marked(target[:_LONG], words)}</summary>{marked(target[_LONG:], words)}</details>"


def _rank_cells(view: QueryView, label: str) -> list[str]:
    """Return a cell for each target: rank, distance from the reference (shaded), and score."""
    ranks, held = view.ranks[label], view.ranks[label] is not view.reference
    distance = places_off(ranks, view.reference)
    share = np.abs(distance) / max(len(ranks) - 1, 1)
    kinds = [f"number {shade(part)}" if held else "number" for part in share]
    return [
        td(f"<b>{rank}</b>{arrow(places)}<br><small>{score:.3f}</small>", kind)
        for rank, places, kind, score in zip(_with_ties(ranks), distance, kinds, view.scores[label], strict=True)
    ]


def _with_ties(ranks: np.ndarray) -> list[str]:
    values = ranks.tolist()
    times = Counter(values)
    return [f"{'=' if times[rank] > 1 else ''}{rank:g}" for rank in values]


def _hundred(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{100 * value:.1f}"


def _in_words(view: QueryView) -> str:
    """Describe the chart in words."""
    orders = {
        name: ", ".join("=".join(letters) for letters in view.letters_by_rank(ranks).values())
        for name, ranks in view.columns.items()
    }
    return "From nearest to furthest by " + "; ".join(f"{name}: {order}" for name, order in orders.items())


def _said(view: QueryView, place: int) -> str:
    """Return the tooltip of the line of one target."""
    ranks = "\n".join(f"{name}: rank {values[place]:g}" for name, values in view.columns.items())
    return f"{view.letters[place]}: {cut(view.targets[place], _LONG)}\n{ranks}"
