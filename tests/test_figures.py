"""Figures show the numbers of their tables."""

import base64
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench import views
from workbench.config import SimCSEConfig
from workbench.runs import Run
from workbench.systems import SystemComparison, SystemScores
from workbench.views import LiveCurve
from workbench.views._plot import laid_out
from workbench.views._style import shortened
from workbench.views.export import FigureRenderer

NAN = float("nan")
HOSTILE = '<b>bold</b> "quoted" & $1.20 to $20.35 %{y}'


@pytest.fixture
def history() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [0, 10, 20, 30],
            "loss": [NAN, 1.0, 0.5, 0.4],
            "info_nce": [NAN, 1.0, 0.5, 0.4],
            "dev_spearman": [0.9, 0.4, 0.6, 0.5],
            "dev_alignment": [0.1, 0.2, 0.3, 0.4],
            "dev_uniformity": [-1.0, -1.5, -2.0, -2.1],
            "seconds": [0.0, 1.0, 2.0, 3.0],
        }
    )


def test_the_ringed_checkpoint_is_the_best_trained_one_and_the_path_has_every_step(
    history: pd.DataFrame,
):
    ring = next(
        trace for trace in views.training_curve({"m": history}).data if trace.name == "m: kept"
    )
    assert (list(ring.x), list(ring.y)) == ([20], [60.0])
    history.attrs["keep_start"] = True
    kept = views.training_curve({"m": history}).data[1]
    assert (kept.name, list(kept.x), list(kept.y)) == ("m: kept", [0], [90.0])
    terms = {
        trace.name
        for trace in views.training_curve(
            {"m": history.assign(observed_share=0.5)}, terms=True
        ).data
    }
    assert terms == {"m: dev", "m: kept", "m: info_nce"}
    path, _ = views.alignment_uniformity_path({"m": history, "n": history}).data
    assert list(path.x) == history["dev_uniformity"].tolist()
    assert tuple(path.text) == ("step 0", "", "", "step 30")


def test_every_pair_is_in_its_band_of_gold():
    gold = np.array([0.0, 0.9, 1.0, 2.5, 4.1, 5.0])
    wide, narrow = (
        pd.DataFrame({"suite": "s", "gold": values, "predicted": 0.5})
        for values in (gold, [2.2, 2.4])
    )
    figure = views.cosine_by_gold({"wide": wide, "narrow": narrow}, "s")
    bands = ["0 to 1", "0 to 1", "1 to 2", "2 to 3", "4 to 5", "4 to 5"]
    assert [list(violin.x) for violin in figure.data] == [bands, ["2 to 3", "2 to 3"]]
    years = pd.DataFrame({"suite": "s", "gold": np.arange(1000, 1005), "predicted": 0.5})
    [violins] = views.cosine_by_gold({"m": years}, "s").data
    assert list(violins.x) == [f"grade {year}" for year in years["gold"]]
    with pytest.raises(ValueError, match="under narrow; there are: s"):
        views.cosine_by_gold({"wide": wide, "narrow": narrow.assign(suite="t")}, "s")


def test_a_sentence_has_one_colour_on_every_map():
    draw = np.random.default_rng(0)
    spaces, texts = (
        {"cosine": draw.random((20, 3)), "ranks": draw.random((20, 50))},
        [str(row) for row in range(20)],
    )
    figure = views.sentence_map(spaces, texts, values=pd.Series(range(20), name="words"))
    assert [list(dots.marker.color) for dots in figure.data] == [list(range(20))] * 2
    assert figure.layout.coloraxis.colorbar.title.text == "words"
    left, right = views.sentence_map(spaces, texts).data
    np.testing.assert_array_equal(left.marker.color, left.x)
    np.testing.assert_array_equal(left.marker.color, right.marker.color)


def compared(rows: list[dict[str, Any]]) -> SystemComparison:
    return SystemComparison(pd.DataFrame(rows), "", SystemScores({}), [])


def test_names_are_neither_markup_nor_mathematics_and_figures_fit_their_output():
    row = {"suite": HOSTILE, "system": HOSTILE, "value": 0.5, "low": NAN, "high": NAN}
    other = row | {"suite": "another"}
    for figure in (
        views.score_intervals(compared([row])),
        views.score_intervals(compared([row, other])),
        views.sentence_map({HOSTILE: np.eye(2)}, [HOSTILE, HOSTILE]),
        laid_out(go.Figure(), HOSTILE, width=2000),
    ):
        drawn = figure.to_json()
        assert "bold" in drawn
        for markup in ("$1", "<b>", r"\u003cb\u003e"):
            assert markup not in drawn
        assert figure.layout.autosize or figure.layout.width <= 844, (
            "an output's width on a screen of 1280"
        )
    wide = laid_out(go.Figure(), "a").layout
    assert (wide.width, wide.autosize) == (None, True), "an output on a wide screen is filled"
    assert wide.template.layout.font.size == 14
    two = laid_out(go.Figure(), "words " * 12).layout
    assert two.title.text.count("<br>") == 1
    size = two.template.layout.title.font.size
    assert two.title.pad.t + 1.3 * size < two.margin.t, "the last line ends above the plot"


