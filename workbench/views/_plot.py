"""Colours, names and layout of all figures.

Plotly reads markup and JupyterLab mathematics in a figure's text, so `plain` escapes both."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape, unescape
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from workbench.views._style import GREY, shortened

# Okabe and Ito's colours, which readers of every colour vision tell apart, and more for many
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


def tick_names(names: Sequence[str], width: int = 16) -> list[str]:
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
    heading = {
        "text": "<br>".join(map(plain, lines)),
        "font_size": 18,
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "top",
        "yref": "container",
        "pad_l": 12,
        "pad_t": 23 if lines[1:] else 12,
    }
    # Plotly would merge an updated one name by name, 0.4 s for each figure.
    figure.layout["template"] = figure_theme()
    return figure.update_layout(
        title=heading,
        margin={"l": 70, "r": 70, "t": top, "b": 60},
        height=height + top - 40,
        width=None if is_wide else width,
        autosize=is_wide,
        **layout,
    )


def figure_text(figure: Mapping[str, Any]) -> str:
    """Return the title of a figure and the names of its parts, for who does not see it."""
    title = figure["layout"].get("title", {}).get("text")
    texts = [title, *[trace.get("name") for trace in figure["data"]]]
    # Names are escaped for plotly.
    return "figure: " + unescape("; ".join(filter(None, texts)).replace("<br>", " "))


@cache
def figure_theme() -> dict[str, Any]:
    """Return plotly's simple_white with our colours, on the paper of the page."""
    transparent = "rgba(0,0,0,0)"
    white = json.dumps(pio.templates["simple_white"].to_plotly_json())
    # White and black are in hundreds of places of the template; text is the shortest way to all.
    text = white.replace('"white"', f'"{transparent}"').replace("rgb(36,36,36)", GREY)
    theme = json.loads(text)
    theme["layout"]["colorway"] = COLOURS
    theme["layout"]["font"]["size"] = 14
    theme["layout"]["modebar"] = {"bgcolor": transparent, "color": GREY}
    return theme
