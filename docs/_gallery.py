"""make gallery: execute the notebooks and write copies whose figures GitHub shows, to
docs/gallery/.

GitHub draws images, Markdown, text and HTML without styles and scripts. Chromium therefore takes an
image of each plotly figure and of each live view; tables stay HTML. Usage: python docs/_gallery.py
[NOTEBOOK]... (names such as 20_compare; by default all). Runs are trained once, in build/gallery/,
and reused."""

import base64
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs

import workbench
from workbench import execution
from workbench.config import CONFIGS
from workbench.execution import notebook_of

ROOT = Path(__file__).resolve().parent.parent
GALLERY, BUILD = ROOT / "docs" / "gallery", ROOT / "build" / "gallery"
FIGURE, VIEW = "application/vnd.plotly.v1+json", "application/vnd.jupyter.widget-view+json"
SHOWN = ("image/png", "image/svg+xml", "text/html", "text/markdown", "text/plain")
DRAWN = re.compile(
    "<img|<svg|border-collapse"
)  # HTML of a view, which is nothing without its styles
COMPARED = (
    "simcse",
    "compcse",
)  # trained with three seeds, so that intervals and tests have something to compare
WIDTH, HEIGHT = 848, 900  # pixels of an output in JupyterLab; a longer list is cut
DRAW = """(figure) => Plotly.newPlot("drawn", figure.data, {
    ...figure.layout, width: figure.layout.width || 820,
    paper_bgcolor: "white", plot_bgcolor: "white"}, {staticPlot: true})"""
# A figure has titles of itself, its axes and its panels; a drawing and an image have words of their
# own; of a view these are few, and what it says follows.
WORDS = """() => {
    const drawn = document.querySelector("#drawn")
    const titles = "[class$=title], .annotation-text, .legendtext, figcaption, [aria-label], [alt]"
    const found = [...drawn.querySelectorAll(titles)].map((one) =>
        one.getAttribute("aria-label") || one.getAttribute("alt") || one.textContent)
    const words = [...new Set(found.map((one) => one.trim()).filter(Boolean))].join("; ")
    const whole = words.length < 40 ? words + " " + drawn.innerText : words
    return whole.replace(/\\s+/g, " ").trim().slice(0, 300)}"""
PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>
    body {margin: 0; background: white; font: 13px/1.4 Helvetica, Arial, sans-serif}
    #drawn {display: inline-block; padding: 4px; max-width: 840px}</style>
    <div id="drawn">%s</div>"""


def main(names: list[str]) -> None:
    """Write the gallery copies of these notebooks, or of all."""
    sources = sorted((ROOT / "notebooks").glob("*.ipynb"))
    if unknown := {*names} - {path.stem for path in sources}:
        raise SystemExit(f"no notebook {', '.join(sorted(unknown))}")
    chosen = [path for path in sources if path.stem in names] or sources
    for seed in range(1, 3):
        for method in COMPARED:
            workbench.run(CONFIGS[method].from_parameters("demo", seed), BUILD / "runs", quiet=True)
    methods = [notebook_of(method) for method in CONFIGS]
    for needed in map(notebook_of, COMPARED):  # notebooks about runs follow those that make them
        run_notebook(needed)
    GALLERY.mkdir(exist_ok=True)
    browser = next(
        filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
    )
    with sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": WIDTH, "height": HEIGHT}
        )
        for path in sorted(chosen, key=lambda path: (path not in methods, path)):
            target = GALLERY / path.name
            nbformat.write(
                pictured(nbformat.read(run_notebook(path), as_version=4), path.name, page), target
            )
            print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")
    lines = [
        "# The notebooks, executed",
        "",
        "`make gallery` writes these copies, with images of their figures.",
        "",
    ]
    for path in sources:
        title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0].lstrip("# ")
        lines.append(f"- [{path.stem}]({path.name}): {title}")
    (GALLERY / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_notebook(path: Path) -> Path:
    """Execute a notebook and return its executed copy; one of the same content is not executed
    again."""
    executed, source = BUILD / path.name, BUILD / f"{path.stem}.source"
    text = path.read_text(encoding="utf-8")
    if not (executed.is_file() and source.is_file() and source.read_text(encoding="utf-8") == text):
        BUILD.mkdir(parents=True, exist_ok=True)
        parameters = {"runs_root": str(BUILD / "runs")} if '"runs_root = ' in text else {}
        with mock.patch.object(execution, "_LESSON", ""):  # with the lessons
            execution._execute_notebook(path, executed, parameters)
        source.write_text(text, encoding="utf-8")
    return executed


def pictured(notebook: NotebookNode, name: str, page: Any) -> NotebookNode:
    """Return the executed notebook with images instead of figures and views, and without paths and
    timings."""
    notebook.cells = [
        cell
        for cell in notebook.cells
        if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info")}
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type == "markdown":
            source = f"Source: [{name}](../../notebooks/{name})"
            linked = re.sub(r"^.*\(\.\./docs/gallery/.*$", source, cell.source, flags=re.MULTILINE)
            cell.source = linked.replace("(../docs/", "(../").replace("(../data/", "(../../data/")
        else:
            cell.outputs = [shown for output in cell.outputs for shown in pictures(output, page)]
    return notebook


def pictures(output: NotebookNode, page: Any) -> list[NotebookNode]:
    """Return what GitHub can show of an output: an image of a figure, of a view or of a drawing,
    otherwise a table."""
    if output.output_type == "stream":
        output.text = relative(output.text)
        return [output]
    data, result = output.get("data", {}), []
    text = relative(data.get("text/plain", ""))
    html = relative(data.get("text/html", ""))
    if html and (VIEW in data or DRAWN.search(html)):
        page.set_content(PAGE % html)
        result.append(image(page, text))
    elif kept := {
        kind: relative(data[kind]) for kind in SHOWN if kind in data and FIGURE not in data
    }:
        result.append(new_output("display_data", kept))
    if FIGURE in data:
        page.set_content(PAGE % "")
        page.add_script_tag(content=get_plotlyjs())
        page.evaluate(DRAW, {key: data[FIGURE].get(key) for key in ("data", "layout")})
        result.append(image(page, text if "Figure" not in text else "a figure"))
    return result


def image(page: Any, text: str) -> NotebookNode:
    """Return an output with the image of what the page shows, and words for who cannot see it."""
    box = page.locator("#drawn").bounding_box()
    size = {"x": 0, "y": 0, "width": min(box["width"], WIDTH), "height": min(box["height"], HEIGHT)}
    drawn = base64.b64encode(page.screenshot(clip=size, full_page=True)).decode()
    words = page.evaluate(WORDS)
    shown = {"image/png": drawn, "text/plain": text[:200]}
    return new_output("display_data", shown, metadata={"image/png": {"alt": words}})


def relative(text: str) -> str:
    """Return text without the paths of the machine."""
    return text.replace(f"{BUILD}/", "").replace(f"{ROOT}/", "").replace(str(Path.home()), "~")


if __name__ == "__main__":
    main(sys.argv[1:])
