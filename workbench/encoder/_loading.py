"""Model and tokenizer of a checkpoint that was found: loaded whole or refused."""

import copy
import hashlib
import inspect
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers.normalizers import Lowercase, Sequence
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
from transformers.utils import logging as library_logging

from workbench.encoder._checkpoint import BUFFERS, check_weights, encoder_folder
from workbench.encoder._reading import Checkpoint
from workbench.errors import EncoderError

_LOG = logging.getLogger("workbench")

# Transformers lists these with the causal models alone, though without `is_decoder` they read both ways.
_BOTH_WAYS = ("bert-generation", "xlnet")
# The names under which BERT-like, RoBERTa-like, DistilBERT-like and ModernBERT configurations keep their dropout rates.
_DROPOUT_SETTINGS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
_DROPOUT_SETTINGS += ("embedding_dropout", "mlp_dropout")


def load_backbone(checkpoint: Checkpoint, *, dropout: float | None = None) -> nn.Module:
    """The AutoModel of a checkpoint in float32, without its pretrained pooler (SimCSE never loads it either).

    dropout: rate for hidden states and attention in place of the checkpoint's own; None keeps them.
    Raises EncoderError when the configuration is unknown, when any weight of the backbone is missing or has another
    shape, and when the file holds weights that have no place in it.
    """
    config = _load_config(checkpoint, dropout)
    model_class: Any = MODEL_MAPPING.get(type(config), None)
    options: dict[str, Any] = {}
    if inspect.isclass(model_class) and "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False
    return _load(AutoModel, checkpoint, config, **options)[0]


def has_no_dropout(config: Any) -> bool:
    """Return whether a backbone's configuration has dropout rates and all of them are 0."""
    rates = [getattr(config, name) for name in _DROPOUT_SETTINGS if hasattr(config, name)]
    return bool(rates) and not any(rates)


def load_classifier(checkpoint: Checkpoint, *, dropout: float | None = None) -> nn.Module:
    """The checkpoint as a sequence classifier with one label, its head drawn anew where it has none."""
    config = _load_config(checkpoint, dropout)
    if "ForSequenceClassification" in "".join(config.architectures or []) and config.num_labels != 1:
        raise EncoderError(
            f"{checkpoint.folder} is a classifier with {config.num_labels} labels; an interaction model has one score: "
            "start from the plain pretrained model"
        )
    config.num_labels = 1
    return _load(AutoModelForSequenceClassification, checkpoint, config)[0]


def load_word_head(checkpoint: Checkpoint) -> nn.Module:
    """What a masked language model of this kind puts on the states of its last layer: states -> a score a word.

    Its weights are the checkpoint's, drawn anew, and said, where that was saved without them; the words' own vectors
    are a copy of the embeddings. EncoderError for a kind that is no masked language model, or whose head is in parts.
    """
    config = _load_config(checkpoint, None)
    heads: list[nn.Module] = []
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING:
        model, fresh = _load(AutoModelForMaskedLM, checkpoint, config)
        if fresh:
            _LOG.warning("%s was saved without a head that guesses words: its begins at random", checkpoint.folder)
        heads = [part for name, part in model.named_children() if name != model.base_model_prefix]
    if len(heads) != 1:
        raise EncoderError(
            f"{checkpoint.folder}: a {config.model_type!r} checkpoint has no head of one part that guesses masked "
            "words, as BERT's and RoBERTa's kinds have; take one of these, or set mlm_weight=0"
        )
    return copy.deepcopy(heads[0])  # apart from the embeddings, which are the backbone's


def _load(kind: Any, checkpoint: Checkpoint, config: Any, **options: Any) -> tuple[Any, bool]:
    """The model, and whether weights of its head were drawn anew."""
    try:
        with quiet():
            model, report = kind.from_pretrained(
                os.fspath(checkpoint.folder),
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # they are named below; the library's own text would not
                output_loading_info=True,
                **options,
            )
    except Exception as error:
        raise EncoderError(f"{checkpoint.folder} cannot be loaded as {config.model_type!r}: {error}") from error
    _check_places(checkpoint, model, report)
    return model, bool(report["missing_keys"])


def _check_places(checkpoint: Checkpoint, model: Any, report: dict[str, Any]) -> None:
    """Refuse weights of the backbone that the file lacks, and weights of the file that the backbone lacks."""
    for name, found, wanted in sorted(report["mismatched_keys"]):
        raise EncoderError(
            f"{checkpoint.folder}: {name} has the shape {list(found)} in the file, and config.json asks for "
            f"{list(wanted)}: they do not belong together; copy both from one place"
        )
    missing = sorted(name for name in report["missing_keys"] if _is_in_backbone(name, model))
    if missing:
        raise EncoderError(
            f"{checkpoint.folder} lacks {len(missing)} weights of its backbone (such as {missing[0]}), which would be "
            "left random; the file is of another model or was saved in part: save the whole AutoModel again"
        )
    homeless = sorted(name for name in report["unexpected_keys"] if _is_in_backbone(name, model))
    if homeless:
        raise EncoderError(
            f"{checkpoint.folder} holds {len(homeless)} weights (such as {homeless[0]}) that have no place in the "
            "model of its config.json: other layers, or another kind; copy both from one place"
        )


