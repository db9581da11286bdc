"""Colours, names and layout of all figures.

Plotly reads markup and JupyterLab mathematics in a figure's text, so `plain` escapes both."""

import json
import textwrap
from collections.abc import Sequence
from functools import cache
from html import escape
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
WIDEST = 800  # pixels; an output of JupyterLab has 844 on a screen of 1280
_BUTTONS = 300  # pixels to the right of the title, for plotly's buttons
_CHARACTER = 8  # pixels of one in the title
_LINE = 20  # pixels of a line of the title


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
    figure: go.Figure, title: str, *, width: int = 720, height: int = 380, **layout: Any
) -> go.Figure:
    """Return the figure with the common layout: the title at the left, next to plotly's buttons.

    A figure that is to be wider than `WIDEST` takes the width of the output. `height` is without
    the title."""
    # plotly does not wrap a title, and its buttons would cover a long one.
    columns = (min(width, WIDEST) - _BUTTONS) // _CHARACTER
    lines = textwrap.wrap(title, columns)
    top = 50 + _LINE * len(lines)
    is_wide = width > WIDEST
    heading = {
        "text": "<br>".join(map(plain, lines)),
        "font_size": 16,
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
        margin={"l": 60, "r": 60, "t": top, "b": 50},
        height=height + top - 40,
        width=None if is_wide else width,
        autosize=is_wide,
        **layout,
    )


@cache
def figure_theme() -> dict[str, Any]:
    """Return plotly's simple_white with our colours, on the paper of the page."""
    transparent = "rgba(0,0,0,0)"
    white = json.dumps(pio.templates["simple_white"].to_plotly_json())
    # White and black are in hundreds of places of the template; text is the shortest way to all.
    text = white.replace('"white"', f'"{transparent}"').replace("rgb(36,36,36)", GREY)
    theme = json.loads(text)
    theme["layout"]["colorway"] = COLOURS
    theme["layout"]["modebar"] = {"bgcolor": transparent, "color": GREY}
    return theme
