"""Asking without a browser: what is ranked, what is encoded again, what is said of what cannot be shown."""

import asyncio
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.errors import EncoderError
from workbench.look import Ask

HOSTILE = '<script>alert(1)</script> & "quotes" it\'s $1 to $2 \u202eright to left'
VECTORS = {"query": [1.0, 0.0], "near": [0.9, 0.1], "middle": [0.5, 0.5], "far": [0.0, 1.0]}


class Encoder:
    """Vectors by name, the query's the other way where it is `turned`, and what was asked of it."""

    def __init__(self, turned: bool = False) -> None:
        self.known = VECTORS | {"query": [0.0, 1.0]} if turned else VECTORS
        self.asked: list[str] = []

    def encode(self, sentences: list[str]) -> np.ndarray:
        self.asked += sentences
        return np.array([self.known.get(sentence, [0.7, 0.3]) for sentence in sentences])


def ask(encoders: dict[str, Any] | None = None, **given: Any) -> Ask:
    shown = {"query": "query", "targets": ["far", "near", "middle"], "corpus": list(VECTORS)} | given
    return Ask(encoders or {"one": Encoder(), "two": Encoder(turned=True)}, **shown)


def does(view: Ask, name: str, value: Any) -> None:
    """As the browser says it."""
    view._told(None, {name: value}, None)


def test_targets_are_ranked_by_the_cosine_under_each_encoder():
    view = ask()
    assert view.selected["target"].tolist() == ["near", "middle", "far"]
    assert view.selected["score: one"].tolist() == pytest.approx([0.9 / np.hypot(0.9, 0.1), np.sqrt(0.5), 0])
    assert view.selected["rank: one"].tolist() == [1, 2, 3]
    assert "held against" not in view.parts["answer"]
    assert "further than one has" in re.sub(r"\s+", " ", view.parts["answer"])
    assert "KCC" not in view.parts["answer"]


def test_with_gold_ranks_are_held_against_it():
    view = ask(gold=[5, 0, 3])
    assert view.selected["target"].tolist() == ["far", "middle", "near"]
    assert view.selected["gold"].tolist() == [5, 3, 0]
    assert ">KCC</th>" in view.parts["answer"]
    assert ">-100.0<" in view.parts["answer"]


@pytest.mark.parametrize(
    ("typed", "said"), [("5 1", "2 for 3 targets"), ("a b c", "not all numbers"), ("1 2 -1", "least 0")]
)
def test_gold_that_does_not_fit_is_left_out_and_it_is_said(typed: str, said: str):
    view = ask()
    does(view, "gold", typed)
    assert said in view.parts["status"]
    assert "near" in view.parts["answer"]
    does(view, "gold", "3, 2, 1")
    assert view.parts["status"] == '<span role="status"></span>'
    assert view.selected["gold"].tolist() == [3, 2, 1]


def test_after_an_edit_only_what_is_new_is_encoded():
    encoder = Encoder()
    view = ask({"one": encoder})
    assert sorted(encoder.asked) == sorted(VECTORS)
    encoder.asked.clear()
    does(view, "targets", "far\n\nnear\nanother")
    assert encoder.asked == ["another"]
    assert set(view.selected["target"]) == {"far", "near", "another"}


def test_what_is_typed_ends_the_reading_for_what_was_typed_before():
    encoder, said = Encoder(), []
    view = ask({"one": encoder})
    view.observe(lambda change: said.append(change["new"]["status"]), "parts")
    old, new = ([f"{name} {number}" for number in range(1000)] for name in ("old", "new"))

    async def typed() -> None:
        view._told(None, {"targets": "\n".join(old)}, None)
        while not any("of 1,000 sentences" in status for status in said):
            await asyncio.sleep(0.001)
        view._told(None, {"targets": "\n".join(new)}, None)
        await view._task

    asyncio.run(typed())
    assert set(new) <= set(encoder.asked)
    assert not set(old) <= set(encoder.asked), "the rest of the old lines is of no more use"
    assert "one reads: 64 of 1,000 sentences" in "".join(said)
    assert view.selected["target"].tolist() == new


def test_another_corpus_is_read_by_its_name_or_file_and_a_wrong_one_is_refused_beside_the_answer(tmp_path: Path):
    view = ask()
    (tmp_path / "mine.txt").write_text("near\nfar\nmiddle\n", encoding="utf-8")
    does(view, "corpus", str(tmp_path / "mine.txt"))
    assert "3 sentences" in view.parts["controls"]
    assert "the nearest of 3" in view.parts["answer"]
    does(view, "corpus", "no-such-set")
    assert "no-such-set" in view.parts["status"]
    assert "the nearest of 3" in view.parts["answer"]


def test_the_query_and_its_targets_have_a_map_and_similarities_under_each_encoder():
    view = ask()
    does(view, "chart", "similarities")
    assert view.parts["answer"].count("<figure") == 2
    assert re.findall(r">(-?\d\.\d\d)</td>", view.parts["answer"])[:4] == ["1.00", "0.99", "0.71", "0.00"]
    view.select(chart="map", gold=[5, 0, 3])
    assert re.findall(r'<g data-row="([?A-Z])"', view.parts["answer"]) == [*"?ABC"] * 2
    assert view.parts["answer"].count("100% of the variance") == 2, "a plane shows all of what has two coordinates"


