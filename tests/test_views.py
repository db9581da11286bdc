"""The live views without a browser: lists, choices, results and written files, by their public
state."""

import base64
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from traitlets import TraitError
from written_runs import PAIRS, SUITE, write_run

from workbench.config import BaselineConfig, CoSENTConfig, SimCSEConfig
from workbench.data import Pairs, load_pairs
from workbench.encoder import weights_checksum
from workbench.errors import DataError, SettingError
from workbench.evaluation import RANKING_COLUMNS, Report
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.views import (
    Ask,
    PairExplorer,
    RankingExplorer,
    RunPicker,
    WatchedRanking,
    Why,
    finished_runs,
    sentence_map,
)
from workbench.views.encoders import StartingEncoder
from workbench.views.export import write_page
from workbench.views.pair_explorer import pair_table

HOSTILE = '<script>alert(1)</script> & "quotes" it\'s $1 to $2 \u202eright'
SENTENCES = [
    ("a cat", "a cat sleeps"),
    ("a cat", "the dog barks"),
    ("one bird", HOSTILE),
    ("x", "y"),
    ("a cat", "no"),
]
GOLD, RIGHT, WRONG = [5.0, 1.0, 3.0, 3.0, 4.0], [0.9, 0.1, 0.6, 0.5, 0.8], [0.1, 0.9, 0.6, 0.5, 0.8]
FEW = Pairs(
    "few",
    *map(list, zip(*SENTENCES, strict=True)),
    np.array(GOLD),
    None,
    [*"abcde"],
    (0, 5),
    source="here",
    checksum="",
)


def scored(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {"suite": "few", "subset": "", "pair_id": [*"abcde"], "gold": GOLD, "predicted": values}
    )


def listed(view: PairExplorer, limits: dict[str, Any] | None = None, **values: Any) -> str:
    view.grid.limits = limits or {}
    view.select(**values)
    return "".join(view.selected["pair_id"])


def test_every_pair_has_its_rank_among_all_and_its_distance_from_golds():
    table = pair_table({"right": scored(RIGHT), "wrong": scored(WRONG)}, FEW)
    assert table["rank: wrong"].tolist() == [5, 1, 3, 4, 2]
    # Gold's places: 1, 5, 3 or 4, 3 or 4, 2. Of five pairs a place is a quarter of the list.
    assert table["error: wrong"].tolist() == [-1, 1, 0, 0, 0]
    assert table["error: right"].tolist() == [0, 0, 0, 0, 0]
    assert table["overlap"].tolist() == pytest.approx([2 / 3, 0, 0, 0, 0])
    scores = scored(RIGHT)
    assert pair_table({"m": Report({}, scores, pd.DataFrame())}, FEW)["score: m"].tolist() == RIGHT
    assert pair_table({"m": scores.iloc[:0:-1], "n": scored(WRONG)}, FEW)["pair_id"].tolist() == [
        *"bcde"
    ], "scored by both"
    for wrong, text in (
        (scores.assign(suite="other"), "no pair of few"),
        (scores.assign(gold=1.0), "gold"),
    ):
        with pytest.raises(ValueError, match=text):
            pair_table({"m": wrong}, FEW)


def test_pairs_are_ordered_limited_searched_and_chosen_from_code():
    view, sent = PairExplorer({"before": scored(WRONG), "after": scored(RIGHT)}, FEW), set()
    view.grid.observe(lambda change: sent.add(change["name"]), ["data", "extra"])
    assert listed(view, order="data") == "abcde"
    assert sent == {"extra"}, "another order sends one column, not the table"
    view.select(chosen="d")
    assert listed(view, order="gain") == listed(view, order="disagreement") == "abcde"
    assert view.chosen == "a", "an order begins at its first row"
    assert listed(view, {"gold": [3, 4]}) == "cde"
    assert listed(view, {"gold": [None, None], "overlap": [0.6, None]}) == "a"
    assert listed(view, {"gold": [None, 0]}) == ""
    assert (view.chosen, view.detail.html) == (None, "")
    with pytest.raises(TraitError, match="not found"):
        view.select(order="wrost")
    with pytest.raises(ValueError, match="'d', which is not listed"):
        view.select(chosen="d")
    with pytest.raises(TypeError, match="no control 'oder'"):
        view.select(oder="gold")
    assert listed(view, chosen="e") == "abcde"
    cell = r'class="number">[A-Z]</td><td class="text"><div data-words dir="auto">(.*?)</div>'
    found = re.findall(cell, view.detail.html)
    assert found == ["a cat sleeps", "no", "the dog barks"], (
        "every partner of its first sentence, best gold first"
    )
    assert re.findall(r"<tr [^>]*data-remark>.*?data-words[^>]*>(.*?)</div>", view.detail.html) == [
        "no"
    ]


