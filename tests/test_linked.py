"""Charts beside a list: what they show, what a press does, which encoders they ask, and what they do not say by hue."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_pairs import GOLD, RIGHT, WRONG, does, pairs
from test_ranking_html import table

from workbench.data import Pairs
from workbench.look import PairExplorer, RankingExplorer
from workbench.look._charts import fitted, sentences_map, similarities
from workbench.look.pairs import best_threshold
from workbench.look.queries import QueryView

HOSTILE = '<script>alert(1)</script> & "quotes" $1 to $2'


class Encoder:
    """Vectors by the letters of a sentence, and how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, sentences: list[str]) -> np.ndarray:
        self.asked += sentences
        return np.array([[len(text), text.count("a"), 1 + text.count("e")] for text in sentences], dtype=float)


def explorer(gold: list[float] = GOLD, **encoders: Any) -> PairExplorer:
    return PairExplorer({"before": WRONG, "after": RIGHT}, replace(pairs(), gold=np.array(gold)), encoders=encoders)


def of_pairs(sentences: list[tuple[str, str]], **encoders: Any) -> PairExplorer:
    """Of pairs whose gold falls from the first on."""
    first, second = map(list, zip(*sentences, strict=True))
    count = len(sentences)
    gold, names = np.linspace(5, 0, count), [f"p{place}" for place in range(count)]
    data = Pairs("few", first, second, gold, None, names, (0, 5), source="here", checksum="0")
    return PairExplorer({"m": np.arange(count) / count}, data, encoders=encoders)


def drawn_numbers(html: str) -> list[str]:
    return re.findall(r">(-?\d\.\d\d)</td>", html)


def test_a_box_is_drawn_in_each_band_of_gold_that_has_pairs_and_the_chosen_pair_is_marked():
    view = explorer()
    view.select(chart="gold", chosen=2)
    bands = re.findall(r'aria-label="gold (.+?): (\d) pairs"', view.parts["view"])
    assert bands == [
        ("1 to 1.8", "1"),
        ("1.8 to 2.6", "0"),
        ("2.6 to 3.4", "2"),
        ("3.4 to 4.2", "1"),
        ("4.2 to 5", "1"),
    ]
    assert view.parts["view"].count("6 6 -6 6 -6 -6z") == 2, "a diamond a label"
    assert "gold 2.6 to 3.4, before: median 0.550" in view.parts["view"]


@pytest.mark.parametrize("gold", [GOLD, [0.0, 0.6, 1.2, 1.8, 3.0], [1.0, 2.0, 3.0, 4.0, 6.0], [0.7, 0.2, 1e-9, 3.3, 4]])
def test_a_press_on_a_band_lists_the_pairs_that_it_counts_and_another_takes_the_limit_away(gold: list[float]):
    view = explorer(gold)
    does(view, chart="gold", order="data")
    bands = re.findall(r'data-value="([^"]+)" aria-label="gold .+?: (\d) pairs"', view.parts["view"])
    assert len(bands) == 5
    for band, count in bands:
        assert len(does(view, band=band)) == int(count)
        low, high = band.split()
        assert f'aria-label="gold from" value="{low}"' in view.parts["controls"]
        assert f'aria-label="gold to" value="{high}"' in view.parts["controls"]
        assert len(does(view, band=band)) == 5


def test_no_encoder_is_asked_before_a_chart_needs_it():
    encoder = Encoder()
    view = explorer(before=encoder)
    does(view, chosen="3")
    assert "Neither sentence stands in another pair" in view.parts["view"]
    assert "<figure" not in view.parts["view"], "no ranks to draw, and no other chart in their place"
    assert encoder.asked == []
    does(view, chart="map")
    assert sorted(encoder.asked) == sorted(set(view.table["sentence1"]) | set(view.table["sentence2"]))
    encoder.asked.clear()
    does(view, colour="error", chosen="1")
    assert encoder.asked == [], "each sentence is encoded once"


