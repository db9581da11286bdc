"""Backbone and tokenizer of a checkpoint that was found: loaded whole or refused."""

import inspect
import os
from typing import Any

import torch
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
)

from workbench.encoder._checkpoint import Checkpoint, quiet
from workbench.errors import EncoderError

# Transformers lists these with the causal models alone, though without `is_decoder` they read both ways.
_BOTH_WAYS = ("bert-generation", "xlnet")
# The names under which BERT-like, RoBERTa-like and DistilBERT-like configurations keep their dropout rates.
_DROPOUT_SETTINGS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")


def load_backbone(checkpoint: Checkpoint, *, dropout: float | None = None) -> nn.Module:
    """The AutoModel of a checkpoint in float32, without its pretrained pooler (SimCSE never loads it either).

    dropout: rate for hidden states and attention in place of the checkpoint's own; None keeps them.
    Raises EncoderError when the configuration is unknown or any weight of the backbone is missing or has another shape.
    """
    config = load_config(checkpoint)
    if dropout is not None:
        set_dropout(config, dropout)
    model_class: Any = MODEL_MAPPING.get(type(config), None)
    options: dict[str, Any] = {}
    if inspect.isclass(model_class) and "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    try:
        with quiet():
            backbone, report = AutoModel.from_pretrained(
                os.fspath(checkpoint.folder),
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
                **options,
            )
    except Exception as error:
        raise EncoderError(f"{checkpoint.folder} cannot be loaded as {config.model_type!r}: {error}") from error
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key.split("."))
    if missing:
        raise EncoderError(
            f"{checkpoint.folder} lacks {len(missing)} weights of its backbone (such as {missing[0]}), which would be "
            "left random; the file is of another model or was saved in part: save the whole AutoModel again"
        )
    return backbone


def load_tokenizer(checkpoint: Checkpoint) -> Any:
    """The tokenizer of a checkpoint; EncoderError when it is broken, empty, or cannot pad."""
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(
                os.fspath(checkpoint.folder), trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        raise EncoderError(f"the tokenizer in {checkpoint.folder} cannot be loaded: {error}") from error
    if len(tokenizer) <= 5:
        raise EncoderError(
            f"the tokenizer in {checkpoint.folder} knows {len(tokenizer)} tokens: its vocabulary file was not read; "
            "save the tokenizer again, with its tokenizer.json"
        )
    if tokenizer.pad_token_id is None:
        raise EncoderError(
            f"the tokenizer in {checkpoint.folder} has no padding token, so it is none of a sentence encoder"
        )
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def check_match(backbone: Any, tokenizer: Any, *, pooling: str, source: str) -> None:
    """Refuses a tokenizer that is not the backbone's, and one that puts no [CLS] first where [CLS] is pooled."""
    rows = backbone.get_input_embeddings().weight.shape[0]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise EncoderError(
            f"{source}: the tokenizer's ids go up to {largest}, the backbone embeds {rows}: they do not belong together"
        )
    first = tokenizer("a", add_special_tokens=True)["input_ids"][0]
    if pooling == "cls" and first != (tokenizer.cls_token_id if tokenizer.cls_token_id is not None else first):
        raise EncoderError(
            f"{source}: pooling 'cls' reads the first token, but the tokenizer does not put {tokenizer.cls_token} "
            "first (tokenizer.json has no post-processor); save the tokenizer with one or take pooling='mean'"
        )
    if pooling == "mask" and tokenizer.mask_token_id is None:
        raise EncoderError(f"{source}: pooling 'mask' reads the [MASK] token, and this tokenizer has none")


def position_range(backbone: Any, tokenizer: Any) -> tuple[int, int]:
    """The position of the first token, and the longest input (special tokens included) that the backbone can place.

    RoBERTa kinds count positions from padding_idx + 1, so a table of 514 positions holds 512 tokens.
    """
    for name, module in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return first, module.num_embeddings - first
    positions = getattr(backbone.config, "max_position_embeddings", 0)
    if positions > 0:
        return 0, positions
    # No table of positions (relative ones): only the tokenizer knows; transformers writes 1e30 for "unlimited".
    return 0, tokenizer.model_max_length if tokenizer.model_max_length < 10**6 else 512


def load_config(checkpoint: Checkpoint) -> Any:
    """The configuration of a checkpoint; EncoderError when transformers does not know it or it is a decoder's."""
    try:
        with quiet():
            config = AutoConfig.from_pretrained(
                os.fspath(checkpoint.folder), trust_remote_code=False, local_files_only=True
            )
    except Exception as error:
        raise EncoderError(
            f"{checkpoint.folder / 'config.json'} cannot be used: {error}. Only architectures that transformers itself "
            "carries are loaded; code from a checkpoint is never executed"
        ) from error
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False) or _is_causal(config):
        raise EncoderError(
            f"{checkpoint.folder} is a {config.model_type!r} decoder: each of its tokens sees only those before it. A "
            "sentence encoder reads both ways: give one of the BERT, RoBERTa, MPNet, ... kinds"
        )
    return config


def _is_causal(config: Any) -> bool:
    """Whether this kind of model only ever predicts the next token; BERT's kind does both and says which."""
    if config.model_type in _BOTH_WAYS or getattr(config, "use_bidirectional_attention", False) is True:
        return False
    return type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and type(config) not in MODEL_FOR_MASKED_LM_MAPPING


def set_dropout(config: Any, rate: float) -> None:
    """Writes one rate for hidden states and attention into a configuration."""
    if not 0.0 <= rate < 1.0:
        raise EncoderError(
            f"dropout is {rate}; it is a probability: 0 <= dropout < 1, or None for the checkpoint's own"
        )
    present = [name for name in _DROPOUT_SETTINGS if hasattr(config, name)]
    if not present:
        raise EncoderError(
            f"a {config.model_type!r} backbone has no dropout setting that is known here; leave dropout=None"
        )
    for name in present:
        setattr(config, name, rate)
