"""Figures in a browser: dollar signs and markup in names."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.views import training_curve

pytestmark = pytest.mark.slow

LABEL = "<i>model</i> of $5 or $6"
HISTORY = pd.DataFrame({"step": [0, 5], "loss": [2.0, 1.0], "dev_spearman": [0.2, 0.3]})
# What JupyterLab loads: plotly asks it to draw text between two dollars, and here it never answers.
MATHJAX = (
    '<script>window.MathJax = {version: "3.2.2", config: {}, startup: {output: "svg"}};</script>'
)


def test_names_in_a_figure_are_shown_as_they_are(browser: Any, tmp_path: Path):
    page, problems = browser.new_page(viewport={"width": 844, "height": 900}), []
    page.set_default_timeout(120_000)  # a busy machine loads plotly slowly
    page.on("pageerror", lambda error: problems.append(str(error)))
    part = training_curve({LABEL: HISTORY}).to_html(full_html=False, include_plotlyjs=True)
    (tmp_path / "figures.html").write_text(f"{MATHJAX}{part}", encoding="utf-8")
    page.goto((tmp_path / "figures.html").as_uri())
    page.locator(".xtick text").first.wait_for()
    assert page.locator(".legendtext").all_text_contents() == [
        f"{LABEL}: {name}" for name in ("dev", "kept", "loss")
    ]
    page.close()
    assert problems == []
