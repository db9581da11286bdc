"""Sets by name: what a loaded set holds, where it came from, and what is refused."""

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.data import (
    Pairs,
    check,
    dataset_names,
    describe,
    load_labelled,
    load_pairs,
    load_sentences,
    load_suites,
    load_training,
    load_triples,
    unusable,
)
from workbench.data._format import describe_file, write_manifest, write_table
from workbench.errors import DataError

PROJECT = Path(__file__).resolve().parent.parent
STSB = {
    "source_year": ["2012", "2012", "2013"],
    "source_dataset": ["MSRvid"] * 3,
    "sid": ["1", "2", "1"],
    "score": ["5.000", "0", "2.5"],
    "sentence1": ["a plane .", "b .", "c ."],
    "sentence2": ["an air plane .", "d .", "e ."],
    "sentence1_raw": ["A plane.", "B.", "C."],
    "sentence2_raw": ["An air plane.", "D.", "E."],
}
STSB_FILE = "sts/stsb.dev.tsv.gz"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small local data root, in a path with a space, without a manifest."""
    folder = tmp_path / "local root"
    write_table(folder / STSB_FILE, STSB)
    monkeypatch.setenv("WORKBENCH_DATA", str(folder))
    return folder


def changed(column: str, row: int, value: str) -> dict[str, list[str]]:
    """STSB with one field replaced."""
    columns = {name: list(values) for name, values in STSB.items()}
    columns[column][row] = value
    return columns


def test_pairs_carry_gold_scale_ids_and_source(root: Path) -> None:
    pairs = load_pairs("stsb-dev")
    assert pairs.gold.tolist() == [5.0, 0.0, 2.5]
    assert pairs.gold.dtype == np.float64
    assert not pairs.gold.flags.writeable
    assert pairs.scale == (0.0, 5.0)
    assert pairs.pair_id == ["2012:MSRvid:1", "2012:MSRvid:2", "2013:MSRvid:1"]
    assert pairs.subset is None
    assert len(pairs) == 3
    assert pairs[0] == ("a plane .", "an air plane .", 5.0)
    assert f"local {root / STSB_FILE} (3 rows; published: 1500)" == pairs.source


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("score", "nan", "line 3: score is 'nan', not a number from 0 to 5"),
        ("score", "inf", "line 3: score is 'inf'"),
        ("score", "", "line 3: score is ''"),
        ("score", "five", "line 3: score is 'five'"),
        ("score", "5.01", "line 3: score is '5.01', not a number from 0 to 5"),
        ("score", "-1", "line 3: score is '-1'"),
        ("sentence1", "", "line 3: sentence1 is empty"),
        ("sentence2", " ", "line 3: sentence2 is empty"),
    ],
)
def test_a_bad_field_names_file_line_and_what_is_allowed(root: Path, column: str, value: str, text: str) -> None:
    write_table(root / STSB_FILE, changed(column, 1, value))
    with pytest.raises(DataError) as caught:
        load_pairs("stsb-dev")
    assert f"{root / STSB_FILE}, {text}" in str(caught.value)


def test_a_missing_column_is_named(root: Path) -> None:
    write_table(root / STSB_FILE, {name: values for name, values in STSB.items() if name != "sentence2"})
    with pytest.raises(DataError, match="no column 'sentence2'; its columns are source_year"):
        load_pairs("stsb-dev")


def test_gold_that_is_all_equal_loads_since_only_a_metric_can_judge_it(root: Path) -> None:
    write_table(root / STSB_FILE, STSB | {"score": ["3", "3", "3"]})
    assert load_pairs("stsb-dev").gold.tolist() == [3.0, 3.0, 3.0]
    table = check(["stsb-dev"])
    assert "gold is 3 in every row: no correlation can be computed" in table.loc[0, "problem"]
    assert not unusable(table)


def test_a_manifest_that_disagrees_with_the_content_is_an_error_not_a_download(root: Path) -> None:
    write_manifest(root, [describe_file(root, STSB_FILE)])
    assert len(load_pairs("stsb-dev")) == 3
    assert check(["stsb-dev"]).loc[0, "sha256"] == "ok"
    write_table(root / STSB_FILE, changed("score", 0, "4"))
    with pytest.raises(DataError, match="the file was changed or cut"):
        load_pairs("stsb-dev")
    assert check(["stsb-dev"]).loc[0, ["found", "sha256"]].tolist() == ["local", "differs"]


def test_a_root_that_is_no_folder_and_an_absent_local_set_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere: no such folder"):
        load_pairs("stsb-dev")
    monkeypatch.delenv("WORKBENCH_DATA")
    with pytest.raises(DataError, match=r"nli-triples: .*not on the hub; set WORKBENCH_DATA"):
        load_triples("nli-triples")


def test_one_missing_part_of_a_set_is_named(root: Path) -> None:
    write_table(root / "wiki" / "wiki_sentences.tsv.gz", {"sentence": ["one"]})
    with pytest.raises(DataError, match=r"wiki_sentences_2.tsv.gz, wiki/wiki_sentences_3.tsv.gz is missing"):
        load_sentences("wiki")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("stsb-tset", "no dataset 'stsb-tset'; its splits are stsb-train, stsb-dev, stsb-test"),
        ("sts12", "its splits are sts12-test"),
        ("wrold-dev", "did you mean .*world-dev"),
        ("world", "world holds sentences, not pairs: load it with load_sentences"),
        ("mr", "mr holds labelled, not pairs: load it with load_labelled"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_closest(name: str, text: str) -> None:
    with pytest.raises(DataError, match=text):
        load_pairs(name)


def test_an_empty_sentence_is_a_space_where_there_is_no_label_and_kept_in_a_transfer_task(root: Path) -> None:
    write_table(root / "wiki" / "wiki1m_for_simcse.tsv.gz", {"sentence": ["one", "", " ", "two"]})
    assert load_sentences("wiki1m").sentences == ["one", " ", " ", "two"]
    write_table(root / "transfer" / "cr.all.tsv.gz", {"label": ["1", "0"], "sentence": ["good", ""]})
    assert load_labelled("cr").sentences == ["good", ""]


def test_one_sentence_loads(root: Path) -> None:
    write_table(root / "wiki" / "wiki1m_for_simcse.tsv.gz", {"sentence": ["alone"]})
    assert load_sentences("wiki1m").sentences == ["alone"]


def test_ordered_classes_become_gold_and_rows_without_a_label_are_left_out_and_counted(root: Path) -> None:
    labels = ["entailment", "-", "neutral", "contradiction"]
    columns = {"label": labels, "premise": list("abcd"), "hypothesis": list("efgh")}
    write_table(root / "nli" / "snli.dev.tsv.gz", columns)
    pairs = load_pairs("snli-dev")
    assert pairs.gold.tolist() == [2.0, 1.0, 0.0]
    assert pairs.sentence1 == ["a", "c", "d"]
    assert pairs.pair_id == ["0", "2", "3"]
    assert (pairs.dropped, pairs.scale) == (1, (0.0, 2.0))
    assert "1 rows without a gold label" in pairs.source
    write_table(root / "nli" / "snli.dev.tsv.gz", columns | {"label": ["entailment", "-", "maybe", "neutral"]})
    with pytest.raises(DataError, match="line 4: label 'maybe'; allowed are 'contradiction', 'neutral'"):
        load_pairs("snli-dev")


def test_a_sample_depends_on_its_seed_keeps_the_order_and_has_its_own_checksum(root: Path) -> None:
    sentences = [f"sentence {i:03d}" for i in range(200)]
    write_table(root / "wiki" / "wiki1m_for_simcse.tsv.gz", {"sentence": sentences})
    some = load_sentences("wiki1m", limit=50, seed=1)
    assert some.sentences == sorted(set(some.sentences))
    assert len(some) == 50
    assert some == load_sentences("wiki1m", limit=50, seed=1)
    assert some.sentences != load_sentences("wiki1m", limit=50, seed=2).sentences
    assert len({some.checksum, load_sentences("wiki1m").checksum, load_sentences("wiki1m", limit=49).checksum}) == 3
    assert load_sentences("wiki1m", limit=500).sentences == sentences


def test_a_sample_of_several_files_is_that_of_all_their_rows(root: Path) -> None:
    parts = {"": 70, "_2": 1, "_3": 129}
    sentences = [f"sentence {i:03d}" for i in range(200)]
    done = 0
    for part, rows in parts.items():
        write_table(root / "wiki" / f"wiki_sentences{part}.tsv.gz", {"sentence": sentences[done : done + rows]})
        done += rows
    drawn = np.sort(np.random.default_rng(3).choice(200, 60, replace=False))
    some = load_sentences("wiki", limit=60, seed=3)
    assert some.sentences == [sentences[row] for row in drawn]
    whole = load_sentences("wiki")
    assert whole.sentences == sentences
    assert some.checksum == hashlib.sha256(f"{whole.checksum} 60 3".encode()).hexdigest()
    assert some.source.endswith("60 of 200 rows sampled with seed 3")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"limit": 0}, "limit is 0; it is a number of rows"),
        ({"limit": 2.5}, "limit is 2.5; it is a number of rows"),
        ({"limit": True}, "limit is True"),
        ({"limit": "10"}, "limit is '10'"),
        ({"limit": 10, "seed": -1}, "seed is -1; it is a whole number, 0 or more"),
        ({"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_a_limit_or_a_seed_that_is_none_is_refused(arguments: dict[str, Any], text: str) -> None:
    for load, name in ((load_sentences, "world"), (load_pairs, "world-dev")):
        with pytest.raises(DataError, match=text):
            load(name, **arguments)


def test_a_small_sample_of_a_large_file_takes_little_memory(
    tmp_path: Path, memory_growth: Callable[[str, str], int]
) -> None:
    path = tmp_path / "many.tsv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("sentence\n" + "".join(f"sentence {i} of a file with many of them\n" for i in range(400_000)))
    few = tmp_path / "few.tsv"
    few.write_text("sentence\none\ntwo\n")
    first = f"from workbench.data import load_sentences\nload_sentences({str(few)!r}, limit=1)"
    grown = memory_growth(first, f"assert len(load_sentences({str(path)!r}, limit=1000)) == 1000")
    # The rows alone would be 400,000 strings of 49 bytes and more, 8 bytes each in a list: above 40 MiB.
    assert grown < 20 * 2**20  # a few blocks of 1 MiB and the lines of one


def test_a_training_text_of_blank_lines_is_refused(root: Path) -> None:
    write_table(root / "wiki" / "wiki1m_for_simcse.tsv.gz", {"sentence": ["", " ", "\u3000"]})
    for limit in (None, 2):
        with pytest.raises(DataError, match="sentence is blank in every row"):
            load_sentences("wiki1m", limit=limit)
    write_table(root / "nli" / "nli_triples.tsv.gz", {"sent0": ["a"], "sent1": [" "], "hard_neg": ["c"]})
    with pytest.raises(DataError, match="sent1 is blank in every row"):
        load_triples("nli-triples")


def test_pairs_made_by_hand_have_finite_gold_and_one_of_each_a_pair() -> None:
    def made(sentences: list[str], gold: list[float]) -> Pairs:
        return Pairs("mine", sentences, ["b", "c"], np.array(gold), None, ["0", "1"], (0, 1), "made", "")

    for value in (np.inf, -np.inf, np.nan):
        with pytest.raises(DataError, match=r"mine: gold of row 1 is .*finite"):
            made(["a", "b"], [0.5, value])
    with pytest.raises(DataError, match=r"\(1, 2, 2\) rows"):
        made(["a"], [0.5, 1.0])


def test_training_takes_the_kind_of_its_name_and_samples_the_same_rows_for_every_run_seed(root: Path) -> None:
    one, two = (
        load_training(SimpleNamespace(train="stsb-dev", train_limit=2, revisions={}, seed=seed)) for seed in (1, 2)
    )
    assert one.sentence1 == two.sentence1  # pyright: ignore[reportAttributeAccessIssue]
    assert one.gold.tolist() == [dict(zip(STSB["sentence1"], [5.0, 0.0, 2.5], strict=True))[s] for s in one.sentence1]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(one.pair_id) == 2  # pyright: ignore[reportAttributeAccessIssue]
    write_table(root / "nli" / "nli_triples.tsv.gz", {"sent0": ["a"], "sent1": ["b"], "hard_neg": ["c"]})
    assert load_training(SimpleNamespace(train="nli-triples"))[0] == ("a", "b", "c")


def test_suites_come_by_name_and_a_bad_one_stops_all(root: Path) -> None:
    suites = load_suites(SimpleNamespace(suites=["world-test", "stsb-dev"], revisions={}))
    assert list(suites) == ["world-test", "stsb-dev"]
    with pytest.raises(DataError, match="no dataset 'stsb-devv'"):
        load_suites(SimpleNamespace(suites=["world-test", "stsb-devv"], revisions={}))
    with pytest.raises(DataError, match=r"no set comes from hub id 'mteb/PAWS'.*mteb/PAWSX"):
        load_suites(SimpleNamespace(suites=["world-test"], revisions={"mteb/PAWS": "main"}))


def test_bundled_sets_load_without_a_local_root_and_never_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "world" / "world.dev.tsv.gz", {"score": ["1"], "sentence1": ["a"], "sentence2": ["b"]})
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    pairs = load_pairs("world-dev")
    assert pairs.source.startswith("bundled ")
    assert len(pairs) > 1
    assert len(set(pairs.pair_id)) == len(pairs)
    assert set(pairs.extra) >= {"query_id", "relation"}


def test_every_bundled_set_is_whole() -> None:
    bundled = [name for name in dataset_names() if describe(name)["source"] == "bundled"]
    table = check(bundled)
    assert table["problem"].tolist() == [""] * len(bundled)
    assert table["sha256"].tolist() == ["ok"] * len(bundled)


def test_the_manifest_is_that_of_the_bundled_files() -> None:
    done = subprocess.run(
        [sys.executable, PROJECT / "data" / "build" / "manifest.py", "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names_are_those_of_the_contract() -> None:
    sts = [f"sts{year}-test" for year in range(12, 17)]
    splits = {"stsb": ("train", "dev", "test"), "sick": ("train", "trial", "test"), "paws": ("dev", "test")}
    splits |= {"mrpc": ("train", "test"), "world": ("train", "dev", "test"), "ladders": ("all",)}
    splits |= {f"zh-{name}": ("dev",) for name in ("lcqmc", "bq", "atec", "stsb", "pawsx", "afqmc")}
    assert {*sts, *(f"{name}-{split}" for name in splits for split in splits[name])} <= set(dataset_names("pairs"))
    assert set(dataset_names("sentences")) >= {"world", "wiki", "wiki1m"}
    assert set(dataset_names("labelled")) >= {"mr", "cr", "subj", "mpqa", "sst2-test", "trec-test"}


def test_check_says_what_is_here_and_what_only_the_hub_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    table = check(["world-dev", "sts12-test", "nli-triples"]).set_index("name")
    assert table["found"].to_dict() == {"world-dev": "bundled", "sts12-test": "hub", "nli-triples": "missing"}
    assert "WORKBENCH_DATA" in table.loc["nli-triples", "problem"]


def test_the_list_and_the_check_are_of_the_same_sets_with_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    table = check()
    listed = pd.DataFrame([describe(name) for name in dataset_names()])
    assert table["name"].tolist() == listed["name"].tolist()
    assert table["kind"].tolist() == listed["kind"].tolist()
    assert table["rows"].astype(object).fillna("").astype(str).tolist() == listed["rows"].tolist()


def test_loading_brings_in_neither_torch_nor_the_hubs_library() -> None:
    show = "print([name for name in ('torch', 'datasets', 'jaxtyping') if name in sys.modules])"
    code = f"import sys; from workbench.data import load_pairs; load_pairs('world-dev'); {show}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_set_of_the_real_local_root_is_whole(real_data: Path) -> None:
    entries = json.loads((real_data / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    here = {entry["file"]: entry for entry in entries if not entry["file"].startswith(("wiki/", "vocab/"))}
    names = [name for name in dataset_names() if describe(name)["files"] in here]
    assert len(names) == len(here), "a file of the root is in no set of the catalogue"
    table = check(names).set_index("name")
    assert set(table["sha256"]) == {"ok"}
    assert set(table["problem"]) == {""}
    assert {name: here[describe(name)["files"]]["rows"] for name in names} == table["rows"].to_dict()


def test_real_sts_subsets_have_the_published_sizes(real_data: Path) -> None:
    pairs = load_pairs("sts12-test")
    sizes = {name: (pairs.subset or []).count(name) for name in set(pairs.subset or [])}
    assert sizes == {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "OnWN": 750, "SMTnews": 399}
    assert pairs.sentence1[0].islower()


def test_real_files_that_are_damaged_name_file_line_and_cure(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (real_data / "sts" / "sick.trial.tsv.gz").read_bytes()
    lines = gzip.decompress(content).split(b"\n")
    lines[10] = lines[10].replace(b"A", b"\xc3", 1)
    (tmp_path / "sts").mkdir()
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    for bad, text in ((content[:5000], "cut short"), (gzip.compress(b"\n".join(lines)), "line 11: byte 0xc3")):
        (tmp_path / "sts" / "sick.trial.tsv.gz").write_bytes(bad)
        with pytest.raises(DataError, match=rf"sick.trial.tsv.gz.*{text}"):
            load_pairs("sick-trial")
