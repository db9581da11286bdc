"""Settings refuse unknown names and values, and describe themselves."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pydantic
import pytest

from workbench.checkpoints import find_checkpoint
from workbench.config import (
    CONFIGS,
    BaselineConfig,
    CompCSEConfig,
    CoSENTConfig,
    RankCSEConfig,
    RankEncoderConfig,
    SimCSEConfig,
    TrainingConfig,
    setting_text,
)
from workbench.config._settings import read_profiles, read_value
from workbench.data import load_training
from workbench.errors import SettingError
from workbench.methods.simcse import SimCSE
from workbench.runs import Run, list_runs


@pytest.mark.parametrize("config", [*CONFIGS.values(), BaselineConfig])
def test_every_profile_resolves_survives_json_and_explains_its_settings(
    config: type[TrainingConfig],
):
    for profile in config.profiles:
        settings = config(profile=profile, seed=7)
        again = config(**json.loads(json.dumps(settings.model_dump(mode="json"))))
        assert (again, again.digest()) == (settings, settings.digest())
    table = settings.table()
    assert table["meaning"].str.len().min() > 10
    assert table["source"].str.len().min() > 0
    direct, profile = config(seed=3), "as-it-is" if config is BaselineConfig else "paper"
    assert (direct.profile, direct.seed) == (profile, 3)
    assert direct == config(profile=profile, seed=3)
    assert not direct.changed()


def test_a_recorded_run_is_complete_without_a_later_setting_that_changes_no_result():
    recorded = SimCSEConfig(temperature=0.07).model_dump(mode="json")
    # Of a version whose profile is gone, and before replayed steps.
    recorded |= {"profile": "former"}
    del recorded["cuda_graphs"]
    config = SimCSEConfig(**recorded)
    assert (config.profile, config.temperature, config.cuda_graphs) == ("former", 0.07, False)
    assert config.digest() == SimCSEConfig(temperature=0.07).digest()


def test_a_profile_takes_changes_by_name_or_by_the_names_of_other_libraries():
    config = SimCSEConfig(profile="demo", seed=3, temperature=0.07)
    assert config == SimCSEConfig.from_parameters("demo", 3, {"temperature": 0.07})
    assert config == SimCSEConfig(profile="demo", seed=3, temperature="0.07")
    assert list(config.changed()) == ["temperature"]
    theirs = {
        "lr": "1e-4",
        "max_length": 20,
        "num_train_epochs": 2,
        "warmup_ratio": 0.1,
        "track": "wandb",
    }
    theirs |= {
        "per_device_train_batch_size": 32,
        "logging-steps": 5,
        "nproc_per_node": 2,
        "eval_dataset": "stsb-dev",
    }
    names = ["learning_rate", "max_seq_length", "epochs", "warmup", "report_to", "batch_size"]
    names += ["logging_steps", "num_processes", "dev"]
    expected = dict(zip(names, [1e-4, 20, 2.0, 0.1, "wandb", 32, 5, 2, "stsb-dev"], strict=True))
    # Epochs that are given are not cut by the profile's steps.
    expected["max_steps"] = None
    assert SimCSEConfig.from_parameters("demo", 0, theirs).changed() == expected
    both = SimCSEConfig.from_parameters("demo", 0, {"epochs": 2, "max_steps": 7})
    assert (both.epochs, both.max_steps) == (2, 7)
    assert SimCSEConfig.from_parameters("demo", 0, {}).max_steps == 200
    assert SimCSEConfig(pooling="first_last") == SimCSEConfig(pooling="avg_first_last")
    teacher = {"teachers": ["a/b"], "teacher_pooling": {"a/b": "embedding_last"}}
    assert RankCSEConfig(**teacher).teacher_pooling == {"a/b": "avg_embedding_last"}
    assert CoSENTConfig(model="interaction").architecture == "cross-encoder"
    with pytest.raises(
        SettingError, match=r"no setting 'temprature' .* did you mean 'temperature'\?"
    ):
        SimCSEConfig(temprature=0.07)
    with pytest.raises(SettingError, match="did you mean 'paper'"):
        SimCSEConfig(profile="papr")
    with pytest.raises(SettingError, match="give --seed to a command"):
        SimCSEConfig.from_parameters("demo", 0, {"seed": 3})
    with pytest.raises(ValueError, match="frozen"):
        config.temperature = 1.0  # type: ignore[misc]


def test_the_demo_gives_a_start_outside_the_world_a_rate_that_does_not_ruin_it(tmp_path: Path):
    for config in CONFIGS.values():
        usual, tuned = config(profile="demo"), config(profile="demo", encoder="english-encoder")
        assert (usual.learning_rate, tuned.learning_rate, tuned.eval_steps) == (1e-3, 3e-5, 10)
        assert config(profile="demo", encoder=str(tmp_path)).learning_rate == 3e-5
        assert list(tuned.changed()) == ["encoder"], "the rate follows from the start"
        assert "learning_rate is 3e-05" in tuned.recipe
        own = config(profile="demo", encoder="english-encoder", learning_rate=1e-3)
        assert (own.learning_rate, own.changed()["learning_rate"]) == (1e-3, 1e-3)
        assert own.recipe.startswith("eval_steps is 10: for an encoder that is not of the bundled")
        assert usual.recipe == config(profile="paper", encoder="english-encoder").recipe == ""


def test_on_your_own_data_the_start_competes_and_a_ruined_training_stops():
    for config in CONFIGS.values():
        for profile in config.profiles:
            bundled = config(profile=profile, encoder="english-encoder")
            assert (bundled.keep_start, bundled.stop_below_start) == (False, None), profile
        for name in ("train", "dev"):
            own = config(profile="demo", **{name: "mine.csv"})
            assert (own.keep_start, own.stop_below_start) == (True, 3.0)
            assert list(own.changed()) == [name], "the two settings follow from the data"
            assert (
                own.recipe == "keep_start is true, stop_below_start is 3: for an encoder that is "
                "not of the bundled world, or for your own data"
            )
        chosen = config(
            profile="demo", train="mine.csv", keep_start="false", stop_below_start="none"
        )
        assert (chosen.keep_start, chosen.stop_below_start, chosen.recipe) == (False, None, "")


def test_a_run_on_own_data_from_before_these_settings_keeps_its_name(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("a b\nc d\n")
    former = SimCSEConfig.from_parameters(
        "demo",
        0,
        {"train": str(tmp_path / "mine.txt"), "keep_start": False, "stop_below_start": None},
    )
    settings = former.model_dump(exclude={"keep_start", "stop_below_start"})
    assert SimCSEConfig(**settings) == former
    assert SimCSEConfig(**settings).digest() == former.digest()
    assert (
        SimCSEConfig.from_parameters("demo", 0, {"train": former.train}).digest() != former.digest()
    )


def test_a_value_that_is_not_allowed_is_refused_together_with_every_other():
    wrong = {
        "temperature": "warm",
        "mlp": "maybe",
        "pooling": "clss",
        "max_steps": 2.5,
        "batch_size": 1,
    }
    with pytest.raises(SettingError) as refusal:
        SimCSEConfig.from_parameters("demo", 0, wrong)
    for words in (
        r"temperature: .*valid number.* \(got 'warm'\)",
        "mlp: .*boolean",
        "pooling: .*'cls', 'mean'",
    ):
        assert re.search(words, str(refusal.value))
    assert all(f"{name}: " in str(refusal.value) for name in wrong)
    for value in (0, float("nan")):
        with pytest.raises(SettingError, match="temperature: "):
            SimCSEConfig(temperature=value)
    with pytest.raises(SettingError, match="batch_size 7 is not a multiple of num_processes"):
        SimCSEConfig(batch_size=7, num_processes=2)
    with pytest.raises(SettingError, match="there is no loss"):
        CONFIGS["mixed"](info_nce=False)
    with pytest.raises(SettingError, match="needs info_nce and rank_weight"):
        CONFIGS["mixed"](combination="max")
    with pytest.raises(SettingError, match=r"lower 0\.6 is above upper 0\.4"):
        RankEncoderConfig(lower=0.6, upper=0.4)
    with pytest.raises(SettingError, match="learning_rate is given twice"):
        SimCSEConfig(lr=1e-4, learning_rate=1e-5)


def test_text_from_a_command_line_is_read_as_its_setting_type():
    texts = {
        "temperature": "7e-2",
        "mlp": "false",
        "max_steps": "none",
        "suites": "world-test, ladders-all",
    }
    config = SimCSEConfig.from_parameters("demo", 0, texts)
    assert (config.temperature, config.mlp, config.max_steps) == (0.07, False, None)
    assert config.suites == ["world-test", "ladders-all"]
    assert SimCSEConfig.from_parameters("demo", 0, {"revisions": '{"a/b": "1f"}'}).revisions == {
        "a/b": "1f"
    }


@pytest.mark.parametrize(
    "value", [None, [], ["a", "b"], ["a,b"], ["1"], [0.5], {"a": "1,0"}, "x y", 2.0, 1e-7, True]
)
def test_a_value_written_as_text_is_read_back(value: object):
    field = pydantic.create_model(
        "Field", value=(type(value) if value is not None else int | None, ...)
    )
    text = setting_text(value)
    assert field(value=read_value(text, field.model_fields["value"].annotation)).model_dump() == {
        "value": value
    }
    assert not text.endswith(".0")


def test_a_profile_sets_the_pooling_of_its_own_encoder_alone():
    for each in CONFIGS.values():
        demo = each(profile="demo")
        demo.require_pooling(find_checkpoint(demo.encoder).own_pooling)
    config = CONFIGS["cosent"]
    for own in (
        {},
        {"encoder": "bert-base-uncased"},
        {"encoder": "roberta-base", "pooling": "avg_first_last"},
    ):
        config(profile="paper", **own).require_pooling("mean")
    with pytest.raises(
        SettingError,
        match="name of roberta-base say 'mean', the default of cosent 'avg_first_last'",
    ):
        config(profile="paper", encoder="roberta-base").require_pooling("mean")


@pytest.mark.parametrize("profile", ["demo", "paper", "paper-supervised"])
def test_the_pooling_of_a_published_name_is_not_replaced_by_a_default(tmp_path: Path, profile: str):
    start = tmp_path / "unsup-promptbert"
    shutil.copytree(find_checkpoint("world-encoder").folder, start)
    for name in ("encoder.json", "modules.json"):
        (start / name).unlink(missing_ok=True)
    config = SimCSEConfig(profile=profile, encoder=str(start))
    saved = find_checkpoint(config.encoder)
    assert (saved.stored, saved.own_pooling) == (None, "mask")
    for read in (
        config,
        SimCSEConfig.from_parameters(profile, 0, {"model_name_or_path": str(start)}),
    ):
        with pytest.raises(SettingError, match="set pooling=mask"):
            SimCSE(read)
    said = SimCSEConfig(profile=profile, encoder=str(start), pooler_type="cls")
    said.require_pooling(saved.own_pooling)


def test_local_names_become_absolute_and_never_hide_bundled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def settings() -> tuple[RankEncoderConfig, str]:
        config = RankEncoderConfig(profile="demo", base="world-teacher", corpus="world")
        return config, config.digest()

    usual = settings()
    for name in ("world", "world-dev", "world-test", "world-encoder", "world-teacher", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine.tsv").write_text("sentence\na\n")
    monkeypatch.chdir(tmp_path)
    assert settings() == usual
    config = SimCSEConfig(profile="demo", encoder="mine", train="mine.tsv")
    assert (config.encoder, config.train) == (str(tmp_path / "mine"), str(tmp_path / "mine.tsv"))


def own(folder: Path, text: str = "a b\nc d\n") -> dict[str, str]:
    """Create an encoder's folder, a run's folder and a user's file."""
    folder.mkdir(parents=True)
    for encoder in (folder / "encoder", folder / "run" / "encoder"):
        encoder.mkdir(parents=True)
        (encoder / "config.json").write_text("{}")
        (encoder / "model.safetensors").write_text("weights")
        (encoder / "README.md").write_text(str(folder))
    (folder / "run" / "config.json").write_text(json.dumps({"settings": {"of": str(folder)}}))
    (folder / "mine.txt").write_text(text)
    return {"encoder": str(folder / "encoder"), "train": str(folder / "mine.txt")}


