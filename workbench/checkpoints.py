"""Find a checkpoint by name, without torch; only safetensors are read, and no code of a checkpoint
is executed.

data/checkpoints.toml has the pooling of published checkpoints by name, which the hub does not. A
key in the files of a SentenceTransformer that could change a vector is read, or the checkpoint is
refused with its name."""

import json
import logging
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from workbench.config import BUNDLED_MODELS, PUBLISHED, Pooling, current_value, published_entry
from workbench.errors import EncoderError, did_you_mean
from workbench.files import checkpoint_checksum, project_path

_LOG = logging.getLogger("workbench")

POOLINGS: tuple[str, ...] = get_args(get_args(Pooling)[0])
SETTINGS_FILE = "encoder.json"
USAGE_FILE = "config_sentence_transformers.json"
# The mode of a Pooling module -> its flag in the files of sentence-transformers 2 to 5, in their
# order.
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
# Each pooling as modules of a SentenceTransformer; a mode of FLAGS stands for a Pooling module in
# that mode. No module of theirs reads the [MASK] of a template.
STEPS: dict[str, tuple[str, ...]] = {
    "cls": ("cls",),
    "mean": ("mean",),
    "max": ("max",),
    "last": ("lasttoken",),
    "pooler": ("cls", "Dense"),
    "avg_first_last": ("WeightedLayerPooling", "mean"),
    "avg_embedding_last": ("WeightedLayerPooling", "mean"),
    "mask": ("MaskPooling",),
}
# The mode of a Pooling module -> the pooling that is this module alone.
_PLAIN: dict[str, Any] = {steps[0]: name for name, steps in STEPS.items() if {*steps} <= {*FLAGS}}
_ST = "SentenceTransformer"
_LAYERS = {"Dense", "Normalize"}  # the modules over a pooling that an Encoder has
_BUNDLED = project_path("data") / "models"
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_OWN_CODE = (
    "code of a checkpoint is never executed here; load it as a SentenceTransformer with "
    "trust_remote_code=True, and give that to evaluate()"
)
USE_ST = "if SentenceTransformer loads it, evaluate it as st:"
# The few files of a hub repository that an encoder consists of (* also stands for folders), and
# those that SentenceTransformer may read beside them; onnx, tf and flax copies are not fetched.
_HUB_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "[0-9]*_*/*.safetensors"]
_ST_FILES = ["*.bin", "adapter*.safetensors", "[0-9]*_*/*"]


