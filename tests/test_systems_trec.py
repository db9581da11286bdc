"""Run files and judgements of retrieval: reading, metrics, odd files, writing, and their views."""

import gzip
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from workbench.commands.app import app
from workbench.config import BaselineConfig
from workbench.errors import DataError, SettingError
from workbench.evaluation import RANKING_COLUMNS, evaluate_model, ranking_metrics
from workbench.metrics import RETRIEVAL, kendall, metrics_table, ndcg, retrieval_metrics
from workbench.systems import compare_scores, join_systems, read_qrels, read_runs, write_trec
from workbench.views import RankingExplorer, ranking_html
from workbench.views.queries import SuiteRankings
from workbench.views.system_sources import read_systems

QRELS = "q1 0 d1 2\nq1 0 d2 0\nq1 0 d9 1\nq2 0 d1 1\n"
RUN = "q1 Q0 d1 1 0.9 bm25\nq1 Q0 d2 2 0.5 bm25\nq2 Q0 d3 1 2 bm25\nq2 Q0 d1 2 1 bm25\n"


def write(folder: Path, **texts: str) -> list[Path]:
    """Write texts as NAME.run, "qrels" as judged.qrels, and return the paths."""
    paths = []
    for name, text in texts.items():
        path = folder / ("judged.qrels" if name == "qrels" else f"{name}.run")
        path.write_text(text, encoding="utf-8", newline="")
        paths.append(path)
    return paths


def read_one(folder: Path, run: str = RUN, qrels: str = QRELS):
    judged, path = write(folder, qrels=qrels, only=run)
    return read_runs([path], judged)


def grades_of(path: Path) -> dict[str, dict[str, float]]:
    """Return query -> document -> grade."""
    grades: dict[str, dict[str, float]] = {}
    for (query, document), grade in read_qrels(path).items():
        grades.setdefault(query, {})[document] = grade
    return grades


def random_files(folder: Path, grades: tuple[int, int] = (-1, 4)) -> tuple[list[Path], Path]:
    """Write two runs with many ties, and judgements; each lacks some of the other's queries."""
    draw = np.random.default_rng(5)
    runs = {}
    for name, queries in (("first", range(12)), ("second", range(3, 15))):
        lines = []
        for query in queries:
            for place, document in enumerate(draw.permutation(60)[:40]):
                score = round(draw.standard_normal(), 1)
                lines.append(f"q{query} Q0 d{document} {place} {score} {name}\n")
        runs[name] = "".join(lines)
    judged = [
        f"q{query} 0 d{document} {draw.integers(*grades)}\n"
        for query in range(1, 16)
        for document in draw.permutation(60)[:15]
    ]
    qrels, *paths = write(folder, qrels="".join(judged), **runs)
    return paths, qrels


def test_every_system_has_the_same_rows_in_the_same_order(tmp_path: Path):
    paths, qrels = random_files(tmp_path)
    systems = read_runs(paths, qrels)
    one, two = (report.rankings for report in systems.first.values())
    assert tuple(one) == tuple(two) == RANKING_COLUMNS
    same = list(RANKING_COLUMNS[:6])
    pd.testing.assert_frame_equal(one[same], two[same])
    judged = grades_of(qrels)
    found = [line.split() for line in paths[0].read_text().splitlines()]
    retrieved = {(query, document): float(score) for query, _, document, _, score, _ in found}
    other = [line.split() for line in paths[1].read_text().splitlines()]
    pairs = {(query, document) for query, _, document, *_ in found + other if query in judged}
    pairs |= {(q, d) for q, grades in judged.items() for d in grades if q != "q15"}
    assert {*zip(one["query_id"], one["target_id"], strict=True)} == pairs
    assert len(one) == len(pairs)
    for row in one.to_dict("records"):
        key = row["query_id"], row["target_id"]
        assert row["score"] == retrieved.get(key, -math.inf)
        assert row["gold"] == max(judged[key[0]].get(key[1], 0), 0)
    for _, rows in one.groupby("query_id"):
        assert rows["rank"].tolist() == (-rows["score"]).rank().tolist()
    assert systems.notes == [
        f"{count} queries are not in {name}: those that are judged and in another run count as "
        "retrieving nothing, the others are left out"
        for count, name in ((1, "judged"), (4, "first"), (4, "second"))
    ]