def many_pairs(queries: int, targets: int) -> Pairs:
    """Return pairs of each query with its targets; the last target is shared by all queries."""
    places = [(query, target) for query in range(queries) for target in range(targets)]
    first = [f"query {query}" for query, _ in places]
    second = [f"target {target} of {query}" if target else "shared" for query, target in places]
    gold = np.array([float(target % 6) for _, target in places])
    ids = [f"{query}-{target}" for query, target in places]
    return Pairs("many", first, second, gold, None, ids, (0, 5), source="here", checksum="")


def test_a_page_of_pairs_has_one_table_for_each_query_and_folds_all_but_the_first(tmp_path: Path):
    pairs = many_pairs(30, 6)
    scores = np.random.default_rng(0).random(180)
    view = PairExplorer({"one": scores, "two": scores[::-1].copy()}, pairs)
    head = "<table><tr><td>compared</td></tr></table>"
    page = view.to_html(tmp_path / "page.html", head=head).read_text(encoding="utf-8")
    assert page.count("<section") == 30
    assert 'href="#' not in page, "folded sections are the list"
    assert page.count('<table class="ranks"') == page.count("<svg") == 31, (
        "a table for each query, and one for the shared target"
    )
    assert page.index(head) < page.index('type="search"') < page.index("<section")
    # The shared target's table has 30 of the pairs once more.
    assert page.count("<tr data-row=") == page.count(" data-remark>") == 180 + 30
    one, two = (pd.Series(-values).rank() for values in (scores, scores[::-1]))
    for row, name in enumerate(pairs.pair_id):
        ranks = f"{one[row]:g}, {two[row]:g}"
        assert f"● {name}; of 180 pairs: {ranks}<" in page.replace("</b>", "")
    assert (
        len(re.findall(r"<section[^>]*><details><summary><bdi>query \d+</bdi> \(6 pairs\)", page))
        == 29
    )
    assert "<p>180 pairs; Spearman" in page
    assert "; ordered by: a and b disagree; a: one, b: two.</p>" in page
    view.grid.sort = ["gold", False]
    page = view.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "; ordered by: gold, ascending; a: one, b: two.</p>" in page


def test_a_page_does_not_name_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "jane"
    monkeypatch.setattr("workbench.views.export.HOME", str(home))
    page = write_page(tmp_path / "page.html", f"{home}/scores.csv, {home}t/scores.csv")
    assert page.read_text(encoding="utf-8") == f"~/scores.csv, {home}t/scores.csv"
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setattr("workbench.views.export.HOME", str(tmp_path / "link"))
    page = write_page(tmp_path / "page.html", f"{home}/a.csv, {tmp_path}/link/a.csv")
    assert page.read_text(encoding="utf-8") == "~/a.csv, ~/a.csv"
    monkeypatch.setattr("workbench.views.export.HOME", "/root")
    alike = "the stem/root ratio, https://a.org/root/page, weights abc+/root/def"
    page = write_page(tmp_path / "page.html", f'{alike} "/root/a" (/root) =/root/b')
    assert page.read_text(encoding="utf-8") == f'{alike} "~/a" (~) =~/b'
    # Of Windows: as it is, turned, in JSON, and in coloured code.
    monkeypatch.setattr("workbench.views.export.HOME", r"C:\Users\Jo Doe")
    coloured = r'"C:</span><span class="se">\\</span>Users<span class="se">\\</span>Jo Doe/runs"'
    paths = (r"C:\Users\Jo Doe\a", "C:/Users/Jo Doe/a", r"C:\\Users\\Jo Doe\\a", coloured)
    page = write_page(tmp_path / "page.html", " ".join(paths))
    assert page.read_text(encoding="utf-8") == r'~\a ~/a ~\\a "~/runs"'


