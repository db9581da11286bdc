"""Colours, names and layout of all figures.

Plotly reads markup and JupyterLab mathematics in a figure's text, so `plain` escapes both."""

import json
import textwrap
from collections.abc import Iterable
from functools import cache
from html import escape, unescape
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from workbench.files import Facts
from workbench.views._style import GREY, read_part, shortened

# Of every figure, beside plotly's simple_white.
_LAYOUT = json.loads(read_part("plot_layout.json"))
# Okabe and Ito's colours, which readers of every colour vision tell apart, and more for many
# labels.
COLOURS = _LAYOUT["colorway"]
WIDEST = 800  # pixels; an output of JupyterLab has 844 on a screen of 1280, 1,488 on one of 1920
HEIGHT = 420  # pixels of a figure without its title
_BUTTONS = 300  # pixels to the right of the title, for plotly's buttons
_CHARACTER = 9  # pixels of one in the title
_LINE = 23  # pixels of a line of the title


def plain(text: object) -> str:
    """Return text that plotly shows as it is: no markup, and no mathematics between dollars."""
    return escape(str(text), quote=False).replace("$", "&#36;")


def wrapped(text: object, width: int) -> str:
    """Return `plain` text in lines of at most `width` characters."""
    return "<br>".join(map(plain, textwrap.wrap(str(text), width)))


def tick_names(names: Iterable[str], width: int = 16) -> list[str]:
    """Return names for an axis: shortened to three lines of `width` characters."""
    short = shortened(names, 3 * width)
    # Wrapped after shortening: a cut in the middle keeps method and setting.
    return [wrapped(short[name], width) for name in names]


def laid_out(
    figure: go.Figure, title: str, *, width: int = WIDEST, height: int = HEIGHT, **layout: Any
) -> go.Figure:
    """Return the figure with the common layout: the title at the left, next to plotly's buttons.

    A figure takes the width of the output, unless it is to be narrower than `WIDEST`. `height` is
    without the title."""
    # plotly does not wrap a title, and its buttons would cover a long one.
    columns = (min(width, WIDEST) - _BUTTONS) // _CHARACTER
    lines = textwrap.wrap(title, columns)
    top = 50 + _LINE * len(lines)
    is_wide = width >= WIDEST
    # Plotly would merge an updated one name by name, 0.4 s for each figure.
    figure.layout["template"] = figure_theme()
    return figure.update_layout(
        title_text="<br>".join(map(plain, lines)),
        title_pad_t=23 if lines[1:] else 12,
        margin_t=top,
        height=height + top - 40,
        width=None if is_wide else width,
        autosize=is_wide,
        **layout,
    )


def figure_text(figure: Facts) -> str:
    """Return the title of a figure and the names of its parts, for who does not see it."""
    title = figure["layout"].get("title", {}).get("text")
    texts = [title, *[trace.get("name") for trace in figure["data"]]]
    # Names are escaped for plotly.
    return "figure: " + unescape("; ".join(filter(None, texts)).replace("<br>", " "))


@cache
def figure_theme() -> Facts:
    """Return plotly's simple_white with our colours, on the paper of the page."""
    theme = pio.templates["simple_white"].to_plotly_json()
    theme["layout"] |= _LAYOUT
    text = json.dumps(theme)
    # White and black are in hundreds of places of the template; text is the shortest way to all.
    return json.loads(text.replace('"white"', '"rgba(0,0,0,0)"').replace("rgb(36,36,36)", GREY))
