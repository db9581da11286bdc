"""The live views as a user sees them in JupyterLab, and the tables, figures and pages made from
finished runs."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from live_lab import BETWEEN, OPEN, PATIENCE, command, errors, open_notebook, run_all
from nbformat.v4 import new_code_cell, new_notebook, new_output
from scipy.stats import kendalltau, rankdata, spearmanr

from workbench import Encoder, RankCSEConfig, Run, evaluate, load_pairs, look

from .lab import (
    NOTEBOOKS,
    cells,
    choice,
    entry,
    listed,
    numbers,
    output_of,
    run_code,
    value_of,
    wait_until,
    with_parameters,
)

pytestmark = pytest.mark.slow

HOSTILE = '<img src=x onerror="alert(1)"> & "two" $1 or $2'
SCRIPT = "<script>alert(2)</script> the dog likes it"
SUBJECTS = ("baker", "sailor", "teacher", "painter", "driver", "singer")
QUERIES = [f"the {subject} sees a small dog in the park" for subject in SUBJECTS]
EVERY = [*QUERIES, HOSTILE]
LABELS = ["cosent", "rankcse", "simcse"]


def targets(subject: str) -> dict[str, float]:
    """Return target sentences with the gold score of each for the query about this subject."""
    return {
        f"a little dog is seen by the {subject}": 5.0,
        f"the {subject} likes an old bird": 3.2,
        f"one {subject} sees the red cat today": 2.6,
        f"not a {subject} in the park": 1.0,
        f"rain falls on the house of the {subject}": 0.0,
    }


def write_pairs(file: Path) -> Path:
    """Write the scored pairs; the last query and one of its targets are hostile."""
    rows = [
        [query, *row]
        for query, one in zip(QUERIES, SUBJECTS, strict=True)
        for row in targets(one).items()
    ]
    rows += [[HOSTILE, text, gold] for text, gold in {**targets("stranger"), SCRIPT: 4.0}.items()]
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([["sentence1", "sentence2", "score"], *rows])
    return file


@pytest.fixture(scope="module")
def runs(train: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Train three methods, one of them with two seeds, and score them on the same pairs."""
    folder = tmp_path_factory.mktemp("views")
    suite = write_pairs(folder / "mine.csv")
    found = {(name, 0): train(name, folder / "runs", suites=[str(suite)]) for name in LABELS}
    found["simcse", 1] = train("simcse", folder / "runs", 1, suites=[str(suite)])
    return SimpleNamespace(
        suite=suite, root=folder / "runs", of=found, pairs=load_pairs(str(suite))
    )


def scores_of(run: Run) -> dict[tuple[str, str], float]:
    """Return the score that the run's folder has for each pair of sentences."""
    pairs, scored = load_pairs(run.config.suites[0]), run.scores()
    assert list(scored["pair_id"].astype(str)) == [str(one) for one in pairs.pair_id]
    return dict(
        zip(zip(pairs.sentence1, pairs.sentence2, strict=True), scored["predicted"], strict=True)
    )