def test_measures_are_those_that_ir_measures_reads_from_the_files(tmp_path: Path):
    measures = pytest.importorskip("ir_measures")
    paths, qrels = random_files(tmp_path)
    systems = read_runs(paths, qrels)
    for path, (name, report) in zip(paths, systems.first.items(), strict=True):
        own = retrieval_metrics(report.rankings).set_index("query_id")
        theirs = measures.iter_calc(
            list(map(measures.parse_measure, RETRIEVAL)),
            measures.read_trec_qrels(str(qrels)),
            measures.read_trec_run(str(path)),
        )
        compared = 0
        for each in theirs:
            if each.query_id != "q15":  # which no run has
                value = own.loc[each.query_id, str(each.measure)]
                assert value == pytest.approx(each.value, abs=1e-12), (name, each)
                compared += 1
        assert compared == len(RETRIEVAL) * len(own) == len(RETRIEVAL) * 14
        values = report.metrics["judged"]
        assert values["nDCG@10"] == pytest.approx(own["nDCG@10"].mean(), abs=1e-12)
        assert values["queries"] == 14
        assert values["n"] == len(report.rankings)
    table = metrics_table(systems.first["first"].metrics)
    assert list(table) == ["suite", "targets", "KCC", "NDCG", *RETRIEVAL, "queries"]
    assert table["AP"].item() == pytest.approx(100 * systems.first["first"].metrics["judged"]["AP"])


def test_a_tie_is_broken_by_the_id_in_descending_order_and_in_single_precision(tmp_path: Path):
    pytest.importorskip("ir_measures")
    run = "q1 Q0 d1 1 1.000000000001 a\nq1 Q0 d9 2 1 a\n"
    report = read_one(tmp_path, run, "q1 0 d1 1\nq1 0 d9 0\n").first["a"]
    assert retrieval_metrics(report.rankings)["RR"].tolist() == [0.5]


def test_kcc_and_ndcg_are_of_all_targets(tmp_path: Path):
    report = read_one(tmp_path).first["bm25"]
    first = [2, 0, 1], [0.9, 0.5, -9]
    second = [1, 0], [1, 2]
    values = report.metrics["judged"]
    assert values["kcc"] == pytest.approx((kendall(*first) + kendall(*second)) / 2)
    assert values["ndcg"] == pytest.approx((ndcg(*first) + ndcg(*second)) / 2)
    assert report.scores.empty
    assert "suite" in report.scores


@pytest.mark.parametrize(
    "run",
    [
        RUN.replace(" ", "\t"),
        RUN.replace("\n", "\r\n"),
        "\ufeff" + RUN,
        RUN.replace("0.9", "9e-1"),
        RUN.replace(" ", "   ") + "\n  \n",
        "\n" + RUN.rstrip("\n"),
        RUN.replace("d1 1 0.9", "d1 7 0.9"),  # its rank is not that of its score
        "".join(sorted(RUN.splitlines(keepends=True), reverse=True)),
    ],
    ids=["tabs", "CRLF", "BOM", "exponent", "spaces", "no end", "rank", "order"],
)
def test_what_is_read_alike(tmp_path: Path, run: str):
    expected = read_one(tmp_path).first["bm25"].rankings
    pd.testing.assert_frame_equal(read_one(tmp_path, run).first["bm25"].rankings, expected)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (QRELS, "line 1: not `query_id Q0 target_id rank score tag` with a finite score"),
        (RUN.replace(" Q0", ""), "line 1: not `query_id Q0"),
        (RUN.replace(" d3 1 2 ", " d3 2 "), "line 3: not `query_id Q0 target_id"),
        (RUN.replace("2 bm25", "2 my tag"), "line 3: not `query_id Q0 target_id"),
        (RUN.replace("2 bm25", "2 b m 2 5 k"), "line 3: not `query_id Q0 target_id"),
        (RUN.replace("0.9 bm25", "0.9 b m 2 5 k"), "line 1: not `query_id Q0 target_id"),
        (RUN.replace("1 bm25", "1"), "line 4: not `query_id Q0 target_id"),
        (RUN.replace("0.5", "nan"), "line 2: not .* with a finite score"),
        (RUN.replace("0.5", "inf"), "line 2: not .* with a finite score"),
        (RUN.replace("0.5", "0,5"), "line 2: not .* with a finite score"),
        ("\n" + RUN.replace("0.5", "high"), "line 3: not .* with a finite score"),
        (RUN + "q1 Q0 d1 3 0.1 bm25\n", "line 5: .*a document of its query for the second time"),
        (RUN.replace(" d", " doc-"), "no document of bm25 is judged"),
        (RUN.replace("q", "topic-"), r"no document of bm25 is judged in \S+judged.qrels; give"),
    ],
)
def test_a_wrong_run_is_refused_with_its_line(tmp_path: Path, run: str, message: str):
    with pytest.raises(DataError, match=message):
        read_one(tmp_path, run)


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (RUN, "line 1: not `query_id 0 target_id score` with a finite score"),
        (QRELS.replace(" 2\n", " high\n"), "line 1: not"),
        (QRELS + "q1 0 d9 1\n", "line 5: not"),
        (QRELS + "q1 7 1\n", "line 5: not"),
        (QRELS.replace(" 0 ", " ") + "q1 0 d8 1\n", "line 5: not `query_id target_id score`"),
    ],
)
def test_wrong_judgements_are_refused_with_the_line(tmp_path: Path, qrels: str, message: str):
    (path,) = write(tmp_path, qrels=qrels)
    with pytest.raises(DataError, match=message):
        read_qrels(path)


