"""Pages that need no network: a view, or an executed notebook, as one HTML file."""

import base64
import gzip
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from plotly.io import to_json
from plotly.io.base_renderers import MimetypeRenderer
from plotly.offline import get_plotlyjs

from workbench.files import HOME, AnyPath, user_path, write_text
from workbench.views._plot import figure_text
from workbench.views._style import render

# After blocks of code, code and escaped signs, which are passed over; without an empty line.
_EQUATION = re.compile(
    r"""(?msx) ^[ \t]*(`{3,}|~{3,}).+?^[ \t]*\1 | (`+)(?:(?!\n\s*\n).)+?\2 | \\.
    | (\$\$?)((?:(?!\n\s*\n)(?:\\.|[^$\\]))+)\3"""
)
_DISPLAYS = {"$": "inline", "$$": "block"}
_FIGURE = "application/vnd.plotly.v1+json"
# Tables and figures before a widget's own view, which a page could only draw with a network.
# That of Windows may be turned, doubled as in JSON, or between the marks of coloured code.
_SEPARATOR = r"(?:[\\/]|</?span[^>]*>)+"
_ORDER = "text/html image/svg+xml image/png text/markdown text/plain"


def write_page(path: AnyPath, html: str) -> Path:
    """Write a page, whole or not at all, and return its path without "~"."""
    target = user_path(path)
    # Pages are shared: the user's folder is nobody else's business. What only looks like it stays,
    # a part of a word, of an address or of packed weights.
    places = {HOME, os.path.realpath(HOME)}  # on a cluster it is often a link
    home = "|".join(re.escape(place).replace(r"\\", _SEPARATOR) for place in places)
    write_text(target, re.sub(rf"(?<![\w+])(?<![\w+]/)(?:{home})(?<=\w)\b", "~", html))
    return target


def script_html() -> str:
    """Return HTML that loads plotly's script, packed, for figures of a `FigureRenderer`."""
    script = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return render("plotly.html", script=base64.b64encode(script).decode())


class FigureRenderer(MimetypeRenderer):
    """Add HTML to plotly's own format: a figure with a text, drawn by the script of the page."""

    def to_mimebundle(self, fig_dict: Any) -> dict[str, str]:
        """Return the HTML of a figure."""
        figure: Any = to_json(fig_dict, validate=False)
        # The text of a script element ends at "</".
        figure = figure.replace("<", "\\u003c")
        return {"text/html": render("figure.html", figure=figure, alt=figure_text(fig_dict))}


def export_html(notebook: Path) -> Path:
    """Write `notebook` as one HTML file in its folder that needs no network; return its path.

    The script that draws plotly's figures goes into the page once; equations become MathML.

    Example:
        export_html(Path("runs/simcse.ipynb"))
    """
    # This takes a second to import, which views of a notebook do without.
    import nbformat

    page = notebook_html(nbformat.read(notebook, as_version=4))
    # nbconvert loads require.js and MathJax from a network; nothing in our notebooks uses them.
    page = re.sub(r'<script src="https://[^"]*">\s*</script>', "", page)
    return write_page(notebook.with_suffix(".html"), page)


def notebook_html(content: Any, template: str = "lab") -> str:
    """Return a notebook as HTML by a template of nbconvert; `content` is changed.

    Figures are drawn by a script that is in the page once; equations are MathML.
    """
    from latex2mathml.converter import convert
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    def mathml(equation):
        with suppress(Exception):  # an equation that is not right, or none, stays as it is
            return convert(equation[4], display=_DISPLAYS[equation[3]])
        return equation[0]

    content.metadata.pop("widgets", None)  # widgets have a view in HTML, too
    script = script_html()
    draw = FigureRenderer().to_mimebundle
    for cell in content.cells:
        is_hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        cell.metadata["transient"] = {"remove_source": is_hidden}
        if cell.cell_type == "markdown":
            cell.source = _EQUATION.sub(mathml, cell.source)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if _FIGURE in data:
                # The script goes before the first figure, and the later ones share it.
                data["text/html"] = script + draw(data[_FIGURE])["text/html"]
                script = ""
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": _ORDER.split()}}),
        template_name=template,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    return exporter.from_notebook_node(content)[0]
