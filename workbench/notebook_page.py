"""An executed notebook as one web page that needs no network."""

import json
import re
from pathlib import Path

from workbench.files import atomic_write, reraise_os_error

_EQUATION = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<line>[^$\n]+?)\$", re.DOTALL)
# nbconvert's page loads require.js and MathJax from a network; nothing in our notebooks uses them.
_FROM_NETWORK = re.compile(r'<script src="https://[^"]*">\s*</script>')
_FIGURE = "application/vnd.plotly.v1+json"
# Tables and figures before a widget's own view, which a page could only draw with a network.
_ORDER = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain"]


def export_html(notebook: Path) -> Path:
    """Write `notebook` as one HTML file in its folder, with figures, and return its path.

    The script that draws plotly's figures goes into the page once; equations become MathML.
    """
    import nbformat
    import plotly.io
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    content = nbformat.read(notebook, as_version=4)
    content.metadata.pop("widgets", None)  # widgets have a view in HTML, too
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = _EQUATION.sub(_as_mathml, cell.source)
    outputs = [output.data for cell in content.cells for output in cell.get("outputs", []) if "data" in output]
    for number, data in enumerate(data for data in outputs if _FIGURE in data):
        figure = plotly.io.from_json(json.dumps({key: data[_FIGURE][key] for key in ("data", "layout")}))
        data.clear()
        data["text/html"] = plotly.io.to_html(figure, full_html=False, include_plotlyjs=number == 0)
    settings = Config({"NbConvertBase": {"display_data_priority": _ORDER}})
    exporter = HTMLExporter(config=settings, exclude_input_prompt=True, exclude_output_prompt=True)
    page = _FROM_NETWORK.sub("", exporter.from_notebook_node(content)[0])
    target = notebook.with_suffix(".html")
    with reraise_os_error(target), atomic_write(target) as file:
        file.write(page)
    return target


def _as_mathml(equation: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    return convert(equation["block"] or equation["line"], display="block" if equation["block"] else "inline")
