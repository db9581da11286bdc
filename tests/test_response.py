"""What a setting does: means over seeds on dev and test, and what dev chooses."""

from pathlib import Path

import pandas as pd
import pytest

from workbench import look
from workbench.config import CoSENTConfig, SimCSEConfig
from workbench.errors import SettingError
from workbench.runs import Run

TABLE = pd.DataFrame({"suite": ["s"], "subset": [""], "pair_id": ["0"]})


def finish(root: Path, config: SimCSEConfig | CoSENTConfig, dev: float, test: float) -> Run:
    run = Run.create(config, root)
    (run.path / "history.csv").write_text(f"step,dev_spearman\n0,0.99\n5,{dev}\n10,{dev - 0.1}\n")
    run.write_evaluation({"s": {"spearman": test, "n": 2}}, TABLE, TABLE)
    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for temperature, dev, test in ((0.05, 0.4, 0.5), (0.1, 0.6, 0.3)):
        for seed in (0, 1):
            config = SimCSEConfig.from_parameters("demo", seed, {"temperature": temperature})
            finish(tmp_path, config, dev + 0.02 * seed, test)
    finish(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 0.5, 0.5)
    return tmp_path


def test_the_best_of_training_is_dev_and_the_start_is_not(root: Path):
    with pytest.raises(SettingError, match="did you mean 'temperature'"):
        look.response(root, "temprature", "s")
    table = look.response(root, "temperature", "s")
    assert table["value"].tolist() == [0.05, 0.1]
    assert table["seeds"].tolist() == [2, 2]
    assert table["dev"].to_numpy() == pytest.approx([0.41, 0.61])
    assert table["dev_std"].to_numpy() == pytest.approx([0.02 / 2**0.5] * 2)
    (chosen,) = look.chosen_on_dev(table).to_dict("records")
    assert (chosen["value"], chosen["test"]) == (0.1, pytest.approx(0.3)), "test is not what chooses"


def test_what_else_varies_is_a_line_of_its_own(root: Path):
    small = finish(root, SimCSEConfig.from_parameters("demo", 0, {"batch_size": 16}), 0.2, 0.2)
    labels = look.response(root, "temperature", "s")["label"].unique().tolist()
    assert labels == ["simcse", "simcse (batch_size=16)"]
    assert len(look.response(root, "temperature", "s", paths=[small.path])) == 1
    figure = look.response_curves(look.response(root, "temperature", "s"), "temperature", "s")
    assert [trace.name for trace in figure.data if trace.showlegend] == labels
    ringed = [trace for trace in figure.data if trace.name == labels[0]]
    assert all(list(trace.marker.size) == [7, 14] for trace in ringed)


def test_two_settings_are_a_map_whose_choice_is_framed(root: Path):
    both = ("temperature", "learning_rate")
    finish(root, SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.1, "learning_rate": 1e-4}), 0.7, 0.2)
    table = look.response(root, both, "s")
    simcse = table.loc[table["label"] == "simcse"]
    assert sorted(simcse[["value", "second", "seeds"]].itertuples(index=False, name=None)) == [
        (0.05, 1e-3, 2),
        (0.1, 1e-4, 1),
        (0.1, 1e-3, 2),
    ]
    dev, framed, test, _ = look.response_map(simcse, both, "s").data
    assert dict(zip(zip(dev.x, dev.y, strict=True), dev.z, strict=True))["0.1", "0.001"] == pytest.approx(61)
    assert (*framed.x, *framed.y) == ("0.1", "0.0001"), "by dev, though its test is the worst"
    assert dict(zip(zip(test.x, test.y, strict=True), test.text, strict=True)) == {
        ("0.05", "0.001"): "50.0<br>± 0.0",
        ("0.1", "0.0001"): "20.0",
        ("0.1", "0.001"): "30.0<br>± 0.0",
    }


@pytest.mark.parametrize(
    ("values", "names"),
    [([None, 0.1], ["0.1", "None"]), ([True, False], ["False", "True"]), ([None, "cls"], ["cls", "None"])],
)
def test_an_unset_value_and_a_switch_are_named_as_they_are_and_can_be_chosen(values: list, names: list[str]):
    rows = [{"label": "m", "value": value, "dev": 1 - place, "test": 0.0} for place, value in enumerate(values)]
    table = pd.DataFrame(rows).assign(seeds=1, dev_std=0.0, test_std=0.0)
    figure = look.response_curves(table, "mlp", "s")
    assert list(figure.layout.xaxis.categoryarray) == names
    for line in figure.data:
        assert [name for name, size in zip(line.x, line.marker.size, strict=True) if size == 14] == [str(values[0])]


def test_a_grid_with_gaps_has_its_axes_in_order():
    cells = [(0.05, 64), (0.05, 256), (0.1, 16), (0.1, 64)]
    table = pd.DataFrame(cells, columns=["value", "second"]).assign(label="m", dev=0.5, test=0.5, dev_std=0, test_std=0)
    layout = look.response_map(table, ("temperature", "batch_size"), "s").layout
    assert list(layout.yaxis.categoryarray) == list(layout.yaxis2.categoryarray) == ["16", "64", "256"]
    assert list(layout.xaxis.categoryarray) == ["0.05", "0.1"]


def test_without_runs_there_is_nothing_to_draw(tmp_path: Path):
    table = look.response(tmp_path, "temperature", "s")
    assert table.empty
    assert look.chosen_on_dev(table).empty
    assert look.response_map(table, ("temperature", "mlp"), "s").layout.title.text == "No finished runs yet"
    assert look.response_curves(table, "temperature", "s").layout.title.text == "No finished runs yet"
