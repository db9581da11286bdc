"""Where a checkpoint lies and what it holds: bundled, a folder, or the hub. Only safetensors, no foreign code.

Torch is not loaded: a checkpoint is found and looked through before anything is trained.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pydantic

from workbench.config import BUNDLED_MODELS, Pooling
from workbench.encoder._reading import Checkpoint, Reading
from workbench.errors import EncoderError, did_you_mean
from workbench.files import checkpoint_checksum, project_path

SETTINGS_FILE = "encoder.json"

# The few files of a hub repository that an encoder consists of; onnx, tf and flax copies stay where they are.
_HUB_FILES = ["*.json", "*/config.json", "*.txt", "*.model", "model*.safetensors", "0_Transformer/*"]
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
# Main branches with pickled weights alone, and the pull request in which the hub's converter added safetensors of them.
_CONVERTED = {
    "princeton-nlp/unsup-simcse-bert-base-uncased": "refs/pr/5",
    "princeton-nlp/unsup-simcse-bert-large-uncased": "refs/pr/3",
    "princeton-nlp/unsup-simcse-roberta-base": "refs/pr/1",
    "princeton-nlp/unsup-simcse-roberta-large": "refs/pr/1",
    "voidism/diffcse-bert-base-uncased-sts": "refs/pr/1",
    "voidism/diffcse-roberta-base-sts": "refs/pr/1",
}
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "tf_model.h5", "flax_model.msgpack")
_SENTENCE_TRANSFORMER_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}
# Buffers that older files contain.
BUFFERS = frozenset(["position_ids", "token_type_ids", "num_batches_tracked"])
_FLOATS = ("F64", "F32", "F16", "BF16")


def _inside(path: str) -> str:
    parts = PurePosixPath(path.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in path:
        raise ValueError("lies outside of the checkpoint, of which nothing else is read")
    return path


def _beside(name: str) -> str:
    if Path(name).name != name or "\\" in name:
        raise ValueError("is no file beside the index, and nothing else is read")
    return name


class _Noted(pydantic.BaseModel):
    """What encoder.json says of the reading; null says no more than a name that is not there."""

    pooling: Pooling | None = None
    template: str | None = None
    full_stop: str | None = None
    endings: str | None = None


class _Module(pydantic.BaseModel):
    """One of a SentenceTransformer's modules.json."""

    type: str
    path: Annotated[str, pydantic.AfterValidator(_inside)] = ""


class _Config(pydantic.BaseModel):
    """Of config.json what is read before transformers reads it."""

    architectures: list[str] | None = None


class _Index(pydantic.BaseModel):
    """What model.safetensors.index.json says: weight -> shard."""

    weight_map: dict[str, Annotated[str, pydantic.AfterValidator(_beside)]]


def find_checkpoint(name: str, revision: str | None = None) -> Checkpoint:
    """The checkpoint called `name`: a bundled one, else an existing folder, else a repository of the Hugging Face hub.

    The folder of a finished run stands for its encoder.
    Raises EncoderError when there is none or when a file of it is missing or broken.
    """
    try:
        folder = Path(name).expanduser()
        is_folder, is_file = folder.is_dir(), folder.is_file()
    except OSError as error:
        raise EncoderError(f"{name[:200]!r} cannot be looked for ({error.strerror}); {_known()}") from None
    if name in BUNDLED_MODELS:
        root, source = project_path("data") / "models" / name, f"bundled:{name}"
        if not root.is_dir():
            raise EncoderError(f"the bundled encoder {name!r} is not at {root}; `python -m data.build` rebuilds it")
    elif is_folder:
        root = encoder_folder(folder.resolve())
        source = f"folder:{root}"
    elif is_file:
        raise EncoderError(f"{name} is a file; give the folder that holds config.json, the weights and the tokenizer")
    elif not _HUB_ID.fullmatch(name) or name.startswith("."):
        raise EncoderError(f"there is no folder {name!r}, and it is no hub id (owner/name); {_known()}")
    else:
        root = _download(name, revision or _CONVERTED.get(name))
        source = f"hub:{name}@{root.name}"
    return _look_through(root, name, source)


