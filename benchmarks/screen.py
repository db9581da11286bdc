"""How long a reader waits for what is seen: the live views in a real JupyterLab in a real Chromium.

Run with: python benchmarks/screen.py, on a quiet machine. Each time ends at the second frame after the page has
changed, so that what was drawn is on the screen; of repeated ones it is the fastest.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from live_lab import FLAGS, PATIENCE, Watched, command, errors, jupyterlab, open_notebook, wait_for_kernel  # noqa: E402

# what: (how it is made, seconds for the first view, the next one, a keystroke), as it should be.
VIEWS = {
    "10,000 pairs, 6 models": ("opened(10_000)", 2.0, 0.2, 0.1),
    "300 queries of 2,000 targets, 2 models": ("RankingExplorer(many)", 3.0, 0.5, 0.5),
    "100,000 pairs, 6 models": ("opened(100_000)", None, None, None),
}
SET_UP = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import numpy as np
from explorer import pairs, rankings
from workbench.look import PairExplorer, RankingExplorer
many = {{label: rankings(300, 2000, seed) for seed, label in enumerate("ab")}}
made = {{count: pairs(count) for count in (10_000, 100_000)}}
drawn = {{count: {{label: np.random.default_rng(1).random(count) for label in "abcdef"}} for count in made}}
def opened(count):
    return PairExplorer(drawn[count], made[count])
"""
# Seconds from the next key to the second frame after a change in the part of the view.
WAITED = """([cell, part]) => new Promise((done) => {
  const shown = document.querySelector(`${cell} [data-part=${part}]`);
  let start;
  setTimeout(() => done(NaN), 60_000); // nothing changed
  addEventListener("keydown", () => { start = performance.now(); }, { capture: true, once: true });
  const seen = new MutationObserver(() => {
    seen.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done((performance.now() - start) / 1000)));
  });
  seen.observe(shown, { childList: true, subtree: true, characterData: true });
})"""
# Seconds from running the chosen cell to the second frame after its view stands there.
OPENED = """([cell]) => new Promise((done) => {
  const start = performance.now();
  const look = () => document.querySelector(`${cell} [data-part=view] table`)
    ? requestAnimationFrame(() => requestAnimationFrame(() => done((performance.now() - start) / 1000)))
    : requestAnimationFrame(look);
  window.jupyterapp.commands.execute("notebook:run-cell");
  look();
})"""


def fastest(page: Any, cell: str, part: str, keys: list[str]) -> float:
    """Seconds until the part changes, of the fastest of these keys."""
    times = []
    for key in keys:
        page.evaluate(f"(given) => {{ window.waited = ({WAITED})(given); }}", [cell, part])
        page.keyboard.press(key)
        times.append(page.evaluate("window.waited"))
        page.wait_for_function("cell => !document.querySelector(`${cell} [aria-busy=true]`)", arg=cell)
    return min(times)


def measured(page: Any, number: int) -> tuple[float, float, float]:
    """Seconds until the view of the cell of this number stands there; the next one; a letter of a search."""
    cell = f".jp-Notebook .jp-Cell[data-windowed-list-index='{number}']"
    times = []
    for _ in range(3):
        page.locator(f"{cell} .jp-InputPrompt").click()
        command(page, "notebook:clear-cell-output")
        page.wait_for_function("cell => !document.querySelector(`${cell} [data-part=view]`)", arg=cell)
        wait_for_kernel(page)
        times.append(page.evaluate(OPENED, [cell]))
    page.locator(f"{cell} [data-walk] button[aria-current]").focus()
    following = fastest(page, cell, "view", ["ArrowDown"] * 5)
    page.locator(f"{cell} [name=search]").focus()
    typed = fastest(page, cell, "list", list("1234"))
    return min(times), following, typed


def main() -> None:
    """Prints the times beside those that they should keep to."""
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if executable is None:
        print("no Chromium on this machine: nothing is measured")
        return
    with tempfile.TemporaryDirectory() as home, sync_playwright() as started:
        folder = Path(home) / "notebooks"
        folder.mkdir()
        notebook = new_notebook(cells=[new_code_cell(SET_UP), *(new_code_cell(how) for how, *_ in VIEWS.values())])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, folder / "views.ipynb")
        browser = started.chromium.launch(executable_path=executable, args=FLAGS)
        with jupyterlab(folder) as address:
            page = Watched(browser, height=800).page
            open_notebook(page, address, "views.ipynb")
            wait_for_kernel(page)
            page.locator(".jp-Notebook .jp-Cell[data-windowed-list-index='0'] .jp-InputPrompt").click()
            command(page, "notebook:run-cell")
            page.locator(".jp-Cell[data-windowed-list-index='0'] .jp-InputPrompt", has_text="[1]").wait_for(
                timeout=10 * PATIENCE
            )
            for number, (what, (_, *limits)) in enumerate(VIEWS.items(), start=1):
                said = [
                    f"{name} {found:.3f} s" + (f" (should be under {limit:g})" if limit else "")
                    for name, found, limit in zip(
                        ("first view", "the next", "a key"), measured(page, number), limits, strict=True
                    )
                ]
                print(f"{what}: {'; '.join(said)}", flush=True)
            for problem in errors(page):
                print(problem)
        browser.close()


if __name__ == "__main__":
    main()
