"""The files of an encoder: every key and every order of modules gives SentenceTransformer's
vectors, or is refused."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, StaticEmbedding
from test_encoder_kinds import SENTENCES, dense, embed, largest_difference
from tiny_checkpoints import tiny_checkpoint, tiny_tokenizer
from torch import nn
from transformers import AutoModel

from workbench.checkpoints import POOLINGS, _find, find_checkpoint
from workbench.encoder import CrossEncoder, Encoder, load_encoder
from workbench.errors import EncoderError
from workbench.teachers import fingerprint, load_teacher

TOLERANCE = 1e-5
USAGE, CUTS = "config_sentence_transformers.json", "sentence_bert_config.json"
MODULES, POOLING = "modules.json", "1_Pooling/config.json"
DENSE, NORMALIZE = "2_Dense/config.json", "3_Normalize/config.json"
FP32 = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def saved(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an encoder as SentenceTransformer saves it: mean, a dense layer, unit length."""
    return write(plain, tmp_path_factory.mktemp("saved"), [dense(32, 16, nn.Tanh()), Normalize()])


def write(plain: Path, folder: Path, modules: list[Any], **options: Any) -> Path:
    start = [Transformer(str(plain)), Pooling(32, "mean")]
    SentenceTransformer(modules=[*start, *modules], device="cpu", **options).save(str(folder))
    return folder


def edit(path: Path, **changes: Any) -> None:
    """Add keys to a JSON file."""
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | changes))


def edited(source: Path, folder: Path, name: str = "", **changes: Any) -> Path:
    """Return a copy in which the JSON file `name` has these keys too."""
    shutil.copytree(source, folder)
    if name:
        edit(folder / name, **changes)
    return folder


def refusal(name: str | Path) -> str:
    """Return the one line with which an encoder is refused."""
    with pytest.raises(EncoderError) as caught:
        Encoder.from_pretrained(name, **FP32)
    message = str(caught.value)
    assert "\n" not in message
    return message