def test_a_page_is_written_through_a_link_and_keeps_who_may_read_it(tmp_path: Path):
    page = write_page(tmp_path / "page.html", "first")
    page.chmod(0o600)
    (tmp_path / "link.html").symlink_to(page)
    write_page(tmp_path / "link.html", "second")
    assert (tmp_path / "link.html").is_symlink()
    assert page.read_text(encoding="utf-8") == "second"
    write_page(page, "third")
    assert page.stat().st_mode & 0o777 == 0o600


def test_a_pair_whose_sentences_are_in_no_other_is_a_line_with_its_ranks_and_no_table(
    tmp_path: Path,
):
    alone = [("it rains", "rain falls"), ("a", "b"), ("a", "c")]
    pairs = replace(
        FEW,
        sentence1=[first for first, _ in alone],
        sentence2=[second for _, second in alone],
        gold=np.array([1.0, 3.0, 2.0]),
        pair_id=["x", "y", "z"],
    )
    view = PairExplorer({"one": [0.3, 0.1, 0.2]}, pairs)
    view.select(order="data")
    page = view.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    line, table = re.findall(r"<section.*?</section>", page)
    assert "it rains / rain falls</b> <small>(gold 1)</small><br><small>● x; of 3 pairs: 1<" in line
    assert "<table" not in line
    assert table.count("<table") == 1


def test_of_many_targets_a_listed_pair_is_in_the_table_whatever_its_rank(tmp_path: Path):
    pairs = many_pairs(1, 60)
    pairs = replace(pairs, gold=np.arange(60.0)[::-1].copy(), score_range=(0, 59))
    view = PairExplorer({"one": pd.Series(pairs.gold)}, pairs)
    view.grid.search = "target 57"
    page = view.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<tr data-row=") == 50
    assert "● 0-57; of 60 pairs: 58<" in page.replace("</b>", "")


def test_marked_pairs_are_a_table_and_a_new_file_that_is_read_again(tmp_path: Path):
    view = PairExplorer({"before": scored(WRONG), "after": scored(RIGHT)}, FEW)
    with pytest.raises(DataError, match="cannot write 0 marked pairs"):
        view.write_marked(tmp_path / "none.csv")
    view.grid.ticked = [0, 2]
    assert view.marked["pair_id"].tolist() == ["a", "c"]
    assert view.marked["score: before"].tolist() == [0.1, 0.6]
    view.set_data({"after": scored(RIGHT).iloc[1:]})
    assert view.marked["pair_id"].tolist() == ["c"], "marks are those of pairs, not of row numbers"
    path = view.write_marked(tmp_path / "marked.csv")
    read = load_pairs(path)
    assert (read.sentence1, read.sentence2) == (["one bird"], [HOSTILE])
    assert (read.gold.tolist(), read.score_range) == ([3.0], (0, 5))
    assert read.extra["pair_id"] == ["c"]
    assert list(map(float, read.extra["score: after"])) == [0.6]
    before = path.read_bytes()
    for wrong in (path, tmp_path / "marked.xlsx"):
        with pytest.raises(DataError, match=r"a \.csv that does not exist yet"):
            view.write_marked(wrong)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [before]


QUERIES = ["the cat sleeps", "a dog <b>barks</b>", "the bird sings", "a cat and a dog"]


def ranking(seed: int, suite: str = "few", queries: int = 4) -> pd.DataFrame:
    """Return queries of five targets with random scores; gold decreases from target to target."""
    draw, rows = np.random.default_rng(seed), []
    for number in range(queries):
        scores = draw.permutation(5) / 10
        for place, score in enumerate(scores):
            names = (
                suite,
                f"q{number}",
                f"{number}.{place}",
                QUERIES[number],
                f"target {place} of {number}",
            )
            rows.append((*names, 5.0 - place, score, float((scores > score).sum() + 1)))
    return pd.DataFrame(rows, columns=list(RANKING_COLUMNS))


