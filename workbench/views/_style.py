"""Text and layout of all views: HTML with the classes of `STYLES`.

Front ends clean the HTML of untrusted notebooks: each colour comes with a sign, and styles are in
the elements."""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable
from html import escape
from itertools import chain, count as endless, islice, product
from pathlib import Path
from string import ascii_uppercase

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined

from workbench.printing import printable

HERE = Path(__file__).parent


def read_part(name: str) -> str:
    """Return the text of a file of this folder: a script, a drawing or a template."""
    return (HERE / name).read_text("utf-8")


GREY = "#767776"  # of lines and words that are no data: readable on white and on nearly black
# class -> style. A notebook gets them in its elements (`inlined`), a page and the live views as
# rules. "shade0" to "shade4": at gold's rank, and up to 1/6, 1/3, 1/2 and all of the list away from
# it, light to dark, so that they differ without hue too; the text on them is dark in every theme.
# "pro" and "con": of words that bring two sentences together (blue) or apart (orange), from little
# to much.
STYLES = json.loads(read_part("styles.json"))
_CLASSES = re.compile(r'class="((?:{0})(?: (?:{0}))*)"'.format("|".join(STYLES)))


def _template(name: str) -> str:
    # Lines are joined, so that no white space is between cells.
    return "".join(map(str.strip, read_part(f"templates/{name}").splitlines()))


_TEMPLATES = Environment(
    autoescape=True, loader=FunctionLoader(_template), undefined=StrictUndefined
)
_TEMPLATES.globals |= {"styles": STYLES, "read_part": read_part, "grey": GREY}
_TEMPLATES.tests |= {"missing": np.isnan, "unretrieved": np.isneginf}
_TEMPLATES.policies["truncate.leeway"] = 0


def render(template: str, **values: object) -> str:
    """Return a template filled with values, which it escapes unless it calls them safe."""
    return _TEMPLATES.get_template(template).render(values)


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return name -> its beginning, up to its settings, and its end, in `width` characters.

    A name that would then be the same as another stays as it is.
    """
    short = {}
    for name in names:
        # Methods differ at the beginning, settings at the end.
        head = min(name.find("(") + 1 or width // 2, width // 2)
        tail = name[head + 1 - width :]
        short[name] = name if len(name) <= width else f"{name[:head]}…{tail}"
    # Two settings of one method may differ in the middle alone.
    counts = Counter(short.values())
    return {name: cut if counts[cut] == 1 else name for name, cut in short.items()}


def letters(count: int) -> list[str]:
    """Return A, B, ..., Z, AA, AB, ..."""
    names = chain.from_iterable(product(ascii_uppercase, repeat=size) for size in endless(1))
    return ["".join(name) for name in islice(names, count)]


def inlined(html: str) -> str:
    """Return the HTML with styles in its elements, for a front end without style sheets."""

    def style(match):
        styles = [STYLES[name] for name in match[1].split()]
        return f'style="{";".join(styles)}"'

    return _CLASSES.sub(style, html)


def svg_image(svg: str, alt: str) -> str:
    """Return a drawing as an image, because front ends remove drawings from HTML."""
    # With a control character, as texts from a PDF or a spreadsheet have, no drawing is shown.
    data = base64.b64encode(printable(svg).encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%" alt="{escape(alt)}">'
    )


def number_class(value: float, largest: float) -> str:
    """Return the classes of a cell: blue above 0, orange below, darkest from `largest` on."""
    # All 0: no effect at all, and no shade; nan has none either.
    share = np.nan_to_num(abs(value)) / (largest or 1)
    depth = min(round(4 * share), 4)
    if not depth:
        return "number"
    return f"number {'pro' if value > 0 else 'con'}{depth}"


def problem_html(problem: Exception, label: str = "") -> str:
    """Return what is shown instead of something, such as `label`, that cannot be drawn."""
    text = str(problem)
    # Our own errors are sentences; others, such as KeyError, need their kind.
    if not isinstance(problem, ValueError | RuntimeError):
        text = f"{type(problem).__name__}: {text}"
    if label:
        text = f"{label}: {text}"
    return f'<p class="problem" role="alert">{escape(text)}</p>'


_TEMPLATES.filters |= {"number": format, "shortened": shortened, "number_class": number_class}