def test_the_digest_names_the_computation_and_not_the_place_of_files(tmp_path: Path):
    here, there = own(tmp_path / "here"), own(tmp_path / "there")
    demo = SimCSEConfig.from_parameters("demo")
    assert (
        demo.digest()
        == SimCSEConfig.from_parameters("demo", 9, {"device": "cpu", "logging_steps": 1}).digest()
    )
    assert demo.digest() != SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.06}).digest()
    base = SimCSEConfig.from_parameters("demo", 0, here)
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, there).digest()
    run = here | {"encoder": str(tmp_path / "here" / "run")}
    assert base.digest() == SimCSEConfig.from_parameters("demo", 0, run).digest(), (
        "a run is equivalent to its encoder"
    )
    assert base.digest() != demo.digest()
    teachers = [
        RankCSEConfig.from_parameters(
            "demo", 0, {"teachers": [name], "teacher_pooling": {name: "mean"}}
        ).digest()
        for name in (here["encoder"], there["encoder"])
    ]
    assert teachers[0] == teachers[1]


def test_every_place_that_a_setting_names_counts_by_its_content(tmp_path: Path):
    files = own(tmp_path / "here")
    for name in ("encoder", "teachers", "base", "corpus", "spans", "dev", "suites"):
        value = files["encoder"] if name in ("encoder", "teachers", "base") else files["train"]
        config_class = {"teachers": RankCSEConfig, "spans": CompCSEConfig}.get(
            name, RankEncoderConfig
        )
        changes = {name: [value] if name in ("teachers", "suites") else value}
        changes |= {"subsampling": "spans"} if name == "spans" else {}
        config = config_class.from_parameters("demo", 0, changes)
        before = config.digest()
        assert config.contents().keys() == {value}
        if Path(value).is_dir():
            Path(value, "README.md").write_text(f"card for {name}")
            assert config.digest() == before
        Path(value, "model.safetensors" if Path(value).is_dir() else "").write_text(
            f"content for {name}"
        )
        assert config.digest() != before


