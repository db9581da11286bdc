"""An executed notebook as one web page, to be opened without a network."""

import json
import re
from pathlib import Path
from typing import Any

from workbench.files import explained, replacing
from workbench.installation import require_modules

_MATHS = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<line>[^$\n]+?)\$", re.DOTALL)
# nbconvert's page loads require.js and MathJax from a network; nothing in ours uses them.
_FROM_ELSEWHERE = re.compile(r'<script src="https://[^"]*">\s*</script>')
_FIGURE = "application/vnd.plotly.v1+json"
# Tables and figures before the widget's own view, which needs a network to be drawn in a page.
_ORDER = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain"]


def export_html(notebook: Path) -> Path:
    """Writes `notebook` as one HTML file beside it, figures included; returns its path.

    Plotly figures stand in the notebook as data alone, which keeps it small; the script that draws them goes into the
    HTML once. Equations become MathML, which browsers draw themselves.
    """
    require_modules("nbformat", "nbconvert", "latex2mathml")
    import nbformat
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    content = nbformat.read(notebook, as_version=4)
    content.metadata.pop("widgets", None)  # what a widget shows stands beside it as HTML
    figures = []
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = _with_maths(cell.source)
        figures += [output.data for output in cell.get("outputs", []) if _FIGURE in output.get("data", {})]
    for number, data in enumerate(figures):
        _draw(data, with_script=number == 0)
    settings = Config({"NbConvertBase": {"display_data_priority": _ORDER}})
    exporter = HTMLExporter(config=settings, exclude_input_prompt=True, exclude_output_prompt=True)
    page = _FROM_ELSEWHERE.sub("", exporter.from_notebook_node(content)[0])
    target = notebook.with_suffix(".html")
    with explained(target), replacing(target) as file:
        file.write(page)
    return target


def _draw(data: dict[str, Any], *, with_script: bool) -> None:
    """Turns plotly's data in an output into HTML that draws it."""
    import plotly.io

    figure = plotly.io.from_json(json.dumps({key: data[_FIGURE][key] for key in ("data", "layout")}))
    data.clear()
    data["text/html"] = plotly.io.to_html(figure, full_html=False, include_plotlyjs=with_script)


def _with_maths(text: str) -> str:
    """Markdown whose equations in dollars are MathML."""
    from latex2mathml.converter import convert

    def drawn(found: re.Match[str]) -> str:
        return convert(found["block"] or found["line"], display="block" if found["block"] else "inline")

    return _MATHS.sub(drawn, text)
