"""An unusable checkpoint is refused with its cause and never used in part."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import POSITIONS, tiny_checkpoint, tiny_model, tiny_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from transformers import AutoModel, BertForPreTraining, GPT2Config, Qwen3Config, RobertaForMaskedLM

from workbench.encoder import CrossEncoder, Encoder
from workbench.errors import EncoderError
from workbench.files import checkpoint_checksum

DENSE = "encoder.layer.1.output.dense"


def config(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def weights(**changes: torch.Tensor | None) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        kept = load_file(folder / "model.safetensors") | {
            f"{DENSE}.{name}": value for name, value in changes.items()
        }
        kept = {name: value for name, value in kept.items() if value is not None}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def write(name: str, content: object) -> Callable[[Path], object]:
    """Write a file: text as it is, anything else as JSON."""
    return lambda folder: (folder / name).write_text(
        content if isinstance(content, str) else json.dumps(content)
    )


def only_pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def missing_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    content = {
        "metadata": {},
        "weight_map": {"embeddings.word_embeddings.weight": "m-1.safetensors"},
    }
    write("model.safetensors.index.json", content)(folder)


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("*token*"):
        path.unlink()


def tokenizer(**options: Any) -> Callable[[Path], object]:
    return lambda folder: tiny_tokenizer("bert", **options).save_pretrained(folder)


def unigram_file(folder: Path) -> None:
    """Write the layout of older multilingual encoders: BERT's class, SentencePiece's file."""
    vocabulary = [(word, -1.0) for word in ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "a", "b")]
    file = Tokenizer(Unigram(vocabulary, unk_id=0))
    file.add_special_tokens(["[UNK]", "[PAD]", "[CLS]", "[SEP]"])
    file.save(str(folder / "tokenizer.json"))
    write("tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})(folder)


def wanted_end(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    facts = json.loads(path.read_text()) | {"add_eos_token": True, "eos_token": "a"}
    path.write_text(json.dumps(facts))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled": (
        only_pickled,
        r"no model.safetensors.*pickled weights can execute code.*save_file",
    ),
    "cut short": (cut_short, r"cannot be loaded as 'bert'.* not fully covered"),
    "missing shard": (missing_shard, "m-1.safetensors"),
    "missing weight": (
        weights(weight=None),
        f"1 weights .such as {DENSE}.weight. of the backbone are missing",
    ),
    "int8 weights": (
        config(quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True}),
        "quantised",
    ),
    "adapter": (
        weights(lora_A=torch.ones(2)),
        r"1 weights .such as .*lora_A. have no place in the model",
    ),
    "fewer layers": (
        config(num_hidden_layers=2),
        "16 weights .such as encoder.layer.2.* no place in the model",
    ),
    "BERT called RoBERTa": (
        config(model_type="roberta"),
        "model_type 'roberta', and its weights are of a BertModel",
    ),
    "BERT as RoBERTa": (
        config(model_type="roberta", architectures=["RobertaModel"], pad_token_id=1),
        "pads with 0, and the backbone counts positions from its padding token 1",
    ),
    "no config": (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    "broken config": (write("config.json", "{"), "config.json cannot be read: .* line 1 column 2"),
    "a decoder": (config(is_decoder=True), "is a 'bert' with a decoder"),
    "no tokenizer": (no_tokenizer, "knows 5 tokens"),
    "broken tokenizer": (write("tokenizer.json", "{"), "the tokenizer in .* cannot be loaded"),
    "foreign tokenizer": (
        tokenizer(words=[f"w{i}" for i in range(99)]),
        "ids up to 103, and the backbone embeds 28",
    ),
    "another kind of tokenizer": (unigram_file, "another kind than its tokenizer.json holds"),
    "no end": (wanted_end, "does not put a last, as its add_eos_token says"),
    "no [CLS] first": (tokenizer(first=False), r"does not put \[CLS\] first"),
    "unknown pooling": (
        write("encoder.json", {"pooling": "best"}),
        "encoder.json cannot be read: pooling: .*'cls', 'mean'.*'best'",
    ),
    "template of cls": (
        write("encoder.json", {"pooling": "cls", "template": "{sentence} [MASK]"}),
        "needs pooling='m",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_with_its_cause(tmp_path: Path, damage: str) -> None:
    folder = tiny_checkpoint(tmp_path / "a checkpoint")
    damaging, words = DAMAGE[damage]
    damaging(folder)
    with pytest.raises(EncoderError, match=words):
        Encoder.from_pretrained(folder)


def test_the_cause_is_shown_behind_the_path_of_a_deep_folder(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path.joinpath(*("deep" * 20 for _ in range(4)), "checkpoint"))
    damaging, words = DAMAGE["missing shard"]
    damaging(folder)
    with pytest.raises(EncoderError, match=words):
        Encoder.from_pretrained(folder)


def test_the_checksum_of_a_folder_is_of_what_an_encoder_reads_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    Encoder.from_pretrained(tiny_checkpoint(tmp_path / "checkpoint"), "mean").save(folder)
    sums = [checkpoint_checksum(folder)]
    (folder / "README.md").write_text("another card")
    assert checkpoint_checksum(shutil.copytree(folder, tmp_path / "elsewhere")) == sums[0]
    (folder / "tokenizer.model").write_text("not read beside tokenizer.json")
    assert checkpoint_checksum(folder) == sums[0]
    for name in (
        "config.json",
        "tokenizer.json",
        "encoder.json",
        "modules.json",
        "1_Pooling/config.json",
    ):
        (folder / name).write_text((folder / name).read_text() + " ")
        sums.append(checkpoint_checksum(folder))
    # Now the limit is read from the files of SentenceTransformer.
    (folder / "encoder.json").unlink()
    for limit in (20, 10):
        write("sentence_bert_config.json", {"max_seq_length": limit})(folder)
        sums.append(checkpoint_checksum(folder))
    (folder / "tokenizer.json").unlink()
    for text in ("one", "two"):
        (folder / "tokenizer.model").write_text(text)
        sums.append(checkpoint_checksum(folder))
    assert len(set(sums)) == 10


def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_checkpoint(tmp_path / "checkpoint"))
    with pytest.raises(EncoderError, match="'' is neither a folder nor a hub id"):
        Encoder.from_pretrained("")


def test_a_causal_model_is_refused_and_a_kind_that_is_both_is_judged_by_its_configuration(
    tmp_path: Path,
) -> None:
    # Transformers lists RoBERTa as causal too.
    folder = tiny_checkpoint(tmp_path / "checkpoint", "roberta")
    assert Encoder.from_pretrained(folder).encode(["a dog"]).shape == (1, 32)
    small = Qwen3Config(
        vocab_size=28,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        hidden_size=8,
        head_dim=4,
    )
    for kind in (
        GPT2Config(vocab_size=28, n_layer=1, n_head=2, n_embd=8, bos_token_id=0, eos_token_id=0),
        small,
    ):
        AutoModel.from_config(kind).save_pretrained(folder)
        with pytest.raises(
            EncoderError, match=f"is a '{kind.model_type}' decoder, .* set pooling=last"
        ):
            Encoder.from_pretrained(folder, pooling="mean")


def test_code_of_a_checkpoint_is_never_executed(tmp_path: Path) -> None:
    folder, proof = tiny_checkpoint(tmp_path / "checkpoint"), tmp_path / "executed"
    (folder / "code.py").write_text(
        f"open({str(proof)!r}, 'w').close()\nclass C: pass\nclass M: pass\n"
    )
    config(model_type="own", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"})(folder)
    with pytest.raises(EncoderError, match="never executed"):
        Encoder.from_pretrained(folder)
    assert not proof.exists()


@pytest.mark.parametrize("kind", [BertForPreTraining, RobertaForMaskedLM])
def test_heads_and_buffers_are_no_fault_and_half_precision_is_widened(
    tmp_path: Path, kind: Any
) -> None:
    family = kind.base_model_prefix
    torch.manual_seed(0)
    model = kind(tiny_model(family).config).half()
    model.save_pretrained(tmp_path)
    tiny_tokenizer(family).save_pretrained(tmp_path)
    kept = load_file(tmp_path / "model.safetensors")
    # A buffer of older files.
    kept[f"{family}.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    # XLNet, DiffCSE.
    kept |= {"lm_loss.bias": torch.ones(2), "generator.distilbert.embeddings.weight": torch.ones(2)}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    encoder = Encoder.from_pretrained(tmp_path)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    expected = getattr(model, family).embeddings.word_embeddings.weight.float()
    assert torch.equal(encoder.backbone.embeddings.word_embeddings.weight, expected)
    assert CrossEncoder.from_pretrained(tmp_path).score(["a dog"], ["a cat"]).shape == (1,)
