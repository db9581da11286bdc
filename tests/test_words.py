"""Words of scripts with and without spaces, wherever the project counts or cuts words."""

import re

import pandas as pd
import pytest

from workbench import Encoder, load_pairs
from workbench.commands.output import print_table
from workbench.config import CONFIGS
from workbench.data import Pairs, report
from workbench.evaluation import TfIdf
from workbench.methods.splitting import crop_words, split_words
from workbench.views.encoders import WordOverlap
from workbench.views.pair_explorer import pair_table
from workbench.words import words_of, words_with_space

SPACED = re.compile(r"\w+")  # enough for English


def test_words_of_english_are_runs_of_letters_and_the_text_stays_whole():
    for text in load_pairs("ladders-all").sentence1[:200]:
        assert words_of(text) == SPACED.findall(text.lower())
        assert [word.strip() for word in words_with_space(text)] == text.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("लड़का पानी", ["लड़का", "पानी"]),
        ("e\u0301te\u0301 naïve", ["e\u0301te\u0301", "naïve"]),
        ("他喜欢 tea 。", ["他", "喜", "欢", "tea"]),
        ("お茶とtea", ["お", "茶", "と", "tea"]),
        ("ชา", ["ช", "า"]),
        ("ชา๚ お茶・tea ។", ["ช", "า", "お", "茶", "tea"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
    ],
)
def test_a_mark_belongs_to_its_letter_and_scripts_without_spaces_have_words(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize("model", [WordOverlap(), TfIdf(["लड़का लड़की", "他喜欢喝茶", "她喜欢喝水"])])
def test_words_that_differ_in_a_vowel_sign_differ_and_shared_characters_count(model):
    assert model.score(["लड़का"], ["लड़की"]) == [0]
    assert 0 < model.score(["他喜欢喝茶"], ["她喜欢喝水"])[0] < 1


def test_a_sentence_without_spaces_is_cut_in_parts_and_runs():
    text = "他每天早上喝一杯热茶"
    assert split_words(text) == ("他每天早上", "喝一杯热茶")
    assert split_words("他喝 green tea 每天") == ("他喝 green", "tea 每天")
    assert crop_words(text, 0.4, 0.99) == "一杯热茶"
    assert split_words("the  cat sat") == ("the", "cat sat")
    assert crop_words("one two  three four", 0.5, 0.5) == "two three"


def test_the_report_and_the_table_of_pairs_count_such_words():
    first, second = ["他每天喝茶" * 14, "一群男人"], ["他喝茶", "一群男孩"]
    data = Pairs.from_frame(
        pd.DataFrame({"sentence1": first, "sentence2": second, "score": [1.0, 2.0]})
    )
    assert "sentences of more than 64 words (training cuts them): 1" in report(data)
    table = pair_table({"overlap": data.gold}, data)
    assert table["words"].tolist() == [73, 8]
    assert table["overlap"].iloc[1] == 3 / 5


def test_texts_that_an_encoder_does_not_know_are_named(caplog: pytest.LogCaptureFixture):
    encoder = Encoder.from_pretrained("english-encoder", device="cpu")
    encoder.encode(["他每天早上喝一杯热茶", "一群男人在海滩上"])
    assert "tokens are unknown to bundled:english-encoder; take an " in caplog.text
    caplog.clear()
    encoder.encode(["a cup of hot tea", "men on a beach"])
    assert not caplog.text


def test_a_column_may_have_commas_in_its_name():
    settings = CONFIGS["cosent"].from_parameters(
        "demo", 0, {"columns": "sentence1=Satz A, alt,score=Note (0, 1, 2),"}
    )
    assert settings.columns == {"sentence1": "Satz A, alt", "score": "Note (0, 1, 2)"}


def test_a_printed_table_is_straight_with_signs_of_double_width(capsys: pytest.CaptureFixture):
    print_table(pd.DataFrame({"name": ["数据集", "a"], "n": [1, 2]}))
    head, wide, narrow = capsys.readouterr().out.splitlines()
    assert len(head) == len(narrow) == len(wide) + 3
