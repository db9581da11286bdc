"""One query's rankings as HTML: a table, and a slope chart as a picture. Needs no script, no style sheet, no network.

Front ends clean the HTML of a notebook that they do not trust, each in its own way. What is said by colour is
therefore also said by a sign, styles stand in the elements, and the chart is a picture with its words beside it.
`mathjax_ignore` keeps JupyterLab from reading what stands between two dollars as mathematics.
"""

import base64
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from workbench.look._style import shortened
from workbench.look.queries import QueryView, as_table, line_colours, ordered_queries, query_view, ranking_tables
from workbench.look.rank_figures import DRAWN

# (up to this share of the list away from gold's rank, background): light to dark, so that the order shows without
# hue too. The text on them is always dark, whatever the theme around the table.
SHADES = [(0.0, "#d9efe2"), (1 / 6, "#fdf1c7"), (1 / 3, "#fbd38d"), (1 / 2, "#f5a86b"), (1.0, "#e57a4d")]
INK = "#1a1a1a"
_LINE = "border:1px solid rgba(128,128,128,0.4);padding:4px 8px;vertical-align:top;"
_NUMBER = f"{_LINE}text-align:center;white-space:nowrap;"
_TEXT = f"{_LINE}text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:12em;max-width:60ch;"
_NAME = f"{_LINE}text-align:center;white-space:normal;overflow-wrap:anywhere;min-width:3em;max-width:10em;"
_LABEL = 48  # characters of a label; the rest shows when the pointer rests on it
_LONG = 400  # characters of a target that a row has; the rest opens with a click
_TABLE = "border-collapse:collapse;font-size:13px;line-height:1.35;margin:0.5em 0"
_LEGEND = (
    "Rank 1 is nearest. <b>=</b> shares its rank; <b>▲</b>/<b>▼</b> so many places nearer/further than gold has it, "
    "which may be anywhere among the places that gold ties; the darker the cell, the further. Under the rank: the "
    "score. KCC and NDCG &times; 100."
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
    return RankingHTML(view_html(view, chart=chart, targets=targets))


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
    chosen = suite or next((name for table in found.values() for name in table["suite"]), "")
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


def view_html(view: QueryView, *, chart: bool, targets: int = 100) -> str:
    """The query, its table and, when asked for, its slope chart."""
    head = (
        f'<p style="margin:0.5em 0;overflow-wrap:anywhere"><b>{escape(view.query)}</b> '
        f"<small>({escape(view.suite)}, {escape(view.query_id)}{view.nearest(targets).part})</small></p>"
    )
    drawn = f"<p>{slope_image(view)}</p>" if chart else ""
    return f'<div class="mathjax_ignore" style="overflow-x:auto">{head}{_table(view, targets)}{drawn}</div>'


def _table(view: QueryView, targets: int) -> str:
    """letter | target | gold | gold rank | a column a label; KCC and NDCG below, the legend last."""
    short = shortened(view.ranks, _LABEL)
    names = "".join(f'<th style="{_NAME}" title="{escape(label)}">{escape(short[label])}</th>' for label in view.ranks)
    cells = [_rank_cells(ranks, view.gold_rank, view.scores[label]) for label, ranks in view.ranks.items()]
    gold_ranks = _with_ties(view.gold_rank)
    rows = [
        f'<tr><td style="{_NUMBER}">{view.letters[place]}</td><td style="{_TEXT}">{_opened(view.targets[place])}</td>'
        f'<td style="{_NUMBER}">{view.gold[place]:.4g}</td><td style="{_NUMBER}">{gold_ranks[place]}</td>'
        f"{''.join(column[place] for column in cells)}</tr>"
        for place in view.nearest_places(targets)
    ]
    for name, values in (("KCC", view.kcc), ("NDCG", view.ndcg)):
        numbers = "".join(f'<td style="{_NUMBER}">{_hundred(values[label])}</td>' for label in view.ranks)
        rows.append(f'<tr><th style="{_LINE}text-align:right" colspan="4">{name}</th>{numbers}</tr>')
    return (
        f'<table style="{_TABLE}"><thead><tr><th style="{_NUMBER}"></th>'
        f'<th style="{_TEXT}">target</th><th style="{_NUMBER}">gold</th><th style="{_NUMBER}white-space:normal">gold '
        f"rank</th>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f'<p style="margin:0.5em 0"><small>{_LEGEND}</small></p>'
    )


def slope_image(view: QueryView) -> str:
    """The slope chart as an <img> that carries its own drawing; of many targets the same ones as `rank_slopes`."""
    shown = view.nearest(DRAWN)
    columns, short = shown.columns, shortened(shown.columns, 18)
    deepest = max(float(ranks.max()) for ranks in columns.values())
    step, top, left, depth = 130, 44, 70, 24 * min(deepest, DRAWN)  # left: half of the longest name
    width, height = left * 2 + step * (len(columns) - 1), top + depth + 8

    def down(rank: float) -> float:
        """Evenly down to gold's last place; on a log scale where there are more places than room."""
        return top + (24 * (rank - 0.5) if deepest <= DRAWN else 12 + (depth - 12) * np.log(rank) / np.log(deepest))

    x = {name: left + step * place for place, name in enumerate(columns)}
    drawn = [f'<rect width="{width}" height="{height:g}" fill="#ffffff"/>']
    for place, colour in enumerate(line_colours(len(shown.targets))):
        points = " ".join(f"{x[name]},{down(ranks[place]):g}" for name, ranks in columns.items())
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    for name, ranks in columns.items():
        drawn.append(f'<text x="{x[name]}" y="24" text-anchor="middle" font-weight="bold">{escape(short[name])}</text>')
        for rank, letters in shown.letters_by_rank(ranks).items():
            y, half = down(rank), 4 + 4 * len(letters)
            drawn.append(f'<rect x="{x[name] - half}" y="{y - 9:g}" width="{2 * half}" height="18" fill="#ffffff"/>')
            drawn.append(f'<text x="{x[name]}" y="{y + 4:g}" text-anchor="middle">{" ".join(letters)}</text>')
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" viewBox="0 0 {width} {height:g}" '
        f'font-family="sans-serif" font-size="12" fill="#222222">{"".join(drawn)}</svg>'
    )
    data = base64.b64encode(picture.encode()).decode()
    words = "; ".join(f"{name}: {_in_words(shown, ranks)}" for name, ranks in columns.items())
    return (
        f'<img src="data:image/svg+xml;base64,{data}" width="{width}" height="{height:g}" style="max-width:100%" '
        f'alt="From nearest to furthest by {escape(words, quote=True)}">'
    )


