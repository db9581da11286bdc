"""Load the model and the tokenizer of a checkpoint, whole or not at all."""

import copy
import hashlib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence
from torch import nn
from torch.nn import functional
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
from transformers.utils import logging as library_logging

from workbench.checkpoints import (
    USE_ST,
    Checkpoint,
    DenseFile,
    OtherFile,
    check_architectures,
    encoder_folder,
    read_file,
    weight_files,
)
from workbench.config import PUBLISHED
from workbench.encoder._tokens import token_ids
from workbench.encoder._trial import TRIED, reads_padding, refuse
from workbench.errors import EncoderError
from workbench.files import Facts
from workbench.printing import LOG

_LOCAL: Facts = {"trust_remote_code": False, "local_files_only": True}
_COPY = "copy it again (a clone needs `git lfs pull`)"
_INSTALL = (
    f"{_COPY}, install the package that it names, or, for a .model without a tokenizer.json, "
    "sentencepiece and protobuf"
)
# Transformers lists these with the causal models alone, though without `is_decoder` they read both
# ways.
_BIDIRECTIONAL = ("bert-generation", "xlnet")
_FLOATS = ("F64", "F32", "F16", "BF16")  # types of safetensors
_BUFFERS = ("position_ids", "token_type_ids", "num_batches_tracked")  # that older files contain


def load_parts(
    checkpoint: Checkpoint,
    pooling: str,
    *,
    dropout: float | None,
    as_classifier: bool,
    new_pooler: bool,
) -> tuple[Any, Any, range, bool]:
    """Return AutoModel (float32), tokenizer, positions of tokens, and whether padding takes part.

    The pretrained pooler is left out (SimCSE never loads it either) unless `pooling` reads it.
    RoBERTa models count positions from padding_idx + 1, so a table of 514 positions holds 512
    tokens.
    as_classifier: a sequence classifier with one label; a head that the checkpoint lacks is
    initialised randomly.
    Raises EncoderError for an unknown architecture, and for weights or a tokenizer that do not fit
    it exactly.
    """
    folder = checkpoint.folder
    # A pooling in its files shows that a decoder was trained as a sentence encoder.
    reads_last = pooling == "last" or checkpoint.stored is not None
    config = _load_config(folder, dropout, reads_last=reads_last)
    if as_classifier:
        is_trained = "ForSequenceClassification" in "".join(config.architectures or [])
        if is_trained and config.num_labels != 1:
            raise EncoderError(
                f"{folder} is a classifier with {config.num_labels} labels; an interaction model "
                "has one: start from the plain pretrained model"
            )
        config.num_labels = 1
        model, _ = _load_model(AutoModelForSequenceClassification, folder, config)
    else:
        kind = MODEL_MAPPING.get(type(config), None)
        options = {}
        # Some model types map to several classes; only a class says whether it takes a pooler.
        if (
            inspect.isclass(kind)
            and "add_pooling_layer" in inspect.signature(kind.__init__).parameters
        ):
            options["add_pooling_layer"] = pooling == "pooler"
        model, is_random = _load_model(AutoModel, folder, config, **options)
        if pooling == "pooler":
            _prepare_pooler(model, checkpoint, is_random=is_random, is_new=new_pooler)
    # Some kinds have relative positions alone, and no such table.
    tables = (
        part
        for name, part in model.named_modules()
        if name.endswith("position_embeddings") and hasattr(part, "padding_idx")
    )
    table = next(tables, None)
    tokenizer = _load_tokenizer(checkpoint, model, pooling, table)
    positions = _count_positions(config, tokenizer, table)
    # Padding is on the right, where no token of a causal model sees it.
    if config.model_type in TRIED or _is_causal(config):
        return model, tokenizer, positions, False
    [short] = token_ids(tokenizer, ["a"])
    padding = tokenizer.pad_token_id
    with quiet():
        is_read = reads_padding(model.base_model, str(folder), short, padding, len(positions))
    if is_read:
        LOG.warning(
            "%s: padding takes part in %r models, so each text is encoded with others of "
            "its length alone",
            folder,
            config.model_type,
        )
    return model, tokenizer, positions, is_read


def _count_positions(config: Any, tokenizer: Any, table: Any) -> range:
    """Return the positions that tokens can have, by the table of positions and the config."""
    count = getattr(config, "max_position_embeddings", 0)
    if table is not None:
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        rows = len(table.weight)
        return range(first, min(rows, first + count) if count > 0 else rows)
    # Relative positions: only the tokenizer has a limit; transformers writes 1e30 for "unlimited".
    if count <= 0:
        limit = tokenizer.model_max_length
        count = limit if limit < 10**6 else 512
    return range(count)


