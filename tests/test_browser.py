"""Notebooks in a real JupyterLab and a real browser: each of them run live, the explorer by keyboard and untrusted."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from live_lab import (
    PATIENCE,
    Watched,
    change_cell,
    command,
    errors,
    jupyterlab,
    open_notebook,
    pictures,
    run_all,
    theme,
    wait_for_kernel,
)
from nbformat.v4 import new_code_cell, new_notebook
from stage import violations

from workbench.config import SimCSEConfig
from workbench.data import load_pairs
from workbench.execution import execute
from workbench.notebook_page import export_html

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE)

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NOTEBOOK = FOLDER / "21_rankings.ipynb"
QUERIES = "[data-kind=queries]"
LIST = f"{QUERIES} [data-walk] button"
VIEW = f"{QUERIES} [data-part=view]"
HOSTILE = '<b>a</b> & "it\'s" $1 to $2 \u05d0\u05d1'
LABEL = "<i>start</i> $3 or $4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What JupyterLab serves."""
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    folder.mkdir()
    content = nbformat.read(NOTEBOOK, as_version=4)
    (number,) = (place for place, cell in enumerate(content.cells) if "parameters" in cell.metadata.get("tags", []))
    content.cells[number].source = typed(content.cells[number].source, {"ask_with": []})  # a question has its own test
    nbformat.write(content, folder / "live.ipynb")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with jupyterlab(folder) as found:
        yield found


@pytest.fixture(scope="module")
def shared(browser: Any) -> Iterator[Watched]:
    """A page in which JupyterLab, which takes seconds, is loaded once."""
    watched = Watched(browser)
    yield watched
    watched.page.close()


@pytest.fixture
def watched(shared: Watched, tmp_path: Path) -> Iterator[Watched]:
    shared.problems.clear()
    shared.elsewhere.clear()
    yield shared
    shared.page.screenshot(path=tmp_path / "end.png")  # to see where it stopped
    assert shared.problems == []
    assert shared.elsewhere == []


def best(page: Any) -> str:
    """The target that stands first in the table of the chosen query, which the chart must have too."""
    view = page.locator(VIEW)
    title = view.locator("g[data-row=A] title").text_content()
    target = view.locator("tbody tr").first.locator("td").nth(1).inner_text()
    assert title.startswith(f"A: {target}\n")
    return target


def wait_for_another(page: Any, target: str) -> str:
    page.wait_for_function(
        "([cell, old]) => ![undefined, old].includes(document.querySelector(cell)?.innerText)",
        arg=[f"{VIEW} tbody td:nth-child(2)", target],
    )
    return best(page)


def test_the_keyboard_alone_goes_through_queries_and_pairs(watched: Watched, address: str):
    page = watched.page
    open_notebook(page, address, "live.ipynb")
    wait_for_kernel(page)
    command(page, "notebook:run-all-cells")
    page.locator(f"{VIEW} svg").wait_for(timeout=4 * PATIENCE)
    first = best(page)
    page.locator(LIST).first.scroll_into_view_if_needed()

    page.locator(f"{LIST}[aria-current]").focus()
    page.keyboard.press("ArrowDown")
    wait_for_another(page, first)
    assert page.locator(f"{LIST}:focus").get_attribute("aria-current") == "true", "the focus goes along"
    page.keyboard.press("ArrowUp")
    page.wait_for_function(
        "([cell, text]) => document.querySelector(cell)?.innerText === text",
        arg=[f"{VIEW} tbody td:nth-child(2)", first],
    )
    page.locator(f"{VIEW} g[data-row=A] polyline").hover(force=True)
    assert page.locator(f"{VIEW} tr.hit td").nth(1).inner_text() == first

    page.locator(f"{QUERIES} [name=order]").focus()
    page.keyboard.press("ArrowDown")
    page.locator(f"{QUERIES} [data-part=status]", has_text="KCC of a").wait_for()
    assert page.locator(LIST).first.inner_text().startswith("-")

    page.locator(f"{QUERIES} [name=search]").focus()
    page.keyboard.type("negative zebra")
    page.locator(f"{QUERIES} [role=status]", has_text="take a word").wait_for()
    page.keyboard.press("Control+A")
    page.keyboard.type("chef")
    counted = re.compile(r"^\d{1,2} of 250 queries; before each: KCC of a$")
    page.locator(f"{QUERIES} [role=status]", has_text=counted).wait_for()
    page.locator(f"{QUERIES} mark", has_text=re.compile("^chef$")).first.wait_for()  # "che" may count as many
    assert set(page.locator(f"{QUERIES} mark").all_inner_texts()) == {"chef"}

    every = page.locator("[data-kind=pairs]")
    every.locator("[name=low]").focus()
    page.keyboard.type("4.9")
    near = int((load_pairs("world-test").gold >= 4.9).sum())  # each letter typed is an answer of its own
    every.locator("[role=status]", has_text=f"{near} of 1,750 pairs").wait_for()
    every.locator("tbody button[aria-current]").focus()
    page.keyboard.press("ArrowDown")
    second = every.locator("[data-part=list] tbody tr").nth(1)
    second.locator("button[aria-current]").wait_for()
    assert second.locator("td").nth(0).inner_text() in every.locator("[data-part=view] .head b").first.inner_text()
    assert all(float(gold) >= 4.9 for gold in every.locator("[data-part=list] td:nth-child(3)").all_inner_texts())

    every.locator("[name=chart]").focus()
    page.keyboard.press("ArrowDown")
    band = every.get_by_role("button", name="gold 3 to 4: 0 pairs")  # those from 4.9 on are listed
    band.focus()
    page.keyboard.press("Enter")
    gold = load_pairs("world-test").gold
    every.locator("[role=status]", has_text=f"{((gold >= 3) & (gold < 4)).sum()} of 1,750 pairs").wait_for()
    assert every.get_by_label("gold from").input_value() == "3"
    assert page.evaluate("document.activeElement.dataset.tell") == "band", "the focus stays"
    for name in ("Light", "Dark"):
        theme(page, name)
        pictures(page, queries=page.locator(QUERIES), pairs=every)
        assert violations(page) == [], name


