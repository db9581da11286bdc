"""The model card of a saved encoder: what is known of it, for the hub and for whoever opens the folder."""

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCardData

from workbench.config import BUNDLED_MODELS
from workbench.data import CATALOGUE
from workbench.errors import EncoderError

if TYPE_CHECKING:
    from workbench.encoder._model import Encoder

_PUBLIC_IDS = ("base_model", "datasets")
_PUBLIC_NAME = re.compile(r"[\w.-]*\w[\w.-]*(/[\w.-]*\w[\w.-]*)?")
# From a root, a home or a drive on, up to a space.
_ABSOLUTE_PATH = re.compile(r"(?<![\w<./\\:-])(~|[A-Za-z]:)?[\\/]+[^\s,;]*[^\s,;.]")


def model_card(
    encoder: "Encoder",
    card: dict[str, Any],
    *,
    pipeline: str = "sentence-similarity",
    usage: list[str] | None = None,
) -> str:
    """README.md: what is known of the encoder in YAML for the hub, and how to load it; no more than that.

    A base model or a set that the hub does not have is left out, and of an absolute path in a text its last part
    stays. Raises EncoderError for a field that a card does not have.

    pipeline: the hub's name of what it does. usage: the lines that say how it is loaded; None: as an encoder.
    """
    known = ("language", "license", *_PUBLIC_IDS, "metrics", "model_name", "tags")
    unknown = sorted(set(card) - {*known, "title", "description", "results"})
    if unknown:
        raise EncoderError(
            f"a model card has no field {unknown[0]!r}; it has {', '.join(known)}, title, description, results"
        )
    kinds = {pipeline} if pipeline != "sentence-similarity" else {pipeline, "feature-extraction"}
    header = ModelCardData(
        **{name: card[name] for name in known if card.get(name) and name not in ("tags", *_PUBLIC_IDS)},
        **{name: _public(card[name]) for name in _PUBLIC_IDS if card.get(name)},
        library_name="sentence-transformers",
        pipeline_tag=pipeline,
        tags=sorted({"sentence-transformers", *kinds, *card.get("tags", [])}),
    )
    lines = ["---", header.to_yaml(), "---", "", f"# {_text(card.get('title', 'Sentence encoder'))}", ""]
    if card.get("description"):
        lines += [_text(card["description"]), ""]
    lines += usage if usage is not None else _usage(encoder)
    results = card.get("results") or {}
    if results:
        cells = [f"| {_text(name)} | {_text(value)} |" for name, value in results.items()]
        lines += ["## Results", "", "| | |", "|---|---:|", *cells, ""]
    return "\n".join(lines)


def _public(names: Any) -> Any:
    """Of one name or several their ids on the hub, None for what is not there: a path, or what is bundled here."""
    if not isinstance(names, str):
        return list(dict.fromkeys(filter(None, map(_public, names)))) or None
    if names in CATALOGUE:
        hub = CATALOGUE[names].hub
        return hub.repo if hub else None
    there = _PUBLIC_NAME.fullmatch(names) and names not in BUNDLED_MODELS and not Path(names).exists()
    return names if there else None


def _text(value: Any) -> str:
    """A text as one line of markdown: nothing in it is HTML or ends a cell, and of an absolute path the end is left."""
    line = _ABSOLUTE_PATH.sub(
        lambda found: re.split(r"[\\/]+", found[0].rstrip("\\/"))[-1], " ".join(str(value).split())
    )
    return html.escape(line, quote=False).replace("|", "\\|")


def _usage(encoder: "Encoder") -> list[str]:
    lines = [
        f"A {encoder.backbone.config.model_type} backbone, {encoder.width} numbers a sentence, pooling "
        f"`{encoder.pooling}`, at most {encoder.limit} tokens, compared by cosine.",
        "",
    ]
    if encoder.pooling == "mask":
        return [
            *lines,
            f"The sentence is put into `{_text(encoder.template)}` and the hidden state at the mask token is the "
            "embedding. sentence-transformers has no such module and will refuse this folder; load it with "
            "`workbench.Encoder.from_pretrained`.",
            "",
        ]
    return [
        *lines,
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "embeddings = SentenceTransformer(folder).encode(sentences)  # not normalised: compare by cosine",
        "```",
        "",
    ]
