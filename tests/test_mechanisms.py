"""Interactive equations: the drawing follows the controls."""

from pathlib import Path
from typing import Any

import ipywidgets
import nbformat
import numpy as np
import pandas as pd
import pytest

from workbench import views

MECHANISM = views.Mechanism
HOSTILE = '<script>alert(1)</script> & "quotes" $1'


def test_a_table_follows_its_controls_and_a_problem_is_shown_in_its_place():
    def draw(scale: float = 0.025, how: str = "sum") -> tuple[str, pd.DataFrame]:
        if how == "none":
            raise ValueError("choose another way")
        return f"{how} of {HOSTILE}", pd.DataFrame([[scale, np.nan]], [HOSTILE], ["a", "b"])

    view = views.Mechanism(draw, scale=(0.005, 0.2, 0.005), how=["avg", "sum", "none"])
    assert [control.value for control in view.controls.values()] == [0.025, "sum"]
    view.controls["scale"].value = 0.1
    for html in (view.panel.html, view._repr_mimebundle_()[0]["text/html"]):
        assert ">0.100</td>" in html
        assert "sum of &lt;script&gt;" in html
        assert "<script" not in html
    view.controls["how"].value = "none"
    assert 'role="alert"' in view.panel.html
    assert "choose another way" in view._repr_mimebundle_()[0]["text/html"]
    named = [ipywidgets.IntSlider(value, description="step") for value in (2, 3)]
    view = views.Mechanism(lambda a, b: f"{a} and {b}", a=named[0], b=named[1])
    assert "2 and 3" in view.panel.html


NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # of torch under numpy 2
@pytest.mark.parametrize("name", ["11_rankcse", "12_compcse", "13_cosent", "14_rankencoder"])
def test_each_control_of_a_notebook_changes_its_drawing(
    name: str, small_files: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The mechanism comes before the training of the method itself."""
    shown: list[views.Mechanism] = []
    monkeypatch.setattr(
        views, "Mechanism", lambda *of, **controls: shown.append(MECHANISM(*of, **controls))
    )
    # Not a run that would be trained first.
    e1 = {"base": "world-encoder"} if name == "14_rankencoder" else {}
    values: dict[str, Any] = {
        "overrides": {"train_limit": 64, **small_files, **e1},
        "runs_root": str(tmp_path),
    }
    names: dict[str, Any] = {}
    cells = [
        cell
        for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
        if cell.cell_type == "code"
    ]
    for cell in cells:
        exec(cell.source, names)
        names |= values if "parameters" in cell.metadata.get("tags", []) else {}
        if shown:
            break
    (view,) = shown
    for control in view.controls.values():
        before = view._repr_mimebundle_()[0]["text/html"]
        if hasattr(control, "max"):
            control.value = control.max
        else:
            control.value = control.options[-1]
        assert view._repr_mimebundle_()[0]["text/html"] != before, control.description