def evaluated(encoder: str | Path, **settings: Any) -> str:
    return BaselineConfig(encoder=str(encoder), **settings).digest()


def test_an_encoder_left_to_sentence_transformer_is_another_encoder(tmp_path: Path):
    folder = own(tmp_path / "here")["encoder"]
    assert evaluated(folder) != evaluated(f"st:{folder}")
    taught = [RankCSEConfig(profile="demo", teachers=[name]) for name in (folder, f"st:{folder}")]
    assert taught[0].digest() != taught[1].digest()
    assert evaluated(f"st:{folder}") == evaluated(f"st:{own(tmp_path / 'there')['encoder']}")


# Path in an encoder's folder, and whether it may change what an Encoder and SentenceTransformer
# read.
BESIDE_AN_ENCODER = [
    *(
        (name, True, True)
        for name in ("tokenizer.model", "spm.model", "vocab.bpe", "any.json", "unknown")
    ),
    *((name, True, True) for name in ("1_Pooling/config.json", "2_Dense/model.safetensors")),
    *(
        (name, True, True)
        for name in ("0_Router/query_0_Static/model.safetensors", "code/data.txt")
    ),
    *(
        (name, False, True)
        for name in ("pytorch_model.bin", "2_Dense/pytorch_model.bin", "module.py")
    ),
    *((name, False, True) for name in ("chat_template.jinja", "generation_config.json")),
    *(
        (name, False, False)
        for name in ("README.md", "LICENSE", "image.png", ".gitattributes", ".git/config")
    ),
    *(
        (name, False, False)
        for name in ("desktop.ini", "onnx/desktop.ini", "1_Pooling/desktop.ini", "Thumbs.db")
    ),
    *((name, False, False) for name in ("onnx/model.onnx", "tf_model.h5", "flax_model.msgpack")),
    *(
        (name, False, False)
        for name in ("checkpoint-5/model.safetensors", "optimizer.bin", "trainer_state.json")
    ),
]


