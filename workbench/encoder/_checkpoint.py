"""Where a checkpoint lies and what it holds: bundled, a folder, or the hub. Only safetensors, no foreign code."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import EncoderError
from workbench.files import project_path

BUNDLED = ("world-encoder", "world-teacher")
SETTINGS_FILE = "encoder.json"

# The few files of a hub repository that an encoder consists of; onnx, tf and flax copies stay where they are.
_HUB_FILES = ["*.json", "*/config.json", "*.txt", "*.model", "model*.safetensors", "0_Transformer/*"]
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
_TOKENIZER_EXTRAS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt")
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


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint found on this machine.

    name: as asked for. source: what it turned out to be, for the record. folder: config, weights and tokenizer.
    pooling, template: what the checkpoint says of itself, None where it says nothing.
    foreign: what stands behind the backbone or the pooling and an Encoder does not have: modules of a
        SentenceTransformer, a classifier's head.
    """

    name: str
    source: str
    folder: Path
    pooling: str | None = None
    template: str | None = None
    foreign: tuple[str, ...] = ()

    @property
    def weight_files(self) -> list[Path]:
        """The safetensors files: one, or the shards that the index names."""
        index = self.folder / "model.safetensors.index.json"
        if index.is_file():
            return [self.folder / name for name in sorted(set(read_json(index)["weight_map"].values()))]
        return [self.folder / "model.safetensors"]


def find_checkpoint(name: str, revision: str | None = None) -> Checkpoint:
    """The checkpoint called `name`: a bundled one, else an existing folder, else a repository of the Hugging Face hub.

    The folder of a finished run stands for its encoder.
    Raises EncoderError when there is none or when a file of it is missing or broken.
    """
    if name in BUNDLED:
        root, source = project_path("data") / "models" / name, f"bundled:{name}"
        if not root.is_dir():
            raise EncoderError(f"the bundled encoder {name!r} is not at {root}; `python -m data.build` rebuilds it")
    elif Path(name).expanduser().is_dir():
        root = _of_run(Path(name).expanduser().resolve())
        source = f"folder:{root}"
    elif Path(name).expanduser().is_file():
        raise EncoderError(f"{name} is a file; give the folder that holds config.json, the weights and the tokenizer")
    elif not _HUB_ID.fullmatch(name) or name.startswith("."):
        raise EncoderError(f"there is no folder {name!r}, and it is no hub id (owner/name); {_known()}")
    else:
        root = _download(name, revision or _CONVERTED.get(name))
        source = f"hub:{name}@{root.name}"
    stored = _read_layout(root)
    checkpoint = Checkpoint(name=name, source=source, **stored)
    _check_files(checkpoint)
    return checkpoint


def checkpoint_checksum(folder: str | Path) -> str:
    """sha256 over the names and contents of all that an encoder reads of `folder`; torch is not loaded.

    Configuration, weights, tokenizer, encoder.json, modules.json and the pooling's configuration count; a model card
    and whatever else lies there do not. The folder of a finished run stands for its encoder.
    Raises EncoderError when there is no whole checkpoint.
    """
    root = _of_run(Path(folder).expanduser().resolve())
    checkpoint = Checkpoint(name=str(folder), source=f"folder:{root}", **_read_layout(root))
    _check_files(checkpoint)
    inside = checkpoint.folder
    read = [inside / name for name in ("config.json", *_TOKENIZER_FILES, *_TOKENIZER_EXTRAS)]
    read += [*checkpoint.weight_files, inside / "model.safetensors.index.json"]
    read += [root / SETTINGS_FILE, root / "modules.json", *sorted(root.glob("*_Pooling/config.json"))]
    digest = hashlib.sha256()
    for path in sorted({path for path in read if path.is_file()}):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def _of_run(folder: Path) -> Path:
    """The encoder's folder when `folder` is that of a finished run; any other as it is."""
    try:
        is_run = "settings" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return folder  # no run; what it is instead, and whether it is whole, is checked later
    if is_run and not (folder / "metrics.json").is_file():
        raise EncoderError(
            f"{folder} is a run that is not finished, so its encoder may still change: run it to its end, or name "
            f"{folder / 'encoder'} to take the best checkpoint so far"
        )
    return folder / "encoder" if is_run else folder


def _known() -> str:
    return f"bundled encoders are {', '.join(map(repr, BUNDLED))}; any other name is a folder or a hub id"


def _download(name: str, revision: str | None) -> Path:
    """The snapshot of a hub repository in the local cache, fetched when it is not there yet."""
    import httpx
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except errors.GatedRepoError as error:
        raise EncoderError(
            f"{name!r} is gated: accept its terms on the hub, then log in with `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise EncoderError(
            f"{name!r} has no revision {revision!r}; give a branch, a tag or a full commit hash"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise EncoderError(
            f"no folder and no hub repository is called {name!r} (or it is private); {_known()}"
        ) from error
    except errors.HFValidationError as error:
        raise EncoderError(f"{name!r} is no folder and no valid hub id; {_known()}") from error
    # LocalEntryNotFoundError, OfflineModeIsEnabled, timeouts, refused connections: all come down to "not reachable".
    except (OSError, httpx.HTTPError, RuntimeError) as error:
        at = f" --revision {revision}" if revision else ""
        raise EncoderError(
            f"{name!r} is no local folder and not in the hub cache, and the hub cannot be reached "
            f"({next(iter(str(error).splitlines()), type(error).__name__)}). "
            f"Give a local folder, or fetch it once where there is a network (`hf download {name}{at}`) and set "
            f"HF_HUB_OFFLINE=1 and HF_HOME to that cache here; {_known()}"
        ) from error


def _read_layout(root: Path) -> dict[str, Any]:
    """What our own settings file, else SentenceTransformer's modules.json, says of folder, pooling and template."""
    layout: dict[str, Any] = {"folder": root}
    modules_file, own = root / "modules.json", root / SETTINGS_FILE
    modules = read_json(modules_file) if modules_file.is_file() else []
    if modules:
        layout["folder"] = root / modules[0].get("path", "")
    if own.is_file():
        return layout | {key: value for key, value in read_json(own).items() if key in ("pooling", "template")}
    foreign = []
    for module in modules[1:]:
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            layout["pooling"] = _stored_pooling(root / module["path"] / "config.json")
            if layout["pooling"] is None:
                foreign.append(f"Pooling ({root / module['path'] / 'config.json'})")
        elif kind != "Normalize":  # encode gives unit rows anyway
            foreign.append(kind)
    config = layout["folder"] / "config.json"
    kinds = (read_json(config).get("architectures") or []) if config.is_file() and not modules else []
    # A classifier's head, such as a cross-encoder's: the backbone under it was trained for no pooling.
    foreign += [kind for kind in kinds if "ForSequenceClassification" in kind]
    return layout | {"foreign": tuple(foreign)}


def _stored_pooling(path: Path) -> str | None:
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
    for path in checkpoint.weight_files:
        _check_weights(path)


def _check_weights(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise EncoderError(f"the index names {path}, which is missing; download or copy the checkpoint again")
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise EncoderError(
            f"{path} ({path.stat().st_size} bytes) is corrupt or cut short: {error}; download or copy it again"
        ) from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; EncoderError when it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise EncoderError(f"{path} is not valid JSON ({error}); download or copy the checkpoint again") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars (a widget each in notebooks) and load reports of transformers: what matters is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
