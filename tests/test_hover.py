"""Figures in a browser: dollar signs and markup in names, and colours of the page."""

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
# What JupyterLab loads: plotly asks it to draw text between two dollars, and here it never answers.
MATHJAX = '<script>window.MathJax = {version: "3.2.2", config: {}, startup: {output: "svg"}};</script>'


def test_names_are_shown_as_they_are_in_the_ink_of_the_page_and_other_figures_keep_their_own(
    browser: Any, tmp_path: Path
):
    page, problems = browser.new_page(viewport={"width": 844, "height": 900}), []
    page.set_default_timeout(120_000)  # a busy machine loads plotly slowly
    page.on("pageerror", lambda error: problems.append(str(error)))
    others = go.Figure(go.Scatter(x=[1, 2], y=[1, 2]), {"font": {"color": "#770000"}})
    shown = [response_curves(TABLE, "temperature", LABEL), others]
    parts = [figure.to_html(full_html=False, include_plotlyjs=place == 0) for place, figure in enumerate(shown)]
    rules = f"<style>:root {{ --jp-ui-font-color1: #fffffe; }} {FIGURE_RULES}</style>"
    (tmp_path / "figures.html").write_text(f"{rules}{MATHJAX}{''.join(parts)}", encoding="utf-8")
    page.goto((tmp_path / "figures.html").as_uri())
    inks = []
    for figure in page.locator(".js-plotly-plot").all():
        figure.locator(".xtick text").first.wait_for()
        texts = figure.locator(".xtick text, .annotation-text")
        inks.append(set(texts.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")))
    assert inks == [{"rgb(255, 255, 254)"}, {"rgb(119, 0, 0)"}]
    assert page.locator(".annotation-text").all_text_contents() == ["dev", LABEL]
    page.close()
    assert problems == []
