"""Save an encoder: files of transformers in the root, of SentenceTransformer in folders, a card."""

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
from workbench.files import SAVED_BY_ENCODER, AnyPath, Facts, atomic_path, fill_template, user_path

# The module names of sentence-transformers 2 to 6 (6 maps them to its new ones), so that every
# version loads them.
_MODULES = "sentence_transformers.models."
# No module of sentence-transformers reads the [MASK] of a template: at this name it stops instead
# of pooling otherwise.
_MASK_MODULE = "workbench.encoder.MaskPooling"
# A module of a SentenceTransformer: its kind, its config.json and its weights.
Module = tuple[str, Facts, dict[str, torch.Tensor]]
Card = Facts  # fields of README.md
_OWN_CODE = "(folder)"  # in the code of every card
_CARD_FIELDS = "language license base_model datasets metrics model_name tags"
# From a root, a home or a drive up to the last separator.
_ABSOLUTE_PATH = re.compile(r"(?<![\w.:/\\-])(~|[A-Za-z]:)?[\\/]\S*[\\/]")
# What begins HTML, a link, an image, code, mathematics or emphasis in Markdown, and at its start a
# heading or a list.
_MARKUP = re.compile(r"[<>&`*\[\]|~$\\]|^[#+=-]")


# The corpus is RankEncoder's, which writes it again; it is never published. JupyterLab, macOS,
# Windows and editors write the others when a folder is looked at.
_REPLACED = re.compile(
    r"""(?xi) corpus\.json\.gz$ | (.*/)?(desktop\.ini | thumbs\.db | icon\r | \._.+)$
    | (.*/)?\.(ipynb_checkpoints | DS_Store | nfs\w+ | .+\.sw[a-p])\b"""
)


@contextmanager
def replace_encoder(folder: AnyPath) -> Iterator[Path]:
    """Yield a new folder that becomes `folder` at the end.

    Only an empty folder or an encoder is replaced; EncoderError for any other, or if it cannot be
    written.
    """
    target = user_path(folder).resolve()
    names = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    others = sorted(
        name for name in names if not (SAVED_BY_ENCODER.fullmatch(name) or _REPLACED.match(name))
    )
    card = target / "README.md"
    # Other libraries write the same names, but not the code of our card.
    is_own = card.is_file() and _OWN_CODE in card.read_text("utf-8", errors="replace")
    if others or target.is_file() or (names and not is_own):
        reason = "there is no README.md with the code of one"
        if others:
            reason = f"it has other files ({', '.join(others[:3])})"
        raise EncoderError(
            f"{target} is no saved encoder: {reason}; it is left as it is, give another folder"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, folder=True) as fresh:
            yield fresh
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"the encoder cannot be written to {target}: {error}") from error


