"""Stored tokens are those of the tokenizer's own call, whatever its kind, in about four bytes each."""

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import KINDS, POSITIONS, WORDS, tiny_checkpoint, tiny_model, tiny_sentences, tiny_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.testing import assert_close
from transformers import AutoTokenizer, BertTokenizerLegacy, PreTrainedTokenizerFast

from workbench.encoder import Encoder, TokenRows, find_checkpoint
from workbench.encoder._tokens import ids_of, special_tokens
from workbench.errors import EncoderError

ODD = [
    "",
    " ",
    "\t \n",
    "a  dog",
    " a dog ",
    "Él vió",
    "naïve 😀",
    "[MASK] a [SEP]",
    "<mask> a </s>",
    "x" * 300,
    "\u200b",
    "aaa",
]
SENTENCES = [*tiny_sentences(40), *ODD, "the quick brown fox " * 30]


def byte_level() -> PreTrainedTokenizerFast:
    """Byte pairs as RoBERTa's, learnt from the few sentences here."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    inner.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    )
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>"
    )


def unigram() -> PreTrainedTokenizerFast:
    """Pieces with a mark for the space, as sentencepiece's; a special token behind the sentence alone, as T5's."""
    inner = Tokenizer(models.Unigram())
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    inner.train_from_iterator(SENTENCES, trainer)
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def in_python(folder: Path) -> Any:
    """A tokenizer that has no part in Rust."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "x"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    return BertTokenizerLegacy(str(folder / "vocab.txt"))


TOKENIZERS = {
    "words, BERT": lambda _: tiny_tokenizer("bert"),
    "words, RoBERTa": lambda _: tiny_tokenizer("roberta"),
    "word pieces": lambda _: AutoTokenizer.from_pretrained(find_checkpoint("world-encoder").folder),
    "byte pairs": lambda _: byte_level(),
    "unigram": lambda _: unigram(),
    "in Python": in_python,
}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return TOKENIZERS[request.param](tmp_path)


@pytest.mark.parametrize("limit", [None, 9, 3])
@pytest.mark.parametrize("special", [True, False])
def test_ids_are_those_of_the_tokenizers_own_call(tokenizer: Any, limit: int | None, special: bool) -> None:
    texts = [text or " " for text in SENTENCES]
    tokenizer(texts, padding=True, truncation=True, max_length=5)  # what an earlier call set must not stay
    expected = tokenizer(
        texts, add_special_tokens=special, truncation=limit is not None, max_length=limit, padding=False, verbose=False
    )["input_ids"]
    assert ids_of(tokenizer, texts, limit, special=special) == expected
    again = tokenizer(texts, padding=True, return_tensors="pt", verbose=False)  # and what this one set does not either
    assert again["input_ids"].shape == (len(texts), max(map(len, tokenizer(texts, verbose=False)["input_ids"])))


def test_bare_tokens_with_the_special_ones_around_are_the_whole_sentence(tokenizer: Any) -> None:
    before, after = special_tokens(tokenizer)
    texts = [text or " " for text in SENTENCES]
    around = [[*before, *row, *after] for row in ids_of(tokenizer, texts, special=False)]
    assert around == ids_of(tokenizer, texts)


def test_a_tokenizer_with_a_call_of_its_own_is_asked_itself() -> None:
    class Own(PreTrainedTokenizerFast):
        def _encode_plus(self, *args: Any, **options: Any) -> Any:
            found = super()._encode_plus(*args, **options)
            found["input_ids"] = [[0, *ids] for ids in found["input_ids"]]
            return found

    plain = tiny_tokenizer("bert")
    own = Own(tokenizer_object=plain.backend_tokenizer, pad_token="[PAD]")
    assert ids_of(own, ["a dog"]) == [[0, *plain("a dog")["input_ids"]]]


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return Encoder(tiny_model(request.param), tiny_tokenizer(request.param), max_tokens=12).eval()


