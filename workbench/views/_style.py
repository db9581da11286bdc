"""What every figure and table here has in common: colours, layout, names that stay names."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from itertools import chain, count as endless, cycle, islice, product
from string import ascii_uppercase
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from workbench.runs import setting_words

# Okabe and Ito's colours, told apart by readers of every colour vision; behind them two for who compares many.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888", "#9467BD", "#A6761D"]
GREY = "#767776"  # of what is no data: to be read on white and on nearly black
# On a page that says its ink, JupyterLab's or VS Code's, what a figure writes in grey has that. Other colours stay, as
# of data, and so do the figures of others: nobody else writes in just this grey.
_INK = f"var(--jp-ui-font-color1, var(--vscode-editor-foreground, {GREY}))"
_WRITTEN = f"rgb{tuple(bytes.fromhex(GREY[1:]))}"  # as a browser has it
FIGURE_RULES = f'.js-plotly-plot text[style*="{_WRITTEN}"] {{ fill: {_INK} !important; }}'
NARROWEST, WIDEST = 600, 800  # pixels; an output of JupyterLab has 844 on a screen of 1280
_LABEL = re.compile(r"(.+?) \((.+)\)(.{0,16})")  # as of runs: a method, its settings, and a digest or a seed
_VALUE = 6  # characters of a setting's end that say something
_BUTTONS = 300  # pixels of plotly's own, right of the title


def plain(text: object) -> str:
    """Text that plotly shows as it is: neither markup nor mathematics, which JupyterLab sees between two dollars."""
    return escape(str(text), quote=False).replace("$", "&#36;")


def wrapped(text: object, width: int) -> str:
    """`plain` text in lines of at most `width` characters."""
    return "<br>".join(map(plain, textwrap.wrap(str(text), width)))


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """name -> what of it has room in about `width` characters, or all of it where that would be another's too.

    Of a label with settings, "method (a=1, b=2)", those are kept that fewest of the names have, one at least; of any
    other name its two ends.
    """
    known = list(dict.fromkeys(names))
    labels = {name: found[2] for name in known if (found := _LABEL.fullmatch(name)) and re.search(r"\w", found[2])}
    inside = {name: setting_words(text) for name, text in labels.items()}
    times = Counter(chain.from_iterable(inside.values()))
    rarest = {name: sorted(words, key=times.__getitem__) for name, words in inside.items()}
    short = [name if len(name) <= width else _cut(name, rarest.get(name, []), width) for name in known]
    return {name: cut if short.count(cut) == 1 else name for name, cut in zip(known, short, strict=True)}


def _cut(name: str, rarest: Sequence[str], width: int) -> str:
    """A name that is longer; rarest: its settings, first the one that says most."""
    found = _LABEL.fullmatch(name)
    if found is None or not rarest:
        return f"{name[: width // 2]}…{name[width // 2 + 1 - width :]}"
    head, _, tail = found.groups()
    room = max(width - len(f"{head} (… )"), _VALUE)
    kept = [rarest[0] if len(rarest[0]) <= room else rarest[0].rpartition("=")[2][-room:]]  # its value, or that's end
    for word in rarest[1:]:
        kept += [word] if len(", ".join([*kept, word])) <= room else []
    return min(f"{head} (… {', '.join(sorted(kept, key=name.index))}){tail}", name, key=len)


def tick_names(names: Sequence[str], width: int = 16) -> list[str]:
    """Names for an axis: shortened to three lines of `width` characters."""
    short = shortened(names, 3 * width)
    return [wrapped(short[name], width) for name in names]


def letters(count: int) -> list[str]:
    """A, B, ..., Z, AA, AB, ..."""
    names = (product(ascii_uppercase, repeat=size) for size in endless(1))
    return ["".join(name) for name in islice(chain.from_iterable(names), count)]


def coloured(names: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """(colour, name) of each; the colours begin again where there are more names."""
    return zip(cycle(COLOURS), names, strict=False)


def laid_out(figure: go.Figure, title: str, *, width: int = 720, height: int = 380, **layout: Any) -> go.Figure:
    """The figure in the form of all: title left of plotly's buttons, `width` pixels or where that is more the output's.

    height: without the title's further lines, which are added.
    """
    width = max(width, NARROWEST)  # a title has room beside the buttons
    lines = textwrap.wrap(title, (min(width, WIDEST) - _BUTTONS) // 8)  # a character is less than 8 pixels wide
    text = {"text": "<br>".join(map(plain, lines)), "font": {"size": 16}, "yref": "container"}
    text |= {"x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"l": 12, "t": 12 if len(lines) < 2 else 23}}
    # 23: plotly sets the first of several lines 0.7 of a letter higher than a line alone
    above = 80 if any(note.yref == "paper" and note.y == 1 for note in figure.layout.annotations) else 40  # of panels
    margin = {"l": 60, "r": 60, "t": above, "b": 50} | layout.pop("margin", {})
    further = 20 * (len(lines) - 1)
    margin["t"] += further
    size = {"height": height + further, "width": width if width <= WIDEST else None, "autosize": width > WIDEST}
    figure.layout.template = _theme()  # plotly would merge an updated one name by name, 0.4 s a figure
    return figure.update_layout(title=text, margin=margin, **size, **layout)


@cache
def _theme() -> dict[str, Any]:
    """plotly's simple_white with our colours, and with the page's paper in the place of its white."""
    white = json.dumps(pio.templates["simple_white"].to_plotly_json())
    theme = json.loads(white.replace('"white"', '"rgba(0,0,0,0)"').replace("rgb(36,36,36)", GREY))
    theme["layout"]["colorway"] = COLOURS
    return theme


def log_axis(title: str) -> dict[str, Any]:
    """An axis on a log scale whose every tick has its whole number: plotly's own stand there as digits."""
    ticks = [digit * 10.0**power for power in range(-8, 4) for digit in (1, 2, 5)]
    return {"type": "log", "title": title, "tickvals": ticks, "tickformat": "~g"}


def nothing_yet() -> go.Figure:
    """In place of a figure of runs where there are none."""
    return laid_out(go.Figure(), "No finished runs yet", height=120)
