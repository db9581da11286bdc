"""The explorer without a browser: controls change what is shown, and a page that needs no kernel says the same."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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


def drawn(explorer: RankingExplorer) -> dict:
    (output,) = explorer.chart.outputs
    return output["data"]["application/vnd.plotly.v1+json"]


def test_the_first_query_is_shown_at_once_in_table_and_chart(explorer: RankingExplorer):
    number = explorer.query.value[1:]
    assert f"target 0 of {number}" in explorer.table.value
    assert f"target 0 of {number}" in drawn(explorer)["data"][0]["text"][0]
    assert explorer.order.value == "disagreement"


def test_another_query_changes_table_and_chart(explorer: RankingExplorer):
    before = explorer.table.value, drawn(explorer)
    explorer.query.index = 2
    assert f"target 0 of {explorer.query.value[1:]}" in explorer.table.value
    assert explorer.table.value != before[0]
    assert drawn(explorer) != before[1]


def test_the_number_goes_through_the_list_and_follows_it(explorer: RankingExplorer):
    explorer.number.value = 3
    assert explorer.query.index == 2
    assert f"target 0 of {explorer.query.value[1:]}" in explorer.table.value
    explorer.query.index = 1
    assert explorer.number.value == 2
    explorer.search.value = "cat"
    assert (explorer.number.value, explorer.number.max) == (1, 2)
    explorer.number.value = 99
    assert explorer.query.index == 1


def test_search_keeps_the_queries_with_these_words_whatever_their_case(explorer: RankingExplorer):
    explorer.search.value = " CAT"
    assert sorted(value for _, value in explorer.query.options) == ["q0", "q3"]
    assert "2 of 4 queries; before each: 1 - tau-b" in explorer.status.value
    assert explorer.query.value in ("q0", "q3")


def test_a_search_is_for_words_in_any_order_in_the_query_or_its_targets(explorer: RankingExplorer):
    explorer.search.value = "dog cat"
    assert [value for _, value in explorer.query.options] == ["q3"]
    explorer.search.value = "2 sings target"
    assert [value for _, value in explorer.query.options] == ["q2"], "'target 2 of 2' is a target of 'the bird sings'"


def test_a_search_orders_nothing_again(monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(
        "workbench.look.explorer.ordered_queries", lambda *given: made.append(given[1:]) or ordered_queries(*given)
    )
    explorer = RankingExplorer({"one": table(1), "two": table(2)})
    for letters in ("c", "ca", "cat", ""):
        explorer.search.value = letters
    assert made == [("disagreement", "one", "two")]
    explorer.order.value = "worst"
    assert len(made) == 2


def test_a_search_is_text_and_not_a_pattern(explorer: RankingExplorer):
    explorer.search.value = "<b>"
    assert [value for _, value in explorer.query.options] == ["q1"]
    explorer.search.value = ".*"
    assert explorer.query.options == ()


def test_a_search_without_a_match_says_so_and_the_way_back_works(explorer: RankingExplorer):
    explorer.search.value = "zebra"
    assert "no query has the words &#x27;zebra&#x27;" in explorer.status.value
    assert explorer.table.value == ""
    assert explorer.chart.outputs == ()
    explorer.search.value = ""
    assert len(explorer.query.options) == 4
    assert explorer.table.value


def test_order_and_labels_reorder_the_list(explorer: RankingExplorer):
    explorer.order.value = "data"
    assert [value for _, value in explorer.query.options] == ["q0", "q1", "q2", "q3"]
    assert explorer.query.value == "q0"
    explorer.order.value = "worst"
    by_one = [text.split()[0] for text, _ in explorer.query.options]
    assert [float(value) for value in by_one] == sorted(float(value) for value in by_one)
    explorer.first.value = "two"
    assert [text.split()[0] for text, _ in explorer.query.options] != by_one


def test_of_many_labels_two_can_be_shown_alone(tmp_path: Path):
    explorer = RankingExplorer({name: table(seed) for seed, name in enumerate(["one", "two", "three"])})
    assert all(f">{name}</th>" in explorer.table.value for name in ("one", "two", "three"))
    explorer.show.value = "a and b"
    explorer.second.value = "two"
    assert ">two</th>" in explorer.table.value
    assert ">three</th>" not in explorer.table.value
    assert "three" not in explorer.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(drawn(explorer)["layout"]["xaxis"]["tickvals"]) == 3, "gold, one and two"


def test_the_second_label_of_one_model_is_not_offered():
    one = RankingExplorer({"one": table(1)})
    assert [value for _, value in one.order.options] == ["data", "worst"]
    suite, _, _, second, show = one.widget.children[:5]
    assert [row.layout.display for row in (suite, second, show)] == ["none"] * 3
    assert "target 0" in one.table.value


def test_another_suite_brings_its_own_queries_and_labels():
    both = pd.concat([table(1), table(3, "other", queries=2)], ignore_index=True)
    explorer = RankingExplorer({"one": table(2), "both": both})
    explorer.suite.value = "other"
    assert len(explorer.query.options) == 2
    assert explorer.first.options == (("both", "both"),)
    assert "not ranked here: one" in explorer.status.value
    explorer.suite.value = "few"
    assert explorer.first.options == (("one", "one"), ("both", "both"))
    assert RankingExplorer({"both": both}, "other").suite.value == "other"


def test_an_unknown_suite_is_refused():
    with pytest.raises(ValueError, match="no suite 'fwe' in these rankings; they have few"):
        RankingExplorer({"one": table(1)}, "fwe")


def test_without_a_kernel_the_first_three_queries_stand_as_html(explorer: RankingExplorer):
    bundle = explorer._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.widget.model_id
    html = bundle["text/html"]
    assert html.count("<table") == html.count("<img ") == 3
    for _, query_id in explorer.query.options[:3]:
        assert f"target 4 of {query_id[1:]}" in html
    assert "<script" not in html
    assert "http" not in html


def test_the_page_has_the_listed_queries(explorer: RankingExplorer, tmp_path: Path):
    page = explorer.to_html(tmp_path / "with space.html").read_text(encoding="utf-8")
    assert page.count("<table") == 4
    assert "a dog &lt;b&gt;barks&lt;/b&gt;" in page
    assert "<script" not in page
    explorer.search.value = "cat"
    assert explorer.to_html(tmp_path / "few.html", limit=1).read_text(encoding="utf-8").count("<table") == 1


def test_a_page_that_cannot_be_written_is_explained(explorer: RankingExplorer, tmp_path: Path):
    with pytest.raises(RunError, match="cannot write"):
        explorer.to_html(tmp_path / "absent" / "page.html")
    with pytest.raises(ValueError, match="limit is 0"):
        explorer.to_html(tmp_path / "page.html", limit=0)
    explorer.search.value = "zebra"
    with pytest.raises(ValueError, match="clear the search"):
        explorer.to_html(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
