"""Embeddings of an encoder, for any backbone and pooling."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tiny_checkpoints import KINDS, POSITIONS, WORDS, tiny_checkpoint, tiny_sentences
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.checkpoints import POOLINGS
from workbench.encoder import Encoder, _model
from workbench.encoder._hardware import choose_hardware
from workbench.errors import EncoderError

TEMPLATE = 'the book "{sentence}" sees [MASK] .'
SENTENCES = tiny_sentences(23)
CLOSE = {"atol": 2e-6, "rtol": 1e-5}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("a checkpoint"), request.param)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder.from_pretrained(folder)


def load(folder: Path, pooling: str, **options: object) -> Encoder:
    template = TEMPLATE if pooling == "mask" else None
    return Encoder.from_pretrained(folder, pooling, template=template, **options)


def test_equal_sentences_are_encoded_once_in_batches_of_the_longest_first(encoder: Encoder) -> None:
    seen: list[tuple[int, ...]] = []
    hook = encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    rows = encoder.encode([*SENTENCES, SENTENCES[0], SENTENCES[0]], batch_size=5)
    hook.remove()
    assert sum(size for size, _ in seen) == len(set(SENTENCES))
    assert seen == sorted(seen, key=lambda shape: -shape[1])
    assert torch.equal(rows[[0, 0]], rows[-2:])


@pytest.mark.usefixtures("no_type_checks")
def test_encode_uses_no_dropout_and_gives_each_training_flag_back(folder: Path) -> None:
    encoder = load(folder, "cls", dropout=0.5).train()
    encoder.backbone.embeddings.eval()
    flags = [part.training for part in encoder.modules()]
    assert torch.equal(encoder.encode(SENTENCES), encoder.encode(SENTENCES))
    with pytest.raises(EncoderError, match="sentence 1 is 3 of type int"):
        encoder.encode(["a dog", 3])
    assert [part.training for part in encoder.modules()] == flags
    weight = torch.ones(encoder.dimension, requires_grad=True)
    (encoder.encode(SENTENCES) * weight).sum().backward()  # no inference tensors
    assert weight.grad is not None


def test_one_sentence_an_empty_one_and_none(encoder: Encoder) -> None:
    whole = encoder.encode(["a dog", "the red cat"])
    assert torch.equal(encoder.encode("a dog"), encoder.encode(["a dog"])[0])
    with pytest.raises(EncoderError, match="expected a list of sentences, got str 'a dog'"):
        encoder.tokenize("a dog")
    for table in (pd.DataFrame({"sentence": ["a dog"]}), {"sentence": ["a dog"]}):
        with pytest.raises(EncoderError, match="of a table give one column"):
            encoder.encode(table)
    cosines = encoder.similarity(encoder.encode("a dog"), 3 * whole)
    assert_close(cosines, (whole @ whole[0])[None])
    assert encoder.encode([]).shape == (0, encoder.dimension)
    assert torch.equal(encoder.encode([""]), encoder.encode([" "]))


def test_sentences_past_the_limit_are_cut_with_one_warning(
    encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    assert encoder.max_seq_length == POSITIONS
    long = " ".join(WORDS[i % len(WORDS)] for i in range(10_000))
    cut = " ".join(long.split()[: POSITIONS - 2])
    with caplog.at_level(logging.WARNING):
        rows = encoder.encode([long, "a dog", long + " red"])
    assert caplog.messages == [
        f"2 of 3 distinct sentences are longer than {POSITIONS} tokens and were cut"
    ]
    caplog.clear()
    assert_close(rows[0], encoder.encode([cut])[0], **CLOSE)
    assert not caplog.records  # a sentence of exactly the limit is whole


def test_batches_padded_to_a_multiple_stay_within_the_positions(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [
        " ".join(WORDS[i % len(WORDS)] for i in range(POSITIONS)),
        "a dog",
        "a red dog eats",
    ]
    expected = encoder.encode(sentences)
    # 40 positions are no multiple of 16: rounded up, the longest sentence would take 48.
    monkeypatch.setattr(_model, "MULTIPLES", {"cpu": 16})
    assert_close(encoder.encode(sentences), expected, **CLOSE)


def test_training_batches_are_cut_at_train_length_and_encode_is_not(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder, train_length=8)
    sentence = " ".join(WORDS[:20])
    assert encoder.tokenize([sentence])["input_ids"].shape == (1, 8)
    assert encoder.tokenize([sentence], train_length=11)["input_ids"].shape == (1, 11)
    assert encoder.tokenize([sentence])["input_ids"][0, -1] == encoder.tokenizer.sep_token_id
    assert not torch.allclose(
        encoder.encode([sentence]), encoder.encode([" ".join(WORDS[:6])]), atol=1e-3
    )
    for refused in (2, POSITIONS + 1):
        with pytest.raises(
            EncoderError, match=rf"training cuts at {refused} tokens .* reads {POSITIONS}: choose 3"
        ):
            Encoder.from_pretrained(folder, train_length=refused)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_training_on_packed_tokens_is_training_on_the_padded_batch(
    folder: Path, pooling: str
) -> None:
    gradients = []
    for packed in (True, False):
        encoder = load(folder, pooling, dropout=0.0, train_length=POSITIONS).double().train(packed)
        seen: list[int] = []
        encoder.backbone.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])),  # noqa: B023
            with_kwargs=True,
        )
        rows = encoder(encoder.tokenize(SENTENCES))
        assert seen == [1 if packed else len(SENTENCES)]
        (rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum().backward()
        gradients.append([rows.detach(), *(p.grad for p in encoder.parameters())])
    for ours, padded in zip(*gradients, strict=True):
        assert_close(ours, padded, atol=1e-12 * (1 + float(padded.abs().max())), rtol=1e-9)


def test_a_template_has_no_place_for_a_prompt(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder, "mask", template="{sentence} [MASK]", device="cpu")
    with pytest.raises(EncoderError, match="in a template, without a prompt"):
        encoder.encode(["a cat"], prompt="query: ")
    encoder.prompts = {"sts": "query: "}
    with pytest.raises(EncoderError, match="in a template, without a prompt"):
        encoder.encode(["a cat"], prompt_name="sts")


def test_the_template_is_never_cut_and_its_own_mask_is_read(folder: Path) -> None:
    encoder = load(folder, "mask")
    mask = encoder.tokenizer.mask_token
    whole = encoder.tokenizer(TEMPLATE.format(sentence="").replace("[MASK]", mask))["input_ids"]
    ids = encoder.tokenize([" ".join(WORDS)], train_length=16)["input_ids"][0].tolist()
    assert len(ids) == 16
    assert ids[-4:] == whole[-4:]
    assert torch.equal(
        encoder.encode([" ".join(WORDS * 9)])[0], encoder.encode([" ".join(WORDS * 5)])[0]
    )
    batch = encoder.tokenize([mask])
    assert (batch["input_ids"] == encoder.tokenizer.mask_token_id).sum() == 2
    with torch.no_grad():
        assert torch.equal(encoder(batch)[0], encoder.token_states(batch)[0, -3])
    with pytest.raises(EncoderError, match="the template alone has"):
        encoder.tokenize(["a dog"], train_length=6)
    for template in (None, "no slot [MASK]", "{sentence} no mask", "{sentence} [MASK] [MASK]"):
        with pytest.raises(EncoderError, match="needs a template with one"):
            Encoder.from_pretrained(folder, "mask", template=template)


def test_bf16_is_close_to_fp32_and_auto_takes_it_only_from_hardware(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        Encoder.from_pretrained(folder, precision=precision).encode(SENTENCES)
        for precision in ("fp32", "bf16")
    ]
    assert rows[1].dtype == torch.float32
    # Bf16 keeps 8 bits: 2^-8 a rounding, a few layers of them.
    assert 1e-7 < (rows[0] - rows[1]).abs().max() < 0.05
    wide = Encoder.from_pretrained(folder, "mean", precision="bf16")
    batch = wide.tokenize(SENTENCES)
    with wide.autocast(), torch.no_grad():
        states, pooled = wide.token_states(batch), wide(batch)
    mask = batch["attention_mask"].unsqueeze(-1)
    mean = (states.double() * mask).sum(1) / mask.sum(1)
    assert (pooled - mean).abs().max() < 1e-6  # in float32: bf16 would round it by 2^-9
    assert not wide.backbone.embeddings._forward_hooks  # only while encoding
    for capable, expected in (
        ({"amx_bf16": True}, "bf16"),
        ({"avx512_bf16": True}, "bf16"),
        ({"avx2": True}, "fp32"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda capable=capable: capable)
        assert choose_hardware("cpu", "auto") == (torch.device("cpu"), expected)
    with pytest.raises(
        EncoderError, match="precision is 'fp8'; choose 'auto', 'fp32', 'bf16' or 'fp16'"
    ):
        choose_hardware("cpu", "fp8")


def test_an_encoder_with_broken_weights_is_not_silent(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder)
    with torch.no_grad():
        encoder.backbone.embeddings.word_embeddings.weight[
            encoder.tokenizer.convert_tokens_to_ids("cat")
        ] = torch.nan
    with pytest.raises(EncoderError, match="vector of sentence 1 is not finite"):
        encoder.encode(["a dog", "a cat"])


def test_pieces_that_are_tokenised_apart_give_the_same_vectors_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = Encoder.from_pretrained("english-encoder", device="cpu", max_seq_length=12)
    sentences = [f"{'very ' * (number % 15)}old house {number % 7}" for number in range(30)]
    whole = encoder.encode(sentences)
    monkeypatch.setitem(_model._PIECES, "cpu", 4)  # as on a GPU, of more sentences
    in_pieces = encoder.encode(sentences)
    # float32 rounding through four layers
    assert_close(in_pieces, whole, rtol=0, atol=1e-5)
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == 2
    assert warnings[0] == warnings[1]


def test_a_batch_of_short_sentences_is_larger_on_a_gpu_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = Encoder.from_pretrained("english-encoder", device="cpu")
    assert [encoder._rows_at_once(longest, 64) for longest in (8, 32, 2000)] == [64, 32, 1]
    monkeypatch.setattr(Encoder, "device", torch.device("cuda"))
    encoder.max_seq_length = 512
    assert [encoder._rows_at_once(longest, 64) for longest in (512, 32)] == [64, 1024]
    encoder.max_seq_length = 8192  # of an encoder of long texts
    assert [encoder._rows_at_once(longest, 64) for longest in (8192, 1024, 32)] == [64, 64, 2048]


def test_weights_are_cast_once_for_all_batches_of_a_call() -> None:
    class Casts(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, operation: Any, _: Any, args: Any = (), kwargs: Any = None):
            self.count += operation._overloadpacket is torch.ops.aten._to_copy
            return operation(*args, **(kwargs or {}))

    encoder = Encoder.from_pretrained("english-encoder", device="cpu", precision="bf16")
    counts = []
    for batches in (1, 2, 3):
        with Casts() as casts:
            encoder.encode([f"house {number}" for number in range(64 * batches)])
        counts.append(casts.count)
    # A batch casts its inputs; the matrices of all layers are many more.
    assert counts[1] - counts[0] == counts[2] - counts[1] < len(list(encoder.parameters())) / 4
