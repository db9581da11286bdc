"""The table and the panels in a browser: sorting, searching, keyboard, highlighting; text is never
markup."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from stage import put_on, violations

from workbench import views
from workbench.data import Pairs, load_pairs
from workbench.views import Ask, PairExplorer, Phenomena, RankingExplorer, Why
from workbench.views._table import TableWidget
from workbench.views.notebooks import table_html
from workbench.views.relations import _COLUMNS
from workbench.views.system_sources import comparison_page

pytestmark = pytest.mark.slow

HOSTILE = (
    '<img src="http://example.invalid/x" onerror="window.met = 1"> & "it\'s" $1 to $2 \u202e\u05d0'
)
COUNT = 2000


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 900, "height": 900})
    opened.set_default_timeout(60_000)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request",
        lambda one: None if one.url.startswith(("file:", "blob:")) else wrong.append(one.url),
    )
    yield opened
    opened.close()
    assert wrong == []


def in_sight(page: Any, column: int = 1) -> list[str]:
    return page.locator(f".workbench-table tr[data-row] td:nth-child({column})").all_inner_texts()


def wait_for(page: Any, table: TableWidget, count: int) -> None:
    page.get_by_role("status").filter(has_text=re.compile(f"^{count:,} of")).wait_for()
    assert len(table.listed) == count


def test_rows_are_sorted_searched_and_walked_through_and_the_kernel_knows_it(
    page: Any, tmp_path: Path
):
    numbers = np.random.default_rng(0).permutation(COUNT) / 10
    numbers[7] = np.nan
    names = [f"Row {row} of the {'even' if row % 2 == 0 else 'odd'} ones" for row in range(COUNT)]
    table, columns = (
        TableWidget(label="rows"),
        [{"name": "text"}, {"name": "number", "limit": True}],
    )
    hidden = [f"hidden {row}" for row in range(COUNT)]
    table.set_rows(pd.DataFrame({"text": names, "number": numbers, "hidden": hidden}), columns)
    put_on(page, tmp_path, table=table)

    page.get_by_label("search").press("ArrowDown")
    page.locator("tr:focus").wait_for()
    for key, chosen in (
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", COUNT - 1),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        page.locator(f"tr:focus[data-row='{chosen}'][aria-selected=true]").wait_for()
        assert table.chosen == chosen
    page.keyboard.press("PageDown")
    page.wait_for_function("+document.activeElement.dataset.row > 4")
    table.chosen = 1500
    page.get_by_label("search").fill("row")  # the search fetches changes from the kernel
    row = page.locator("tr[data-row='1500'][aria-selected=true]")
    row.wait_for()
    assert row.bounding_box()["y"] < page.locator(".frame").bounding_box()["y"] + 440, (
        "scrolled into sight"
    )

    number = page.get_by_role("button", name="number")
    for direction, first in (("descending", "199.9"), ("ascending", "0")):
        number.click()
        page.locator(f"th[aria-sort={direction}]").wait_for()
        assert in_sight(page, 2)[0] == first
        assert table.listed[-1] == 7, "rows without a number are sorted last"
        assert in_sight(page) == [names[row] for row in table.listed[: len(in_sight(page))]]
    page.get_by_role("button", name="text").click()
    page.locator("th.text[aria-sort=ascending]").wait_for()
    assert in_sight(page)[:3] == sorted(names)[:3]
    assert page.locator("tr[data-row]").count() < 60, "rows out of sight are no elements"
    # The chosen row is far below; the list is still reached by Tab and from the search.
    assert table.listed.tolist().index(table.chosen) > 60
    assert page.locator("tr[tabindex='0']").count() == 1
    page.get_by_label("search").press("ArrowDown")
    page.locator(f"tr:focus[data-row='{table.chosen}']").wait_for()

    search = page.get_by_label("search")
    search.fill("ODD row 17")
    wait_for(page, table, sum("17" in str(row) for row in range(1, COUNT, 2)))
    assert {text.lower() for text in page.locator("mark").all_inner_texts()} == {"odd", "row", "17"}
    search.fill("hidden 1999.*")
    wait_for(page, table, 0)
    search.fill("hidden 1999")
    wait_for(page, table, 1)
    assert table.chosen == 1999


def pairs(first: list[str], second: list[str]) -> Pairs:
    ids, gold = [f"<i>{row}</i>" for row in range(len(first))], np.arange(len(first), dtype=float)
    return Pairs(
        "<s>", first, second, gold, None, ids, (0, len(first)), source="here", checksum="0"
    )


def encode(sentences: list[str]) -> np.ndarray:
    return np.array(
        [[len(text), 1 + text.count("a"), text.count("e")] for text in sentences], dtype=float
    )


def kinds(texts: list[str], labels: list[str]) -> Phenomena:
    """Return a heat map of two labels, one of them the baseline, whose relations are the texts."""
    data = replace(pairs([HOSTILE] * 5, texts), extra={"relation": texts})
    shares = {labels[0]: np.full((5, 3), 0.5), labels[1]: np.arange(15).reshape(5, 3) / 15}
    rows = [
        (label, text, 1, *shares[label][place], 0.1 * place, 0.0, 1.0, 0.5, 0.5, place - 1)
        for place, text in enumerate(texts)
        for label in labels
    ]
    table, bases = (
        pd.DataFrame(rows, columns=[*_COLUMNS.split(), "adjusted", "verdict"]),
        {labels[1]: shares[labels[0]]},
    )
    return Phenomena(table, data, shares, bases, baseline=labels[0])


def test_hostile_text_is_text_in_every_view_and_axe_finds_no_fault_light_and_dark(
    page: Any, tmp_path: Path
):
    texts, labels = (
        [HOSTILE, "\U0001f600 one\ntwo", "long " + "abcdefgh" * 600, "d", "e"],
        [HOSTILE, "two"],
    )
    rows = {
        "suite": "<s>",
        "query_id": "q",
        "target_id": [*"abcde"],
        "query": HOSTILE,
        "target": texts,
    }
    ranked = pd.DataFrame({**rows, "gold": np.arange(5.0), "score": np.arange(5.0)})
    both, scores = (
        dict.fromkeys(labels, encode),
        {HOSTILE: np.arange(5.0), "two": np.arange(5.0)[::-1]},
    )
    views = {
        "pairs": PairExplorer(scores, pairs([HOSTILE] * 5, texts), encoders=both),
        "queries": RankingExplorer(dict.fromkeys(labels, ranked), encoders=both),
        "ask": Ask(both, HOSTILE, texts),
        "why": Why(both, HOSTILE, texts[1], HOSTILE),
        "kinds": kinds(texts, labels),
    }
    put_on(page, tmp_path, **views)
    page.locator("[data-view=kinds] button").last.click()
    page.locator("[data-view=kinds1]").get_by_text("1 of 1 targets").wait_for()
    assert HOSTILE in page.locator("[data-view=kinds1] td").first.inner_text()
    for view, row in (("pairs", "A"), ("queries", "B")):
        page.locator(f"[data-view={view}1] tr[data-row={row}]").first.click()
        page.locator(f"[data-view={view}2]").get_by_text(f"Why {row}?").wait_for()
    assert page.evaluate("window.met") is None
    assert page.locator("main :is(img, i, script)").count() == 0
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
    page.goto(views["pairs"].to_html(tmp_path / "page.html").as_uri())
    assert HOSTILE[:50] in page.locator("section").first.inner_text()
    assert page.locator(":is(img, i, section script)").count() == 0
    for width in (390, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (width, scheme)


PRESSES = """(script) => import(script).then(({ default: { render } }) => {
  const cells = '<td>name</td><td id="one"><button value="1">1</button></td><td id="none">-</td>';
  const html = `<table><tr>${cells}<td id="two"><button value="2">2</button></td></tr>
    <tr><td id="row">only</td><td><button value="3">3</button></td></tr></table>`;
  const sent = [], el = document.createElement("div");
  document.body.append(el);
  const model = { get: (name) => (name === "html" ? html : false), on() {}, off() {} };
  render({ model: { ...model, send: (value) => sent.push(value) }, el });
  for (const id of ["one", "two", "none", "row"]) document.getElementById(id).click();
  return sent;
})"""


def test_a_press_beside_a_button_is_one_of_its_cell_or_of_the_only_one_of_the_row(
    page: Any, tmp_path: Path
):
    script = Path(views.__file__).with_name("panel.js").read_text(encoding="utf-8")
    (tmp_path / "blank.html").write_text("<!DOCTYPE html><title>blank</title>")
    page.goto((tmp_path / "blank.html").as_uri())
    module = "data:text/javascript," + quote(script)
    assert page.evaluate(PRESSES, module) == ["1", "2", "3"]


def test_a_search_folds_no_letters_that_the_browser_does_not():
    table = TableWidget(label="t")
    table.set_rows(pd.DataFrame({"text": ["Die Straße", "Strasse"]}), [{"name": "text"}])
    table.search = "STRASSE"
    assert table.listed.tolist() == [1]


def test_a_row_and_its_line_are_marked_together_by_hover_within_one_sentence(
    page: Any, tmp_path: Path
):
    data = pairs([*"aab"], [*"bcd"])
    put_on(page, tmp_path, view=PairExplorer({"m": data.gold}, data))
    page.locator(".workbench-table tr[data-row='0']").click()
    both = page.locator("[data-view=view1] .view")
    page.wait_for_function("document.querySelectorAll('[data-view=view1] .view').length === 2")
    for place in (0, 1):
        both.nth(place).locator("tr[data-row=A]").hover()
        page.wait_for_function(
            f"document.querySelectorAll('.view')[{place}].querySelector('tr.hit')"
        )
        assert page.locator(".hit").count() == both.nth(place).locator(".hit").count() == 2
    both.nth(1).locator("g[data-row=A] polyline").hover(force=True)
    assert both.nth(1).locator("tr.hit").get_attribute("data-row") == "A"


def test_a_pair_is_marked_by_key_and_by_its_star_and_the_kernel_knows_it(page: Any, tmp_path: Path):
    data = pairs([*"aabbc"], [*"bcdef"])
    explorer = PairExplorer({"m": data.gold}, data)
    explorer.select(order="data")
    put_on(page, tmp_path, view=explorer)
    stars = page.locator("[data-star]")
    page.get_by_label("search").press("ArrowDown")
    for key in ("m", "ArrowDown", "ArrowDown", "M"):
        page.locator("tr:focus").wait_for()
        page.keyboard.press(key)
    page.locator("tr:focus[data-row='2'] [data-star][aria-pressed=true]").wait_for()
    assert stars.all_inner_texts() == ["★", "☆", "★", "☆", "☆"]
    assert explorer.marked["pair_id"].tolist() == ["<i>0</i>", "<i>2</i>"]
    stars.nth(4).click()
    page.get_by_role("status").filter(has_text="3 marked").wait_for()
    stars.first.click()
    page.get_by_role("status").filter(has_text="2 marked").wait_for()
    assert explorer.marked["sentence1"].tolist() == ["b", "c"]
    assert stars.all_inner_texts() == ["☆", "☆", "★", "☆", "★"]
    assert explorer.chosen == "<i>0</i>", "a marked row is chosen, too"
    read = load_pairs(explorer.write_marked(tmp_path / "marked.csv"))
    assert (read.sentence1, read.sentence2) == (["b", "c"], ["d", "f"])
    assert (read.gold.tolist(), read.score_range) == ([2, 4], (0, 5))
    page.get_by_label("search").fill("m")
    wait_for(page, explorer.grid, 0)
    assert len(explorer.marked) == 2, "a letter of a search marks nothing"


# As JupyterLab's style sheet has them; its outputs are 844 pixels wide on a screen of 1280.
LAB = """<meta charset="utf-8"><style>
div.output { width: 844px; overflow-x: auto; font-family: sans-serif }
table { border-collapse: collapse; font-size: 12px; table-layout: fixed; border: none }
td, th { padding: 0.5em; white-space: normal; max-width: none }</style>"""


def test_a_seed_has_all_its_digits_and_what_rounds_to_nothing_no_sign(page: Any, tmp_path: Path):
    table = TableWidget(label="rows")
    columns = [{"name": "text"}, {"name": "seed"}, {"name": "gain", "digits": 2}]
    seeds = [20240131.0, 0.1234567, -4e-9]
    rows = pd.DataFrame({"text": [*"abc"], "seed": seeds, "gain": [-0.001, -0.5, 12.0]})
    table.set_rows(rows, columns)
    put_on(page, tmp_path, table=table)
    wait_for(page, table, 3)
    assert in_sight(page, 2) == ["20240131", "0.123457", "-4e-9"]
    assert in_sight(page, 3) == ["0.00", "-0.50", "12.00"]


def test_no_column_of_a_table_of_tests_is_cut_on_a_screen_of_1280(page: Any, tmp_path: Path):
    columns = {
        "label": "cosent (ranking=listmle, dr=0)",
        "seed": 0,
        "against": "simcse (learning_rate=1e-5), 0",
        "difference": "+13.00",
        "95% interval": "+10.40 to +17.00",
        "p": "< 0.001",
        "over seeds": "+12.00 [-5.00, 19.00]",
        "reads as": "clear on these pairs, not over seeds",
    }
    table = pd.DataFrame([columns])
    html = f'{LAB}<div class="output">{table_html(table)}</div>'
    (tmp_path / "table.html").write_text(html, encoding="utf-8")
    page.goto((tmp_path / "table.html").as_uri())
    assert page.get_by_text("reads as").is_visible()
    assert page.evaluate("document.querySelector('.output').scrollWidth") == 844


def test_a_folded_page_is_searched_and_a_link_opens_its_section(page: Any, tmp_path: Path):
    first = [f"query {row // 2} {word}" for row, word in enumerate(["of", "of"] * 30)]
    second = [f"target {row}" for row in range(60)]
    data = pairs(first, second)
    explorer = PairExplorer({"m": data.gold[::-1].copy()}, data)
    explorer.select(order="data")
    path = explorer.to_html(tmp_path / "page.html")
    page.goto(f"{path.as_uri()}#{quote(data.pair_id[20])}")
    page.locator("section table:visible").nth(1).wait_for()
    opened = page.locator("section").filter(has=page.locator("table:visible"))
    assert opened.count() == 2, "the first, and the one that the link names"
    legend = page.locator("[data-legend]:visible")
    assert legend.count() == 1
    page.get_by_role("searchbox").fill("TARGET 41")
    page.get_by_role("status").filter(has_text="1 of 30").wait_for()
    page.locator("section:visible summary").click()
    assert page.locator("section:visible [data-remark]").count() == 2
    assert legend.count() == 1, "the first section in sight explains the signs"
    page.goto("about:blank")
    page.go_back()
    page.get_by_role("status").filter(has_text="1 of 30").wait_for()
    assert page.get_by_role("searchbox").input_value() == "TARGET 41"
    page.get_by_role("searchbox").fill("")
    page.pdf()
    assert page.locator("[data-remark]:visible").count() == 60, "a printed page has every pair"


def test_a_wide_page_of_a_comparison_loses_no_column_in_print(page: Any, tmp_path: Path):
    draw = np.random.default_rng(0)
    gold = draw.random(30)
    columns = {
        "sentence1": [f"one {row}" for row in range(30)],
        "sentence2": [f"two {row}" for row in range(30)],
        "score": gold,
    }
    columns |= {f"a system with a long name, {name}": gold + draw.random(30) for name in "ABC"}
    pd.DataFrame(columns).to_csv(tmp_path / "scores.csv", index=False)
    compared = views.compare_systems(tmp_path / "scores.csv")
    page.goto(comparison_page(tmp_path / "page.html", compared).as_uri())
    assert page.get_by_role("img").count() == 3, "a picture for each system, so that they wrap"
    page.emulate_media(media="print")
    table = page.locator("div:has(> table)")
    is_whole = "(one) => getComputedStyle(one).overflowX === 'visible'"
    assert table.evaluate(is_whole)
    page.emulate_media(media="screen")
    assert not table.evaluate(is_whole)


def test_a_page_of_typed_targets_fits_a_phone_and_is_accessible(browser: Any, tmp_path: Path):
    targets = ["a person reads outside", "A man mends the chain of his bicycle " * 3]
    asked = Ask(["word-overlap"], "A woman reads a long newspaper in the garden.", targets)
    phone = browser.new_page(viewport={"width": 360, "height": 640}, is_mobile=True)
    phone.goto(asked.to_html(tmp_path / "page.html").as_uri())
    assert phone.evaluate("document.documentElement.scrollWidth") == 360
    for scheme in ("light", "dark"):
        phone.emulate_media(color_scheme=scheme)
        assert violations(phone) == []
    phone.close()
