"""An encoder on disk: plain transformers files in the root, SentenceTransformer's beside them, a model card; atomic."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from workbench.encoder._card import model_card
from workbench.encoder._checkpoint import SETTINGS_FILE
from workbench.encoder._loading import quiet
from workbench.encoder._pooling import FIRST_LAYER
from workbench.errors import EncoderError
from workbench.files import atomic_path

if TYPE_CHECKING:
    from workbench.encoder._model import Encoder

# The module names of sentence-transformers 2 to 6 (6 maps them to its new ones), so that every version loads them.
_MODULES = "sentence_transformers.models"
# No module of sentence-transformers reads the [MASK] of a template: at this name it stops instead of pooling otherwise.
_MASK_MODULE = "workbench.encoder.MaskPooling"


def save_encoder(encoder: "Encoder", folder: Path, card: dict[str, Any] | None, dtype: torch.dtype) -> None:
    """Writes the encoder to `folder`; see Encoder.save."""
    with replacing(folder) as fresh:
        write_checkpoint(encoder, fresh, dtype)
        _write_sentence_transformer(encoder, fresh)
        reading = {name: text for name, text in asdict(encoder.reading).items() if text and name != "caution"}
        _write_json(fresh / SETTINGS_FILE, reading)
        (fresh / "README.md").write_text(model_card(encoder, card or {}), encoding="utf-8")


def write_checkpoint(encoder: "Encoder", folder: Path, dtype: torch.dtype) -> None:
    """Backbone and tokenizer as transformers keeps them."""
    with quiet():
        state = encoder.backbone.state_dict()
        state = {name: tensor.to(dtype) for name, tensor in (state | _unused_pooler(encoder.backbone)).items()}
        encoder.backbone.save_pretrained(folder, state_dict=state, max_shard_size="50GB")
        tokenizer_limit, encoder.tokenizer.model_max_length = encoder.tokenizer.model_max_length, encoder.limit
        try:
            encoder.tokenizer.save_pretrained(folder)
        finally:
            encoder.tokenizer.model_max_length = tokenizer_limit


def _unused_pooler(backbone: nn.Module) -> dict[str, Tensor]:
    """The pooler that AutoModel will build and no pooling here reads: the identity under its tanh.

    Without it, transformers would say at each load that weights are missing, and draw them at random.
    """
    config: Any = backbone.config
    with torch.device("meta"):
        whole = type(backbone)(config).state_dict()
    missing = {name: tensor.shape for name, tensor in whole.items() if name not in backbone.state_dict()}
    return {name: torch.eye(*shape) if len(shape) == 2 else torch.zeros(shape) for name, shape in missing.items()}


def _write_sentence_transformer(encoder: "Encoder", folder: Path) -> None:
    modules = [{"path": "", "type": f"{_MODULES}.Transformer"}]
    transformer: dict[str, Any] = {"max_seq_length": encoder.limit, "do_lower_case": False}
    if encoder.pooling in FIRST_LAYER:
        transformer["config_args"] = {"output_hidden_states": True}
        modules.append({"path": "1_WeightedLayerPooling", "type": f"{_MODULES}.WeightedLayerPooling"})
        _write_layer_weights(encoder, folder / "1_WeightedLayerPooling")
    if encoder.pooling == "mask":
        modules.append({"path": "1_MaskPooling", "type": _MASK_MODULE})
    else:
        path = f"{len(modules)}_Pooling"
        modules.append({"path": path, "type": f"{_MODULES}.Pooling"})
        (folder / path).mkdir()
        mode = encoder.pooling if encoder.pooling in ("cls", "max") else "mean"
        _write_json(
            folder / path / "config.json",
            {
                "word_embedding_dimension": encoder.width,
                "pooling_mode_cls_token": mode == "cls",
                "pooling_mode_mean_tokens": mode == "mean",
                "pooling_mode_max_tokens": mode == "max",
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
        )
    _write_json(folder / "modules.json", [{"idx": i, "name": str(i), **module} for i, module in enumerate(modules)])
    _write_json(folder / "sentence_bert_config.json", transformer)
    _write_json(
        folder / "config_sentence_transformers.json",
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )


def _write_layer_weights(encoder: "Encoder", folder: Path) -> None:
    """The mean of two layers as SentenceTransformer's weighted mean of all layers, with two weights of 1."""
    from safetensors.torch import save_file

    layers = encoder.backbone.config.num_hidden_layers
    weights = torch.zeros(layers + 1)
    weights[[FIRST_LAYER[encoder.pooling], layers]] = 1.0
    folder.mkdir()
    save_file({"layer_weights": weights}, folder / "model.safetensors")
    _write_json(
        folder / "config.json",
        {"word_embedding_dimension": encoder.width, "layer_start": 0, "num_hidden_layers": layers},
    )


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A fresh folder beside `folder` to write into, put in its place at the end; after a failure all is as before.

    Only an empty folder or an encoder is replaced, so that a wrong path costs nobody their files.
    """
    target = Path(folder).expanduser().absolute()
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "config.json").is_file())):
        raise EncoderError(f"{target} exists and is no saved encoder; it is left as it is: give another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, folder=True) as fresh:
            yield fresh
    except (OSError, SafetensorError) as error:
        raise EncoderError(
            f"the encoder cannot be written to {target}: {error}; free space or give another folder"
        ) from error


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
