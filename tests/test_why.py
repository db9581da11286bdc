"""Why a target stands where it stands: the effects of words and the sums of tokens, and what is seen of them."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_checkpoints import WORDS
from written_runs import SUITE, write_run

from workbench.config import BaseConfig, CoSENTConfig, SimCSEConfig
from workbench.encoder import Encoder
from workbench.errors import EncoderError
from workbench.look import (
    Ask,
    PairExplorer,
    RankingExplorer,
    Why,
    _asked,
    encoders_of_runs,
    finished_runs,
    rankings_of_runs,
    scores_of_runs,
)
from workbench.look._asked import encode_of
from workbench.look._reasons import left_out, pieces, split_of, token_split
from workbench.runs import Run

QUERY, TARGET = "the chef chops the onion", "onion is cut by cook"
HOSTILE = '<script>alert(1)</script> & "quotes" $1 to $2 \u202eright \U0001f600\nanother line'


@pytest.fixture(scope="module")
def english() -> Encoder:
    return Encoder.from_pretrained("english-encoder", device="cpu", precision="fp32")


def counts(sentences: list[str]) -> np.ndarray:
    """How often each of four words stands in a sentence, and one number that is always there."""
    return np.array([[1.0, *(sentence.split().count(word) for word in "abcd")] for sentence in sentences])


@pytest.mark.parametrize("text", [QUERY, " a  b ", "今天天气 fine", HOSTILE, " ".join(["word"] * 1000), "x" * 5000, ""])
def test_pieces_are_the_sentence_again_and_few(text: str):
    found = pieces(text)
    assert "".join(found) == text
    assert len(found) <= 40
    assert pieces("今天 ok") == ["今", "天 ", "ok"]


def test_the_effect_of_a_word_is_what_the_cosine_loses_without_it():
    rows = {text: row / np.linalg.norm(row) for text, row in zip(TEXTS, counts(TEXTS), strict=True)}
    full, effects = left_out(lambda texts: np.stack([rows[text] for text in texts]), ["a b", "a c"])
    assert full == pytest.approx(2 / 3)
    # Without "a" of the query: (1 + 0) / (sqrt 2 sqrt 3); without "b": 2 / (sqrt 2 sqrt 3).
    assert effects[0] == pytest.approx([2 / 3 - 1 / 6**0.5, 2 / 3 - 2 / 6**0.5])
    assert effects[1] == pytest.approx(effects[0])


TEXTS = ["a b", "a c", "a", "b", "c"]


def test_with_a_second_target_the_effects_are_of_the_lead_and_turn_their_sign():
    view = Why({"counts": counts}, "a b", "a c", "d c")
    table = view.selected
    assert table["side"].tolist() == ["all", *["query"] * 2, *["target"] * 2, *["other"] * 2]
    lead = 2 / 3 - 1 / 3
    assert table["counts"].iloc[0] == pytest.approx(lead)
    without_d = 2 / 3 - 1 / 6**0.5
    assert table["counts"].iloc[5] == pytest.approx(lead - without_d)
    assert table["counts"].iloc[5] > 0, "d moves the second target away, which is what the lead hangs on"


@pytest.mark.parametrize("pooling", ["mean", "first_last", "embedding_last"])
def test_the_pairs_of_tokens_add_up_to_the_cosine(english: Encoder, pooling: str):
    encoder = (
        english
        if pooling == "mean"
        else Encoder.from_pretrained("english-encoder", pooling, device="cpu", precision="fp32")
    )
    first, second = "The train to the coast was late because of snow.", "Bad weather delayed the railway."
    split = token_split(encoder, first, second)
    cosine = float(Encoder.similarity(encoder.encode(first), encoder.encode(second)))
    # float32 states of width d, summed over l tokens: rounding of some d * l units of the last place.
    assert split.cosine == pytest.approx(cosine, abs=2**-24 * encoder.width)
    assert split.terms.shape == (len(split.first), len(split.second))
    assert split.first[:3] == ["[CLS]", "the", "train"]
    names, vectors = encoder.token_vectors(first)
    assert len(names) == len(vectors)
    torch.testing.assert_close(vectors.mean(dim=0), encoder.vectors([first])[0])


@pytest.mark.slow
def test_in_bf16_too_the_map_adds_up_to_the_cosine_that_is_shown():
    half = Encoder.from_pretrained("english-encoder", device="cpu", precision="bf16")
    table, (reader,) = (view := Why({"half": half}, QUERY, TARGET)).selected, view._readers
    exact = 2**-24 * half.width
    assert split_of(reader, QUERY, TARGET).cosine == pytest.approx(table["half"].iloc[0], abs=exact)
    asked = Ask({"half": half}, QUERY, [TARGET], corpus=["a"]).selected
    assert asked["score: half"].tolist() == pytest.approx(table["half"].iloc[:1].tolist(), abs=exact), "to Ask too"
    assert encode_of("half", half.vectors).__name__ == "vectors", "what was given is asked, and no other"
    assert half.precision == "bf16", "the encoder that was given stays as it was"
    own = float(Encoder.similarity(half.encode(QUERY), half.encode(TARGET)))
    assert own != pytest.approx(table["half"].iloc[0], abs=exact), "bf16 is seen here"


def test_what_is_folded_and_summed_adds_up_to_the_same(english: Encoder):
    split = token_split(english, " ".join(WORDS[:20]), TARGET)
    short = split.folded(6)
    assert len(short.first) == 6
    assert short.first[-1] == f"{len(split.first) - 5} others"
    assert short.cosine == pytest.approx(split.cosine)
    sums, (rows, columns) = short.with_sums()
    assert sums[-1, -1] == pytest.approx(split.cosine)
    assert sums.shape == (len(rows), len(columns))
    assert rows[-1] == columns[-1] == "all"


def test_words_and_maps_of_every_encoder_stand_side_by_side(english: Encoder):
    view = Why({"english": english, "counts": counts}, QUERY, TARGET)
    html = view.parts["answer"]
    assert re.findall("<caption>(.*?)</caption>", html)[:2] == ["query", "target"]
    assert len(re.findall("<caption>english: ", html)) == 1
    assert "counts has no map: only an Encoder says what its tokens are." in html
    assert re.search(r">[▲▼]0\.\d{3}<", html)
    view._told(None, {"other": "the boat sinks"}, None)
    assert len(re.findall("<caption>english: ", view.parts["answer"])) == 2
    assert view.parts["answer"].count("counts has no map") == 1, "of two targets too"


def test_encoders_that_take_no_mean_have_no_map_and_say_so_once():
    view = Why({"start": "world-encoder", "again": "world-encoder"}, QUERY, TARGET)
    assert view.parts["answer"].count("start, again have no map: pooling &#x27;cls&#x27; takes no mean") == 1


def test_an_encoder_that_cannot_be_read_hides_no_other(tmp_path):
    def broken(sentences: list[str]) -> np.ndarray:
        raise EncoderError("its weights are <b>lost</b>")

    view = Why({"broken": broken, "none": tmp_path / "none", "counts": counts}, "a b", "a c", "d c")
    for html in (view.parts["answer"], view._repr_mimebundle_()[0]["text/html"]):
        assert html.count("<table") == 3
        assert "broken cannot be asked: its weights are &lt;b&gt;lost&lt;/b&gt;." in html
        assert "none cannot be asked" in html
    assert list(view.selected) == ["side", "word", "counts"]
    alone = Why({"none": tmp_path / "none"}, "a", "b")
    assert "none cannot be asked" in alone.parts["problem"]
    assert "none cannot be asked" in alone._repr_mimebundle_()[0]["text/html"]


@pytest.mark.parametrize("label", ["side", "word"])
def test_a_label_is_no_column_of_the_table_of_words(label: str):
    with pytest.raises(EncoderError, match=f"a label is '{label}'"):
        Why({label: counts}, "a", "b")
    assert list(Why({"self": counts}, "a", "b").selected) == ["side", "word", "self"]


def test_vectors_of_many_edits_are_not_all_kept_and_a_corpus_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_asked, "_KEPT", 5)
    read = []
    rows = _asked.Vectors("counts", lambda texts: read.extend(texts) or counts(texts))
    corpus = [f"a b {number}" for number in range(20)]
    assert list(rows.reading(corpus)), "as Ask does, which then asks for single sentences first"
    for letter in range(30):
        assert len(rows([f"query {letter}"])) == 1
        assert len(rows(corpus)) == len(corpus)
    assert len(rows._known) == 5 + len(corpus)
    assert len(read) == 30 + len(corpus), "each once"


def test_text_is_shown_as_text_and_what_lacks_is_said():
    view = Why({HOSTILE: counts}, HOSTILE, "a " * 2500)
    for part in [*view.parts.values(), view.static()]:
        assert "<script" not in part
    view.select(query=" ")
    assert "type one" in view.parts["problem"]
    assert "type one" in view.static()
    with pytest.raises(EncoderError, match="no encoder to ask"):
        Why({}, "a", "b")
    with pytest.raises(TypeError, match="select has no sead"):
        view.select(sead="")


def test_without_a_kernel_the_tables_stand_there(english: Encoder):
    bundle, _ = Why({"english": english}, QUERY, TARGET)._repr_mimebundle_()
    html = bundle["text/html"]
    assert html.count("<table") == 3
    assert 'class="number' not in html, "styles stand in the elements"


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 2.0)
    return finished_runs(tmp_path, SUITE)


def test_in_the_explorers_a_click_opens_it_and_a_second_one_closes_it(runs):
    asked = []

    def encode(sentences: list[str]) -> np.ndarray:
        asked.extend(sentences)
        return counts(sentences)

    tables = rankings_of_runs(runs, SUITE)
    explorer = RankingExplorer(tables, SUITE, encoders={"simcse": encode, "elsewhere": encode})
    assert not asked, "nothing is encoded before somebody asks"
    assert '<button name="why" value="B"' in explorer.parts["view"]
    explorer._told(None, {"why": "B"}, None)
    target = explorer.selected["target"].iloc[1]
    assert f"<b>Why B?</b> {target}" in explorer.parts["why"]
    assert "elsewhere" not in explorer.parts["why"], "only of the labels that are shown"
    explorer._told(None, {"against": "A"}, None)
    assert "second target" in explorer.parts["why"]
    explorer._told(None, {"why": "B"}, None)
    assert explorer.parts["why"] == ""
    assert 'name="why"' not in explorer.static()

    explorer._told(None, {"why": "B"}, None)
    explorer.select(chart="gold")
    assert "Why B?" in explorer.parts["why"], "another chart leaves the list as it is"
    with pytest.raises(ValueError, match="order"):
        explorer.select(a="elsewhere", order="none such")
    explorer.redraw()
    assert "Why B?" in explorer.parts["why"], "what is refused changes nothing"
    explorer.select(order="data")
    assert explorer.parts["why"] == ""

    simcse, elsewhere = explorer._readers.values()
    explorer._told(None, {"why": "B"}, None)
    explorer.look_at(tables, {"simcse": encode, "elsewhere": counts})
    assert explorer.parts["why"] == "", "what is shown instead may have another B"
    assert explorer._readers["simcse"] is simcse, "what it has loaded stays"
    assert explorer._readers["elsewhere"] is not elsewhere

    every = PairExplorer(scores_of_runs(runs, SUITE), SUITE, encoders={"simcse": encode})
    every._told(None, {"why": "this score"}, None)
    every.select(chart="gold")
    assert "Why this score?" in every.parts["why"]
    assert 'name="against"' not in every.parts["why"]


def test_what_cannot_be_asked_leaves_the_rankings_there(runs):
    explorer = RankingExplorer(rankings_of_runs(runs, SUITE), SUITE, encoders={"simcse": 3})
    explorer._told(None, {"why": "A"}, None)
    assert "is a int" in explorer.parts["why"]
    assert explorer.parts["view"]


def test_the_encoders_of_runs_are_those_of_the_rankings_and_the_start(runs):
    run = runs["path"].iloc[0]
    assert encoders_of_runs(runs) == {}, "this run keeps no encoder"
    Encoder.from_pretrained("world-encoder").save(f"{run}/encoder")
    found = encoders_of_runs(runs)
    assert list(found) == list(rankings_of_runs(runs, SUITE)) == ["before", "simcse"]
    assert found["before"].load().source == "bundled:world-encoder"
    assert list(encoders_of_runs(runs, before=False)) == ["simcse"]
    assert encoders_of_runs(runs) == found, "who has loaded them knows them again"


def test_what_was_evaluated_as_it_is_can_be_asked_too(tmp_path):
    for profile in ("demo", "demo-whitening"):
        write_run(tmp_path, BaseConfig.from_parameters(profile, 0, {"encoder": "english-encoder"}), 2.0)
    runs = finished_runs(tmp_path, SUITE)
    found = encoders_of_runs(runs, before=False)
    of = {Run(row["path"]).config.profile: row["label"] for row in runs.to_dict("records")}
    assert list(found) == [of["demo"]], "a whitened vector is no encoder's"
    assert found[of["demo"]].load().pooling == "cls", "as it was evaluated"


def test_before_is_one_encoder_and_runs_without_vectors_are_left_out(tmp_path):
    given = (({"model": "interaction"}, True), ({"scale": 5.0}, False), ({"scale": 10.0}, True))
    for seed, (changed, keeps) in enumerate(given):
        run = write_run(tmp_path, CoSENTConfig.from_parameters("demo", seed, changed), 2.0)
        if keeps:
            (run.path / "encoder").mkdir()
    runs = finished_runs(tmp_path, SUITE)
    of_seed = {row["seed"]: row["label"] for row in runs.to_dict("records")}
    assert list(encoders_of_runs(runs, before=False)) == [of_seed[2]]
    for first in of_seed.values():
        labels = sorted(of_seed.values(), key=lambda label, first=first: label != first)
        before = rankings_of_runs(runs, SUITE, labels=labels)["before"]
        path = runs.loc[runs["label"] == first, "path"].iloc[0]
        pd.testing.assert_frame_equal(before, Run(path).rankings("before"))
        start = encoders_of_runs(runs, labels=labels).get("before")
        assert (str(start.path) == path) if first == of_seed[2] else start is None
