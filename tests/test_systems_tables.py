"""Scores in tables: one table of all systems, a file for each, gold from elsewhere, columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from written_runs import PAIRS, SUITE, write_run

from workbench.config import SimCSEConfig
from workbench.data import Pairs, load_pairs
from workbench.errors import DataError
from workbench.evaluation import RANKING_COLUMNS, report_pairs
from workbench.metrics import spearman
from workbench.systems import SystemScores, compare_scores, read_score_file
from workbench.views import PairExplorer, RankingExplorer, compare_systems

SYSTEMS = {"minilm": 1.0, "org/mpnet": 2.0}


def scored(pairs: Pairs = PAIRS) -> pd.DataFrame:
    """Return a table of pairs with gold and two systems: gold plus noise."""
    draw = np.random.default_rng(0)
    columns = {"query": pairs.sentence1, "target": pairs.sentence2, "gold": pairs.gold}
    for name, noise in SYSTEMS.items():
        columns[name] = pairs.gold + noise * draw.uniform(size=len(pairs))
    return pd.DataFrame(columns)


def spearmans(scores: SystemScores) -> dict[str, float]:
    """Return the Spearman of each system on the only suite."""
    (suite,) = scores.pairs
    return {name: report.metrics[suite]["spearman"] for name, report in scores.first.items()}


def expected(table: pd.DataFrame, systems: list[str] | None = None) -> dict[str, float]:
    return {name: spearman(table["gold"], table[name]) for name in systems or SYSTEMS}


def distinct(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop_duplicates(["query", "target"], ignore_index=True)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_a_column_for_each_system_becomes_the_report_of_its_scores(ending: str, tmp_path: Path):
    table = scored()
    path = tmp_path / f"mine.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending == "jsonl":
        table.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    scores = read_score_file([path])
    assert spearmans(scores) == pytest.approx(expected(table), abs=1e-12)
    for name, report in scores.first.items():
        own = report_pairs({"mine": (scores.pairs["mine"], table[name])})
        assert report.metrics == own.metrics
        pd.testing.assert_frame_equal(report.scores, own.scores)
        pd.testing.assert_frame_equal(report.rankings, own.rankings)
    assert scores.notes == [
        f"{path}: systems = minilm, org/mpnet; gold = gold; texts = query, target; not read = none"
    ]


def test_what_was_read_can_be_explored(tmp_path: Path):
    table = scored().rename(columns={"minilm": "gold_label", "org/mpnet": "rank: x"})
    path = tmp_path / "mine.csv"
    table.to_csv(path, index=False)
    scores = read_score_file([path], columns={"gold": "gold"})
    assert list(scores.reports) == ["gold_label", "rank: x"]
    rankings = {name: report.rankings for name, report in scores.first.items()}
    assert [*rankings["rank: x"].columns] == [*RANKING_COLUMNS]
    assert len(rankings["rank: x"]) > 0
    RankingExplorer(rankings)
    PairExplorer(scores.first, scores.pairs["mine"])


def test_a_file_for_each_system_is_joined_by_id_whatever_the_order(tmp_path: Path):
    table = scored().assign(id=range(100, 100 + len(PAIRS)))
    table[["id", "query", "target", "gold", "minilm"]].to_csv(tmp_path / "all.csv", index=False)
    shuffled = table.sample(frac=1, random_state=0)
    shuffled[["id", "org/mpnet"]].set_axis(["pair_id", "predicted"], axis=1).to_csv(
        tmp_path / "mpnet.csv", index=False
    )
    scores = read_score_file([tmp_path / "all.csv", tmp_path / "mpnet.csv"])
    wanted = expected(table)
    # Its only column is called minilm, that of the other has no name of a system.
    assert spearmans(scores) == pytest.approx(
        {"minilm": wanted["minilm"], "mpnet": wanted["org/mpnet"]}
    )
    assert list(scores.pairs) == ["all"]
    texts = [str(tmp_path / "all.csv"), str(tmp_path / "mpnet.csv")]
    assert list(read_score_file(texts).pairs) == ["all"]


def test_pairs_that_lie_among_the_scores_are_no_system_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "s"
    folder.mkdir()
    table = scored().rename(columns={"query": "sentence1", "target": "sentence2"})
    table[["sentence1", "sentence2", "gold"]].to_csv(folder / "gold.csv", index=False)
    table[["sentence1", "sentence2", "minilm"]].to_csv(folder / "minilm.csv", index=False)
    monkeypatch.chdir(tmp_path)
    for source, on in (("s", folder), ("s", Path("s")), (folder, Path("s")), (folder, folder)):
        scores = read_score_file([source], on=on / "gold.csv")
        assert list(scores.reports) == ["minilm"], (source, on)
    # Of a store that names files by their content.
    stored = (folder / "gold.csv").rename(tmp_path / "6f1c")
    (tmp_path / "link.csv").symlink_to(stored)
    by_role = {"sentence1": "sentence1", "sentence2": "sentence2"}
    assert read_score_file([folder], on=tmp_path / "link.csv", columns=by_role).pairs


def test_the_first_system_of_a_file_is_the_baseline_whatever_its_name(tmp_path: Path):
    table = scored().rename(columns={"minilm": "bert", "org/mpnet": "simcse"})
    table.to_csv(tmp_path / "mine.csv", index=False)
    assert compare_systems(tmp_path / "mine.csv", samples=5).baseline == "bert"


def test_files_whose_gold_is_in_words_are_joined_by_their_texts(tmp_path: Path):
    table = distinct(scored())
    words = np.where(table["gold"] > table["gold"].median(), "True", "False")
    for name, title in zip(SYSTEMS, "ab", strict=True):
        own = table[["query", "target"]].assign(is_duplicate=words, score=table[name])
        own.to_csv(tmp_path / f"{title}.csv", index=False)
    scores = read_score_file([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [*scores.reports] == ["a", "b"]
    assert len(scores.pairs["a"]) == len(table)


@pytest.mark.parametrize("has_gold", [False, True])
def test_a_file_for_each_system_is_joined_by_texts(has_gold: bool, tmp_path: Path):
    table = distinct(scored())
    files = []
    for name in SYSTEMS:
        path = tmp_path / f"{name[:6].replace('/', '-')}.csv"
        columns = ["query", "target", *(["gold"] if has_gold else []), name]
        part = table[columns].rename(columns={name: "score"})
        part.iloc[:: 1 if name == "minilm" else -1].to_csv(path, index=False)
        files.append(path)
    on = tmp_path / "pairs.csv"
    table[["query", "target", "gold"]].to_csv(on, index=False)
    scores = read_score_file(files, on=on)
    values = list(expected(table).values())
    assert spearmans(scores) == pytest.approx(dict(zip(["minilm", "org-mp"], values, strict=True)))
    assert list(scores.pairs) == ["pairs"]
    assert scores.pairs["pairs"].checksum == load_pairs(on).checksum


def test_the_pairs_may_be_a_set_its_name_or_a_file(tmp_path: Path):
    table = distinct(scored(load_pairs(SUITE)))
    path = tmp_path / "new.parquet"
    table[["query", "target", "minilm"]].to_parquet(path)
    for on in (SUITE, load_pairs(SUITE)):
        scores = read_score_file([path], on=on)
        assert list(scores.pairs) == [SUITE]
        assert len(scores.pairs[SUITE]) == len(load_pairs(SUITE))
        assert list(scores.reports) == ["minilm"]


def test_an_id_of_any_name_can_be_chosen_where_gold_is_elsewhere(tmp_path: Path):
    table = scored().assign(qid=[f"q{row}" for row in range(len(PAIRS))])
    table[["qid", "query", "target", "gold"]].to_csv(tmp_path / "gold.csv", index=False)
    table[["qid", "minilm"]].iloc[::-1].to_csv(tmp_path / "minilm.csv", index=False)
    chosen = {"id": "qid"}
    scores = read_score_file([tmp_path / "minilm.csv"], on=tmp_path / "gold.csv", columns=chosen)
    assert spearmans(scores) == pytest.approx(expected(table, ["minilm"]))


def test_gold_may_be_parquet_and_columns_of_one_file_are_none_of_another(tmp_path: Path):
    table = distinct(scored())
    gold, left = tmp_path / "gold.parquet", tmp_path / "left.csv"
    table[["query", "target", "gold"]].to_parquet(gold)
    renamed = table.rename(columns={"query": "left", "target": "right"})
    renamed[["left", "right", "minilm"]].to_csv(left, index=False)
    chosen = {"sentence1": "left", "sentence2": "right"}
    found = compare_systems([left, "word-overlap"], str(gold), columns=chosen, samples=20)
    assert found.table["system"].tolist() == ["minilm", "word-overlap"]
    assert found.table["pairs"].tolist() == [len(table)] * 2
    with pytest.raises(DataError, match="did you mean 'gold'"):
        compare_systems(["word-overlap"], str(gold), columns={"score": "golds"}, samples=20)


def test_scores_of_a_run_are_joined_with_their_suite_by_id(tmp_path: Path):
    run = write_run(tmp_path / "runs", SimCSEConfig(), 0.5)
    scores = read_score_file([run.path / "scores.csv"], on=PAIRS)
    found = scores.first["scores"].metrics[SUITE]
    assert found["spearman"] == pytest.approx(run.metrics()[SUITE]["spearman"])
    assert found["n"] == len(PAIRS)


def test_rows_of_one_system_alone_are_left_out_and_counted(tmp_path: Path):
    table = scored().assign(id=range(len(PAIRS)))
    table.drop(columns="org/mpnet").to_csv(tmp_path / "all.csv", index=False)
    table.iloc[10:][["id", "org/mpnet"]].to_csv(tmp_path / "part.csv", index=False)
    scores = read_score_file([tmp_path / "all.csv", tmp_path / "part.csv"])
    kept = table.iloc[10:]
    assert spearmans(scores) == pytest.approx(expected(kept))
    assert scores.notes[-1] == "10 of 210 pairs left out, without a score of every system"
    pairs = scores.pairs["all"]
    assert pairs.sentence2 == kept["target"].tolist()
    assert pairs.checksum != load_pairs(tmp_path / "all.csv").checksum
    assert "10 of 210 pairs left out" in pairs.source


def test_pairs_of_a_file_without_ids_are_not_matched_by_the_ids_of_another(tmp_path: Path):
    """Their numbers begin with 0, ids often with 1: each score would be that of another pair."""
    table = scored()
    table[["query", "target", "gold"]].to_csv(tmp_path / "pairs.csv", index=False)
    numbered = table.assign(id=range(1, 1 + len(table)))[["id", "minilm"]]
    numbered.to_csv(tmp_path / "minilm.csv", index=False)
    with pytest.raises(DataError, match="it lacks a column id or both texts"):
        read_score_file([tmp_path / "minilm.csv"], on=tmp_path / "pairs.csv")


def test_an_id_that_two_pairs_have_is_refused(tmp_path: Path):
    """Otherwise, both would get the score that another file has for it."""
    pairs = tmp_path / "pairs.csv"
    scored().assign(id=[0, *range(len(PAIRS) - 1)]).to_csv(pairs, index=False)
    new = tmp_path / "new.csv"
    pd.DataFrame({"id": range(len(PAIRS)), "new": 0.5}).to_csv(new, index=False)
    with pytest.raises(DataError, match=r"pairs.csv.*: id 0 occurs twice; give each pair an id"):
        read_score_file([new], on=pairs)


def test_columns_say_what_a_name_does_not(tmp_path: Path):
    table = scored()
    names = ["left", "right", "minilm", "close", "mpnet"]
    path = tmp_path / "odd.csv"
    table.set_axis(names, axis=1).to_csv(path, index=False)
    roles = {"sentence1": "left", "sentence2": "right", "gold": "close"}
    scores = read_score_file([path], columns=roles)
    assert list(scores.reports) == ["minilm", "mpnet"]
    assert scores.pairs["odd"].gold.tolist() == table["minilm"].tolist()
    with pytest.raises(DataError, match=r"no column 'closs'.*did you mean 'close'"):
        read_score_file([path], columns={**roles, "gold": "closs"})
    with pytest.raises(DataError, match=r"gold=NAME,sentence1=NAME,.*the only other role is id"):
        read_score_file([path], columns={**roles, "glod": "close"})


@pytest.mark.parametrize("gold", ["label", "gold"])
def test_a_chosen_gold_leaves_the_other_as_a_system(gold: str, tmp_path: Path):
    table = scored().rename(columns={"minilm": "label"})
    path = tmp_path / "two.csv"
    table.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"gold = gold, label;.*--columns gold=NAME"):
        read_score_file([path])
    scores = read_score_file([path], columns={"gold": gold})
    other = {"label": "gold", "gold": "label"}[gold]
    assert set(scores.reports) == {other, "org/mpnet"}
    assert spearmans(scores)[other] == pytest.approx(spearman(table["gold"], table["label"]))


def test_score_is_gold_beside_systems_and_a_system_alone(tmp_path: Path):
    table = distinct(scored())
    on = tmp_path / "pairs.csv"
    table[["query", "target", "gold"]].to_csv(on, index=False)
    beside = tmp_path / "beside.csv"
    columns = {"gold": "score"}
    table[["query", "target", "gold", "minilm"]].rename(columns=columns).to_csv(beside, index=False)
    scores = read_score_file([beside], on=on)
    assert list(scores.reports) == ["minilm"]
    assert "gold = score" in scores.notes[0]
    alone = tmp_path / "alone.csv"
    columns = {"minilm": "score"}
    table[["query", "target", "minilm"]].rename(columns=columns).to_csv(alone, index=False)
    assert spearmans(read_score_file([alone], on=on)) == pytest.approx(
        {"alone": expected(table)["minilm"]}
    )


def test_gold_below_zero_has_no_gain_and_all_other_measures(tmp_path: Path):
    path = tmp_path / "mine.csv"
    table = scored()
    table.assign(gold=table["gold"] - 9).to_csv(path, index=False)
    rows = compare_scores(read_score_file([path])).table
    assert rows["ndcg"].isna().all()
    assert rows[["value", "kcc"]].notna().all(axis=None)


@pytest.mark.parametrize("columns", [None, {"gold": "gold"}])
def test_gold_is_the_same_as_a_source_and_as_on(columns: dict | None, tmp_path: Path):
    """A file with gold and the score of its own system gives others its gold, not its score."""
    table = distinct(scored()).assign(id=lambda rows: range(len(rows)))
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    of_first = table.rename(columns={"minilm": "score"}).drop(columns="org/mpnet")
    of_first.to_csv(first, index=False)
    table[["id", "org/mpnet"]].to_csv(second, index=False)
    wanted = expected(table)["org/mpnet"]
    assert spearmans(read_score_file([second], on=first, columns=columns)) == pytest.approx(
        {"org/mpnet": wanted}
    )
    together = read_score_file([first, second], columns=columns)
    assert spearmans(together)["org/mpnet"] == pytest.approx(wanted)
    alone = read_score_file([first], on=first, columns=columns)
    assert spearmans(alone)["first"] == pytest.approx(expected(table)["minilm"])
    with pytest.raises(DataError, match=r"no column 'grade' in your files"):
        read_score_file([second], on=first, columns={"gold": "grade"})


def test_pairs_with_two_possible_scores_are_refused(tmp_path: Path):
    path = tmp_path / "two.csv"
    scored()[["query", "target", "gold", "minilm"]].set_axis(
        ["query", "target", "label", "score"], axis=1
    ).to_csv(path, index=False)
    with pytest.raises(DataError, match=r"score could be 'score' or 'label'.*--columns score=NAME"):
        load_pairs(path)
    assert load_pairs(path, columns={"score": "label"}).gold.tolist() == PAIRS.gold.tolist()
