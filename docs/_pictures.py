"""make pictures: take the pictures of README.md, light and dark, to docs/images/.

They are of the live views, the page with an encoder and the figure of a training, as Chromium shows
them, with bundled encoders and data. The run is trained once, in build/pictures/, and reused."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs

import workbench
from workbench import evaluate, load_pairs, views
from workbench.config import CoSENTConfig
from workbench.views.encoders import CachedEncoder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
# The tests show live views without a notebook.
put_on: Any = importlib.import_module("stage").put_on

IMAGES, BUILD = ROOT / "docs" / "images", ROOT / "build" / "pictures"
ENCODERS, SUITE = ["english-encoder", "word-overlap"], "ladders-all"
QUESTION = "The train was late, so I missed the meeting."
ANSWERS = [
    "I did not get to the meeting because of a delayed train.",
    "The meeting was late, so I missed the train.",
    "My train left on time and I sat in the meeting.",
    "Trains to the coast run every hour.",
    "He forgot the meeting.",
]
# The views side by side, as their notebook has them; the heading of the empty page is not shown.
LAYOUT = """body { margin: 12px } h1 { display: none }
main { display: grid; gap: 4px 16px; grid-template-columns: %s }
[data-view=view] .frame { max-height: %s !important }
[data-view=view2] { display: none }
.workbench-panel [data-scroll] { max-height: none }"""
FIGURE = """<meta name="color-scheme" content="light dark"><title>curve</title>
<style>body { margin: 8px }</style><div id="drawn"></div>"""
DRAW = "(figure) => Plotly.newPlot('drawn', figure.data, figure.layout, {staticPlot: true})"


def main() -> None:
    """Write each picture in both colour schemes."""
    BUILD.mkdir(parents=True, exist_ok=True)
    pairs = load_pairs(SUITE)
    reports = {name: evaluate(CachedEncoder(name, name).model, {SUITE: pairs}) for name in ENCODERS}
    every_pair = views.PairExplorer({name: one.scores for name, one in reports.items()}, pairs)
    every_pair.grid.ticked = sorted(every_pair.grid.listed[[1, 4]].tolist())
    run = workbench.run(CoSENTConfig.from_parameters("demo"), BUILD / "runs", quiet=True)
    curve = views.training_curve({"CoSENT": run.history()})
    page = views.Ask(ENCODERS, QUESTION, ANSWERS).to_html(BUILD / "ask.html", encoder=True)
    browser = next(
        filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
    )
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])

        def opened(width: int, height: int) -> Any:
            return chromium.new_page(
                viewport={"width": width, "height": height}, device_scale_factor=1.5
            )

        taken = opened(1280, 500)
        put_on(taken, BUILD, view=views.RankingExplorer(reports))
        taken.add_style_tag(content=LAYOUT % ("30% 1fr", "425px"))
        save(taken, "explorer")
        taken = opened(1280, 640)
        put_on(taken, BUILD, view=every_pair)
        taken.add_style_tag(content=LAYOUT % ("1fr", "570px"))
        save(taken, "pairs")
        taken = opened(760, 700)
        taken.goto(page.as_uri())
        taken.get_by_text("Rank 1 is the nearest").wait_for()
        save(taken, "ask")
        taken = opened(760, 480)
        taken.set_content(FIGURE)
        taken.add_script_tag(content=get_plotlyjs())
        taken.evaluate(DRAW, json.loads(str(curve.to_json())))
        save(taken, "curve")


def save(page: Any, name: str) -> None:
    """Write what the page shows, light and dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        path = IMAGES / f"{name}-{scheme}.png"
        page.screenshot(path=path)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
