"""HTML of all views: tables, headings and notes, with the classes of `STYLES`.

Front ends clean the HTML of untrusted notebooks differently. Each colour therefore comes with a sign of the same
meaning, and styles are written into the elements (`inlined`). `mathjax_ignore` keeps JupyterLab from reading text
between two dollars as mathematics.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd

from workbench.views._style import shortened

# At gold's rank, and up to 1/6, 1/3, 1/2 and all of the list away from it: light to dark, so that they differ without
# hue too. The text on them is dark in every theme.
_SHADES = ["#d9efe2", "#fdf1c7", "#fbd38d", "#f5a86b", "#e57a4d"]
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
    **{f"shade{place}": f"background-color:{colour};color:#1a1a1a" for place, colour in enumerate(_SHADES)},
    # Of what brings two sentences together (blue) and apart (orange), from little to much.
    **{f"pro{part}": f"background-color:rgba(0,114,178,{0.1 * part:.1f})" for part in range(1, 5)},
    **{f"con{part}": f"background-color:rgba(213,94,0,{0.1 * part:.1f})" for part in range(1, 5)},
}
_CLASSES = re.compile(r'class="((?:{0})(?: (?:{0}))*)"'.format("|".join(STYLES)))
_LONG = 160  # characters of the name of a row; a tooltip has the rest


def inlined(html: str) -> str:
    """Return the HTML with styles in its elements, for a front end without style sheets."""
    return _CLASSES.sub(lambda match: f'style="{";".join(STYLES[name] for name in match[1].split())}"', html)


def tag(kind: str, /, *inside: object, **attributes: object) -> str:
    """Return an element around HTML. The values of attributes are escaped; an attribute that is "" is left out."""
    names = {key: key.strip("_").replace("_", "-") for key, value in attributes.items() if value != ""}
    written = "".join(f' {name}="{escape(str(attributes[key]))}"' for key, name in names.items())
    return f"<{kind}{written}>{''.join(map(str, inside))}</{kind}>"


def framed(*parts: str) -> str:
    """Return the parts as one view; pointing at a row marks its line in the same view."""
    return tag("div", tag("div", *parts, class_="view"), class_="mathjax_ignore")


def paragraph(html: str, **attributes: object) -> str:
    return tag("p", html, class_="head", **attributes)


def small_print(html: str) -> str:
    return paragraph(tag("small", html)) if html else ""


def table_tag(heads: str, rows: Iterable[str], caption: str = "") -> str:
    """Return a table of headings and rows, both HTML, and a caption, which is text."""
    title = tag("caption", escape(caption)) if caption else ""
    return tag("table", title, tag("thead", tag("tr", heads)), tag("tbody", *rows), class_="ranks")


def td(html: object, kind: str = "number", **attributes: object) -> str:
    return tag("td", html, class_=kind, **attributes)


def th(text: str, kind: str = "number", title: str = "") -> str:
    return tag("th", escape(text), class_=f"{kind} heading", scope="col", title=title) if text else td("", kind)


def label_heads(labels: Sequence[str] | Mapping[str, object]) -> str:
    """Return a heading for each label, shortened, with the whole label as a tooltip."""
    short = shortened(labels, 24)
    return "".join(th(short[label], "name", label) for label in labels)


def grid(values: pd.DataFrame, largest: float, written: Callable[[float], str], caption: str = "") -> str:
    """Return a table of numbers whose cells are shaded by size: blue above 0, orange below.

    `largest` has the darkest shade; `written` formats a value; nan leaves a cell empty.
    """

    def cell(row: str, column: str, value: float) -> str:
        if np.isnan(value):
            return td("")
        depth = min(round(4 * abs(value / (largest or 1))), 4)
        kind = f"number {'pro' if value > 0 else 'con'}{depth}" if depth else "number"
        return td(written(value), kind, title=f"{truncate(row, _LONG)}, {column}: {value:.3f}")

    lines, columns = [], list(map(str, values))
    for row, line in zip(map(str, values.index), values.to_numpy(), strict=True):
        head = tag("th", escape(truncate(row, _LONG)), class_="word", scope="row", title=row)
        lines.append(tag("tr", head, *(cell(row, *one) for one in zip(columns, line, strict=True))))
    return table_tag(f"<td></td>{label_heads(columns)}", lines, caption)


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def problem_html(problem: Exception, label: str = "") -> str:
    """Return what is shown instead of something that cannot be drawn."""
    kind = "" if isinstance(problem, ValueError | RuntimeError) else type(problem).__name__
    text = ": ".join(filter(None, [label, kind, str(problem)]))
    return tag("p", escape(text), class_="problem", role="alert")
