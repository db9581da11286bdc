"""What a reader sees of a figure in a browser: what hovering shows, dollars in names, every model on the screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.views import response_curves
from workbench.views._style import FIGURE_RULES

pytestmark = pytest.mark.slow

LABEL = "<i>model</i> of $5 or $6"
TABLE = pd.DataFrame({"label": "m", "value": [0.1], "dev": 0.5, "dev_std": 0.0, "test": 0.5, "test_std": 0.0})
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


def show(page: Any, figure: go.Figure, tmp_path: Path) -> None:
    html = figure.to_html(include_plotlyjs=True, config={"responsive": True})
    (tmp_path / "figure.html").write_text(html.replace("<head>", f"<head>{MATHJAX}"), encoding="utf-8")
    page.goto((tmp_path / "figure.html").as_uri())
    page.locator(".main-svg .xtick text").first.wait_for()


def test_dollars_and_markup_in_names_are_shown_as_they_are(page: Any, tmp_path: Path):
    show(page, response_curves(TABLE, "temperature", LABEL), tmp_path)
    assert page.locator(".annotation-text").all_text_contents() == ["dev", LABEL]


def test_a_figure_has_the_ink_of_the_page_and_a_figure_of_others_keeps_its_own(page: Any, tmp_path: Path):
    others = go.Figure(go.Scatter(x=[1, 2], y=[1, 2]), {"font": {"color": "#770000"}})
    inks = []
    for figure in (response_curves(TABLE, "temperature", "a"), others):
        show(page, figure, tmp_path)
        page.add_style_tag(content=f":root {{ --jp-ui-font-color1: #fffffe; }} {FIGURE_RULES}")
        written = page.locator(".xtick text, .annotation-text")
        inks.append(set(written.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")))
    assert inks == [{"rgb(255, 255, 254)"}, {"rgb(119, 0, 0)"}]