def test_the_map_marks_the_chosen_pair_and_its_signs_say_how_far_and_which_way():
    view = explorer(after=Encoder())
    view.select(chart="map", colour="movement", chosen=4)
    html = view.parts["view"]
    assert re.findall(r'<g data-row="(\d)" data-tell="chosen"', html) == ["1", "2"]
    assert html.count("<line") == 3, "of 'a cat' to its three partners"
    blue = re.findall(r'<path d="M[^"]+" fill="#0072b2"', html.split("<small>PCA")[0])
    assert len(blue) == 2, "the sentences of the two that gained all"
    assert re.search(r"fill=.#0072b2.[^>]*/></g></svg> b is nearer to gold than a", html), (
        "the legend has the sign itself"
    )
    does(view, colour="gold", chosen="0")
    assert "gold above the middle" in view.parts["view"]


def test_a_press_on_a_sign_chooses_its_pair():
    view = explorer(after=Encoder())
    does(view, chart="map")
    tell = re.search(r'data-tell="chosen" data-value="(\d)"><title>x\n', view.parts["view"])
    does(view, chosen=tell[1])
    assert view.parts["view"].index(">x<br>y<") >= 0
    kept = does(view, low="5")
    assert kept == ["p0"]
    signs = re.findall(r'<g(?: data-row="\d")?( data-tell="chosen" data-value="0")?><title>', view.parts["view"])
    assert len(signs) == 4, "the pair, and the partners of its first sentence"
    assert sum(map(bool, signs)) == 2, "those that are not listed cannot be chosen"
    assert len(re.findall("data-tell", view.parts["view"])) == 2


def test_of_a_sentence_with_many_partners_the_map_asks_for_few_and_says_so():
    encoder = Encoder()
    view = of_pairs([("one", f"partner {place}") for place in range(5000)], m=encoder)
    does(view, search="4999")
    view._plane(view._readers["m"])
    known = len(encoder.asked)
    view.select(chart="map")
    assert 0 < len(encoder.asked) - known <= 21
    assert "at most the 20 that gold has nearest" in view.parts["view"]
    assert view.parts["view"].count("<line") == 21, "of the chosen pair, and of those"


def test_a_sentence_that_is_both_sides_of_a_pair_stands_once():
    view = of_pairs([("a", "a"), ("a", "b"), ("a", "c")], m=Encoder())
    assert view.parts["view"].count("<svg") == 1
    for chart in ("map", "similarities"):
        view.select(chart=chart, chosen=0)
        assert view.parts["view"].count("<figure") == 1
        drawn = 1 if chart == "similarities" else 0
        assert view.parts["view"].count("<table") == 2 + drawn, "the decision, and one query"


def test_while_somebody_types_the_field_stays():
    view = explorer()
    for name in ("same", "low", "search"):
        before = view.parts["controls"]
        does(view, **{name: "4"})
        assert view.parts["controls"] == before, name


def test_other_rankings_without_encoders_take_charts_back_that_need_them():
    tables = {"a": table(RIGHT, WRONG), "b": table(WRONG, RIGHT)}
    for chart in ("similarities", "map"):
        view = RankingExplorer(tables, encoders={"a": Encoder()})
        view.select(chart=chart, colour="movement")
        view.look_at({"a": tables["a"]})
        assert all(getattr(view, name) in offered for name, offered in view.known().items())
        assert "<svg" in view.parts["view"]
    assert "<figure" not in similarities(QueryView.made("one", ["two"], None, {"m": np.array([0.5])}), {})


def test_similarities_are_the_cosines_of_the_query_and_its_targets_written_in_their_cells():
    rows, shown = fitted("PCA", np.eye(3))(np.eye(3))
    assert shown == "100% of the variance", "three points lie in a plane"
    assert rows.shape == (3, 2)
    view = QueryView.made("one", [HOSTILE], None, {"m": np.array([0.5])})
    html = similarities(view, {HOSTILE: lambda texts: np.array([[1, 0], [0.5, 0.75**0.5]])[: len(texts)]})
    assert drawn_numbers(html) == ["1.00", "0.50", "0.50", "1.00"]
    assert "<script" not in html


