"""Figures in a browser: dollar signs and markup in names; exported pages without a network."""

from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import papermill
import pytest
from nbconvert import HTMLExporter
from test_execution import notebook

from workbench.views import export_html, training_curve

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


def test_figures_of_papermill_are_in_the_page_of_nbconvert_without_a_network(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("PLOTLY_RENDERER", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    first = "from workbench.views import show_tables\nimport plotly.graph_objects as go\n"
    figure = "go.Figure(go.Scatter(y=[1, 3, x], name='</script>'), {'title': {'text': 'one'}})"
    file = notebook(tmp_path, f"{first}show_tables()", figure, figure)
    papermill.execute_notebook(str(file), str(tmp_path / "out.ipynb"), progress_bar=False)
    assert (tmp_path / "out.ipynb").stat().st_size < 2_300_000, "the packed script is there once"
    page, _ = HTMLExporter().from_notebook_node(nbformat.read(tmp_path / "out.ipynb", 4))
    (tmp_path / "out.html").write_text(page, encoding="utf-8")
    context = browser.new_context(offline=True)
    opened = context.new_page()
    for path in (tmp_path / "out.html", export_html(tmp_path / "out.ipynb")):
        opened.goto(path.as_uri())
        opened.locator("[role=figure] .scatterlayer path.point").nth(5).wait_for(timeout=120_000)
        labels = [one.get_attribute("aria-label") for one in opened.locator("[role=figure]").all()]
        assert labels == ["figure: one; </script>"] * 2
    context.close()
