"""What is tried of a backbone when it is loaded: text alone, the length limit, padding, the types
of its weights."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import POSITIONS, WORDS, tiny_checkpoint, tiny_sentences, tiny_tokenizer

from workbench.config import CONFIGS
from workbench.data import Sentences
from workbench.encoder import CrossEncoder, Encoder, _loading
from workbench.encoder._trial import TRIED
from workbench.errors import EncoderError
from workbench.methods import METHODS

SHORT, LONG = "a man sees the red dog .", " ".join(WORDS)
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "intermediate_size": 64,
    "embedding_size": 32,
    "max_position_embeddings": POSITIONS + 2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "cls_token_id": 0,
    "sep_token_id": 2,
    # DistilBERT, FlauBERT and XLNet
    "dim": 32,
    "hidden_dim": 64,
    "emb_dim": 32,
    "d_model": 32,
    "d_inner": 64,
    "n_layers": 2,
    "n_layer": 2,
    "n_heads": 4,
    "n_head": 4,
}
OWN: dict[str, dict[str, Any]] = {
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "gemma3_text": {"use_bidirectional_attention": True},
    "longformer": {"attention_window": 8},
    "squeezebert": {"embedding_size": 32},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "convbert": {"head_ratio": 2, "conv_kernel_size": 3},
    "mobilebert": {"true_hidden_size": 32, "intra_bottleneck_size": 32, "trigram_input": True},
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8},
    # Its attention is sparse from 29 tokens on, until it meets a shorter text.
    "big_bird": {"block_size": 4, "num_random_blocks": 1, "attention_type": "block_sparse"},
}
READ_PADDING = ["fnet", "convbert", "mobilebert", "nystromformer"]


def write(kind: str, folder: Path) -> Path:
    """Write a small random model of a kind, with a tokenizer."""
    tokenizer, config = tiny_tokenizer("roberta"), transformers.CONFIG_MAPPING[kind]
    names = {name: value for name, value in SHAPE.items() if hasattr(config(), name)} | OWN.get(
        kind, {}
    )
    if kind == "xlnet":  # any length
        del names["max_position_embeddings"]
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config(vocab_size=len(tokenizer), **names))
    for weights in model.parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path, kind: type[Encoder] = Encoder) -> Any:
    return kind.from_pretrained(
        folder, **({"pooling": "mean"} if kind is Encoder else {}), device="cpu"
    )


@pytest.mark.parametrize("kind", sorted(TRIED))
def test_kinds_without_a_trial_would_pass_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(kind, tmp_path)
    encoder = load(folder)
    monkeypatch.setattr(_loading, "TRIED", frozenset())
    tried = load(folder)
    assert tried.max_seq_length == encoder.max_seq_length
    assert not tried.reads_padding
    vectors = encoder.encode([SHORT, " ".join(WORDS * 40)])
    assert torch.allclose(vectors[0], encoder.encode(SHORT), atol=1e-5)


@pytest.mark.parametrize("kind", READ_PADDING)
def test_a_vector_does_not_depend_on_the_other_texts_of_its_batch(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "workbench"):
        encoder = load(write(kind, tmp_path))
    assert f"padding takes part in '{kind}' models" in caplog.text
    sentences = [*tiny_sentences(12), SHORT, " ".join(WORDS * 9)]
    alone = torch.stack([encoder.encode(text) for text in sentences])
    assert torch.allclose(encoder.encode(sentences), alone, atol=1e-5)
    theirs = SentenceTransformer(str(encoder.checkpoint.folder), device="cpu").encode(
        SHORT, normalize_embeddings=True
    )
    assert np.abs(encoder.encode(SHORT).numpy() - theirs).max() < 1e-5


def test_training_and_cross_encoders_read_rows_of_one_length_too(tmp_path: Path) -> None:
    folder = write("fnet", tmp_path)
    asked = {
        "encoder": str(folder),
        "pooling": "avg_first_last",
        "device": "cpu",
        "dropout": 0.0,
        "mlp": False,
    }
    method = METHODS["simcse"](CONFIGS["simcse"].from_parameters("demo", 0, asked))
    method.prepare(Sentences("s", [SHORT, LONG, "a dog"], "", "0"))
    batch = method.collate(range(3))
    vectors = method.train().embed(batch.get("tokens", batch))
    vectors.sum().backward()
    wanted = method.encoder.encode([SHORT, LONG, "a dog"], normalize_embeddings=False)
    assert torch.allclose(vectors[:3].detach(), wanted, atol=1e-5)
    # As a chunk of a batch may be.
    wider = method.encoder.token_rows([SHORT, LONG]).batch([0, 1], multiple=20)
    assert method.encoder.token_states(wider).shape[:2] == wider["input_ids"].shape
    cross = load(folder, CrossEncoder)
    pairs = [SHORT, "a dog"], [LONG, "a cat"]
    alone = [cross.score([first], [second])[0] for first, second in zip(*pairs, strict=True)]
    assert cross.score(*pairs) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("kind", ["ibert", "mra", "yoso", "nystromformer"])
def test_the_length_limit_can_be_encoded(kind: str, tmp_path: Path) -> None:
    encoder = load(write(kind, tmp_path))
    assert encoder.max_seq_length == (POSITIONS if kind == "ibert" else POSITIONS + 2)
    assert encoder.encode(" ".join(WORDS * 9)).shape == (32,)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("dpr", "does not encode plain text of 3 tokens: AttributeError: .* st:"),
        (
            "bros",
            "does not encode plain text of 3 tokens: ValueError: You have to specify bbox; .* st:",
        ),
        ("canine", "cannot be loaded as 'canine' for text: .* st:"),
        ("vit", "cannot be loaded as 'vit' for text: .* st:"),
        ("wav2vec2", "cannot be loaded as 'wav2vec2' for text: .* st:"),
        ("t5", "with a decoder"),
    ],
)
def test_what_is_no_text_encoder_is_refused_in_one_line(
    kind: str, message: str, tmp_path: Path
) -> None:
    tokenizer, config = tiny_tokenizer("bert"), transformers.CONFIG_MAPPING[kind]
    small = {name: value for name, value in SHAPE.items() if hasattr(config(), name)} | {
        "vocab_size": 28
    }
    if kind == "wav2vec2":
        small |= {
            "conv_dim": (8,),
            "conv_kernel": (3,),
            "conv_stride": (2,),
            "num_conv_pos_embeddings": 4,
        }
        small |= {"num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 1}
    transformers.AutoModel.from_config(config(**small)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match=message) as refused:
        load(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_vector_does_not_depend_on_earlier_texts(tmp_path: Path) -> None:
    encoder = load(write("big_bird", tmp_path))
    before = encoder.encode(" ".join(WORDS * 9))
    encoder.encode("a dog")
    assert torch.equal(encoder.encode(" ".join(WORDS * 9)), before)


def test_an_encoder_of_random_numbers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = transformers.FNetModel.forward

    def noisy(*args: Any, **options: Any) -> Any:
        output = plain(*args, **options)
        output.last_hidden_state += torch.randn_like(output.last_hidden_state)
        return output

    monkeypatch.setattr(transformers.FNetModel, "forward", noisy)
    with pytest.raises(EncoderError, match="encodes a text otherwise each time"):
        load(write("fnet", tmp_path))


def test_the_encoder_of_an_encoder_decoder_is_refused_for_that(tmp_path: Path) -> None:
    config = transformers.T5Config(
        vocab_size=28, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4
    )
    transformers.T5EncoderModel(config).save_pretrained(tmp_path)
    tiny_tokenizer("bert").save_pretrained(tmp_path)
    with pytest.raises(
        EncoderError,
        match=r"is a 't5' with a decoder, or the encoder of one; .* evaluate it as st:",
    ):
        load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_are_refused_and_integer_buffers_are_not(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    load(folder)
    name = "encoder.layer.1.output.dense.weight"
    weights = {f"bert.{each}": value for each, value in weights.items()}
    weights[f"bert.{name}"] = weights[f"bert.{name}"].mul(100).to(dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        EncoderError, match=f"1 weights .such as bert.{name}. are stored as integers or in 8 bits"
    ):
        load(folder)


@pytest.mark.parametrize("prefix", ["module.", "0.auto_model."])
def test_a_prefix_of_all_names_is_the_cause_that_is_named(prefix: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    weights = {
        prefix + name: value for name, value in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        EncoderError, match=rf"missing in the file, .*such as {prefix}embeddings.*correct the"
    ):
        load(folder)


def test_weights_of_other_code_are_named(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    weights = load_file(folder / "model.safetensors")
    renamed = {
        name.replace("intermediate.dense", "mlp.gated"): value for name, value in weights.items()
    }
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        EncoderError, match=r"missing in the file, .* have no place .*again from the training"
    ):
        load(folder)