def test_lists_of_too_much_text_are_in_the_order_of_the_data_at_first(
    monkeypatch: pytest.MonkeyPatch,
):
    tables = {"one": ranking(1), "two": ranking(2)}
    assert RankingExplorer(tables).order == "disagreement"
    monkeypatch.setattr("workbench.views.explorer.MOST_CHARACTERS", 10)
    view = RankingExplorer(tables)
    assert (view.order, view.grid.chosen) == ("data", 0)
    assert "too much text" in view.grid.note
    view.select(order="disagreement")
    assert view.order == "disagreement"


def test_queries_are_searched_with_their_targets_ordered_and_written_as_a_page(tmp_path: Path):
    view = RankingExplorer({"one": ranking(1), "two": ranking(2)})
    view.select(order="worst", a="two")
    values = np.frombuffer(view.grid.extra["value"], "<f8")[view.grid.listed]
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    view.grid.search = "2 sings target"
    assert (view.chosen, len(view.grid.listed)) == ("q2", 1)
    view.grid.search = ""
    page = view.to_html(tmp_path / "with space.html").read_text(encoding="utf-8")
    assert page.count("<table") == page.count("<section") == page.count("<svg") == 4
    assert set(re.findall(r"https?://[^\s\"]+", page)) <= {"http://www.w3.org/2000/svg"}, (
        "a name, not a request"
    )
    with pytest.raises(OSError, match="absent"):
        view.to_html(tmp_path / "absent" / "page.html")
    ids = ranking(1)["query_id"].map({"q0": 2, "q1": 0, "q2": 7, "q3": 1})
    both = pd.concat(
        [ranking(1).assign(query_id=ids), ranking(3, "other", queries=2)], ignore_index=True
    )
    one = RankingExplorer({"one": both, "two": ranking(2, "other", queries=2)})
    assert [value for _, value in one.controls["order"].options] == ["data", "worst"]
    assert "without rankings of this set: two" in one.grid.note
    one.select(chosen=2)
    assert "target 0 of 0" in one.detail.html, "an id that is a number is not a row"


def test_a_press_explains_a_rank_and_a_second_one_closes_it():
    view = RankingExplorer({"one": ranking(1)}, encoders={"one": counts})
    view.press("0B")
    assert f"<b>Why B?</b> <bdi>{view.selected['target'].iloc[1]}</bdi>" in view.reasons.html
    view.press("0B")
    assert view.reasons.html == ""
    view.press("0A")
    view.select(order="data")
    assert view.reasons.html == "", "another query has another A"
    broken = RankingExplorer({"one": ranking(1)}, encoders={"one": 3})
    broken.press("0A")
    assert "Type" in broken.reasons.html


def test_what_is_ticked_is_what_tables_and_explorers_get(tmp_path: Path):
    for seed in (0, 1):
        write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
    write_run(tmp_path, CoSENTConfig.from_parameters("demo", 7, {}), 0.5)
    runs = finished_runs(tmp_path, SUITE)
    picker = RunPicker(runs, SUITE)
    assert (picker.grid.ticked, picker.grid.note) == ([0, 1, 2], "; 3 ticked, all with demo")
    assert list(picker.rankings) == ["before simcse", "before cosent", "cosent", "simcse"]
    for name, path in zip(
        ["before simcse", "before cosent"], runs["path"].iloc[[1, 0]], strict=True
    ):
        pd.testing.assert_frame_equal(picker.rankings[name], Run(path).rankings("before"))
    earlier, queries = (RankingExplorer(picker.rankings, SUITE) for _ in range(2))
    every = PairExplorer(picker.scores, PAIRS)
    for explorer in (earlier, queries, every):
        picker.connect(explorer)
    queries.select(order="data", chosen="q3")
    picker.select(seeds="each")
    assert queries.labels == every.labels == list(picker.rankings)
    assert every.labels[-3:] == ["cosent, seed 7", "simcse, seed 0", "simcse, seed 1"]
    assert (queries.chosen, queries.order) == ("q3", "data")
    picker.select(labels=["cosent"], before=False, seeds="first")
    assert queries.labels == list(picker.scores) == ["cosent"]
    assert "simcse" not in picker.means.html
    picker.select(labels=[])
    assert (picker.rankings, "No run is ticked" in picker.means.html) == ({}, True)
    assert queries.labels == ["cosent"], "an empty selection changes the view"
    assert len(earlier.labels) == 4, "an earlier view of the same kind follows too"
    with pytest.raises(SettingError, match=r"no runs 'simcs' .*known: cosent, simcse"):
        RunPicker(runs, SUITE, labels=["simcs"])
    assert RunPicker(runs.iloc[:0], SUITE).rankings == {}