@pytest.mark.parametrize(("name", "is_read", "is_read_by_st"), BESIDE_AN_ENCODER)
def test_every_file_that_may_be_read_counts(
    tmp_path: Path, name: str, *, is_read: bool, is_read_by_st: bool
):
    folder = Path(own(tmp_path / "here")["encoder"])
    (folder / "tokenizer.json").write_text("{}")
    before = evaluated(folder), evaluated(f"st:{folder}")
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("more")
    after = evaluated(folder), evaluated(f"st:{folder}")
    assert [a != b for a, b in zip(before, after, strict=True)] == [is_read, is_read_by_st]


def test_the_folder_encoder_of_what_is_no_run_is_a_part_like_others(tmp_path: Path):
    folder = tmp_path / "model"
    (folder / "encoder").mkdir(parents=True)
    (folder / "encoder" / "model.safetensors").write_text("of a module")
    (folder / "config.json").write_text("{}")
    sums = [evaluated(folder)]
    for path in ("model.safetensors", "encoder/model.safetensors"):
        (folder / path).write_text("other weights")
        sums.append(evaluated(folder))
    assert len(set(sums)) == 3


def test_a_linked_part_counts_and_a_linked_folder_is_the_folder(tmp_path: Path):
    folder, part = Path(own(tmp_path / "here")["encoder"]), tmp_path / "part"
    part.mkdir()
    (folder / "1_Pooling").symlink_to(part, target_is_directory=True)
    before = evaluated(folder)
    (part / "config.json").write_text("{}")
    assert evaluated(folder) != before
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert evaluated(tmp_path / "link") == evaluated(folder)