def encoder_folder(folder: Path) -> Path:
    """Return the encoder's folder if `folder` is a finished run or its encoder, otherwise `folder`."""
    run = folder.parent if folder.name == "encoder" and (folder.parent / "metrics.json").is_file() else folder
    path = run / "config.json"
    facts = read_json(path) if path.is_file() else {}
    if "settings" not in facts:
        return folder
    if not (run / "metrics.json").is_file():
        raise EncoderError(
            f"{folder} is a run that is not finished, so its encoder may still change: run it to its end, or name "
            f"{folder / 'encoder'} to take the best checkpoint so far"
        )
    saved = facts.get("files", {}).get("encoder")
    if saved is not None and saved["sha256"] != checkpoint_checksum(run):
        raise EncoderError(
            f"{run / 'encoder'} was changed after the run saved it: restore it, or move {run} away and run again"
        )
    return run / "encoder"


def _known() -> str:
    return f"bundled encoders are {', '.join(map(repr, BUNDLED_MODELS))}; any other name is a folder or a hub id"


def _download(name: str, revision: str | None) -> Path:
    """The snapshot of a hub repository in the local cache, fetched when it is not there yet."""
    from huggingface_hub import errors, snapshot_download

    refusals = {
        errors.GatedRepoError: "is gated: accept its terms on the hub, then log in with `hf auth login`",
        errors.RevisionNotFoundError: f"has no revision {revision!r}; give a branch, a tag or a full commit hash",
        errors.RepositoryNotFoundError: f"is neither a folder nor a repository of the hub, or is private; {_known()}",
        errors.HFValidationError: f"is no folder and no valid hub id; {_known()}",
    }
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub's client raises a dozen unrelated types for "no network"
        at = f" --revision {revision}" if revision else ""
        unreachable = (
            "is no local folder and not in the hub cache, and the hub cannot be reached "
            f"({next(iter(str(error).splitlines()), type(error).__name__)}). "
            f"Give a local folder, or fetch it once where there is a network (`hf download {name}{at}`) and set "
            f"HF_HUB_OFFLINE=1 and HF_HOME to that cache here; {_known()}"
        )
        said = next((text for kind, text in refusals.items() if isinstance(error, kind)), unreachable)
        near = did_you_mean(name, BUNDLED_MODELS, cutoff=0.9)  # any other name may well be one of the hub
        raise EncoderError(f"{name!r}{near and near + ' It'} {said}") from error


def _look_through(root: Path, name: str, source: str) -> Checkpoint:
    """The checkpoint in `root`, as our own settings file, else SentenceTransformer's modules.json, describes it."""
    listed = root / "modules.json"
    modules: list[_Module] = read_json(listed, list[_Module]) if listed.is_file() else []
    folder = root / modules[0].path if modules else root
    limit = _read_optional(folder / "tokenizer_config.json").get("model_max_length") if modules else None
    noted = root / SETTINGS_FILE
    if noted.is_file():
        stored = read_json(noted, _Noted).model_dump(exclude_none=True)
        reading = Reading(**stored) if "pooling" in stored else None
        checkpoint = Checkpoint(name, source, root, folder, reading, max_seq_length=limit)
        _check_files(checkpoint)
        return checkpoint
    pooling, foreign = None, []
    for module in modules[1:]:
        kind = module.type.rsplit(".", 1)[-1]
        if kind == "Pooling":
            path = root / module.path / "config.json"
            pooling = _stored_pooling(path)
            foreign += [] if pooling else [f"Pooling ({path})"]
        elif kind != "Normalize":  # encode gives unit rows anyway
            foreign.append(kind)
    config = folder / "config.json"
    kinds = read_json(config, _Config).architectures if config.is_file() else None
    if not pooling:  # a classifier's head, such as a cross-encoder's: the backbone under it was trained for no pooling
        foreign += [kind for kind in kinds or [] if "ForSequenceClassification" in kind]
    lower_case = False
    if modules:
        foreign += _foreign_usage(root, unit=any(module.type.endswith("Normalize") for module in modules))
        settings = _read_optional(next(folder.glob("sentence_*_config.json"), folder / "sentence_bert_config.json"))
        limit, lower_case = settings.get("max_seq_length") or limit, bool(settings.get("do_lower_case"))
    reading = Reading(pooling) if pooling else None
    checkpoint = Checkpoint(name, source, root, folder, reading, tuple(foreign), limit, lower_case)
    _check_files(checkpoint)
    return checkpoint


