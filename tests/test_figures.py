"""Figures show the numbers of their tables."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench import views
from workbench.config import SimCSEConfig
from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.methods.rank_mixture import RankMixture, neighbour_table
from workbench.runs import Run
from workbench.views import LiveCurve
from workbench.views._style import laid_out, shortened

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


def test_the_ringed_checkpoint_is_the_best_trained_one_and_terms_are_drawn_on_request(history: pd.DataFrame):
    ring = next(trace for trace in views.training_curve({"m": history}).data if trace.name == "m: kept")
    assert (list(ring.x), list(ring.y)) == ([20], [60.0])
    observed = history.assign(observed_share=0.5)
    terms = {trace.name for trace in views.training_curve({"m": observed}, terms=True).data}
    assert terms == {"m: dev", "m: kept", "m: info_nce"}
    named_alike = views.training_curve({"info_nce": history}, terms=True).data
    assert "info_nce: info_nce" not in {trace.name for trace in named_alike}


def test_the_path_visits_every_measured_step(history: pd.DataFrame):
    path, _ = views.alignment_uniformity_path({"m": history, "n": history}).data
    assert list(path.x) == history["dev_uniformity"].tolist()
    assert tuple(path.text) == ("step 0", "", "", "step 30")


def test_every_pair_is_in_its_band_of_gold_and_bands_are_common_to_all():
    gold = np.array([0.0, 0.9, 1.0, 2.5, 4.1, 5.0])
    wide, narrow = (pd.DataFrame({"suite": "s", "gold": values, "predicted": 0.5}) for values in (gold, [2.2, 2.4]))
    figure = views.cosine_by_gold({"wide": wide, "narrow": narrow}, "s")
    assert [list(violin.x) for violin in figure.data] == [
        ["0 to 1", "0 to 1", "1 to 2", "2 to 3", "4 to 5", "4 to 5"],
        ["2 to 3", "2 to 3"],
    ]
    with pytest.raises(ValueError, match="there are: s"):
        views.cosine_by_gold({"m": wide}, "sick-test")


def test_a_sweep_draws_each_column_over_its_setting_in_order():
    table = pd.DataFrame({"scale": [40.0, 1.0], "dev": [0.5, 0.25], "test": [0.4, 0.2]})
    figure = views.setting_sweep(table, "scale", label="lambda", paper=1)
    dev, test = figure.data
    assert (list(dev.x), list(dev.y), list(test.y)) == (["40", "1"], [50.0, 25.0], [40.0, 20.0])
    assert [line.x0 for line in figure.layout.shapes] == [1], "the paper's value is marked at its place"
    assert not views.setting_sweep(table, "scale", paper=20).layout.shapes


def test_neighbours_that_a_pair_shares_are_near_to_both_sentences():
    corpus, pairs = load_sentences("world").sentences[:50], load_pairs("world-dev", limit=20)
    encode = Encoder.from_pretrained("world-encoder").encode
    encoded = encode(corpus)
    table = neighbour_table(RankMixture(encode, corpus, weight=1.0), pairs)
    for side1, side2, shared in zip(pairs.sentence1, pairs.sentence2, table["shared"], strict=True):
        nearest = [set(np.argsort(-(encoded @ encode(text)).numpy())[:6]) for text in (side1, side2)]
        assert shared == len(nearest[0] & nearest[1])


def test_a_sentence_has_one_colour_on_every_map():
    draw = np.random.default_rng(0)
    spaces, texts = {"cosine": draw.random((20, 3)), "ranks": draw.random((20, 50))}, [str(row) for row in range(20)]
    figure = views.sentence_map(spaces, texts, values=pd.Series(range(20), name="words"))
    assert [list(dots.marker.color) for dots in figure.data] == [list(range(20))] * 2
    assert figure.layout.coloraxis.colorbar.title.text == "words"
    left, right = views.sentence_map(spaces, texts).data
    np.testing.assert_array_equal(left.marker.color, left.x)
    np.testing.assert_array_equal(left.marker.color, right.marker.color)


RUNS = pd.DataFrame({"label": [HOSTILE], "seed": [0], "value": [0.5], "low": [NAN], "high": [NAN]})
PARTS = pd.DataFrame({"label": [HOSTILE], "part": [HOSTILE], "mean": [0.5], "std": [NAN], "n": [1]})
FIGURES: dict[str, Callable[[], go.Figure]] = {
    "intervals": lambda: views.score_intervals(RUNS, HOSTILE),
    "parts": lambda: views.part_scores(PARTS),
    "spaces": lambda: views.sentence_map({HOSTILE: np.eye(2)}, [HOSTILE, HOSTILE]),
    "sweep": lambda: views.setting_sweep(pd.DataFrame({"x": [HOSTILE], HOSTILE: [0.5]}), "x", label=HOSTILE),
}


def test_names_are_neither_markup_nor_mathematics_in_any_figure_and_figures_fit_their_output():
    for draw in FIGURES.values():
        figure = draw()
        drawn = figure.to_json()
        assert "bold" in drawn
        for markup in ("$1", "<b>", r"\u003cb\u003e"):
            assert markup not in drawn
        assert figure.layout.autosize or figure.layout.width <= 844, "an output's width on a screen of 1280"


def test_a_title_of_two_lines_has_the_room_above_it_of_one_line_alone():
    one, two = (laid_out(go.Figure(), title).layout for title in ("short", "words " * 12))
    assert two.title.text.count("<br>") == 1
    raised = 0.7 * two.title.font.size  # plotly's, of the first of several lines
    assert two.title.pad.t - raised == pytest.approx(one.title.pad.t, abs=1)
    assert two.title.pad.t + 1.3 * two.title.font.size < two.margin.t, "the last line ends above the plot"


def test_a_label_that_is_cut_still_differs_from_the_others():
    cosent = [f"cosent (max_steps=100, train=stsb-train, scale={scale})" for scale in ("5.0", "20.0")]
    middle = [f"rankcse (pooling={how}, teachers=[simcse f5da80d3, simcse f5da80d3-s0])" for how in ("cls", "mean")]
    short = shortened(["simcse", *cosent, *middle], 24)
    assert len(set(short.values())) == len(short) == 5
    assert short["simcse"] == "simcse"
    assert all(short[label].startswith("cosent (…") and len(short[label]) == 24 for label in cosent)
    assert [short[label] for label in middle] == middle, "the ends are the same"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the curves of the one output, each time that it is drawn."""
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

    monkeypatch.setattr("workbench.views.live_curve.display", display)
    return drawn


