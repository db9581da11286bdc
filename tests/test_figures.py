"""Figures show the numbers of their tables."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import scipy.stats

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
SQUARE = np.array([[1.0, 0.5], [0.5, 1.0]])


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


def test_the_path_visits_every_measured_step_and_a_common_start_is_named_once(history: pd.DataFrame):
    path, other = views.alignment_uniformity_path({"m": history, "n": history}).data
    assert list(path.x) == history["dev_uniformity"].tolist()
    assert (path.text, other.text) == (("step 0", "", "", "step 30"), ("", "", "", "step 30"))
    assert path.customdata[-1].tolist() == [30, 50]
    (empty,) = views.alignment_uniformity_path({"m": history.drop(columns="dev_alignment")}).data
    assert len(empty.x) == 0


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
    with pytest.raises(ValueError, match="no column 'tau'; its columns are scale, dev, test"):
        views.setting_sweep(table, "tau")


def test_maps_of_cosines_share_a_scale_that_holds_every_cosine():
    maps = {"a": np.array([[1.0, 0.5], [0.5, 1.0]]), "b": np.array([[1.0, -0.25], [-0.25, 1.0]])}
    figure = views.cosine_maps(maps, ["anchor", "phrase"])
    assert [panel.z.tolist() for panel in figure.data] == [values.tolist() for values in maps.values()]
    assert list(figure.data[0].y) == ["A: anchor", "B: phrase"]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-0.25, 1)
    many = views.cosine_maps({"m": np.eye(28)}, [f"text {place}" for place in range(28)]).data[0]
    assert list(many.x)[25:] == ["Z", "AA", "AB"]
    assert list(many.y)[-1] == "AB: text 27"


def test_both_losses_are_drawn_where_they_are_positive():
    history = pd.DataFrame(
        {"step": [0, 10, 20], "observed_info_nce": [NAN, 0.5, 0.1], "observed_rank_mse": [NAN, 0, 0.2]}
    )
    contrastive, distilled, papers = views.two_losses(history, weight=0.5).data
    assert (list(contrastive.x), list(contrastive.y)) == ([10, 20], [0.5, 0.1])
    assert (list(distilled.x), list(distilled.y)) == ([20], [0.2])
    assert (list(papers.x), list(papers.y)) == ([20], [pytest.approx(0.02)])
    assert len(views.two_losses(history, weight=0.05).data) == 2, "the run has the paper's weight"
    with pytest.raises(ValueError, match="observed_info_nce"):
        views.two_losses(history[["step"]], weight=0.5)


def test_each_bin_holds_the_mean_overlap_and_the_difference_of_two_correlations():
    draw = np.random.default_rng(0)
    pairs = pd.DataFrame(draw.random((90, 3)), columns=["cosine", "ranked", "gold"]).assign(shared=range(90))
    bars, line = views.neighbours_and_gain(views.neighbour_bins(pairs, bins=3)).data
    order = pairs.sort_values("cosine")
    for place in range(3):
        part = order.iloc[30 * place : 30 * place + 30]
        assert bars.y[place] == pytest.approx(part["shared"].mean())
        ranked, cosine = (scipy.stats.spearmanr(part[name], part["gold"]).statistic for name in ("ranked", "cosine"))
        assert line.y[place] == pytest.approx(100 * (ranked - cosine))


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


def test_every_pair_is_at_its_two_similarities():
    draw = np.random.default_rng(0)
    found = {name: (draw.random((3, 2)), draw.random((3, 2))) for name in ("one", "two")}
    dots, line, other, _ = views.closed_against_exact(found).data
    assert (list(dots.x), list(dots.y)) == tuple(values.ravel().tolist() for values in found["one"])
    assert list(other.x) == found["two"][0].ravel().tolist()
    assert list(line.x) == list(line.y)


RUNS = pd.DataFrame({"label": [HOSTILE], "seed": [0], "value": [0.5], "low": [NAN], "high": [NAN]})
PARTS = pd.DataFrame({"label": [HOSTILE], "part": [HOSTILE], "mean": [0.5], "std": [NAN], "n": [1]})
FIGURES: dict[str, Callable[[], go.Figure]] = {
    "intervals": lambda: views.score_intervals(RUNS, HOSTILE),
    "parts": lambda: views.part_scores(PARTS),
    "maps": lambda: views.cosine_maps({HOSTILE: SQUARE}, [HOSTILE, HOSTILE]),
    "spaces": lambda: views.sentence_map({HOSTILE: SQUARE}, [HOSTILE, HOSTILE]),
    "closed form": lambda: views.closed_against_exact({HOSTILE: (SQUARE, SQUARE)}),
    "sweep": lambda: views.setting_sweep(pd.DataFrame({"x": [HOSTILE], HOSTILE: [0.5]}), "x", label=HOSTILE),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES.keys())
def test_names_are_neither_markup_nor_mathematics_in_any_figure(draw: Callable[[], go.Figure]):
    drawn = draw().to_json()
    assert "bold" in drawn
    for markup in ("$1", "<b>", r"\u003cb\u003e"):
        assert markup not in drawn


@pytest.mark.parametrize("panels", [1, 2, 6])
def test_a_figure_is_never_wider_than_its_output(panels: int):
    several = dict.fromkeys([f"panel {number}" for number in range(panels)], SQUARE)
    pairs = dict.fromkeys(several, (SQUARE, SQUARE))
    figures = views.closed_against_exact(pairs), views.cosine_maps(several, ["a", "b"]), views.part_scores(PARTS)
    for figure in figures:
        assert figure.layout.autosize or figure.layout.width <= 844, "an output's width on a screen of 1280"


def test_a_title_of_two_lines_has_the_room_above_it_of_one_line_alone():
    one, two = (laid_out(go.Figure(), title).layout for title in ("short", "words " * 12))
    assert two.title.text.count("<br>") == 1
    raised = 0.7 * two.title.font.size  # plotly's, of the first of several lines
    assert two.title.pad.t - raised == pytest.approx(one.title.pad.t, abs=1)
    assert two.title.pad.t + 1.3 * two.title.font.size < two.margin.t, "the last line ends above the plot"


def test_a_figure_has_the_paper_of_the_page_and_names_its_panels_below_its_title():
    figure = laid_out(views.closed_against_exact({"a": (np.zeros(2), np.zeros(2))}), "word " * 40)
    theme = figure.layout.template.layout
    assert theme.paper_bgcolor == theme.plot_bgcolor == "rgba(0,0,0,0)"
    light = ((int(theme.font.color[1:3], 16) / 255 + 0.055) / 1.055) ** 2.4
    assert 1.05 / (light + 0.05) > 4
    assert (light + 0.05) / (0.0056 + 0.05) > 4, "of JupyterLab's dark paper"
    assert figure.layout.margin.t >= 20 * figure.layout.title.text.count("<br>") + 80


@pytest.mark.parametrize("width", [18, 24, 40])
def test_a_label_that_is_cut_still_differs_from_the_others(width: int):
    cosent = [f"cosent (max_steps=100, train=stsb-train, scale={scale})" for scale in ("5.0", "20.0")]
    middle = [f"rankcse (pooling={how}, teachers=[simcse f5da80d3, simcse f5da80d3-s0])" for how in ("cls", "mean")]
    path = "/models/of/somebody/whose/folders/lie/deep/model"
    short = shortened(["simcse", *cosent, *middle, path], width)
    assert len(set(short.values())) == len(short) == 6
    assert short["simcse"] == "simcse"
    assert all(short[label].startswith("cosent (…") and len(short[label]) == width for label in cosent)
    assert [short[label] for label in middle] == middle, "the ends are the same"
    assert short[path] == f"{path[: width // 2]}…{path[width // 2 + 1 - width :]}"


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