@dataclass(frozen=True)
class EncodingSpec:
    """How sentences are read.

    template: text around a sentence, only for pooling "mask". full_stop: appended to a sentence
        that ends in none of `endings`. caution: difference from the published spec. prompt: text
        before a sentence; skips_prompt: its tokens are left out of the mean. has_dense: layers
        follow the pooling. similarity: "cosine" or "dot"."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # of encoder.json

    pooling: Pooling = "cls"
    template: str | None = None
    full_stop: str = ""
    endings: str = ""
    caution: str = ""
    prompt: str = ""
    skips_prompt: bool = False
    has_dense: bool = False
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise EncoderError(f"pooling is {self.pooling!r}; choose one of {', '.join(POOLINGS)}")
        if self.template is not None and self.pooling != "mask":
            raise EncoderError(
                f"a template needs pooling='mask', not {self.pooling!r}; set it, or "
                "remove the template"
            )

    def add_full_stop(self, sentence: str) -> str:
        """Return the sentence as the authors of the checkpoint put it into the template."""
        text = sentence.rstrip()
        return (
            f"{text}{self.full_stop}"
            if self.full_stop and text and text[-1] not in self.endings
            else sentence
        )


def published_spec(name: str) -> EncodingSpec | None:
    """Return the spec of a published checkpoint by its hub id or folder, None for an unknown
    name."""
    entry = published_entry(name)
    return entry and EncodingSpec(**{key: text for key, text in entry.items() if key != "name"})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on this machine.

    source: its origin, for the record. folder: where in `root` config, weights and tokenizer are.
        stored: the spec in its files. foreign: parts that an Encoder lacks: modules or
        similarity of a SentenceTransformer, the head of a classifier. max_seq_length: limit in
        tokens of a SentenceTransformer. prompts: its prompts by name.
    kind: "static" for one vector per token, "st" for what SentenceTransformer itself is to load.
        columns: how many its vector has, None for all. layers: kind and folder of the modules over
        its pooling."""

    name: str
    source: str
    root: Path
    folder: Path
    stored: EncodingSpec | None = None
    foreign: tuple[str, ...] = ()
    max_seq_length: int | None = None
    lower_case: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    kind: Literal["transformer", "static", "st"] = "transformer"
    columns: int | None = None
    layers: tuple[tuple[str, Path], ...] = ()

    @property
    def own_pooling(self) -> Pooling | None:
        """The pooling in its files, else that of its published name; None if neither says one."""
        spec = self.stored or published_spec(self.name)
        return spec and spec.pooling

    def spec(self, pooling: str | None = None, template: str | None = None) -> EncodingSpec | None:
        """Return the spec asked for, else the stored one, else the published one, else None.

        Raises EncoderError for an unknown pooling, a template without pooling "mask", and foreign
        parts."""
        chosen = EncodingSpec(current_value(pooling)) if pooling else None
        if self.foreign and (chosen is None or self.kind == "static"):
            raise EncoderError(
                f"{self.name} was saved with {', '.join(self.foreign)}, which an Encoder "
                "does not support; "
                f"if SentenceTransformer saved it, evaluate it as st:{self.name}, "
                f"or set pooling ({', '.join(POOLINGS)}) to use its backbone without that"
            )
        saved = ", ".join([*([self.stored.pooling] if self.stored else []), *self.foreign])
        if chosen and saved not in ("", chosen.pooling):
            _LOG.warning(
                "%s was saved with %s; pooling %r was asked for", self.name, saved, chosen.pooling
            )
        specs = [one for one in (self.stored, published_spec(self.name), chosen) if one]
        spec = next((one for one in specs if chosen is None or one.pooling == chosen.pooling), None)
        if template is not None:
            spec = replace(spec or EncodingSpec(), template=template)
        if spec is not None and spec.caution:
            _LOG.warning("%s: %s", self.name, spec.caution)
        return spec


def find_checkpoint(name: str, revision: str | None = None) -> Checkpoint:
    """Return the checkpoint of this name: bundled, else a folder or a finished run, else a
    repository of the hub.

    "st:" before a name leaves it to SentenceTransformer, to evaluate, to look at and as a teacher.
    Raises EncoderError if there is none, or if its files are not those of an encoder.
    """
    plain = name.removeprefix("st:")
    path = Path(plain).expanduser()
    if plain in BUNDLED_MODELS:
        root, source = _BUNDLED / plain, f"bundled:{plain}"
    elif plain and path.is_dir():
        root = encoder_folder(path.resolve())
        source = f"folder:{root}"
    elif path.exists() or not HUB_ID.fullmatch(plain):
        bundled = ", ".join(map(repr, BUNDLED_MODELS))
        raise EncoderError(
            f"{plain!r} is neither a folder nor a hub id (owner/name); bundled encoders "
            f"are {bundled}"
        )
    else:
        files = _HUB_FILES if plain == name else [*_HUB_FILES, *_ST_FILES]
        root = _download_files(plain, revision or PUBLISHED["safetensors"].get(plain), files)
        source = f"hub:{plain}@{root.name}"
    if plain != name:
        kind = read_file(root / USAGE_FILE, _Other).model_type or _ST
        if kind != _ST:  # which SentenceTransformer would replace by a mean over tokens
            raise EncoderError(
                f"{name} is a {kind}, which has no vector of a sentence; take a SentenceTransformer"
            )
        return Checkpoint(name, f"st:{source}", root, root, kind="st")
    return _inspect(root, name, source)