def test_a_file_that_is_a_link_keeps_its_own_name_and_ending(tmp_path: Path):
    # As in the cache of the hub: snapshots/REVISION/train.tsv is a link to blobs/CHECKSUM.
    (tmp_path / "3f2a").write_text("sentence\na dog\na cat\n")
    link = tmp_path / "train.tsv"
    link.symlink_to(tmp_path / "3f2a")
    config = SimCSEConfig.from_parameters("demo", 0, {"train": str(link)})
    assert config.train == str(link)
    assert load_training(config).sentences == ["a dog", "a cat"]


def test_names_of_encoders_that_are_also_former_names_of_settings_stay_apart():
    names = [
        "architecture",
        "model",
        "bi-encoder",
        "representation",
        "avg_first_last",
        "first_last",
    ]
    assert len({*map(evaluated, names)}) == len(names)
    assert evaluated("a", pooling="first_last") == evaluated("a", pooling="avg_first_last")


def test_a_folder_whose_name_decides_its_reading_counts_with_it(tmp_path: Path):
    encoder = own(tmp_path / "here")["encoder"]
    names = ["mine", "my-SimCSE", "unsup-PromptBERT", "copies/unsup-PromptBERT", "sup-simcse"]
    digests = [evaluated(shutil.copytree(encoder, tmp_path / name)) for name in names]
    assert digests[:2] == [evaluated(encoder)] * 2, "[CLS] is the default"
    assert digests[2] == digests[3]
    assert len(set(digests)) == 3