def test_of_runs_on_two_versions_of_a_suite_the_newest_are_ticked(tmp_path: Path):
    for temperature, version in ((0.1, "old"), (0.3, "new")):
        run = write_run(
            tmp_path,
            SimCSEConfig.from_parameters("demo", 0, {"temperature": temperature}),
            10 * temperature,
        )
        used = {SUITE: ("here", version), "encoder": ("here", version)}
        run.record(used, ended=f"2030-01-0{round(10 * temperature)}")
    runs = finished_runs(tmp_path, SUITE)
    first, second = runs["label"]
    picker = RunPicker(runs, SUITE)
    assert picker.runs["label"].tolist() == [second]
    assert "is ticked, on the newest version of the suite" in picker.grid.note
    # Other scores at the start are another start.
    assert list(RunPicker(runs, SUITE, labels=[first, second]).scores) == [
        f"before {second}",
        f"before {first}",
        first,
        second,
    ]


def test_at_first_the_newest_setting_of_each_method_is_ticked_with_its_seeds(tmp_path: Path):
    settings = [
        (SimCSEConfig, {}),
        (SimCSEConfig, {"temperature": 0.2}),
        (CoSENTConfig, {}),
        (SimCSEConfig, {}),
    ]
    for place, (kind, changes) in enumerate(settings):
        write_run(tmp_path, kind.from_parameters("demo", place // 3, changes), 1.0).record(
            ended=f"2030-01-0{place}"
        )
    for place, encoder in enumerate(["english-encoder", "world-encoder"]):
        config = BaselineConfig.from_parameters(
            "as-it-is", 0, {"encoder": encoder, "suites": [SUITE]}
        )
        write_run(tmp_path, config, 2.0).record(ended=f"2029-01-0{place + 1}")
    picker = RunPicker(finished_runs(tmp_path, SUITE), SUITE)
    ticked = list(zip(picker.runs["label"], picker.runs["seed"], strict=True))
    assert ticked == [
        ("cosent", 0),
        ("english-encoder", 0),
        ("simcse", 0),
        ("simcse", 1),
        ("world-encoder", 0),
    ]
    assert "at first the newest setting of each method is ticked" in picker.grid.note


def test_one_later_run_does_not_hide_the_seeds_of_a_sweep(tmp_path: Path):
    for place, (seed, changes) in enumerate(
        [
            (0, {}),
            (1, {}),
            (0, {"temperature": 0.2}),
            (1, {"temperature": 0.2}),
            (5, {"dropout": 0.2}),
        ]
    ):
        config = SimCSEConfig.from_parameters("demo", seed, changes)
        write_run(tmp_path, config, 1.0).record(ended=f"2030-01-0{place}")
    runs = finished_runs(tmp_path, SUITE)
    picker = RunPicker(runs, SUITE)
    ticked = list(zip(picker.runs["label"], picker.runs["seed"], strict=True))
    swept = "simcse (temperature=0.2)"
    assert ticked == [("simcse (dropout=0.2)", 5), (swept, 0), (swept, 1)]
    assert "and the newest of several seeds" in picker.grid.note
    # "simcse" is a label here, and only elsewhere the method.
    picker.select(labels=["simcse"])
    assert picker.runs["seed"].tolist() == [0, 1]
    swept_only = runs[runs["label"] != "simcse"]
    assert len(RunPicker(swept_only, SUITE, labels=["simcse"]).runs) == 3


def test_a_start_that_was_evaluated_too_is_shown_once_and_first(tmp_path: Path):
    trained = write_run(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 1.0)
    model = BaselineConfig.from_parameters(
        "as-it-is", 0, {"encoder": "world-encoder", "suites": [SUITE]}
    )
    evaluated = write_run(tmp_path, model, 2.0)
    shutil.rmtree(evaluated.path / "before")
    assert list(RunPicker(finished_runs(tmp_path, SUITE), SUITE).scores) == [
        "before",
        "cosent",
        "world-encoder",
    ]
    scores = trained.scores("before")
    noisy = scores.assign(predicted=scores["predicted"] + 1e-7)
    evaluated.write_evaluation(trained.metrics("before"), noisy, trained.rankings("before"))
    picker = RunPicker(finished_runs(tmp_path, SUITE), SUITE)
    assert list(picker.scores) == list(picker.rankings) == ["world-encoder", "cosent"]
    # Two settings that began with one encoder: it is named by neither.
    other = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    other.write_evaluation(trained.metrics("before"), noisy, trained.rankings("before"), "before")
    shutil.rmtree(evaluated.path)
    picker = RunPicker(finished_runs(tmp_path, SUITE), SUITE)
    assert list(picker.scores) == list(picker.rankings) == ["before", "cosent", "simcse"]


def test_the_encoders_of_runs_are_those_of_the_rankings_and_their_starts(tmp_path: Path):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 2.0)
    runs = finished_runs(tmp_path, SUITE)
    picker = RunPicker(runs, SUITE)
    assert picker.encoders == {}, "this run keeps no encoder"
    (run.path / "encoder").mkdir()
    assert list(picker.encoders) == list(picker.rankings) == ["before", "simcse"]
    assert picker.encoders["before"].load().source == "bundled:world-encoder"
    supervised = SimCSEConfig.from_parameters("demo", 3, {"pooling": "pooler"})
    start = StartingEncoder(write_run(tmp_path / "other", supervised, 2.0).path).load()
    assert weights_checksum(start) == SimCSE(supervised).starting_weights, (
        "its layer began at random"
    )
    for profile in ("demo", "demo-whitening"):
        write_run(
            tmp_path,
            BaselineConfig.from_parameters(profile, 0, {"encoder": "english-encoder"}),
            2.0,
        )
    run = write_run(tmp_path, CoSENTConfig(profile="demo", architecture="cross-encoder"), 2)
    (run.path / "encoder").mkdir()
    every = finished_runs(tmp_path, SUITE)
    asked = {
        row["label"]
        for row in every.to_dict("records")
        if Run(row["path"]).config.profile == "demo"
    }
    picker = RunPicker(every, SUITE, labels=list(every["label"]), before=False)
    assert set(picker.encoders) == asked - {"cosent"}, "which reads two sentences together"


