"""Read the files of transformers and of a SentenceTransformer.

A key that could change a vector is read, or the checkpoint is refused with its name.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    TypeAdapter,
)

from workbench.config import PUBLISHED
from workbench.errors import EncoderError, first_problem
from workbench.files import Facts
from workbench.printing import LOG

Modules = list[tuple[str, Path]]  # kind and folder of each

SETTINGS_FILE = "encoder.json"
USAGE_FILE = "config_sentence_transformers.json"
# The mode of a Pooling module -> its flag in the files of sentence-transformers 2 to 5.
FLAGS = PUBLISHED["flags"]
# Each pooling as modules of a SentenceTransformer; a mode of FLAGS stands for a Pooling module.
STEPS = PUBLISHED["steps"]
# The mode of a Pooling module -> the pooling that is this module alone.
PLAIN_POOLINGS = {steps[0]: pooling for pooling, steps in STEPS.items() if {*steps} <= {*FLAGS}}
SENTENCE_TRANSFORMER = "SentenceTransformer"
USE_ST = "if SentenceTransformer loads it, evaluate it as st:"


def _require_empty(value: Any) -> Any:
    if value:
        raise ValueError("an Encoder does not read this key")
    return value


class _File(BaseModel):
    """A JSON object in the files of a SentenceTransformer; an unknown key may only be empty.

    A key of type Any changes no vector.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_require_empty)]]


class _Module(_File):
    type: str
    path: str
    idx: Any = None
    name: Any = None
    kwargs: Any = None


class UsageFile(_File):
    """The config_sentence_transformers.json: prompts and similarity."""

    version: Any = Field(None, alias="__version__")
    model_type: str = SENTENCE_TRANSFORMER
    prompts: dict[str, str] = {}
    default_prompt_name: str = ""
    similarity_fn_name: str = "cosine"
    truncate_dim: PositiveInt | None = None


# Arguments of other libraries that change no vector.
_Argument = Literal[
    "output_hidden_states",
    "use_cache",
    "dtype",
    "torch_dtype",
    "attn_implementation",
    "device_map",
    "use_fast",
    "use_safetensors",
    "low_cpu_mem_usage",
    "add_pooling_layer",
    "padding_side",
    "trust_remote_code",
]
_Arguments = dict[_Argument, Any]


class TransformerFile(_File):
    """The sentence_..._config.json of a Transformer module."""

    max_seq_length: PositiveInt | None = None
    do_lower_case: bool = False
    transformer_task: Literal["feature-extraction"] = "feature-extraction"
    module_output_name: Literal["token_embeddings"] = "token_embeddings"
    modality_config: dict[Literal["text"], dict[str, Literal["forward", "last_hidden_state"]]] = {}
    unpad_inputs: Any = None
    model_args: _Arguments = {}
    model_kwargs: _Arguments = {}
    config_args: _Arguments = {}
    config_kwargs: _Arguments = {}
    tokenizer_args: _Arguments = {}
    processor_kwargs: _Arguments = {}


class _Pooling(_File):
    width: PositiveInt = Field(
        validation_alias=AliasChoices("embedding_dimension", "word_embedding_dimension")
    )
    include_prompt: bool = True
    pooling_mode: str | list[str] = []
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False

    def step(self) -> str:
        """Return its mode as in STEPS, or the name of a step that no Encoder has."""
        modes = self.pooling_mode
        if isinstance(modes, str):
            modes = [modes]
        # Flags are the form of sentence-transformers 2 to 5, which take the mean if none is set.
        modes = modes or [mode for mode, flag in FLAGS.items() if getattr(self, flag)] or ["mean"]
        mode = "+".join(modes)
        return mode if mode in PLAIN_POOLINGS else f"Pooling {mode!r}"


class _Normalize(_File):
    module_input_name: Literal["sentence_embedding"] = "sentence_embedding"
    module_output_name: Literal["sentence_embedding"] = "sentence_embedding"


class DenseFile(_Normalize):
    """The config.json of a Dense module."""

    in_features: PositiveInt
    out_features: PositiveInt
    bias: bool = True
    activation_function: str = Field("torch.nn.Tanh", pattern=r"^torch\.nn\.")


class OtherFile(BaseModel):
    """The few keys that are read of the files of transformers and of runs."""

    model_config = ConfigDict(strict=True)
    model_type: str = ""
    architectures: list[str] = []
    auto_map: Any = None
    add_eos_token: Any = None
    model_max_length: float | None = None
    truncation_side: Literal["right"] = "right"  # an Encoder cuts nothing else
    weight_map: dict[str, str] = {}
    settings: Any = None
    files: dict[str, Facts | None] = {}


_KINDS = {"Pooling": _Pooling, "Dense": DenseFile, "Normalize": _Normalize}


