"""Settings refuse what they do not know and say what they do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.config import (
    ALIASES,
    CONFIGS,
    BaseConfig,
    CompCSEConfig,
    RankCSEConfig,
    RankEncoderConfig,
    SimCSEConfig,
    TrainingConfig,
)
from workbench.errors import SettingError

EVERY_PROFILE = [(name, profile) for name, config in CONFIGS.items() for profile in config.profiles]


@pytest.mark.parametrize(("method", "profile"), EVERY_PROFILE)
def test_every_profile_resolves_and_survives_json(method: str, profile: str):
    config = CONFIGS[method].from_parameters(profile, seed=7)
    again = CONFIGS[method](**json.loads(json.dumps(config.model_dump(mode="json"))))
    assert again == config
    assert again.digest() == config.digest()


@pytest.mark.parametrize("config", CONFIGS.values())
def test_every_method_has_a_demo_and_the_four_backbones_of_the_papers(config: type[TrainingConfig]):
    assert {"demo", "paper", "paper-bert-large", "paper-roberta-base", "paper-roberta-large"} <= set(config.profiles)


@pytest.mark.parametrize("config", CONFIGS.values())
def test_every_setting_says_what_it_means_and_where_it_is_from(config: type[TrainingConfig]):
    table = config.from_parameters("demo").table()
    assert table["meaning"].str.len().min() > 10
    assert (table["source"].str.len() > 0).all()


@pytest.mark.parametrize("config", [*CONFIGS.values(), BaseConfig])
def test_direct_construction_is_the_profile_that_it_names(config: type[TrainingConfig] | type[BaseConfig]):
    made, wanted = config(seed=3), "as-it-is" if config is BaseConfig else "paper"
    assert (made.profile, made.seed) == (wanted, 3)
    assert made == config.from_profile(wanted, seed=3)
    assert not made.changed()


def test_a_profile_takes_changes_by_name():
    config = SimCSEConfig.from_profile("demo", seed=3, temperature=0.07)
    assert config == SimCSEConfig.from_parameters("demo", 3, {"temperature": 0.07})
    assert list(config.changed()) == ["temperature"]
    assert config == SimCSEConfig(profile="demo", seed=3, temperature="0.07")
    assert SimCSEConfig(temperature=0.07).changed() == {"temperature": 0.07}


@pytest.mark.parametrize("make", [SimCSEConfig, lambda **given: SimCSEConfig.from_parameters("demo", 0, given)])
def test_an_unknown_name_is_refused_with_a_suggestion(make: Callable[..., SimCSEConfig]):
    with pytest.raises(SettingError, match=r"no setting 'temprature' .* did you mean 'temperature'\?"):
        make(temprature=0.07)
    with pytest.raises(SettingError, match="did you mean 'paper'"):
        SimCSEConfig(profile="papr")


def test_names_of_other_libraries_are_accepted():
    theirs = {"lr": "1e-4", "max_seq_length": 20, "num_train_epochs": 2, "warmup_ratio": 0.1, "report_to": "wandb"}
    theirs |= {"per_device_train_batch_size": 32, "logging-steps": 5, "nproc_per_node": 2, "eval_dataset": "stsb-dev"}
    names = ["learning_rate", "max_tokens", "epochs", "warmup", "track", "batch_size", "log_steps", "processes", "dev"]
    expected = dict(zip(names, [1e-4, 20, 2.0, 0.1, "wandb", 32, 5, 2, "stsb-dev"], strict=True))
    for config in (SimCSEConfig.from_profile("demo", **theirs), SimCSEConfig.from_parameters("demo", 0, theirs)):
        assert config.changed() == expected
    assert {SimCSEConfig.setting_name(name) for name in ALIASES} <= SimCSEConfig.model_fields.keys()
    with pytest.raises(SettingError, match="learning_rate is given twice"):
        SimCSEConfig(lr=1e-4, learning_rate=1e-5)


@pytest.mark.parametrize("method", CONFIGS)
def test_the_demo_gives_a_start_outside_the_world_a_rate_that_does_not_ruin_it(method: str, tmp_path: Path):
    config = CONFIGS[method]
    usual, tuned = config.from_profile("demo"), config.from_profile("demo", encoder="english-encoder")
    assert (usual.learning_rate, tuned.learning_rate, tuned.eval_steps) == (1e-3, 3e-5, 10)
    assert config.from_profile("demo", encoder=str(tmp_path)).learning_rate == 3e-5
    assert list(tuned.changed()) == ["encoder"], "the rate follows from the start"
    assert "learning_rate is 3e-05 and not 0.001" in tuned.recipe
    assert config(**tuned.model_dump(mode="json")).digest() == tuned.digest()
    own = config.from_profile("demo", encoder="english-encoder", learning_rate=1e-3)
    assert (own.learning_rate, own.recipe, own.changed()["learning_rate"]) == (1e-3, "", 1e-3)
    assert config.from_profile("demo", encoder="world-teacher").learning_rate == 1e-3
    assert usual.recipe == config.from_profile("paper", encoder="english-encoder").recipe == ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temperature", "warm", r"valid number.* \(got 'warm'\)"),
        ("temperature", 0, r"greater than 0 \(got 0\)"),
        ("temperature", float("nan"), "finite"),
        ("dropout", 1.5, "less than 1"),
        ("max_steps", 2.5, "integer"),
        ("mlp", "maybe", "boolean"),
        ("pooling", "clss", "'cls', 'mean'"),
        ("suites", [], "at least 1 item"),
        ("suites", ["stsb-test", "stsb-test"], "more than once"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_together_with_every_other(name: str, value: object, words: str):
    with pytest.raises(SettingError, match=rf"{name}: .*{words}") as refusal:
        SimCSEConfig.from_parameters("demo", 0, {name: value, "batch_size": 1})
    assert "batch_size: " in str(refusal.value)
    with pytest.raises(SettingError, match="give --seed to a command"):
        SimCSEConfig.from_parameters("demo", 0, {"seed": 3})


def test_text_from_a_command_line_is_read_as_its_setting_type():
    texts = {"temperature": "7e-2", "mlp": "false", "max_steps": "none", "suites": "world-test, ladders-all"}
    config = SimCSEConfig.from_parameters("demo", 0, texts)
    assert (config.temperature, config.mlp, config.max_steps) == (0.07, False, None)
    assert config.suites == ["world-test", "ladders-all"]
    assert SimCSEConfig.from_parameters("demo", 0, {"revisions": '{"a/b": "1f"}'}).revisions == {"a/b": "1f"}


def test_the_pooling_of_a_profile_is_said_of_its_own_encoder_alone():
    config = CONFIGS["cosent"]
    config.from_parameters("paper").require_pooling("mean")
    config.from_parameters("paper", 0, {"encoder": "bert-base-uncased"}).require_pooling("mean")
    for said in ("first_last", "mean"):
        config.from_parameters("paper", 0, {"encoder": "roberta-base", "pooling": said}).require_pooling("mean")
    with pytest.raises(SettingError, match="roberta-base was saved with 'mean', and cosent uses 'first_last'"):
        config.from_parameters("paper", 0, {"encoder": "roberta-base"}).require_pooling("mean")


def test_a_folder_of_ones_own_is_named_by_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.tsv").write_text("sentence\na\n")
    monkeypatch.chdir(tmp_path)
    config = SimCSEConfig.from_parameters("demo", 0, {"encoder": "mine", "train": "mine.tsv"})
    assert (config.encoder, config.train) == (str(tmp_path / "mine"), str(tmp_path / "mine.tsv"))
    assert SimCSEConfig.from_parameters("demo").encoder == "world-encoder"


def test_a_folder_called_like_a_set_or_a_bundled_encoder_changes_nothing(tmp_path, monkeypatch):
    def named() -> list:
        config = RankEncoderConfig.from_parameters("demo", 0, {"base": "world-teacher", "corpus": "world"})
        return [config.train, config.dev, config.suites, config.corpus, config.encoder, config.base, config.digest()]

    usual = named()
    for name in ("world", "world-dev", "world-test", "world-encoder", "world-teacher"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert named() == usual, "only encoders are folders, and a bundled name is only ever bundled"
    assert SimCSEConfig.from_parameters("demo", 0, {"encoder": ""}).encoder == "", "the folder where one is"


def test_two_files_of_one_name_are_no_two_suites(tmp_path):
    files = [tmp_path / "a" / "mine.tsv", tmp_path / "b" / "mine.tsv.gz"]
    with pytest.raises(SettingError, match=r"suites: mine named more than once; .* give files other names"):
        SimCSEConfig.from_parameters("demo", 0, {"suites": [str(file) for file in files]})


def test_a_batch_that_processes_cannot_share_is_refused():
    with pytest.raises(SettingError, match="not a multiple of processes"):
        SimCSEConfig.from_parameters("demo", 0, {"batch_size": 7, "processes": 2})


def test_the_digest_names_the_computation_and_nothing_else():
    base = SimCSEConfig.from_parameters("demo")
    assert base.digest() == SimCSEConfig.from_parameters("demo", 9, {"device": "cpu", "log_steps": 1}).digest()
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.05}).digest()
    assert base.digest() != SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.06}).digest()


def own(folder: Path, text: str = "a b\nc d\n") -> dict[str, str]:
    """An encoder's folder, a run's folder and a file of one's own."""
    folder.mkdir(parents=True)
    for encoder in (folder / "encoder", folder / "run" / "encoder"):
        encoder.mkdir(parents=True)
        (encoder / "config.json").write_text("{}")
        (encoder / "model.safetensors").write_text("weights")
        (encoder / "README.md").write_text(str(folder))
    (folder / "run" / "config.json").write_text(str(folder))
    (folder / "mine.txt").write_text(text)
    return {"encoder": str(folder / "encoder"), "train": str(folder / "mine.txt")}


