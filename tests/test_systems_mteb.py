"""Predictions of mteb, as stored in mteb_written/, and results for it.

What mteb_tasks.py lets mteb write is compared with the stored files where mteb is installed."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forking import python
from written_runs import SUITE, write_run

from workbench.config import SimCSEConfig
from workbench.data import CATALOGUE
from workbench.data._catalogue import TABLES
from workbench.data._tables import write_table
from workbench.errors import DataError, RunError
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.systems import SystemScores, read_mteb, read_runs, write_mteb
from workbench.views import compare_systems

WRITTEN = Path(__file__).parent / "mteb_written"
GOLD = [4.2, 3.8, 1.0, 4.9, 2.1, 0.4]  # of OneSTS
# As mteb 2.26.24 computed it of its own predictions.
SPEARMAN = {"letters-16": 0.371429, "letters-64": 0.542857}
TSV = "sentence1\tsentence2\tscore\n"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "one.tsv"
    rows = [f"text {row}\ttarget {row}\t{score}\n" for row, score in enumerate(GOLD)]
    path.write_text(TSV + "".join(rows))
    return path


def copy_task(folder: Path, task: str, name: str = "") -> None:
    """Copy the predictions of one task of both models, each in its folder."""
    for path in WRITTEN.glob(f"*/{task}_predictions.json"):
        target = folder / path.parent.name / f"{name or task}_predictions.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def test_models_without_a_name_are_called_by_their_folders(gold: Path, tmp_path: Path):
    copy_task(tmp_path / "predictions", "OneSTS")
    for path in tmp_path.rglob("*_predictions.json"):
        content = json.loads(path.read_text())
        # As mteb writes it of a SentenceTransformer that was loaded from a folder.
        content["mteb_model_meta"]["model_name"] = "no_model_name/available"
        path.write_text(json.dumps(content))
    folders = [*(tmp_path / "predictions").iterdir()]
    both = compare_systems(tmp_path / "predictions", str(gold))
    apart = compare_systems([*map(str, folders)], str(gold))
    assert {*both.scores.reports} == {*apart.scores.reports} == {*SPEARMAN}


def test_the_spearman_of_mteb_follows_from_its_predictions(gold: Path, tmp_path: Path):
    copy_task(tmp_path / "predictions", "OneSTS")
    scores = read_mteb(tmp_path / "predictions", on=gold)
    found = {name: report.metrics["one"]["spearman"] for name, report in scores.first.items()}
    assert found == pytest.approx(SPEARMAN, abs=1e-6)
    assert scores.notes == [
        "OneSTS (default, test): cosine_scores, and the gold of one, in its order"
    ]
    assert scores.pairs["one"].gold.tolist() == GOLD


def test_the_gold_of_a_file_with_two_can_be_chosen(gold: Path, tmp_path: Path):
    rows = pd.read_csv(gold, sep="\t")
    rows.assign(other=-rows["score"]).to_csv(gold, sep="\t", index=False)
    copy_task(tmp_path / "predictions", "OneSTS")
    folder = str(tmp_path / "predictions")
    found = compare_systems(folder, str(gold), columns={"score": "other"}, samples=20)
    values = found.table.set_index("system")["value"].to_dict()
    assert values == pytest.approx({name: -value for name, value in SPEARMAN.items()}, abs=1e-6)


def test_one_file_is_called_by_its_model(gold: Path):
    scores = read_mteb(WRITTEN / "letters-16" / "OneSTS_predictions.json", on=gold)
    assert list(scores.reports) == ["own/letters-16"]


def test_each_part_with_as_many_scores_is_read_and_each_other_is_named(gold: Path):
    path = WRITTEN / "letters-64" / "TwoSTS_predictions.json"
    scores = read_mteb(path, on=gold)
    assert scores.first["own/letters-64"].metrics["one"]["n"] == 6
    assert "TwoSTS (en, test): cosine_scores, and the gold of one, in its order" in scores.notes
    left_out = [note for note in scores.notes if "left out" in note]
    assert [note.partition(" left out")[0] for note in left_out] == [
        "TwoSTS (en, validation)",
        "TwoSTS (de, validation)",
        "TwoSTS (de, test)",
    ]
    assert "shapes (6,) and (4,); they must be equal vectors; with --on FILE" in left_out[-1]


def test_two_tasks_for_the_same_gold_are_refused(gold: Path):
    with pytest.raises(DataError, match=r"two parts of one, have scores of .* on one; .*path of a"):
        read_mteb(WRITTEN / "letters-16", on=gold)


def test_a_file_of_predictions_can_be_named_alone(gold: Path):
    file = WRITTEN / "letters-16" / "OneSTS_predictions.json"
    found = compare_systems([str(file)], [str(gold)], samples=5)
    assert len(found.scores.reports) == 1


def test_two_files_of_one_task_and_system_are_refused(gold: Path, tmp_path: Path):
    copy_task(tmp_path / "predictions", "OneSTS")
    folder = tmp_path / "predictions"
    first = min(folder.rglob("*.json"))
    model = json.loads(first.read_text())["mteb_model_meta"]["model_name"]
    # In the folder itself a system is called by its model, below it by its folder.
    shutil.copy(first, folder)
    (folder / model).mkdir(parents=True)
    shutil.copy(first, folder / model)
    with pytest.raises(DataError, match=f"another file has OneSTS .* of {model}, too; rename"):
        read_mteb(folder, on=gold)


def write_catalogue_set(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Write six pairs as if they were those of stsb-test."""
    rows = [str(row) for row in range(len(GOLD))]
    columns = dict.fromkeys(("source_year", "source_dataset", "sid"), rows)
    columns |= {"score": list(map(str, GOLD)), "sentence1": rows, "sentence2": rows}
    write_table(root / CATALOGUE["stsb-test"].files[0], columns)
    monkeypatch.setenv("WORKBENCH_DATA", str(root))