def test_a_view_says_that_long_sentences_were_cut(caplog: pytest.LogCaptureFixture):
    long = ["word " * 500, "and " * 500, "a cat", "a dog"]
    pairs = Pairs(
        "few", long, long[::-1], np.arange(4.0), None, [*"abcd"], (0, 5), source="here", checksum=""
    )
    view = PairExplorer(["world-encoder"], pairs)
    assert view.labels == ["world-encoder"]
    said = "2 of 4 distinct sentences are longer than 64 tokens and were cut"
    assert caplog.messages == [said]


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "empty": lambda path: path.write_bytes(b""),
    "a row less": lambda path: path.write_bytes(path.read_bytes().rsplit(b"\n", 2)[0] + b"\n"),
    "words": lambda path: path.write_text("suite,subset,pair_id,gold,predicted\nmine,,0,x,y\n"),
    "bytes": lambda path: path.write_bytes(b"\x80\x04\x95\xff"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "gone": lambda path: path.unlink(),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path)),
}


def cached_file(tmp_path: Path, name: str) -> Path:
    return next(tmp_path.glob("cache/scores/*/*-s0")) / name


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("scores.csv", damage) for damage in DAMAGES),
        ("config.json", "words"),
        ("metrics.json", "a folder"),
    ],
)
def test_a_damaged_entry_of_the_cache_of_scores_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "mine.csv"
    file.write_text("sentence1,sentence2,score\na cat,the cat,5\nit rains,rain,4\na cat,a dog,1\n")
    before = PairExplorer(["world-encoder"], str(file)).table
    if damage != "truncated":  # the others are seen without a checksum too
        Run(cached_file(tmp_path, "")).record(files=None)
    DAMAGES[damage](cached_file(tmp_path, name))
    pd.testing.assert_frame_equal(PairExplorer(["world-encoder"], str(file)).table, before)
    # The scores are in the cache again.
    monkeypatch.setattr("workbench.evaluation._evaluate._predict", None)
    pd.testing.assert_frame_equal(PairExplorer(["world-encoder"], str(file)).table, before)


