"""Encoders in a page that ranks what is typed, in any browser.

It needs no network, kernel or installation."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from workbench.errors import EncoderError, require_known
from workbench.files import AnyPath, Facts
from workbench.views._style import render
from workbench.views.encoders import WordOverlap
from workbench.views.export import write_page

_POOLINGS = ("mean", "cls")
_CONFIG = ("num_hidden_layers", "num_attention_heads", "layer_norm_eps")
# Of added tokens, which the script does not know.
_RULES = ("normalized", "single_word", "lstrip", "rstrip")
Precision = Literal["int8", "float16"]


def write_offline(
    path: AnyPath,
    models: Facts,
    query: str,
    targets: Sequence[str],
    precision: Precision,
) -> Path:
    """Write the page with these encoders, label -> `Encoder` or `WordOverlap`.

    Raises as `pack_encoder`."""
    packed = [{"label": label, **pack_encoder(model, precision)} for label, model in models.items()]
    return write_page(path, render("offline.html", encoders=packed, query=query, targets=targets))


def pack_encoder(encoder: Any, precision: Precision = "int8") -> Facts:
    """Return what `encoder.js` reads: config, tokenizer file, and weights as base64.

    Args:
        precision: "int8", each row of a matrix as whole numbers from -127 to 127 and a scale; or
            "float16".

    Raises:
        EncoderError: The encoder is not a BERT with WordPiece, pooled by mean or [CLS], without
            prompts and dense layers.
        SettingError: Another precision.
    """
    require_known("precision", precision, get_args(Precision), "of a page")
    if isinstance(encoder, WordOverlap):  # which the script computes itself
        return {}
    if not hasattr(encoder, "backbone") or encoder.backbone.config.model_type != "bert":
        raise EncoderError(
            "a page can only contain a BERT encoder, not "
            f"{getattr(encoder, 'checkpoint', encoder)!r:.80}"
        )
    config = encoder.backbone.config
    # The file of the tokenizer and not its class: the script does what the file says.
    tokenizer = json.loads(encoder.tokenizer.backend_tokenizer.to_str())
    weights = {
        name: value.float().cpu().numpy()
        for name, value in encoder.backbone.state_dict().items()
        if name.startswith(("embeddings.", "encoder."))
    }
    # Above the largest float16 the script would compute with infinity; nan is not below it.
    largest = np.finfo(np.float16).max
    is_finite = all((np.abs(values) <= largest).all() for values in weights.values())
    has_rules = any(token[rule] for token in tokenizer["added_tokens"] for rule in _RULES)
    normalizer = tokenizer["normalizer"] or {}
    kinds = (tokenizer["model"]["type"], normalizer.get("type"))
    problems = {
        f"has the activation {config.hidden_act}": config.hidden_act != "gelu",
        "has no tokenizer of BERT": kinds != ("WordPiece", "BertNormalizer"),
        "has added tokens with rules": has_rules,
        f"has pooling {encoder.pooling!r}": encoder.pooling not in _POOLINGS,
        "has dense layers": encoder.dense is not None,
        "has a prompt": encoder.spec.prompt,
        "compares by dot products": encoder.similarity_name != "cosine",
        "has more tokens than rows of its table": len(encoder.tokenizer) > config.vocab_size,
        "has weights that are not finite, or too large for 16 bits": not is_finite,
    }
    for problem, is_so in problems.items():
        if is_so:
            raise EncoderError(
                f"{encoder.checkpoint.name} {problem}; "
                "a page can contain a BERT with WordPiece, pooled by mean or cls"
            )
    tensors = []
    parts = []
    for name, values in weights.items():
        rows = np.atleast_2d(values)
        # Biases and norms are few, and a scale for each would lose more than it saves.
        kind = precision if values.ndim == 2 else "float16"
        tensors.append([name, rows.shape, kind])
        parts.append(_whole_numbers(rows) if kind == "int8" else rows.astype("<f2").tobytes())
    return {
        # Not the whole config, which has the path of the encoder on this machine.
        "config": {name: getattr(config, name) for name in _CONFIG},
        "pooling": encoder.pooling,
        "longest": min(encoder.max_seq_length, config.max_position_embeddings),
        "tokenizer": tokenizer,
        "special": encoder.tokenizer.special_tokens_map,
        "tensors": tensors,
        "data": base64.b64encode(b"".join(parts)).decode(),
    }


def _whole_numbers(rows: np.ndarray) -> bytes:
    """Return the rows as int8, then the scale of each row as float32."""
    # A row of zeros has any scale.
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-12) / 127
    whole = np.rint(rows / scales[:, None]).astype(np.int8)
    return whole.tobytes() + scales.astype("<f4").tobytes()