def encoder_folder(folder: Path) -> Path:
    """Return the encoder's folder if `folder` is a finished run or its encoder, otherwise `folder`.

    Raises EncoderError for an unfinished run, and for an encoder that was changed after its run
    saved it."""
    run = (
        folder.parent
        if folder.name == "encoder" and (folder.parent / "metrics.json").is_file()
        else folder
    )
    facts = read_file(run / "config.json", _Other)
    if facts.settings is None:
        return folder
    if not (run / "metrics.json").is_file():
        raise EncoderError(
            f"{folder} is a run that is not finished: finish it, or use its best encoder "
            f"so far: {folder / 'encoder'}"
        )
    saved = facts.files.get("encoder")
    if saved is not None and saved.get("sha256") != checkpoint_checksum(run):
        raise EncoderError(
            f"{run / 'encoder'} was changed after the run saved it: restore it, or run "
            "again elsewhere"
        )
    return run / "encoder"


def _download_files(name: str, revision: str | None, files: list[str]) -> Path:
    """Return the snapshot of a hub repository in the local cache; fetch its missing files."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except Exception as error:  # the hub's client raises a dozen unrelated types for "no network"
        # Any other name may well be one of the hub.
        near = did_you_mean(name, BUNDLED_MODELS, cutoff=0.9)
        command = f"hf download {name} --revision {revision or 'main'}"
        raise EncoderError(
            f"{name!r}{near} is no local folder and cannot be fetched ({error}); "
            f"without a network, set HF_HOME to a cache filled by `{command}`, and HF_HUB_OFFLINE=1"
        ) from error


def _require_empty(value: Any) -> Any:
    if value:
        raise ValueError("not known here")
    return value


class _File(BaseModel):
    """A JSON object in the files of a SentenceTransformer; an unknown key may only be empty. Any:
    changes no vector."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, Annotated[Any, AfterValidator(_require_empty)]]


class _Module(_File):
    type: str
    path: str
    idx: Any = None
    name: Any = None
    kwargs: Any = None


class _Usage(_File):
    version: Any = Field(None, alias="__version__")
    model_type: str = _ST
    prompts: dict[str, str] = {}
    default_prompt_name: str = ""
    similarity_fn_name: str = "cosine"
    truncate_dim: PositiveInt | None = None


_Argument = Literal[
    *(
        "output_hidden_states",
        "use_cache",
        "dtype",
        "torch_dtype",
        "attn_implementation",
        "device_map",
        "use_fast",
    ),
    *(
        "use_safetensors",
        "low_cpu_mem_usage",
        "add_pooling_layer",
        "padding_side",
        "trust_remote_code",
    ),
]
_Arguments = dict[_Argument, Any]  # those of other libraries that change no vector


class _Transformer(_File):
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
        """Return its mode as in STEPS, or a name of what no Encoder has."""
        modes = [self.pooling_mode] if isinstance(self.pooling_mode, str) else self.pooling_mode
        modes = modes or [mode for mode, flag in FLAGS.items() if getattr(self, flag)]
        mode = "+".join(modes or ["mean"])
        return mode if mode in _PLAIN else f"Pooling {mode!r}"


class _Normalize(_File):
    module_input_name: Literal["sentence_embedding"] = "sentence_embedding"
    module_output_name: Literal["sentence_embedding"] = "sentence_embedding"


class DenseFile(_Normalize):
    """The config.json of a Dense module."""

    in_features: PositiveInt
    out_features: PositiveInt
    bias: bool = True
    activation_function: str = Field("torch.nn.Tanh", pattern=r"^torch\.nn\.")


class _Other(_File):
    """The few keys that are read of the files of transformers and of runs."""

    model_config = ConfigDict(extra="ignore")
    model_type: str = ""
    architectures: list[str] = []
    auto_map: Any = None
    model_max_length: float | None = None
    weight_map: dict[str, str] = {}
    settings: Any = None
    files: dict[str, dict[str, Any] | None] = {}


def read_file(path: Path, kind: Any) -> Any:
    """Return a JSON file of a checkpoint as a pydantic type, `kind()` without it; EncoderError if
    it cannot be used."""

    def drop_nulls(content: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in content.items() if value is not None}

    try:
        if not path.is_file():
            return kind()
        content = json.loads(path.read_bytes(), object_hook=drop_nulls)
        return TypeAdapter(kind).validate_python(content)
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"])) or "it"
            reason = (
                f"{place} = {fault['input']!r:.80} is not read by an Encoder: {fault['msg']:.60}"
            )
        raise EncoderError(
            f"{path} cannot be read: {reason}; correct it or copy the checkpoint again, "
            "or evaluate it as st:FOLDER if SentenceTransformer reads it"
        ) from error