@pytest.mark.parametrize("place", ["cache", "cache/scores", "cache/scores/base"])
def test_without_a_cache_scores_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("no folder")
    (tmp_path / "mine.csv").write_text(
        "sentence1,sentence2,score\na cat,the cat,5\nit rains,rain,4\n"
    )
    assert len(PairExplorer(["world-encoder"], str(tmp_path / "mine.csv")).table) == 2
    assert (tmp_path / place).read_text() == "no folder"


def test_targets_are_ranked_by_each_encoder_and_only_new_sentences_are_encoded():
    known, asked = (
        {"query": [1.0, 0.0], "near": [0.9, 0.1], "middle": [0.5, 0.5], "far": [0.0, 1.0]},
        [],
    )

    def encode(sentences: list[str]) -> np.ndarray:
        asked.extend(sentences)
        return np.array([known.get(sentence, [0.7, 0.3]) for sentence in sentences])

    view = Ask(
        {"one": encode, "two": lambda texts: -encode(texts)[:, ::-1]},
        "query",
        "far\nnear\nmiddle",  # as a list of them
    )
    assert view.selected["target"].tolist() == ["near", "middle", "far"]
    assert view.selected["score: one"].tolist() == pytest.approx(
        [0.9 / np.hypot(0.9, 0.1), np.sqrt(0.5), 0]
    )
    assert "than by one (places" in view.panel.html
    asked.clear()
    view.select(targets="far\n\nnear\nanother")
    assert asked == ["another"] * 2
    view.select(targets="\n".join(map(str, range(60))))
    assert "50 of 60 targets" in view.panel.html
    # A drawing with a sign that XML has not is not shown at all.
    view.select(targets="far\nfrom a\x0bspreadsheet\x1f")
    drawings = re.findall(r"data:image/svg[^,]+,([^\"]+)", view.html(is_live=False))
    assert drawings
    for drawing in drawings:
        ElementTree.fromstring(base64.b64decode(drawing))
    view.select(query=" ")
    assert "type a query and at least one target" in view.panel.html

    def fail(_: list[str]) -> np.ndarray:
        raise KeyError("broken")

    for view in (Ask, Why):
        several = view({"two": fail, "three": encode}, "query", ["near"] if view is Ask else "near")
        assert "two: KeyError: &#x27;broken&#x27;" in several.panel.html
        assert "three" in several.panel.html, "an encoder that fails hides no other"


def test_gold_of_the_pairs_is_shown_while_they_have_it_for_every_target():
    view = Ask({"counts": counts}, "a cat", ["no", "a cat sleeps"], pairs=FEW)
    assert view.selected["target"].tolist() == ["a cat sleeps", "no"], "by gold"
    assert view.selected["gold"].tolist() == [5, 4]
    assert "KCC" in view.panel.html
    view.select(targets="no\nanother")
    assert "gold" not in view.selected
    assert "KCC" not in view.panel.html


def counts(sentences: list[str]) -> np.ndarray:
    """Embed texts as the counts of four words, and one constant."""
    return np.array(
        [[1.0, *(sentence.split().count(word) for word in "abcd")] for sentence in sentences]
    )