def test_what_is_computed_names_a_run_and_not_where_files_lie(tmp_path: Path):
    here, there = own(tmp_path / "here"), own(tmp_path / "there")
    base = SimCSEConfig.from_parameters("demo", 0, here)
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, there).digest()
    run = here | {"encoder": str(tmp_path / "here" / "run")}
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, run).digest(), "a run stands for its encoder"
    assert base.digest() != SimCSEConfig.from_parameters("demo").digest()
    teachers = [
        RankCSEConfig.from_parameters("demo", 0, {"teachers": [name], "teacher_pooling": {name: "mean"}}).digest()
        for name in (here["encoder"], there["encoder"])
    ]
    assert teachers[0] == teachers[1]


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("encoder/model.safetensors", True),
        ("encoder/config.json", True),
        ("encoder/tokenizer.json", True),
        ("encoder/1_Pooling/config.json", True),
        ("encoder/transformer/model.safetensors", True),
        ("encoder/checkpoint-500/model.safetensors", False),
        ("encoder/README.md", False),
        ("encoder/training.log", False),
        ("mine.txt", True),
    ],
)
def test_other_content_at_the_same_place_is_another_run(tmp_path: Path, file: str, counts: bool):
    config = SimCSEConfig.from_parameters("demo", 0, own(tmp_path / "here"))
    before = config.digest()
    changed = tmp_path / "here" / file
    changed.parent.mkdir(exist_ok=True)
    changed.write_text("WEIGHTS" if changed.exists() else "x")
    assert (config.digest() != before) == counts


