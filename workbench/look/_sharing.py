"""One page of a list for others: an index, a search, an anchor each; it needs no kernel and no network."""

import base64
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from workbench.look._html import quoted
from workbench.look._live import STYLE_SHEET

_PAGE = (Path(__file__).parent / "shared.html").read_text(encoding="utf-8")


class Entry(NamedTuple):
    """One of a list: its name in a link, its text in the index, and HTML: whole, and `plain` where no script runs."""

    name: Any
    text: str
    whole: str
    plain: str


def shared_page(title: str, entries: Sequence[Entry]) -> str:
    """The page. What is whole is packed, and unpacked by the page's own script."""

    def sections(kind: str) -> str:
        return "".join(f"<section id={quoted(str(one.name))}>{getattr(one, kind)}</section>" for one in entries)

    index = "".join(f'<li><a href="#{quote(str(entry.name))}">{escape(entry.text)}</a></li>' for entry in entries)
    packed = base64.b64encode(zlib.compress(sections("whole").encode(), 9)).decode()
    return _PAGE.format(title=escape(title), style=STYLE_SHEET, index=index, plain=sections("plain"), packed=packed)


def plain_table(title: str, heads: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Texts and numbers without style; end tags that HTML does without are left out, since there are many."""
    lines = [f"<tr><td>{escape(str(first))}{''.join(f'<td>{value:g}' for value in values)}" for first, *values in rows]
    head = "".join(f"<th>{escape(name)}" for name in heads)
    return f"<p><b>{escape(title)}</b><table><tr>{head}{''.join(lines)}</table>"
