"""What is refused names its true cause, and the remedies of messages can be followed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from written_runs import SUITE, write_run

from workbench import DataError, Encoder, RunError, SettingError
from workbench.config import BaselineConfig, CompCSEConfig, RankEncoderConfig, SimCSEConfig
from workbench.data import Pairs, Sentences, load_data, load_training
from workbench.evaluation import load_baseline
from workbench.files import checkpoint_checksum
from workbench.runs import Run, finished_run
from workbench.sweeps import find_sweep
from workbench.systems import read_mteb, read_score_file
from workbench.teachers import load_teacher, teacher_pairs
from workbench.views import RunPicker, finished_runs
from workbench.views.queries import QueryView

SENTENCES = ["a red fox ran", "the bus is late", "rain fell at noon", "they sang", "we won", "snow"]

ONE = np.ones(1)


def test_spans_of_any_ending_decide_the_run_and_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spans = Path("spans.tab")

    def config() -> CompCSEConfig:
        changes = {"subsampling": "spans", "spans": str(spans)}
        return CompCSEConfig.from_parameters("demo", 0, changes)

    with pytest.raises(SettingError, match="spans: there is no folder or file"):
        config().digest()
    spans.write_text("a red fox\t0\n")
    run = Run.open(config(), tmp_path / "runs")
    run.release()
    (run.path / "metrics.json").write_text("{}")
    assert finished_run(config(), tmp_path / "runs") is not None
    spans.write_text("a red fox ran\t0\n")
    assert finished_run(config(), tmp_path / "runs") is None


def test_a_bundled_first_encoder_is_named_for_own_sentences(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "mine.txt"
    own.write_text("\n".join(SENTENCES))
    pairs = tmp_path / "dev.csv"
    pairs.write_text("sentence1,sentence2,score\na fox,a dog,1.5\na cat,a cow,0.5\n")
    changes = {"train": str(own), "encoder": "english-encoder", "dev": str(pairs)}
    changes["suites"] = str(pairs)
    load_training(SimCSEConfig.from_parameters("demo", 0, changes))
    assert "bundled world" not in caplog.text
    load_training(RankEncoderConfig.from_parameters("demo", 0, changes))
    assert "world-encoder" in caplog.text
    assert "RankEncoder: base=" in caplog.text


def test_classes_have_the_scale_of_their_order(tmp_path: Path) -> None:
    file = tmp_path / "nli.csv"
    rows = ["a fox,an animal,entailment", "a fox,a dog,contradiction", "a fox,it is red,neutral"]
    file.write_text("\n".join(["sentence1,sentence2,label", *rows]))
    assert load_data(file).score_range == (0, 2)
    with pytest.raises(DataError, match="classes have the scale of their order"):
        load_data(file, scale=(0, 5))


def test_the_score_of_two_texts_of_the_same_tokens_is_no_more_than_1() -> None:
    texts = [text for base in SENTENCES for text in (base, base.capitalize(), f"{base} ")]
    pairs = teacher_pairs(load_teacher("english-encoder"), Sentences.from_lists(texts))
    assert pairs.gold.max() == 1


@pytest.mark.parametrize(
    ("act", "kind", "told"),
    [
        (lambda file: load_data(file, "pair"), SettingError, r"no kind 'pair' .* mean 'pairs'"),
        (lambda _: Pairs.from_lists(["a"], ["b"]), DataError, "for sentence1, sentence2, score"),
        (
            lambda _: QueryView.from_scores("a", ["b"], None, {"gold": ONE}),
            DataError,
            "'gold' is the",
        ),
        (lambda file: find_sweep("mine", file.parent), RunError, '--runs ".*"'),
    ],
)
def test_a_name_of_no_kind_is_refused_in_words(
    act: Callable[[Path], Any], kind: type[Exception], told: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.csv"
    file.write_text("sentence1,sentence2,score\na fox,a dog,1.5\na cat,a cow,0.5\n")
    with pytest.raises(kind, match=told):
        act(file)


def test_words_need_no_pooling(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = tmp_path / "plain"
    encoder = Encoder.from_pretrained("english-encoder")
    encoder.backbone.save_pretrained(plain)
    encoder.tokenizer.save_pretrained(plain)
    load_baseline(BaselineConfig(encoder=str(plain), kind="static"))
    assert "names no pooling" not in caplog.text
    load_baseline(BaselineConfig(encoder=str(plain)))
    assert "names no pooling" in caplog.text


def test_files_of_another_form_are_refused_in_words(tmp_path: Path) -> None:
    table = pa.table({"sentence": SENTENCES})
    odd = table.replace_schema_metadata({"huggingface": json.dumps({"fingerprint": "x"})})
    pyarrow.parquet.write_table(odd, tmp_path / "odd.parquet")
    with pytest.raises(DataError, match=r"odd\.parquet cannot be read as Parquet"):
        load_data(tmp_path / "odd.parquet")
    for name, predictions in {"one": [1, 2], "two": {"cosine_scores": [1, 2]}}.items():
        folder = tmp_path / "mteb" / name
        folder.mkdir(parents=True)
        content = json.dumps({"default": {"test": predictions}})
        (folder / "STS_predictions.json").write_text(content)
    with pytest.raises(DataError):
        read_mteb(tmp_path / "mteb")
    (tmp_path / "config.json").write_text("5")
    assert checkpoint_checksum(tmp_path)


def test_messages_have_an_end(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    columns = ["sentence1", "sentence2", *(f"dim_{number}" for number in range(3000))]
    pd.DataFrame([["a", "b", *range(3000)]], columns=columns).to_csv(wide, index=False)
    long = tmp_path / "long.csv"
    long.write_text(f"sentence1,sentence2,score\na fox,a dog,{'x' * 100_000}\na,b,1.5\nc,d,2.5\n")
    for act in (
        lambda: load_data(wide, columns={"score": "dim_x"}),
        lambda: read_score_file(wide),
        lambda: load_data(long),
    ):
        with pytest.raises(ValueError, match=r"\w") as refused:
            act()
        assert len(str(refused.value)) < 3000


def test_one_label_is_enough(tmp_path: Path) -> None:
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0), 1.0)
    picker = RunPicker(finished_runs(tmp_path, SUITE), SUITE, labels="simcse")
    assert [*picker.labels] == ["simcse"]