def test_a_label_that_is_cut_still_differs_from_the_others():
    cosent = [
        f"cosent (max_steps=100, train=stsb-train, scale={scale})" for scale in ("5.0", "20.0")
    ]
    middle = [
        f"rankcse (pooling={how}, teachers=[simcse f5da80d3, simcse f5da80d3-s0])"
        for how in ("cls", "mean")
    ]
    short = shortened(["simcse", *cosent, *middle], 24)
    assert len(set(short.values())) == len(short) == 5
    assert short["simcse"] == "simcse"
    assert all(short[label].startswith("cosent (…") and len(short[label]) == 24 for label in cosent)
    assert [short[label] for label in middle] == middle, "the ends are the same"


def test_the_live_curve_shows_the_first_loss_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")

    def drawn(*rows: dict[str, float]) -> Any:
        curve = LiveCurve(Run.open(SimCSEConfig.from_parameters("demo", 0, {}), tmp_path), "m")
        for row in rows:
            curve(row)
        bundle: Any = curve._repr_mimebundle_()
        return go.Figure(
            {name: bundle["application/vnd.plotly.v1+json"][name] for name in ("data", "layout")}
        )

    start, logged = {"step": 0, "dev_spearman": 0.1}, {"step": 10, "epoch": 0.25, "loss": 2.0}
    assert drawn(start, logged).data[-1].mode == "markers", "a line of one point is invisible"
    assert drawn(start).layout.yaxis2.visible is False


def test_a_live_curve_takes_no_place_before_there_is_something_to_draw(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")
    curve = LiveCurve()
    assert not any(curve._repr_mimebundle_().values())
    curve({"step": 0, "dev_spearman": 0.1})
    assert curves(curve)["run: dev"] == [0]


def test_a_figure_has_a_text_of_its_title_and_parts_for_who_does_not_see_it(
    history: pd.DataFrame,
):
    figure = views.training_curve({HOSTILE: history})
    html = FigureRenderer().to_mimebundle(figure.to_dict())["text/html"]
    text = unescape(html.partition('aria-label="')[2].partition('"')[0])
    assert text == (
        f"figure: Dev Spearman and training loss; {HOSTILE}: dev; {HOSTILE}: kept; {HOSTILE}: loss"
    )
    assert html.count("<b") == 0


def test_the_live_curve_goes_on_from_the_history_and_is_drawn_when_dev_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    drawn: list[dict[str, list[float]]] = []

    class Output:
        def update(self, view: Any, *, raw: bool = False) -> None:
            if not raw:
                drawn.append(curves(view))

    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")
    monkeypatch.setattr("workbench.views.notebooks.display", lambda view, display_id: Output())
    now = 0.0
    monkeypatch.setattr("workbench.views.notebooks.time", SimpleNamespace(monotonic=lambda: now))
    run = Run.open(SimCSEConfig.from_parameters("demo", 0, {}), tmp_path)
    curve = LiveCurve(run, "m")
    for step in range(1, 21):
        now += 0.125
        curve({"step": step, "loss": 1.0})
    assert [len(drawing["m: loss"]) for drawing in drawn] == [1, 2, 11, 20], (
        "the first two, otherwise after a second"
    )
    rows = [
        {"step": 0, "dev_spearman": 0.1},
        {"step": 10, "loss": 2.0, "dev_spearman": 0.2},
        {"step": 20, "loss": 1.0},
    ]
    pd.DataFrame(rows).to_csv(run.path / "history.csv", index=False)
    curve = LiveCurve(run, "m")
    # Again: killed after the row and before the state was saved.
    curve({"step": 20, "loss": 1.5, "dev_spearman": 0.3})
    assert drawn[-1] == {"m: dev": [0, 10, 20], "m: kept": [20], "m: loss": [10, 20]}


def curves(view: LiveCurve) -> dict[str, list[float]]:
    """Return the steps of each curve; plotly packs numbers."""
    figure = view._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    packed = {trace["name"]: trace["x"] for trace in figure["data"]}
    return {
        name: np.frombuffer(base64.b64decode(x["bdata"]), x["dtype"]).tolist()
        if isinstance(x, dict)
        else list(x)
        for name, x in packed.items()
    }


def test_a_heatmap_has_each_number_and_frames_the_diagonal():
    cosines, sentences = np.array([[1.0, 0.25], [0.5, 0.75]]), ["one sentence", HOSTILE]
    left, right = (
        figure := views.cosine_heatmap({"cosine": cosines, HOSTILE: 2 * cosines}, sentences)
    ).data
    np.testing.assert_array_equal([left.z, right.z], [cosines, 2 * cosines])
    assert left.coloraxis == right.coloraxis == "coloraxis", "on one scale"
    boxes = [(box.x0, box.x1, box.y0, box.y1) for box in figure.layout.shapes]
    first, second = (0.5, 1.5, -0.5, 0.5), (1.5, 2.5, 0.5, 1.5)
    assert boxes == [first, first, second, second]
    assert "<b>" not in "".join([*left.y, *(note.text for note in figure.layout.annotations)])


def test_a_run_without_scored_pairs_is_a_figure_without_data_and_the_first_suite_is_the_default():
    table = pd.DataFrame({"suite": ["s", "t"], "gold": [1.0, 2.0], "predicted": [0.1, 0.2]})
    assert [violin.y.tolist() for violin in views.cosine_by_gold({"m": table}).data] == [[0.1]]
    assert not views.cosine_by_gold({"m": table.iloc[:0]}).data
