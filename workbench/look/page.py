"""One query's rankings as HTML: a table, and a slope chart as a picture; needs no script, style sheet or network."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.files import set_name
from workbench.look._charts import picture, svg
from workbench.look._html import (
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
from workbench.look._style import shortened
from workbench.look.queries import (
    QueryView,
    as_table,
    line_colours,
    ordered_queries,
    places_off,
    query_view,
    ranking_tables,
)
from workbench.metrics import kendall, ndcg

DRAWN = 20  # targets that a slope chart has room for
_APART = 20  # pixels from place to place in it

_LONG = 400  # characters of a target that a row has; the rest opens with a click
_LEGEND = (
    "Rank 1 is nearest. <b>=</b> shares its rank; <b>▲</b>/<b>▼</b> so many places nearer/further than {reference} has "
    "it, which may be anywhere among the places that {reference} ties; the darker the cell, the further. Under the "
    "rank: the score.{measures}"
)


class RankingHTML:
    """A piece of HTML that a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"RankingHTML of {len(self.html)} characters; a notebook shows it as a table"


def ranking_html(
    tables: Mapping[str, Any], query_id: str, *, suite: str | None = None, chart: bool = False, targets: int = 100
) -> RankingHTML:
    """One query's targets with gold and the rank under each label, side by side (as RankCSE table 1).

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
    """The query that two labels rank most differently, as `ranking_html` shows it; a sentence where there is none.

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
    """What `view_parts` gives, as a view of its own."""
    return framed(view_parts(view, **shown))


def view_parts(
    view: QueryView,
    *,
    chart: Callable[[QueryView], str] | None = None,
    targets: int = 100,
    words: Sequence[str] = (),
    asks: bool = False,
) -> str:
    """The query, its table and, with `chart`, its chart, such as `slope_svg`; by classes of `STYLES`.

    `words` are marked. asks: letters are buttons, to ask why a target stands there.
    """
    where = f"{view.suite}, {view.query_id}" if view.query_id != "" else ""
    aside = f"{escape(where)}{view.nearest(targets).part}".removeprefix(": ")
    title = head(f"<b>{marked(view.query, words)}</b>{f' <small>({aside})</small>' if aside else ''}")
    drawn = f'<div class="drawn">{found}</div>' if chart and (found := chart(view)) else ""
    listed = beside(_table(view, targets, words, asks), drawn, len(view.ranks), scrolls="targets")
    return f"{title}{listed}{note(_legend(view))}"


def _table(view: QueryView, targets: int, words: Sequence[str], asks: bool) -> str:
    """letter | target | gold | gold rank | a column a label; KCC and NDCG below. Gold where it is."""
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
    """Gold's rank of each target, then each label's, 1 at the top: a line a target, a crossing is a disagreement.

    Of more than `DRAWN` targets those that gold or a label has nearest, at their ranks among all, which are then drawn
    on a log scale: the first places, where it matters, have the most room. "" where there is nothing to compare.
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
        """Evenly down to gold's last place; on a log scale where there are more places than room."""
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        return top + _APART / 2 + (depth - _APART / 2) * np.log(rank) / np.log(deepest)

    groups = [shown.letters_by_rank(ranks) for ranks in columns.values()]
    across = [left + step * place for place in range(len(columns))]
    drawn = []
    for place, colour in enumerate(line_colours(len(shown.targets))):
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
    """From letter to letter (x, y, and what it takes to either side), and around it, unseen, the pointer's reach."""
    parts = [f"M{x + room:g} {y:g}L{to - other:g} {down:g}" for (x, y, room), (to, down, other) in pairwise(ends)]
    reach = " ".join(f"{x:g},{y:g}" for x, y, _ in ends)
    return (
        f'<path d="{"".join(parts)}" stroke="{colour}" stroke-width="2.5" class="seen"/>'
        f'<polyline points="{reach}" fill="none" stroke="transparent" stroke-width="14"/>'
    )


def slope_image(view: QueryView) -> str:
    """`slope_svg` as a picture."""
    return picture(slope_svg(view), _in_words(view.nearest(DRAWN)))


def _letter(letter: str, asks: bool) -> str:
    return f'<button name="why" value="{letter}" title="why this rank?">{letter}</button>' if asks else letter


def _opened(target: str, words: Sequence[str]) -> str:
    """The target, a long one behind its beginning, which opens and closes it."""
    if len(target) <= _LONG:
        return marked(target, words)
    return f"<details><summary>{marked(target[:_LONG], words)}</summary>{marked(target[_LONG:], words)}</details>"


def _rank_cells(view: QueryView, label: str) -> list[str]:
    """Rank, places from where the reference has it, and score; no colour of what nothing is held against."""
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
    """What the chart shows, for who does not see it."""
    orders = {
        name: ", ".join("=".join(letters) for letters in view.letters_by_rank(ranks).values())
        for name, ranks in view.columns.items()
    }
    return "From nearest to furthest by " + "; ".join(f"{name}: {order}" for name, order in orders.items())


def _said(view: QueryView, place: int) -> str:
    """What the chart says of one target when the pointer rests on its line."""
    ranks = "\n".join(f"{name}: rank {values[place]:g}" for name, values in view.columns.items())
    return f"{view.letters[place]}: {cut(view.targets[place], _LONG)}\n{ranks}"