def _prepare_pooler(model: Any, checkpoint: Checkpoint, *, is_random: bool, is_new: bool) -> None:
    """Initialise the layer of pooling "pooler" if `is_new`; BERT's own is of another task."""
    pooler = getattr(model, "pooler", None)
    layer = getattr(pooler, "dense", None)
    if not layer or not isinstance(getattr(pooler, "activation", None), nn.Tanh):
        raise EncoderError(
            f"a {model.config.model_type!r} backbone has no tanh layer over [CLS]; set pooling=cls"
        )
    if is_new and checkpoint.own_pooling != "pooler":
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    elif is_random:
        raise EncoderError(
            f"{checkpoint.folder} was saved without the layer of pooling 'pooler'; set pooling=cls "
            "(a training by SimCSE's code has it as mlp: its simcse_to_huggingface.py renames it)"
        )


def load_mlm_head(checkpoint: Checkpoint) -> nn.Module:
    """Load the head of a masked language model: states of the last layer -> a score per word.

    A head that the checkpoint lacks is initialised randomly, which is logged. Raises EncoderError
    for other kinds of models, and for a head of several parts.
    """
    folder = checkpoint.folder
    config = _load_config(folder, None)
    heads = []
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING:
        model, is_random = _load_model(AutoModelForMaskedLM, folder, config)
        if is_random:
            LOG.warning(
                "%s was saved without a masked language modelling head: it begins at random",
                folder,
            )
        heads = [part for name, part in model.named_children() if name != model.base_model_prefix]
    if len(heads) != 1:
        raise EncoderError(
            f"{folder}: a {config.model_type!r} checkpoint has no head of one part for masked "
            "words; start from BERT or RoBERTa, or set mlm_weight=0"
        )
    return copy.deepcopy(heads[0])  # apart from the embeddings, which are the backbone's


def _load_model(kind: Any, folder: Path, config: Any, **options: Any) -> tuple[Any, bool]:
    """Return the model, and whether weights of its head were initialised randomly."""
    problem = f"{folder} cannot be loaded as {config.model_type!r} for text"
    with quiet(), refuse(problem, f"{_COPY}, or, {USE_ST}{folder}"):
        model, report = kind.from_pretrained(
            os.fspath(folder),
            config=config,
            use_safetensors=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # they are named below; the library's own text would not
            output_loading_info=True,
            # Windows can neither replace nor remove a file that is mapped to memory.
            disable_mmap=os.name == "nt" or None,
            **_LOCAL,
            **options,
        )
        # A model for images or sound has no table of tokens, or no width of its own.
        assert len(model.get_input_embeddings().weight)
        assert model.config.hidden_size
    missing = {name for name in report["missing_keys"] if _is_own(name, model)}
    # Where weights are missing, all others are named: "module.embeddings..." shows what happened.
    others = {name for name in report["unexpected_keys"] if missing or _is_own(name, model)}
    faults = {
        "are stored as integers or in 8 bits (quantised)": _quantised(folder),
        "have another shape in the file than in config.json": {
            name for name, *_ in report["mismatched_keys"]
        },
        "of the backbone are missing in the file": missing,
        "have no place in the model of config.json": others,
    }
    seen = [
        f"{len(names)} weights (such as {min(names)}) {fault}"
        for fault, names in faults.items()
        if names
    ]
    if seen:
        raise EncoderError(
            f"{folder}: {', '.join(seen)}; correct the names, or save model and config.json of "
            f"this {config.model_type!r} again from the training that has them"
        )
    return model, bool(report["missing_keys"])


def _quantised(folder: Path) -> set[str]:
    """Return the names of weights that are no floats; they need scales to be read."""
    quantised = set()
    for path in weight_files(folder):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - the file is no mapping
                # A list of token types or positions may well consist of integers.
                if name.endswith("weight") and file.get_slice(name).get_dtype() not in _FLOATS:
                    quantised.add(name)
    return quantised


def _is_own(name: str, model: Any) -> bool:
    """Return whether a weight is the backbone's: not of a head, a pooler, or an older buffer."""
    # A file of a model with a head names them "bert.encoder...", one of the backbone "encoder...".
    parts = name.removeprefix(f"{model.base_model_prefix}.").split(".")
    backbone = model.base_model
    own = {part for part, _ in backbone.named_children()}
    own |= {part for part, _ in backbone.named_parameters(recurse=False)}
    return parts[0] in own - {"pooler"} and parts[-1] not in _BUFFERS