def _is_in_backbone(name: str, model: Any) -> bool:
    """Return whether a weight belongs to a part of the backbone: no head, no pooler, no buffer of older files."""
    parts = name.removeprefix(f"{model.base_model_prefix}.").split(".")
    backbone = model.base_model
    own = {part for part, _ in (*backbone.named_children(), *backbone.named_parameters(recurse=False))}
    return parts[0] in own - {"pooler"} and parts[-1] not in BUFFERS


def load_weights(model: nn.Module, folder: Path) -> None:
    """Puts the weights that Encoder.save wrote to `folder` into the model that they are of; EncoderError for others."""
    path = encoder_folder(folder) / "model.safetensors"
    if not path.is_file():
        raise EncoderError(f"{folder} holds no model.safetensors; give the folder that this encoder was saved to")
    check_weights(path)
    saved, own = load_file(path), model.state_dict()
    lost = sorted(name for name in own if name not in saved or saved[name].shape != own[name].shape)
    lost += sorted(name for name in saved.keys() - own.keys() if _is_in_backbone(name, model))
    if lost:
        raise EncoderError(f"{path} is of another model than this one (see {lost[0]}); give the folder that it saved")
    model.load_state_dict({name: saved[name] for name in own})


def weights_checksum(module: nn.Module) -> str:
    """sha256 over the names and values of a module's weights."""
    found = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


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
    if checkpoint.lower_case:  # in front of all other steps, as SentenceTransformer does
        backend = tokenizer.backend_tokenizer
        steps = [Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        backend.normalizer = Sequence(steps)
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
    table = _positions(backbone)
    if table is not None and table.padding_idx not in (None, tokenizer.pad_token_id):
        raise EncoderError(
            f"{source}: the backbone counts positions from its padding token {table.padding_idx}, and the tokenizer "
            f"pads with {tokenizer.pad_token_id}: they do not belong together"
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
    table = _positions(backbone)
    if table is not None:
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        return first, table.num_embeddings - first
    positions = getattr(backbone.config, "max_position_embeddings", 0)
    if positions > 0:
        return 0, positions
    # No table of positions (relative ones): only the tokenizer knows; transformers writes 1e30 for "unlimited".
    return 0, tokenizer.model_max_length if tokenizer.model_max_length < 10**6 else 512


def _positions(backbone: nn.Module) -> nn.Embedding | None:
    """The table of absolute positions, where there is one."""
    for name, module in backbone.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def _load_config(checkpoint: Checkpoint, dropout: float | None) -> Any:
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
    _check_family(checkpoint, config)
    if dropout is not None:
        _set_dropout(config, dropout)
    return config


def _is_causal(config: Any) -> bool:
    """Whether this kind of model only ever predicts the next token; BERT's kind does both and says which."""
    if config.model_type in _BOTH_WAYS or getattr(config, "use_bidirectional_attention", False) is True:
        return False
    return type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and type(config) not in MODEL_FOR_MASKED_LM_MAPPING


def _check_family(checkpoint: Checkpoint, config: Any) -> None:
    """Refuses a model type over weights that another type saved: BERT's load as RoBERTa's, at shifted positions."""
    names = {kind: name for kind, name in MODEL_MAPPING_NAMES.items() if isinstance(name, str)}
    own = names.get(config.model_type, "").removesuffix("Model")
    for saved in config.architectures or []:
        family = saved.partition("For")[0].removesuffix("Model")
        if own and family != own and f"{family}Model" in names.values():
            raise EncoderError(
                f"{checkpoint.folder / 'config.json'} has model_type {config.model_type!r}, and its weights are of a "
                f"{saved}: the one is read otherwise than the other; take the configuration that was saved with them"
            )


def _set_dropout(config: Any, rate: float) -> None:
    """Writes one rate for hidden states and attention into a configuration."""
    if not isinstance(rate, int | float) or not 0.0 <= rate < 1.0:
        raise EncoderError(
            f"dropout is {rate!r}; it is a probability: 0 <= dropout < 1, or None for the checkpoint's own"
        )
    present = [name for name in _DROPOUT_SETTINGS if hasattr(config, name)]
    if not present:
        raise EncoderError(
            f"a {config.model_type!r} backbone has no dropout setting that is known here; leave dropout=None"
        )
    for name in present:
        setattr(config, name, rate)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars (a widget each in notebooks) and load reports of transformers: what matters is raised."""
    level, bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if bars:
            library_logging.enable_progress_bar()
