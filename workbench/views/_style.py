"""Colours, text and layout of all views: HTML with the classes of `STYLES`, and figures.

Front ends clean the HTML of untrusted notebooks: each colour comes with a sign, and styles are in
the elements."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import chain, count as endless, islice, product
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio

# Okabe and Ito's colours, which readers of every colour vision tell apart, and two more for many
# labels.
COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#888888",
    "#9467BD",
    "#A6761D",
]
GREY = "#767776"  # of lines and words that are no data: readable on white and on nearly black
WIDEST = 800  # pixels; an output of JupyterLab has 844 on a screen of 1280
# class -> style. A notebook gets them in its elements (`inlined`), a page and the live views as
# rules. "shade0" to "shade4": at gold's rank, and up to 1/6, 1/3, 1/2 and all of the list away from
# it, light to dark, so that they differ without hue too; the text on them is dark in every theme.
# "pro" and "con": of words that bring two sentences together (blue) or apart (orange), from little
# to much.
STYLES: dict[str, str] = json.loads(
    (Path(__file__).parent / "styles.json").read_text(encoding="utf-8")
)
_CLASSES = re.compile(r'class="((?:{0})(?: (?:{0}))*)"'.format("|".join(STYLES)))
_LONG = 160  # characters of the name of a row; a tooltip has the rest


def plain(text: object) -> str:
    """Return text that plotly shows as it is: neither markup nor mathematics, which JupyterLab sees
    between dollars."""
    return escape(str(text), quote=False).replace("$", "&#36;")


def wrapped(text: object, width: int) -> str:
    """Return `plain` text in lines of at most `width` characters."""
    return "<br>".join(map(plain, textwrap.wrap(str(text), width)))


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return name -> its beginning, up to its settings, and its end, in `width` characters.

    A name that would then be the same as another stays as it is.
    """
    short = {}
    for name in names:
        head = min(name.find("(") + 1 or width // 2, width // 2)
        is_short = len(name) <= width
        short[name] = name if is_short else f"{name[:head]}…{name[head + 1 - width :]}"
    counts = Counter(short.values())
    return {name: cut if counts[cut] == 1 else name for name, cut in short.items()}


def tick_names(names: Sequence[str], width: int = 16) -> list[str]:
    """Return names for an axis: shortened to three lines of `width` characters."""
    short = shortened(names, 3 * width)
    return [wrapped(short[name], width) for name in names]


def letters(count: int) -> list[str]:
    """Return A, B, ..., Z, AA, AB, ..."""
    names = chain.from_iterable(product(ascii_uppercase, repeat=size) for size in endless(1))
    return ["".join(name) for name in islice(names, count)]


def laid_out(
    figure: go.Figure, title: str, *, width: int = 720, height: int = 380, **layout: Any
) -> go.Figure:
    """Return the figure with the common layout: the title at the left, next to plotly's buttons.

    A figure that is to be wider than `WIDEST` takes the width of the output. `height` is without
    the title."""
    # 300 for the buttons, 8 for a character.
    lines = textwrap.wrap(title, (min(width, WIDEST) - 300) // 8)
    top = 50 + 20 * len(lines)
    is_wide = width > WIDEST
    # Plotly would merge an updated one name by name, 0.4 s for each figure.
    figure.layout["template"] = figure_theme()
    return figure.update_layout(
        title={
            "text": "<br>".join(map(plain, lines)),
            "font_size": 16,
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "yref": "container",
            "pad_l": 12,
            "pad_t": 23 if lines[1:] else 12,
        },
        margin={"l": 60, "r": 60, "t": top, "b": 50},
        height=height + top - 40,
        width=None if is_wide else width,
        autosize=is_wide,
        **layout,
    )


@cache
def figure_theme() -> dict[str, Any]:
    """Return plotly's simple_white with our colours, on the paper of the page."""
    white = json.dumps(pio.templates["simple_white"].to_plotly_json())
    theme = json.loads(white.replace('"white"', '"rgba(0,0,0,0)"').replace("rgb(36,36,36)", GREY))
    theme["layout"] |= {"colorway": COLOURS, "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY}}
    return theme


def inlined(html: str) -> str:
    """Return the HTML with styles in its elements, for a front end without style sheets."""
    return _CLASSES.sub(
        lambda match: f'style="{";".join(STYLES[name] for name in match[1].split())}"', html
    )


def tag(kind: str, /, *inside: object, **attributes: object) -> str:
    """Return an element around HTML. The values of attributes are escaped; an attribute that is ""
    is left out."""
    written = ""
    for name, value in attributes.items():
        if value != "":
            written += f' {name.strip("_").replace("_", "-")}="{escape(str(value))}"'
    return f"<{kind}{written}>{''.join(map(str, inside))}</{kind}>"


def framed(*parts: str) -> str:
    """Return the parts as one view; JupyterLab reads none of its text as mathematics."""
    return f'<div class="mathjax_ignore"><div class="view">{"".join(parts)}</div></div>'


def paragraph(html: str, **attributes: object) -> str:
    return tag("p", html, class_="head", **attributes)


def table_tag(
    heads: str, labels: Sequence[str] | Mapping[str, object], rows: Iterable[str], caption: str = ""
) -> str:
    """Return a table of headings and rows, both HTML; further headings are `labels`, as text, like
    the caption."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    short = shortened(labels, 24)
    head = heads + "".join(th(short[label], "name", label) for label in labels)
    body = "".join(rows)
    return (
        f'<table class="ranks">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def td(html: object, kind: str = "number", **attributes: object) -> str:
    return tag("td", html, class_=kind, **attributes)


def th(text: str, kind: str = "number", title: str = "") -> str:
    return (
        tag("th", escape(text), class_=f"{kind} heading", scope="col", title=title)
        if text
        else td("", kind)
    )


def grid(
    values: pd.DataFrame, largest: float, written: Callable[[float], str], caption: str = ""
) -> str:
    """Return a table of numbers whose cells are shaded by size: blue above 0, orange below.

    `largest` has the darkest shade; `written` formats a value; nan leaves a cell empty.
    """

    lines = []
    columns = list(map(str, values))
    for row, line in zip(map(str, values.index), values.to_numpy(), strict=True):
        name = truncate(row, _LONG)
        cells = [tag("th", escape(name), class_="word", scope="row", title=row)]
        for column, value in zip(columns, line, strict=True):
            cell = td("")
            if not np.isnan(value):
                title = f"{name}, {column}: {value:.3f}"
                cell = td(written(value), number_class(value, largest), title=title)
            cells.append(cell)
        lines.append(tag("tr", *cells))
    return table_tag("<td></td>", columns, lines, caption)


def number_class(value: float, largest: float) -> str:
    """Return the classes of a cell: blue above 0, orange below, darkest from `largest` on."""
    depth = min(round(4 * abs(value) / (largest or 1)), 4)
    return f"number {'pro' if value > 0 else 'con'}{depth}" if depth else "number"


def details(summary: str, html: str) -> str:
    """Return HTML that opens with a click on a text."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def problem_html(problem: Exception, label: str = "") -> str:
    """Return what is shown instead of something, such as `label`, that cannot be drawn."""
    kind = "" if isinstance(problem, ValueError | RuntimeError) else f"{type(problem).__name__}: "
    text = f"{label and f'{label}: '}{kind}{problem}"
    return f'<p class="problem" role="alert">{escape(text)}</p>'
