"""What a reader sees of a figure in a browser: what hovering shows, dollars in names, every model on the screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from stage import put_on, violations

from workbench.data import Pairs
from workbench.look import (
    Ask,
    Composition,
    Ordering,
    PairExplorer,
    RankingExplorer,
    RankPlane,
    RunPicker,
    TopOne,
    Why,
    closed_against_exact,
    ranking_tables,
    table_html,
)
from workbench.look._style import FIGURE_RULES
from workbench.look.tables import _RULES
from workbench.rankings import COLUMNS, ranking_table

pytestmark = pytest.mark.slow

TARGET = 'a "quoted" <b>target</b> from $1.20 to $20.35 & %{y}'
LABEL = "<i>model</i> of $5 or $6"
# What JupyterLab loads: plotly asks it to draw whatever stands between two dollars, and it never answers here.
MATHJAX = '<script>window.MathJax = {version: "3.2.2", config: {}, startup: {output: "svg"}};</script>'
OUTPUT = 844  # pixels that a notebook's output has on a screen of 1280


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": OUTPUT, "height": 900})
    opened.set_default_timeout(120_000)  # a busy machine loads plotly slowly
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    opened.close()
    assert problems == []


def tables(labels: list[str], targets: int = 5) -> dict[str, pd.DataFrame]:
    names = [TARGET, *(f"target {place}" for place in range(1, targets))]
    rows = [
        ("few", "q0", str(place), "a query", name, float(targets - place), float(-place), place + 1.0)
        for place, name in enumerate(names)
    ]
    return ranking_tables({label: pd.DataFrame(rows, columns=list(COLUMNS)) for label in labels})


def show(page: Any, figure: go.Figure, tmp_path: Path) -> None:
    html = figure.to_html(include_plotlyjs=True, config={"responsive": True})
    (tmp_path / "figure.html").write_text(html.replace("<head>", f"<head>{MATHJAX}"), encoding="utf-8")
    page.goto((tmp_path / "figure.html").as_uri())
    page.locator(".main-svg .xtick text").first.wait_for()


def test_dollars_and_markup_in_names_are_shown_as_they_are(page: Any, tmp_path: Path):
    show(page, closed_against_exact({LABEL: (np.array([0.1, 0.2]), np.array([0.1, 0.3]))}), tmp_path)
    assert page.locator(".annotation-text").all_text_contents() == [LABEL]


def test_a_figure_has_the_ink_of_the_page_and_a_figure_of_others_keeps_its_own(page: Any, tmp_path: Path):
    others = go.Figure(go.Scatter(x=[1, 2], y=[1, 2]), {"font": {"color": "#770000"}})
    inks = []
    for figure in (closed_against_exact({"a": (np.zeros(2), np.zeros(2))}), others):
        show(page, figure, tmp_path)
        page.add_style_tag(content=f":root {{ --jp-ui-font-color1: #fffffe; }} {FIGURE_RULES}")
        written = page.locator(".xtick text, .annotation-text")
        inks.append(set(written.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")))
    assert inks == [{"rgb(255, 255, 254)"}, {"rgb(119, 0, 0)"}]


@pytest.mark.parametrize("count", [1, 4, 8])
def test_every_model_is_on_the_screen_with_its_name_as_it_is(count: int, page: Any, tmp_path: Path):
    labels = [LABEL, *(f"model {number}" for number in range(1, count))]
    page.goto(RankingExplorer(tables(labels)).to_html(tmp_path / "page.html").as_uri())
    names = page.locator("svg text[font-weight=bold]")
    names.first.wait_for()
    assert names.all_text_contents()[:2] == ["gold", LABEL[:9] + "…" + LABEL[-8:]]
    right = names.evaluate_all("all => all.map(name => name.getBoundingClientRect().right)")
    assert len(right) == count + 1
    assert max(right) <= OUTPUT


def test_the_shared_page_finds_and_links_and_shows_hostile_text_as_text(page: Any, tmp_path: Path):
    two = {LABEL: pd.concat([tables(["m"])["m"], tables(["m"])["m"].assign(query_id="q1", query="<u>other</u> query")])}
    page.goto(RankingExplorer(two).to_html(tmp_path / "page.html").as_uri())
    page.get_by_text(TARGET, exact=True).first.wait_for()
    page.locator("nav input").fill("OTHER")
    assert page.locator("section:visible").count() == page.locator("nav li:visible").count() == 1
    page.locator("nav li:visible a").click()
    page.wait_for_url("**#q1")
    assert page.locator("section:visible .head b").first.inner_text() == "<u>other</u> query"
    assert page.locator("[role=status]").inner_text() == "1 of 2"
    page.locator("section:visible tbody tr").nth(1).hover()
    assert page.locator(".hit").count() == 2, "the row and its line"
    page.goto((tmp_path / "page.html").as_uri() + "#q1")
    page.reload()
    page.wait_for_function("document.querySelector('#q1')?.getBoundingClientRect().top < innerHeight")
    assert violations(page) == []


def test_without_a_script_the_page_has_its_content_as_plain_tables(browser: Any, tmp_path: Path):
    page = browser.new_page(java_script_enabled=False)

    def plain(view: Any) -> list[list[str]]:
        page.goto(view.to_html(tmp_path / "page.html").as_uri())
        return [row.split("\t") for row in page.locator("section table").first.inner_text().splitlines()]

    rows = plain(RankingExplorer(tables([LABEL, "two"])))
    assert rows[:2] == [["target", "gold", "gold rank", LABEL, "two"], [TARGET, "5", "1", "1", "1"]]
    assert plain(PairExplorer({LABEL: [0.2, 0.9]}, hostile_pairs()))[1:] == [[LABEL, "2", "0.2"]]
    page.close()


def test_the_page_of_pairs_finds_and_links_and_shows_hostile_text_as_text(page: Any, tmp_path: Path):
    view = PairExplorer({LABEL: [0.2, 0.9], "two": [0.5, 0.4]}, hostile_pairs(), encoders={"two": encode})
    view.select(order="data")
    page.goto(view.to_html(tmp_path / "page.html").as_uri())
    page.locator("section").first.wait_for()  # only then does the page hear what is typed
    assert page.locator("nav li").all_inner_texts() == [f"{TARGET} / one", f"{TARGET} / <u>other b</u>"]
    page.get_by_label("search").focus()
    page.keyboard.type("OTHER b")
    assert page.locator("section:visible").count() == page.locator("nav li:visible").count() == 1
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#b%20%26")
    shown = page.locator("section:visible")
    assert shown.locator(".head b").first.inner_text() == f"{TARGET}\n<u>other b</u>"
    assert shown.locator("th[scope=row]").first.get_attribute("title") == LABEL
    assert shown.locator("svg").count() == 1, "both pairs of the sentence, as ranks"
    assert page.locator(":is(img, u, i, button)").count() == 0
    assert violations(page) == []

    view = PairExplorer({"a": [0.2, 0.9, 0.4]}, few_pairs([(TARGET, "one"), (TARGET, "two"), ("three", "one")]))
    view.select(order="data")
    page.goto(view.to_html(tmp_path / "page.html").as_uri())
    of_both = page.locator("section").first.locator(".view")
    of_both.first.locator("tbody [data-row=A]").hover()
    assert of_both.first.locator(".hit").count() == 2, "row and line"
    assert of_both.last.locator(".hit").count() == 0, "another sentence has another A"


def hostile_pairs() -> Pairs:
    return few_pairs([(TARGET, "one"), (TARGET, "<u>other b</u>")])


def few_pairs(sentences: list[tuple[str, str]]) -> Pairs:
    names, gold = ["a", "b &", "c"][: len(sentences)], np.array([5.0, 1.0, 3.0])[: len(sentences)]
    return Pairs(
        "few", *map(list, zip(*sentences, strict=True)), gold, None, names, (0, 5), source="here", checksum="0"
    )


def test_a_list_of_thousands_opens_and_stays_on_a_few_screens(page: Any, tmp_path: Path):
    page.goto(RankingExplorer(tables(["one", "two"], targets=2000)).to_html(tmp_path / "page.html").as_uri())
    page.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 52, "50 targets, KCC and NDCG"
    assert page.locator("svg").bounding_box()["height"] < 900


HOSTILE = [
    "<script>window.met = 1</script>",
    '<img src="http://example.invalid/x.png" onerror="window.met = 1">',
    '"quotes" it\'s &amp; $1 to $2 %{y}',
    "\u202eright to left\u202c \u05d0\u05d1",
    "one line\n\nanother",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "long " + "abcdefgh" * 620,
    "a plain one",
]
LABELS = ["</td><u>one</u> $x$", "two " + "label" * 20]


def encode(sentences: list[str]) -> np.ndarray:
    return np.array([[len(text), 1 + text.count("a"), text.count("e")] for text in sentences], dtype=float)


def picked() -> pd.DataFrame:
    """Two runs of names that would break a page, as `finished_runs` has them."""
    numbers = dict.fromkeys(["before", "spearman", "kcc", "ndcg", "accuracy", "f1", "pairs", "queries"], 1.0)
    texts = {"label": HOSTILE[:2], "settings": HOSTILE[1:3], "seed": [0, 1], "path": ["nowhere", "nowhere"]}
    return pd.DataFrame(texts).assign(method="<m>", encoder="<e>", **numbers)


def hostile_views() -> dict[str, Any]:
    """Every view, with text that would break a page, each with each of its charts."""
    first, names = HOSTILE[0], [f"<i>{number}</i>" for number in range(7)]
    data = Pairs("<s>", [first] * 7, HOSTILE[1:], np.arange(7.0), ["<p>"] * 3 + ["q"] * 4, names, (0, 6), "here", "0")
    scores = dict(zip(LABELS, [np.arange(7.0), np.arange(7.0)[::-1]], strict=True))
    rows = [("<s>", "q", str(row), first, text, 7.0 - row, -row, row + 1.0) for row, text in enumerate(HOSTILE)]
    tables = dict.fromkeys(LABELS, pd.DataFrame(rows, columns=list(COLUMNS)))
    both = dict.fromkeys(LABELS, encode)
    views: dict[str, Any] = {"corpus": Ask(both, first, corpus=HOSTILE), "why": Why(both, *HOSTILE[:3])}
    views |= {
        "runs": RunPicker(picked(), "<s>"),
        "plane": RankPlane(size=5),
        "order": Ordering(np.eye(3)[0], [0, 1, 2]),
    }
    views |= {
        "first": TopOne(HOSTILE, np.arange(8) / 8, np.arange(8) / 9),
        "cut": Composition("world-encoder", HOSTILE),
    }
    for chart in ("ranks", "gold", "map", "similarities"):
        views[f"pairs_{chart}"] = pairs = PairExplorer(scores, data, encoders=both)
        views[f"queries_{chart}"] = queries = RankingExplorer(tables, encoders=both)
        made: list[Any] = [pairs, queries]
        if chart != "gold":
            views[f"ask_{chart}"] = ask = Ask(both, first, HOSTILE[1:6], corpus=HOSTILE)
            made.append(ask)
        for view in made:
            view.select(chart=chart)
    return views


def test_hostile_text_is_text_in_every_view_which_stays_whole_and_accessible(browser: Any, tmp_path: Path):
    page, asked = browser.new_page(viewport={"width": OUTPUT, "height": 900}), []
    page.on("request", lambda request: asked.append(request.url))
    views = hostile_views()
    put_on(page, tmp_path, **views)
    for name in views.keys() - {"why", "cut", "runs", "plane", "order"}:  # which have the words apart, or others
        shown = page.locator(f"[data-name={name}]").inner_text()
        assert all(text.split("\n")[0][:100] in shown for text in HOSTILE[:6]), name
    assert page.evaluate("window.met") is None
    assert page.locator(":is(img, u, i, s, main script)").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= OUTPUT
    fields = page.locator("[data-name=why] textarea")
    assert fields.evaluate_all("all => all.map(one => one.scrollHeight <= one.clientHeight + 1)") == [True] * 3
    fields.first.press("Enter")
    assert fields.first.input_value() == HOSTILE[0], "a sentence has one line"
    assert [url for url in asked if not url.startswith("file:")] == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == []
    page.goto(views["queries_ranks"].to_html(tmp_path / "page.html").as_uri())
    page.locator("section svg").wait_for()
    assert all(text.split("\n")[0][:100] in page.locator("section").inner_text() for text in HOSTILE[:6])
    assert page.evaluate("window.met") is None
    assert page.locator(":is(img, u, i, s, section script)").count() == 0
    assert [url for url in asked if not url.startswith("file:")] == []
    page.close()


@pytest.mark.parametrize(("width", "height"), [(OUTPUT, 800), (1484, 1080)])
def test_with_six_models_all_is_on_one_screen_and_tab_leads_from_search_to_list_and_table(
    width: int, height: int, page: Any, tmp_path: Path
):
    page.set_viewport_size({"width": width, "height": height})
    labels = ["before", "simcse", "rankcse (teacher=world-teacher)", "compcse", "cosent", "rankencoder"]
    scores = {label: np.random.default_rng(number).random(49) for number, label in enumerate(labels)}
    first = [f"the sentence number {number // 7} stands first here" for number in range(49)]
    second = [f"another of them, number {number}, is what stands second in the list" for number in range(49)]
    data = Pairs("few", first, second, np.arange(49.0) % 6, None, [*map(str, range(49))], (0, 5), "here", "0")
    tables = {label: ranking_table(data, found, "few") for label, found in scores.items()}
    encoders = {"before": encode}
    put_on(
        page,
        tmp_path,
        pairs=PairExplorer(scores, data, encoders=encoders),
        queries=RankingExplorer(tables, encoders=encoders),
        nine=RankingExplorer(tables | {f"{label}, again": tables[label] for label in labels[:3]}),
    )
    nine = page.locator("[data-name=nine] [data-part=view] [data-scroll]")
    assert nine.evaluate("part => part.scrollWidth <= part.clientWidth + 1"), "all nine stand beside each other"
    rows = nine.locator("tbody tr[data-row]").evaluate_all("all => all.map(row => row.getBoundingClientRect().bottom)")
    measures = nine.locator("tr:has(.measure)").first.bounding_box()["y"]
    assert sum(bottom <= measures + 1 for bottom in rows) >= 5, "and five targets and more under each other"
    room = height - 110  # of a screen JupyterLab has the rest
    for name in ("pairs", "queries"):
        shown = page.locator(f"[data-name={name}]")
        top, view = shown.bounding_box()["y"], shown.locator("[data-part=view]")
        parts = [shown.locator("[data-part=list]"), view.locator("svg").first]
        if name == "queries" or height > 800:  # on a small screen eight pairs have the room of a pair's partners
            parts.append(view.locator("[data-scroll]"))
        for part in parts:
            box = part.bounding_box()
            assert box["x"] + box["width"] <= width
            assert part.evaluate("part => part.scrollWidth <= part.clientWidth + 1"), "nothing is cut"
            assert box["y"] - top < room - 60, "it begins well on the screen"
        if name == "pairs":
            frame = shown.locator("[data-part=list]").bounding_box()
            ends = shown.locator("[data-part=list] tbody tr").evaluate_all(
                "all => all.map(row => row.getBoundingClientRect().bottom)"
            )
            assert sum(end <= frame["y"] + frame["height"] for end in ends) >= 8
            assert frame["y"] + frame["height"] - top <= room
            heads = shown.locator("[data-part=list] th.name")
            assert heads.locator(".whole").evaluate_all("all => all.every(word => word.getClientRects().length === 1)")
            assert heads.evaluate_all("all => all.every(head => head.scrollWidth <= head.clientWidth + 1)")
            text = shown.locator("[data-part=list] button[name=chosen] span").first
            assert text.evaluate("text => getComputedStyle(text).webkitLineClamp") == "2", "a third line ends in dots"
        chart = view.locator("svg").first.bounding_box()
        assert chart["y"] + chart["height"] - top <= room
        shown.get_by_label("search").focus()
        reached = []
        for _ in range(3):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.closest('[data-part]').dataset.part"))
        assert reached[0] == "list"
        assert reached[-1] == "view"
        shown.scroll_into_view_if_needed()
        page.screenshot(path=tmp_path / f"{name}.png")


def test_hovering_marks_what_stands_for_the_same_target_of_the_same_query(page: Any, tmp_path: Path):
    names, gold = [*"xyz"], np.array([3.0, 2.0, 1.0])
    data = Pairs("few", [*"aab"], [*"bcd"], gold, None, names, (0, 5), source="here", checksum="0")
    views = {chart: PairExplorer({"m": gold}, data, encoders={"m": encode}) for chart in ("ranks", "similarities")}
    for chart, view in views.items():
        view.select(chart=chart, chosen=0)
    put_on(page, tmp_path, **views)
    for chart in views:
        both = page.locator(f"[data-name={chart}] [data-part=view] .view")
        assert both.count() == 2, "both sentences have another partner, and each has letters of its own"
        for place in (0, 1):
            both.nth(place).locator("tr[data-row=A]").last.hover()
            assert both.nth(place).locator(".hit").count() > 1, "the row, and what is drawn of it"
            assert page.locator(".hit").count() == both.nth(place).locator(".hit").count()
    slow = "(...given) => new Promise((answer) => { window.late = () => window.kernel(...given).then(answer); })"
    page.evaluate(f"() => {{ window.kernel = window.told; window.told = {slow}; }}")
    search = page.locator("[data-name=ranks] [name=search]")
    search.fill("b")
    page.locator("[data-name=ranks]").get_by_text("no answer yet").wait_for()
    assert page.locator(".silent:visible").count() == 1
    page.evaluate("() => { window.told = window.kernel; window.late(); }")
    page.locator("[data-name=ranks] [role=status]", has_text="2 of 3 pairs").wait_for()
    assert page.locator("[data-name=ranks] .silent").inner_text() == "", "it was busy, and is heard again"
    page.locator("[data-name=similarities] [name=search]").fill("b")
    page.locator("[data-name=similarities] [role=status]", has_text="of 3 pairs").wait_for()
    assert page.locator("[data-name=similarities] .silent").inner_text() == ""


def test_a_table_that_is_wider_than_the_page_fades_where_more_of_it_is(page: Any):
    shown = (table_html(pd.DataFrame({f"column {number}": [number] for number in range(count)})) for count in (99, 2))
    parts = "".join(f'<div class="output" style="overflow-x:auto">{one}</div>' for one in shown)
    page.set_content(f"<style>{_RULES}</style>{parts}")
    ends = "[...document.querySelectorAll('.output')].map(one => getComputedStyle(one).getPropertyValue('--end'))"
    assert page.evaluate(ends) == ["0", "1"]
    page.evaluate("document.querySelector('.output').scrollLeft = 1e6")
    page.wait_for_function(f"{ends}[0] === '1'")