def test_reopened_without_trust_the_rankings_are_still_there(
    watched: Watched, address: str, folder: Path, tmp_path: Path, browser: Any
):
    execute(NOTEBOOK, folder / "untrusted.ipynb", {"runs_root": str(tmp_path), "ask_with": []})
    page = watched.page
    open_notebook(page, address, "untrusted.ipynb")
    output = page.locator(".jp-OutputArea-output").filter(has_text="Run the cell to see the others").first
    output.wait_for()
    assert page.locator(".workbench-look").count() == 0
    assert output.locator("table").count() == 3
    loaded = "all => Promise.all(all.map(image => image.decode().then(() => image.naturalWidth > 0)))"
    assert output.locator("img").evaluate_all(loaded) == [True] * 3
    cell = output.locator("tbody tr").first.locator("td")
    assert cell.nth(1).evaluate("cell => getComputedStyle(cell).textAlign") == "left"
    output.scroll_into_view_if_needed()

    exported = Watched(browser)
    exported.page.goto(export_html(folder / "untrusted.ipynb").as_uri())
    assert exported.page.locator("table").filter(has_text="gold rank").count() >= 3
    assert set(exported.page.locator("img").evaluate_all(loaded)) == {True}
    exported.page.locator("table").filter(has_text="gold rank").first.scroll_into_view_if_needed()
    exported.page.close()
    assert (exported.problems, exported.elsewhere) == ([], [])


ASK = f"""
from workbench.look import Ask
Ask({{{LABEL!r}: "world-encoder", "teacher": "world-teacher"}}, "the chef chops", ["onion is cut", "the boat sinks"])
"""

WHY = f"""
from IPython.display import display
from workbench import load_pairs
from workbench.look import RankingExplorer, Why
from workbench.rankings import ranking_table
display(Why({{{LABEL!r}: "world-encoder", "english": "english-encoder"}}, "the chef chops", "onion is cut"))
pairs = load_pairs("world-test")
RankingExplorer({{"start": ranking_table(pairs, pairs.gold, "world")}}, encoders={{"start": "world-encoder"}})
"""

CURVE = """
import time
from pathlib import Path
from workbench.look import LiveCurve
curve = LiveCurve(None, "live")
for step in (0, 1, 2):
    while step == 2 and not Path("go on").exists():
        time.sleep(0.05)
    curve({"step": step, "loss": 1.0, "dev_spearman": step / 10})
"""


