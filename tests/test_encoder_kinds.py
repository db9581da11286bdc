"""Encoders of other authors, held against SentenceTransformer itself: their vectors, also after
they were saved here.

Run with -s, the first test prints the largest difference of each kind.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tiny_checkpoints import (
    WORDS,
    tiny_architecture,
    tiny_checkpoint,
    tiny_sentences,
    tiny_tokenizer,
)
from torch import nn

from workbench.config import CONFIGS
from workbench.data import Pairs
from workbench.encoder import Encoder
from workbench.errors import EncoderError
from workbench.evaluation import evaluate
from workbench.methods import METHODS
from workbench.teachers import fingerprint, load_teacher

SENTENCES = [*tiny_sentences(40), "", "A Man Sees THE Dog .", " ".join(WORDS)]
PROMPTS = {"query": "the book : ", "document": "", "sts": "small food sees "}
TOLERANCE = 1e-5
BOTH_WAYS = {
    "BERT": transformers.BertConfig,
    "RoBERTa": transformers.RobertaConfig,
    "XLM-R": transformers.XLMRobertaConfig,
    "MPNet": transformers.MPNetConfig,
    "ModernBERT": transformers.ModernBertConfig,
}
KINDS = [
    *BOTH_WAYS,
    "decoder",
    "prompts",
    "prompt left out of the mean",
    "dot product",
    "dense layers",
    "lower case, short",
]


def tiny_decoder(folder: Path) -> Path:
    """Create a Qwen3 whose tokenizer pads on the left and appends its end, as embedders of this
    kind do."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.padding_side = "left"
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    shape |= {
        "head_dim": 8,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
    }
    model = transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(vocab_size=len(tokenizer), **shape)
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def dense(width: int, out: int, activation: nn.Module, **options: Any) -> Dense:
    torch.manual_seed(width)
    return Dense(width, out, activation_function=activation, **options)


def write(kind: str, folder: Path) -> Path:
    """Write an encoder of this kind as SentenceTransformer saves it."""
    plain, saved = folder / "plain", folder / "saved"
    if kind in BOTH_WAYS:
        tiny_architecture(plain, BOTH_WAYS[kind])
        modules = [Transformer(str(plain)), Pooling(16, "mean")]
        SentenceTransformer(modules=modules, device="cpu").save(str(saved))
        return saved
    if kind == "decoder":
        modules = [Transformer(str(tiny_decoder(plain))), Pooling(32, "lasttoken")]
        SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu").save(str(saved))
        return saved
    tiny_checkpoint(plain, "bert")
    transformer = Transformer(str(plain), do_lower_case=kind == "lower case, short")
    modules, options = [transformer, Pooling(32, "mean")], {}
    if kind == "prompts":
        options = {"prompts": PROMPTS, "default_prompt_name": "sts"}
        modules = [transformer, Pooling(32, "cls"), Normalize()]
    elif kind == "prompt left out of the mean":
        options = {"prompts": PROMPTS, "default_prompt_name": "query"}
        modules[1] = Pooling(32, "mean", include_prompt=False)
    elif kind == "dot product":
        options = {"similarity_fn_name": "dot"}
    elif kind == "dense layers":
        modules += [dense(32, 24, nn.GELU()), dense(24, 8, nn.Identity(), bias=False)]
    elif kind == "lower case, short":
        transformer.max_seq_length = 7
    SentenceTransformer(modules=modules, device="cpu", **options).save(str(saved))
    return saved


def embed(folder: Path, **options: Any) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(SENTENCES, batch_size=7, **options)


def largest_difference(ours: torch.Tensor, theirs: np.ndarray) -> float:
    assert np.abs(theirs).max() > 0.1
    return float(np.abs(ours.numpy() - theirs).max())


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_sentence_transformers_before_and_after_they_are_saved(
    kind: str, tmp_path: Path
) -> None:
    folder = write(kind, tmp_path)
    encoder = Encoder.from_pretrained(folder, device="cpu", precision="fp32")
    # Which has a module Normalize.
    theirs, plain = embed(folder), {"normalize_embeddings": kind == "prompts"}
    first = largest_difference(encoder.encode(SENTENCES, 5, **plain), theirs)
    encoder.save(tmp_path / "again")
    again = Encoder.from_pretrained(tmp_path / "again", device="cpu", precision="fp32")
    second = largest_difference(again.encode(SENTENCES, 5, **plain), theirs)
    third = largest_difference(torch.from_numpy(embed(tmp_path / "again", **plain)), theirs)
    print(f"| {kind} | {first:.0e} | {second:.0e} | {third:.0e} |")
    assert max(first, second, third) < TOLERANCE
    assert encoder.dimension == theirs.shape[1]
    card = (tmp_path / "again" / "README.md").read_text()
    assert f"compared by {'dot' if kind == 'dot product' else 'cosine'}" in card
    assert ("with the prompt 'small food sees '" in card) == (kind == "prompts")
    assert again.spec == encoder.spec
    assert again.prompts == encoder.prompts


