"""A JupyterLab in a real browser: started, opened, its cells changed and run, as a user does."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--in-process-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--force-prefers-reduced-motion",
]
PATIENCE = 60_000  # milliseconds for a step of the browser; a busy machine starts a kernel slowly
BETWEEN = 500  # milliseconds between two checks, instead of one per frame of the page
OPEN = "window.jupyterapp.shell.currentWidget"
KERNEL = f"{OPEN}?.sessionContext?.session?.kernel"
CELLS = f"[...{OPEN}.content.model.cells]"


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Yield the address of a JupyterLab on `folder`; its settings are in the parent folder.

    It has no token, because only this machine can reach it.
    """
    home = folder.parent
    settings = {
        "config/labconfig/page_config.json": {
            "disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}
        },
        # Cells outside the window are rendered too, so that the tests can read them.
        "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {
            "windowingMode": "none"
        },
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
    places = {
        f"JUPYTER_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "runtime")
    }
    environment = {
        **os.environ,
        **places,
        "IPYTHONDIR": str(home / "ipython"),
        "OMP_NUM_THREADS": "1",
    }
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
            server.wait(timeout=4 * PATIENCE / 1000)


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
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


class Watched:
    """Page in a browser, with its errors and its requests to other machines."""

    def __init__(self, browser: Any, *, height: int = 1400) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": height})
        self.page.set_default_timeout(PATIENCE)
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("pageerror", self._problem)
        self.page.on("request", self._request)

    def _problem(self, error: Any) -> None:
        # JupyterLab says so when a kernel is ended before it answered.
        if "Canceled future for" not in str(error):
            self.problems.append(str(error))

    def _request(self, request: Any) -> None:
        if not re.match(r"(https?://127\.0\.0\.1|data:|blob:|file:)", request.url):
            self.elsewhere.append(request.url)


def open_notebook(page: Any, address: str, name: str) -> None:
    """Open a notebook; it replaces an open one, whose kernel ends."""
    if page.url.startswith(address):
        page.evaluate(f"{OPEN}?.dispose()")
        page.evaluate("window.jupyterapp.serviceManager.sessions.shutdownAll()")
        command(page, "docmanager:open", path=name)
    else:
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.wait_for_function("window.jupyterapp !== undefined", polling=BETWEEN)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()


def command(page: Any, name: str, **arguments: str) -> None:
    """Start a command of JupyterLab without waiting, since evaluate() has no time limit."""
    start = "([name, given]) => { window.jupyterapp.commands.execute(name, given); }"
    page.evaluate(start, [name, arguments])


def change_cell(page: Any, number: int, source: str) -> None:
    """Replace the cell's text with `source`, by mouse and keyboard."""
    page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{number}'] .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)


def wait_for_kernel(page: Any) -> None:
    """Wait for the kernel: JupyterLab opens a dialog if cells are run before it answers."""
    ready = f"{KERNEL}?.connectionStatus === 'connected' && {KERNEL}?.status === 'idle'"
    page.wait_for_function(ready, timeout=4 * PATIENCE, polling=BETWEEN)


def run_all(page: Any, *, seconds: float) -> None:
    """Run every cell in a new kernel and wait until the last cell has run, or one has failed."""
    wait_for_kernel(page)
    command(page, "notebook:run-all-cells")
    failed = (
        "({ outputs }) => [...Array(outputs.length).keys()].some(row => "
        "outputs.get(row).type === 'error')"
    )
    ended = (
        f"() => {{ const code = {CELLS}.filter(cell => cell.type === 'code');"
        f"return {KERNEL}?.status === 'idle' && (code.at(-1).executionCount || "
        f"code.some({failed})); }}"
    )
    page.wait_for_function(ended, timeout=1000 * seconds, polling=BETWEEN)


def theme(page: Any, name: str) -> None:
    """Change to JupyterLab's theme of this name, Light or Dark."""
    command(page, "apputils:change-theme", theme=f"JupyterLab {name}")
    page.locator(f"body[data-jp-theme-light={'true' if name == 'Light' else 'false'}]").wait_for(
        state="attached"
    )
    page.locator("#jupyterlab-splash").wait_for(state="detached")


def pictures(page: Any, **views: Any) -> None:
    """Save screenshots of each view at two screen sizes in the folder $PICTURES."""
    if "PICTURES" not in os.environ:
        return
    folder, usual = Path(os.environ["PICTURES"]), page.viewport_size
    light = "light" if page.locator("body[data-jp-theme-light=true]").count() else "dark"
    folder.mkdir(parents=True, exist_ok=True)
    for width, height in ((1280, 800), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for name, view in views.items():
            view.evaluate("view => view.scrollIntoView()")
            page.screenshot(path=folder / f"{name}-{width}-{light}.png")
    page.set_viewport_size(usual)


ERRORS = (
    f"{CELLS}.flatMap(cell => cell.toJSON().outputs ?? []).filter(output => "
    "output.output_type === 'error')"
    ".map(output => `${output.ename}: ${output.evalue}`)"
)


def errors(page: Any) -> list[str]:
    """Return failures in the notebook's model, and red output, including warnings."""
    kinds = ", ".join(
        f".jp-Notebook [data-mime-type='application/vnd.jupyter.{kind}']"
        for kind in ("error", "stderr")
    )
    return [
        *page.evaluate(ERRORS),
        *(text[-300:] for text in page.locator(kinds).all_inner_texts()),
    ]