def test_gold_of_a_task_is_that_of_the_same_set_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_catalogue_set(monkeypatch, tmp_path / "data")
    copy_task(tmp_path / "predictions", "OneSTS", "STSBenchmark")
    copy_task(tmp_path / "predictions", "OneSTS", "SICK-R")
    copy_task(tmp_path / "predictions", "TwoReranking")
    scores = read_mteb(tmp_path / "predictions")
    found = {name: report.metrics["stsb-test"]["spearman"] for name, report in scores.first.items()}
    assert found == pytest.approx(SPEARMAN, abs=1e-6)
    assert scores.notes == [
        "SICK-R (default, test) left out: neither scores of pairs nor rankings whose gold is "
        "known; with --on FILE give its pairs in its order, or its judgements",
        "STSBenchmark (default, test): cosine_scores, and the gold of stsb-test, in its order",
        "TwoReranking (default, test) left out: neither scores of pairs nor rankings whose gold is "
        "known; with --on FILE give its pairs in its order, or its judgements",
    ]


def test_another_number_of_pairs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_catalogue_set(monkeypatch, tmp_path / "data")
    path = tmp_path / "STSBenchmark_predictions.json"
    content = json.loads((WRITTEN / "letters-16" / "OneSTS_predictions.json").read_text())
    content["default"]["test"]["cosine_scores"].pop()
    path.write_text(json.dumps(content))
    with pytest.raises(
        DataError, match=r"STSBenchmark .* shapes \(6,\) and \(5,\).*; with --on FILE"
    ):
        read_mteb(path)


def test_without_cosines_the_similarity_of_the_model_is_taken(gold: Path, tmp_path: Path):
    path = tmp_path / "OneSTS_predictions.json"
    scores: dict[str, Any] = {"similarity_scores": [6, 5, 2, 9, 3, 1]}
    content = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": scores}}
    path.write_text(json.dumps(content))
    read = read_mteb(path, on=gold)
    assert read.first["m"].metrics["one"]["spearman"] == pytest.approx(1)
    assert "similarity_scores" in read.notes[0]
    for wrong in (math.nan, math.inf):
        scores["similarity_scores"][2] = wrong
        path.write_text(json.dumps(content))
        with pytest.raises(DataError, match="predicted contains nan in 1 of 6 places"):
            read_mteb(path, on=gold)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "null", "7", '{"mteb_model_meta": {}}'),
        json.dumps({"scores": {"test": []}}),
        json.dumps({"mteb_model_meta": {"model_name": "m"}, "version": "2.1"}),
        json.dumps({"mteb_model_meta": {"model_name": "m"}, "default": [1.0]}),
    ],
)
def test_another_file_is_refused(text: str, tmp_path: Path):
    path = tmp_path / "OneSTS_predictions.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"is no file of predictions .*prediction_folder=FOLDER"):
        read_mteb(tmp_path)


def judge_reranking(path: Path) -> Path:
    """Write the judgements of TwoReranking in mteb_tasks.py."""
    path.write_text("q0 0 d0 2\nq0 0 d1 1\nq3 0 d3 2\n")
    return path


