"""A table of numbers whose cells are the darker the larger they are: blue above 0, orange below."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from workbench.look._style import shortened

_LONG = 160  # characters of a row's name; the rest shows when the pointer rests on it


def grid(
    caption: str,
    values: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    largest: float,
    said: Callable[[float], str],
) -> str:
    """The table as HTML, by classes of `STYLES`; nothing is said by colour alone.

    values: [n, m], nan where there is none, with `names` of the n rows and m columns. largest: what is darkest. said:
    what stands in the cell of a value.
    """
    rows, columns = names
    short = shortened(columns, 24)
    head = "".join(
        f'<th class="name" scope="col" title="{escape(name)}">{escape(short[name])}</th>' for name in columns
    )
    body = "".join(
        f'<tr><th class="word" scope="row" title="{escape(name)}">{escape(_cut(name))}</th>'
        + "".join(_cell(value, largest, said) for value in line)
        + "</tr>"
        for name, line in zip(rows, values.tolist(), strict=True)
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table class="ranks">{title}<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cut(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG - 1]}…"


def _cell(value: float, largest: float, said: Callable[[float], str]) -> str:
    if np.isnan(value):
        return '<td class="number"></td>'
    return f'<td class="number{_depth(value / (largest or 1))}">{said(value)}</td>'


def _depth(share: float) -> str:
    """The class, after a space, of a value that is this share of the largest; "" near 0."""
    part = min(round(4 * abs(share)), 4)
    return f" {'pro' if share > 0 else 'con'}{part}" if part else ""


def beside(html: str) -> str:
    return f'<div style="display:inline-block;vertical-align:top;margin-right:1em">{html}</div>'
