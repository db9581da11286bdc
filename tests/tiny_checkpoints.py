"""Tiny BERT and RoBERTa checkpoints with random weights, in the form of a user's checkpoint."""

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

KINDS = ("bert", "roberta")
# Settings of a training of a few steps.
SHORT = {"batch_size": 8, "eval_steps": 2, "save_steps": 2, "log_steps": 1, "max_steps": 4}
WORDS = [
    "a",
    "man",
    "woman",
    "dog",
    "cat",
    "eats",
    "sees",
    "runs",
    "reads",
    "red",
    "green",
    "small",
    "old",
    "food",
]
WORDS += ["book", "park", "house", "in", "the", "near", "and", "not", "."]
POSITIONS = 40
_SPECIAL = {
    "bert": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "roberta": {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"},
}


def tiny_tokenizer(
    kind: str, *, words: list[str] | None = None, first: bool = True
) -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer; it adds special tokens unless first is False."""
    special = _SPECIAL[kind]
    vocabulary = {
        word: i for i, word in enumerate([*special.values(), *(WORDS if words is None else words)])
    }
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk"]))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if first:
        around = [(name, vocabulary[name]) for name in (special["cls"], special["sep"])]
        inner.post_processor = processors.TemplateProcessing(
            single=f"{special['cls']} $A {special['sep']}",
            pair=f"{special['cls']} $A {special['sep']} $B {special['sep']}",
            special_tokens=around,
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, **{f"{name}_token": text for name, text in special.items()}
    )


def tiny_model(kind: str, *, layers: int = 3, seed: int = 0) -> PreTrainedModel:
    """Return a randomly initialised model with weights so large that sentences differ clearly."""
    torch.manual_seed(seed)
    settings = {
        "vocab_size": len(WORDS) + 5,
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "initializer_range": 0.2,
    }
    if kind == "bert":
        return BertModel(BertConfig(max_position_embeddings=POSITIONS, **settings)).eval()
    config = RobertaConfig(
        max_position_embeddings=POSITIONS + 2,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
        **settings,
    )
    return RobertaModel(config).eval()


def tiny_checkpoint(folder: Path, kind: str = "bert", *, layers: int = 3, seed: int = 0) -> Path:
    """Create a folder with model and tokenizer in the format of transformers."""
    tiny_model(kind, layers=layers, seed=seed).save_pretrained(folder)
    tiny_tokenizer(kind).save_pretrained(folder)
    return folder


def tiny_architecture(folder: Path, kind: Any) -> Path:
    """Create a folder with a small random model of a configuration class, with its head of masked
    words."""
    tokenizer = tiny_tokenizer("roberta")
    names = {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 16,
        "intermediate_size": 16,
    }
    if kind is transformers.DistilBertConfig:
        names = {"n_layers": 2, "n_heads": 2, "dim": 16, "hidden_dim": 16}
    if kind in (transformers.AlbertConfig, transformers.ElectraConfig):
        names["embedding_size"] = 8
    own = (
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
        if kind is transformers.DebertaV2Config
        else {}
    )
    special = {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "cls", "sep")
    }
    special |= {"bos_token_id": special["cls_token_id"], "eos_token_id": special["sep_token_id"]}
    torch.manual_seed(0)
    config = kind(
        vocab_size=len(tokenizer), max_position_embeddings=POSITIONS + 2, **names, **own, **special
    )
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_sentences(count: int, *, seed: int = 0, longest: int = 12) -> list[str]:
    """Return random sentences of 1 to `longest` words."""
    generator = torch.Generator().manual_seed(seed)

    def draw(bound: int) -> int:
        return int(torch.randint(bound, (1,), generator=generator))

    return [
        " ".join(WORDS[draw(len(WORDS))] for _ in range(1 + draw(longest))) for _ in range(count)
    ]


def enlarged(source: Path, target: Path, factor: float) -> Path:
    """Copy a checkpoint with all weights, except the LayerNorms', multiplied by `factor`."""
    shutil.copytree(source, target)
    weights = load_file(target / "model.safetensors")
    larger = {
        name: value * factor if "LayerNorm" not in name else value
        for name, value in weights.items()
    }
    save_file(larger, target / "model.safetensors", metadata={"format": "pt"})
    return target
