"""Pages that a class opens on its phones: what is served, and what is not."""

import http.client
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from forking import python
from typer.testing import CliRunner
from written_runs import SUITE, write_run

from workbench import views
from workbench.commands.app import app
from workbench.config import SimCSEConfig
from workbench.errors import SettingError

pytest.importorskip("segno")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "secret.txt").write_text("not a page")
    for name in ("ask", "index", "simcse-handout"):
        (folder / f"{name}.html").write_text(f"<!DOCTYPE html><title>{name}</title>{name}")
    port = free_port()
    command = [python(), "-m", "workbench", "class", "share", str(folder), "--port", str(port)]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    ) as server:
        assert server.stdout
        printed = ""
        for line in server.stdout:
            printed += line
            if "Ctrl+C" in line:
                break
        yield SimpleNamespace(port=port, printed=printed)
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


@pytest.mark.slow
def test_the_copies_go_if_the_terminal_is_closed(tmp_path: Path):
    (tmp_path / "ask.html").write_text("<!DOCTYPE html><title>ask</title>")
    copies = tmp_path / "copies"
    command = [python(), "-m", "workbench", "class", "share", str(tmp_path / "ask.html"), "--port"]
    environment = os.environ | {"TMPDIR": str(copies), "PYTHONUNBUFFERED": "1"}
    for end in (signal.SIGTERM, signal.SIGHUP):
        copies.mkdir(exist_ok=True)
        with subprocess.Popen(
            [*command, str(free_port())], stdout=subprocess.PIPE, text=True, env=environment
        ) as server:
            assert server.stdout
            for line in server.stdout:
                if "Ctrl+C" in line:
                    break
            assert list(copies.glob("*/ask.html"))
            server.send_signal(end)
            assert server.wait(60) == 0
        assert not list(copies.iterdir())


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.slow
def test_only_the_pages_are_served_and_only_for_reading(shared: SimpleNamespace):
    assert ask(shared.port, "/simcse-handout.html") == (
        200,
        "<!DOCTYPE html><title>simcse-handout</title>simcse-handout",
    )
    for path in ("/secret.txt", "/../pages/secret.txt", "/%2e%2e/%2e%2e/etc/passwd", "/..", "//"):
        assert ask(shared.port, path)[0] in (403, 404), path
    for method in ("POST", "PUT", "DELETE"):
        assert ask(shared.port, "/ask.html", method)[0] == 405


@pytest.mark.slow
def test_each_address_has_a_code_and_axe_finds_no_fault(browser: Any, shared: SimpleNamespace):
    urls = re.findall(r"http://[\d.]+:\d+/", shared.printed)
    assert "127.0.0.1" not in shared.printed
    assert bool(urls) != ("in no network" in shared.printed)
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{shared.port}/")
    assert page.locator("figcaption").all_inner_texts() == urls
    links = page.locator("a")
    assert [one.get_attribute("href") for one in links.all()] == [
        "ask.html#vote",
        "ask.html",
        "index.html",
        "simcse-handout.html",
    ]
    assert ask(shared.port, "/index.html")[1].endswith("</title>index"), "it is the lecturer's"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.response["violations"] == [], scheme
    page.close()


def test_a_taken_port_and_two_pages_of_one_name_are_refused(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ask.html").write_text(name)
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    done = CliRunner().invoke(app, ["class", "share", *files])
    assert isinstance(done.exception, SettingError)
    assert "two pages have this name" in str(done.exception)
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["class", "share", files[0], "--port", port])
    assert isinstance(done.exception, SettingError)
    assert f"port {port}" in str(done.exception)
    assert "give another --port" in str(done.exception)


def test_the_board_is_accessible_and_fits_a_phone(browser: Any, tmp_path: Path):
    for seed, student in enumerate(("anna", "ben")):
        config = SimCSEConfig.from_parameters("demo", seed, {})
        write_run(tmp_path / student / "runs", config, 1.0)
        (tmp_path / student / "answers.csv").write_text(
            f"time,name,notebook,exercise,right,answer,gain\nt,{student},n,1. Write,0,f,\n"
        )
    file = views.board_page(tmp_path / "board.html", views.read_board(tmp_path, SUITE))
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(file.as_uri())
        page.get_by_text("mean so far, 95% interval").wait_for()
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.response["violations"] == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