def load_weights(model: nn.Module, folder: Path) -> None:
    """Load the weights that Encoder.save wrote to `folder` into the model.

    Raises EncoderError if they are of another one.
    """
    path = encoder_folder(folder) / "model.safetensors"
    own = model.state_dict()
    with refuse(f"{path} cannot be read", "give the folder that this encoder saved"):
        stored = load_file(path)
    saved = {name: value for name, value in stored.items() if name in own or _is_own(name, model)}
    # Before any weight is replaced: load_state_dict would stop half-way.
    shapes = {(name, value.shape) for name, value in own.items()}
    differing = shapes ^ {(name, value.shape) for name, value in saved.items()}
    if differing:
        raise EncoderError(
            f"{path} is of another model (see {min(differing)[0]}); give the folder that this "
            "encoder saved"
        )
    model.load_state_dict(saved)


class Dense(nn.Sequential):
    """A linear layer and its activation over a sentence's vector, as SentenceTransformer's."""

    def __init__(self, folder: Path, width: int) -> None:
        """Read the module in `folder`; EncoderError if it does not take `width` columns."""
        settings = read_file(folder / "config.json", DenseFile)
        linear = nn.Linear(settings.in_features, settings.out_features, bias=settings.bias)
        problem = f"the Dense layer in {folder} cannot be read"
        with refuse(problem, f"save it as model.safetensors, or, {USE_ST}FOLDER"):
            weights = load_file(folder / "model.safetensors")
            if integers := _quantised(folder):
                raise ValueError(f"{min(integers)} has no floats")
            linear.load_state_dict(
                {name.removeprefix("linear."): value.float() for name, value in weights.items()}
            )
            activation = getattr(nn, settings.activation_function.rpartition(".")[2])()
            # It fails for another width; an activation such as GLU gives half of its columns.
            output = activation(linear(torch.zeros(1, width)))
        super().__init__(linear, activation)
        self.width = output.shape[1]


class Normalize(nn.Module):
    """Unit length before further modules."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return functional.normalize(vectors, dim=1)


class Truncate(nn.Module):
    """The first columns of a vector, as many as a SentenceTransformer's truncate_dim."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("columns", torch.tensor(width))  # so that it is part of the checksum

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors[:, : self.width]


def load_dense(checkpoint: Checkpoint, width: int) -> Any:
    """Return the layers over a pooling of `width` columns; the last one has a `width` too."""
    layers = []
    for kind, folder in checkpoint.layers:
        layer = Dense(folder, width) if kind == "Dense" else Normalize()
        width = getattr(layer, "width", width)
        layers.append(layer)
    if checkpoint.columns:
        layers.append(Truncate(min(checkpoint.columns, width)))
    return nn.Sequential(*layers)


def weights_checksum(weights: nn.Module | Facts) -> str:
    """Return the sha256 of the names and values of weights, of a module or by name."""
    tensors = weights.state_dict() if isinstance(weights, nn.Module) else weights
    total = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        total.update(name.encode())
        # Bytes, because numpy has no bf16.
        content = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        total.update(content)
    return total.hexdigest()


