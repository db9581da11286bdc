"""Rankings of one query as HTML: a table and a slope chart, without script, style sheet or network."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.files import set_name
from workbench.metrics import kendall, ndcg
from workbench.views._html import (
    format_move,
    framed,
    inlined,
    label_heads,
    mark_words,
    paragraph,
    picture,
    shade_class,
    side_by_side_html,
    small_print,
    svg,
    table_tag,
    tag,
    td,
    th,
    truncate,
)
from workbench.views._style import shortened
from workbench.views.queries import (
    QueryView,
    SuiteRankings,
    rank_displacement,
    ranking_table_of,
    ranking_tables,
    suites_of,
)

DRAWN = 20  # targets that a slope chart has room for
_APART = 20  # pixels from place to place in it
_LONG = 400  # characters of a target that a row has; the rest opens with a click
_LEGEND = (
    "Rank 1 is nearest. <b>=</b> shares its rank; <b>▲</b>/<b>▼</b> so many places nearer/further than {reference} has "
    "it, which may be anywhere among the places that {reference} ties; the darker the cell, the further. Under the "
    "rank: the score.{measures}"
)


@dataclass(frozen=True)
class RankingHTML:
    """HTML that a notebook shows."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.html


def ranking_html(
    tables: Mapping[str, Any], query_id: str, *, suite: str | None = None, chart: bool = False, targets: int = 100
) -> RankingHTML:
    """Show the targets of a query with gold and the rank under each label (as RankCSE table 1).

    Args:
        tables: label -> a ranking table, a `Run` or a `Report`, all of the same data.
        query_id: Which query.
        suite: Which suite, if the tables have several.
        chart: Also draw the slope chart.
        targets: At most this many rows: the targets nearest under gold or a label, with their ranks among all.

    Raises:
        ValueError: No tables, tables of different data, no such query or suite.
    """
    read = ranking_tables(tables)
    suites = [suite] if suite else [name for name in suites_of(read) if query_id in SuiteRankings(read, name).rows]
    if len(suites) > 1:
        raise ValueError(f"query {query_id!r} is in {', '.join(suites)}; say which suite")
    view = SuiteRankings(read, suites[0] if suites else suites_of(read)[0]).view(query_id)
    return RankingHTML(inlined(view_html(view, chart=slope_image if chart else None, targets=targets)))


def most_changed(
    tables: Mapping[str, Any], between: tuple[str, str] | None = None, *, suite: str | None = None, chart: bool = True
) -> RankingHTML:
    """Show the query that two labels rank most differently as `ranking_html` does; a sentence if there is none.

    Args:
        tables: label -> a ranking table, a `Run` or a `Report` of the same data; those without the suite are left out.
        between: Which two labels; None: the first and the last.
        suite: Which suite; None: the first.
        chart: Also draw the slope chart.

    Raises:
        ValueError: No tables, or tables of different data.
        KeyError: No such label.
    """
    found = {label: ranking_table_of(label, given) for label, given in tables.items()}
    chosen = set_name(suite or "") or next((name for table in found.values() for name in table["suite"]), "")
    of_one = {label: table for label, table in found.items() if chosen in table["suite"].unique()}
    if found and not of_one:  # a set without queries has no row, like one that was never ranked
        return RankingHTML(
            f"<p>No query in {escape(chosen) or 'the data'}: no sentence has more than three partners, or these "
            "rankings are not of this set.</p>"
        )
    rankings = SuiteRankings(ranking_tables(of_one), chosen)
    values = rankings.values("disagreement", *(between or (rankings.labels[0], rankings.labels[-1])))
    first = list(rankings.rows)[np.argsort(-values, kind="stable")[0]]
    return ranking_html(of_one, first, suite=chosen, chart=chart)


def view_html(view: QueryView, **options: Any) -> str:
    """Return `view_parts` as one view."""
    return framed(view_parts(view, **options))


def view_parts(
    view: QueryView,
    *,
    chart: Callable[[QueryView], str] | None = None,
    targets: int = 100,
    words: Sequence[str] = (),
    explains: bool = False,
) -> str:
    """Return the query, its table and, with `chart`, its chart, such as `slope_svg`, with classes of `STYLES`.

    `words` are marked. explains: Letters are buttons that explain the rank of a target.
    """
    where = f"{view.suite}, {view.query_id}" if view.query_id != "" else ""
    details = f"{escape(where)}{view.nearest(targets).part}".removeprefix(": ")
    title = f"<b>{mark_words(view.query, words)}</b>{f' <small>({details})</small>' if details else ''}"
    table = _target_table(view, targets, words, explains)
    both = side_by_side_html(table, chart(view) if chart else "", len(view.ranks), name="targets")
    return f"{paragraph(title)}{both}{small_print(_legend(view))}"