def test_of_a_corpus_the_nearest_stand_side_by_side_and_shared_ones_are_marked():
    view = ask(targets=(), corpus=["near", "middle", "far", "other"])
    view.select(nearest=2)
    cell = r'<td class="text(?: shade0)?" data-row="[A-Z]">(● )?(\w+) '
    assert re.findall(cell, view.parts["answer"]) == [("", name) for name in ("near", "far", "other", "middle")]
    does(view, "nearest", "3")
    names = [("", "near"), ("", "far"), ("● ", "other"), ("● ", "middle"), ("● ", "middle"), ("● ", "other")]
    assert re.findall(cell, view.parts["answer"]) == names
    assert "2 of 3 stand under every encoder" in view.parts["answer"]


def test_rank_vectors_stand_beside_the_cosine():
    view = ask({"one": Encoder()})
    does(view, "ranks", True)
    # The corpus by closeness to "query": query, near, middle, far; to "near": near, query, middle, far. Spearman 0.8.
    assert view.selected["score: one, rank vectors"].iloc[0] == pytest.approx(0.8)


def test_text_is_shown_as_text():
    view = ask({HOSTILE: Encoder()}, query=HOSTILE, targets=[HOSTILE, "near"])
    for part in [*view.parts.values(), view.static()]:
        assert "<script" not in part
        assert "&amp; &quot;" in part or HOSTILE not in part
    view.select(among="the corpus")
    assert "<script" not in "".join(view.parts.values())


def test_where_nothing_can_be_shown_it_is_said_and_the_next_edit_helps():
    view = ask()
    does(view, "query", " ")
    assert "no query yet; type one" in view.parts["problem"]
    assert view.parts["answer"] == ""
    does(view, "query", "far")
    assert view.parts["problem"] == ""
    assert view.selected["target"].iloc[0] == "far"


def test_controls_are_left_alone_while_somebody_types():
    view = ask()
    before = view.parts["controls"]
    does(view, "query", "far")
    assert view.parts["controls"] == before
    view.select(query="near")
    assert "\nnear</textarea>" in view.parts["controls"]
    with pytest.raises(TypeError, match="select has no sead"):
        view.select(sead=1)
    before = dict(view.parts)
    for name, wrong in (
        ("query", None),
        ("targets", "near"),
        ("targets", [1]),
        ("gold", 3),
        ("ranks", "no"),
        ("nearest", "²"),
        ("nearest", 0),
        ("chart", "nonsense"),
        ("among", "nonsense"),
    ):
        with pytest.raises(ValueError, match=f"{name} is .*; (give|choose)"):
            view.select(**{"query": "far", "corpus": ["other"], name: wrong})
    assert view.parts == before
    view.select(corpus=["near", "far"], among="the corpus")
    assert "the nearest of 2" in view.parts["answer"]


def test_a_chart_is_offered_where_there_is_one_to_draw():
    view = ask({"one": Encoder()})
    of_lines, of_corpus = ("targets", "gold", "chart"), ("nearest",)
    assert "No chart of ranks" in view.parts["answer"], "one encoder has nothing to be compared with"
    assert all(f'name="{name}"' in view.parts["controls"] for name in of_lines)
    does(view, "gold", "1 2 3")
    assert "No chart of ranks" not in view.parts["answer"]
    does(view, "among", "the corpus")
    assert [f'name="{name}"' in view.parts["controls"] for name in (*of_lines, *of_corpus)] == [False] * 3 + [True]
    does(view, "nearest", "²")
    assert view.nearest == 10, "no number, though a digit"


@pytest.mark.parametrize("kind", ["list", "pairs"])
def test_of_a_large_corpus_as_many_as_asked_are_drawn_from_all_of_it(kind: str, tmp_path: Path):
    corpus = [f"sentence {place}" for place in range(200)]
    if kind == "pairs":
        rows = [f"{one},{other},{place % 6}" for place, (one, other) in enumerate(pairwise(corpus))]
        (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]), encoding="utf-8")
    drawn = [ask(corpus=tmp_path / "pairs.csv" if kind == "pairs" else corpus, limit=10)._corpus for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == len(set(drawn[0])) == 10
    assert not set(drawn[0]) <= set(corpus[:20])


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError])
def test_what_a_function_of_the_readers_own_refuses_is_said_while_a_loop_runs_too(error: type[Exception]):
    def encode(sentences: list[str]) -> np.ndarray:
        if "wrong" in sentences:
            raise error("a number is missing")
        return Encoder().encode(sentences)

    view = ask({"one": encode})

    async def typed(query: str) -> None:
        view._told(None, {"query": query}, None)
        await view._task

    asyncio.run(typed("wrong"))
    assert "a number is missing" in view.parts["problem"]
    assert "reads" not in view.parts["status"]
    asyncio.run(typed("far"))
    assert view.parts["problem"] == ""
    assert "far" in view.parts["answer"]


def test_without_a_kernel_the_answer_stands_there():
    bundle, _ = ask()._repr_mimebundle_()
    html = bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert html.count("<table") == html.count("<img ") == 1
    assert 'class="number' not in html, "styles stand in the elements"


def test_what_is_no_encoder_is_refused():
    with pytest.raises(EncoderError, match="no encoder to ask"):
        Ask({})
    with pytest.raises(EncoderError, match="'one' is a int"):
        ask({"one": 3})


@pytest.mark.slow
def test_the_bundled_encoder_is_there_when_none_is_named():
    view = Ask(query="the chef chops the onion", limit=100)
    assert len(view.selected) == 10
    assert view.selected.iloc[:, 1].is_monotonic_increasing