def ranking(query: str, runs: SimpleNamespace, labels: list[str]) -> pd.DataFrame:
    """Return target, gold, gold rank and a rank per label, computed from the runs' files."""
    places = [place for place, one in enumerate(runs.pairs.sentence1) if one == query]
    texts, gold = [runs.pairs.sentence2[place] for place in places], runs.pairs.gold[places]
    table = {"target": texts, "gold": gold, "gold rank": rankdata(-gold)}
    for label in labels:
        scores = scores_of(runs.of[label, 0])
        table[label] = rankdata([-scores[query, text] for text in texts])
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def lab(jupyter: SimpleNamespace, runs: SimpleNamespace) -> SimpleNamespace:
    """Run the rankings notebook in JupyterLab; return the page and the outputs with views."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    given = {"runs_root": str(runs.root), "suite": str(runs.suite), "before": False}
    with_parameters(NOTEBOOKS / "21_rankings.ipynb", jupyter.folder / "live.ipynb", **given)
    content = nbformat.read(jupyter.folder / "live.ipynb", as_version=4)
    content.cells += [
        cell
        for cell in nbformat.read(NOTEBOOKS / "23_pairs.ipynb", 4).cells
        if "PairExplorer(" in cell.source
    ]
    content.cells.append(
        new_code_cell('question = views.Ask(["world-encoder", "world-teacher"])\nquestion')
    )
    content.cells.append(new_code_cell('reason = views.Why(["world-encoder"])\nreason'))
    watched = f"forming = views.WatchedRanking(Run({str(runs.of['cosent', 0].path)!r}))"
    content.cells.append(new_code_cell(f"from workbench import Run\n{watched}\nforming"))
    nbformat.write(content, jupyter.folder / "live.ipynb")
    page, dialogs = jupyter.watched.page, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    open_notebook(page, jupyter.address, "live.ipynb")
    run_all(page, seconds=240)
    views = {
        "picker": output_of(page, "RunPicker("),
        "explorer": output_of(page, "RankingExplorer("),
        "every_pair": output_of(page, "PairExplorer("),
        "question": output_of(page, "Ask("),
        "reason": output_of(page, "Why("),
        "forming": output_of(page, "WatchedRanking("),
    }
    return SimpleNamespace(
        page=page, watched=jupyter.watched, dialogs=dialogs, folder=jupyter.folder, **views
    )


def queries_of(lab: SimpleNamespace) -> list[str]:
    """Return the queries that the explorer lists, in its order."""
    return [query for (query,) in listed(lab.explorer, [(query,) for query in EVERY])]


@pytest.fixture
def live(lab: SimpleNamespace, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Clear the searches; after the test, check for script errors and external requests."""
    for view in (lab.explorer, lab.every_pair):
        view.get_by_role("searchbox").fill("")
    wait_until(lab.page, lambda: len(queries_of(lab)), len(QUERIES) + 1)
    yield lab
    lab.page.screenshot(path=tmp_path / "end.png")  # shows where it stopped
    assert (lab.watched.problems, lab.watched.elsewhere, lab.dialogs) == ([], [], [])


def chosen_query(live: SimpleNamespace) -> list[str]:
    """Return the targets of the chosen query from the public state in Python."""
    return value_of(live.page, "explorer.selected['target'].tolist()")


def check_ranking(live: SimpleNamespace, query: str, runs: SimpleNamespace) -> None:
    """Check that gold and ranks of each target are those in the files of the runs."""
    from playwright.sync_api import expect

    for row in ranking(query, runs, LABELS).to_dict("records"):
        shown = live.explorer.get_by_role("row").filter(has_text=row["target"])
        expect(shown).to_be_visible()
        found = cells(shown)
        assert {name: numbers(found[name])[0] for name in row if name != "target"} == pytest.approx(
            {name: value for name, value in row.items() if name != "target"}
        )


def test_the_notebook_runs_live_and_a_search_narrows_the_queries(live: SimpleNamespace):
    assert errors(live.page) == []
    assert sorted(value_of(live.page, "list(tables)")) == LABELS
    search = live.explorer.get_by_role("searchbox")
    for words, wanted in (
        ("dog SAILOR", QUERIES[1]),
        ("sailor rain falls", QUERIES[1]),
        ("script stranger", HOSTILE),
    ):
        search.fill(words)  # the second and the third have words of targets
        wait_until(live.page, lambda: queries_of(live), [wanted])
    search.fill("no such word")
    wait_until(live.page, lambda: queries_of(live), [])


def test_a_query_chosen_by_mouse_shows_its_ranking_and_python_knows_it(
    live: SimpleNamespace, runs: SimpleNamespace
):
    for query in (QUERIES[2], QUERIES[4]):
        entry(live.explorer, query).click()
        table = ranking(query, runs, LABELS).sort_values("gold", ascending=False)
        wait_until(live.page, lambda: chosen_query(live), table["target"].tolist())
        check_ranking(live, query, runs)
        known = value_of(live.page, "explorer.selected.to_dict('list')")
        assert known["gold rank"] == table["gold rank"].tolist()
        assert {label: known[f"rank: {label}"] for label in LABELS} == table[LABELS].to_dict("list")


