"""Find a checkpoint by name, without torch; only safetensors are read, and no code of a checkpoint is executed.

data/checkpoints.toml has the pooling of published checkpoints by name, which the hub does not.
"""

import json
import logging
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.config import BUNDLED_MODELS, PUBLISHED, Pooling, current_value, published_entry
from workbench.errors import EncoderError, did_you_mean
from workbench.files import checkpoint_checksum, project_path

_LOG = logging.getLogger("workbench")

POOLINGS: tuple[str, ...] = get_args(get_args(Pooling)[0])
SETTINGS_FILE = "encoder.json"
_BUNDLED = project_path("data") / "models"
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
# The few files of a hub repository that an encoder consists of; onnx, tf and flax copies are not fetched.
_HUB_FILES = ["*.json", "*/config.json", "*.txt", "*.model", "model*.safetensors", "0_*/*", "*_Dense/*"]


@dataclass(frozen=True)
class Reading:
    """How sentences are read.

    template: text around a sentence, only for pooling "mask". full_stop: appended to a sentence that ends in none of
    `endings`. caution: difference from the published reading. prompt: text before a sentence; skips_prompt: its tokens
    are left out of the mean. has_dense: layers follow the pooling. similarity: "cosine" or "dot".
    """

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
            raise EncoderError(f"a template needs pooling 'mask', not {self.pooling!r}; set it, or remove the template")

    def add_full_stop(self, sentence: str) -> str:
        """Return the sentence as the authors of the checkpoint put it into the template."""
        text = sentence.rstrip()
        return f"{text}{self.full_stop}" if self.full_stop and text and text[-1] not in self.endings else sentence


def published_reading(name: str) -> Reading | None:
    """Return the reading of a published checkpoint by its hub id or folder, None for an unknown name."""
    entry = published_entry(name)
    return entry and Reading(**{key: text for key, text in entry.items() if key != "name"})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on this machine.

    source: its origin, for the record. folder: where in `root` config, weights and tokenizer are. stored: the reading
    in its files. foreign: parts that an Encoder lacks: modules or similarity of a SentenceTransformer, the head of a
    classifier. max_seq_length: limit in tokens of a SentenceTransformer. prompts: its prompts by name.
    kind: "static" for one vector per token, "st" for what SentenceTransformer itself is to load.
    """

    name: str
    source: str
    root: Path
    folder: Path
    stored: Reading | None = None
    foreign: tuple[str, ...] = ()
    max_seq_length: int | None = None
    lower_case: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    kind: Literal["transformer", "static", "st"] = "transformer"

    @property
    def own_pooling(self) -> Pooling | None:
        """The pooling in its files, else that of its published name; None if neither says one."""
        reading = self.stored or published_reading(self.name)
        return reading and reading.pooling

    def read(self, pooling: str | None = None, template: str | None = None) -> Reading | None:
        """Return the reading asked for, else the stored one, else the published one, else None.

        Raises EncoderError for an unknown pooling, a template without pooling "mask", and foreign parts.
        """
        chosen = Reading(current_value(pooling)) if pooling else None
        if self.foreign and chosen is None:
            problem = f"{self.name} was saved with {', '.join(self.foreign)}, which an Encoder does not support"
            raise EncoderError(f"{problem}; set pooling ({', '.join(POOLINGS)}) to use its backbone without that")
        saved = ", ".join([*([self.stored.pooling] if self.stored else []), *self.foreign])
        if chosen and saved not in ("", chosen.pooling):
            _LOG.warning("%s was saved with %s; pooling %r was asked for", self.name, saved, chosen.pooling)
        readings = [one for one in (self.stored, published_reading(self.name), chosen) if one]
        reading = next((one for one in readings if chosen is None or one.pooling == chosen.pooling), None)
        if template is not None:
            if reading is None or reading.pooling != "mask":
                raise EncoderError(f"{self.name}: a template needs pooling='mask'; set it, or leave the template out")
            reading = replace(reading, template=template)
        if reading is not None and reading.caution:
            _LOG.warning("%s: %s", self.name, reading.caution)
        return reading


def find_checkpoint(name: str, revision: str | None = None) -> Checkpoint:
    """Return the checkpoint of this name: bundled, else a folder or a finished run, else a repository of the hub.

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
        raise EncoderError(f"{plain!r} is neither a folder nor a hub id (owner/name); bundled encoders are {bundled}")
    else:
        files = _HUB_FILES if plain == name else [*_HUB_FILES, "*.bin", "[0-9]*_*/*"]
        root = _download_files(plain, revision or PUBLISHED["safetensors"].get(plain), files)
        source = f"hub:{plain}@{root.name}"
    if plain != name:
        return Checkpoint(name, f"st:{source}", root, root, kind="st")
    return _inspect(root, name, source)


def encoder_folder(folder: Path) -> Path:
    """Return the encoder's folder if `folder` is a finished run or its encoder, otherwise `folder`.

    Raises EncoderError for an unfinished run, and for an encoder that was changed after its run saved it.
    """
    run = folder.parent if folder.name == "encoder" and (folder.parent / "metrics.json").is_file() else folder
    facts = _read_json(run / "config.json")
    if "settings" not in facts:
        return folder
    if not (run / "metrics.json").is_file():
        problem = f"{folder} is a run that is not finished"
        raise EncoderError(f"{problem}: finish it, or use its best encoder so far: {folder / 'encoder'}")
    saved = facts.get("files", {}).get("encoder")
    if saved is not None and saved["sha256"] != checkpoint_checksum(run):
        raise EncoderError(f"{run / 'encoder'} was changed after the run saved it: restore it, or run again elsewhere")
    return run / "encoder"