def _opened(target: str) -> str:
    """The target, a long one behind its beginning, which opens and closes it."""
    if len(target) <= _LONG:
        return escape(target)
    return f"<details><summary>{escape(target[:_LONG])}</summary>{escape(target[_LONG:])}</details>"


def _rank_cells(ranks: np.ndarray, gold_rank: np.ndarray, scores: np.ndarray) -> list[str]:
    """Rank, places from where gold has it, and score. Any place among those that gold ties is gold's own."""
    reach = ((gold_rank[:, None] == gold_rank).sum(axis=1) - 1) / 2
    distance = np.clip(ranks, gold_rank - reach, gold_rank + reach) - ranks
    share = np.abs(distance) / max(len(ranks) - 1, 1)
    return [
        f'<td style="{_NUMBER}background-color:{_shade(part)};color:{INK}"><b>{rank}</b>{_arrow(places)}'
        f"<br><small>{score:.3f}</small></td>"
        for rank, places, part, score in zip(_with_ties(ranks), distance, share, scores, strict=True)
    ]


def _shade(share: float) -> str:
    return next(colour for limit, colour in SHADES if share <= limit + 1e-9)


def _arrow(places: float) -> str:
    return "" if places == 0 else f" {'▲' if places > 0 else '▼'}{abs(places):g}"


def _with_ties(ranks: np.ndarray) -> list[str]:
    values = ranks.tolist()
    times = Counter(values)
    return [f"{'=' if times[rank] > 1 else ''}{rank:g}" for rank in values]


def _hundred(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{100 * value:.1f}"


def _in_words(view: QueryView, ranks: np.ndarray) -> str:
    return ", ".join("=".join(letters) for letters in view.letters_by_rank(ranks).values())