def _load_tokenizer(checkpoint: Checkpoint, backbone: Any, pooling: str, table: Any) -> Any:
    """Load the tokenizer of a checkpoint.

    Raises EncoderError if it is broken or does not belong to the backbone.
    """
    folder = checkpoint.folder
    file = folder / "tokenizer.json"
    models = []
    with quiet(), refuse(f"the tokenizer in {folder} cannot be loaded", _INSTALL):
        tokenizer = AutoTokenizer.from_pretrained(os.fspath(folder), **_LOCAL)
        if tokenizer.is_fast and file.is_file():
            models = [Tokenizer.from_file(str(file)).model, tokenizer.backend_tokenizer.model]
    wants_end = read_file(folder / "tokenizer_config.json", OtherFile).add_eos_token
    largest = max(tokenizer.get_vocab().values(), default=0)
    embedded = len(backbone.get_input_embeddings().weight)
    pad = tokenizer.pad_token_id
    ids = tokenizer("a")["input_ids"]
    fault = None
    if len(tokenizer) <= 5:  # special tokens alone
        fault = f"knows {len(tokenizer)} tokens, so its vocabulary file was not read"
    elif pad is None:
        fault = "has no padding token (tokenizer.pad_token = tokenizer.eos_token gives it one)"
    elif largest >= embedded:
        fault = f"has ids up to {largest}, and the backbone embeds {embedded}"
    elif len(set(map(type, models))) > 1:
        # Transformers builds some classes anew, whatever the file holds.
        fault = (
            'is read as another kind than its tokenizer.json holds ("tokenizer_class": '
            '"PreTrainedTokenizerFast" in tokenizer_config.json reads that)'
        )
    elif wants_end and tokenizer.eos_token_id not in (None, ids[-1]):
        fault = (
            f"does not put {tokenizer.eos_token} last, as its add_eos_token says (AutoTokenizer."
            "from_pretrained(FOLDER, add_bos_token=True, add_eos_token=True) does: save that)"
        )
    elif checkpoint.lower_case and not tokenizer.is_fast:
        fault = "cannot be made to lower its case, as do_lower_case asks"
    elif table is not None and table.padding_idx not in (None, pad):
        fault = (
            f"pads with {pad}, and the backbone counts positions from its padding token "
            f"{table.padding_idx}"
        )
    elif pooling in ("cls", "pooler") and tokenizer.cls_token_id not in (None, ids[0]):
        fault = f"does not put {tokenizer.cls_token} first, which pooling {pooling!r} reads"
    if fault:
        raise EncoderError(
            f"the tokenizer in {folder} {fault}; save there a tokenizer of this model without this"
        )
    if checkpoint.lower_case and "Lowercase" not in repr(tokenizer.backend_tokenizer.normalizer):
        # Before all other steps, as SentenceTransformer does; a saved encoder may have the step.
        backend = tokenizer.backend_tokenizer
        backend.normalizer = Sequence(
            [step for step in (Lowercase(), backend.normalizer) if step is not None]
        )
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    return tokenizer


def configuration_of(config: Any) -> Facts:
    """Return a configuration without its origin and the library that saved it."""
    return {
        name: value for name, value in config.to_dict().items() if name not in PUBLISHED["origin"]
    }


def has_no_dropout(config: Any) -> bool:
    """Return whether a backbone's configuration has dropout rates and all of them are 0."""
    rates = _dropout_rates(config)
    return bool(rates) and not any(rates.values())


def _dropout_rates(config: Any) -> dict[str, float]:
    return {name: getattr(config, name) for name in PUBLISHED["dropout"] if hasattr(config, name)}


def _load_config(folder: Path, dropout: float | None, *, reads_last: bool = False) -> Any:
    """Return the configuration of a checkpoint with another dropout.

    reads_last: the pooling was made for a decoder, or is that of its files. Raises EncoderError if
    no Encoder can read its kind.
    """
    backbones = check_architectures(folder)
    remedy = (
        "only architectures of transformers are loaded, and code from a checkpoint is never "
        "executed"
    )
    with quiet(), refuse(f"{folder / 'config.json'} cannot be used", remedy):
        config = AutoConfig.from_pretrained(os.fspath(folder), **_LOCAL)
    name = config.model_type
    if getattr(config, "quantization_config", None):
        raise EncoderError(f"{folder} has quantised weights; save the model in float32 or float16")
    has_decoder = any(getattr(config, key, False) for key in ("is_encoder_decoder", "is_decoder"))
    if has_decoder or type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        raise EncoderError(
            f"{folder} is a {name!r} with a decoder, or the encoder of one; {USE_ST}{folder}"
        )
    if _is_causal(config) and not reads_last:
        raise EncoderError(
            f"{folder} is a {name!r} decoder, whose tokens see only those before them; "
            "set pooling=last, or give one of the BERT, RoBERTa, MPNet, ... kinds"
        )
    config.use_cache = False
    # BERT's weights load as RoBERTa's, at shifted positions.
    for backbone in backbones:
        if backbone in MODEL_MAPPING_NAMES.values() and backbone != MODEL_MAPPING_NAMES.get(name):
            raise EncoderError(
                f"{folder / 'config.json'} has model_type {name!r}, and its weights are "
                f"of a {backbone}; take the configuration that was saved with them"
            )
    if dropout is not None:
        rates = _dropout_rates(config)
        if not rates:
            raise EncoderError(
                f"a {name!r} backbone has no dropout setting that is known here; leave dropout=None"
            )
        config.update(dict.fromkeys(rates, dropout))
    return config


def _is_causal(config: Any) -> bool:
    """Return whether a token sees only those before it."""
    if (
        config.model_type in _BIDIRECTIONAL
        or getattr(config, "use_bidirectional_attention", False) is True
        or getattr(config, "is_causal", True) is False
    ):
        return False
    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING


@contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and load reports of transformers: faults are raised."""
    level = library_logging.get_verbosity()
    has_bars = library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if has_bars:
            library_logging.enable_progress_bar()
