"""Push saved models to the Hugging Face hub, with a card of their scores."""

import re
from pathlib import Path
from typing import Any

from workbench.checkpoints import find_checkpoint
from workbench.encoder._saving import markdown_line
from workbench.errors import RunError
from workbench.files import SAVED_BY_ENCODER, Facts
from workbench.runs import Run

_CARD = "README.md"
_METRICS = {"spearman": "spearman_cosine", "kcc": "kcc", "ndcg": "ndcg"}  # ours -> the hub's
_REQUIRED = {_CARD, "config.json", "model.safetensors"}


class Pushed(dict[str, int]):
    """The files that are sent and their sizes in bytes; `card` is the text of README.md."""

    card: str
    left_out: list[str]


def push_folder(
    folder: Path,
    repo_id: str,
    *,
    metrics: Any = None,
    note: str = "",
    private: bool = False,
    dry_run: bool = False,
    **facts: Any,
) -> Pushed:
    """Upload the files that `save` wrote to `repo_id` and return them.

    metrics: suite -> metric -> value, for the model-index of its card.
    note: a sentence at the end of the card. facts: other fields of the card.
    dry_run: send nothing.
    Raises RunError if a file is missing or a link, or if the upload fails.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, ModelCard

    pushed = _saved_files(folder)
    readme = (folder / _CARD).read_text("utf-8").replace("(folder)", f'("{repo_id}")')
    # A cross-encoder's scores are no cosines.
    facts["eval_results"] = _eval_results(metrics or {}, is_cosine="modules.json" in pushed)
    try:
        card = ModelCard(f"{readme}\n{markdown_line(note)}\n" if note else readme)
        for name, value in facts.items():
            if value:
                setattr(card.data, name, value)
        pushed.card = str(card)
        if not dry_run:
            card.validate()  # before a repository is made
            # None is the default of the owner.
            HfApi().create_repo(repo_id, private=private or None, exist_ok=True)
            if private:
                _require_private(repo_id)
            # The card is sent from memory: the saved folder stays as its run's checksum has it.
            contents = {name: folder / name for name in pushed} | {_CARD: pushed.card.encode()}
            operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
            HfApi().create_commit(repo_id, operations, commit_message="Push a saved encoder")
    except Exception as error:  # the hub's client raises a dozen unrelated types
        raise RunError(
            f"{repo_id} was not pushed: {error}; if it is the login or the name: `hf auth login`, "
            "and OWNER/NAME"
        ) from None
    return pushed


def _require_private(repo_id: str) -> None:
    from huggingface_hub import HfApi

    # An existing repository stays as it is.
    if not HfApi().repo_info(repo_id).private:
        raise ValueError("it exists and is public; make it private, or name another one")


def _saved_files(folder: Path) -> Pushed:
    """Return the files of a saved model, and the names of what else its folder contains."""
    files = Pushed()
    files.left_out = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not SAVED_BY_ENCODER.fullmatch(name):
            if path.is_symlink() or not path.is_dir():
                files.left_out.append(name)
        elif path.is_symlink():
            raise RunError(f"{path} is a link, which may lead anywhere; put a copy in its place")
        elif path.is_file():
            files[name] = path.stat().st_size
    if missing := sorted(_REQUIRED - {*files}):
        raise RunError(f"{folder} has no {', '.join(missing)}; save the encoder again")
    return files


def _eval_results(metrics: Facts, *, is_cosine: bool) -> list[Any]:
    """Return the scores as the hub reads them."""
    from huggingface_hub import EvalResult

    results = []
    for suite, values in metrics.items():
        dataset = re.sub(r"[^\w.-]+", "-", suite)  # a set's type must look like a hub id
        for name, kind in _METRICS.items():
            if values.get(name) is not None:
                score = round(values[name], 4)
                named = kind if is_cosine else name
                results.append(EvalResult("semantic-similarity", dataset, suite, named, score))
    return results


def push_run(run: Run, repo_id: str, **options: Any) -> Pushed:
    """Upload the encoder of a trained run with a card of its scores.

    options: those of `push_folder`.
    Raises RunError or EncoderError if the run is not finished, or its encoder was changed since.
    """
    if not (run.path / "encoder" / _CARD).is_file():
        raise RunError(f"{run.path} has no saved encoder: push a run that was trained")
    path = run.path.resolve()
    # First, because an unfinished run has a clearer message for its missing metrics.
    metrics = run.metrics()
    # A mixture was scored with its corpus, which is not sent: these are not the encoder's scores.
    if not getattr(run.config, "inference_weight", 0):
        options["metrics"] = metrics
    options["model_name"] = f"{run.config.method}-{path.name}"
    # It compares the files with the checksum that the run stored, and with one another.
    return push_folder(find_checkpoint(str(path)).root, repo_id, **options)