def test_the_keyboard_alone_searches_and_chooses(live: SimpleNamespace, runs: SimpleNamespace):
    page = live.page
    choice(live.explorer, "order").select_option(label="as in the data")
    live.explorer.get_by_role("searchbox").focus()
    page.keyboard.type("small dog")
    wait_until(page, lambda: queries_of(live), QUERIES)
    for _ in range(20):  # past the controls before the list
        page.keyboard.press("Tab")
        here = page.evaluate("document.activeElement.innerText")
        if sum(query in here for query in QUERIES) == 1:
            break
    assert QUERIES[0] in here
    for query in QUERIES[1:3]:
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        wait_until(page, lambda: chosen_query(live)[0], ranking(query, runs, []).iloc[0]["target"])
        check_ranking(live, query, runs)
        assert query in page.evaluate("document.activeElement.innerText"), (
            "the focus is on the chosen query"
        )


def test_queries_are_ordered_and_chosen_from_the_list_and_from_code(
    live: SimpleNamespace, runs: SimpleNamespace
):
    worst = {}
    for query in EVERY:
        table = ranking(query, runs, ["cosent"])
        worst[query] = round(kendalltau(-table["gold rank"], -table["cosent"]).statistic, 9)
    choice(live.explorer, "a").select_option(label="cosent")
    choice(live.explorer, "order").select_option(label="a is worst")
    wait_until(live.page, lambda: [worst[one] for one in queries_of(live)], sorted(worst.values()))
    assert run_code(live.page, "explorer.select(order='data', chosen='q3')") == ""
    wait_until(live.page, lambda: queries_of(live), EVERY)
    check_ranking(live, QUERIES[3], runs)
    assert chosen_query(live)[0] == ranking(QUERIES[3], runs, []).iloc[0]["target"]


def test_pairs_are_searched_limited_and_shown_with_all_partners(
    live: SimpleNamespace, runs: SimpleNamespace
):
    from playwright.sync_api import expect

    view, wanted = live.every_pair, "the painter likes an old bird"
    every = list(zip(runs.pairs.sentence1, runs.pairs.sentence2, strict=True))
    near = [pair for pair, gold in zip(every, runs.pairs.gold, strict=True) if gold >= 4]
    view.get_by_label("gold from").fill("4")
    wait_until(live.page, lambda: sorted(listed(view, every)), sorted(near))
    assert value_of(live.page, "sorted(every_pair.selected['sentence2'])") == sorted(
        text for _, text in near
    )
    view.get_by_label("gold from").fill("")
    view.get_by_role("searchbox").fill("bird painter OLD")
    expect(view.get_by_text(re.compile(r"\b1 of 36\b"))).to_be_visible()
    entry(view, wanted).click()
    partners = ranking(QUERIES[3], runs, LABELS)
    for row in partners.to_dict("records"):
        shown = view.get_by_role("row").filter(has_text=row["target"]).last
        expect(shown).to_be_visible()
        assert [numbers(cells(shown)[label])[0] for label in LABELS] == [
            row[label] for label in LABELS
        ]
    assert value_of(live.page, "every_pair.selected['sentence2'].tolist()") == [wanted]


def test_ticking_a_run_changes_what_is_compared(live: SimpleNamespace):
    from playwright.sync_api import expect

    heads = live.explorer.get_by_role("columnheader")
    rows, box = live.picker.get_by_role("row"), live.page.get_by_role("checkbox")
    boxed, means = rows.filter(has=box), rows.filter(has_not=box)
    expect(boxed).to_have_count(4)
    for label in ("rankcse", "cosent"):
        mine, left = (
            boxed.filter(has_text=label).get_by_role("checkbox"),
            [one for one in LABELS if one != label],
        )
        mine.click()
        expect(means.filter(has_text=label)).to_have_count(0)
        expect(heads.filter(has_text=label)).to_have_count(0)
        wait_until(
            live.page, lambda: value_of(live.page, "sorted(set(picker.runs['label']))"), left
        )
        mine.click()
        expect(means.filter(has_text=label)).not_to_have_count(0)
        expect(heads.filter(has_text=label)).not_to_have_count(0)
    choice(live.picker, "seeds").select_option(label="one by one")
    expect(heads.filter(has_text="simcse, seed 1")).not_to_have_count(0)
    choice(live.picker, "seeds").select_option(label="the first of each")
    expect(heads.filter(has_text="simcse, seed 1")).to_have_count(0)
    assert sorted(set(value_of(live.page, "picker.runs['label'].tolist()"))) == LABELS