def _read_modules(root: Path) -> tuple[list[tuple[str, Path]], bool]:
    """Return kind and folder of each module of a SentenceTransformer, and whether pooling leaves
    out the prompt.

    The kind of a Pooling module is its mode. Raises EncoderError for files that no Encoder reads.
    """
    path = root / "modules.json"
    steps = []
    skips_prompt = False
    for module in read_file(path, list[_Module]):
        if not module.type.startswith(("sentence_transformers.", "workbench.encoder.MaskPooling")):
            raise EncoderError(
                f"{path} names {module.type}, which is no module of SentenceTransformer; "
                "use its authors' code, which is never executed here"
            )
        kind = module.type.rpartition(".")[2]
        folder = _inside(root, module.path)
        file = read_file(folder / "config.json", _KINDS.get(kind, _Other))
        if isinstance(file, _Pooling):
            kind = file.step()
            skips_prompt |= not file.include_prompt
        steps.append((kind, folder))
    return steps, skips_prompt


_KINDS: dict[str, type[_File]] = {"Pooling": _Pooling, "Dense": DenseFile, "Normalize": _Normalize}


def _inside(root: Path, path: str) -> Path:
    """Return `path` in `root`; EncoderError if it leads out of it (a link to a file may: hub caches
    have them)."""
    place = root / path
    folder = place if place.is_dir() else place.parent
    if not folder.resolve().is_relative_to(root.resolve()):
        raise EncoderError(
            f"{root} names {path!r} as one of its parts, which lies outside of it; "
            "copy the checkpoint again, in one folder"
        )
    return place