LAYERS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "truncated": (list, {"truncate_dim": 8}),
    "truncated dense": (lambda: [dense(32, 16, nn.Tanh())], {"truncate_dim": 5}),
    "kept whole": (lambda: [dense(32, 16, nn.Tanh())], {"truncate_dim": 24}),
    "unit, then truncated, dot": (
        lambda: [Normalize()],
        {"truncate_dim": 8, "similarity_fn_name": "dot"},
    ),
    "unit, then dense": (lambda: [Normalize(), dense(32, 16, nn.Tanh())], {}),
    "unit, then dense, dot": (
        lambda: [Normalize(), dense(32, 16, nn.Identity())],
        {"similarity_fn_name": "dot"},
    ),
    "half of the columns": (
        lambda: [dense(32, 24, nn.GLU()), dense(12, 8, nn.Identity()), Normalize()],
        {},
    ),
    "unit twice": (
        lambda: [dense(32, 24, nn.Tanh()), Normalize(), dense(24, 16, nn.GELU()), Normalize()],
        {},
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_in_any_order_have_sentence_transformers_vectors_before_and_after_saving(
    kind: str, plain: Path, tmp_path: Path
) -> None:
    make, options = LAYERS[kind]
    folder = write(plain, tmp_path / "theirs", make(), **options)
    encoder = Encoder.from_pretrained(folder, **FP32)
    is_dot = "similarity_fn_name" in options
    assert encoder.similarity_name == ("dot" if is_dot else "cosine")
    unit = {"normalize_embeddings": not is_dot}
    theirs = embed(folder, **unit)
    assert encoder.dimension == theirs.shape[1]
    assert largest_difference(encoder.encode(SENTENCES, **unit), theirs) < TOLERANCE
    encoder.save(tmp_path / "ours")
    assert (
        largest_difference(torch.from_numpy(embed(tmp_path / "ours", **unit)), theirs) < TOLERANCE
    )
    again = Encoder.from_pretrained(tmp_path / "ours", **FP32)
    assert largest_difference(again.encode(SENTENCES, **unit), theirs) < TOLERANCE
    again.restore(tmp_path / "ours")


def test_embeddings_of_teachers_that_differ_in_their_columns_are_kept_apart(
    saved: Path, tmp_path: Path
) -> None:
    folders = [
        edited(saved, tmp_path / str(columns), USAGE, truncate_dim=columns) for columns in (4, 8)
    ]
    for prefix in ("", "st:"):
        names = [f"{prefix}{folder}" for folder in folders]
        assert len({fingerprint(load_teacher(name, device="cpu")) for name in names}) == 2, prefix


NEUTRAL = {"a": None, "b": False, "c": {}, "d": [], "e": ""}


def test_keys_that_say_nothing_pass(saved: Path, tmp_path: Path) -> None:
    folder = edited(saved, tmp_path / "copy")
    for name in (USAGE, CUTS, POOLING, DENSE, NORMALIZE):
        edit(folder / name, **NEUTRAL)
    edit(
        folder / CUTS,
        max_seq_length=None,
        config_args={"output_hidden_states": True},
        tokenizer_args={},
    )
    edit(
        folder / USAGE,
        prompts=None,
        default_prompt_name=None,
        similarity_fn_name=None,
        truncate_dim=None,
    )
    edit(folder / DENSE, use_residual=False)
    entries = [
        entry | NEUTRAL | {"kwargs": ["task"]}
        for entry in json.loads((folder / MODULES).read_text())
    ]
    (folder / MODULES).write_text(json.dumps(entries))
    ours = Encoder.from_pretrained(folder, **FP32).encode(SENTENCES)
    assert largest_difference(ours, embed(saved)) < TOLERANCE  # null for prompts stops theirs


UNREAD: dict[str, tuple[str, dict[str, Any]]] = {
    "query_prefix": (USAGE, {"query_prefix": "[Q] "}),
    "requirements": (USAGE, {"requirements": {"transformers": ">=9"}}),
    "truncate_dim": (USAGE, {"truncate_dim": "8"}),
    "default_prompt_name = 'passage'": (
        USAGE,
        {"prompts": {"sts": "x"}, "default_prompt_name": "passage"},
    ),
    "truncation_side": ("tokenizer_config.json", {"truncation_side": "left"}),
    "processing_kwargs": (CUTS, {"processing_kwargs": {"text": {"max_length": 4}}}),
    "modality_config": (CUTS, {"modality_config": {"message": {"method": "forward"}}}),
    "transformer_task": (CUTS, {"transformer_task": "fill-mask"}),
    "query_length": (CUTS, {"query_length": 32}),
    "config_args: is_causal": (CUTS, {"config_args": {"is_causal": False}}),
    "processor_kwargs: do_lower_case": (CUTS, {"processor_kwargs": {"do_lower_case": True}}),
    "do_lower_case": (CUTS, {"do_lower_case": "yes"}),
    "pooling_mode_tenth_token": (POOLING, {"pooling_mode_tenth_token": True}),
    "include_prompt": (POOLING, {"include_prompt": 3}),
    "module_input_name": (NORMALIZE, {"module_input_name": "token_embeddings"}),
    "activation_function": (DENSE, {"activation_function": "mine.Tanh"}),
    "2_Dense cannot be read": (DENSE, {"in_features": 16}),
}


@pytest.mark.parametrize("key", UNREAD)
def test_a_key_that_is_not_understood_is_named(key: str, saved: Path, tmp_path: Path) -> None:
    name, change = UNREAD[key]
    folder = edited(saved, tmp_path / "copy", name, **change)
    assert key in refusal(folder)


SHAPES = [MODULES, USAGE, CUTS, POOLING, "config.json", "tokenizer_config.json", "encoder.json"]


@pytest.mark.parametrize("name", [*SHAPES, "model.safetensors.index.json"])
def test_lists_for_objects_and_the_reverse_are_one_line(
    name: str, saved: Path, tmp_path: Path
) -> None:
    for number, content in enumerate(
        [[[1]], {"a": {"b": 1}} if name == MODULES else ["x"], "text"]
    ):
        folder = edited(saved, tmp_path / str(number))
        (folder / name).write_text(json.dumps(content))
        assert name in refusal(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", {"architectures": "BertModel"}),
        ("config.json", {"architectures": [1]}),
        ("config.json", {"settings": {}, "files": [1]}),
        ("tokenizer_config.json", {"model_max_length": [512]}),
        ("encoder.json", {"pooling": ["mean"]}),
        ("encoder.json", {"pooling": "mean", "window": 3}),
        ("encoder.json", {"pooling": "mean", "window": "3"}),
        ("model.safetensors.index.json", {"weight_map": ["m.safetensors"]}),
    ],
    ids=str,
)
def test_values_of_another_type_are_one_line(
    name: str, change: dict[str, Any], plain: Path, tmp_path: Path
) -> None:
    folder = edited(plain, tmp_path / "copy", name, **change)
    assert name in refusal(folder)