def test_a_typed_question_is_answered_by_every_encoder(live: SimpleNamespace):
    from playwright.sync_api import expect

    lines = ["the sailor anchors the boat", HOSTILE, "onion is cut by cook"]
    live.question.get_by_role("textbox", name="targets").fill("\n".join(lines))
    live.question.get_by_role("textbox", name="query").fill(lines[0])
    asked = {
        name: Encoder.from_pretrained(name).encode(lines)
        for name in ("world-encoder", "world-teacher")
    }
    cosines = {name: (rows @ rows[0]).tolist() for name, rows in asked.items()}
    for place, line in enumerate(lines):
        row = live.question.get_by_role("row").filter(has_text=line)
        for name, values in cosines.items():
            shown = pytest.approx(
                [rankdata([-value for value in values])[place], values[place]], abs=6e-4
            )
            wait_until(live.page, lambda: numbers(cells(row).get(name, "")), shown)  # noqa: B023
    expect(live.question.get_by_text(lines[0], exact=True).first).to_be_visible()
    known = value_of(live.page, "question.selected.set_index('target').to_dict('dict')")
    assert set(known["rank: world-encoder"]) == set(lines)
    assert known["rank: world-teacher"][lines[0]] == 1


def test_why_a_target_has_its_rank_is_shown_on_request(live: SimpleNamespace):
    from playwright.sync_api import expect

    query, view = QUERIES[5], live.explorer
    entry(view, query).click()
    view.get_by_role("row").filter(has_text="the singer likes an old bird").get_by_role(
        "cell"
    ).first.click()
    expect(view.get_by_text(re.compile(r"^Why \w"))).to_be_visible()
    for word in ("likes", "bird", "sees", "park"):
        expect(view.get_by_role("rowheader", name=word, exact=True).first).to_be_visible()


def test_the_words_of_two_typed_targets_are_shown_with_their_share_of_the_lead(
    live: SimpleNamespace,
):
    from playwright.sync_api import expect

    encoder = Encoder.from_pretrained("world-encoder")

    def lead(query: str, one: str, other: str) -> float:
        rows = encoder.encode([query, one, other]).double()
        return float(rows[0] @ rows[1] - rows[0] @ rows[2])

    query, one, other = (
        "the sailor anchors the boat",
        "sailor anchors boat",
        "the sailor likes the old boat",
    )
    for name, text in (("query", query), ("target", one), ("against (optional)", other)):
        live.reason.get_by_role("textbox", name=name, exact=True).fill(text)
    wait_until(
        live.page,
        lambda: value_of(live.page, "[reason.query, reason.target, reason.other]"),
        [query, one, other],
    )
    (cosines, *_, of_old, _) = value_of(live.page, "reason.selected.iloc[:, 0].tolist()")
    assert cosines == pytest.approx(lead(query, one, other), abs=1e-5)
    without_old = lead(query, one, "the sailor likes the boat")
    assert of_old == pytest.approx(cosines - without_old, abs=1e-5)
    expect(live.reason.get_by_text("the first cosine minus the second").first).to_be_visible()


def test_a_ranking_forms_as_the_steps_of_its_training_are_moved_through(
    live: SimpleNamespace, runs: SimpleNamespace
):
    from playwright.sync_api import expect

    run = runs.of["cosent", 0]
    watched, history = run.watched(), run.history().dropna(subset=["dev_spearman"])
    steps = history["step"].astype(int).tolist()
    assert watched["step"].unique().tolist() == steps
    slider, view = live.forming.get_by_role("slider"), live.forming
    query = watched["query"].iloc[0]
    candidates = history if run.config.keep_start else history.loc[history["step"] > 0]
    kept = candidates.nlargest(1, "dev_spearman")["step"].iloc[0]
    for key, step in (("Home", 0), ("End", steps[-1])):
        slider.focus()
        live.page.keyboard.press(key)
        label = f"step {step}, kept" if step == kept else f"step {step}"
        expect(view.get_by_role("columnheader", name=label, exact=True)).to_be_visible()
        rows = watched[(watched["query"] == query) & (watched["step"] == step)]
        for target, score in zip(rows["target"], rows["score"], strict=True):
            row = view.get_by_role("row").filter(has_text=target)
            expect(row.get_by_role("cell").last).to_contain_text(f"{score:.3f}")
    expect(view.locator("svg [data-row]")).to_have_count(len(rows))