def test_a_file_that_does_not_exist_is_refused_and_one_that_does_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {
        "encoder": "/none/such",
        "train": "nowhere.txt",
        "suites": "/none/a.tsv",
    }.items():
        with pytest.raises(SettingError, match=f"{name}: there is no folder or file"):
            SimCSEConfig.from_parameters("demo", 0, {name: value}).digest()
    config = SimCSEConfig(profile="demo", **own(tmp_path / "here"))
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
    """Compare the digests; run `python tests/test_config.py` after a deliberate change."""
    assert digests() == json.loads(DIGESTS.read_text())


def test_settings_of_every_kind_keep_the_name_of_their_run(tmp_path: Path):
    files = own(tmp_path / "here")
    encoder, train = files["encoder"], files["train"]
    given = {
        "7348d8e7": ("simcse", {**files, "pooling": "mean"}),
        "864c7d79": ("simcse", {"train": train}),
        "d0c52eed": ("simcse", {"positives": "crop", "crop_share": 0.4, "mlm_weight": 0.1}),
        "05677531": ("cosent", {"architecture": "cross-encoder", "max_length": 20}),
        "0f2103e7": (
            "rankcse",
            {
                "teachers": [encoder, "world-teacher", f"st:{encoder}"],
                "teacher_pooling": {encoder: "first_last"},
                "consistency_after_mlp": True,
            },
        ),
        "fcac937f": ("rankencoder", {"base": encoder, "corpus": train, "lower": "none"}),
        "673adf1b": ("lists", {"gain": "linear", "train_limit": 5, "device": "cpu"}),
    }
    found = [
        CONFIGS[method].from_parameters("demo", 1, settings).digest()
        for method, settings in given.values()
    ]
    assert found == list(given)
    assert evaluated(f"st:{encoder}", kind="whitening", width=3, fit_on=train) == "439c5f56"


def test_a_run_made_under_former_names_is_selected_compared_and_resumed(tmp_path: Path):
    config = CoSENTConfig(
        profile="demo", architecture="cross-encoder", max_seq_length=20, num_processes=2
    )
    run = Run.open(config, tmp_path)
    run.release()
    facts = json.loads((run.path / "config.json").read_text())
    former = {"architecture": "model", "max_seq_length": "max_tokens", "num_processes": "processes"}
    former |= {"mini_batch_size": "chunk_size", "report_to": "track", "logging_steps": "log_steps"}
    settings = {former.get(name, name): value for name, value in facts["settings"].items()} | {
        "model": "interaction"
    }
    (run.path / "config.json").write_text(json.dumps(facts | {"settings": settings, "inputs": {}}))
    assert run.config == CoSENTConfig(**settings) == config
    for name in ("max_tokens", "max_seq_length"):
        (row,) = list_runs(tmp_path, [f"{name}=20"], columns=["changed", name]).to_dict("records")
        assert row == {
            "changed": "max_seq_length=20, architecture=cross-encoder",
            "max_seq_length": 20,
        }
    again = Run.open(config, tmp_path)
    again.release()
    assert again.path == run.path
    assert again.facts()["earlier_starts"][0]["settings"]["max_tokens"] == 20


def test_the_rendered_table_folds_settings_of_no_paper():
    config = RankCSEConfig.from_parameters(
        "demo", 0, {"max_grad_norm": 2.0, "suites": ["<img src=x>"]}
    )
    shown, folded = config._repr_html_().split("<details>")
    assert all(f">{name}<" in shown for name in ("teachers", "learning_rate", "max_grad_norm"))
    assert all(f">{name}<" in folded for name in ("train_limit", "device"))
    assert "<img" not in shown
    table = config.table().set_index("setting")
    assert table.loc["dropout", "allowed"] == "number >= 0 and < 1 or none"
    assert table.loc["max_steps", ["unit", "source"]].tolist() == ["steps", "our choice for 'demo'"]
    assert table.loc["max_grad_norm", "source"] == "set for this run"


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps(digests(), indent=2) + "\n")


def test_profiles_can_be_read_again():
    assert read_profiles("rankcse") == RankCSEConfig.profiles
    assert "teachers" in RankCSEConfig.profiles["demo"]