def test_a_question_is_asked_and_answered_by_keyboard_alone(watched: Watched, address: str, folder: Path):
    notebook = new_notebook(cells=[new_code_cell(ASK), new_code_cell(WHY)])
    notebook.metadata = nbformat.read(NOTEBOOK, as_version=4).metadata
    nbformat.write(notebook, folder / "ask.ipynb")
    page = watched.page
    open_notebook(page, address, "ask.ipynb")
    wait_for_kernel(page)
    command(page, "notebook:run-all-cells")
    answer = page.locator("[data-kind=ask] [data-part=answer]")
    answer.locator("svg").wait_for(timeout=4 * PATIENCE)  # torch is loaded first
    page.locator("[data-kind=ask] [name=query]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(HOSTILE)
    answer.locator(".head b").get_by_text(HOSTILE, exact=True).wait_for()
    assert page.evaluate("document.activeElement.name") == "query", "the focus stays where somebody types"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    page.keyboard.type(HOSTILE)
    first = answer.locator("tbody tr").first
    first.get_by_text(HOSTILE, exact=True).wait_for()
    assert first.locator("td").nth(2).inner_text().split() == ["1", "1.000"], "the query itself is nearest"
    assert answer.locator("th").nth(1).inner_text() == LABEL
    page.keyboard.press("Tab")
    page.keyboard.type("0 1 4")
    answer.get_by_text("NDCG", exact=True).wait_for()
    assert answer.locator("tbody tr td:nth-child(3)").all_inner_texts()[:3] == ["4", "1", "0"]

    answer.locator("g[data-row=B] polyline").hover(force=True)  # a line lies under its own letters
    assert answer.locator("tr.hit td").nth(1).inner_text() == "the boat sinks"
    assert answer.locator("g.hit title").text_content().startswith("B: the boat sinks")
    page.locator("[data-kind=ask] [name=among]").focus()
    page.keyboard.press("ArrowDown")
    answer.get_by_text("stand under every encoder").wait_for()
    assert answer.locator("tbody tr").count() == 10

    # Why: the words of a target that is typed, and in the explorer what a row hangs on, by Enter and by a click.
    why = page.locator("[data-kind=why]")
    why.get_by_label("target", exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(HOSTILE)
    words = why.locator("table").filter(has=page.locator("caption", has_text=re.compile("^target$")))
    words.get_by_role("rowheader", name="\u05d0\u05d1", exact=True).wait_for()  # of the whole text, not of a part
    assert re.fullmatch(r"[▲▼]0\.\d{3}", words.locator("td.number").first.inner_text())
    both = "table => [table.caption, [...table.querySelectorAll('td')].at(-1)].map(part => part.innerText)"
    caption, total = why.locator("table").last.evaluate(both)  # in one step: between two the table may be drawn again
    assert float(total) / 100 == pytest.approx(float(caption.split()[-1]), abs=1e-3)
    explorer = page.locator(QUERIES)
    explorer.locator("button[name=why]").first.focus()
    page.keyboard.press("Enter")
    explorer.get_by_text("Why A?").wait_for()
    explorer.locator("tbody tr[data-row=C] td.text").click()
    explorer.get_by_text("Why C?").wait_for()
    explorer.get_by_label("against").select_option("A")
    explorer.locator("caption", has_text="second target").wait_for()

    page.locator("[data-kind=ask] [name=among]").select_option("the lines below")
    theme(page, "Light")
    for chart, said in (("map", "PCA of the vectors"), ("similarities", "Cosine of each with each")):
        for view in (page.locator("[data-kind=ask]"), explorer):
            view.get_by_label("chart").select_option(chart)
            view.get_by_text(said).wait_for()
            view.locator("figure [data-row=B] :is(text, td)").first.hover(force=True)
            assert view.locator("tr.hit td").first.inner_text() == "B"
        pictures(page, **{f"ask-{chart}": page.locator("[data-kind=ask]"), f"queries-{chart}": explorer})
    theme(page, "Dark")
    pictures(page, **{f"ask-{chart}": page.locator("[data-kind=ask]"), f"queries-{chart}": explorer, "why": why})
    assert violations(page) == []

    # The curve of a training grows in its one output while the kernel is busy.
    change_cell(page, 1, CURVE)
    page.keyboard.press("Shift+Enter")
    points = page.locator(".js-plotly-plot .scatterlayer path.point")
    expect(points).to_have_count(3)  # two measurements, and the ring of the checkpoint that is kept
    (folder / "go on").touch()
    expect(points).to_have_count(4)
    expect(page.locator(".js-plotly-plot")).to_have_count(1)


TINY = {"max_steps": 2, "eval_steps": 2, "train_limit": 64, "batch_size": 16}
BASE = f"../runs/simcse/{SimCSEConfig.from_parameters('demo', 0, TINY).digest()}-s0"
# What a person would type into the cell of parameters to see a notebook through in seconds. 20 and 21 look at the runs
# of those before them.
TYPED: dict[str, dict[str, Any]] = {
    "00_tour": {"suite": "ladders-all"},
    **{name: {"overrides": TINY} for name in ("10_simcse", "11_rankcse", "12_compcse", "13_cosent")},
    "14_rankencoder": {"overrides": TINY | {"base": BASE, "corpus_size": 64}},
    "15_rank_closed_form": {"corpus_size": 200},
    "16_mixed": {"overrides": TINY},
    "20_compare": {"samples": 20},
    "21_rankings": {"before": False, "ask_with": ["world-encoder", "world-teacher"]},
    "22_what_of_the_papers": {"suite": "world-test"},
}


MECHANISMS = ["11_rankcse", "12_compcse", "13_cosent", "14_rankencoder"]  # each has a view of how it works
CURVES = {"12_compcse": 3, "14_rankencoder": 2}  # that grew, and one of several trainings side by side


def typed(source: str, values: dict[str, Any]) -> str:
    """The cell of parameters with these values in the place of those that stand there."""
    for name, value in values.items():
        source, count = re.subn(rf"(?m)^{name} = .*?(?=  #|$)", f"{name} = {value!r}", source)
        assert count == 1, name
    return source


def test_every_notebook_runs_live_without_an_error(watched: Watched, address: str, folder: Path):
    assert [path.stem for path in NOTEBOOKS] == sorted(TYPED)
    page, failed = watched.page, {}
    curve = page.locator(".js-plotly-plot", has_text="Dev Spearman and training loss")
    (folder / "tried").mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, folder / "tried" / path.name)
        open_notebook(page, address, f"tried/{path.name}")
        cells = nbformat.read(path, as_version=4).cells
        (number,) = (place for place, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", []))
        change_cell(page, number, typed(cells[number].source, TYPED[path.stem]))
        run_all(page, seconds=240)
        if found := errors(page):
            failed[path.stem] = found
        elif "overrides" in TYPED[path.stem]:
            bars = page.locator(".jp-OutputArea .jupyter-widgets .progress-bar-success")
            expect(bars, f"{path.stem}: no bar showed how far training was").not_to_have_count(0)
            expect(curve).to_have_count(CURVES.get(path.stem, 1))
        if path.stem in MECHANISMS and not failed:
            try_mechanism(page)
        if path.stem == "21_rankings" and not failed:
            pick_runs(page)
    assert failed == {}
    assert len(list((folder / "runs").glob("*/*/metrics.json"))) == 7  # CompCSE's baseline is a run too


def pick_runs(page: Any) -> None:
    """A run is taken away by keyboard and the seeds set apart by mouse: the explorer below follows at once."""
    runs, labels = page.locator("[data-kind=runs]"), page.locator(f"{VIEW} thead th.name")
    labels.first.wait_for()  # a view is drawn after the kernel is idle
    before = labels.all_inner_texts()
    box = runs.get_by_role("checkbox", name="mixed, seed 0")
    box.focus()
    page.keyboard.press("Space")
    expect(labels).to_have_text([label for label in before if label != "mixed"])
    assert page.evaluate("document.activeElement.name") == box.get_attribute("name"), "the focus stays"
    runs.get_by_label("seeds").select_option("one by one")
    expect(labels.filter(has_text="simcse, seed 0")).to_have_count(1)
    runs.get_by_label("before", exact=True).uncheck()
    expect(labels.filter(has_text="before")).to_have_count(0)


def try_mechanism(page: Any) -> None:
    """Its first control by keyboard and its last by mouse: what is computed changes."""
    view = page.locator("[data-kind=mechanism]")
    said = view.locator("[data-part=answer] .head").first
    before = said.inner_text()
    view.locator("[name]").first.focus()
    page.keyboard.press("ArrowUp")
    expect(said).not_to_have_text(before)
    before = said.inner_text()
    sliders = view.locator("input[type=range]")
    if sliders.count():
        sliders.last.click(position={"x": 3, "y": 5})
    else:
        view.locator("select").select_option("100")
    expect(said).not_to_have_text(before)