def test_a_map_of_sentences_has_each_of_them():
    sentences = [*EVERY, SCRIPT]
    vectors = Encoder.from_pretrained("world-encoder").encode(sentences)
    figure = look.sentence_map({"world-encoder": vectors}, sentences)
    shown = [
        re.sub(r"\s+", " ", unescape(text.replace("<br>", " "))) for text in figure.data[0].text
    ]
    assert shown == sentences
    assert len(set(zip(figure.data[0].x, figure.data[0].y, strict=True))) == len(sentences)


def test_hostile_sentences_are_text(live: SimpleNamespace):
    from playwright.sync_api import expect

    for view, words in ((live.explorer, "script stranger"), (live.every_pair, "alert(2)")):
        view.get_by_role("searchbox").fill(words)
        entry(view, HOSTILE).click()
        expect(
            view.get_by_role("row").filter(has_text="rain falls on the house of the stranger")
        ).to_be_visible()
        expect(view.get_by_role("row").filter(has_text=SCRIPT).last).to_be_visible()
        assert view.locator("img[src=x], script").count() == 0


@pytest.fixture(scope="module")
def explorer(runs: SimpleNamespace) -> Any:
    """Return the rankings of the runs in a process without a page that shows them."""
    return look.RankingExplorer({label: runs.of[label, 0] for label in LABELS})


def test_a_notebook_that_is_not_trusted_shows_every_view_as_html(
    live: SimpleNamespace, runs: SimpleNamespace, explorer: Any
):
    given = {label: runs.of[label, 0] for label in LABELS}
    sailor, finished = list(targets("sailor")), look.finished_runs(runs.root, str(runs.suite))
    views = {
        explorer: [QUERIES[0], *targets("baker"), "gold rank", *LABELS],
        look.PairExplorer(given, str(runs.suite)): ["sentence 1", "gold", *LABELS],
        look.RunPicker(finished, str(runs.suite)): ["4 of 4", *LABELS],
        look.Ask({"world-encoder": "world-encoder"}, HOSTILE, sailor): [HOSTILE, *sailor],
        look.Why({"world-encoder": "world-encoder"}, QUERIES[1], sailor[0]): [
            "sailor",
            "little",
            "0.",
        ],
    }
    outputs = [new_output("display_data", view._repr_mimebundle_()[0]) for view in views]
    assert all("application/vnd.jupyter.widget-view+json" in output.data for output in outputs)
    notebook = new_notebook(cells=[new_code_cell("view", outputs=[output]) for output in outputs])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, live.folder / "untrusted.ipynb")
    page = live.page
    command(page, "docmanager:open", path="untrusted.ipynb")  # beside the live one
    page.wait_for_function(f"{OPEN}?.context?.path === 'untrusted.ipynb'", polling=BETWEEN)
    panel = page.evaluate(f"{OPEN}.id")
    for place, texts in enumerate(views.values()):
        shown = (
            page.locator(f"[id='{panel}'] .jp-CodeCell").nth(place).locator(".jp-Cell-outputArea")
        )
        for text in texts:
            shown.get_by_text(text).first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    page.evaluate(f"{OPEN}.dispose()")