OUTSIDE = "lies outside of it"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../secret", OUTSIDE),
        ("/etc", OUTSIDE),
        ("link", OUTSIDE),
        ("a\0b", "in_features"),
        ("loop", "in_features"),
    ],
)
def test_files_do_not_lead_out_of_their_folder(
    path: str, message: str, saved: Path, tmp_path: Path
) -> None:
    folder = edited(saved, tmp_path / "copy")
    shutil.copytree(saved / "2_Dense", tmp_path / "secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "loop").symlink_to(folder / "loop")
    entries = json.loads((folder / MODULES).read_text())
    entries[2]["path"] = path
    (folder / MODULES).write_text(json.dumps(entries))
    assert message in refusal(folder)


def test_shards_are_files_of_the_folder_and_links_of_files_as_in_a_hub_cache_are_read(
    saved: Path, tmp_path: Path
) -> None:
    outside = {"weight_map": {"embeddings.word_embeddings.weight": "../secret/model.safetensors"}}
    folder = edited(saved, tmp_path / "copy", "model.safetensors.index.json", **outside)
    assert "lies outside of it" in refusal(folder)
    snapshot, blobs = tmp_path / "snapshots" / "1", tmp_path / "blobs"
    blobs.mkdir()
    for number, path in enumerate(path for path in saved.rglob("*") if path.is_file()):
        shutil.copy(path, blobs / str(number))
        link = snapshot / path.relative_to(saved)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blobs / str(number))
    assert Encoder.from_pretrained(snapshot, **FP32).dimension == 16


def as_modules(folder: Path, *types: str) -> Path:
    """Write a modules.json of these classes over a model of transformers."""
    entries = []
    for number, kind in enumerate(types):
        path = f"{number}_{kind.rpartition('.')[2]}" if number else ""
        entries.append({"idx": number, "name": str(number), "path": path, "type": kind})
        (folder / path).mkdir(exist_ok=True)
        if path.endswith("_Pooling"):
            edit(folder / path / "config.json", embedding_dimension=32)
    (folder / MODULES).write_text(json.dumps(entries))
    return folder


