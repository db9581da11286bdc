"""Arguments of the public functions: one name in place of several, and an object for a name."""

import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

import workbench
from workbench import DataError, Encoder, RunError, Sentences, SettingError
from workbench.checkpoints import find_checkpoint
from workbench.config import SimCSEConfig
from workbench.data import check, load_pairs, load_sentences, load_suites, load_task
from workbench.files import as_list
from workbench.runs import Run, choose_runs
from workbench.sweeps._cells import read_seeds
from workbench.systems import compare_scores, read_runs, write_trec
from workbench.teachers import load_teacher
from workbench.views import read_board, read_systems
from workbench.views.encoders import label_encoders

BUNDLED = Path(workbench.data.__file__).parents[2] / "data" / "models" / "english-encoder"
TABLE = pd.DataFrame({"sentence1": ["a dog"], "sentence2": ["a cat"], "score": [1.5]})


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.from_pretrained("english-encoder", pooling="mean")


@pytest.mark.parametrize(
    "function", [load_pairs, load_sentences, load_suites, load_teacher, find_checkpoint]
)
def test_an_object_in_the_place_of_a_name_is_refused_with_a_remedy(
    function: Callable[[Any], Any], encoder: Encoder
) -> None:
    for value in (TABLE, encoder):
        told = f"expected one name or path, got {type(value).__name__}; a table becomes a set with"
        with pytest.raises(SettingError, match=re.escape(told)):
            function(value)


def test_a_path_is_as_good_as_a_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    TABLE.to_csv(file, index=False)
    assert [*load_suites(file)] == ["mine"]
    assert [*load_suites(PurePath(file))] == ["mine"]
    assert load_teacher(BUNDLED, pooling="mean").source == f"folder:{BUNDLED}"
    assert check(file)["name"].tolist() == [file]


def test_one_is_read_as_a_list_with_it(encoder: Encoder, tmp_path: Path) -> None:
    class Layers(list):
        """Like a SentenceTransformer, which is a sequence of its modules and one encoder."""

        def __call__(self) -> None: ...

    class Pipeline(list):
        def encode(self) -> None: ...

    sequences = (Layers([1, 2]), Pipeline([1, 2]))
    for value in ("stsb-dev", tmp_path, encoder, *sequences, TABLE, len, 3, None):
        [same] = as_list(value)
        assert same is value
    assert as_list({"a": 1, "b": 2}) == ["a", "b"]
    assert as_list(range(2)) == as_list(iter([0, 1])) == [0, 1]


def test_a_single_name_is_not_read_by_its_letters(encoder: Encoder, tmp_path: Path) -> None:
    assert [*load_suites("ladders-all")] == ["ladders-all"]
    assert check("world-dev")["name"].tolist() == ["world-dev"]
    assert [*label_encoders(encoder)] == ["Encoder"]
    assert read_seeds(3) == [3]
    report = workbench.evaluate(encoder, "ladders-all")
    assert [*report.metrics] == ["ladders-all"]
    (tmp_path / "bm25.run").write_text("q Q0 d1 1 2.5 bm25\nq Q0 d2 2 1.5 bm25\n")
    (tmp_path / "test.qrels").write_text("q 0 d1 0\nq 0 d2 1\n")
    scores = read_runs(tmp_path / "bm25.run", tmp_path / "test.qrels")
    assert [*scores.reports] == ["bm25"]
    run = Run.open(SimCSEConfig.from_parameters("demo", 1), tmp_path)
    listed = workbench.list_runs(tmp_path, "method=simcse", columns="seed")
    assert listed.to_dict("list") == {"seed": [1]}
    for words in ("method=simcse", run.path.name, run.path, [run.path]):
        assert [one.path for one in choose_runs(words, tmp_path)] == [run.path]


def test_one_suite_is_compared_by_its_name() -> None:
    scores = read_systems(["english-encoder", "word-overlap"], "ladders-all")
    compared = compare_scores(scores, suites="ladders-all", samples=20)
    assert set(compared.table["suite"]) == {"ladders-all"}


def test_names_that_can_be_read_once_are_enough(encoder: Encoder) -> None:
    once = (name for name in ["ladders-all"])
    assert [*workbench.evaluate(encoder, once).metrics] == ["ladders-all"]
    files = pd.Index(["world-dev", "world-train"])
    assert check(files)["name"].tolist() == [*files]


def test_the_home_folder_can_be_written_as_a_tilde(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bm25.run").write_text("q Q0 d1 1 2.5 bm25\nq Q0 d2 2 1.5 bm25\n")
    (tmp_path / "test.qrels").write_text("q 0 d1 0\nq 0 d2 1\n")
    assert [*read_systems("~/bm25.run", "~/test.qrels").reports] == ["bm25"]
    scored = TABLE.assign(a=[0.5], b=[0.25]).rename(columns={"score": "gold"})
    pd.concat([scored, scored.assign(sentence2="a fox", gold=3.5)]).to_csv(
        tmp_path / "scores.csv", index=False
    )
    assert [*read_systems("~/scores.csv").reports] == ["a", "b"]
    report = workbench.evaluate(encoder, "ladders-all")
    for file in write_trec(report, "~/trec"):
        assert file.parent == tmp_path / "trec"
    saved = tmp_path / "saved"
    encoder.save("~/saved")
    encoder.restore("~/saved")
    assert load_teacher("~/saved").source == f"folder:{saved}"
    with pytest.raises(RunError, match=re.escape(f"{tmp_path / 'a-s1'} is no run")):
        workbench.Run("~/a-s1")
    (tmp_path / "class").mkdir()
    assert read_board("~/class").notes == [
        f"{tmp_path / 'class'} is no folder of a class: give one with a folder for each student"
    ]
    assert not (tmp_path / "~").exists()
    TABLE.to_csv("~nobody.csv", index=False)
    assert load_pairs("~nobody.csv").name == "~nobody"


def test_systems_are_named(encoder: Encoder) -> None:
    with pytest.raises(SettingError, match="expected one name or path, got Encoder"):
        read_systems(encoder, "ladders-all")


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (5, "int is no table"),
        (
            {"sentence": ["a", "b"], "score": [1]},
            "dict is no table: All arrays must be of",
        ),
        (
            DatasetDict(train=Dataset.from_pandas(TABLE)),
            "DatasetDict is no table: .*a split",
        ),
    ],
)
def test_what_is_no_table_is_refused_in_words(frame: Any, told: str) -> None:
    with pytest.raises(DataError, match=f"mine: {told}"):
        Sentences.from_frame(frame, name="mine")


def test_a_set_of_scored_pairs_is_no_transfer_task() -> None:
    with pytest.raises(SettingError, match="no transfer task 'tree' of SentEval; did you mean"):
        load_task("tree")
