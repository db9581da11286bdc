"""Every pair of a suite: where each label has it, how the list is ordered and filtered, what one pair shows."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.data import Pairs
from workbench.evaluation import Report
from workbench.look import PairExplorer, pair_explorer, pair_table

HOSTILE = '<b>bold</b> & "quotes" it\'s $1 to $2 <script>alert(1)</script>'
SENTENCES = [
    ("a cat", "a cat sleeps"),
    ("a cat", "the dog barks"),
    ("one bird", HOSTILE),
    ("x", "y"),
    ("a cat", "no cat"),
]
GOLD = [5.0, 1.0, 3.0, 3.0, 4.0]
RIGHT = [0.9, 0.1, 0.6, 0.5, 0.8]
WRONG = [0.1, 0.9, 0.6, 0.5, 0.8]


def pairs() -> Pairs:
    first, second = zip(*SENTENCES, strict=True)
    names = [f"p{number}" for number in range(5)]
    return Pairs("few", [*first], [*second], np.array(GOLD), [*"ssttt"], names, (0, 5), source="here", checksum="0")


def explorer(**found: Any) -> PairExplorer:
    return PairExplorer(found or {"before": WRONG, "after": RIGHT}, pairs())


def does(view: PairExplorer, **done: Any) -> list[str]:
    """As the browser says it; returns the pairs that are listed then."""
    view._told(None, done, None)
    return view.selected["pair_id"].tolist()


def test_every_pair_has_its_rank_among_all_and_its_distance_from_golds():
    table = pair_table({"right": RIGHT, "wrong": WRONG}, pairs())
    assert table["rank: wrong"].tolist() == [5, 1, 3, 4, 2]
    # Gold's places: 1, 5, 3 or 4, 3 or 4, 2. Of five pairs a place is a quarter of the list.
    assert table["error: wrong"].tolist() == [-1, 1, 0, 0, 0]
    assert table["error: right"].tolist() == [0, 0, 0, 0, 0]
    assert table["overlap"].tolist() == pytest.approx([2 / 3, 0, 0, 0, 1 / 3])
    assert table["subset"].tolist() == ["s", "s", "t", "t", "t"]


def test_scores_of_a_report_are_found_and_those_of_other_pairs_refused():
    rows = {"suite": "few", "subset": "", "pair_id": [f"p{number}" for number in range(5)], "gold": GOLD}
    scores = pd.DataFrame({**rows, "predicted": RIGHT})
    assert pair_table({"m": Report({}, scores, pd.DataFrame())}, pairs())["score: m"].tolist() == RIGHT
    with pytest.raises(ValueError, match="'m' has no scores of these pairs as 'few'"):
        pair_table({"m": scores.assign(suite="other")}, pairs())
    part = pair_table({"m": scores.iloc[:0:-1], "n": WRONG}, pairs())
    assert part["pair_id"].tolist() == ["p1", "p2", "p3", "p4"], "those that both have scored"
    assert part["score: m"].tolist() == RIGHT[1:]
    with pytest.raises(ValueError, match="its gold differs"):
        pair_table({"m": scores.assign(gold=1.0)}, pairs())
    with pytest.raises(ValueError, match=r"'m' has scores of shape \(2,\) for 5 pairs"):
        pair_table({"m": [1, 2]}, pairs())
    with pytest.raises(ValueError, match="no scores to look at"):
        pair_table({}, pairs())


@pytest.mark.parametrize(
    ("order", "first"),
    [("gain", "p0"), ("near", "p1"), ("far", "p0"), ("gold", "p0"), ("data", "p0"), ("disagreement", "p0")],
)
def test_pairs_are_ordered_by_what_was_asked(order: str, first: str):
    assert does(explorer(), order=order)[0] == first


def test_loss_is_gain_with_a_and_b_exchanged():
    view = explorer()
    gained = does(view, order="gain")
    assert does(view, order="loss", a="after", b="before") == gained


def test_pairs_are_filtered_by_gold_subset_and_words_of_either_side():
    view = explorer()
    assert does(view, order="data", low="3", high="4") == ["p2", "p3", "p4"]
    assert "3 of 5 pairs" in view.parts["status"]
    assert does(view, subset="s") == []
    assert "take a word or a limit away" in view.parts["status"]
    assert does(view, low="", high="") == ["p0", "p1"]
    assert does(view, subset="", search="CAT dog") == ["p1"]
    assert "<mark>cat</mark>" in view.parts["list"]
    view.select(search="", low=4.5)
    assert view.selected["pair_id"].tolist() == ["p0"]
    view.select(low=None)
    assert len(view.selected) == 5
    assert 'aria-label="gold from" value=""' in view.parts["controls"]
    with pytest.raises(TypeError):
        view.select(low=[1])
    assert len(view.selected) == 5


def test_a_pair_shows_each_of_its_sentences_with_all_partners():
    view = explorer()
    does(view, chosen="4")
    shown = re.findall(r'class="number">[A-Z]</td><td class="text">(.*?)</td>', view.parts["view"])
    assert shown == ["a cat sleeps", "no cat", "the dog barks"]
    assert view.parts["view"].count("<svg") == 1
    does(view, chosen="3")
    assert "Neither sentence stands in another pair." in view.parts["view"]


def test_a_page_of_all_pairs_finds_each_threshold_and_draws_each_sentence_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found, drawn, finds, draws = [], [], pair_explorer.best_threshold, pair_explorer.view_parts
    monkeypatch.setattr(pair_explorer, "view_parts", lambda one, **how: drawn.append(one.query) or draws(one, **how))
    view = explorer()
    monkeypatch.setattr(pair_explorer, "best_threshold", lambda *both: found.append(both) or finds(*both))
    does(view, same=4)
    assert view.to_html(tmp_path / "page.html").read_text(encoding="utf-8").count("<section") == 5
    assert len(found) == 2
    assert len(drawn) == len(set(drawn)) > 0


def test_text_is_shown_as_text_with_and_without_a_search():
    view = explorer(**{HOSTILE: RIGHT, "b": WRONG})
    for search in ("", "<b> quotes"):
        does(view, search=search, chosen="2")
        shown = "".join(view.parts.values()) + view.static()
        assert "<script" not in shown
        assert "<b>bold" not in shown
        assert "alert(1)" in shown


def test_without_a_kernel_the_first_pairs_stand_as_html():
    bundle, _ = explorer()._repr_mimebundle_()
    assert "The first of 5 pairs of few" in bundle["text/html"]
    assert bundle["text/html"].count("<tr") == 1 + 5 + 1 + 2 + 1 + 3 + 2, (
        "the pairs, the decision of two labels on the first, and its query"
    )