def test_bytes_that_are_no_text_and_a_broken_archive_are_refused(tmp_path: Path):
    path = tmp_path / "x.run"
    path.write_bytes(RUN.encode() + b"q1 Q0 \xff 3 0.1 t\n")
    (qrels,) = write(tmp_path, qrels=QRELS)
    with pytest.raises(DataError, match="line 5: byte 0xff is not UTF-8"):
        read_runs([path], qrels)
    packed = tmp_path / "x.run.gz"
    packed.write_bytes(gzip.compress(RUN.encode())[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        read_runs([packed], qrels)
    packed.write_bytes(gzip.compress(RUN.encode()))
    assert read_runs([packed], qrels).first["bm25"].metrics["judged"]["queries"] == 2


def test_numbers_stay_ids(tmp_path: Path):
    qrels = "7 0 007 1\n7 0 7 0\n007 0 NA 1\n"
    assert grades_of(write(tmp_path, qrels=qrels)[0]) == {
        "7": {"007": 1.0, "7": 0.0},
        "007": {"NA": 1.0},
    }


def test_a_system_is_called_by_its_tags_or_else_by_its_file(tmp_path: Path):
    qrels, one, two = write(tmp_path, qrels=QRELS, one=RUN, two=RUN.replace("bm25", "dense"))
    assert [*read_runs([one, two], qrels).reports] == ["bm25", "dense"]
    two.write_text(RUN)
    assert [*read_runs([one, two], qrels).reports] == [str(one), str(two)]
    assert [*read_runs([one, one], qrels).reports] == ["bm25"]
    two.write_text(RUN.replace("bm25", "dense", 1))
    assert [*read_runs([one, two], qrels).reports] == ["bm25", "dense+bm25"]
    # A run of another set is not worse, it is not comparable.
    two.write_text(RUN.replace("q", "topic-").replace("bm25", "other"))
    with pytest.raises(DataError, match=r"no document of other is judged"):
        read_runs([one, two], qrels)
    (tmp_path / "more").mkdir()
    (same,) = write(tmp_path / "more", one=RUN)
    assert [*read_runs([one, same], qrels).reports] == [str(one), str(same)]


def test_the_layout_of_beir_gives_texts_and_the_name_of_the_suite(tmp_path: Path):
    folder = tmp_path / "birds" / "qrels"
    folder.mkdir(parents=True)
    qrels = folder / "test.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n" + QRELS.replace(" 0 ", "\t").replace(" ", "\t"))
    corpus = tmp_path / "birds" / "corpus.jsonl"
    corpus.write_text(
        '{"_id": "d1", "title": "Owls", "text": "hunt at night"}\n{"_id": "d2", "text": "Gulls"}\n'
    )
    queries = tmp_path / "birds" / "queries.jsonl"
    queries.write_text('{"_id": "q1", "text": "who hunts at night?"}\n')
    (run,) = write(tmp_path, run=RUN)
    table = read_runs([run], qrels).first["bm25"].rankings
    assert table["suite"].unique().tolist() == ["birds-test"]
    texts = dict(zip(table["target_id"], table["target"], strict=True))
    assert texts == {"d1": "Owls hunt at night", "d2": "Gulls", "d3": "d3", "d9": "d9"}
    assert [*dict.fromkeys(table["query"])] == ["who hunts at night?", "q2"]
    qrels.write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError, match=r"no document of bm25 is judged in .*test\.tsv"):
        read_runs([run], qrels)
    qrels.write_text("q1 d1 1\n")
    queries.write_text('{"id": "q1", "text": "who?"}\n')
    with pytest.raises(DataError, match="no column '_id'"):
        read_runs([run], qrels)
    # Above another folder these files are of something else.
    (other,) = write(folder.rename(tmp_path / "birds" / "judged"), other=QRELS)
    assert [*dict.fromkeys(read_runs([run], other).first["bm25"].rankings["query"])] == ["q1", "q2"]


