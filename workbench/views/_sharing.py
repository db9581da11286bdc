"""One page of a list for others: an index, a search, a link to each entry; it needs no kernel and no network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from workbench.views._html import quoted
from workbench.views._table import STYLE_SHEET

_PAGE = (Path(__file__).parent / "shared.html").read_text(encoding="utf-8")


class Entry(NamedTuple):
    """One entry: its name in a link, its text in the index, and its HTML."""

    name: Any
    text: str
    html: str


def shared_page(title: str, entries: Sequence[Entry]) -> str:
    """Return the page as HTML."""
    index = "".join(f'<li><a href="#{quote(str(entry.name))}">{escape(entry.text)}</a></li>' for entry in entries)
    sections = "\n".join(f"<section id={quoted(str(entry.name))}>{entry.html}</section>" for entry in entries)
    return _PAGE.format(title=escape(title), style=STYLE_SHEET, index=index, sections=sections)