def test_reranking_is_read_as_run_files_are(tmp_path: Path):
    copy_task(tmp_path / "predictions", "TwoReranking")
    copy_task(tmp_path / "predictions", "OneSTS")
    qrels = judge_reranking(tmp_path / "two.qrels")
    scores = read_mteb(tmp_path / "predictions", on=qrels)
    assert list(scores.reports) == ["letters-16", "letters-64"]
    runs = []
    for name in scores.reports:
        path = WRITTEN / name / "TwoReranking_predictions.json"
        rankings = json.loads(path.read_text())["default"]["test"]
        run = tmp_path / f"{name}.run"
        lines = [
            f"{query} Q0 {document} 0 {score!r} {name}\n"
            for query, documents in rankings.items()
            for document, score in documents.items()
        ]
        run.write_text("".join(lines))
        runs.append(run)
    expected = read_runs(runs, qrels)
    for name, report in scores.first.items():
        assert report.metrics == expected.first[name].metrics
        pd.testing.assert_frame_equal(report.rankings, expected.first[name].rankings)
    (note,) = [note for note in scores.notes if "left out" in note]
    assert note.startswith("OneSTS (default, test) left out: ")


def test_a_retrieved_query_is_noted_and_a_score_that_is_no_number_left_out(tmp_path: Path):
    qrels = tmp_path / "mine.qrels"
    qrels.write_text("a1 0 a2 1\nb1 0 b2 1\n")
    rankings = {"a1": {"a1": 1.0, "a2": 0.7}, "b1": {"b2": 0.9, "a1": 0.1}}

    def read() -> SystemScores:
        content = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": rankings}}
        (tmp_path / "Mine_predictions.json").write_text(json.dumps(content))
        return read_mteb(tmp_path, on=qrels)

    assert "1 queries retrieve the document of their own name" in "\n".join(read().notes)
    del rankings["a1"]["a1"]
    assert "own name" not in "\n".join(read().notes)
    rankings["b1"]["b2"] = math.nan
    with pytest.raises(DataError, match="a score is not finite"):
        read()


def test_a_model_without_a_name_may_lie_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    qrels = tmp_path / "mine.qrels"
    qrels.write_text("a1 0 a2 1\na1 0 a3 0\n")
    folder = tmp_path / "own-model"
    folder.mkdir()
    content = {"default": {"test": {"a1": {"a2": 0.1, "a3": 0.7}}}}
    content["mteb_model_meta"] = {"model_name": None}
    (folder / "Mine_predictions.json").write_text(json.dumps(content))
    monkeypatch.chdir(folder)
    (system,) = read_mteb(".", on=qrels).first.items()
    assert system[0] == "own-model"
    assert system[1].metrics["mine"]["ndcg"] < 1


def test_the_ndcg_of_reranking_is_that_of_mteb(tmp_path: Path):
    """Its main score is nDCG@10, of linear gain."""
    pytest.importorskip("ir_measures")
    qrels = judge_reranking(tmp_path / "two.qrels")
    scores = read_mteb(WRITTEN / "letters-16" / "TwoReranking_predictions.json", on=qrels)
    ranks = {"q0": {"d0": 3, "d1": 6}, "q3": {"d3": 2}}
    gains = {"d0": 2, "d1": 1, "d3": 2}
    values = []
    for documents in ranks.values():
        dcg = sum(gains[name] / math.log2(rank + 1) for name, rank in documents.items())
        best = sorted((gains[name] for name in documents), reverse=True)
        values.append(dcg / sum(gain / math.log2(2 + place) for place, gain in enumerate(best)))
    (report,) = scores.first.values()
    assert report.metrics["two"]["nDCG@10"] == pytest.approx(np.mean(values))


def test_what_is_neither_scores_nor_rankings_is_left_out(gold: Path, tmp_path: Path):
    copy_task(tmp_path / "predictions", "OneSTS")
    content = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": [[0, 1, 1]]}}
    path = tmp_path / "predictions" / "letters-16" / "Classes_predictions.json"
    path.write_text(json.dumps(content))
    scores = read_mteb(tmp_path / "predictions", on=gold)
    assert list(scores.reports) == list(SPEARMAN)
    assert scores.notes[0].startswith("Classes (default, test) left out: neither scores of")


def test_a_folder_without_predictions_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"no file \*_predictions.json has scores"):
        read_mteb(tmp_path)


def test_the_catalogue_has_the_sets_of_the_tasks():
    for sets in TABLES["mteb"].values():
        assert {CATALOGUE[name].kind for name in sets.values()} == {"pairs"}


def read_result(folder: Path, task: str) -> dict[str, Any]:
    (path,) = folder.rglob(f"{task}.json")
    return json.loads(path.read_text())


