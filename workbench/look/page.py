"""One query's rankings as HTML: a table, and a slope chart as a picture. Needs no script, no style sheet, no network.

Front ends clean the HTML of a notebook that they do not trust, each in its own way. What is said by colour is
therefore also said by a sign, styles stand in the elements, and the chart is a picture with its words beside it.
`mathjax_ignore` keeps JupyterLab from reading what stands between two dollars as mathematics.
"""

import base64
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from workbench.files import set_name
from workbench.look._charts import svg
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

# (up to this share of the list away from gold's rank, background): light to dark, so that the order shows without
# hue too. The text on them is always dark, whatever the theme around the table.
SHADES = [(0.0, "#d9efe2"), (1 / 6, "#fdf1c7"), (1 / 3, "#fbd38d"), (1 / 2, "#f5a86b"), (1.0, "#e57a4d")]
INK = "#1a1a1a"
_LINE = "border:1px solid rgba(128,128,128,0.4);padding:2px 8px;vertical-align:top"
_CENTRED = f"{_LINE};text-align:center"
_WRAPPED = "white-space:normal;overflow-wrap:anywhere"
# class -> style. A notebook gets them in its elements (`inlined`), a page and the live views as rules.
STYLES = {
    "view": "overflow-x:auto",
    "both": "display:flex;flex-wrap:wrap;gap:0 16px;align-items:flex-start",
    "drawn": "flex:0 0 auto;max-width:100%",
    "head": "margin:0.5em 0;overflow-wrap:anywhere",
    "ranks": "border-collapse:collapse;font-size:13px;line-height:1.25;margin:0.3em 0",
    "number": f"{_CENTRED};white-space:nowrap",
    "narrow": f"{_CENTRED};white-space:normal",
    "text": f"{_LINE};text-align:left;{_WRAPPED};min-width:12em;max-width:60ch",
    "name": f"{_CENTRED};white-space:normal;overflow-wrap:break-word;min-width:3em;max-width:10em",
    "measure": f"{_LINE};text-align:right",
    "word": f"{_LINE};text-align:left;{_WRAPPED};min-width:4em;max-width:20em;font-weight:normal",
    **{f"shade{place}": f"background-color:{colour};color:{INK}" for place, (_, colour) in enumerate(SHADES)},
    # Of what brings two sentences together (blue) and apart (orange), from little to much.
    **{f"pro{part}": f"background-color:rgba(0,114,178,{0.1 * part:.1f})" for part in range(1, 5)},
    **{f"con{part}": f"background-color:rgba(213,94,0,{0.1 * part:.1f})" for part in range(1, 5)},
}
_LABEL = 48  # characters of a label; the rest shows when the pointer rests on it
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


def inlined(html: str) -> str:
    """The HTML with the styles in the elements of its classes, for a front end that has no rules for them."""

    def styled(found: re.Match[str]) -> str:
        return f'style="{";".join(STYLES[name] for name in found[1].split())}"'

    return re.sub(rf'class="((?:{"|".join(STYLES)})(?: (?:{"|".join(STYLES)}))*)"', styled, html)


def view_html(
    view: QueryView,
    *,
    chart: Callable[[QueryView], str] | None = None,
    targets: int = 100,
    words: Sequence[str] = (),
    asks: bool = False,
) -> str:
    """The query, its table and, with `chart`, its slope chart; by classes of `STYLES`. `words` are marked.

    asks: letters are buttons, to ask why a target stands there.
    """
    where = f"{view.suite}, {view.query_id}" if view.query_id != "" else ""
    aside = f"{escape(where)}{view.nearest(targets).part}".removeprefix(": ")
    head = f'<p class="head"><b>{marked(view.query, words)}</b>{f" <small>({aside})</small>" if aside else ""}</p>'
    drawn = f'<div class="drawn">{chart(view)}</div>' if chart else ""
    both = beside(_table(view, targets, words, asks), drawn, len(view.ranks))
    return f'<div class="mathjax_ignore"><div class="view">{head}{both}{_legend(view)}</div></div>'


def beside(table: str, drawn: str, labels: int) -> str:
    """A table of so many labels, which may scroll, and a drawing beside it where there is room, else below."""
    style = f"flex:1 1 {22 + 7 * labels}em;min-width:0;max-width:max-content;overflow-x:auto"
    return f'<div class="both"><div style="{style}">{table}</div>{drawn}</div>'


