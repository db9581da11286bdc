"""Slides and handouts of the methods' notebooks, in Chromium without a network."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_markdown_cell, new_notebook

from workbench.views import projector, write_handout, write_slides

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("1[0-7]_*.ipynb"))
# Of the text of the shown slide those sizes that are below the least, in pixels of the screen.
SMALL = """(least) => [...document.querySelectorAll("section.current *")].filter((one) => {
  const isText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!isText || one.closest("math, script") || !one.getBoundingClientRect().width) return false;
  let size = parseFloat(getComputedStyle(one).fontSize);
  for (let part = one; part; part = part.parentElement) size *= getComputedStyle(part).zoom;
  return size < least;
}).map((one) => one.outerHTML.slice(0, 100))"""


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.fixture
def opened(browser: Any) -> Any:
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 720})
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda one: None if one.url[:5] in ("file:", "data:") else problems.append(one)
    )
    yield page
    context.close()
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_handout_has_two_pages_of_which_nothing_is_cut(
    opened: Any, tmp_path: Path, notebook: Path
):
    opened.goto(write_handout(notebook, tmp_path / "handout.html").as_uri())
    opened.locator("body[data-ready]").wait_for()
    cut = """[...document.querySelectorAll(".sheet")].filter((one) =>
      one.scrollHeight > one.clientHeight || one.scrollWidth > one.clientWidth).length"""
    assert opened.evaluate(cut) == 0
    assert pages_of(opened.pdf(prefer_css_page_size=True)) == 2
    cells = nbformat.read(notebook, 4).cells
    exercises = sum(cell.source.count("teaching.check_answer(") for cell in cells)
    sheets = opened.locator(".sheet")
    assert sheets.last.locator(".room").count() == exercises
    assert sheets.last.locator("pre").count() == exercises
    assert sheets.first.locator("math[display=block]").count()
    assert sheets.first.locator("img").count() == (notebook.stem != "15_rank_closed_form")
    text = opened.locator("body").inner_text()
    assert "Claim." in text
    for word in ("Solution", "teaching.", "import "):
        assert word not in text
    assert "<summary>Solution" not in (tmp_path / "handout.html").read_text(encoding="utf-8")


# The place after a swipe to the left and back, and after one over what is wider than the slide.
SWIPES = """() => {
  const wide = document.createElement("div");
  wide.style.overflow = "auto";
  wide.innerHTML = '<p style="width: 5000px">wide</p>';
  const main = document.querySelector("main");
  document.querySelector("section.current").append(wide);
  const swipe = (target, from, to) => {
    const touch = (x) => new Touch({ identifier: 1, target, clientX: x, clientY: 50 });
    const began = { bubbles: true, touches: [touch(from)], changedTouches: [touch(from)] };
    const ended = { bubbles: true, changedTouches: [touch(to)] };
    target.dispatchEvent(new TouchEvent("touchstart", began));
    target.dispatchEvent(new TouchEvent("touchend", ended));
    return document.getElementById("place").textContent;
  };
  const places = [swipe(main, 300, 100), swipe(main, 100, 300), swipe(wide.firstChild, 300, 100)];
  wide.remove();
  return places;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("notebook", [NOTEBOOKS[0], NOTEBOOKS[3]], ids=lambda path: path.stem)
def test_slides_are_large_led_by_keys_and_a_page_each_in_print(
    opened: Any, tmp_path: Path, notebook: Path
):
    opened.goto(write_slides(notebook, tmp_path / "slides.html").as_uri())
    place = opened.locator("#place")
    count = opened.locator("section").count()
    assert place.inner_text() == f"1 / {count}"
    for number in range(1, count + 1):
        assert place.inner_text() == f"{number} / {count}"
        assert opened.evaluate(SMALL, 22) == []
        opened.keyboard.press("ArrowRight")
    opened.keyboard.press("Home")
    assert opened.evaluate(SWIPES) == [f"2 / {count}", f"1 / {count}", f"1 / {count}"]
    opened.evaluate("location.hash = 'The-idea'")
    opened.locator("section.current h2", has_text="The idea").wait_for()
    assert opened.evaluate("document.activeElement.className") == "current", "keys scroll it"
    cells = nbformat.read(notebook, 4).cells
    shown_cells = opened.locator("details[open]").all()
    assert len(shown_cells) == sum("# your code" in cell.source for cell in cells) > 0
    for shown in shown_cells:
        assert "# your code" in shown.text_content(), "only what a student completes"
    opened.keyboard.press("c")
    assert opened.locator("details.code[open]").count()
    assert opened.locator("details[open]:not(.code)").count() == 0, "solutions stay closed"
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        found = Axe().run(opened, options={"resultTypes": ["violations"]})
        assert found.response["violations"] == [], scheme
    opened.keyboard.press("c")
    assert pages_of(opened.pdf(prefer_css_page_size=True)) == count


@pytest.mark.slow
def test_headings_may_be_called_as_a_control_or_alike(opened: Any, tmp_path: Path):
    headings = ["# Code", "## place", "## Results", "## Results", "## next"]
    content = new_notebook(cells=[new_markdown_cell(f"{one}\n\nText.") for one in headings])
    nbformat.write(content, tmp_path / "own.ipynb")
    opened.goto(write_slides(tmp_path / "own.ipynb", tmp_path / "slides.html").as_uri())
    place = opened.locator("nav #place")
    for number in range(1, 6):
        assert place.inner_text() == f"{number} / 5"
        opened.locator("nav #next").click()
    opened.locator("section.current").click()
    assert opened.locator("nav #code").get_attribute("aria-pressed") == "false"
    ids = opened.evaluate("[...document.querySelectorAll('section')].map((one) => one.id)")
    assert len({*ids}) == 5


def test_another_theme_of_the_projector_is_named_with_the_known_ones():
    assert "auto, light, dark or off" in projector("blue").html
    assert 'data-projector="off"' in projector("off").html


def test_a_text_that_speaks_of_a_drawing_stays_a_text(tmp_path: Path):
    text = 'With `views.drawing("simcse")` a method is drawn.'
    nbformat.write(new_notebook(cells=[new_markdown_cell(text)]), tmp_path / "own.ipynb")
    page = write_handout(tmp_path / "own.ipynb", tmp_path / "handout.html").read_text("utf-8")
    assert "a method is drawn." in page