def _foreign_usage(root: Path, *, unit: bool) -> list[str]:
    """Name the default prompt of a SentenceTransformer, and a similarity that is not the cosine of its vectors."""
    usage = _read_optional(root / "config_sentence_transformers.json")
    name, similarity = usage.get("default_prompt_name"), usage.get("similarity_fn_name") or "cosine"
    prompt = (usage.get("prompts") or {}).get(name)
    foreign = [f"the default prompt {prompt!r}"] if name is not None and prompt != "" else []
    if similarity != "cosine" and not (similarity == "dot" and unit):
        foreign.append(f"similarity {similarity!r}")
    return foreign


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _stored_pooling(path: Path) -> Any:
    """The pooling of a SentenceTransformer's Pooling module, or None when it is not one of ours."""
    if not path.is_file():
        raise EncoderError(f"modules.json speaks of a pooling, but {path} is missing; copy the folder once more, whole")
    config = read_json(path)
    mode = config.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else list(mode or [])
    modes += [
        _SENTENCE_TRANSFORMER_POOLINGS.get(k, k) for k, on in config.items() if k.startswith("pooling_mode_") and on
    ]
    return modes[0] if len(modes) == 1 and modes[0] in _SENTENCE_TRANSFORMER_POOLINGS.values() else None


def _check_files(checkpoint: Checkpoint) -> None:
    """Config, safetensors weights and a tokenizer are there, and the weights can be read to their end."""
    folder = checkpoint.folder
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder} holds no config.json, so it is no checkpoint; give the folder that save() wrote")
    if not (folder / "model.safetensors").is_file() and not (folder / "model.safetensors.index.json").is_file():
        pickled = [name for name in _PICKLED if (folder / name).exists()]
        if pickled or checkpoint.source.startswith("hub:"):
            # Of a hub repository pickles are not even fetched, so they cannot be named.
            held = f"{folder} holds its weights as {pickled[0]}" if pickled else f"{checkpoint.source} offers pickles"
            raise EncoderError(
                f"{held} only; such files can execute code, so only safetensors are read. Convert a file that you "
                "trust: AutoModel.from_pretrained(folder).save_pretrained(folder). On the hub, look for a conversion "
                f'pull request and name it: revisions={{"{checkpoint.name}": "refs/pr/<number>"}}'
            )
        raise EncoderError(f"{folder} holds no model.safetensors; the checkpoint is not complete")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise EncoderError(
            f"{folder} holds no tokenizer (none of {', '.join(_TOKENIZER_FILES)}); save it beside the model"
        )
    for path in _weight_files(folder):
        check_weights(path)


def _weight_files(folder: Path) -> list[Path]:
    """The safetensors files: one, or the shards that the index names."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return [folder / "model.safetensors"]
    return [folder / name for name in sorted({*read_json(index, _Index).weight_map.values()})]


def check_weights(path: Path) -> None:
    """The file can be read, is whole, and holds numbers that are weights as they stand."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise EncoderError(f"the index names {path}, which is missing; download or copy the checkpoint again")
    try:
        with path.open("rb"):
            pass  # the library below calls a file that may not be read missing
    except OSError as error:
        raise EncoderError(f"{path} cannot be read: {error.strerror or error}; see to its permissions") from error
    try:
        with safe_open(path, framework="numpy") as file:
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - no dict
    except (SafetensorError, OSError) as error:
        raise EncoderError(
            f"{path} ({path.stat().st_size} bytes) is corrupt or cut short: {error}; download or copy it again"
        ) from error
    for name, kind in kinds.items():
        if kind not in _FLOATS and name.rpartition(".")[2] not in BUFFERS:
            raise EncoderError(
                f"{path} holds {name} as {kind}: quantised weights mean something only to what wrote them; save the "
                "model in float32 or float16"
            )


def read_json(path: Path, kind: Any = dict[str, Any]) -> Any:
    """What a JSON file holds, of this `kind`; EncoderError says where it is of another, or none."""
    try:
        return pydantic.TypeAdapter(kind).validate_json(path.read_bytes())
    except OSError as error:
        raise EncoderError(f"{path} cannot be read: {error.strerror or error}; see to its permissions") from error
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        given = "" if first["type"] == "json_invalid" else f", given is {first['input']!r:.80}"
        raise EncoderError(f"{path}: {place}{first['msg']}{given}; download or copy the checkpoint again") from error