def test_two_sets_of_judgements_are_two_suites(tmp_path: Path):
    judged, run = write(tmp_path, qrels=QRELS, run=RUN)
    second = tmp_path / "second.qrels"
    second.write_text(QRELS)
    both = join_systems([read_runs([run], judged), read_runs([run], second)])
    assert [*both.first["bm25"].metrics] == ["judged", "second"]
    assert SuiteRankings(both.first, "second").labels == ["bm25"]


def test_measures_need_whole_grades_and_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("ir_measures")
    graded = read_one(tmp_path, qrels=QRELS.replace(" 2\n", " 1.5\n"))
    table = graded.first["bm25"].rankings
    assert graded.first["bm25"].metrics["judged"]["ndcg"] > 0
    (message,) = graded.notes
    assert "nDCG@10, RR, R@100, AP need whole grades" in message
    assert "nDCG@10" not in graded.first["bm25"].metrics["judged"]
    with pytest.raises(DataError, match="need whole grades"):
        retrieval_metrics(table)
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(
        DataError, match=r'need ir-measures.*pip install "ranking-workbench\[retrieval\]'
    ):
        retrieval_metrics(table)
    (note,) = read_one(tmp_path).notes
    assert 'pip install "ranking-workbench[retrieval]"' in note


def test_views_show_what_was_not_retrieved_and_the_measures_of_a_long_list(tmp_path: Path):
    pytest.importorskip("ir_measures")
    paths, qrels = random_files(tmp_path)
    systems = read_runs(paths, qrels).first
    html = ranking_html(systems, "q5").data
    assert "not retrieved" in html
    assert "inf" not in html
    own = [retrieval_metrics(report.rankings).set_index("query_id") for report in systems.values()]
    row = html[html.index(">nDCG@10<") :]
    assert [f"{100 * values.loc['q5', 'nDCG@10']:.1f}" for values in own] == [
        part.partition("<")[0] for part in row.split('">')[1:3]
    ]
    view = SuiteRankings(systems).view("q5")
    for label, ranks in view.ranks.items():
        if label != "gold":
            is_last = view.scores[label] == -np.inf
            assert is_last.any()
            assert {*ranks[is_last]} == {len(ranks) - (is_last.sum() - 1) / 2}, "tied last"
    explorer = RankingExplorer(systems)
    assert len(explorer.ids) == 14
    assert explorer.selected["score: first"].notna().all()


def test_run_files_are_compared_by_the_measures_of_retrieval(tmp_path: Path):
    pytest.importorskip("ir_measures")
    paths, qrels = random_files(tmp_path)
    systems = read_runs(paths, qrels)
    found = compare_scores(systems, samples=200)
    assert found.table["measure"].tolist() == ["nDCG@10", "nDCG@10"]
    expected = [report.metrics["judged"] for report in systems.first.values()]
    values = found.table["value"].tolist()
    assert values == pytest.approx([own["nDCG@10"] for own in expected], abs=1e-12)
    ((_, texts),) = found.tables()
    # KCC and NDCG of so few queries are in the numbers alone.
    assert [*texts][1:6] == ["queries", "nDCG@10", "95% interval", "RR", "R@100"]
    assert found.table[["kcc", "ndcg"]].notna().all(axis=None)
    assert texts["AP"].tolist() == [f"{100 * own['AP']:.1f}" for own in expected]
    assert any("nDCG@10 x 100" in verdict for verdict in found.verdicts())
    halves = qrels.read_text().replace(" 3\n", " 2.5\n")
    qrels.write_text(halves)
    found = compare_scores(read_runs(paths, qrels), samples=200)
    assert found.table["measure"].tolist() == ["ndcg", "ndcg"]
    assert "RR" not in next(found.tables())[1]


def test_judgements_of_two_collections_are_refused_together(tmp_path: Path):
    texts = ("q1 0 d1 1\nq1 0 d2 0\n", "q2 0 d1 0\nq2 0 d2 1\n")
    qrels = [tmp_path / name for name in ("dl19.qrels", "dl20.qrels")]
    for path, text in zip(qrels, texts, strict=True):
        path.write_text(text)
    run = tmp_path / "bm25.run"
    run.write_text("".join(f"{q} Q0 d{d} {d} {3 - d} bm25\n" for q in ("q1", "q2") for d in (1, 2)))
    assert read_systems([str(run)], str(qrels[1])).suites == ["dl20"]
    with pytest.raises(SettingError, match="one --on at a time"):
        read_systems([str(run)], list(map(str, qrels)))
    table = run.rename(tmp_path / "bm25.tsv")
    assert read_systems([str(table)], str(qrels[1])).suites == ["dl20"], "as judgements say"