def test_a_query_and_its_targets_have_a_map_and_similarities_under_a_and_b():
    tables = {"a": table(RIGHT, WRONG), "b": table(WRONG, RIGHT), "c": table(RIGHT, RIGHT)}
    view = RankingExplorer(tables, encoders={"a": Encoder(), "b": Encoder()})
    view.select(chart="similarities", a="a", b="b")
    assert view.parts["view"].count("<figure") == 2
    view.select(chart="map", a="c", b="c", colour="error")
    assert view.parts["view"].count("<figure") == 1, "where neither has an encoder, the first that there is"
    assert re.findall(r'<g data-row="([?A-Z])"', view.parts["view"]) == ["?", *"ABCDE"]
    assert '<tr data-row="E">' in view.parts["view"], "hovering marks both"
    view.select(chart="gold")
    assert view.parts["view"].count("6 6 -6 6 -6 -6z") == 5 * 3
    assert "data-tell" not in view.parts["view"]


def test_charts_that_need_an_encoder_are_offered_where_there_is_one():
    without, one = explorer(), explorer(after=Encoder())
    assert 'value="map"' not in without.parts["controls"]
    assert 'value="map"' in one.parts["controls"]
    with pytest.raises(ValueError, match="chart is 'map'; choose one of ranks, gold"):
        without.select(chart="map")


def test_without_umap_the_map_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workbench.look._charts.find_spec", lambda _: None)
    view = explorer(after=Encoder())
    with pytest.raises(ValueError, match=r"UMAP needs umap-learn.*pip install 'ranking-workbench\[maps\]'"):
        view.select(chart="map", plane="UMAP")
    assert (view.chart, view.plane) == ("ranks", "PCA")


def test_an_encoder_that_cannot_be_read_takes_the_chart_alone():
    for wrong, said in (("no-such-encoder", "no-such-encoder"), (3, "&#x27;after&#x27; is a int")):
        view = explorer(after=wrong)
        does(view, chart="similarities")
        assert 'role="alert"' in view.parts["view"]
        assert said in view.parts["view"]
    assert "<tr" in view.parts["list"]


def test_text_is_shown_as_text_in_the_map():
    html = sentences_map(
        {HOSTILE: (np.eye(2), "")}, [HOSTILE, "b"], np.array([1.0, -1.0]), named={0: "?"}, said=HOSTILE
    )
    assert "<script" not in html
    assert "alert(1)" in html


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_decides_as_many_pairs_rightly_as_any(seed: int):
    draw = np.random.default_rng(seed)
    same, scores = draw.random(12) < 0.4, draw.integers(0, 6, 12) / 5
    cuts = [-np.inf, *(scores - 0.01), np.inf]
    best = max(np.mean((scores >= cut) == same) for cut in cuts)
    threshold, share = best_threshold(same, scores)
    assert share == pytest.approx(best)
    assert np.mean((scores >= threshold) == same) == pytest.approx(share)


def test_a_pair_says_what_each_label_decides_and_whether_that_is_right():
    view = explorer()
    view.select(chosen=1)
    assert ">gold 3 or more: not the same<" in view.parts["view"]
    assert ">✗ the same<" in view.parts["view"], "before has it nearest"
    assert ">✓ not the same<" in view.parts["view"]
    assert ">100%<" in view.parts["view"]
    view.select(same=9)
    assert "No decision" in view.parts["view"]


def test_pairs_are_limited_by_length_and_words_in_common():
    view = explorer()
    counts, shares = view.table["words"].tolist(), view.table["overlap"].tolist()
    assert counts[0] == 5
    assert does(view, order="data", words_high="4") == [f"p{n}" for n, count in enumerate(counts) if count <= 4]
    assert does(view, words_high="", overlap_low="30") == [f"p{n}" for n, share in enumerate(shares) if share >= 0.3]
    assert does(view, overlap_low="-") == [f"p{n}" for n in range(5)], "half a number is none yet"
