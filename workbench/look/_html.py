"""HTML of every view: tables, headings and what stands around them, by classes of `STYLES`.

Front ends clean the HTML of a notebook that they do not trust, each in its own way. What is said by colour is
therefore also said by a sign, and styles stand in the elements (`inlined`). `mathjax_ignore` keeps JupyterLab from
reading what stands between two dollars as mathematics.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np

from workbench.look._style import shortened

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
    "whole": "white-space:nowrap",
    "measure": f"{_LINE};text-align:right",
    "word": f"{_LINE};text-align:left;{_WRAPPED};min-width:4em;max-width:20em;font-weight:normal",
    **{f"shade{place}": f"background-color:{colour};color:{INK}" for place, (_, colour) in enumerate(SHADES)},
    # Of what brings two sentences together (blue) and apart (orange), from little to much.
    **{f"pro{part}": f"background-color:rgba(0,114,178,{0.1 * part:.1f})" for part in range(1, 5)},
    **{f"con{part}": f"background-color:rgba(213,94,0,{0.1 * part:.1f})" for part in range(1, 5)},
}
_CLASSES = re.compile(r'class="((?:{0})(?: (?:{0}))*)"'.format("|".join(STYLES)))
_WORD = 24  # characters of a word of a heading that is not broken
_LONG = 160  # characters of a row's name; the rest shows when the pointer rests on it


def inlined(html: str) -> str:
    """The HTML with the styles in the elements of its classes, for a front end that has no rules for them."""
    return _CLASSES.sub(lambda found: f'style="{";".join(STYLES[name] for name in found[1].split())}"', html)


def framed(*parts: str) -> str:
    """A view of its own: what is marked when the pointer rests on it is marked within."""
    return f'<div class="mathjax_ignore"><div class="view">{"".join(parts)}</div></div>'


def head(html: str) -> str:
    return f'<p class="head">{html}</p>'


def note(html: str) -> str:
    return head(f"<small>{html}</small>") if html else ""


def table(heads: str, rows: Iterable[str], *, caption: str = "", walk: bool = False) -> str:
    """Headings and rows, HTML, as a table. walk: arrow keys go through the buttons of its rows."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = f"<tbody{' data-walk' if walk else ''}>{''.join(rows)}</tbody>"
    return f'<table class="ranks">{title}<thead><tr>{heads}</tr></thead>{body}</table>'


def tr(cells: Iterable[str], **marks: object) -> str:
    """A row of cells. marks: its attributes without "data-", such as `row`, the letter that it stands for."""
    return f"<tr{''.join(f' data-{name}={quoted(str(value))}' for name, value in marks.items())}>{''.join(cells)}</tr>"


def td(html: object, kind: str = "number", further: str = "") -> str:
    return f'<td class="{kind}"{further}>{html}</td>'


def th(text: str, kind: str = "number") -> str:
    return f'<th class="{kind} heading" scope="col">{escape(text)}</th>' if text else f'<td class="{kind}"></td>'


def label_heads(labels: Iterable[str]) -> str:
    """A heading a label; of several a short one, the whole shows when the pointer rests on it."""
    known = list(labels)
    short = shortened(known, 48 if len(known) < 4 else 22)
    return "".join(_named("col", "name", short[label], label) for label in known)


def quoted(text: str) -> str:
    """The text as an attribute's value."""
    return f'"{escape(text)}"'


def beside(html: str, drawn: str, labels: int, *, scrolls: str = "") -> str:
    """What has a column for each of so many labels, and a drawing beside it where there is room, else below.

    scrolls: what it is called where it may scroll, and is reached by Tab.
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
    """A table of numbers whose cells are the darker the larger they are: blue above `least`, orange below.

    values: [n, m], nan where there is none, with `names` of the n rows and m columns. largest: what is darkest. said:
    what stands in the cell of a value. whole: name -> text, where names are letters; a row is then marked together
    with all that has its letter, and resting on a cell says both texts.
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
    """A heading of a row or column; the whole name shows when the pointer rests on it.

    A label breaks at spaces, behind hyphens and =, and where it was shortened.
    """
    text = re.sub(r"[^\s…=-]+[…=-]*", _unbroken, short) if kind == "name" else escape(short)
    kind += " heading" if scope == "col" else ""
    return f'<th class="{kind}" scope="{scope}" title={quoted(whole)}>{text}</th>'


def _unbroken(found: re.Match[str]) -> str:
    word = found[0]
    inside = word.strip("(),;…=-").replace("_", "")
    breaks = not inside.isalnum() and len(word) <= _WORD  # a browser breaks behind signs
    return f'<span class="whole">{escape(word)}</span>' if breaks else escape(word)


def _depth(share: float) -> str:
    """The class, after a space, of a value that is this share of the largest; "" near 0."""
    part = min(round(4 * abs(share)), 4)
    return f" {'pro' if share > 0 else 'con'}{part}" if part else ""


def aside(html: str) -> str:
    """One of several that stand beside each other."""
    return f'<div style="display:inline-block;vertical-align:top;margin-right:1em">{html}</div>'


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def marked(text: str, words: Sequence[str]) -> str:
    """The text, escaped, with the words of a search marked."""
    if not words:
        return escape(text)
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    parts = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return "".join(f"<mark>{escape(part)}</mark>" if place % 2 else escape(part) for place, part in enumerate(parts))


def shade(share: float) -> str:
    """The class of a cell that lies this share of its list away from where it should."""
    return next(f"shade{place}" for place, (limit, _) in enumerate(SHADES) if share <= limit + 1e-9)


def arrow(places: float, unit: str = "") -> str:
    """▲ nearer, ▼ further, by how much; nothing for 0."""
    return "" if places == 0 else f" {'▲' if places > 0 else '▼'}{abs(places):g}{unit}"


def refused(problem: object) -> str:
    """What stands where something cannot be drawn."""
    return f'<p class="problem" role="alert">{escape(str(problem))}</p>'


def choice(name: str, options: Mapping[str, str], chosen: str, *, title: str = "") -> str:
    """A drop-down list with its name before it. options: value -> what is shown."""
    shown = "".join(
        f"<option value={quoted(value)}{f' title={quoted(value)}' if '…' in text else ''}"
        f"{' selected' if value == chosen else ''}>{escape(text)}</option>"
        for value, text in options.items()
    )
    return f'<label title={quoted(title)}>{escape(title or name)} <select name="{name}">{shown}</select></label>'


def lines(name: str, text: str, words: str, rows: int = 1) -> str:
    """A field of so many lines; of one line it grows with its text, and Enter puts no other."""
    given = min(max(rows, len(text) // 40 + 1), 8)  # where a browser does not let it grow by itself
    named = f'name="{name}" aria-label={quoted(words)}'  # else what is written in it may be read as its name too
    box = f'<textarea {named} rows="{given}" data-rows="{rows}">\n{escape(text)}</textarea>'
    return f'<label class="wide">{escape(words)} {box}</label>'


def field(name: str, value: object, words: str = "", *, wide: bool = False, **attributes: object) -> str:
    """An <input>, with its words before it where there are any; `wide`: as wide as there is room.

    attributes: with - for _; True: without a value; False: none. value None: without, as of a box to tick.
    """
    given = attributes if value is None else {**attributes, "value": value}
    kept = {key.replace("_", "-"): each for key, each in given.items() if each is not False}
    put = "".join(f" {key}" if each is True else f" {key}={quoted(str(each))}" for key, each in kept.items())
    style = ' class="wide"' if wide else ""
    box = f'<input name="{name}"{put}>'
    return f"<label{style}>{escape(words)} {box}</label>" if words else box
