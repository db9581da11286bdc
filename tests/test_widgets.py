"""The explorer without a browser: controls change what is shown, and a page that needs no kernel says the same."""

import base64
import re
import zlib
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench import look
from workbench.errors import RunError
from workbench.look import RankingExplorer, ordered_queries
from workbench.rankings import COLUMNS

WORDS = ["the cat sleeps", "a dog <b>barks</b>", "the bird sings", "a cat and a dog"]


def table(seed: int, suite: str = "few", queries: int = 4) -> pd.DataFrame:
    """Queries of five targets with drawn scores; gold falls from target to target."""
    draw = np.random.default_rng(seed)
    rows = []
    for number in range(queries):
        scores = draw.permutation(5) / 10
        for place, score in enumerate(scores):
            rank = float((scores > score).sum() + 1)
            target = f"target {place} of {number}"
            rows.append((suite, f"q{number}", f"{number}.{place}", WORDS[number], target, 5.0 - place, score, rank))
    return pd.DataFrame(rows, columns=list(COLUMNS))


@pytest.fixture
def explorer() -> RankingExplorer:
    return RankingExplorer({"one": table(1), "two": table(2)})


def unpacked(page: str) -> str:
    """The tables and charts of a shared page."""
    (packed,) = re.findall(r'<script id="packed" type="text/plain">(.*?)</script>', page)
    return zlib.decompress(base64.b64decode(packed)).decode()


def does(explorer: RankingExplorer, **done: Any) -> None:
    """As the browser says it."""
    explorer._told(None, done, None)


def listed(explorer: RankingExplorer) -> list[tuple[str, str]]:
    """What stands before each query of the list, and the query."""
    found = re.findall(r"<button[^>]*>(?:<b>(.*?)</b> )?(.*?)</button></li>", explorer.parts["list"])
    return [(value, re.sub("</?mark>", "", query)) for value, query in found]


def test_the_first_query_is_shown_at_once_in_table_and_chart(explorer: RankingExplorer):
    number = explorer.query_id[1:]
    assert f">target 0 of {number}</td>" in explorer.parts["view"]
    assert f"<title>A: target 0 of {number}\n" in explorer.parts["view"]
    assert explorer.order == "disagreement"
    assert explorer.parts["list"].count('aria-current="true"') == 1


def test_another_query_changes_table_and_chart_and_is_the_selection(explorer: RankingExplorer):
    before = explorer.parts["view"]
    does(explorer, chosen="2")
    assert explorer.query_id == "q2"
    assert "target 0 of 2" in explorer.parts["view"] != before
    assert explorer.selected["target"].tolist() == [f"target {place} of 2" for place in range(5)]
    assert {"gold", "rank: one", "score: two"} <= set(explorer.selected)
    explorer.select(chosen="q1", order="data")
    assert explorer.query_id == "q1"
    assert '<option value="data" selected>' in explorer.parts["controls"]
    with pytest.raises(ValueError, match="order is 'wrost'; choose one of data"):
        explorer.select(order="wrost")
    before = [explorer.parts[name] for name in ("status", "list", "view")]
    for wrong, said in (
        ({"search": "bird", "chosen": "q1"}, "'q1' is not listed now"),
        ({"order": "worst", "chosen": "nothing"}, "chosen is 'nothing'"),
        ({"order": "worst", "a": "three"}, "a is 'three'; choose one of one, two"),
    ):
        with pytest.raises(ValueError, match=said):
            explorer.select(**wrong)
        assert (explorer.search, explorer.order, explorer.query_id) == ("", "data", "q1")
        assert [explorer.parts[name] for name in ("status", "list", "view")] == before


@pytest.mark.parametrize("kind", [str, int])
def test_ids_that_are_numbers_are_not_taken_for_rows(kind: type, tmp_path: Path):
    ids = {"q0": 2, "q1": 0, "q2": 7, "q3": 1}
    numbered = [one.assign(query_id=one["query_id"].map(ids).map(kind)) for one in (table(1), table(2))]
    explorer = RankingExplorer(dict(zip(["one", "two"], numbered, strict=True)))
    explorer.select(order="data")
    for row, query_id in enumerate(ids.values()):
        does(explorer, chosen=str(row))
        assert explorer.query_id == kind(query_id)
        assert f"target 0 of {row}" in explorer.parts["view"]
        assert f"few, {query_id})" in explorer.parts["view"]
    explorer.select(chosen=kind(2))
    assert explorer.query_id == kind(2)
    does(explorer, search="bird")
    assert explorer.query_id == kind(7)
    assert 'href="#7"' in explorer.to_html(tmp_path / "page.html").read_text(encoding="utf-8")


def test_search_keeps_the_queries_with_these_words_whatever_their_case_and_marks_them(explorer: RankingExplorer):
    does(explorer, search=" CAT")
    assert sorted(query for _, query in listed(explorer)) == ["a cat and a dog", "the cat sleeps"]
    assert "2 of 4 queries; before each: 1 - tau-b" in explorer.parts["status"]
    assert explorer.query_id in ("q0", "q3")
    assert "<mark>cat</mark>" in explorer.parts["view"]