def test_a_batch_of_stored_rows_is_the_padded_batch_of_the_tokenizer(encoder: Encoder) -> None:
    stored = encoder.token_rows(text for text in SENTENCES)
    assert len(stored) == len(SENTENCES)
    index = [7, 0, 7, len(SENTENCES) - 1, 41]
    expected = encoder.tokenizer(
        [SENTENCES[i] or " " for i in index], truncation=True, max_length=12, padding=True, return_tensors="pt"
    )
    for rows in (index, np.array(index)):
        batch = stored.batch(rows)
        assert set(batch) == {"input_ids", "attention_mask"}
        for name, found in batch.items():
            assert torch.equal(found, expected[name])


def test_bare_rows_have_their_special_tokens_in_the_batch(encoder: Encoder) -> None:
    bare, whole = encoder.bare_rows(SENTENCES), encoder.token_rows(SENTENCES, max_tokens=POSITIONS)
    short = [i for i, size in enumerate(whole.lengths) if size < POSITIONS]
    assert len(bare.flat) < len(whole.flat) or len(short) < len(SENTENCES)
    for name, found in bare.batch(short).items():
        assert torch.equal(found, whole.batch(short)[name])


def test_stores_are_joined_in_their_order(encoder: Encoder) -> None:
    whole = encoder.token_rows(SENTENCES)
    joined = TokenRows.joined([encoder.token_rows(part) for part in (SENTENCES[:9], [], SENTENCES[9:])])
    assert np.array_equal(joined.flat, whole.flat)
    assert np.array_equal(joined.starts, whole.starts)


def test_a_store_takes_little_more_than_its_tokens() -> None:
    encoder = Encoder(tiny_model("bert"), tiny_tokenizer("bert"))
    sentences = itertools.islice(itertools.cycle(tiny_sentences(500)), 40_000)
    encoder.token_rows(["a dog"])
    tracemalloc.start()
    stored = encoder.token_rows(sentences)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stored.flat.dtype == np.int32
    ours = stored.flat.nbytes + stored.starts.nbytes + stored.lengths.nbytes
    assert held < 1.05 * ours
    assert peak < 1.7 * ours  # an eighth too much while it grows, the lengths twice, and one chunk in Python's lists


@pytest.mark.usefixtures("no_type_checks")
def test_half_a_character_and_what_is_no_list_are_named(encoder: Encoder) -> None:
    given = {
        "sentence 2500 is no text .* half of a character; read its file": [*["a dog"] * 2500, "a \ud800 dog"],
        "None of type NoneType": None,
        "5 of type int": 5,
        "one string was given": "a dog",
    }
    for call in (encoder.vectors, encoder.tokenize, encoder.token_rows, encoder.bare_rows):
        for words, sentences in given.items():
            with pytest.raises(EncoderError, match=words):
                call(sentences)
    with pytest.raises(EncoderError, match="no sentences cannot be padded"):
        encoder.tokenize([])
    assert len(encoder.token_rows([])) == 0


def test_a_template_is_around_every_stored_sentence(tmp_path: Path) -> None:
    template, other = 'the book "{sentence}" sees [MASK] .', "[MASK] : {sentence}"
    encoder = Encoder.from_pretrained(tiny_checkpoint(tmp_path), "mask", template=template, max_tokens=16)
    sentences = ["a dog", "", " ".join(WORDS)]
    for text, rows in (
        (template, encoder.token_rows(sentences)),
        (other, encoder.token_rows(sentences, template=other)),
    ):
        ids = rows.batch([0])["input_ids"][0].tolist()
        assert ids == encoder.tokenizer(text.format(sentence="a dog"))["input_ids"]
        assert rows.lengths.max() == 16
        assert (rows.batch([0, 1, 2])["input_ids"] == encoder.tokenizer.mask_token_id).sum(dim=1).tolist() == [1, 1, 1]
    assert_close(encoder(encoder.tokenize(sentences)), encoder(encoder.token_rows(sentences).batch([0, 1, 2])))