def read_file(path: Path, kind: Any) -> Any:
    """Return a JSON file of a checkpoint as a pydantic type, or `kind()` if there is no file.

    Raises EncoderError if it cannot be used.
    """
    # A file nested a thousand levels deep ends in RecursionError.
    try:
        if not path.is_file():
            return kind()
        content = json.loads(path.read_bytes(), object_hook=_drop_nulls)
        return TypeAdapter(kind).validate_python(content)
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(
            f"{path} cannot be read: {first_problem(error)}; correct it or copy the checkpoint "
            "again, or evaluate it as st:FOLDER if SentenceTransformer reads it"
        ) from error


def _drop_nulls(content: Facts) -> Facts:
    """Drop the keys that are null: the libraries write null for "the default"."""
    return {key: value for key, value in content.items() if value is not None}


def read_modules(root: Path) -> tuple[Modules, bool]:
    """Return kind and folder of each module, and whether the pooling skips the prompt.

    The kind of a Pooling module is its mode. Raises EncoderError for files that no Encoder reads.
    """
    path = root / "modules.json"
    modules = []
    skips_prompt = False
    for module in read_file(path, list[_Module]):
        if not module.type.startswith(("sentence_transformers.", "workbench.encoder.MaskPooling")):
            raise EncoderError(
                f"{path} names {module.type}, which is no module of SentenceTransformer; "
                "use its authors' code, which is never executed here"
            )
        kind = module.type.rpartition(".")[2]
        folder = _inside(root, module.path)
        file = read_file(folder / "config.json", _KINDS.get(kind, OtherFile))
        if isinstance(file, _Pooling):
            kind = file.step()
            skips_prompt |= not file.include_prompt
        modules.append((kind, folder))
    return modules, skips_prompt


def _inside(root: Path, path: str) -> Path:
    """Return `path` in `root`; EncoderError if it leads out of it."""
    place = root / path
    # A link to a file may lead out, as those of hub caches do; a link to a folder may not.
    folder = place if place.is_dir() else place.parent
    if not folder.resolve().is_relative_to(root.resolve()):
        raise EncoderError(
            f"{root} names {path!r} as one of its parts, which lies outside of it; "
            "copy the checkpoint again, in one folder"
        )
    return place


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors of a model, one file or several shards; [] if there are none."""
    index = read_file(folder / "model.safetensors.index.json", OtherFile)
    shards = [_inside(folder, shard) for shard in sorted({*index.weight_map.values()})]
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else shards


def require_model_files(folder: Path, name: str) -> None:
    """Raise EncoderError if a folder is no model of transformers in safetensors."""
    if (folder / "adapter_config.json").is_file():
        raise EncoderError(
            f"{folder} has an adapter (adapter_config.json), which the package peft alone applies; "
            f"save what merge_and_unload() returns, or install peft and evaluate it as st:{name}"
        )
    if not (folder / "config.json").is_file():
        raise EncoderError(
            f"{folder} has no config.json, so it is no checkpoint; give the folder that save() "
            "wrote, of a training one of its checkpoint-..., of an evaluation the encoder that it "
            f"names, or, {USE_ST}{name}; a folder of scores has .csv, .tsv, .jsonl or .parquet and "
            "neither folders nor JSON, one of mteb's predictions files *_predictions.json"
        )
    if not weight_files(folder):
        raise EncoderError(
            f"{folder} has no model.safetensors; ONNX is not read, and pickled weights can "
            "execute code; convert them by safetensors.torch.save_file(torch.load(FILE, "
            'weights_only=True), "model.safetensors", {"format": "pt"}), name as its '
            f"revision a pull request on the hub that does (refs/pr/<number>), or, {USE_ST}{name}"
        )


def check_architectures(folder: Path) -> list[str]:
    """Return the classes of the backbones of a checkpoint's weights.

    A checkpoint with code of its own is logged. Raises EncoderError if a class is none of
    transformers.
    """
    import transformers

    path = folder / "config.json"
    config = read_file(path, OtherFile)
    backbones = []
    for kind in config.architectures if config.model_type != "model2vec" else ():
        # "BertForCL" is another head over the library's BertModel, "JinaBertForMaskedLM" has
        # another backbone.
        backbone = re.sub(r"(Model)?(For[A-Z].*)?$", "Model", kind, count=1)
        if not (hasattr(transformers, kind) or hasattr(transformers, backbone)):
            raise EncoderError(
                f"{path}: the weights are of a {kind}, no class of transformers; code of a "
                "checkpoint is never executed here; load it as a SentenceTransformer with "
                "trust_remote_code=True, and give that to evaluate()"
            )
        backbones.append(backbone)
    if config.auto_map:
        LOG.warning(
            "%s has code of its own (auto_map in config.json), which is not run: its vectors may "
            "differ; compare one with an example of its authors",
            folder,
        )
    return backbones
