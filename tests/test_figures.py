"""Figures show the numbers of their tables."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.views import (
    alignment_uniformity_path,
    closed_against_exact,
    cosine_by_gold,
    cosine_maps,
    part_scores,
    score_intervals,
    setting_sweep,
    training_curve,
    vector_spaces,
)
from workbench.views._style import laid_out, shortened


@pytest.fixture
def history() -> pd.DataFrame:
    nan = float("nan")
    return pd.DataFrame(
        {
            "step": [0, 10, 20, 30],
            "loss": [nan, 1.0, 0.5, 0.4],
            "info_nce": [nan, 1.0, 0.5, 0.4],
            "dev_spearman": [0.9, 0.4, 0.6, 0.5],
            "dev_alignment": [0.1, 0.2, 0.3, 0.4],
            "dev_uniformity": [-1.0, -1.5, -2.0, -2.1],
            "seconds": [0.0, 1.0, 2.0, 3.0],
        }
    )


def test_the_ringed_checkpoint_is_the_best_trained_one_not_the_start(history: pd.DataFrame):
    figure = training_curve({"m": history})
    ring = next(trace for trace in figure.data if trace.name == "m: kept")
    assert (list(ring.x), list(ring.y)) == ([20], [60.0])


def test_loss_terms_are_drawn_on_request(history: pd.DataFrame):
    names = {trace.name for trace in training_curve({"m": history}, terms=True).data}
    assert "m: info_nce" in names
    assert "m: loss" not in names
    named_alike = training_curve({"info_nce": history}, terms=True).data
    assert "info_nce: info_nce" not in {trace.name for trace in named_alike}


def test_the_path_visits_every_measured_step(history: pd.DataFrame):
    figure = alignment_uniformity_path({"m": history})
    (path,) = figure.data
    assert list(path.x) == history["dev_uniformity"].tolist()
    ends = {note.text: (note.x, note.y) for note in figure.layout.annotations}
    assert ends == {"step 0": (-1.0, 0.1), "step 30": (-2.1, 0.4)}
    assert path.customdata[-1].tolist() == [30, 50]


def test_a_common_start_is_named_once_and_an_unmeasured_history_is_an_empty_path(history: pd.DataFrame):
    other = history.assign(dev_alignment=[0.102, 0.2, 0.3, 0.0])  # measured in another run: nearly the same point
    figure = alignment_uniformity_path({"m": history, "n": other})
    assert [note.text for note in figure.layout.annotations] == ["step 0", "step 30", "step 30"]
    near = history.assign(
        dev_uniformity=history["dev_uniformity"] - 0.05, dev_alignment=history["dev_alignment"] + 0.01
    )
    figure = alignment_uniformity_path({"m": history, "n": near})
    assert [note.text for note in figure.layout.annotations] == ["step 0", "step 30"], "nor on each other at the end"
    (empty,) = alignment_uniformity_path({"m": history.drop(columns="dev_alignment")}).data
    assert len(empty.x) == 0


def test_every_pair_stands_in_its_gold_band():
    gold = np.array([0.0, 0.9, 1.0, 2.5, 4.1, 5.0])
    scores = pd.DataFrame({"suite": "s", "gold": gold, "predicted": gold / 5})
    (violin,) = cosine_by_gold({"m": scores}, "s").data
    assert list(violin.x) == ["0 to 1", "0 to 1", "1 to 2", "2 to 3", "4 to 5", "4 to 5"]


def test_bands_are_common_to_all_models_and_end_at_whole_numbers():
    wide, narrow = (pd.DataFrame({"suite": "s", "gold": gold, "predicted": 0.5}) for gold in ([0.2, 4.8], [2.2, 2.4]))
    figure = cosine_by_gold({"wide": wide, "narrow": narrow}, "s")
    assert [list(violin.x) for violin in figure.data] == [["0 to 1", "4 to 5"], ["2 to 3", "2 to 3"]]


def test_an_unknown_suite_is_refused_with_what_there_is():
    scores = pd.DataFrame({"suite": ["stsb-test"], "gold": [1.0], "predicted": [0.5]})
    with pytest.raises(ValueError, match="there are: stsb-test"):
        cosine_by_gold({"m": scores}, "sick-test")


def test_a_sweep_draws_each_column_over_its_setting_in_order():
    table = pd.DataFrame({"scale": [40.0, 1.0], "dev": [0.5, 0.25], "test": [0.4, 0.2]})
    figure = setting_sweep(table, "scale", label="lambda", paper=1)
    dev, test = figure.data
    assert (list(dev.x), list(dev.y)) == (["40", "1"], [50.0, 25.0])
    assert list(test.y) == [40.0, 20.0]
    assert [line.x0 for line in figure.layout.shapes] == [1], "the paper's value is marked at its place"
    assert not setting_sweep(table, "scale", paper=20).layout.shapes
    with pytest.raises(ValueError, match="no column 'tau'; its columns are scale, dev, test"):
        setting_sweep(table, "tau")


def test_observations_are_not_drawn_as_loss_terms(history: pd.DataFrame):
    names = {trace.name for trace in training_curve({"m": history.assign(observed_share=0.5)}, terms=True).data}
    assert names == {"m: dev", "m: kept", "m: info_nce"}


def test_maps_share_one_scale_that_holds_every_cosine():
    maps = {"a": np.array([[1.0, 0.5], [0.5, 1.0]]), "b": np.array([[1.0, -0.25], [-0.25, 1.0]])}
    figure = cosine_maps(maps, ["anchor", "phrase"])
    assert [panel.z.tolist() for panel in figure.data] == [values.tolist() for values in maps.values()]
    assert list(figure.data[0].y) == ["A: anchor", "B: phrase"]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-0.25, 1)


HOSTILE = '<b>bold</b> "quoted" & $1.20 to $20.35 %{y}'
RUNS = pd.DataFrame({"label": [HOSTILE], "seed": [0], "value": [0.5], "low": [0.4], "high": [0.6]})
PARTS = pd.DataFrame({"label": [HOSTILE], "part": [HOSTILE], "mean": [0.5], "std": [0.1], "n": [2]})
SQUARE = np.array([[1.0, 0.5], [0.5, 1.0]])
FIGURES: dict[str, Callable[[], go.Figure]] = {
    "intervals": lambda: score_intervals(RUNS, HOSTILE),
    "parts": lambda: part_scores(PARTS),
    "maps": lambda: cosine_maps({HOSTILE: SQUARE}, [HOSTILE, HOSTILE]),
    "spaces": lambda: vector_spaces({HOSTILE: SQUARE}, [HOSTILE, HOSTILE]),
    "closed form": lambda: closed_against_exact({HOSTILE: (SQUARE, SQUARE)}),
    "sweep": lambda: setting_sweep(pd.DataFrame({"x": [HOSTILE], HOSTILE: [0.5]}), "x", label=HOSTILE),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES.keys())
def test_names_are_neither_markup_nor_mathematics_in_any_figure(draw: Callable[[], go.Figure]):
    drawn = draw().to_json()
    assert "bold" in drawn
    assert "$1" not in drawn
    assert "<b>" not in drawn
    assert r"\u003cb\u003e" not in drawn


def test_more_texts_than_letters_go_on_in_pairs():
    names = [f"text {place}" for place in range(28)]
    figure = cosine_maps({"m": np.eye(28)}, names)
    assert list(figure.data[0].x)[25:] == ["Z", "AA", "AB"]
    assert list(figure.data[0].y)[-1] == "AB: text 27"


@pytest.mark.parametrize("panels", [1, 2, 3, 6])
def test_a_figure_is_never_wider_than_what_it_is_shown_in(panels: int):
    names = [f"panel {number}" for number in range(panels)]
    several = dict.fromkeys(names, SQUARE)
    for figure in (
        vector_spaces(several, ["a", "b"]),
        closed_against_exact(dict.fromkeys(names, (SQUARE, SQUARE))),
        cosine_maps(several, ["a", "b"]),
        part_scores(PARTS),
    ):
        assert figure.layout.autosize or figure.layout.width <= 844, "an output's width on a screen of 1280"


def test_a_title_of_two_lines_has_the_room_above_it_of_one_line_alone():
    one, two = (laid_out(go.Figure(), title).layout for title in ("short", "words " * 12))
    assert two.title.text.count("<br>") == 1
    raised = 0.7 * two.title.font.size  # plotly's, of the first of several lines
    assert two.title.pad.t - raised == pytest.approx(one.title.pad.t, abs=1)
    assert two.title.pad.t + 1.3 * two.title.font.size < two.margin.t, "the last line ends above the plot"


def test_a_figure_has_the_page_for_paper_and_names_its_panels_below_its_title():
    figure = laid_out(closed_against_exact({"a": (np.zeros(2), np.zeros(2))}), "word " * 40)
    theme = figure.layout.template.layout
    assert theme.paper_bgcolor == theme.plot_bgcolor == "rgba(0,0,0,0)"
    assert "#2a3f5f" not in str(theme), "nothing is left of the theme that plotly begins with"
    light = ((int(theme.font.color[1:3], 16) / 255 + 0.055) / 1.055) ** 2.4
    assert 1.05 / (light + 0.05) > 4
    assert (light + 0.05) / (0.0056 + 0.05) > 4, "of JupyterLab's dark paper"
    assert "black" not in str(figure.data)
    assert figure.layout.margin.t >= 20 * figure.layout.title.text.count("<br>") + 80
    narrow = laid_out(cosine_maps({"a": np.eye(2)}, ["one", "two"]), "word " * 14, width=100)
    assert narrow.layout.title.text.count("<br>") == 1, "a title stands in lines, not in a column"


def test_brackets_that_hold_no_setting_are_cut_like_any_name():
    name = "an encoder of my own, read twice (,,,)"
    assert shortened([name], 20) == {name: f"{name[:10]}…{name[-9:]}"}


@pytest.mark.parametrize("width", [18, 24, 40])
def test_a_label_that_is_cut_keeps_the_setting_that_tells_it_apart(width: int):
    cosent = [f"cosent (max_steps=100, train=stsb-train, scale={scale})" for scale in ("5.0", "20.0")]
    taught = [f"rankcse (pooling=mean, teachers=[simcse f5da80d3, simcse f5da80d3-s{seed}]), seed 3" for seed in (0, 1)]
    path = "/models/of/somebody/whose/folders/lie/deep/model"
    found = shortened(["simcse", *cosent, *taught, path], width)
    assert list(found) == ["simcse", *cosent, *taught, path]
    assert len(set(found.values())) == len(found)
    assert found["simcse"] == "simcse"
    assert [re.split("[= ]", found[label])[-1] for label in cosent] == ["5.0)", "20.0)"]
    assert all(found[label].startswith("cosent (… ") for label in cosent), "it says that more is set"
    assert [found[label][-13:] for label in taught] == ["-s0]), seed 3", "-s1]), seed 3"]
    assert found[path] == f"{path[: width // 2]}…{path[width // 2 + 1 - width :]}"
