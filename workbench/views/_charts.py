"""The frame of every chart that is drawn as SVG, and a chart as an image."""

import base64
from collections.abc import Sequence
from html import escape

from workbench.views._html import quoted
from workbench.views._style import GREY


def svg(width: float, height: float, said: str, inside: Sequence[str], *, role: str = "img") -> str:
    """Return a transparent drawing of this size that shrinks with its container; `said` describes it in words."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" font-family="sans-serif" '
        f'viewBox="0 0 {width:g} {height:g}" font-size="12" fill="{GREY}" role="{role}" aria-label="{escape(said)}">'
        f"{''.join(inside)}</svg>"
    )


def picture(drawing: str, said: str) -> str:
    """Return a drawing as an <img>, since front ends remove drawings from HTML; "" for no drawing."""
    data = base64.b64encode(drawing.encode()).decode()
    shown = f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%" alt={quoted(said)}>'
    return shown if drawing else ""