def _inspect(root: Path, name: str, source: str) -> Checkpoint:
    """Return the checkpoint in `root` as encoder.json, else the files of a SentenceTransformer,
    describe it."""
    model_type = read_file(root / USAGE_FILE, _Other).model_type or _ST
    is_st = model_type == _ST
    foreign = [] if is_st else [f"model_type {model_type!r}"]
    usage = read_file(root / USAGE_FILE, _Usage) if is_st else _Usage()
    modules, skips_prompt = _read_modules(root) if is_st else ([], False)
    kinds = [kind for kind, _ in modules]
    first, folder = modules[0] if modules else ("Transformer", root)
    config = read_file(folder / "config.json", _Other)
    if config.model_type == "model2vec" and not kinds:
        return Checkpoint(name, source, root, root, kind="static")
    if first == "Transformer":
        _require_files(folder, name)
    similarity = usage.similarity_fn_name
    # Unit length at the end changes no cosine, and makes a dot product one.
    while usage.truncate_dim is None and kinds[1:] and kinds[-1] == "Normalize":
        kinds.pop()
        similarity = "cosine" if similarity == "dot" else similarity
    if similarity not in ("cosine", "dot"):
        foreign.append(f"similarity {similarity!r}")
        similarity = "cosine"
    default = usage.default_prompt_name
    prompts = {name: text for name, text in usage.prompts.items() if text}
    if default not in ("", "query", "document", *usage.prompts):
        foreign.append(f"default_prompt_name = {default!r}")
    prompt = prompts.get(default, "")
    facts: dict[str, Any] = {"prompts": prompts, "columns": usage.truncate_dim}
    if first == "StaticEmbedding":
        foreign += sorted({*kinds[1:], similarity, prompt} - {"Normalize", "cosine", ""})
        return Checkpoint(
            name, source, root, folder, foreign=tuple(foreign), kind="static", **facts
        )
    path = root / SETTINGS_FILE
    own = read_file(path, EncodingSpec) if path.is_file() else None
    pooling: Any = own.pooling if own else _PLAIN.get("".join(kinds[1:2]))
    expected = ["Transformer", *STEPS.get(pooling, ["Pooling"])]
    count = len(expected)
    layers = kinds[count:]
    if kinds and not (kinds[:count] == expected and {*layers} <= _LAYERS):
        foreign.append(f"the modules {', '.join(kinds)}")
    if skips_prompt and pooling in ("cls", "max"):
        foreign.append(f"pooling {pooling!r} without its prompt")
    stored = EncodingSpec(
        pooling or "cls",
        prompt=prompt,
        skips_prompt=skips_prompt,
        has_dense=bool(layers or usage.truncate_dim) and {*layers} <= _LAYERS,
        similarity=similarity,
    )
    same = replace(own, template=None, full_stop="", endings="") if own else stored
    if own and kinds and (same != stored or foreign):
        raise EncoderError(
            f"{root}: {SETTINGS_FILE} and the files of SentenceTransformer differ ({kinds[1:]}); "
            f"restore the folder, or remove {SETTINGS_FILE} to read the others"
        )
    # The backbone under a classifier, such as a cross-encoder, was trained for none.
    if not pooling:
        foreign += [kind for kind in config.architectures if "ForSequenceClassification" in kind]
    files = sorted(folder.glob("sentence_*_config.json"))  # of "bert", formerly also "roberta", ...
    # Other kinds of models cut as their tokenizer says.
    cuts = read_file(files[0], _Transformer) if kinds and files else _Transformer()
    limit = (
        cuts.max_seq_length or read_file(folder / "tokenizer_config.json", _Other).model_max_length
    )
    if limit and (root / "modules.json").is_file():
        facts["max_seq_length"] = int(limit)
    return Checkpoint(
        name,
        source,
        root,
        folder,
        stored=own or (stored if pooling else None),
        foreign=tuple(foreign),
        lower_case=cuts.do_lower_case,
        layers=tuple(modules[count : len(kinds)]),
        **facts,
    )


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a model's weights, one or several shards; none if there is no
    safetensors."""
    index = read_file(folder / "model.safetensors.index.json", _Other)
    shards = [_inside(folder, shard) for shard in sorted({*index.weight_map.values()})]
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else shards


def _require_files(folder: Path, name: str) -> None:
    """Raise EncoderError with the cause if a folder is not a model of transformers in
    safetensors."""
    if (folder / "adapter_config.json").is_file():
        raise EncoderError(
            f"{folder} has an adapter (adapter_config.json), which the package peft alone applies; "
            f"save what merge_and_unload() returns, or install peft and evaluate it as st:{name}"
        )
    if not (folder / "config.json").is_file():
        raise EncoderError(
            f"{folder} has no config.json, so it is no checkpoint; "
            "give the folder that save() wrote, of a training one of its checkpoint-..."
        )
    if not weight_files(folder):
        raise EncoderError(
            f"{folder} has no model.safetensors; ONNX is not read, and pickled weights "
            "can execute code; "
            "convert them by AutoModel's save_pretrained, name a pull request on the hub "
            "that does: "
            f'revisions={{"{name}": "refs/pr/<number>"}}, or, {USE_ST}{name}'
        )


def check_architectures(folder: Path) -> list[str]:
    """Return the classes of the backbones of a checkpoint's weights; warn if it brings code of its
    own.

    Raises EncoderError if a class is none of transformers.
    """
    import transformers

    path = folder / "config.json"
    config = read_file(path, _Other)
    backbones = []
    for kind in config.architectures:
        # "BertForCL" is another head over the library's BertModel, "JinaBertForMaskedLM" has
        # another backbone.
        family = kind.partition("For")[0]
        backbone = f"{family.removesuffix('Model')}Model"
        if not (hasattr(transformers, kind) or hasattr(transformers, backbone)):
            raise EncoderError(
                f"{path}: the weights are of a {kind}, no class of transformers; {_OWN_CODE}"
            )
        backbones.append(backbone)
    if config.auto_map:
        _LOG.warning(
            "%s has code of its own (auto_map in config.json), which is not run: its "
            "vectors may differ; "
            "compare one with an example of its authors",
            folder,
        )
    return backbones