THEIRS = "sentence_transformers.models."
KINDS = {
    "pylate.models.Dense.Dense": [f"{THEIRS}Transformer", "pylate.models.Dense.Dense"],
    "custom_st.Transformer": ["custom_st.Transformer", f"{THEIRS}Pooling"],
    "sentence_transformers_own.Pooling": [
        f"{THEIRS}Transformer",
        "sentence_transformers_own.Pooling",
    ],
    "the modules Transformer, which": [f"{THEIRS}Transformer", f"{THEIRS}Normalize"],
    "LSTM": [f"{THEIRS}Transformer", f"{THEIRS}LSTM", f"{THEIRS}Pooling"],
    "CLIPModel": [f"{THEIRS}CLIPModel", f"{THEIRS}Pooling"],
    "mean": [f"{THEIRS}Transformer", f"{THEIRS}Pooling", f"{THEIRS}Pooling"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_modules_do_not_pass_for_an_encoder(kind: str, plain: Path, tmp_path: Path) -> None:
    message = refusal(as_modules(edited(plain, tmp_path / "copy"), *KINDS[kind]))
    assert kind in message
    # Which does not execute other code either.
    assert ("evaluate it as st:" in message) == ("." not in kind)


def test_other_kinds_of_models_are_refused_by_an_encoder_and_by_sentence_transformer(
    plain: Path, tmp_path: Path
) -> None:
    SparseEncoder(str(plain), device="cpu").save_pretrained(str(tmp_path / "sparse"))
    assert "model_type 'SparseEncoder'" in refusal(tmp_path / "sparse")
    with pytest.raises(EncoderError, match="is a SparseEncoder, which has no vector of a sentence"):
        find_checkpoint(f"st:{tmp_path / 'sparse'}")
    late = edited(tmp_path / "sparse", tmp_path / "late", USAGE, model_type="MultiVectorEncoder")
    assert "model_type 'MultiVectorEncoder'" in refusal(late)
    static = as_modules(edited(plain, tmp_path / "static"), f"{THEIRS}SparseStaticEmbedding")
    assert "SparseStaticEmbedding" in refusal(static)
    adapter = edited(plain, tmp_path / "adapter", "adapter_config.json", peft_type="LORA")
    for pooling in (None, "mean"):
        with pytest.raises(EncoderError, match=r"adapter.*peft.*merge_and_unload.*st:"):
            Encoder.from_pretrained(adapter, pooling)


@pytest.mark.parametrize(
    "kind", ["HF_ColBERT", "ColBERT", "JinaBertModel", "JinaBertForMaskedLM", "NewModel"]
)
def test_weights_of_a_class_that_transformers_lacks_are_refused(
    kind: str, plain: Path, tmp_path: Path
) -> None:
    folder = edited(plain, tmp_path / "copy", "config.json", architectures=[kind])
    assert f"the weights are of a {kind}, no class of transformers" in refusal(folder)
    checkpoint = find_checkpoint(f"st:{folder}")
    with pytest.raises(EncoderError, match=kind):
        load_encoder(checkpoint, None, device="cpu")


def test_code_of_a_checkpoint_is_told_once_and_another_head_is_none(
    plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = edited(plain, tmp_path / "head", "config.json", architectures=["BertForCL"])
    assert Encoder.from_pretrained(head, **FP32).encode(["a dog"]).shape == (1, 32)
    assert not caplog.records
    own = edited(plain, tmp_path / "own", "config.json", auto_map={"AutoModel": "own.Model"})
    Encoder.from_pretrained(own, **FP32)
    [record] = caplog.records
    assert "has code of its own (auto_map" in record.getMessage()


def test_a_cross_encoder_of_sentence_transformers_is_read_as_one(
    plain: Path, tmp_path: Path
) -> None:
    from sentence_transformers import CrossEncoder as Theirs

    Theirs(str(plain), num_labels=1, device="cpu").save_pretrained(str(tmp_path / "cross"))
    assert CrossEncoder.from_pretrained(tmp_path / "cross", **FP32).score(
        ["a dog"], ["a cat"]
    ).shape == (1,)
    assert "model_type 'CrossEncoder'" in refusal(tmp_path / "cross")


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling_is_saved_and_read_by_sentence_transformer_or_refused_by_it(
    pooling: str, plain: Path, tmp_path: Path
) -> None:
    template = "a [MASK] {sentence}" if pooling == "mask" else None
    encoder = Encoder.from_pretrained(plain, pooling, template=template, **FP32)
    encoder.save(tmp_path / "saved")
    wanted = encoder.encode(SENTENCES)
    if pooling == "mask":
        with pytest.raises(ValueError, match="MaskPooling"):
            SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    else:
        theirs = embed(tmp_path / "saved", normalize_embeddings=True)
        assert largest_difference(wanted, theirs) < TOLERANCE
    again = Encoder.from_pretrained(tmp_path / "saved", **FP32)
    assert again.spec == encoder.spec
    assert torch.equal(again.encode(SENTENCES), wanted)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (POOLING, {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}),
        (POOLING, {"include_prompt": False}),
        (USAGE, {"truncate_dim": 8}),
        (USAGE, {"similarity_fn_name": "dot"}),
        (USAGE, {"similarity_fn_name": "euclidean"}),
        (USAGE, {"prompts": {"query": "red "}, "default_prompt_name": "query"}),
    ],
    ids=str,
)
def test_files_for_sentence_transformer_that_were_changed_after_saving_are_refused(
    name: str, change: dict[str, Any], plain: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "ours"
    Encoder.from_pretrained(plain, "mean", **FP32).save(folder)
    edit(folder / name, **change)
    assert "encoder.json and the files of SentenceTransformer differ" in refusal(folder)
    (folder / "encoder.json").unlink()
    foreign = find_checkpoint(str(folder)).foreign
    assert bool(foreign) == ("euclidean" in change.values())


def test_a_static_encoder_keeps_its_columns_and_refuses_what_it_lacks(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert").backend_tokenizer
    module = StaticEmbedding(
        tokenizer, embedding_weights=torch.randn(tokenizer.get_vocab_size(), 12)
    )
    options = {"truncate_dim": 5, "prompts": {"query": "red "}}
    SentenceTransformer(modules=[module, Normalize()], device="cpu", **options).save(
        str(tmp_path / "static")
    )
    checkpoint = find_checkpoint(str(tmp_path / "static"))
    ours = load_encoder(checkpoint, checkpoint.spec(), device="cpu").encode(SENTENCES)
    theirs = embed(tmp_path / "static", normalize_embeddings=True)
    assert largest_difference(ours, theirs) < TOLERANCE
    for change in ({"default_prompt_name": "query"}, {"similarity_fn_name": "dot"}):
        other = edited(tmp_path / "static", tmp_path / min(change), USAGE, **change)
        with pytest.raises(
            EncoderError, match=r"an Encoder does not support; .* evaluate it as st:"
        ):
            find_checkpoint(str(other)).spec("mean")


def move_down(folder: Path) -> None:
    for number in (5, 10):
        shutil.copytree(folder, folder.with_name("below") / f"checkpoint-{number}")
    shutil.rmtree(folder)
    folder.with_name("below").rename(folder)


def replace_weights(folder: Path, name: str, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 9\n"
CAUSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "one level too high": (move_down, r"no config.json.* one of its checkpoint-"),
    "ONNX alone": (
        lambda folder: replace_weights(folder, "onnx/model.onnx", b"x"),
        "; ONNX is not read",
    ),
    "a pointer": (
        lambda folder: replace_weights(folder, "model.safetensors", POINTER),
        "cannot be loaded as 'bert'.*git lfs pull",
    ),
    "a tokenizer's pointer": (
        lambda folder: (folder / "tokenizer.json").write_bytes(POINTER),
        "the tokenizer in .* cannot be loaded.*git lfs pull",
    ),
    "pickled": (
        lambda folder: replace_weights(folder, "pytorch_model.bin", b"x"),
        "pickled .* evaluate it as st:",
    ),
    "a router": (
        lambda folder: as_modules(folder, f"{THEIRS}Router"),
        "with the modules Router, .* evaluate it as st:",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_folder_that_is_no_checkpoint_is_refused_with_the_cause_and_a_remedy(
    cause: str, plain: Path, tmp_path: Path
) -> None:
    folder = edited(plain, tmp_path / "copy")
    damage, words = CAUSES[cause]
    damage(folder)
    assert re.search(words, refusal(folder))


def test_weights_in_shards_are_read_and_a_pointer_among_them_is_named(
    plain: Path, tmp_path: Path
) -> None:
    folder = edited(plain, tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    AutoModel.from_pretrained(str(plain)).save_pretrained(folder, max_shard_size="20KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    ours, wanted = (
        Encoder.from_pretrained(each, "mean", **FP32).encode(SENTENCES) for each in (folder, plain)
    )
    assert torch.equal(ours, wanted)
    shards[0].write_bytes(POINTER)
    assert "git lfs pull" in refusal(folder)


def test_the_length_in_the_files_of_a_saved_encoder_may_be_changed(
    plain: Path, tmp_path: Path
) -> None:
    Encoder.from_pretrained(plain, "mean", **FP32).save(tmp_path / "ours")
    edit(tmp_path / "ours" / CUTS, max_seq_length=5)
    assert "cuts at 5 tokens and tokenizer_config.json at 40" in refusal(tmp_path / "ours")
    edit(tmp_path / "ours" / "tokenizer_config.json", model_max_length=5)
    encoder = Encoder.from_pretrained(tmp_path / "ours", **FP32)
    assert encoder.max_seq_length == 5
    theirs = embed(tmp_path / "ours", normalize_embeddings=True)
    assert largest_difference(encoder.encode(SENTENCES), theirs) < TOLERANCE


def test_a_prompt_must_leave_room_for_a_sentence_in_training(plain: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(plain)), Pooling(32, "mean")]
    prompts = {"query": "the cat sleeps on the old boat and sings: "}
    SentenceTransformer(
        modules=modules, prompts=prompts, default_prompt_name="query", device="cpu"
    ).save_pretrained(str(tmp_path / "theirs"))
    assert Encoder.from_pretrained(tmp_path / "theirs", **FP32).dimension
    with pytest.raises(EncoderError, match=r"the prompt 'the cat .* alone has .* or more"):
        Encoder.from_pretrained(tmp_path / "theirs", train_length=8, **FP32)


def test_a_module_over_a_refused_similarity_is_kept_if_pooling_is_named(
    saved: Path, tmp_path: Path
) -> None:
    folder = edited(saved, tmp_path / "copy", USAGE, similarity_fn_name="euclidean")
    assert "similarity 'euclidean'" in refusal(folder)
    assert Encoder.from_pretrained(folder, "mean", **FP32).dimension == 16


@pytest.mark.parametrize(
    "name", ["2_Dense_1024/model.safetensors", "2_Dense/config.json", "0_BERT/vocab.txt"]
)
def test_files_of_modules_are_fetched_from_the_hub_whatever_their_folder_is_called(
    name: str,
) -> None:
    others = ["pytorch_model.bin", "0_BERT/pytorch_model.bin", "onnx/model.onnx", "modeling.py"]
    patterns = _find.PUBLISHED["files"]["encoder"]
    fetched = filter_repo_objects([name, *others], allow_patterns=patterns)
    assert [*fetched] == [name]


@pytest.mark.parametrize(
    "name", ["bpe.codes", "query_0_Transformer/model.safetensors", "chat_template.jinja"]
)
def test_files_that_sentence_transformer_reads_are_fetched(name: str) -> None:
    patterns = _find.PUBLISHED["files"]["st"]
    others = ["onnx/model_qint8_arm64.onnx", "modeling.py", "openvino/openvino_model.xml"]
    assert [*filter_repo_objects([name, *others], allow_patterns=patterns)] == [name]


def test_an_unknown_model_type_is_one_line_also_for_sentence_transformer(
    plain: Path, tmp_path: Path
) -> None:
    folder = edited(plain, tmp_path / "copy", "config.json", model_type="new")
    assert "never executed" in refusal(folder)
    with pytest.raises(EncoderError, match="cannot load") as caught:
        load_encoder(find_checkpoint(f"st:{folder}"), None, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_dense_layer_that_cannot_be_read_is_one_line(saved: Path, tmp_path: Path) -> None:
    pickled, other = (edited(saved, tmp_path / name) for name in ("pickled", "other"))
    torch.save(
        load_file(saved / "2_Dense" / "model.safetensors"),
        pickled / "2_Dense" / "pytorch_model.bin",
    )
    (pickled / "2_Dense" / "model.safetensors").unlink()
    assert (
        "save it as model.safetensors, or, if SentenceTransformer loads it, evaluate it as st:"
        in refusal(pickled)
    )
    save_file({"linear.weight": torch.ones(3, 3)}, other / "2_Dense" / "model.safetensors")
    assert "the Dense layer in" in refusal(other)
    integers = {"linear.weight": torch.ones(16, 16, dtype=torch.int8)}
    save_file(integers, other / "2_Dense" / "model.safetensors")
    assert "linear.weight has no floats" in refusal(other)
    parametric = edited(
        saved, tmp_path / "parametric", DENSE, activation_function="torch.nn.Nothing"
    )
    assert "the Dense layer in" in refusal(parametric)


def test_files_that_change_how_a_model_answers_are_read_as_sentence_transformer_reads_them(
    saved: Path, tmp_path: Path
) -> None:
    folder = edited(saved, tmp_path / "copy", "config.json", return_dict=False)
    plain = Encoder.from_pretrained(folder, **FP32).encode(SENTENCES)
    (folder / CUTS).unlink()
    # The first says nothing, and that of xlnet has the length.
    for model, has_length in (("mpnet", False), ("xlnet", True)):
        edit(folder / f"sentence_{model}_config.json", max_seq_length=4)
        ours = Encoder.from_pretrained(folder, **FP32).encode(SENTENCES)
        assert largest_difference(ours, embed(folder)) < TOLERANCE
        assert (largest_difference(ours, plain.numpy()) > 0.01) == has_length


def test_the_pooling_flags_are_read_as_sentence_transformer_reads_them(
    plain: Path, tmp_path: Path
) -> None:
    write(plain, tmp_path / "theirs", [])
    flags: list[dict[str, Any]] = [
        {
            "word_embedding_dimension": 32,
            "pooling_mode_max_tokens": True,
            "pooling_mode_cls_token": False,
        },
        {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": False},
        {"embedding_dimension": 32, "pooling_mode": ["cls"], "pooling_mode_mean_tokens": True},
    ]
    folder = tmp_path / "theirs"
    for content in flags:
        (folder / POOLING).write_text(json.dumps(content))
        ours = Encoder.from_pretrained(folder, **FP32).encode(SENTENCES)
        assert np.abs(ours.numpy() - embed(folder, normalize_embeddings=True)).max() < TOLERANCE
    (folder / POOLING).unlink()
    assert "1_Pooling/config.json cannot be read: embedding_dimension" in refusal(folder)
