"""What an encoder promises about its embeddings, whatever the backbone and the pooling."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoints import KINDS, POSITIONS, WORDS, tiny_checkpoint, tiny_sentences
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from workbench.data import Pairs
from workbench.encoder import POOLINGS, Encoder, _model
from workbench.encoder._hardware import choose_precision
from workbench.encoder._tokens import falling_batches
from workbench.errors import EncoderError
from workbench.evaluation import evaluate

TEMPLATE = 'the book "{sentence}" sees [MASK] .'
SENTENCES = tiny_sentences(23)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("a checkpoint"), request.param)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder.from_pretrained(folder)


def load(folder: Path, pooling: str, **options: object) -> Encoder:
    template = TEMPLATE if pooling == "mask" else None
    return Encoder.from_pretrained(folder, pooling, template=template, **options)


def by_hand(encoder: Encoder, sentence: str) -> Tensor:
    """The pooling of one sentence, token after token, from the hidden states of a batch of one."""
    if encoder.pooling == "mask":
        sentence = TEMPLATE.format(sentence=sentence).replace("[MASK]", encoder.tokenizer.mask_token)
    ids = encoder.tokenizer(sentence)["input_ids"]
    with torch.no_grad():
        states = encoder.backbone(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    last, layer1, embedding = states[-1][0], states[1][0], states[0][0]
    rows = range(len(ids))
    if encoder.pooling == "cls":
        return last[0]
    if encoder.pooling == "mask":
        return last[ids.index(encoder.tokenizer.mask_token_id)]
    if encoder.pooling == "max":
        return torch.stack([max(last[i, k] for i in rows) for k in range(encoder.width)])
    first = {"mean": last, "first_last": layer1, "embedding_last": embedding}[encoder.pooling]
    return sum((first[i] + last[i]) / 2 for i in rows) / len(ids)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling_is_what_its_name_says(folder: Path, pooling: str) -> None:
    encoder = load(folder, pooling)
    expected = torch.stack([by_hand(encoder, sentence) for sentence in SENTENCES])
    with torch.no_grad():
        assert_close(encoder(encoder.tokenize(SENTENCES)), expected, atol=2e-6, rtol=1e-5)
    assert_close(encoder.encode(SENTENCES), functional.normalize(expected, dim=1), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_never_changes_an_embedding(folder: Path, pooling: str) -> None:
    encoder = load(folder, pooling)
    batch = encoder.tokenize(SENTENCES)
    padded = {
        "input_ids": functional.pad(batch["input_ids"], (0, 5), value=encoder.tokenizer.pad_token_id),
        "attention_mask": functional.pad(batch["attention_mask"], (0, 5)),
    }
    with torch.no_grad():
        assert_close(encoder(padded), encoder(batch), atol=2e-6, rtol=1e-5)


def test_rows_are_unit_float32_on_the_cpu_in_the_order_given(encoder: Encoder) -> None:
    rows = encoder.encode(SENTENCES, batch_size=4)
    assert (rows.dtype, rows.device.type, rows.shape) == (torch.float32, "cpu", (len(SENTENCES), encoder.width))
    assert_close(rows.norm(dim=1), torch.ones(len(SENTENCES)))
    alone = torch.cat([encoder.encode([sentence]) for sentence in SENTENCES])
    assert_close(rows, alone, atol=2e-6, rtol=1e-5)
    assert (rows @ rows.T - torch.eye(len(rows))).max() < 0.999  # distinct sentences are told apart


def test_equal_sentences_are_encoded_once_and_have_equal_rows(encoder: Encoder) -> None:
    seen: list[int] = []
    hook = encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    rows = encoder.encode([SENTENCES[0], SENTENCES[1], SENTENCES[0], SENTENCES[0]])
    hook.remove()
    assert sum(seen) == 2
    assert torch.equal(rows[[0, 0]], rows[2:])


def test_batches_fall_in_length_and_hold_every_sentence_once() -> None:
    lengths = torch.randint(1, 50, (301,), generator=torch.Generator().manual_seed(3)).numpy()
    batches = list(falling_batches(lengths, rows=16, tokens=200))
    assert sorted(i for batch in batches for i in batch) == list(range(301))
    ordered = [lengths[i] for batch in batches for i in batch]
    assert ordered == sorted(ordered, reverse=True)
    assert all(len(batch) <= 16 and (len(batch) == 1 or len(batch) * lengths[batch[0]] <= 200) for batch in batches)
    assert [len(batch) for batch in falling_batches(lengths, rows=1000, tokens=1)] == [1] * 301


def test_encode_gives_each_training_flag_back_and_uses_no_dropout(folder: Path) -> None:
    encoder = load(folder, "cls", dropout=0.5).train()
    encoder.backbone.embeddings.eval()
    flags = [part.training for part in encoder.modules()]
    first, second = encoder.encode(SENTENCES), encoder.encode(SENTENCES)
    assert torch.equal(first, second)
    assert [part.training for part in encoder.modules()] == flags
    with pytest.raises(EncoderError):
        encoder.encode([1])
    assert [part.training for part in encoder.modules()] == flags


def test_rows_can_enter_autograd_later(encoder: Encoder) -> None:
    weight = torch.ones(encoder.width, requires_grad=True)
    (encoder.encode(SENTENCES) * weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize("given", [2.5, 0, -1, "64", True, None])
def test_a_batch_size_that_is_no_number_of_sentences_is_refused(encoder: Encoder, given: object) -> None:
    for call in (encoder.encode, encoder.vectors):
        with pytest.raises(EncoderError, match=f"batch_size is {given!r}; it is a whole number, at least 1"):
            call(SENTENCES, given)
    assert torch.equal(encoder.encode(SENTENCES, np.int64(4)), encoder.encode(SENTENCES, 4))


def test_no_sentences_give_no_rows_and_an_empty_sentence_is_a_space(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.width)
    assert torch.equal(encoder.encode([""]), encoder.encode([" "]))
    assert torch.isfinite(encoder.encode(["", "a dog"])).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [(["a dog", 3], "sentence 1 is 3 of type int"), ([None], "sentence 0 is None")],
)
def test_what_is_no_list_of_sentences_is_named(encoder: Encoder, given: object, words: str) -> None:
    with pytest.raises(EncoderError, match=words):
        encoder.encode(given)
    with pytest.raises(EncoderError, match=words):
        encoder.tokenize(given)


def test_one_sentence_gives_the_vector_that_it_has_in_a_list(encoder: Encoder) -> None:
    whole = encoder.encode(["a dog", "the red cat"])
    assert torch.equal(encoder.encode("a dog"), encoder.encode(["a dog"])[0])
    assert encoder.encode("a dog").shape == (encoder.width,)
    with pytest.raises(EncoderError, match="list of sentences"):
        encoder.tokenize("a dog")
    cosines = encoder.similarity(encoder.encode("a dog"), 3 * whole)
    assert cosines.shape == (1, 2)
    torch.testing.assert_close(cosines[0], whole @ whole[0])


def test_sentences_past_the_limit_are_cut_with_one_warning(encoder: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    assert encoder.limit == POSITIONS
    long = " ".join(WORDS[i % len(WORDS)] for i in range(10_000))
    cut = " ".join(long.split()[: POSITIONS - 2])
    with caplog.at_level(logging.WARNING):
        rows = encoder.encode([long, "a dog", long + " red"])
    assert [record.getMessage() for record in caplog.records] == [
        f"2 of 3 distinct sentences are longer than {POSITIONS} tokens and were cut"
    ]
    caplog.clear()
    assert_close(rows[0], encoder.encode([cut])[0], atol=2e-6, rtol=1e-5)
    assert not caplog.records  # a sentence of exactly the limit is whole
    pairs = Pairs("mine", [long] * 2, ["a dog", "the cat"], np.array([1.0, 2.0]), None, [*"ab"], (0, 5), "here", "0")
    evaluate(encoder.encode, {"mine": pairs})
    assert caplog.messages == [f"mine: 1 of 3 distinct sentences are longer than {POSITIONS} tokens and were cut"]


def test_batches_padded_to_a_multiple_stay_within_the_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.from_pretrained(tiny_checkpoint(tmp_path / "bert"), device="cpu")
    sentences = [" ".join(WORDS[i % len(WORDS)] for i in range(POSITIONS)), "a dog", "a red dog eats"]
    expected = encoder.encode(sentences)
    # 40 positions are no multiple of 16: rounded up, the longest sentence would take 48.
    monkeypatch.setattr(_model, "_MULTIPLES", {"cpu": 16})
    assert_close(encoder.encode(sentences), expected, atol=2e-6, rtol=1e-5)


def test_training_batches_are_cut_at_max_tokens_and_encode_is_not(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder, max_tokens=8)
    sentence = " ".join(WORDS[:20])
    assert encoder.tokenize([sentence])["input_ids"].shape == (1, 8)
    assert encoder.tokenize([sentence], max_tokens=11)["input_ids"].shape == (1, 11)
    assert encoder.tokenize([sentence])["input_ids"][0, -1] == encoder.tokenizer.sep_token_id
    head = " ".join(WORDS[:6])
    assert not torch.allclose(encoder.encode([sentence]), encoder.encode([head]), atol=1e-3)
    assert set(encoder.tokenize([sentence])) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("max_tokens", [2, POSITIONS + 1])
def test_max_tokens_outside_the_backbone_is_refused(folder: Path, max_tokens: int) -> None:
    with pytest.raises(EncoderError, match=f"max_tokens is {max_tokens}; this encoder takes 3 to {POSITIONS}"):
        Encoder.from_pretrained(folder, max_tokens=max_tokens)


def test_forward_has_gradient_and_is_not_normalised(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder)
    rows = encoder(encoder.tokenize(SENTENCES))
    rows.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in encoder.parameters())
    assert (rows.norm(dim=1) - 1).abs().min() > 0.1


@pytest.mark.parametrize("pooling", POOLINGS)
def test_training_on_packed_tokens_is_training_on_the_padded_batch(folder: Path, pooling: str) -> None:
    gradients = []
    for packed in (True, False):
        encoder = load(folder, pooling, dropout=0.0, max_tokens=POSITIONS).double().train(packed)
        batch = encoder.tokenize(SENTENCES)
        assert encoder._packs(batch["attention_mask"]) is packed
        rows = encoder(batch)
        (rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum().backward()
        gradients.append([rows.detach(), *(p.grad for p in encoder.parameters())])
    for ours, padded in zip(*gradients, strict=True):
        assert_close(ours, padded, atol=1e-12 * (1 + float(padded.abs().max())), rtol=1e-9)


def test_the_template_is_never_cut_and_its_own_mask_is_read(folder: Path) -> None:
    encoder = load(folder, "mask")
    mask = encoder.tokenizer.mask_token
    whole = encoder.tokenizer(TEMPLATE.format(sentence="").replace("[MASK]", mask))["input_ids"]
    ids = encoder.tokenize([" ".join(WORDS)], max_tokens=16)["input_ids"][0].tolist()
    assert len(ids) == 16
    assert ids[-4:] == whole[-4:]
    assert torch.equal(encoder.encode([" ".join(WORDS * 9)])[0], encoder.encode([" ".join(WORDS * 5)])[0])
    ids = torch.tensor([encoder.tokenizer(TEMPLATE.format(sentence=mask).replace("[MASK]", mask))["input_ids"]])
    assert (ids == encoder.tokenizer.mask_token_id).sum() == 2
    assert encoder._template.mask_position(ids).nonzero().tolist() == [[0, ids.shape[1] - 3]]
    with pytest.raises(EncoderError, match="the template alone has"):
        encoder.tokenize(["a dog"], max_tokens=6)


@pytest.mark.parametrize("template", [None, "no slot [MASK]", "{sentence} no mask", "{sentence} [MASK] [MASK]"])
def test_a_template_without_slot_or_mask_is_refused(folder: Path, template: str | None) -> None:
    with pytest.raises(EncoderError, match="needs a template with one"):
        Encoder.from_pretrained(folder, "mask", template=template)


def test_bf16_is_close_to_fp32_and_auto_takes_it_only_from_hardware(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Encoder.from_pretrained(folder, precision=precision).encode(SENTENCES) for precision in ("fp32", "bf16")]
    assert rows[1].dtype == torch.float32
    assert 1e-7 < (rows[0] - rows[1]).abs().max() < 0.05  # bf16 keeps 8 bits: 2^-8 a rounding, a few layers of them
    wide = Encoder.from_pretrained(folder, "mean", precision="bf16")
    batch = wide.tokenize(SENTENCES)
    with wide.autocast(), torch.no_grad():
        (states,), pooled = wide._states(**batch), wide(batch)
    mask = batch["attention_mask"].unsqueeze(-1)
    mean = (states.double() * mask).sum(1) / mask.sum(1)
    assert (pooled - mean).abs().max() < 1e-6  # in float32: bf16 would round it by 2^-9
    assert not wide.backbone.embeddings._forward_hooks  # of encode alone, and gone after it
    cpu = torch.device("cpu")
    for capable, expected in (({"amx_bf16": True}, "bf16"), ({"avx512_bf16": True}, "bf16"), ({"avx2": True}, "fp32")):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda capable=capable: capable)
        assert choose_precision("auto", cpu) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": "average"}, "pooling is 'average'; it is one of cls, mean"),
        ({"precision": "fp8"}, "precision is 'fp8'; it is 'auto', 'fp32', 'bf16' or 'fp16'"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_an_unknown_setting_is_named_with_what_is_allowed(folder: Path, options: dict, words: str) -> None:
    with pytest.raises(EncoderError, match=words):
        Encoder.from_pretrained(folder, **options)


def test_an_encoder_with_broken_weights_is_not_silent(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder)
    with torch.no_grad():
        encoder.backbone.embeddings.word_embeddings.weight[encoder.tokenizer.convert_tokens_to_ids("cat")] = torch.nan
    with pytest.raises(EncoderError, match="embedding of sentence 1 is not finite"):
        encoder.encode(["a dog", "a cat"])


def test_a_bundled_name_means_the_bundled_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_checkpoint(tmp_path / "world-encoder")
    monkeypatch.chdir(tmp_path)
    encoder = Encoder.from_pretrained("world-encoder")
    assert encoder.source == f"bundled:{'world-encoder'}"
    assert encoder.width == 128
