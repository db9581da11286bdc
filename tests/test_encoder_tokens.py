"""Stored tokens are those of the tokenizer's own call, whatever its kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import (
    KINDS,
    POSITIONS,
    WORDS,
    tiny_checkpoint,
    tiny_sentences,
    tiny_tokenizer,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.testing import assert_close
from transformers import AutoTokenizer, BertTokenizerLegacy, PreTrainedTokenizerFast

from workbench.checkpoints import find_checkpoint
from workbench.encoder import Encoder
from workbench.encoder._tokens import special_tokens, token_ids
from workbench.errors import EncoderError

ODD = [
    "",
    " ",
    "\t \n",
    "a  dog",
    "Él vió",
    "naïve 😀",
    "[MASK] a [SEP]",
    "<mask> a </s>",
    "x" * 300,
    "\u200b",
]
SENTENCES = [*tiny_sentences(40), *ODD, "the quick brown fox " * 30]


def byte_level() -> PreTrainedTokenizerFast:
    """Return byte pairs like RoBERTa's, trained on a few sentences."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    inner.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    )
    inner.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
    )


def in_python(folder: Path) -> Any:
    """Return a tokenizer without a Rust implementation."""
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "x"])
    )
    return BertTokenizerLegacy(str(folder / "vocab.txt"))


TOKENIZERS = {
    "words, RoBERTa": lambda _: tiny_tokenizer("roberta"),
    "word pieces": lambda _: AutoTokenizer.from_pretrained(find_checkpoint("world-encoder").folder),
    "byte pairs": lambda _: byte_level(),
    "in Python": in_python,
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_those_of_the_tokenizers_own_call(name: str, tmp_path: Path) -> None:
    tokenizer, texts = TOKENIZERS[name](tmp_path), [text or " " for text in SENTENCES]
    # Settings of an earlier call must not persist.
    tokenizer(texts, padding=True, truncation=True, max_length=5)
    whole = token_ids(tokenizer, texts)
    bare = token_ids(tokenizer, texts, special=False)
    assert whole == tokenizer(texts, verbose=False)["input_ids"]
    assert bare == tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    before, after = special_tokens(tokenizer)
    assert [[*before, *row, *after] for row in bare] == whole
    for limit in (9, 3):  # an encoder cuts in front of the last special tokens
        cut = [row if len(row) <= limit else [*row[: limit - len(after)], *after] for row in whole]
        assert (
            cut == tokenizer(texts, truncation=True, max_length=limit, verbose=False)["input_ids"]
        )


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return Encoder.from_pretrained(
        tiny_checkpoint(tmp_path_factory.mktemp("tiny"), request.param), train_length=12
    )


def test_a_batch_of_stored_rows_is_the_padded_batch_of_the_tokenizer(encoder: Encoder) -> None:
    stored = encoder.token_rows(text for text in SENTENCES)
    index = [7, 0, 7, len(SENTENCES) - 1, 41]
    expected = encoder.tokenizer(
        [SENTENCES[i] or " " for i in index],
        truncation=True,
        max_length=12,
        padding=True,
        return_tensors="pt",
    )
    for rows in (index, np.array(index)):
        batch = stored.batch(rows)
        assert batch.pop("lengths") == batch["attention_mask"].sum(dim=1).tolist()
        assert set(batch) == {"input_ids", "attention_mask"}
        assert all(torch.equal(values, expected[name]) for name, values in batch.items())
    assert stored.flat.dtype == np.int32


def test_bare_rows_are_the_rows_without_special_tokens(encoder: Encoder) -> None:
    before, after = special_tokens(encoder.tokenizer)
    bare = encoder.bare_rows(SENTENCES)
    whole = encoder.token_rows(SENTENCES, train_length=POSITIONS)
    for i, size in enumerate(whole.lengths):
        if size < POSITIONS:
            own = whole.batch([i])["input_ids"][0].tolist()
            words = bare.batch([i])["input_ids"][0].tolist()
            assert own == [*before, *words, *after]


@pytest.mark.usefixtures("no_type_checks")
def test_what_is_no_sentence_is_named_by_its_number_in_the_whole_list(encoder: Encoder) -> None:
    sentences = [*["a dog"] * 2500, float("nan")]
    for call in (encoder.encode, encoder.tokenize, encoder.bare_rows):
        with pytest.raises(EncoderError, match="sentence 2500 is nan of type float, not a string"):
            call(sentences)


def test_a_length_without_room_for_a_word_is_refused(encoder: Encoder) -> None:
    for length in (2, 0, -5):
        with pytest.raises(EncoderError, match=f"train_length is {length}: choose 3 or more"):
            encoder.tokenize(SENTENCES, train_length=length)


def test_a_template_is_around_every_stored_sentence(tmp_path: Path) -> None:
    template, other = 'the book "{sentence}" sees [MASK] .', "[MASK] : {sentence}"
    encoder = Encoder.from_pretrained(
        tiny_checkpoint(tmp_path), "mask", template=template, train_length=16
    )
    sentences = ["a dog", "", " ".join(WORDS)]
    rows = encoder.token_rows(iter(sentences), second_template=other)
    assert rows.lengths.max() == 16
    for text, first in ((template, 0), (other, len(sentences))):
        ids = rows.batch([first])["input_ids"][0].tolist()
        assert ids == encoder.tokenizer(text.format(sentence="a dog"))["input_ids"]
        batch = rows.batch(range(first, first + len(sentences)))["input_ids"]
        assert (batch == encoder.tokenizer.mask_token_id).sum(dim=1).tolist() == [1, 1, 1]
    assert_close(
        encoder(encoder.tokenize(sentences)),
        encoder(encoder.token_rows(sentences).batch([0, 1, 2])),
    )
