"""Notebooks run out of order: a name that another cell makes is asked for in one line; any other NameError stays."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

from workbench.files import PACKAGE

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "10_simcse.ipynb"


@contextlib.contextmanager
def kernel(**environment: str) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Runs cells in a kernel of its own; of each the error that it shows, its name and its text, ("", "") for none."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, **environment}, extra_arguments=["--IPKernelApp.log_level=50"])
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)

    def run(source: str) -> tuple[str, str]:
        shown = [("", "")]

        def see(message: dict) -> None:
            if message["msg_type"] == "error":
                shown.append((message["content"]["ename"], "\n".join(message["content"]["traceback"])))

        reply = client.execute_interactive(source, timeout=120, output_hook=see)["content"]
        assert (reply["status"] == "error") == (len(shown) == 2)
        return shown[-1]

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_a_cell_that_runs_before_its_time_says_what_to_run_first(tmp_path: Path) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    with kernel(JPY_SESSION_NAME=str(NOTEBOOK), PYTHONSTARTUP=str(PACKAGE / "_startup.py")) as run:
        for first, name in (
            ("history = fit(", "fit"),
            ("method = SimCSE(config)", "SimCSE"),
            ("check_parameters(globals())", "check_parameters"),
        ):
            _, text = run(next(source for source in sources if source.startswith(first)))
            assert text.startswith(f"Run the cells above first: {name!r} is made under 'Setting'")
            assert "\n" not in text
        assert "'dev' is made under 'Data'" in run("len(dev)")[1]
        # Nothing of ours: a slip of the fingers, a name of a library's own, a name that this very cell makes.
        (tmp_path / "theirs.py").write_text("def use():\n    return dev\n")
        theirs = f"import sys; sys.path.append({str(tmp_path)!r}); import theirs; theirs.use()"
        for other in ("histroy", theirs, "print(mine)\nmine = 1", "explain_order"):  # the start leaves no name behind
            kind, text = run(other)
            assert kind == "NameError"
            assert "Traceback" in text
        assert run("1 / 0")[0] == "ZeroDivisionError"
        assert run("dev = 3\ndev") == ("", "")


@pytest.mark.slow
def test_elsewhere_the_notebooks_first_cells_bring_the_explanation() -> None:
    with kernel(JPY_SESSION_NAME="", PYTHONSTARTUP="") as run:
        assert "Traceback" in run("len(dev)")[1]
        assert run("from workbench import check_parameters; check_parameters(globals())") == ("", "")
        assert "'dev' is made under 'Data'" in run("len(dev)")[1]