def _target_table(view: QueryView, targets: int, words: Sequence[str], explains: bool) -> str:
    """Return a table: letter, target, gold and its rank if known, a column for each label; KCC and NDCG below."""
    heads = th("") + th("target", "text")
    columns = [_rank_cells(view, label) for label in view.ranks]
    if view.gold is not None:
        heads += th("gold") + th("gold rank", "narrow")
        pairs = zip(view.gold, _format_ranks(view.columns["gold"]), strict=True)
        columns = [[td(f"{value:.4g}") + td(rank) for value, rank in pairs], *columns]
    rows, letters, texts_of = [], view.letters, view.table["target"].tolist()
    for place in view.nearest_places(targets):
        letter = letters[place]
        button = tag("button", letter, name="why", value=letter, title="why this rank?") if explains else letter
        texts = td(button), td(_target_text(texts_of[place], words), "text")
        rows.append(tag("tr", *texts, *(column[place] for column in columns), data_row=letter))
    for name, measure in (("KCC", kendall), ("NDCG", ndcg)) if view.gold is not None else ():
        values = [measure(view.table["gold"], scores) for scores in view.scores.values()]
        numbers = [td("undefined" if np.isnan(value) else f"{100 * value:.1f}") for value in values]
        rows.append(tag("tr", tag("th", name, class_="measure", colspan=4), *numbers))
    return table_tag(heads + label_heads(view.ranks), rows)


def _target_text(target: str, words: Sequence[str]) -> str:
    """Return the target; the rest of a long one opens with a click."""
    if len(target) <= _LONG:
        return mark_words(target, words)
    first, rest = mark_words(target[:_LONG], words), mark_words(target[_LONG:], words)
    return tag("details", tag("summary", first), rest)


def _rank_cells(view: QueryView, label: str) -> list[str]:
    """Return a cell for each target: rank, distance from the reference (shaded), and score."""
    (name, reference), ranks = next(iter(view.columns.items())), view.ranks[label]
    moves = rank_displacement(ranks, reference)
    shares = np.abs(moves) / max(len(ranks) - 1, 1)
    kinds = ["number" if label == name else f"number {shade_class(share)}" for share in shares]
    return [
        td(f"<b>{rank}</b>{format_move(move)}<br><small>{score:.3f}</small>", kind)
        for rank, move, kind, score in zip(_format_ranks(ranks), moves, kinds, view.scores[label], strict=True)
    ]


def _format_ranks(ranks: np.ndarray) -> list[str]:
    times = Counter(ranks.tolist())
    return [f"{'=' if times[rank] > 1 else ''}{rank:g}" for rank in ranks.tolist()]


def _legend(view: QueryView) -> str:
    if len(view.columns) == 1:
        return "Rank 1 is nearest. <b>=</b> shares its rank. Under the rank: the score."
    if view.gold is None:
        return _LEGEND.format(reference=escape(truncate(next(iter(view.ranks)), 48)), measures="")
    return _LEGEND.format(reference="gold", measures=" KCC and NDCG &times; 100.")


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

    def height(rank: float) -> float:
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        return top + _APART / 2 + (depth - _APART / 2) * np.log(rank) / np.log(deepest)

    groups = [shown.letters_by_rank(ranks) for ranks in columns.values()]
    across = [left + step * place for place in range(len(columns))]
    drawn = []
    every_rank = np.column_stack(list(columns.values())).tolist()
    colours = _line_colours(len(every_rank))
    for letter, target, colour, ranks in zip(shown.letters, shown.table["target"], colours, every_rank, strict=True):
        rooms = [4 + 5 * len(group[rank]) for group, rank in zip(groups, ranks, strict=True)]  # of letters that tie
        line = _draw_line(list(zip(across, map(height, ranks), rooms, strict=True)), colour)
        named = "".join(f"\n{name}: rank {rank:g}" for name, rank in zip(columns, ranks, strict=True))
        title = f"{letter}: {truncate(target, _LONG)}{named}"
        drawn.append(f'<g data-row="{letter}"><title>{escape(title)}</title>{line}</g>')
    drawn.append('<g text-anchor="middle" pointer-events="none">')
    for name, x, group in zip(columns, across, groups, strict=True):
        turned = f'text-anchor="start" transform="rotate(-30 {x} {top - 8})"' if slanted else ""
        heading = f'<text x="{x}" y="{top - 8}" font-weight="bold" {turned}>{escape(short[name])}</text>'
        drawn.append(f'<g pointer-events="all"><title>{escape(name)}</title>{heading}</g>')
        drawn += [f'<text x="{x}" y="{height(rank) + 4:g}">{" ".join(tied)}</text>' for rank, tied in group.items()]
    drawn.append("</g>")
    return svg(left + step * (len(columns) - 1) + right, top + depth + 8, _describe_orders(shown), drawn)


def slope_image(view: QueryView) -> str:
    """Return `slope_svg` as an image."""
    return picture(slope_svg(view), _describe_orders(view.nearest(DRAWN)))


def _draw_line(ends: Sequence[tuple[float, float, float]], colour: str) -> str:
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
    places = np.linspace(0, 1, count) if count > 1 else np.zeros(1)
    mixed = [np.interp(places, [0, 0.5, 1], channel).round().astype(int) for channel in ends.T]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in zip(*mixed, strict=True)]


def _describe_orders(view: QueryView) -> str:
    orders = {
        name: ", ".join("=".join(letters) for letters in view.letters_by_rank(ranks).values())
        for name, ranks in view.columns.items()
    }
    return "From nearest to furthest by " + "; ".join(f"{name}: {order}" for name, order in orders.items())
