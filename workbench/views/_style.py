"""Colours and layout of all figures, and names that are neither markup nor mathematics."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from itertools import chain, count as endless, cycle, islice, product
from string import ascii_uppercase
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

# Okabe and Ito's colours, which readers of every colour vision tell apart, and two more for many labels.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888", "#9467BD", "#A6761D"]
GREY = "#767776"  # of what is no data: readable on white and on nearly black
# On a page that defines its ink, JupyterLab's or VS Code's, the grey text of figures has that colour.
FIGURE_RULES = (
    f'.js-plotly-plot text[style*="rgb{tuple(bytes.fromhex(GREY[1:]))}"] '
    f"{{ fill: var(--jp-ui-font-color1, var(--vscode-editor-foreground, {GREY})) !important; }}"
)
NARROWEST, WIDEST = 600, 800  # pixels; an output of JupyterLab has 844 on a screen of 1280


def plain(text: object) -> str:
    """Return text that plotly shows as it is: neither markup nor mathematics, which JupyterLab sees between dollars."""
    return escape(str(text), quote=False).replace("$", "&#36;")


def wrapped(text: object, width: int) -> str:
    """Return `plain` text in lines of at most `width` characters."""
    return "<br>".join(map(plain, textwrap.wrap(str(text), width)))


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return name -> its beginning, up to its settings, and its end, in `width` characters.

    A name that would then be the same as another stays as it is.
    """
    known = list(dict.fromkeys(names))
    heads = [min(name.find("(") + 1 or width // 2, width // 2) for name in known]
    short = [
        name if len(name) <= width else f"{name[:head]}…{name[head + 1 - width :]}"
        for name, head in zip(known, heads, strict=True)
    ]
    return {name: cut if short.count(cut) == 1 else name for name, cut in zip(known, short, strict=True)}


def tick_names(names: Sequence[str], width: int = 16) -> list[str]:
    """Return names for an axis: shortened to three lines of `width` characters."""
    short = shortened(names, 3 * width)
    return [wrapped(short[name], width) for name in names]


def letters(count: int) -> list[str]:
    """Return A, B, ..., Z, AA, AB, ..."""
    names = chain.from_iterable(product(ascii_uppercase, repeat=size) for size in endless(1))
    return ["".join(name) for name in islice(names, count)]


def coloured(names: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Return colour, name of each; colours repeat if there are more names."""
    return zip(cycle(COLOURS), names, strict=False)


def laid_out(figure: go.Figure, title: str, *, width: int = 720, height: int = 380, **layout: Any) -> go.Figure:
    """Return the figure with the common layout: the title at the left, next to plotly's buttons.

    A figure that is to be wider than `WIDEST` takes the width of the output. `height` is without further lines of the
    title, which are added.
    """
    width = max(width, NARROWEST)  # room for a title next to the buttons
    lines = textwrap.wrap(title, (min(width, WIDEST) - 300) // 8)  # 300 for the buttons, 8 for a character
    notes: Any = figure.layout["annotations"]
    further, panels = 20 * (len(lines) - 1), any(note.yref == "paper" for note in notes)
    place = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"l": 12, "t": 23 if further else 12}}
    text = {"text": "<br>".join(map(plain, lines)), "font": {"size": 16}, "yref": "container", **place}
    margin = {"l": 60, "r": 60, "t": 80 if panels else 40, "b": 50} | layout.pop("margin", {})
    margin["t"] += further
    size = {"height": height + further, "width": width if width <= WIDEST else None, "autosize": width > WIDEST}
    figure.layout["template"] = figure_theme()  # plotly would merge an updated one name by name, 0.4 s for each figure
    return figure.update_layout(title=text, margin=margin, **size, **layout)


@cache
def figure_theme() -> dict[str, Any]:
    """Return plotly's simple_white with our colours, on the paper of the page."""
    white = json.dumps(pio.templates["simple_white"].to_plotly_json())
    theme = json.loads(white.replace('"white"', '"rgba(0,0,0,0)"').replace("rgb(36,36,36)", GREY))
    theme["layout"]["colorway"] = COLOURS
    return theme


def nothing_yet() -> go.Figure:
    """Return what is shown instead of a figure if there are no runs."""
    return laid_out(go.Figure(), "No finished runs yet", height=120)
