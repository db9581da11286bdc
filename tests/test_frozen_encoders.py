"""Encoders that are not trained: static ones, and those left to SentenceTransformer; held against
it."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from test_encoder_kinds import PROMPTS, SENTENCES, largest_difference, write
from tiny_checkpoints import tiny_tokenizer
from tokenizers import Tokenizer

from workbench import teachers
from workbench.checkpoints import find_checkpoint
from workbench.config import CONFIGS, BaselineConfig
from workbench.data import Sentences
from workbench.encoder import Encoder, load_encoder
from workbench.errors import EncoderError
from workbench.evaluation import evaluate_model, load_baseline
from workbench.methods import METHODS
from workbench.views import Ask

STATIC = ["StaticEmbedding", "model2vec"]


def write_static(kind: str, folder: Path) -> Path:
    """Write a static encoder; the one of model2vec has shared rows, weights of tokens and no
    modules.json."""
    tokenizer = tiny_tokenizer("bert").backend_tokenizer
    torch.manual_seed(0)
    table = torch.randn(tokenizer.get_vocab_size(), 12)
    if kind == "StaticEmbedding":
        module = StaticEmbedding(tokenizer, embedding_weights=table)
        SentenceTransformer(modules=[module], device="cpu").save(str(folder))
        return folder
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = torch.arange(len(table)) // 2
    parts = {
        "embeddings": table[: len(table) // 2 + 1].half(),
        "mapping": rows,
        "weights": torch.rand(len(table)),
    }
    save_file(
        {name: part.contiguous() for name, part in parts.items()}, folder / "model.safetensors"
    )
    facts = {"model_type": "model2vec", "normalize": True, "architectures": ["StaticModel"]}
    (folder / "config.json").write_text(json.dumps(facts))
    return folder


def naive_static(folder: Path, sentence: str) -> np.ndarray:
    """Return the vector of a sentence by a loop over its words, unknown ones left out."""
    parts = {
        name: part.float().numpy() for name, part in load_file(folder / "model.safetensors").items()
    }
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    ids = [vocabulary[word] for word in sentence.split() if word in vocabulary]
    rows = [parts["embeddings"][int(parts["mapping"][one])] * parts["weights"][one] for one in ids]
    return np.mean(rows, axis=0) if rows else np.zeros(parts["embeddings"].shape[1])


def load(name: str) -> Any:
    checkpoint = find_checkpoint(name)
    return load_encoder(checkpoint, checkpoint.spec(), device="cpu", precision="fp32")


def test_static_vectors_are_those_of_sentence_transformers_or_of_model2vec(tmp_path: Path) -> None:
    folder = write_static("StaticEmbedding", tmp_path / "static")
    theirs = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    difference = largest_difference(
        load(str(folder)).encode(SENTENCES, normalize_embeddings=False), theirs
    )
    print(f"| static | {difference:.0e} |")
    assert difference < 1e-5
    folder = write_static("model2vec", tmp_path / "model2vec")
    sentences = [*SENTENCES, "the zzz dog", "zzz"]
    naive = np.stack([naive_static(folder, sentence) for sentence in sentences])
    difference = largest_difference(
        load(str(folder)).encode(sentences, normalize_embeddings=False), naive
    )
    print(f"| model2vec | {difference:.0e} |")
    assert difference < 1e-5
    assert not load(str(folder)).encode("zzz").any()


@pytest.mark.parametrize("kind", ["decoder", "prompts", "dense layers"])
def test_what_sentence_transformers_loads_has_its_vectors_and_prompts(
    kind: str, tmp_path: Path
) -> None:
    folder = write(kind, tmp_path)
    encoder, theirs = load(f"st:{folder}"), SentenceTransformer(str(folder), device="cpu")
    own, plain = (
        Encoder.from_pretrained(folder, device="cpu", precision="fp32"),
        {"normalize_embeddings": False},
    )
    assert largest_difference(encoder.encode(SENTENCES, **plain), theirs.encode(SENTENCES)) < 1e-5
    assert largest_difference(encoder.encode(SENTENCES), own.encode(SENTENCES).numpy()) < 1e-5
    if kind != "dense layers":
        by_name = encoder.encode(SENTENCES, prompt_name="query", **plain)
        assert largest_difference(by_name, theirs.encode(SENTENCES, prompt=PROMPTS["query"])) < 1e-5
        assert not torch.allclose(by_name, encoder.encode(SENTENCES, **plain), atol=1e-2)


def names(tmp_path: Path) -> list[str]:
    return [
        str(write_static("model2vec", tmp_path / "small")),
        f"st:{write('dense layers', tmp_path)}",
    ]


def test_they_are_teachers_that_embed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in names(tmp_path):
        asked = {
            "teachers": [name],
            "device": "cpu",
            "cache": str(tmp_path / "cache"),
            "batch_size": 4,
        }
        data = Sentences("s", SENTENCES[:12], "", "0")
        method = METHODS["rankcse"](CONFIGS["rankcse"].from_parameters("demo", 0, asked))
        method.prepare(data)
        wanted = load(name).encode(SENTENCES[:12]).numpy()
        assert np.allclose(
            method.teacher_lists.embeddings[0], wanted, atol=1e-3
        )  # kept in half precision
        assert np.isfinite(sum(method(method.collate(range(4))).values()).item())
        with monkeypatch.context() as patched:
            patched.setattr(teachers, "_write_embeddings", None)
            method.prepare(data)  # from the cache
        assert f"teacher {name}" in method.inputs()


def test_they_are_evaluated_and_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "pairs.tsv"
    rows = [(SENTENCES[i], SENTENCES[i + 1], i % 6) for i in range(20)]
    pd.DataFrame(rows, columns=["sentence1", "sentence2", "score"]).to_csv(
        file, sep="\t", index=False
    )
    for number, name in enumerate(names(tmp_path)):
        config = BaselineConfig(encoder=name, suites=[str(file)], device="cpu")
        run = evaluate_model(config, tmp_path / str(number))
        vectors = load(name).encode
        cosines = (vectors([row[0] for row in rows]) * vectors([row[1] for row in rows])).sum(1)
        assert run.scores()["predicted"].to_numpy() == pytest.approx(cosines.numpy(), abs=1e-5)
        answer = Ask(
            [name], query="the man eats", targets=["the man eats food", "a red park"]
        ).selected
        assert len(answer) == 2
    assert "pooling" not in caplog.text, "they have one of their own"


def test_a_static_encoder_says_what_it_cuts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_static("model2vec", tmp_path / "small")
    path = folder / "tokenizer.json"
    cutting = Tokenizer.from_file(str(path))
    cutting.enable_truncation(3)
    cutting.save(str(path))
    encoder = load(str(folder))
    encoder.encode(["the man eats food in a red park", "a boat"])
    assert "1 of 2 sentences are longer than tokenizer.json allows" in caplog.text


def test_a_static_encoder_adds_no_prompts(tmp_path: Path) -> None:
    static, _ = names(tmp_path)
    with pytest.raises(EncoderError, match="adds no prompts; st: before its name does"):
        load(static).encode("a boat", prompt_name="query")


def test_cached_embeddings_follow_the_configuration_of_sentence_transformer(tmp_path: Path) -> None:
    folder = write("BERT", tmp_path)
    path = folder / "config.json"
    prints = []
    for activation in ("gelu", "gelu", "relu"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"hidden_act": activation}))
        teacher = teachers.load_teacher(f"st:{folder}", device="cpu")
        prints.append(teachers.fingerprint(teacher))
    assert prints[0] == prints[1] != prints[2]


def test_sentence_transformer_computes_in_fp32_and_has_its_own_pooling(tmp_path: Path) -> None:
    folder = write("BERT", tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": "bfloat16"}))
    encoder = teachers.load_teacher(f"st:{folder}", device="cpu")
    assert {weight.dtype for weight in encoder.model.parameters()} == {torch.float32}
    with pytest.raises(EncoderError, match="has a pooling of its own"):
        teachers.load_teacher(f"st:{folder}", pooling="cls")
    for changes in ({"pooling": "cls"}, {"pooling": "mask", "template": "a {sentence} [MASK]"}):
        with pytest.raises(EncoderError, match="has a pooling of its own"):
            load_baseline(BaselineConfig(encoder=f"st:{folder}", **changes))


def test_they_are_not_trained_and_name_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static, other = names(tmp_path)
    for name in (static, other):
        with pytest.raises(EncoderError, match="but not trained"):
            METHODS["simcse"](
                CONFIGS["simcse"].from_parameters("demo", 0, {"encoder": name, "device": "cpu"})
            )
        with pytest.raises(EncoderError, match="no word embeddings"):
            load_baseline(BaselineConfig(encoder=name, kind="static"))
    with pytest.raises(EncoderError, match="is neither a folder nor a hub id"):
        find_checkpoint("st:no/such/folder")
    with pytest.raises(EncoderError, match="cannot load"):
        load(f"st:{tmp_path / 'small'}")
    (tmp_path / "small" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(EncoderError, match="cannot be read"):
        load(static)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EncoderError, match=r"ranking-workbench\[st\]"):
        load(other)


def test_the_module_after_a_static_one_is_refused_unless_it_normalises(tmp_path: Path) -> None:
    folder = write_static("StaticEmbedding", tmp_path / "static")
    modules = json.loads((folder / "modules.json").read_text())
    dense = {"idx": 1, "name": "1", "path": "1_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(EncoderError, match="Dense"):
        load(str(folder))