def _download_files(name: str, revision: str | None, files: list[str]) -> Path:
    """Return the snapshot of a hub repository in the local cache; fetch its missing files."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except Exception as error:  # the hub's client raises a dozen unrelated types for "no network"
        near = did_you_mean(name, BUNDLED_MODELS, cutoff=0.9)  # any other name may well be one of the hub
        command = f"hf download {name}" + (f" --revision {revision}" if revision else "")
        remedy = f"without a network, set HF_HOME to a cache filled by `{command}`, and HF_HUB_OFFLINE=1"
        raise EncoderError(f"{name!r}{near} is no local folder and cannot be fetched ({error}); {remedy}") from error


def _inspect(root: Path, name: str, source: str) -> Checkpoint:
    """Return the checkpoint in `root` as encoder.json, else the files of a SentenceTransformer, describe it."""
    modules = _read_json(root / "modules.json", list)
    folder = root / modules[0]["path"] if modules else root
    if modules and modules[0]["type"].endswith("StaticEmbedding"):
        others = [module["type"].rpartition(".")[2] for module in modules[1:]]
        foreign = tuple(kind for kind in others if kind != "Normalize")
        return Checkpoint(name, source, root, folder, foreign=foreign, kind="static")
    if _read_json(root / "config.json").get("model_type") == "model2vec":
        return Checkpoint(name, source, root, root, kind="static")
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder} has no config.json, so it is no checkpoint; give the folder that save() wrote")
    if not any((folder / weights).is_file() for weights in ("model.safetensors", "model.safetensors.index.json")):
        raise EncoderError(
            f"{folder} has no model.safetensors, and pickled weights can execute code: convert them by AutoModel's "
            f'save_pretrained, or name a pull request on the hub that does: revisions={{"{name}": "refs/pr/<number>"}}'
        )
    limit = _read_json(folder / "tokenizer_config.json").get("model_max_length") if modules else None
    usage = _read_json(root / "config_sentence_transformers.json")
    prompts = {name: text for name, text in (usage.get("prompts") or {}).items() if text}
    if own := _read_json(root / SETTINGS_FILE):
        settings = {one.name: current_value(own[one.name]) for one in fields(Reading) if own.get(one.name)}
        reading = Reading(**settings) if "pooling" in settings else None
        return Checkpoint(name, source, root, folder, reading, max_seq_length=limit, prompts=prompts)
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules[1:]]
    pools = [_read_json(root / module["path"] / "config.json") for module in modules[1:] if "Pooling" in module["type"]]
    pooling = _stored_pooling(pools[0]) if kinds[:1] == ["Pooling"] else None
    skips_prompt = bool(pooling) and not pools[0].get("include_prompt", True)
    foreign = [kind for kind in kinds if kind not in ("Normalize", "Dense") and not (kind == "Pooling" and pooling)]
    foreign += [f"pooling {pooling!r} without its prompt"] if skips_prompt and pooling in ("cls", "max") else []
    if not pooling:  # the backbone under a classifier, such as a cross-encoder, was trained for no pooling
        architectures = _read_json(folder / "config.json").get("architectures") or []
        foreign += [kind for kind in architectures if "ForSequenceClassification" in kind]
    similarity = usage.get("similarity_fn_name") or "cosine"
    if similarity == "dot" and "Normalize" in kinds:
        similarity = "cosine"  # which it is for unit rows
    foreign += [] if similarity in ("cosine", "dot") else [f"similarity {similarity!r}"]
    cuts = _read_json(next(folder.glob("sentence_*_config.json"), root / "none")) if modules else {}
    limit, lower_case = cuts.get("max_seq_length") or limit, bool(cuts.get("do_lower_case"))
    prompt = prompts.get(usage.get("default_prompt_name"), "")
    more: dict[str, Any] = {"prompt": prompt, "skips_prompt": skips_prompt, "has_dense": "Dense" in kinds}
    stored = Reading(pooling, similarity=similarity, **more) if pooling else None
    return Checkpoint(name, source, root, folder, stored, tuple(foreign), limit, lower_case, prompts)


def dense_folders(root: Path) -> list[Path]:
    """Return the folders of the Dense modules of a SentenceTransformer, in their order."""
    return [root / one["path"] for one in _read_json(root / "modules.json", list) if one["type"].endswith(".Dense")]


def _stored_pooling(config: dict[str, Any]) -> Any:
    """Return the pooling of a SentenceTransformer's Pooling module, None if it is not one of ours."""
    flags = [key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    modes = config.get("pooling_mode") or [flag.partition("_token")[0] for flag in flags]
    mode = modes if isinstance(modes, str) else "+".join(modes)
    return {"lasttoken": "last"}.get(mode, mode if mode in ("cls", "mean", "max") else None)


def _read_json(path: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file of a checkpoint; empty if there is no such file."""
    try:
        content = json.loads(path.read_bytes()) if path.is_file() else kind()
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read: {error}; download or copy the checkpoint again") from error
    if not isinstance(content, kind):
        raise EncoderError(f"{path} holds {str(content)[:80]}, not a {kind.__name__}; download or copy it again")
    return content