def test_a_short_list_has_no_further_measures(tmp_path: Path):
    assert "nDCG@10" not in ranking_html(read_one(tmp_path).first, "q1").data


def test_what_is_written_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    measures = pytest.importorskip("ir_measures")
    paths, qrels = random_files(tmp_path, (0, 4))
    systems = read_runs(paths[:1], qrels)
    report = systems.first["first"]
    report.rankings["target_id"] = report.rankings["target_id"].astype(str) + ' é"'
    run, judged = write_trec(report, tmp_path / "out")
    assert (run.name, judged.name) == ("judged.report.run", "judged.qrels")
    again = read_runs([run], judged).first["report"]
    columns = ["query_id", "gold", "score", "rank"]
    expected = report.rankings[columns]
    assert (
        again.rankings[columns].astype({"query_id": str}).equals(expected.astype({"query_id": str}))
    )
    ids = report.rankings["target_id"].str.replace(" ", "%20")
    assert again.rankings["target_id"].tolist() == ids.tolist()
    assert again.metrics["judged"] == report.metrics["judged"]
    scored = list(measures.read_trec_run(str(run)))
    assert len(scored) == (report.rankings["score"] > -np.inf).sum()
    assert all(type(each.relevance) is int for each in measures.read_trec_qrels(str(judged)))
    ranks = [int(line.split()[3]) for line in run.read_text(encoding="utf-8").splitlines()]
    assert ranks[:3] == [1, 2, 3]
    halves = report.rankings.assign(gold=report.rankings["gold"] / 2)
    _, judged = write_trec(halves, tmp_path / "halves")
    assert {*read_qrels(judged)} == {0, 1, 2}, "0.5 becomes 1, and 1.5 becomes 2"
    assert "grades were rounded" in caplog.text
    assert len(list(measures.read_trec_qrels(str(judged)))) == len(halves)
    with pytest.raises(DataError, match="has no rankings"):
        write_trec(halves.head(0), tmp_path)
    judged.write_text("q1 0 d1 2\n")  # a user's own
    with pytest.raises(DataError, match=r"qrels exists and has other lines; give another folder"):
        write_trec(halves, tmp_path / "halves")
    assert judged.read_text() == "q1 0 d1 2\n"
    # Another report is called "report", too.
    before = run.read_bytes()
    write_trec(report, tmp_path / "out")
    higher = report.rankings.assign(score=report.rankings["score"] + 1)
    with pytest.raises(DataError, match=r"report.run exists and has other lines"):
        write_trec(higher, tmp_path / "out")
    assert run.read_bytes() == before


def test_a_suite_that_is_a_path_is_written_into_the_folder(tmp_path: Path):
    paths, qrels = random_files(tmp_path, (0, 4))
    rankings = read_runs(paths[:1], qrels).first["first"].rankings
    folder = tmp_path / "deep" / "out"
    written = write_trec(rankings.assign(suite="../../outside"), folder)
    assert {path.parent for path in written} == {folder}


def test_the_command_writes_the_files_of_a_run(tmp_path: Path):
    config = BaselineConfig(encoder="world-encoder", suites=["world-test"], device="cpu")
    run = evaluate_model(config, tmp_path / "runs")
    folder = tmp_path / "out"
    done = CliRunner().invoke(app, ["export", str(run.path), str(folder), "--to", "trec"])
    assert done.exit_code == 0, done.output
    # Each run has a file of its own, so that two can be compared.
    written = f"world-test.{run.path.name}.run"
    assert {path.name for path in folder.iterdir()} == {"world-test.qrels", written}
    assert written in done.output
    systems = read_runs([folder / written], folder / "world-test.qrels")
    (report,) = systems.first.values()
    assert [*systems.reports] == [run.path.name]
    rankings = run.rankings()
    wanted = ranking_metrics(rankings.assign(gold=np.floor(rankings["gold"] + 0.5)))
    found = {name: report.metrics["world-test"][name] for name in wanted}
    assert found == pytest.approx(wanted, abs=1e-12)
    wrong = CliRunner().invoke(app, ["export", str(run.path), str(folder), "--to", "xml"])
    assert wrong.exit_code == 2
    assert "'mteb', 'trec'" in wrong.output