@pytest.mark.parametrize("kind", ["decoder", "prompts", "prompt left out of the mean"])
def test_prompts_are_chosen_by_name_or_given(kind: str, tmp_path: Path) -> None:
    folder = write(kind, tmp_path)
    encoder = Encoder.from_pretrained(folder, device="cpu", precision="fp32")
    assert encoder.prompts == PROMPTS
    vectors = []
    for options in ({"prompt_name": "query"}, {"prompt": "red "}, {"prompt": ""}, {}):
        vectors.append(embed(folder, normalize_embeddings=True, **options))
        assert largest_difference(encoder.encode(SENTENCES, **options), vectors[-1]) < TOLERANCE
    # Its default prompt.
    same = 2 if kind == "decoder" else {"prompts": -1, "prompt left out of the mean": 0}[kind]
    assert [np.allclose(vectors[3], one, atol=1e-4) for one in vectors[:3]] == [
        same == place for place in range(3)
    ]
    assert (
        largest_difference(encoder.encode(SENTENCES[0], prompt_name="query"), vectors[0][0])
        < TOLERANCE
    )
    with pytest.raises(EncoderError, match="no prompt 'qery'; did you mean 'query'"):
        encoder.encode(SENTENCES, prompt_name="qery")
    # Every SentenceTransformer knows this name.
    none = embed(folder, normalize_embeddings=True, prompt_name="document")
    assert largest_difference(encoder.encode(SENTENCES, prompt_name="document"), none) < TOLERANCE


def test_a_limit_of_tokens_is_one_of_the_sentence_and_not_of_its_prompt(tmp_path: Path) -> None:
    folder = write("prompts", tmp_path)
    short = Encoder.from_pretrained(folder, device="cpu", precision="fp32", max_seq_length=6)
    five, four = (" ".join(WORDS[:count]) for count in (5, 4))
    assert torch.equal(short.encode(five), short.encode(four))
    assert not torch.equal(short.encode(four), short.encode(" ".join(WORDS[:3])))


@pytest.mark.parametrize("name", ["simcse", "rankencoder", "mixed"])
def test_a_training_compares_cosines_whatever_its_start_was_saved_with(
    name: str, tmp_path: Path
) -> None:
    folder = write("dot product", tmp_path)
    asked = {"encoder": str(folder), "pooling": "mean", "device": "cpu"}
    if name != "simcse":
        asked["base"] = str(write("BERT", tmp_path / "base"))
    method = METHODS[name](CONFIGS[name].from_parameters("demo", 0, asked))
    assert method.encoder.similarity_name == "cosine"
    method.encoder.save(tmp_path / "kept")
    assert SentenceTransformer(str(tmp_path / "kept"), device="cpu").similarity_fn_name == "cosine"


def test_the_function_of_a_dense_layer_decides_an_embedding(tmp_path: Path) -> None:
    folder = write("dense layers", tmp_path)
    path = folder / "2_Dense" / "config.json"
    before = fingerprint(Encoder.from_pretrained(folder, device="cpu"))
    settings = json.loads(path.read_text())
    settings["activation_function"] = "torch.nn.modules.activation.Tanh"
    path.write_text(json.dumps(settings))
    assert fingerprint(Encoder.from_pretrained(folder, device="cpu")) != before


def test_a_decoder_that_sees_both_sides_has_any_pooling(tmp_path: Path) -> None:
    plain = tiny_decoder(tmp_path / "plain")
    path = plain / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_causal": False}))
    modules = [Transformer(str(plain)), Pooling(32, "mean")]
    theirs = SentenceTransformer(modules=modules, device="cpu").encode(SENTENCES, batch_size=1)
    encoder = Encoder.from_pretrained(plain, "mean", device="cpu", precision="fp32")
    ours = encoder.encode(SENTENCES, normalize_embeddings=False)
    assert largest_difference(ours, theirs) < TOLERANCE