def _table(view: QueryView, targets: int, words: Sequence[str], asks: bool) -> str:
    """letter | target | gold | gold rank | a column a label; KCC and NDCG below. Gold where it is."""
    short = shortened(view.ranks, _LABEL)
    names = "".join(f'<th class="name" title="{escape(label)}">{escape(short[label])}</th>' for label in view.ranks)
    cells = [_rank_cells(ranks, view.reference, view.scores[label]) for label, ranks in view.ranks.items()]
    gold = [""] * view.total
    if view.gold is not None and view.gold_rank is not None:
        pairs = zip(view.gold, _with_ties(view.gold_rank), strict=True)
        gold = [f'<td class="number">{value:.4g}</td><td class="number">{rank}</td>' for value, rank in pairs]
        names = f'<th class="number">gold</th><th class="narrow">gold rank</th>{names}'
    rows = [
        f'<tr data-row="{view.letters[place]}"><td class="number">{_letter(view.letters[place], asks)}</td>'
        f'<td class="text">{_opened(view.targets[place], words)}</td>'
        f"{gold[place]}{''.join(column[place] for column in cells)}</tr>"
        for place in view.nearest_places(targets)
    ]
    for name, measure in (("KCC", kendall), ("NDCG", ndcg)) if view.gold is not None else ():
        numbers = "".join(f'<td class="number">{_hundred(value)}</td>' for value in view.measured(measure).values())
        rows.append(f'<tr><th class="measure" colspan="4">{name}</th>{numbers}</tr>')
    return (
        f'<table class="ranks"><thead><tr><td class="number"></td><th class="text">target</th>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _legend(view: QueryView) -> str:
    held = {"reference": "gold", "measures": " KCC and NDCG &times; 100."}
    if view.gold is None:
        held = {"reference": escape(next(iter(shortened(view.ranks, _LABEL).values()))), "measures": ""}
    return f'<p class="head"><small>{_LEGEND.format(**held)}</small></p>'


def slope_svg(view: QueryView) -> str:
    """Gold's rank of each target, then each label's, 1 at the top: a line a target, a crossing is a disagreement.

    Of more than `DRAWN` targets those that gold or a label has nearest, at their ranks among all, which are then drawn
    on a log scale: the first places, where it matters, have the most room.
    """
    shown = view.nearest(DRAWN)
    columns, short = shown.columns, shortened(shown.columns, 13)
    deepest = max(float(ranks.max()) for ranks in columns.values())
    step, top, left, depth = 96, 32, 48, _APART * min(deepest, DRAWN)  # left: half of the longest name
    width, height = left * 2 + step * (len(columns) - 1), top + depth + 8

    def down(rank: float) -> float:
        """Evenly down to gold's last place; on a log scale where there are more places than room."""
        if deepest <= DRAWN:
            return top + _APART * (rank - 0.5)
        return top + _APART / 2 + (depth - _APART / 2) * np.log(rank) / np.log(deepest)

    x = {name: left + step * place for place, name in enumerate(columns)}
    drawn = []
    for place, colour in enumerate(line_colours(len(shown.targets))):
        points = " ".join(f"{x[name]},{down(ranks[place]):g}" for name, ranks in columns.items())
        line = f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        reach = f'<path d="M{points}" fill="none" stroke="transparent" stroke-width="14"/>'  # of the pointer
        drawn.append(
            f'<g data-row="{shown.letters[place]}"><title>{escape(_said(shown, place))}</title>{line}{reach}</g>'
        )
    drawn.append('<g class="letters" text-anchor="middle" pointer-events="none" stroke="#ffffff" paint-order="stroke">')
    for name, ranks in columns.items():
        head = f'<text x="{x[name]}" y="14" font-weight="bold">{escape(short[name])}</text>'
        drawn.append(f'<g pointer-events="all"><title>{escape(name)}</title>{head}</g>')
        for rank, letters in shown.letters_by_rank(ranks).items():
            drawn.append(f'<text x="{x[name]}" y="{down(rank) + 4:g}" stroke-width="9">{" ".join(letters)}</text>')
    drawn.append("</g>")
    return svg(width, height, _in_words(shown), drawn)


def slope_image(view: QueryView) -> str:
    """`slope_svg` as an <img> that carries its own drawing, since front ends clean drawings out of HTML."""
    picture = slope_svg(view)
    data = base64.b64encode(picture.encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%" '
        f'alt="{escape(_in_words(view.nearest(DRAWN)))}">'
    )


def marked(text: str, words: Sequence[str]) -> str:
    """The text, escaped, with the words of a search marked."""
    if not words:
        return escape(text)
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    parts = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return "".join(f"<mark>{escape(part)}</mark>" if place % 2 else escape(part) for place, part in enumerate(parts))


def _letter(letter: str, asks: bool) -> str:
    return f'<button name="why" value="{letter}" title="why this rank?">{letter}</button>' if asks else letter


def _opened(target: str, words: Sequence[str]) -> str:
    """The target, a long one behind its beginning, which opens and closes it."""
    if len(target) <= _LONG:
        return marked(target, words)
    return f"<details><summary>{marked(target[:_LONG], words)}</summary>{marked(target[_LONG:], words)}</details>"


def _rank_cells(ranks: np.ndarray, reference: np.ndarray, scores: np.ndarray) -> list[str]:
    """Rank, places from where `reference` has it, and score."""
    distance = places_off(ranks, reference)
    share = np.abs(distance) / max(len(ranks) - 1, 1)
    return [
        f'<td class="number {shade(part)}"><b>{rank}</b>{arrow(places)}<br><small>{score:.3f}</small></td>'
        for rank, places, part, score in zip(_with_ties(ranks), distance, share, scores, strict=True)
    ]


def shade(share: float) -> str:
    """The class of a cell that lies this share of its list away from where it should."""
    return next(f"shade{place}" for place, (limit, _) in enumerate(SHADES) if share <= limit + 1e-9)


def arrow(places: float, unit: str = "") -> str:
    """▲ nearer, ▼ further, by how much; nothing for 0."""
    return "" if places == 0 else f" {'▲' if places > 0 else '▼'}{abs(places):g}{unit}"


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
    target = view.targets[place] if len(view.targets[place]) <= _LONG else view.targets[place][: _LONG - 1] + "…"
    ranks = "\n".join(f"{name}: rank {values[place]:g}" for name, values in view.columns.items())
    return f"{view.letters[place]}: {target}\n{ranks}"