def test_the_effect_of_a_word_is_what_the_cosine_or_the_lead_loses_without_it():
    view = Why({"counts": counts}, "a b", "a c")
    # Without "a" of the query: (1 + 0) / (sqrt 2 sqrt 3); without "b": 2 / (sqrt 2 sqrt 3).
    expected = [2 / 3 - 1 / 6**0.5, 2 / 3 - 2 / 6**0.5]
    assert view.selected["counts"].tolist() == pytest.approx([2 / 3, *expected, *expected])
    view.select(other="d c")
    table = view.selected
    assert [side for side, _ in table.index] == [
        "all",
        *["query"] * 2,
        *["target"] * 2,
        *["second target"] * 2,
    ]
    assert table["counts"].iloc[0] == pytest.approx(2 / 3 - 1 / 3)
    assert table["counts"].iloc[5] > 0, (
        "without d the second target is closer, so the lead depends on it"
    )


def test_too_many_words_are_refused_with_a_remedy_and_word_overlap_takes_many_targets():
    with pytest.raises(
        DataError, match="1,002 words are too many to show; at most 1,000: shorten the sentences"
    ):
        _ = Why({"counts": counts}, "a " * 1000, "b c").selected
    words = [f"w{number}" for number in range(20_000)]
    many = Ask("word-overlap", "w7 w8", [f"{one} {other}" for one, other in pairwise(words)])
    assert many.selected["score: word-overlap"].tolist()[:2] == pytest.approx([1, 0.5])


def test_a_watched_ranking_is_shown_from_the_start_to_the_kept_step(tmp_path: Path):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    history = {"step": [0, 5, 10], "dev_spearman": [0.2, 0.5, 0.4]}
    pd.DataFrame(history).to_csv(run.path / "history.csv", index=False)
    assert "no query of its dev has four to twenty targets" in WatchedRanking(run).panel.html
    rows = pd.DataFrame(
        [
            (step, "007", target, gold, gold * step - place)
            for step in (0, 5, 10)
            for place, (target, gold) in TARGETS
        ],
        columns=["step", "query", "target", "gold", "score"],
    )
    rows.to_csv(run.path / "watched.csv", index=False)
    view = WatchedRanking(run)
    assert (view.query, view.step, list(view.selected.ranks)) == (
        "007",
        5,
        ["gold", "start", "step 5, kept"],
    )
    assert view.selected.table["target"].tolist() == ["four", "three", "two", "one"]
    assert view.selected.ranks["start"].tolist() == [4, 3, 2, 1]
    assert view.selected.ranks["step 5, kept"].tolist() == [1, 2, 3, 4]
    view.select(step=0)
    assert view.selected.ranks["step 0"].tolist() == [4, 3, 2, 1]
    with pytest.raises(TraitError):
        view.select(step=7)
    assert "step 5, kept" in WatchedRanking(run).static()
    # Killed between a state that was kept and the next measurement; and before the first one.
    pd.DataFrame({"step": [0, 7], "loss": [None, 1.0]}).to_csv(
        run.path / "history.csv", index=False
    )
    assert WatchedRanking(run).step == 10
    pd.DataFrame({"step": [0]}).to_csv(run.path / "history.csv", index=False)
    assert WatchedRanking(run).step == 0


TARGETS = list(enumerate([("one", 1.0), ("two", 2.0), ("three", 3.0), ("four", 4.0)]))


def test_a_map_of_neighbours_has_a_point_for_each_sentence_under_each_label():
    vectors = {HOSTILE: np.random.default_rng(0).standard_normal((9, 4)), "two": np.eye(9)}
    figure = sentence_map(vectors, [HOSTILE, *"abcdefgh"], values=range(9))
    assert [len(trace.x) for trace in figure.data] == [9, 9]
    assert "<script" not in str(figure.to_dict())


def test_two_labels_are_compared_although_there_was_one_or_one_is_gone():
    view = PairExplorer({"x": scored(RIGHT)}, FEW)
    assert (view.a, view.b) == ("x", "x")
    view.set_data({"x": scored(RIGHT), "y": scored(WRONG)})
    assert (view.a, view.b) == ("x", "y")
    view.set_data({"x": scored(RIGHT), "y": scored(WRONG), "z": scored(WRONG)})
    assert (view.a, view.b) == ("x", "y"), "what was chosen stays"
    view.set_data({"y": scored(WRONG), "z": scored(RIGHT)})
    assert (view.a, view.b) == ("y", "z")