def test_an_encoder_for_the_dot_product_is_evaluated_by_it_and_is_no_teacher(
    tmp_path: Path,
) -> None:
    folder = write("dot product", tmp_path)
    encoder = Encoder.from_pretrained(folder, device="cpu", precision="fp32")
    vectors = embed(folder)
    first, second = SENTENCES[:12], SENTENCES[12:24]
    dots = (vectors[:12] * vectors[12:24]).sum(axis=1)
    pairs = Pairs(
        "p", first, second, np.arange(12.0) / 3, None, [str(i) for i in range(12)], (0, 5), "", ""
    )
    scores = evaluate(encoder, {"p": pairs}).scores
    assert scores["predicted"].to_numpy() == pytest.approx(dots, rel=1e-4)
    with pytest.raises(EncoderError, match="compares by dot product"):
        load_teacher(str(folder))


def test_training_goes_on_from_dense_layers_and_prompts_and_keeps_them(tmp_path: Path) -> None:
    from workbench.data import Sentences

    folder = write("dense layers", tmp_path)
    usage = folder / "config_sentence_transformers.json"
    usage.write_text(
        json.dumps(
            json.loads(usage.read_text()) | {"prompts": PROMPTS, "default_prompt_name": "sts"}
        )
    )
    asked = {
        "encoder": str(folder),
        "pooling": "mean",
        "device": "cpu",
        "precision": "fp32",
        "batch_size": 4,
    }
    method = METHODS["simcse"](CONFIGS["simcse"].from_parameters("demo", 0, asked))
    method.prepare(Sentences("s", SENTENCES[:20], "", "0"))
    assert method.tokens.lengths.min() > len(PROMPTS["sts"].split())
    method.train()
    before = method.encoder.encode(SENTENCES)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1)
    sum(method(method.collate(range(4))).values()).backward()
    assert all(float(one.grad.abs().max()) > 0 for one in method.encoder.dense.parameters())
    optimizer.step()
    method.save(tmp_path / "trained")
    wanted = method.encoder.encode(SENTENCES)
    assert float((wanted - before).abs().max()) > 1e-4
    method.restore(tmp_path / "trained")
    fresh = METHODS["simcse"](CONFIGS["simcse"].from_parameters("demo", 0, asked))
    fresh.restore(tmp_path / "trained")
    assert torch.equal(fresh.encoder.encode(SENTENCES), wanted)
    theirs = embed(tmp_path / "trained", normalize_embeddings=True)
    assert largest_difference(wanted, theirs) < TOLERANCE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"similarity_fn_name": "euclidean"}, "similarity 'euclidean'"),
        ({"pooling_mode": "weightedmean"}, "Pooling 'weightedmean'.* as st:"),
        ({"pooling_mode": "max", "include_prompt": False}, "pooling 'max' without its prompt"),
        (
            {"use_residual": True},
            r"2_Dense/config.json cannot be read: use_residual: .*got True.* as st:",
        ),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused_with_its_name(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = write("dense layers", tmp_path)
    name = "config_sentence_transformers.json"
    if "use_residual" in change:
        name = "2_Dense/config.json"
    elif "pooling_mode" in change:
        name = "1_Pooling/config.json"
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EncoderError, match=message):
        Encoder.from_pretrained(folder, device="cpu")


def test_a_decoder_without_these_files_needs_the_pooling_of_its_last_token(tmp_path: Path) -> None:
    folder = tiny_decoder(tmp_path / "plain")
    with pytest.raises(EncoderError, match="set pooling=last"):
        Encoder.from_pretrained(folder, "mean", device="cpu")
    last = Encoder.from_pretrained(folder, "last", device="cpu", precision="fp32")
    wanted = Encoder.from_pretrained(
        write("decoder", tmp_path / "other"), device="cpu", precision="fp32"
    )
    assert torch.equal(last.encode(SENTENCES), wanted.encode(SENTENCES))
    teacher = load_teacher(str(tmp_path / "other" / "saved"), device="cpu", precision="fp32")
    assert torch.equal(teacher.encode(SENTENCES), wanted.encode(SENTENCES))
