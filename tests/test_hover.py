"""What a reader sees of a figure in a browser: what hovering shows, dollars in names, every model on the screen."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.look import RankingExplorer, closed_against_exact, query_view, rank_slopes, ranking_tables
from workbench.rankings import COLUMNS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]  # one server, one browser

TARGET = 'a "quoted" <b>target</b> from $1.20 to $20.35 & %{y}'
LABEL = "<i>model</i> of $5 or $6"
# What JupyterLab loads: plotly asks it to draw whatever stands between two dollars, and it never answers here.
MATHJAX = '<script>window.MathJax = {version: "3.2.2", config: {}, startup: {output: "svg"}};</script>'
OUTPUT = 844  # pixels that a notebook's output has on a screen of 1280


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: install chromium, or google-chrome, to test figures in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": OUTPUT, "height": 900})
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
    page.screenshot(path=tmp_path / "figure.png")


def test_hovering_shows_the_target_as_it_is(page: Any, tmp_path: Path):
    show(page, rank_slopes(query_view(tables([LABEL]), "q0")), tmp_path)
    points = page.locator(".scatterlayer .trace").first.locator(".point")
    for place, words in enumerate(["gold: rank 1", f"{LABEL}: rank 1"]):
        box = points.nth(place).bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.locator(".hoverlayer", has_text=words).wait_for()
        shown = page.locator(".hoverlayer").text_content()
        assert f"A: {TARGET}" in shown
        assert "gold 5" in shown


def test_dollars_and_markup_in_names_are_shown_as_they_are(page: Any, tmp_path: Path):
    show(page, closed_against_exact({LABEL: (np.array([0.1, 0.2]), np.array([0.1, 0.3]))}), tmp_path)
    assert page.locator(".annotation-text").all_text_contents() == [LABEL]
    show(page, rank_slopes(query_view(tables([LABEL]), "q0")), tmp_path)
    names = page.locator(".xtick text")
    without_breaks = ["".join(name.split()) for name in names.all_text_contents()]
    assert without_breaks == ["gold", "".join(LABEL.split())]
    assert names.evaluate_all("all => all.every(name => getComputedStyle(name).display !== 'none')")


@pytest.mark.parametrize("count", [1, 4, 8])
def test_every_model_is_on_the_screen(count: int, page: Any, tmp_path: Path):
    show(page, rank_slopes(query_view(tables([f"model {number}" for number in range(count)]), "q0")), tmp_path)
    right = page.locator(".xtick text").evaluate_all("all => all.map(name => name.getBoundingClientRect().right)")
    assert len(right) == count + 1
    assert max(right) <= OUTPUT
    title, buttons = (page.locator(where).bounding_box() for where in (".gtitle", ".modebar"))
    assert title["x"] + title["width"] <= buttons["x"] or title["y"] + title["height"] <= buttons["y"]


def test_a_list_of_thousands_opens_and_stays_on_a_few_screens(page: Any, tmp_path: Path):
    many = tables(["one", "two"], targets=2000)
    explorer = RankingExplorer(many)
    drawn = explorer.chart.outputs[0]["data"]["application/vnd.plotly.v1+json"]
    show(page, go.Figure(drawn), tmp_path)
    assert page.locator(".main-svg").first.bounding_box()["height"] < 900
    page.goto(explorer.to_html(tmp_path / "page.html").as_uri())
    assert page.locator("tbody tr").count() == 52, "50 targets, KCC and NDCG"
    assert page.locator("img").evaluate("image => image.naturalHeight") < 900
    page.screenshot(path=tmp_path / "page.png")