def test_a_search_is_for_words_in_any_order_in_the_query_or_its_targets(explorer: RankingExplorer):
    does(explorer, search="dog cat")
    assert explorer.query_id == "q3"
    does(explorer, search="2 sings target")
    assert len(listed(explorer)) == 1
    assert explorer.query_id == "q2", "'target 2 of 2' is a target of 'the bird sings'"


def test_a_search_orders_nothing_again(monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(
        "workbench.look.explorer.ordered_queries", lambda *given: made.append(given[1:]) or ordered_queries(*given)
    )
    explorer = RankingExplorer({"one": table(1), "two": table(2)})
    for letters in ("c", "ca", "cat", ""):
        does(explorer, search=letters)
    assert made == [("disagreement", "one", "two")]
    does(explorer, order="worst")
    assert len(made) == 2


def test_a_search_is_text_and_not_a_pattern(explorer: RankingExplorer):
    does(explorer, search="<b>")
    assert [query for _, query in listed(explorer)] == ["a dog &lt;b&gt;barks&lt;/b&gt;"]
    assert "<mark>&lt;b&gt;</mark>" in explorer.parts["list"]
    does(explorer, search=".*")
    assert listed(explorer) == []


def test_a_search_without_a_match_says_so_and_the_way_back_works(explorer: RankingExplorer):
    does(explorer, search="zebra")
    assert "0 of 4 queries" in explorer.parts["status"]
    assert "take a word" in explorer.parts["status"]
    assert explorer.parts["view"] == ""
    assert explorer.selected.empty
    does(explorer, search="")
    assert len(listed(explorer)) == 4
    assert explorer.parts["view"]


def test_order_and_labels_reorder_the_list(explorer: RankingExplorer):
    does(explorer, order="data")
    assert [query for _, query in listed(explorer)] == [escape(words) for words in WORDS]
    assert explorer.query_id == "q0"
    does(explorer, order="worst")
    by_one = [value for value, _ in listed(explorer)]
    assert [float(value) for value in by_one] == sorted(float(value) for value in by_one)
    does(explorer, a="two")
    assert [value for value, _ in listed(explorer)] != by_one


def test_of_many_labels_two_can_be_shown_alone(tmp_path: Path):
    explorer = RankingExplorer({name: table(seed) for seed, name in enumerate(["one", "two", "three"])})
    assert all(f">{name}</th>" in explorer.parts["view"] for name in ("one", "two", "three"))
    does(explorer, show="a and b", b="two")
    assert ">two</th>" in explorer.parts["view"]
    assert "three" not in explorer.parts["view"]
    page = explorer.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "three" not in page + unpacked(page)


def test_the_second_label_of_one_model_is_not_offered():
    one = RankingExplorer({"one": table(1)})
    assert set(re.findall(r'<select name="(\w+)">', one.parts["controls"])) == {"order", "a", "chart"}
    assert list(one.orders) == ["data", "worst"]
    assert "target 0" in one.parts["view"]


def test_another_suite_brings_its_own_queries_and_labels():
    both = pd.concat([table(1), table(3, "other", queries=2)], ignore_index=True)
    explorer = RankingExplorer({"one": table(2), "both": both, "<img src=x>": table(3, "third")})
    explorer.select(b="<img src=x>", suite="third")
    assert (explorer.suite, explorer.b) == ("third", "<img src=x>"), "what is there is known once the suite is"
    with pytest.raises(ValueError, match="b is '<img src=x>'"):
        explorer.select(b="<img src=x>", suite="few")
    assert (explorer.suite, explorer.b) == ("third", "<img src=x>")
    with pytest.raises(ValueError, match="suite is 'fourth'; choose one of few, other, third"):
        explorer.select(suite="fourth")
    does(explorer, suite="few")
    assert "not ranked here: &lt;img src=x&gt;" in explorer.parts["status"]
    explorer.look_at({"one": table(2), "both": both})
    does(explorer, suite="other")
    assert len(listed(explorer)) == 2
    assert explorer.labels == ["both"]
    assert "not ranked here: one" in explorer.parts["status"]
    assert 'name="b"' not in explorer.parts["controls"]
    does(explorer, suite="few")
    assert explorer.labels == ["one", "both"]
    assert 'name="b"' in explorer.parts["controls"]
    assert RankingExplorer({"both": both}, "other").suite == "other"


def test_of_a_long_list_the_first_are_shown_and_the_others_on_demand():
    long = table(1, queries=4).assign(number=0)
    long = pd.concat([long.assign(query_id=long["query_id"] + f".{part}") for part in range(30)], ignore_index=True)
    explorer = RankingExplorer({"one": long})
    assert len(listed(explorer)) == 50
    assert "50 more of 70" in explorer.parts["list"]
    does(explorer, more="50")
    assert len(listed(explorer)) == 100
    assert "20 more of 20" in explorer.parts["list"]


def test_an_unknown_suite_is_refused():
    for suite in ("fwe", ""):
        with pytest.raises(ValueError, match=f"no suite '{suite}' in these rankings; they have few"):
            RankingExplorer({"one": table(1)}, suite)


def test_without_a_kernel_the_first_three_queries_stand_as_html(explorer: RankingExplorer):
    bundle, _ = explorer._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
    html = bundle["text/html"]
    assert html.count("<table") == html.count("<img ") == 3
    for query_id in explorer._listed_ids()[:3]:
        assert f"target 4 of {query_id[1:]}" in html
    assert "<script" not in html
    assert "http" not in html


def test_the_page_has_the_listed_queries_an_index_and_its_own_script_alone(explorer: RankingExplorer, tmp_path: Path):
    page = explorer.to_html(tmp_path / "with space.html").read_text(encoding="utf-8")
    whole = unpacked(page)
    for form in (page, whole):
        assert form.count("<table") == form.count("<section") == 4
        assert all(f'id="{name}"' in form for name in ("q0", "q1", "q2", "q3"))
        assert "a dog &lt;b&gt;barks&lt;/b&gt;" in form
    assert all(f'href="#{name}"' in page for name in ("q0", "q1", "q2", "q3"))
    assert whole.count("<svg") == 4
    assert page.count("<script") == 2, "what is packed, and what unpacks it"
    assert "<script" not in whole
    assert set(re.findall(r"https?://[^\s\"]+", page)) <= {"http://www.w3.org/2000/svg"}, "a name, asked of nobody"
    does(explorer, search="cat")
    assert explorer.to_html(tmp_path / "few.html", limit=1).read_text(encoding="utf-8").count("<table") == 1
    named = RankingExplorer({name: table(1) for name in ("target", "gold rank")})
    plain = named.to_html(tmp_path / "named.html").read_text(encoding="utf-8").partition("<noscript>")[2]
    assert "<th>target<th>gold<th>gold rank<th>target<th>gold rank<tr><td>target " in plain


@pytest.mark.slow
def test_a_page_of_250_queries_and_six_labels_is_a_few_hundred_kilobytes(tmp_path: Path):
    one = table(1, queries=1)
    many = pd.concat([one.assign(query_id=f"q{number}", query=f"query {number}") for number in range(250)])
    draw = np.random.default_rng(0)
    tables = {f"label {number}": many.assign(score=draw.random(len(many))) for number in range(6)}
    assert RankingExplorer(tables).to_html(tmp_path / "page.html").stat().st_size < 500_000


def test_a_page_that_cannot_be_written_is_explained(explorer: RankingExplorer, tmp_path: Path):
    with pytest.raises(RunError, match="cannot write"):
        explorer.to_html(tmp_path / "absent" / "page.html")
    with pytest.raises(ValueError, match="limit is 0"):
        explorer.to_html(tmp_path / "page.html", limit=0)
    does(explorer, search="zebra")
    with pytest.raises(ValueError, match="clear the search"):
        explorer.to_html(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_has_the_whole_view_from_the_start_and_when_it_asks(monkeypatch: pytest.MonkeyPatch):
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(RankingExplorer, "open", lambda view: opened.append(view.get_state()))
    explorer = RankingExplorer({"one": table(1), "two": table(2)})
    assert opened[0]["parts"] == explorer.parts
    assert set(explorer.parts) >= {"controls", "list", "view"}, "no part needs a message that may be lost"
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(explorer, "send_state", lambda key: sent.append(explorer.get_state(key)))
    does(explorer)
    assert sent == [{"parts": explorer.parts}]


def test_what_is_chosen_is_marked_in_the_colour_of_the_text_in_every_theme():
    rules = (Path(look.__file__).parent / "live.css").read_text(encoding="utf-8")
    for chosen in (r"button\[aria-current\]", r"tr\[data-chosen\] td\.text:first-child"):
        assert re.search(chosen + r" \{[^}]*inset 4px 0 var\(--ink\)", rules)


def test_a_name_of_look_is_no_module_also_where_a_module_is_called_so():
    assert [name for name in look.__all__ if isinstance(getattr(look, name), ModuleType)] == []


def test_the_front_end_needs_no_more_than_anywidget_gives_everywhere():
    folder = Path(look.__file__).parent
    script, rules = ((folder / f"live.{ending}").read_text(encoding="utf-8") for ending in ("js", "css"))
    script = re.sub(r"//.*", "", script)
    assert script.rstrip().endswith("export default { render };")
    beyond = r"\b(?:import|require|window|globalThis|fetch|jupyter\w*|document\.(?!createElement))\b"
    assert re.findall(beyond, script) == []
    assert set(re.findall(r"model\.(\w+)", script)) == {"get", "send", "on", "off"}
    # Outside of JupyterLab and VS Code their variables have no value.
    assert re.findall(r"var\(--(?:jp|vscode)-[\w-]+\)", rules) == []
    for rule in re.findall(r"(?m)^([^\s/}@][^{]*)\{", rules):
        assert rule.startswith((".workbench-look", "[data-kind=")), "of its own view alone"