@pytest.mark.parametrize("name", ["teachers", "base", "corpus", "spans", "dev", "suites"])
def test_every_place_that_a_setting_names_counts_by_its_content(tmp_path: Path, name: str):
    files = own(tmp_path / "here")
    value = files["encoder"] if name in ("teachers", "base") else files["train"]
    kinds = {"teachers": RankCSEConfig, "spans": CompCSEConfig}
    more = {"subsampling": "spans"} if name == "spans" else {}
    given = {name: [value] if name in ("teachers", "suites") else value, **more}
    config = kinds.get(name, RankEncoderConfig).from_parameters("demo", 0, given)
    before = config.digest()
    assert config.contents().keys() == {value}
    Path(value, "model.safetensors" if Path(value).is_dir() else "").write_text("other content")
    assert config.digest() != before


@pytest.mark.parametrize(
    "overrides", [{"encoder": "/none/such"}, {"train": "nowhere.txt"}, {"suites": ["/none/a.tsv"]}]
)
def test_a_place_where_nothing_is_is_refused(overrides: dict):
    config = SimCSEConfig.from_parameters("demo", 0, overrides)
    with pytest.raises(SettingError, match=rf"{next(iter(overrides))}: there is no folder or file"):
        config.digest()


def test_a_big_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = SimCSEConfig.from_parameters("demo", 0, own(tmp_path / "here"))
    digest = config.digest()
    monkeypatch.setattr("hashlib.file_digest", None)
    assert config.digest() == digest


DIGESTS = Path(__file__).with_name("digests.json")


def digests() -> dict[str, dict[str, str]]:
    return {
        method: {profile: config.from_parameters(profile).digest() for profile in config.profiles}
        for method, config in CONFIGS.items()
    }


def test_the_runs_of_every_profile_keep_their_names():
    """After a change of settings that is meant: `python tests/test_config.py` writes the table once more."""
    assert digests() == json.loads(DIGESTS.read_text())


def test_settings_do_not_change_once_made():
    with pytest.raises(ValueError, match="frozen"):
        SimCSEConfig.from_parameters("demo").temperature = 1.0  # type: ignore[misc]


def test_the_rendered_table_has_changed_settings_in_bold_and_folds_those_of_no_paper():
    config = RankCSEConfig.from_parameters("demo", 0, {"max_grad_norm": 2.0, "suites": ["<img src=x>"]})
    shown, folded = config._repr_html_().split("<details>")
    for name in ("teachers", "temperature", "batch_size", "learning_rate", "max_grad_norm"):
        assert f">{name}<" in shown
        assert f">{name}<" not in folded
    for name in ("weight_decay", "log_steps", "device"):
        assert f">{name}<" in folded
    assert "font-weight: bold" in shown
    assert "font-weight: bold" not in folded
    assert "<img" not in shown
    table = config.table().set_index("setting")
    assert table.loc["dropout", "allowed"] == "float >= 0 and < 1 or none"
    assert table.loc["max_steps", ["unit", "source"]].tolist() == ["steps", "our choice for 'demo'"]
    assert table.loc["max_grad_norm", ["source", "changed"]].tolist() == ["given for this run", True]


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps(digests(), indent=2) + "\n")