def save_encoder(encoder: Any, folder: Path, card: Card, dtype: torch.dtype) -> None:
    """Write an Encoder into `folder` for transformers, SentenceTransformer and this library."""
    backbone = encoder.backbone
    spec = encoder.spec
    limit = encoder.max_seq_length
    if spec.pooling not in STEPS:
        raise EncoderError(
            f"pooling {spec.pooling!r} cannot be saved: [steps] of data/checkpoints.toml has "
            "no entry for it; add its form as modules of a SentenceTransformer there"
        )
    save_checkpoint(folder, backbone, encoder.tokenizer, limit, dtype)
    modules = [_pooling_module(step, backbone, spec, dtype) for step in STEPS[spec.pooling]]
    # SentenceTransformer cuts vectors after its last module, so this layer is no module.
    modules += [
        _layer_module(part, dtype) for part in encoder.dense or () if not isinstance(part, Truncate)
    ]
    entries = [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}Transformer"}]
    files = {}
    for number, (kind, facts, weights) in enumerate(modules, 1):
        path = f"{number}_{kind}"
        module = _MASK_MODULE if kind == "MaskPooling" else f"{_MODULES}{kind}"
        entries.append({"idx": number, "name": str(number), "path": path, "type": module})
        if facts:
            files[f"{path}/config.json"] = facts
        if weights:
            (folder / path).mkdir()
            save_file(weights, folder / path / "model.safetensors")
    bert_config = {
        "max_seq_length": limit,
        "do_lower_case": encoder.checkpoint.lower_case,
    }
    if spec.pooling in FIRST_LAYER:
        bert_config["config_args"] = {"output_hidden_states": True}
    # Settings at their defaults are left out; a caution concerns the published checkpoint alone.
    usual = asdict(EncodingSpec(caution=spec.caution))
    other = {name: value for name, value in asdict(spec).items() if value != usual[name]}
    files |= {
        "modules.json": entries,
        "sentence_bert_config.json": bert_config,
        USAGE_FILE: _usage(encoder),
        SETTINGS_FILE: {"pooling": spec.pooling} | other,
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    kind = fill_template("encoder/kind.txt", config=backbone.config, spec=spec, limit=limit)
    code = (
        "from sentence_transformers import SentenceTransformer\n"
        "embeddings = SentenceTransformer(folder).encode(sentences)  # not normalised"
    )
    library = "sentence-transformers"
    if spec.pooling == "mask":  # no module of sentence-transformers reads a template
        code = (
            "from workbench import Encoder\n"
            "embeddings = Encoder.from_pretrained(folder).encode(sentences)"
        )
        library = "transformers"
    write_card(folder, card, kind, code, library=library)


def _usage(encoder: Any) -> Facts:
    """Return config_sentence_transformers.json: prompts, similarity and columns of an Encoder."""
    prompts = encoder.prompts
    usage = {"prompts": prompts}
    if encoder.dense and isinstance(encoder.dense[-1], Truncate):
        usage["truncate_dim"] = encoder.dimension
    usage["default_prompt_name"] = next(
        (name for name, text in prompts.items() if text and text == encoder.spec.prompt), None
    )
    usage["similarity_fn_name"] = encoder.spec.similarity
    return usage


def _pooling_module(step: str, backbone: Any, spec: EncodingSpec, dtype: torch.dtype) -> Module:
    """Return a step of a pooling as a module in the form that sentence-transformers 2 to 6 read."""
    width = backbone.config.hidden_size
    if step == "Dense":
        return _layer_module((backbone.pooler.dense, nn.Tanh()), dtype)
    if step == "WeightedLayerPooling":
        # The mean of two layers as a weighted mean of all, with two weights of 1.
        layers = backbone.config.num_hidden_layers
        chosen = torch.zeros(layers + 1)
        chosen[[FIRST_LAYER[spec.pooling], layers]] = 1.0
        shape = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        return step, shape, {"layer_weights": chosen}
    if step not in FLAGS:
        return step, {}, {}
    facts = {"word_embedding_dimension": width}
    # Version 2 knows four flags, and stops at another one.
    for mode in ("cls", "mean", "max", "mean_sqrt_len_tokens", step):
        facts[FLAGS[mode]] = mode == step
    if spec.skips_prompt:
        facts["include_prompt"] = False
    return "Pooling", facts, {}


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
    weights = {f"linear.{part}": value.to(dtype) for part, value in linear.state_dict().items()}
    return "Dense", facts, weights


def save_checkpoint(
    folder: Path, backbone: Any, tokenizer: Any, limit: int, dtype: torch.dtype
) -> None:
    """Write backbone and tokenizer into `folder` as transformers does."""
    state = backbone.state_dict()
    # AutoModel will build a pooler also if this pooling does not read it. Without weights for it
    # transformers would report missing ones at each load: the identity under its tanh.
    with torch.device("meta"):
        whole = type(backbone)(backbone.config).state_dict()
    for name, tensor in whole.items():
        if name not in state:
            make = torch.eye if tensor.ndim == 2 else torch.zeros
            state[name] = make(*tensor.shape)
    state = {name: tensor.to(dtype) for name, tensor in state.items()}
    tokenizer.model_max_length = limit
    # Code of somebody else's repository, which nobody should run under the name of this encoder.
    for kept in (vars(backbone.config), tokenizer.init_kwargs):
        kept.pop("auto_map", None)
    with quiet():
        backbone.save_pretrained(folder, state_dict=state, max_shard_size="50GB")
        tokenizer.save_pretrained(folder)


def write_card(
    folder: Path,
    card: Card,
    kind: str,
    code: str,
    *,
    task: str = "sentence-similarity",
    library: str = "sentence-transformers",
) -> None:
    """Write README.md: `card` in YAML for the hub, the kind of the model and code that uses it.

    Names that are not on the hub and the folders of absolute paths are left out. task, library: as
    the hub calls them.
    """
    known = [*_CARD_FIELDS.split(), "title", "description"]
    if unknown := sorted(card.keys() - known):
        raise EncoderError(f"a model card has no field {unknown[0]!r}; it has {', '.join(known)}")
    fields = {name: card[name] for name in _CARD_FIELDS.split() if card.get(name)}
    for name in ("base_model", "datasets"):
        if name in fields:
            fields[name] = _hub_ids(fields[name])
    fields["tags"] = sorted({library, task, *card.get("tags", [])})
    header = ModelCardData(**fields, library_name=library, pipeline_tag=task)
    text = fill_template(
        "encoder/card.md",
        header=header.to_yaml(),
        title=markdown_line(card.get("title", "Sentence encoder")),
        description=markdown_line(card.get("description") or ""),
        kind=markdown_line(kind),
        code=code,
    )
    # Jinja drops the line end at the end of a template.
    (folder / "README.md").write_text(f"{text}\n", "utf-8")


def _hub_ids(names: Any) -> Any:
    """Return the hub ids of one name or several; None for local files and bundled encoders."""
    if not isinstance(names, str):
        return list(dict.fromkeys(filter(None, map(_hub_ids, names)))) or None
    if names in CATALOGUE:
        return CATALOGUE[names].hub.get("path")
    is_local = names in BUNDLED_MODELS or Path(names).exists()
    return names if HUB_ID.fullmatch(names) and not is_local else None


def markdown_line(value: Any) -> str:
    """Return a line of Markdown that shows a text as it is, without folders of absolute paths."""
    text = _ABSOLUTE_PATH.sub("", str(value))
    seen = "".join(one if one.isprintable() else " " for one in text)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", " ".join(seen.split()))
