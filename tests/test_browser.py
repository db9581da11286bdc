"""The explorer in a real JupyterLab and a real browser: by keyboard, and reopened without trust."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.headless import execute, export_html

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "21_rankings.ipynb"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 60_000  # milliseconds for a step of the browser; a busy machine starts a kernel slowly
LISTBOX = ".widget-select select[size]"
TABLE = ".widget-html table"


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = _chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine: install chromium, or google-chrome, to test the widgets in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What JupyterLab serves."""
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    folder.mkdir()
    shutil.copy(NOTEBOOK, folder / "live.ipynb")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A JupyterLab of its own: own settings, own trust, no token because only this machine reaches it."""
    home = folder.parent
    settings = {
        "config/labconfig/page_config.json": {
            "disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}
        },
        # Cells out of sight are drawn too, so that what is looked for is there.
        "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    }
    for name, content in settings.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(json.dumps(content), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": "",
        "LabApp.expose_app_in_browser": True,
        "LabApp.user_settings_dir": home / "settings",
        "LabApp.workspaces_dir": home / "workspaces",
    }
    places = {f"JUPYTER_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "runtime")}
    environment = {**os.environ, **places, "IPYTHONDIR": str(home / "ipython"), "OMP_NUM_THREADS": "1"}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with (home / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(port, server, home / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def _wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/api/status")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


class Watched:
    """A page, with what went wrong on it and which other machines it asked."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 1400}, **options)
        self.page.set_default_timeout(PATIENCE)
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._request)

    def _request(self, request: Any) -> None:
        if not re.match(r"(https?://127\.0\.0\.1|data:|blob:|file:)", request.url):
            self.elsewhere.append(request.url)


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    watched = Watched(browser)
    yield watched
    watched.page.close()
    assert watched.problems == []
    assert watched.elsewhere == []


def open_notebook(page: Any, address: str, name: str) -> None:
    page.goto(f"{address}/lab/tree/{name}?reset")
    page.wait_for_function("window.jupyterapp !== undefined")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()


def command(page: Any, name: str, **arguments: str) -> None:
    """Starts a command of JupyterLab and does not wait for its end: a wait of ours has a limit, an evaluation none."""
    start = "([name, given]) => { window.jupyterapp.commands.execute(name, given); }"
    page.evaluate(start, [name, arguments])


def chart_target(page: Any) -> str:
    """The text of the chart's line of target A."""
    return page.evaluate("document.querySelector('.js-plotly-plot').data[0].text.replaceAll('<br>', ' ')")


def table_target(page: Any) -> str:
    return "A: " + page.locator(f"{TABLE} tbody tr").first.locator("td").nth(1).inner_text()


def in_step(page: Any) -> None:
    """Waits until the chart shows the query of the table."""
    page.wait_for_function(
        """table => {
            const chart = document.querySelector('.js-plotly-plot'), row = document.querySelector(table + ' tbody tr');
            return chart && chart.data && row && chart.data[0].text.replaceAll('<br>', ' ').endsWith(
                row.children[1].innerText);
        }""",
        arg=TABLE,
    )


def test_the_keyboard_alone_goes_through_the_queries(watched: Watched, address: str, tmp_path: Path):
    page = watched.page
    open_notebook(page, address, "live.ipynb")
    # Asked to run before its kernel answers, JupyterLab asks in return which kernel is meant.
    kernel = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
    page.wait_for_function(f"{kernel}?.connectionStatus === 'connected' && {kernel}?.status === 'idle'")
    command(page, "notebook:run-all-cells")
    page.locator(LISTBOX).wait_for()
    in_step(page)
    page.locator(LISTBOX).scroll_into_view_if_needed()
    first = table_target(page)
    assert chart_target(page) == first
    page.screenshot(path=tmp_path / "1-opened.png")

    page.locator(".widget-text input[type=number]").focus()
    page.keyboard.press("ArrowUp")
    changed = "([table, old]) => document.querySelector(table + ' tbody td:nth-child(2)').innerText !== old"
    page.wait_for_function(changed, arg=[TABLE, first.removeprefix("A: ")])
    in_step(page)
    assert table_target(page) != first
    assert chart_target(page) == table_target(page)
    page.screenshot(path=tmp_path / "2-next.png")

    second = table_target(page)
    page.get_by_role("button", name="a is worst").focus()
    page.keyboard.press("Space")
    page.wait_for_function(changed, arg=[TABLE, second.removeprefix("A: ")])
    in_step(page)
    assert page.locator(f"{LISTBOX} option").first.inner_text().startswith("-")

    page.locator(".widget-text input[type=text]").focus()
    page.keyboard.type("negative zebra")
    page.get_by_role("status").filter(has_text="no query has the words").wait_for()
    page.keyboard.press("Control+A")
    page.keyboard.type("chef")
    page.wait_for_function(
        "list => { const all = [...document.querySelectorAll(list + ' option')];"
        "return all.length > 0 && all.every(option => option.innerText.includes('chef')); }",
        arg=LISTBOX,
    )
    page.get_by_role("status").filter(
        has_text=re.compile(r"^\d{1,2} of 250 queries; before each: KCC of a$")
    ).wait_for()
    in_step(page)
    page.screenshot(path=tmp_path / "3-searched.png")

    command(page, "apputils:change-theme", theme="JupyterLab Dark")
    page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
    page.locator("#jupyterlab-splash").wait_for(state="detached")
    page.locator(LISTBOX).scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "4-dark.png")


def test_reopened_without_trust_the_rankings_are_still_there(
    watched: Watched, address: str, folder: Path, tmp_path: Path
):
    execute(NOTEBOOK, folder / "untrusted.ipynb", {"runs_root": str(tmp_path)})
    page = watched.page
    open_notebook(page, address, "untrusted.ipynb")
    output = page.locator(".jp-OutputArea-output").filter(has_text="gold rank")
    output.wait_for()
    assert page.locator(LISTBOX).count() == 0
    assert output.locator("table").count() == 3
    assert output.locator("img").evaluate_all("all => all.map(image => image.naturalWidth > 0)") == [True] * 3
    cell = output.locator("tbody tr").first.locator("td")
    assert cell.nth(1).evaluate("cell => getComputedStyle(cell).textAlign") == "left"
    output.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "5-untrusted.png")

    page.goto(export_html(folder / "untrusted.ipynb").as_uri())
    assert page.locator("table").filter(has_text="gold rank").count() == 3
    assert page.locator("img").evaluate_all("all => all.every(image => image.naturalWidth > 0)")
    page.locator("table").filter(has_text="gold rank").first.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "6-page.png")
