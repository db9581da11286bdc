"""One page of queries for others: an index, a search, an anchor a query; it needs no kernel and no network."""

import base64
import zlib
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from workbench.look._live import STYLE_SHEET
from workbench.look.page import slope_svg, view_html
from workbench.look.queries import QueryView

_PAGE = (Path(__file__).parent / "shared.html").read_text(encoding="utf-8")


def shared_page(title: str, queries: Mapping[Any, str], view: Callable[[Any], QueryView], targets: int) -> str:
    """The page. queries: query_id -> its text, in their order; `targets`: at most, of each.

    Tables and charts are packed and unpacked by the page's own script; where none runs, plain tables of gold and ranks
    stand there.
    """
    whole, plain, index = [], [], []
    for query_id, text in queries.items():
        found = view(query_id)
        name = escape(str(query_id))
        whole.append(f'<section id="{name}">{view_html(found, chart=slope_svg, targets=targets)}</section>')
        plain.append(f'<section id="{name}">{_plain(found.nearest(targets))}</section>')
        index.append(f'<li><a href="#{quote(str(query_id))}">{escape(text)}</a></li>')
    packed = base64.b64encode(zlib.compress("".join(whole).encode(), 9)).decode()
    parts = {"style": STYLE_SHEET, "index": "".join(index), "plain": "".join(plain), "packed": packed}
    return _PAGE.format(title=escape(title), **parts)


def _plain(view: QueryView) -> str:
    """Gold and ranks of the targets; end tags that HTML does without are left out, since there are many."""
    gold = [] if view.gold is None else [("gold", view.gold), ("gold rank", view.gold_rank)]
    names, columns = zip(*gold, *view.ranks.items(), strict=True)
    head = "".join(f"<th>{escape(name)}" for name in names)
    rows = [
        f"<tr><td>{escape(target)}{''.join(f'<td>{value:g}' for value in values)}"
        for target, *values in zip(view.targets, *columns, strict=True)
    ]
    return f"<p><b>{escape(view.query)}</b><table><tr><th>target{head}{''.join(rows)}</table>"