def curves(view: LiveCurve) -> dict[str, list[float]]:
    figure = view._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    return {trace["name"]: steps(trace["x"]) for trace in figure["data"]}


def steps(packed: Any) -> list[float]:
    """Return numbers as plotly writes them."""
    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()
    return list(packed)


def row(step: int, loss: float, dev: float | None = None) -> dict[str, Any]:
    return {"step": step, "loss": loss, "seconds": 1.0} | ({} if dev is None else {"dev_spearman": dev})


START = {"step": 0, "dev_spearman": 0.1, "seconds": 0.0}


def test_the_live_curve_is_drawn_when_dev_is_measured_otherwise_now_and_then(shown: list[Any]):
    curve = LiveCurve(None, "m")
    for one in (START, row(10, 2.0), row(20, 1.0, 0.3)):
        curve(one)
    assert [drawing["m: dev"] for drawing in shown] == [[], [0], [0, 20]]
    assert shown[-1] == {"m: dev": [0, 20], "m: kept": [20], "m: loss": [10, 20]}
    shown.clear()
    curve = LiveCurve(None, "m")
    for step in range(1, 21):
        curve(row(step, 1.0))
    assert [len(drawing["m: loss"]) for drawing in shown] == [0, 10, 20]


def test_the_live_curve_of_a_run_begins_with_its_history(shown: list[Any], tmp_path: Path):
    run = Run.create(SimCSEConfig.from_parameters("demo", 0, {}), tmp_path)
    LiveCurve(run, "m")
    assert shown[-1]["m: loss"] == []
    pd.DataFrame([START, row(10, 2.0, 0.2), row(20, 1.0, 0.3)]).to_csv(run.path / "history.csv", index=False)
    curve = LiveCurve(run, "m")
    assert shown[-1]["m: dev"] == [0, 10, 20]
    curve(row(20, 1.5, 0.4))  # the last step again: killed after the row and before the state was saved
    assert shown[-1]["m: dev"] == [0, 10, 20]
