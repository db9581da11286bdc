"""Push saved models to the Hugging Face hub, with a card of their scores."""

import logging
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from workbench.checkpoints import encoder_folder
from workbench.errors import RunError
from workbench.files import SAVED_FILES, file_checksum
from workbench.runs import Run, read_json

_LOG = logging.getLogger("workbench")
_CARD = "README.md"
_METRICS = {"spearman": "spearman_cosine", "kcc": "kcc", "ndcg": "ndcg"}  # ours -> the hub's
_CHECKSUMS = TypeAdapter(dict[str, str])


class Pushed(dict[str, int]):
    """The files that are sent and their sizes in bytes; `card` is the text of README.md."""

    card: str
    left_out: list[str]


def push_folder(
    folder: Path, repo_id: str, *, metrics: Any = None, private: bool = False, dry_run: bool = False, **facts: Any
) -> Pushed:
    """Upload the files that `save` wrote to `repo_id` and return them; `dry_run` sends nothing.

    metrics: suite -> metric -> value, for the model-index of its card. facts: other fields of the card.
    Raises RunError if a saved file is missing, a link, or was changed; the text of the card may be.
    """
    from huggingface_hub import CommitOperationAdd, EvalResult, HfApi, ModelCard

    # A link is not followed, whether to a file or to a folder.
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    names = {path.relative_to(folder).as_posix() for path in paths}
    saved = _saved_files(folder, names)
    readme = (folder / _CARD).read_text(encoding="utf-8")
    facts["eval_results"] = [  # a set's type must look like a hub id
        EvalResult("semantic-similarity", re.sub(r"[^\w.-]+", "-", suite), suite, kind, round(values[name], 4))
        for suite, values in (metrics or {}).items()
        for name, kind in _METRICS.items()
        if values.get(name) is not None
    ]
    try:
        card = ModelCard(readme.replace("(folder)", f'("{repo_id}")'))
        for name, value in facts.items():
            if value:
                setattr(card.data, name, value)
        pushed = Pushed({name: (folder / name).stat().st_size for name in saved})
        pushed.card, pushed.left_out = str(card), sorted(names - {*saved, SAVED_FILES})
        if pushed.left_out:
            _LOG.warning("left out, as save did not write them: %s", ", ".join(pushed.left_out))
        if not dry_run:
            card.validate()  # before a repository is made
            HfApi().create_repo(repo_id, private=private, exist_ok=True)
            contents = {name: folder / name for name in saved} | {_CARD: pushed.card.encode()}
            operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
            HfApi().create_commit(repo_id, operations, commit_message="Push a saved encoder")
    except Exception as error:  # the hub's client raises a dozen unrelated types
        raise RunError(f"{repo_id} was not pushed: {error}; log in with `hf auth login` and name OWNER/NAME") from None
    return pushed


def _saved_files(folder: Path, names: set[str]) -> list[str]:
    """Return the names of the files that `save` wrote; RunError unless they are there as it wrote them."""
    remedy = f"save it to a new folder: Encoder.from_pretrained({str(folder)!r}).save(FOLDER)"
    if SAVED_FILES not in names:
        raise RunError(f"{folder} has no {SAVED_FILES}, which says what belongs to it; {remedy}")
    checksums = read_json(folder / SAVED_FILES, _CHECKSUMS)
    for name, checksum in checksums.items():
        path = folder / name
        if name not in names or path.is_symlink():
            raise RunError(f"{path} is missing or a link; {remedy}")
        if name != _CARD and file_checksum(path) != checksum:
            raise RunError(f"{path} was changed after it was saved; restore it, or {remedy}")
    return sorted(checksums)


def push_run(run: Run, repo_id: str, **options: Any) -> Pushed:
    """Upload the encoder of a trained run with a card of its scores; other arguments as for `push_folder`.

    Raises RunError or EncoderError if the run is not finished, or its encoder was changed since.
    """
    if not (run.path / "encoder" / _CARD).is_file():
        raise RunError(f"{run.path} has no saved encoder: push a run that was trained")
    path = run.path.resolve()
    options |= {"metrics": run.metrics(), "model_name": f"{run.config.method}-{path.name}"}
    return push_folder(encoder_folder(path), repo_id, **options)
