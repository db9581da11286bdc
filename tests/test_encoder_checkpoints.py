"""A checkpoint that cannot be used is refused with its cause and its cure; it is never used in part."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub import errors
from safetensors.torch import load_file, save_file
from tiny_checkpoints import POSITIONS, tiny_checkpoint, tiny_model, tiny_tokenizer
from transformers import (
    AutoModel,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    GPT2Config,
    Qwen3Config,
    RobertaForMaskedLM,
    RobertaForTokenClassification,
)

from workbench.encoder import CrossEncoder, Encoder, find_checkpoint
from workbench.encoder._reading import Reading
from workbench.errors import EncoderError
from workbench.files import checkpoint_checksum


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def only_pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def without_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def other_shape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.dense.bias"] = torch.zeros(7)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def missing_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"embeddings.word_embeddings.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def other_index(folder: Path, index: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def index_outside(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder.parent / "outside.safetensors")
    other_index(folder, {"weight_map": {"embeddings.word_embeddings.weight": "../outside.safetensors"}})


def modules(folder: Path, content: object) -> None:
    (folder / "modules.json").write_text(json.dumps(content))


def eight_bits(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.dense.bias"] = torch.ones(32, dtype=torch.int8)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def weights_are_a_folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled": (only_pickled, r"pytorch_model.bin only; such files can execute code.*save_pretrained"),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        "no model.safetensors; the checkpoint is not complete",
    ),
    "cut short": (cut_short, r"model.safetensors \(\d+ bytes\) is corrupt or cut short"),
    "no safetensors": (lambda f: (f / "model.safetensors").write_bytes(b"<html>not found</html>"), "corrupt"),
    "empty": (lambda f: (f / "model.safetensors").write_bytes(b""), r"\(0 bytes\) is corrupt"),
    "missing shard": (missing_shard, "the index names .*00001-of-00002.safetensors, which is missing"),
    "missing weight": (without_weight, "lacks 1 weights of its backbone .such as encoder.layer.1.output.dense.weight"),
    "other shape": (other_shape, r"layer.1.output.dense.bias has the shape \[7\] in the file, and .* asks for \[32\]"),
    "other vocabulary": (
        lambda f: change_config(f, vocab_size=30),
        r"shape \[28, 32\] .* config.json asks for \[30, 32\]",
    ),
    "fewer layers": (lambda f: change_config(f, num_hidden_layers=2), "16 weights .such as encoder.layer.2.* no place"),
    "one layer": (lambda f: change_config(f, num_hidden_layers=1), "holds 32 weights .* no place in the model"),
    "no layers": (lambda f: change_config(f, num_hidden_layers=0), "holds 48 weights .* no place in the model"),
    "less than no layers": (lambda f: change_config(f, num_hidden_layers=-1), "holds 48 weights .* no place"),
    "more layers": (lambda f: change_config(f, num_hidden_layers=4), "lacks 16 weights of its backbone"),
    "BERT called RoBERTa": (
        lambda f: change_config(f, model_type="roberta"),
        "model_type 'roberta', and its weights are of a BertModel: .* take the configuration that was saved with them",
    ),
    "BERT as RoBERTa": (
        lambda f: change_config(f, model_type="roberta", architectures=["RobertaModel"], pad_token_id=1),
        "counts positions from its padding token 1, and the tokenizer pads with 0",
    ),
    "int8 weights": (eight_bits, "holds encoder.layer.1.output.dense.bias as I8: quantised weights .* in float32"),
    "weights are a folder": (weights_are_a_folder, "no model.safetensors"),
    "index outside": (index_outside, r"is no file beside the index.* given is '../outside.safetensors'"),
    "kinds that are a number": (
        lambda f: change_config(f, architectures=3),
        r"config.json: architectures: .* given is 3",
    ),
    "index of no names": (lambda f: other_index(f, {"weight_map": [1]}), r"index.json: weight_map: .* given is \[1\]"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), r"config.json: .* an object, given is \[\]"),
    "config of brackets": (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json: Invalid JSON"),
    "settings are a list": (
        lambda f: (f / "encoder.json").write_text("[]"),
        r"encoder.json: .* an object, given is \[\]",
    ),
    "template is a number": (
        lambda f: (f / "encoder.json").write_text('{"pooling": "mask", "template": 3}'),
        r"encoder.json: template: .* string, given is 3",
    ),
    "modules are an object": (lambda f: modules(f, {}), r"modules.json: .* array, given is {}"),
    "modules are numbers": (lambda f: modules(f, [1, 2]), r"modules.json: 0: .* given is 1"),
    "modules without type": (lambda f: modules(f, [{"path": ""}]), r"modules.json: 0: type: Field required"),
    "modules elsewhere": (
        lambda f: modules(f, [{"type": "Transformer", "path": "../../elsewhere"}]),
        r"modules.json: 0: path: .* lies outside .*'../../elsewhere'",
    ),
    "modules at a root": (
        lambda f: modules(f, [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "/etc"}]),
        r"modules.json: 1: path: .* lies outside .*'/etc'",
    ),
    "no config": (lambda f: (f / "config.json").unlink(), "holds no config.json"),
    "broken config": (lambda f: (f / "config.json").write_text("{"), "config.json: Invalid JSON"),
    "unknown kind": (lambda f: change_config(f, model_type="nonesuch"), "config.json cannot be used: .*nonesuch"),
    "a decoder": (lambda f: change_config(f, is_decoder=True), "is a 'bert' decoder"),
    "no tokenizer": (no_tokenizer, "holds no tokenizer"),
    "broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("{"), "the tokenizer in .* cannot be loaded"),
    "empty tokenizer": (lambda f: tiny_tokenizer("bert", words=[]).save_pretrained(f), "knows 5 tokens"),
    "foreign tokenizer": (
        lambda f: tiny_tokenizer("bert", words=[f"w{i}" for i in range(99)]).save_pretrained(f),
        "ids go up to 103, the backbone embeds 28",
    ),
    "no [CLS] first": (lambda f: tiny_tokenizer("bert", first=False).save_pretrained(f), r"does not put \[CLS\] first"),
    "broken modules": (lambda f: (f / "modules.json").write_text("["), "modules.json: Invalid JSON"),
    "unknown pooling": (
        lambda f: (f / "encoder.json").write_text('{"pooling": "best"}'),
        r"encoder.json: pooling: .*'cls', .* given is 'best'",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_with_its_cause(tmp_path: Path, damage: str) -> None:
    folder = tiny_checkpoint(tmp_path / "a checkpoint")
    assert Encoder.from_pretrained(folder).encode(["a dog"]).shape == (1, 32)
    damaging, words = DAMAGE[damage]
    damaging(folder)
    with pytest.raises(EncoderError, match=words):
        Encoder.from_pretrained(folder)


def test_null_in_an_encoders_settings_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    noted = {"pooling": "mean", "template": None, "full_stop": None, "endings": None, "caution": 3, "more": [None]}
    (folder / "encoder.json").write_text(json.dumps(noted))
    assert find_checkpoint(str(folder)).read() == Reading("mean")
    (folder / "encoder.json").write_text(json.dumps(noted | {"pooling": None}))
    assert find_checkpoint(str(folder)).read() is None
    (folder / "encoder.json").write_text(json.dumps(noted | {"pooling": ""}))
    with pytest.raises(EncoderError, match=r"pooling.*given is ''"):
        find_checkpoint(str(folder))


def test_the_checksum_of_a_folder_is_of_what_an_encoder_reads_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    Encoder.from_pretrained(tiny_checkpoint(tmp_path / "checkpoint"), "mean").save(folder)
    found = [checkpoint_checksum(folder)]
    (folder / "README.md").write_text("another card")
    (folder / "notes.txt").write_text("of the user")
    assert checkpoint_checksum(shutil.copytree(folder, tmp_path / "elsewhere")) == found[0]
    for name in ("config.json", "tokenizer.json", "encoder.json", "modules.json", "1_Pooling/config.json"):
        (folder / name).write_text((folder / name).read_text() + " ")
        found.append(checkpoint_checksum(folder))
    weights = {name: value + 1 for name, value in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    found.append(checkpoint_checksum(folder))
    (folder / "encoder.json").unlink()  # now the limit is read from the files of SentenceTransformer
    for limit in (20, 10):
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
        found.append(checkpoint_checksum(folder))
    assert len(set(found)) == 9


def test_a_causal_model_is_refused_and_a_kind_that_is_both_is_judged_by_its_configuration(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint", "roberta")  # transformers lists RoBERTa as causal too
    assert Encoder.from_pretrained(folder).encode(["a dog"]).shape == (1, 32)
    small = Qwen3Config(
        vocab_size=28, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, hidden_size=8, head_dim=4
    )
    for config in (GPT2Config(vocab_size=28, n_layer=1, n_head=2, n_embd=8, bos_token_id=0, eos_token_id=0), small):
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
        for kind in (Encoder, CrossEncoder):
            with pytest.raises(EncoderError, match=f"is a '{config.model_type}' decoder: .* reads both ways"):
                kind.from_pretrained(folder, pooling="mean")


def test_code_of_a_checkpoint_is_never_executed(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    proof = tmp_path / "executed"
    (folder / "code.py").write_text(f"open({str(proof)!r}, 'w').close()\nclass C: pass\nclass M: pass\n")
    change_config(folder, model_type="own", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"})
    with pytest.raises(EncoderError, match="never executed"):
        Encoder.from_pretrained(folder)
    assert not proof.exists()


@pytest.mark.parametrize(
    "kind",
    [BertForMaskedLM, BertForPreTraining, BertForQuestionAnswering, RobertaForMaskedLM, RobertaForTokenClassification],
)
def test_heads_of_known_kinds_are_no_fault_and_half_precision_is_widened(tmp_path: Path, kind: Any) -> None:
    family = kind.base_model_prefix
    torch.manual_seed(0)
    model = kind(tiny_model(family).config).half()
    model.save_pretrained(tmp_path)
    tiny_tokenizer(family).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights[f"{family}.embeddings.position_ids"] = torch.arange(POSITIONS)[None]  # a buffer of older files
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    encoder = Encoder.from_pretrained(tmp_path)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    expected = getattr(model, family).embeddings.word_embeddings.weight.float()
    assert torch.equal(encoder.backbone.embeddings.word_embeddings.weight, expected)
    assert CrossEncoder.from_pretrained(tmp_path).score(["a dog"], ["a cat"]).shape == (1,)


@pytest.mark.parametrize("head", ["lm_loss.bias", "pred_layer.proj.weight", "generator.distilbert.embeddings.weight"])
def test_what_xlnet_xlm_and_diffcse_leave_beside_the_backbone_is_no_fault(tmp_path: Path, head: str) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    weights = load_file(folder / "model.safetensors") | {head: torch.ones(2)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert Encoder.from_pretrained(folder).encode(["a dog"]).shape == (1, 32)


def test_weights_of_a_head_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.attention.self.query.lora_A.weight"] = torch.ones(2, 32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for kind in (Encoder, CrossEncoder):
        with pytest.raises(EncoderError, match=r"holds 1 weights \(such as encoder.layer.0.*lora_A"):
            kind.from_pretrained(folder)


def test_a_file_that_may_not_be_read_is_not_called_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    opened = Path.open

    def refuse(self: Path, *args: Any, **options: Any) -> Any:
        if self.suffix == ".safetensors":
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EncoderError, match="cannot be read: Permission denied; see to its permissions"):
        Encoder.from_pretrained(folder)


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize("given", ["a", 8.0])
def test_max_tokens_that_is_no_whole_number_is_refused(tmp_path: Path, given: object) -> None:
    with pytest.raises(EncoderError, match=re.escape(f"max_tokens is {given!r}; this encoder takes 3 to {POSITIONS}")):
        Encoder.from_pretrained(tiny_checkpoint(tmp_path), max_tokens=given)


@pytest.mark.usefixtures("no_type_checks")
def test_a_dropout_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="dropout is 'a'; it is a probability"):
        Encoder.from_pretrained(tiny_checkpoint(tmp_path), dropout="a")


def test_a_path_that_is_no_folder_is_said_to_be_none(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "checkpoint")
    for name, words in (
        (tmp_path / "nowhere", "there is no folder .*bundled encoders are 'world-encoder', 'world-teacher'"),
        ("./nowhere", "there is no folder"),
        (folder / "config.json", "is a file; give the folder"),
        ("/" + 300 * "a", "cannot be looked for"),
    ):
        with pytest.raises(EncoderError, match=words):
            Encoder.from_pretrained(name)


def test_a_hub_id_without_a_network_says_so_and_what_to_do() -> None:
    with pytest.raises(
        EncoderError, match=r"'owner/name' is no local folder .*hf download owner/name.*HF_HUB_OFFLINE=1"
    ):
        Encoder.from_pretrained("owner/name")
    with pytest.raises(EncoderError, match=r"'english-encodr'; did you mean 'english-encoder'\? It is no local folder"):
        Encoder.from_pretrained("english-encodr")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (errors.RepositoryNotFoundError, "'owner/name' is neither a folder nor a repository"),
        (errors.GatedRepoError, "'owner/name' is gated"),
        (errors.RevisionNotFoundError, "has no revision 'v9'"),
        (errors.HFValidationError, "no valid hub id"),
        (ConnectionError, "the hub cannot be reached"),
    ],
)
def test_each_answer_of_the_hub_has_its_own_words(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], words: str
) -> None:
    import httpx

    def refuse(*_: object, **__: object) -> str:
        if issubclass(kind, errors.HfHubHTTPError):
            raise kind("no", response=httpx.Response(404, request=httpx.Request("GET", "https://hub")))
        raise kind("no")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(EncoderError, match=words):
        Encoder.from_pretrained("owner/name", revision="v9")


def test_a_snapshot_of_the_hub_is_read_as_a_folder_and_its_commit_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_checkpoint(tmp_path / "0123abcd")
    asked: dict[str, object] = {}

    def snapshot(name: str, **options: object) -> str:
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    encoder = Encoder.from_pretrained("owner/name", revision="main")
    assert encoder.source == "hub:owner/name@0123abcd"
    assert (asked["name"], asked["revision"]) == ("owner/name", "main")
    patterns = asked["allow_patterns"]
    assert isinstance(patterns, list)
    assert not any(pattern.endswith((".bin", ".py", ".pt")) for pattern in patterns)
