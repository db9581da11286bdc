"""One query's rankings as HTML: a table, and a slope chart as a picture. Needs no script, no style sheet, no network.

Front ends clean the HTML of a notebook that they do not trust, each in its own way. What is said by colour is
therefore also said by a sign, styles stand in the elements, and the chart is a picture with its words beside it.
"""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from workbench.look.queries import QueryView, line_colours, query_view, ranking_tables

# (up to this share of the list away from gold's rank, background): light to dark, so that the order shows without
# hue too. The text on them is always dark, whatever the theme around the table.
SHADES = [(0.0, "#d9efe2"), (1 / 6, "#fdf1c7"), (1 / 3, "#fbd38d"), (1 / 2, "#f5a86b"), (1.0, "#e57a4d")]
INK = "#1a1a1a"
_LINE = "border:1px solid rgba(128,128,128,0.4);padding:4px 8px;vertical-align:top;"
_NUMBER = f"{_LINE}text-align:center;white-space:nowrap;"
_TEXT = f"{_LINE}text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:16em;max-width:60ch;"
_TABLE = "border-collapse:collapse;font-size:13px;line-height:1.35;margin:0.5em 0"
_LEGEND = (
    "Rank 1 is nearest. <b>=</b> shares its rank; <b>▲</b>/<b>▼</b> so many places nearer/further than gold has it; "
    "the darker the cell, the further from gold's rank. Under the rank: the score. KCC and NDCG &times; 100."
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
    tables: Mapping[str, Any], query_id: str, *, suite: str | None = None, chart: bool = False
) -> RankingHTML:
    """One query's targets with gold and the rank under each label, side by side (as RankCSE table 1).

    Args:
        tables: label -> a ranking table, a `Run` or a `Report`, all of the same data.
        query_id: Which query.
        suite: Which suite, where the tables hold several.
        chart: Also draw the slope chart.

    Raises:
        ValueError: No tables, tables of different data, no such query or suite.
    """
    view = query_view(ranking_tables(tables), query_id, suite=suite)
    return RankingHTML(view_html(view, chart=chart))


def view_html(view: QueryView, *, chart: bool) -> str:
    """The query, its table and, when asked for, its slope chart."""
    head = (
        f'<p style="margin:0.5em 0;overflow-wrap:anywhere"><b>{escape(view.query)}</b> '
        f"<small>({escape(view.suite)}, {escape(view.query_id)})</small></p>"
    )
    drawn = f"<p>{slope_image(view)}</p>" if chart else ""
    return f'<div style="overflow-x:auto">{head}{table_html(view)}{drawn}</div>'


def table_html(view: QueryView) -> str:
    """letter | target | gold | gold rank | a column a label; KCC and NDCG below, the legend last."""
    names = "".join(f'<th style="{_NUMBER}white-space:normal">{escape(label)}</th>' for label in view.ranks)
    cells = [_rank_cells(ranks, view.gold_rank, view.scores[label]) for label, ranks in view.ranks.items()]
    rows = [
        f'<tr><td style="{_NUMBER}">{letter}</td><td style="{_TEXT}">{escape(target)}</td>'
        f'<td style="{_NUMBER}">{gold:.4g}</td><td style="{_NUMBER}">{rank}</td>{"".join(beside)}</tr>'
        for letter, target, gold, rank, *beside in zip(
            view.letters, view.targets, view.gold, _with_ties(view.gold_rank), *cells, strict=True
        )
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
    """The slope chart as an <img> that carries its own drawing: gold's rank, then each label's, a line a target."""
    columns = view.columns
    step, row, top, left = 130, 24, 44, 70  # left: half of the longest name
    width, height = left * 2 + step * (len(columns) - 1), top + row * len(view.targets) + 8
    x = {name: left + step * place for place, name in enumerate(columns)}
    drawn = [f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for place, colour in enumerate(line_colours(len(view.targets))):
        points = " ".join(f"{x[name]},{top + row * (ranks[place] - 0.5):g}" for name, ranks in columns.items())
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    for name, ranks in columns.items():
        short = name if len(name) <= 18 else name[:17] + "…"
        drawn.append(f'<text x="{x[name]}" y="24" text-anchor="middle" font-weight="bold">{escape(short)}</text>')
        for rank, letters in view.letters_by_rank(ranks).items():
            y = top + row * (rank - 0.5)
            half = 4 + 4 * len(letters)
            drawn.append(f'<rect x="{x[name] - half}" y="{y - 9:g}" width="{2 * half}" height="18" fill="#ffffff"/>')
            drawn.append(f'<text x="{x[name]}" y="{y + 4:g}" text-anchor="middle">{" ".join(letters)}</text>')
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="#222222">{"".join(drawn)}</svg>'
    )
    data = base64.b64encode(picture.encode()).decode()
    words = "; ".join(f"{name}: {_in_words(view, ranks)}" for name, ranks in columns.items())
    return (
        f'<img src="data:image/svg+xml;base64,{data}" width="{width}" height="{height}" '
        f'alt="From nearest to furthest by {escape(words, quote=True)}">'
    )


def _rank_cells(ranks: np.ndarray, gold_rank: np.ndarray, scores: np.ndarray) -> list[str]:
    distance = gold_rank - ranks
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
    return [f"{'=' if values.count(rank) > 1 else ''}{rank:g}" for rank in values]


def _hundred(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{100 * value:.1f}"


def _in_words(view: QueryView, ranks: np.ndarray) -> str:
    return ", ".join("=".join(letters) for letters in view.letters_by_rank(ranks).values())
