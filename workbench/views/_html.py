"""HTML of all views: tables, headings and notes, with the classes of `STYLES`.

Front ends clean the HTML of untrusted notebooks, each in its own way. Every colour therefore has a sign with the same
meaning, and styles are written into the elements (`inlined`). `mathjax_ignore` keeps JupyterLab from reading text
between two dollars as mathematics.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np

from workbench.views._style import shortened

# (up to this share of the list away from gold's rank, background): light to dark, so that the order shows without
# hue too. The text on them is always dark, whatever the theme around the table.
SHADES = [(0.0, "#d9efe2"), (1 / 6, "#fdf1c7"), (1 / 3, "#fbd38d"), (1 / 2, "#f5a86b"), (1.0, "#e57a4d")]
INK = "#1a1a1a"
_LINE = "border:1px solid rgba(128,128,128,0.4);padding:2px 5px;vertical-align:top"
_CENTRED = f"{_LINE};text-align:center"
_WRAPPED = "white-space:normal;overflow-wrap:anywhere"
# class -> style. A notebook gets them in its elements (`inlined`), a page and the live views as rules.
STYLES = {
    "view": "overflow-x:auto",
    "both": "display:flex;flex-wrap:wrap;gap:6px 16px;align-items:flex-start",
    "drawn": "flex:0 1 auto;max-width:100%",
    "head": "margin:0.5em 0;overflow-wrap:anywhere",
    "ranks": "border-collapse:collapse;font-size:13px;line-height:1.25;margin:0.3em 0",
    "number": f"{_CENTRED};white-space:nowrap",
    "narrow": f"{_CENTRED};white-space:normal",
    "text": f"{_LINE};text-align:left;{_WRAPPED};min-width:7em;max-width:60ch",
    "name": f"{_CENTRED};white-space:normal;overflow-wrap:break-word;width:3em;max-width:15em",
    "heading": "font-size:12px",
    "measure": f"{_LINE};text-align:right",
    "word": f"{_LINE};text-align:left;{_WRAPPED};min-width:4em;max-width:20em;font-weight:normal",
    **{f"shade{place}": f"background-color:{colour};color:{INK}" for place, (_, colour) in enumerate(SHADES)},
    # Of what brings two sentences together (blue) and apart (orange), from little to much.
    **{f"pro{part}": f"background-color:rgba(0,114,178,{0.1 * part:.1f})" for part in range(1, 5)},
    **{f"con{part}": f"background-color:rgba(213,94,0,{0.1 * part:.1f})" for part in range(1, 5)},
}
_CLASSES = re.compile(r'class="((?:{0})(?: (?:{0}))*)"'.format("|".join(STYLES)))
_LONG = 160  # characters of a row's name; the rest shows when the pointer rests on it


def inlined(html: str) -> str:
    """Return the HTML with styles in its elements, for a front end without style sheets."""
    return _CLASSES.sub(lambda found: f'style="{";".join(STYLES[name] for name in found[1].split())}"', html)


def framed(*parts: str) -> str:
    """Return the parts as one view, within which a row and its line are marked together."""
    return f'<div class="mathjax_ignore"><div class="view">{"".join(parts)}</div></div>'


def head(html: str) -> str:
    return f'<p class="head">{html}</p>'


def note(html: str) -> str:
    return head(f"<small>{html}</small>") if html else ""


def table(heads: str, rows: Iterable[str], *, caption: str = "") -> str:
    """Return a table of headings and rows, which are HTML."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table class="ranks">{title}<thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def tr(cells: Iterable[str], **marks: object) -> str:
    """Return a row of cells; `marks` become data attributes, such as `row`, the letter of a target."""
    return f"<tr{''.join(f' data-{name}={quoted(str(value))}' for name, value in marks.items())}>{''.join(cells)}</tr>"


def td(html: object, kind: str = "number", further: str = "") -> str:
    return f'<td class="{kind}"{further}>{html}</td>'


def th(text: str, kind: str = "number") -> str:
    return f'<th class="{kind} heading" scope="col">{escape(text)}</th>' if text else f'<td class="{kind}"></td>'


