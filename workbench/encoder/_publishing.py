"""Push saved models to the Hugging Face hub, with a card of their scores."""

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from yaml import YAMLError

from workbench.checkpoints import encoder_folder
from workbench.encoder._saving import SAVED_FILES
from workbench.errors import RunError
from workbench.files import file_checksum
from workbench.runs import Run, read_json

_LOG = logging.getLogger("workbench")
_CARD = "README.md"
_CHECKSUMS = TypeAdapter(dict[str, str])
_METRICS = {"spearman": "spearman_cosine", "kcc": "kcc", "ndcg": "ndcg"}  # ours -> the hub's
_FOLDER = re.compile(r"(?<=[a-z])\(folder\)")  # in the code of a card


@dataclass(frozen=True)
class Publication:
    """What a push of `folder` sends: its card and its files with their sizes in bytes; `left_out` stays here."""

    folder: Path
    repo_id: str
    card: Any  # huggingface_hub's ModelCard
    sizes: dict[str, int]
    left_out: list[str]

    def push(self, *, private: bool = False) -> None:
        """Create the repository and send everything in one commit. Raises RunError if that fails."""
        from huggingface_hub import CommitOperationAdd, HfApi

        contents = {name: str(self.folder / name) for name in self.sizes}
        contents[_CARD] = str(self.card).encode()
        operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
        try:
            self.card.validate()  # before a repository is made
            HfApi().create_repo(self.repo_id, private=private, exist_ok=True)
            HfApi().create_commit(self.repo_id, operations, commit_message="Push a saved encoder")
        except Exception as error:  # the hub's client raises a dozen unrelated types
            remedy = "log in with `hf auth login` and name OWNER/NAME"
            raise RunError(f"{self.repo_id} was not pushed: {error}; {remedy}") from None

    def summary(self) -> str:
        """Return the card, the files with their sizes, and the files that are left out."""
        files = [f"{size:>15,} {name}" for name, size in self.sizes.items()]
        others = [f"left out, not written by save: {name}" for name in self.left_out]
        return "\n".join([str(self.card), f"{self.repo_id}, bytes and files:", *files, *others])


def prepare_folder(folder: Path, repo_id: str, *, metrics: Any = None, **facts: Any) -> Publication:
    """Return what a push of a saved model to `repo_id` sends: the files that `save` wrote, unchanged.

    metrics: suite -> metric -> value, for the model-index of its card. facts: other fields of the
    card. Raises RunError if a file that was saved is missing, a link, or was changed; the text of
    the card may be changed.
    """
    from huggingface_hub import EvalResult, ModelCard
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise RunError(f"{repo_id!r} cannot be the name of a repository: {error}") from None
    paths = _paths_in(folder)
    saved = _saved_files(folder, paths)
    try:
        readme = paths[_CARD].read_text(encoding="utf-8")
        card = ModelCard(_FOLDER.sub(f'("{repo_id}")', readme))
    except (ValueError, YAMLError) as error:
        raise RunError(f"{paths[_CARD]} is no model card: {error}; correct it") from None
    facts["eval_results"] = [
        EvalResult("semantic-similarity", _hub_name(suite), suite, kind, round(values[name], 4))
        for suite, values in (metrics or {}).items()
        for name, kind in _METRICS.items()
        if values.get(name) is not None
    ]
    for name, value in facts.items():
        if value:
            setattr(card.data, name, value)
    sizes = {name: paths[name].stat().st_size for name in saved}
    sizes[_CARD] = len(str(card).encode())
    left_out = sorted(paths.keys() - saved - {SAVED_FILES})
    return Publication(folder, repo_id, card, sizes, left_out)


def _paths_in(folder: Path) -> dict[str, Path]:
    """Return name -> path of everything below a folder except folders; links are not followed."""
    paths = {}
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in [*files, *links]):
            paths[path.relative_to(folder).as_posix()] = path
    return paths


def _saved_files(folder: Path, paths: dict[str, Path]) -> list[str]:
    """Return the names of the files that `save` wrote; RunError unless they are as it wrote them."""
    remedy = f"save it to a new folder: Encoder.from_pretrained({str(folder)!r}).save(FOLDER)"
    if SAVED_FILES not in paths:
        raise RunError(f"{folder} has no {SAVED_FILES}, which says what belongs to it; {remedy}")
    checksums = read_json(paths[SAVED_FILES], _CHECKSUMS)
    for name, checksum in checksums.items() | {(_CARD, "")}:
        path = paths.get(name)
        if path is None or path.is_symlink() or not path.is_file():
            raise RunError(f"{folder / name} is missing or a link, so nothing was sent; {remedy}")
        if name != _CARD and file_checksum(path) != checksum:
            raise RunError(f"{path} was changed after it was saved; restore it, or {remedy}")
    return sorted(checksums)


def _hub_name(suite: str) -> str:
    """Return the name of a set in the form of a hub id, as the type of a set must look."""
    return re.sub(r"[^\w.-]+", "-", suite)


def prepare_run(run: Run, repo_id: str, **facts: Any) -> Publication:
    """Return what a push of a trained run sends, with a card of its scores; see `prepare_folder`.

    Raises RunError or EncoderError if the run has no encoder, is not finished, or its encoder was
    changed after the scores were computed.
    """
    if not (run.path / "encoder" / _CARD).is_file():
        raise RunError(f"{run.path} has no saved encoder: push a run that was trained")
    folder = encoder_folder(run.path.resolve())
    name = f"{run.config.method}-{run.path.resolve().name}"
    return prepare_folder(folder, repo_id, metrics=run.metrics(), model_name=name, **facts)


def push_folder(
    folder: Path, repo_id: str, *, private: bool = False, dry_run: bool = False, **options: Any
) -> list[str]:
    """Upload a saved model to `repo_id` and return the names of its files; `dry_run` sends nothing.

    Other files in the folder are named in a warning. options: as for `prepare_folder`.
    """
    return _push(prepare_folder(folder, repo_id, **options), private=private, dry_run=dry_run)


def push_run(
    run: Run, repo_id: str, *, private: bool = False, dry_run: bool = False, **options: Any
) -> list[str]:
    """Upload the encoder of a trained run with a card of its scores, as `push_folder` does."""
    return _push(prepare_run(run, repo_id, **options), private=private, dry_run=dry_run)


def _push(publication: Publication, *, private: bool, dry_run: bool) -> list[str]:
    if publication.left_out:
        _LOG.warning("left out, as save did not write them: %s", ", ".join(publication.left_out))
    if not dry_run:
        publication.push(private=private)
    return list(publication.sizes)