def test_the_page_to_share_opens_and_searches_offline(
    browser: Any, runs: SimpleNamespace, explorer: Any, tmp_path: Path
):
    from playwright.sync_api import expect

    context, found = browser.new_context(offline=True), []
    page = context.new_page()
    page.on("dialog", lambda dialog: (found.append(dialog.message), dialog.dismiss()))
    page.on(
        "request",
        lambda request: found.append(request.url) if request.url.startswith("http") else None,
    )
    page.on("pageerror", lambda error: found.append(str(error)))
    page.goto(explorer.to_html(tmp_path / "page.html").as_uri())
    main, table = page.get_by_role("main"), ranking(QUERIES[4], runs, LABELS)
    for text in [*QUERIES, HOSTILE, SCRIPT, *targets("driver")]:
        expect(main.get_by_text(text, exact=True).first).to_be_visible()
    for row in table.to_dict("records"):
        shown = cells(main.get_by_role("row").filter(has_text=row["target"]))
        assert [numbers(shown[name])[0] for name in ["gold rank", *LABELS]] == [
            row[name] for name in ["gold rank", *LABELS]
        ]
    page.get_by_role("searchbox").fill("DOG driver")
    expect(main.get_by_text(QUERIES[0], exact=True)).to_be_hidden()
    expect(main.get_by_text(QUERIES[4], exact=True)).to_be_visible()
    context.close()
    assert found == []


def test_a_comparison_and_figures_have_the_numbers_that_the_runs_keep(runs: SimpleNamespace):
    kept = {
        key: json.loads((run.path / "metrics.json").read_text())["mine"]
        for key, run in runs.of.items()
    }
    for (label, seed), values in kept.items():
        scores = scores_of(runs.of[label, seed])
        assert values["spearman"] == pytest.approx(
            spearmanr(runs.pairs.gold, list(scores.values())).statistic
        )
    two = 100 * np.array([kept["simcse", seed]["spearman"] for seed in (0, 1)])
    wanted = {label: f"{100 * kept[label, 0]['spearman']:.2f}" for label in LABELS}
    wanted["simcse"] = f"{two.mean():.2f} ± {two.std(ddof=1):.2f}"
    compared = look.compare_systems(runs.root, samples=20)
    cells = compared.overview()["mine"].str.removesuffix(" ↑").str.removesuffix(" ↓")
    assert cells.to_dict() == wanted
    assert all(value in compared.to_html() for value in wanted.values())

    finished = look.finished_runs(runs.root, str(runs.suite))
    names = finished["label"] + finished["seed"].astype(str)
    found = look.compare_runs(finished.assign(label=names), str(runs.suite), samples=20)
    drawn = {value for trace in look.score_intervals(found).data for value in np.round(trace.x, 2)}
    assert {round(100 * values["spearman"], 2) for values in kept.values()} <= drawn

    history = pd.read_csv(runs.of["cosent", 0].path / "history.csv")
    curve = {trace.name: trace for trace in look.training_curve({"CoSENT": history}).data}
    dev = history.dropna(subset="dev_spearman")
    assert curve["CoSENT: dev"].x.tolist() == dev["step"].tolist()
    assert curve["CoSENT: dev"].y == pytest.approx(100 * dev["dev_spearman"])
    assert curve["CoSENT: loss"].y == pytest.approx(history["loss"].dropna())


def test_a_table_of_a_paper_has_its_numbers_and_those_of_finished_runs(tmp_path: Path):
    printed = look.paper_table("rankcse", 2, {}).loc[("BERT-base, RankCSE-ListNet", "published")]
    assert printed["average"] == "80.05"
    row = look.paper_table("rankcse", 2, {}).loc[("BERT-base, RankCSE-ListNet", "here")]
    assert (row["average"], row["command"]) == ("", "workbench run rankcse --profile paper")

    suite = load_pairs("world-test")
    letters = np.random.default_rng(0).standard_normal((128, 8))

    def encode(sentences: list[str]) -> np.ndarray:
        return np.stack(
            [letters[[ord(letter) % 128 for letter in text]].sum(axis=0) for text in sentences]
        )

    run, report = (
        Run.open(RankCSEConfig.from_parameters("demo"), tmp_path),
        evaluate(encode, {"world-test": suite}),
    )
    run.write_evaluation(report.metrics, report.scores, report.rankings)
    table = look.paper_table(
        "rankcse", 4, look.runs_by_settings(tmp_path), profile="demo", suite="world-test"
    )
    value = json.loads((run.path / "metrics.json").read_text())["world-test"]["spearman"]
    assert table["world-test"].to_dict() == {
        **dict.fromkeys(table.index, ""),
        "RankCSE-ListNet": f"{100 * value:.2f}",
    }
    assert list(table.index[table["command"] == ""]) == ["RankCSE-ListNet"]
