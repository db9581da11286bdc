"""Pack encoders into a page that ranks what is typed in any browser, without network, kernel or
installation."""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from workbench.errors import EncoderError
from workbench.files import atomic_write
from workbench.views._table import HERE, STYLE_SHEET

_POOLINGS = ("mean", "cls")
# Of added tokens, which the script does not know.
_RULES = ("normalized", "single_word", "lstrip", "rstrip")
Precision = Literal["int8", "float16"]
_PAGE = (HERE / "offline.html").read_text(encoding="utf-8")
_SCRIPT = (HERE / "encoder.js").read_text(encoding="utf-8")


def write_offline(
    path: Path, models: Mapping[str, Any], query: str, targets: Sequence[str], precision: Precision
) -> Path:
    """Write the page with these encoders, label -> `Encoder`, or None for `WordOverlap`. Raises as
    `pack_encoder`."""
    packed = [
        {"label": label, **(pack_encoder(one, precision) if one else {})}
        for label, one in models.items()
    ]
    page = _PAGE.format(
        style=STYLE_SHEET,
        # The text of a script element ends at "</".
        encoders=json.dumps(packed).replace("<", "\\u003c"),
        script=_SCRIPT,
        query=escape(query),
        targets=escape("\n".join(targets)),
    )
    with atomic_write(path) as file:
        file.write(page)
    return path


def pack_encoder(encoder: Any, precision: Precision = "int8") -> dict[str, Any]:
    """Return what `encoder.js` reads of an encoder: its settings, vocabulary and weights as base64.

    precision: "int8", each row of a matrix as whole numbers from -127 to 127 and a scale; or
        "float16". Raises EncoderError unless it is a BERT with WordPiece, pooled by mean or [CLS],
        without prompts and dense layers, and ValueError for another precision."""
    if precision not in get_args(Precision):
        raise ValueError(
            f"precision is {precision!r}; it can be {' or '.join(get_args(Precision))}"
        )
    if not hasattr(encoder, "backbone") or encoder.backbone.config.model_type != "bert":
        raise EncoderError(
            "a page can only contain a BERT encoder, not "
            f"{getattr(encoder, 'checkpoint', encoder)!r:.80}"
        )
    config = encoder.backbone.config
    tokenizer = json.loads(encoder.tokenizer.backend_tokenizer.to_str())
    named = {part: getattr(encoder.tokenizer, f"{part}_token_id") for part in ("cls", "sep", "unk")}
    weights = {
        name: value.detach().float().cpu().numpy()
        for name, value in encoder.backbone.state_dict().items()
    }
    # Greater than the largest float16: the script would compute with infinity. The comparison is
    # false for nan.
    is_finite = all(
        (np.abs(values) <= np.finfo(np.float16).max).all() for values in weights.values()
    )
    model = tokenizer["model"]
    rules = tokenizer["normalizer"] or {}
    vocabulary = dict(sorted(dict(model.get("vocab", {})).items(), key=itemgetter(1)))
    problems = {
        f"has the activation {config.hidden_act}": config.hidden_act != "gelu",
        "has no tokenizer of BERT": (model["type"], rules.get("type"))
        != ("WordPiece", "BertNormalizer"),
        "has a vocabulary with gaps": [*vocabulary.values()] != [*range(len(vocabulary))],
        "has added tokens with rules": any(
            token[rule] for token in tokenizer["added_tokens"] for rule in _RULES
        ),
        "has a width that is no multiple of 4": config.hidden_size % 4
        + config.intermediate_size % 4
        > 0,
        f"has pooling {encoder.pooling!r}": encoder.pooling not in _POOLINGS,
        "has dense layers": encoder.dense is not None,
        "has a prompt": bool(encoder.spec.prompt),
        "compares by dot products": encoder.similarity_name != "cosine",
        "lacks one of the tokens [CLS], [SEP] and [UNK]": None in named.values(),
        "has more tokens than rows of its table": len(encoder.tokenizer) > config.vocab_size,
        "has weights that are not finite, or too large for 16 bits": not is_finite,
    }
    for problem, is_so in problems.items():
        if is_so:
            raise EncoderError(
                f"{encoder.checkpoint.name} {problem}; a page can contain a BERT with "
                "WordPiece, pooled by mean or cls"
            )
    tables = {
        part: weights[f"embeddings.{part}_embeddings.weight"]
        for part in ("word", "position", "token_type")
    }
    kept = {
        "embeddings.word": tables["word"],
        "embeddings.position": tables["position"] + tables["token_type"][0],
    }
    kept |= {
        name: v
        for name, v in weights.items()
        if name.startswith(("embeddings.LayerNorm", "encoder."))
    }
    tensors = []
    parts = []
    for key, values in kept.items():
        rows = np.atleast_2d(values)
        kind = precision if values.ndim == 2 else "float16"
        tensors.append([key, rows.shape, kind])
        parts += _whole_numbers(rows) if kind == "int8" else [rows.astype("<f2").tobytes()]
    if rules["strip_accents"] is None:
        rules["strip_accents"] = rules["lowercase"]
    return {
        "config": {
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "pooling": encoder.pooling,
            "longest": min(encoder.max_seq_length, len(tables["position"])),
            "layer_norm_eps": config.layer_norm_eps,
        },
        "tokenizer": {
            **rules,
            **named,
            "longest_word": model["max_input_chars_per_word"],
            "special": [(token["content"], token["id"]) for token in tokenizer["added_tokens"]],
        },
        "vocabulary": [*vocabulary],
        "tensors": tensors,
        "data": base64.b64encode(b"".join(parts)).decode(),
    }


def _whole_numbers(rows: np.ndarray) -> list[bytes]:
    """Return the rows as int8, then the scale of each row as float32."""
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-12) / 127
    return [
        np.rint(rows / scales[:, None]).astype(np.int8).tobytes(),
        scales.astype("<f4").tobytes(),
    ]
