"""The effect of a setting: means over seeds on dev and test, and the value selected on dev."""

from pathlib import Path

import pandas as pd
import pytest

from workbench import views
from workbench.config import CoSENTConfig, SimCSEConfig
from workbench.errors import SettingError
from workbench.runs import Run

TABLE = pd.DataFrame({"suite": ["s"], "subset": [""], "pair_id": ["0"]})


def finish(root: Path, config: SimCSEConfig | CoSENTConfig, dev: float, test: float) -> Run:
    run = Run.open(config, root)
    (run.path / "history.csv").write_text(f"step,dev_spearman\n0,0.99\n5,{dev}\n10,{dev - 0.1}\n")
    run.write_evaluation({"s": {"spearman": test, "n": 2}}, TABLE, TABLE)
    return run


def test_dev_chooses_among_the_values_of_a_setting_and_what_else_varies_is_another_line(
    tmp_path: Path,
):
    assert views.response(tmp_path, "temperature", "s").empty
    for temperature, dev, test in ((0.05, 0.4, 0.5), (0.1, 0.6, 0.3)):
        for seed in (0, 1):
            config = SimCSEConfig.from_parameters("demo", seed, {"temperature": temperature})
            finish(tmp_path, config, dev + 0.02 * seed, test)
    finish(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 0.5, 0.5)
    with pytest.raises(SettingError, match="did you mean 'temperature'"):
        views.response(tmp_path, "temprature", "s")
    table = views.response(tmp_path, "temperature", "s")
    assert table[["value", "seeds"]].to_numpy().tolist() == [[0.05, 2], [0.1, 2]]
    assert table["dev"].to_numpy() == pytest.approx([0.41, 0.61]), (
        "the best of training, and not the start"
    )
    assert table["dev_std"].to_numpy() == pytest.approx([0.02 / 2**0.5] * 2)
    (chosen,) = views.chosen_on_dev(table).to_dict("records")
    assert (chosen["value"], chosen["test"]) == (0.1, pytest.approx(0.3)), (
        "the value was selected on test"
    )

    finish(tmp_path, SimCSEConfig.from_parameters("demo", 0, {"batch_size": 16}), 0.2, 0.2)
    table = views.response(tmp_path, "temperature", "s")
    assert table["label"].unique().tolist() == ["simcse", "simcse (batch_size=16)"]