def label_heads(labels: Iterable[str]) -> str:
    """Return a heading for each label, shortened if there are several, with the whole label as a tooltip."""
    known = list(labels)
    short = shortened(known, 48 if len(known) < 4 else 22)
    return "".join(_named("col", "name", short[label], label) for label in known)


def quoted(text: str) -> str:
    """Return the text as the value of an attribute."""
    return f'"{escape(text)}"'


def beside(html: str, drawn: str, labels: int, *, scrolls: str = "") -> str:
    """Return HTML with a column for each label, and a drawing next to it or, if there is no room, below.

    scrolls: The accessible name of the HTML if it may scroll; it can then be reached by Tab.
    """
    style = f"--labels:{labels};flex:1 1 {20 + 4.3 * labels:g}em;min-width:0;max-width:max-content;overflow:auto"
    reached = f' data-scroll tabindex="0" role="group" aria-label={quoted(scrolls)}' if scrolls else ""
    return f'<div class="both"><div style="{style}"{reached}>{html}</div>{drawn}</div>'


def grid(
    caption: str,
    values: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    largest: float,
    said: Callable[[float], str],
    *,
    least: float = 0.0,
    whole: Mapping[str, str] | None = None,
) -> str:
    """Return a table of numbers whose cells are shaded by size: blue above `least`, orange below.

    Args:
        caption: The caption of the table.
        values: [n, m]; nan leaves a cell empty.
        names: Of the n rows and of the m columns.
        largest: The value with the darkest shade.
        said: Formats a value.
        least: The value without a shade.
        whole: name -> text, if names are letters of targets; cells then show both texts as a tooltip.
    """
    rows, columns = names
    short, texts = shortened(columns, 24), whole or {}
    told = {name: f"\n{cut(text, _LONG)}" for name, text in texts.items()}
    heading, beginning = ("number", "number") if texts else ("name", "word")
    heads = "".join(_named("col", heading, short[name], texts.get(name, name)) for name in columns)
    lines = []
    for name, line in zip(rows, values.tolist(), strict=True):
        cells = [_named("row", beginning, cut(name, _LONG), texts.get(name, name))]
        for column, value in zip(columns, line, strict=True):
            if np.isnan(value):
                cells.append(td(""))
                continue
            hover = f"{cut(name, _LONG)}, {column}: {value:.3f}{told.get(name, '')}{told.get(column, '')}"
            depth = _depth((value - least) / (largest - least or 1))
            cells.append(td(said(value), f"number{depth}", f" title={quoted(hover)}"))
        lines.append(tr(cells, **({"row": name} if texts else {})))
    return table(f"<td></td>{heads}", lines, caption=caption)


def _named(scope: str, kind: str, short: str, whole: str) -> str:
    """Return a heading of a row or column, with its whole name as a tooltip."""
    kind += " heading" if scope == "col" else ""
    return f'<th class="{kind}" scope="{scope}" title={quoted(whole)}>{escape(short)}</th>'


def _depth(share: float) -> str:
    """Return the class, after a space, of a value that is this share of the largest; "" near 0."""
    part = min(round(4 * abs(share)), 4)
    return f" {'pro' if share > 0 else 'con'}{part}" if part else ""


def aside(html: str) -> str:
    """Return HTML as one of several blocks next to each other."""
    return f'<div style="display:inline-block;vertical-align:top;margin-right:1em">{html}</div>'


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def marked(text: str, words: Sequence[str]) -> str:
    """Return the text, escaped, with the words of a search marked."""
    if not words:
        return escape(text)
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    parts = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return "".join(f"<mark>{escape(part)}</mark>" if place % 2 else escape(part) for place, part in enumerate(parts))


def shade(share: float) -> str:
    """Return the class of a cell whose rank is off by this share of the list."""
    return next(f"shade{place}" for place, (limit, _) in enumerate(SHADES) if share <= limit + 1e-9)


def arrow(places: float, unit: str = "") -> str:
    """Return ▲ (nearer) or ▼ (further) with the distance; "" for 0."""
    return "" if places == 0 else f" {'▲' if places > 0 else '▼'}{abs(places):g}{unit}"


def problem_html(problem: object) -> str:
    """Return what is shown instead of something that cannot be drawn."""
    return f'<p class="problem" role="alert">{escape(str(problem))}</p>'
