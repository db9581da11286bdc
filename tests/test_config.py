"""Settings refuse what they do not know and say what they do."""

import json

import pytest

from workbench.config import CONFIGS, SimCSEConfig, TrainingConfig
from workbench.errors import SettingError

EVERY_PROFILE = [(name, profile) for name, config in CONFIGS.items() for profile in config.profiles]


@pytest.mark.parametrize(("method", "profile"), EVERY_PROFILE)
def test_every_profile_resolves_and_survives_json(method: str, profile: str):
    config = CONFIGS[method].from_parameters(profile, seed=7)
    again = CONFIGS[method].model_validate_settings(json.loads(json.dumps(config.model_dump(mode="json"))))
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


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(SettingError, match=r"no setting 'temprature' .* did you mean 'temperature'\?"):
        SimCSEConfig.from_parameters("demo", 0, {"temprature": 0.1})


def test_an_unknown_profile_is_refused_with_a_suggestion():
    with pytest.raises(SettingError, match="did you mean 'paper'"):
        SimCSEConfig.from_parameters("papr")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temperature", "warm", "got 'warm' .* a number > 0"),
        ("temperature", 0, "got 0 .* > 0"),
        ("temperature", float("nan"), "got nan"),
        ("temperature", True, "bool"),
        ("max_steps", 2.5, "a whole number"),
        ("mlp", "maybe", "true or false"),
        ("pooling", "clss", "one of 'cls'"),
        ("suites", [], "suites"),
        ("suites", ["stsb-test", "stsb-test"], "more than once"),
        ("batch_size", 1, ">= 2"),
        ("seed", 3, "parameter of its own"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(name: str, value: object, words: str):
    with pytest.raises(SettingError, match=words):
        SimCSEConfig.from_parameters("demo", 0, {name: value})


@pytest.mark.parametrize("overrides", ["temperature=0.1", ["temperature"], 3])
def test_overrides_that_are_no_dictionary_are_refused(overrides: object):
    with pytest.raises(SettingError, match="give a dictionary"):
        SimCSEConfig.from_parameters("demo", 0, overrides)  # type: ignore[arg-type]


def test_text_from_a_command_line_is_read_as_its_setting_type():
    texts = {"temperature": "7e-2", "mlp": "false", "max_steps": "none", "suites": "world-test, ladders-all"}
    config = SimCSEConfig.from_parameters("demo", 0, texts)
    assert (config.temperature, config.mlp, config.max_steps) == (0.07, False, None)
    assert config.suites == ["world-test", "ladders-all"]
    assert SimCSEConfig.from_parameters("demo", 0, {"revisions": '{"a/b": "1f"}'}).revisions == {"a/b": "1f"}


def test_a_folder_of_ones_own_is_named_by_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.tsv").write_text("sentence\na\n")
    monkeypatch.chdir(tmp_path)
    config = SimCSEConfig.from_parameters("demo", 0, {"encoder": "mine", "train": "mine.tsv"})
    assert (config.encoder, config.train) == (str(tmp_path / "mine"), str(tmp_path / "mine.tsv"))
    assert SimCSEConfig.from_parameters("demo").encoder == "world-encoder"


def test_every_wrong_value_is_named_at_once():
    with pytest.raises(SettingError) as refusal:
        SimCSEConfig.from_parameters("demo", 0, {"temperature": -1, "batch_size": 0})
    assert "temperature" in str(refusal.value)
    assert "batch_size" in str(refusal.value)


def test_a_batch_that_processes_cannot_share_is_refused():
    with pytest.raises(SettingError, match="multiple of processes"):
        SimCSEConfig.from_parameters("demo", 0, {"batch_size": 7, "processes": 2})


def test_the_digest_names_the_computation_and_nothing_else():
    base = SimCSEConfig.from_parameters("demo")
    assert base.digest() == SimCSEConfig.from_parameters("demo", 9, {"device": "cpu", "log_steps": 1}).digest()
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.05}).digest()
    assert base.digest() != SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.06}).digest()


def test_settings_do_not_change_once_made():
    with pytest.raises(ValueError, match="frozen"):
        SimCSEConfig.from_parameters("demo").temperature = 1.0  # type: ignore[misc]


def test_the_rendered_table_marks_what_was_overridden():
    page = SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.07})._repr_html_()
    assert "<b>temperature</b>" in page
    assert "<b>batch_size</b>" not in page
