"""The curve that grows while a training runs: what it has drawn after each row, and from what it starts."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.config import SimCSEConfig
from workbench.runs import Run
from workbench.views import LiveCurve

START = {"step": 0, "dev_spearman": 0.1, "seconds": 0.0}


def row(step: int, loss: float, dev: float | None = None) -> dict[str, Any]:
    return {"step": step, "loss": loss, "seconds": 1.0} | ({} if dev is None else {"dev_spearman": dev})


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What stands in the one output, each time that it is drawn."""
    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")
    drawn: list[Any] = []

    class Handle:
        def update(self, view: Any, *, raw: bool = False) -> None:
            if not raw:
                drawn.append(curves(view))

    def display(view: LiveCurve, *, display_id: bool) -> Handle:
        assert display_id
        drawn.append(curves(view))
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    return drawn


def curves(view: LiveCurve) -> dict[str, list[float]]:
    figure = view._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    return {trace["name"]: steps(trace["x"]) for trace in figure["data"]}


def steps(packed: Any) -> list[float]:
    """Numbers as plotly writes them."""
    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()
    return list(packed)


def test_it_is_drawn_anew_when_dev_is_measured_and_not_at_each_row(shown: list[Any]):
    curve = LiveCurve(None, "m")
    for one in (START, row(10, 2.0), row(20, 1.0, 0.3)):
        curve(one)
    assert [drawing["m: dev"] for drawing in shown] == [[], [0], [0, 20]]
    assert shown[-1] == {"m: dev": [0, 20], "m: kept": [20], "m: loss": [10, 20]}


def test_without_dev_the_loss_is_drawn_now_and_then(shown: list[Any]):
    curve = LiveCurve(None, "m")
    for step in range(1, 21):
        curve(row(step, 1.0))
    assert [len(drawing["m: loss"]) for drawing in shown] == [0, 10, 20]


def test_a_run_that_goes_on_begins_with_what_it_has(shown: list[Any], tmp_path: Path):
    run = Run.create(SimCSEConfig.from_parameters("demo", 0, {}), tmp_path)
    LiveCurve(run, "m")
    assert shown[-1]["m: loss"] == []
    pd.DataFrame([START, row(10, 2.0, 0.2), row(20, 1.0, 0.3)]).to_csv(run.path / "history.csv", index=False)
    curve = LiveCurve(run, "m")
    assert shown[-1]["m: dev"] == [0, 10, 20]
    curve(row(20, 1.5, 0.4))  # the last step again: killed after the row and before the state was saved
    assert shown[-1]["m: dev"] == [0, 10, 20]


def test_outside_a_notebook_it_only_listens(capsys: pytest.CaptureFixture[str]):
    curve = LiveCurve()
    curve(START)
    assert repr(curve).startswith("LiveCurve of 1 rows")
    assert "LiveCurve" in capsys.readouterr().out