def write_stsb_run(root: Path) -> Run:
    """Write a run with two suites, one of which is a task of mteb."""
    draw = np.random.default_rng(0)
    run = Run.open(SimCSEConfig(), root)
    tables = []
    for suite in ("stsb-test", "stsb-dev", "mine", "mr"):
        gold = draw.uniform(size=30)
        tables.append(pd.DataFrame({"suite": suite, "subset": "", "gold": gold}))
    scores = pd.concat(tables, ignore_index=True)
    scores["pair_id"] = scores.index.astype(str)
    scores["predicted"] = scores["gold"] + draw.uniform(size=len(scores))
    values = {suite: {"spearman": 0.5, "n": 30} for suite in scores["suite"].unique()}
    columns = "suite query_id target_id query target gold score rank"
    run.write_evaluation(values, scores, pd.DataFrame(columns=columns.split()))
    return run


def test_a_run_becomes_results_in_the_form_of_mteb(tmp_path: Path):
    run = write_stsb_run(tmp_path / "runs")
    paths = write_mteb(run, tmp_path / "out")
    assert sorted(path.name for path in paths) == [
        "STSBenchmark.json",
        "mine.json",
        "model_meta.json",
    ]
    ours = read_result(tmp_path / "out", "STSBenchmark")
    theirs = read_result(WRITTEN, "OneSTS")
    assert ours.keys() <= theirs.keys()
    assert {split: len(parts) for split, parts in ours["scores"].items()} == {
        "test": 1,
        "validation": 1,
    }
    (part,) = ours["scores"]["test"]
    assert part.keys() <= theirs["scores"]["test"][0].keys()
    scores = run.scores().query("suite == 'stsb-test'")
    assert part["main_score"] == spearman(scores["gold"], scores["predicted"])
    assert ours["mteb_version"] is None
    meta = read_result(tmp_path / "out", "model_meta")
    name = run.path.name
    assert meta == {"name": f"ranking-workbench/simcse-{name}", "revision": name}


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path):
    with pytest.raises(RunError, match="not finished"):
        write_mteb(Run.open(SimCSEConfig(), tmp_path), tmp_path / "out")


def test_mteb_loads_the_results(tmp_path: Path):
    mteb = pytest.importorskip("mteb")
    run = write_stsb_run(tmp_path / "runs")
    write_mteb(run, tmp_path / "out")
    write_mteb(write_run(tmp_path / "runs", SimCSEConfig(seed=1), 0.5), tmp_path / "out")
    loaded = mteb.ResultCache(tmp_path / "out").load_results(validate_and_filter=False)
    found = {
        (model.model_revision, result.task_name): result.get_score(splits=["test"])
        for model in loaded.model_results
        for result in model.task_results
    }
    scores = run.scores()
    expected = {}
    for suite, task in (("stsb-test", "STSBenchmark"), ("mine", "mine")):
        rows = scores[scores["suite"] == suite]
        expected[run.path.name, task] = spearman(rows["gold"], rows["predicted"])
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-12)
    assert SUITE in {task for _, task in found}
    # With the splits and subsets that mteb's own task has.
    benchmark = mteb.ResultCache(tmp_path / "out").load_results(tasks=["STSBenchmark"])
    (result,) = [part for model in benchmark.model_results for part in model.task_results]
    score = result.get_score(splits=["test"])
    assert score == pytest.approx(expected[run.path.name, "STSBenchmark"], abs=1e-12)


def test_mteb_writes_what_is_stored(tmp_path: Path):
    pytest.importorskip("mteb")
    from mteb_tasks import write_all

    results = write_all(tmp_path)
    for name, spearmans in SPEARMAN.items():
        assert results[name, "OneSTS"].get_score() == pytest.approx(spearmans, abs=1e-6)
    for path in WRITTEN.glob("*/*.json"):
        stored = json.loads(path.read_text())
        written = json.loads((tmp_path / path.relative_to(WRITTEN)).read_text())
        assert flat(written) == pytest.approx(flat(stored), abs=1e-5)


def flat(content: Any, place: str = "") -> dict[str, Any]:
    """Return place -> number or text, for the leaves of a JSON object."""
    if isinstance(content, dict):
        parts = content.items()
    elif isinstance(content, list):
        parts = enumerate(content)
    else:
        return {place: content}
    return {
        key: leaf for name, part in parts for key, leaf in flat(part, f"{place}/{name}").items()
    }


def run_command(*words: object) -> subprocess.CompletedProcess[str]:
    command = [python("looks"), "-m", "workbench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_exports_a_run(tmp_path: Path):
    run = write_stsb_run(tmp_path / "runs")
    done = run_command("export", run.path, tmp_path / "out", "--to", "mteb")
    assert done.returncode == 0, done.stderr
    written = [f"written: {path}" for path in tmp_path.glob("out/results/*/*/*.json")]
    assert sorted(done.stdout.splitlines()) == sorted(written)
    refused = run_command("export", run.path, tmp_path / "out", "--to", "mtb")
    assert refused.returncode == 2
    assert all(word in refused.stderr for word in ("'mtb'", "'mteb'", "'trec'"))
