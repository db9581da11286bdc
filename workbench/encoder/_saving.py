"""Save an encoder: files of transformers in the root, those of SentenceTransformer and a model card
next to them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCardData
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from workbench.checkpoints import FLAGS, HUB_ID, SETTINGS_FILE, STEPS, USAGE_FILE, EncodingSpec
from workbench.config import BUNDLED_MODELS
from workbench.data import CATALOGUE
from workbench.encoder._loading import Normalize, Truncate, quiet
from workbench.encoder._pooling import FIRST_LAYER
from workbench.errors import EncoderError
from workbench.files import atomic_path

# The module names of sentence-transformers 2 to 6 (6 maps them to its new ones), so that every
# version loads them.
_MODULES = "sentence_transformers.models."
# No module of sentence-transformers reads the [MASK] of a template: at this name it stops instead
# of pooling otherwise.
_MASK_MODULE = "workbench.encoder.MaskPooling"
# A module of a SentenceTransformer: its kind, its config.json and its weights.
Module = tuple[str, dict[str, Any], dict[str, torch.Tensor]]
_CARD_FIELDS = ("language", "license", "base_model", "datasets", "metrics", "model_name", "tags")
# From a root, a home or a drive up to the last separator.
_ABSOLUTE_PATH = re.compile(r"(?<![\w.:/\\-])(~|[A-Za-z]:)?[\\/]\S*[\\/]")
# What begins HTML, a link, an image, code, mathematics or emphasis in Markdown, and at its start a
# heading or a list.
_MARKUP = re.compile(r"[<>&`*\[\]|~$\\]|^[#+=-]")


@contextmanager
def replace_encoder(folder: str | Path) -> Iterator[Path]:
    """Yield a new folder that becomes `folder` at the end; only an empty folder or an encoder is
    replaced."""
    target = Path(folder).expanduser().absolute()
    if target.exists() and not (
        target.is_dir() and (not any(target.iterdir()) or (target / "config.json").is_file())
    ):
        raise EncoderError(
            f"{target} exists and is no saved encoder; it is left as it is: give another folder"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, folder=True) as fresh:
            yield fresh
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"the encoder cannot be written to {target}: {error}") from error


def save_encoder(folder: Path, encoder: Any, card: dict[str, Any], dtype: torch.dtype) -> None:
    """Write an Encoder into `folder` for transformers, SentenceTransformer and this library."""
    backbone, spec, limit = encoder.backbone, encoder.spec, encoder.max_seq_length
    pooling, prompts = spec.pooling, encoder.prompts
    save_checkpoint(folder, backbone, encoder.tokenizer, limit, dtype)
    usage: dict[str, Any] = {"prompts": prompts}
    cuts: dict[str, Any] = {"max_seq_length": limit, "do_lower_case": False}
    if pooling in FIRST_LAYER:
        cuts["config_args"] = {"output_hidden_states": True}
    files: dict[str, Any] = {"sentence_bert_config.json": cuts}
    modules = [_pooling_module(step, backbone, spec, dtype) for step in STEPS[pooling]]
    for layer in encoder.dense or ():
        if isinstance(layer, Truncate):
            usage["truncate_dim"] = layer.width
        else:
            modules.append(_layer_module(layer, dtype))
    entries = [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}Transformer"}]
    for number, (kind, facts, weights) in enumerate(modules, 1):
        path = f"{number}_{kind}"
        module = _MASK_MODULE if kind == "MaskPooling" else f"{_MODULES}{kind}"
        entries.append({"idx": number, "name": str(number), "path": path, "type": module})
        if facts:
            files[f"{path}/config.json"] = facts
        if weights:
            (folder / path).mkdir()
            save_file(weights, folder / path / "model.safetensors")
    default = next((name for name, text in prompts.items() if text == spec.prompt), None)
    usage |= {"default_prompt_name": default, "similarity_fn_name": spec.similarity}
    files[USAGE_FILE] = usage
    files["modules.json"] = entries
    usual = asdict(EncodingSpec(caution=spec.caution))
    other = {name: value for name, value in asdict(spec).items() if value != usual[name]}
    files[SETTINGS_FILE] = {"pooling": pooling} | other
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    width = backbone.config.hidden_size
    kind = (
        f"{backbone.config.model_type} encoder, {width} dimensions, pooling {pooling}, at "
        f"most {limit} tokens"
    )
    kind += f", compared by {spec.similarity}"
    kind += f", with the prompt {spec.prompt!r} before each sentence" if spec.prompt else ""
    code = [
        "from workbench import Encoder",
        "embeddings = Encoder.from_pretrained(folder).encode(sentences)",
    ]
    if pooling != "mask":  # no module of sentence-transformers reads a template
        use = "embeddings = SentenceTransformer(folder).encode(sentences)  # not normalised"
        code = ["from sentence_transformers import SentenceTransformer", use]
    write_card(folder, card, kind, code)


def _pooling_module(step: str, backbone: Any, spec: EncodingSpec, dtype: torch.dtype) -> Module:
    """Return a step of a pooling as a module in the form that sentence-transformers 2 to 6 read."""
    config = backbone.config
    width, layers = config.hidden_size, config.num_hidden_layers
    # The mean of two layers as a weighted mean of all, with two weights of 1.
    if step == "WeightedLayerPooling":
        chosen = torch.zeros(layers + 1)
        chosen[[FIRST_LAYER[spec.pooling], layers]] = 1.0
        shape = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        return step, shape, {"layer_weights": chosen}
    if step == "Dense":
        return _layer_module(nn.Sequential(backbone.pooler.dense, nn.Tanh()), dtype)
    if step not in FLAGS:
        return step, {}, {}
    flags = {
        FLAGS[mode]: mode == step for mode in ("cls", "mean", "max", "mean_sqrt_len_tokens", step)
    }
    skips = {"include_prompt": False} if spec.skips_prompt else {}
    return "Pooling", {"word_embedding_dimension": width} | flags | skips, {}


def _layer_module(layer: Any, dtype: torch.dtype) -> Module:
    """Return a layer over the pooling as a module."""
    if isinstance(layer, Normalize):
        return "Normalize", {}, {}
    linear, activation = layer
    kind = type(activation)
    facts = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{kind.__module__}.{kind.__name__}",
    }
    return (
        "Dense",
        facts,
        {f"linear.{part}": value.to(dtype) for part, value in linear.state_dict().items()},
    )


def save_checkpoint(
    folder: Path, backbone: Any, tokenizer: Any, limit: int, dtype: torch.dtype
) -> None:
    """Write backbone and tokenizer into `folder` as transformers does."""
    state = backbone.state_dict()
    # The pooler that AutoModel will build and this pooling does not read: the identity under its
    # tanh. Without it, transformers would report missing weights at each load.
    with torch.device("meta"):
        whole = type(backbone)(backbone.config).state_dict()
    shapes = {name: tensor.shape for name, tensor in whole.items() if name not in state}
    state |= {
        name: torch.eye(*shape) if len(shape) == 2 else torch.zeros(shape)
        for name, shape in shapes.items()
    }
    tokenizer.model_max_length = limit
    with quiet():
        state = {name: tensor.to(dtype) for name, tensor in state.items()}
        backbone.save_pretrained(folder, state_dict=state, max_shard_size="50GB")
        tokenizer.save_pretrained(folder)


def write_card(
    folder: Path,
    card: dict[str, Any],
    kind: str,
    code: list[str],
    *,
    task: str = "sentence-similarity",
) -> None:
    """Write README.md: `card` in YAML for the hub, the kind of the model and the code that uses it.

    Names that are not on the hub and the folders of absolute paths are left out. task: as the hub
    calls it."""
    known = [*_CARD_FIELDS, "title", "description"]
    if unknown := sorted(set(card) - set(known)):
        raise EncoderError(f"a model card has no field {unknown[0]!r}; it has {', '.join(known)}")
    fields = {name: card[name] for name in _CARD_FIELDS if card.get(name)}
    fields |= {
        name: _hub_ids(fields[name]) for name in ("base_model", "datasets") if name in fields
    }
    fields["tags"] = sorted({"sentence-transformers", task, *card.get("tags", [])})
    header = ModelCardData(**fields, library_name="sentence-transformers", pipeline_tag=task)
    lines = [
        "---",
        header.to_yaml(),
        "---",
        "",
        f"# {markdown_line(card.get('title', 'Sentence encoder'))}",
        "",
    ]
    if card.get("description"):
        lines += [markdown_line(card["description"]), ""]
    lines += [f"A {markdown_line(kind)}.", "", "```python", *code, "```", ""]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _hub_ids(names: Any) -> Any:
    """Return the hub ids of one name or several; None for local files and bundled encoders."""
    if not isinstance(names, str):
        return list(dict.fromkeys(filter(None, map(_hub_ids, names)))) or None
    if names in CATALOGUE:
        return CATALOGUE[names].hub.get("path")
    is_public = HUB_ID.fullmatch(names) and names not in BUNDLED_MODELS and not Path(names).exists()
    return names if is_public else None


def markdown_line(value: Any) -> str:
    """Return a text as a line of Markdown that shows it as it is, without the folders of absolute
    paths."""
    text = _ABSOLUTE_PATH.sub("", str(value))
    seen = "".join(one if one.isprintable() else " " for one in text)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", " ".join(seen.split()))
