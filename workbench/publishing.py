"""The hub: models sent there as they are, with a card whose results it can read; and reading it without a network."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from workbench.errors import RunError

# What else a saved encoder's folder may hold is of this machine alone.
SENT = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md", "*.gz"]


@contextmanager
def reading_hub() -> Iterator[None]:
    """Around what reads the hub: where there is no network, its cache is all there is, as with HF_HUB_OFFLINE=1.

    The hub's client would ask five times over for each file. Where the hub can be reached it retries as ever.
    Raises ConnectionError where the cache, being all there is, lacks what is read.
    """
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or not _is_reachable(int(time.monotonic() / 60))
    try:
        yield
    except OSError as error:  # it speaks of HF_HUB_OFFLINE, which nobody set
        if offline or not constants.HF_HUB_OFFLINE:
            raise
        raise ConnectionError(f"{constants.ENDPOINT} does not answer") from error
    finally:
        constants.HF_HUB_OFFLINE = offline


@lru_cache(maxsize=1)
def _is_reachable(_minute: int) -> bool:
    """Whether the hub answers, whatever it says, at the first try or the second."""
    from huggingface_hub import constants, get_session

    for pause in (1, 0):
        try:
            get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        except Exception:  # of the client's transport, which changes with its versions
            time.sleep(pause)
        else:
            return True
    return False


def push_folder(
    folder: Path, repo_id: str, *, card: str | None = None, private: bool = False, dry_run: bool = False
) -> list[str]:
    """Uploads a saved model to `repo_id` of the hub, in one commit; made where it is not there yet.

    card: what is sent as README.md in place of the folder's own.
    The hub is the one of HF_ENDPOINT, the token the one of `hf auth login` or HF_TOKEN. dry_run: nothing is sent.
    Returns the files, each as "name (bytes)". Raises RunError when the hub refuses, with its words.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, ModelCard
    from huggingface_hub.utils import filter_repo_objects, validate_repo_id

    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names = list(filter_repo_objects(names, allow_patterns=SENT, ignore_patterns=[".*", "*/.*"]))
    sent: dict[str, Path | bytes] = {name: folder / name for name in names}
    try:
        card = card or (folder / "README.md").read_text(encoding="utf-8")
        sent["README.md"] = card.replace("Transformer(folder)", f'Transformer("{repo_id}")').encode()
        validate_repo_id(repo_id)
        if not dry_run:
            ModelCard(card).validate()  # a card that the hub refuses leaves no empty repository behind
            api = HfApi()
            name = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            files = [CommitOperationAdd(file, content) for file, content in sent.items()]
            api.create_commit(name, files, commit_message="A sentence encoder")
    except Exception as problem:  # the hub's client raises a dozen unrelated types
        said = " ".join(str(problem).split())[:300] or type(problem).__name__
        raise RunError(
            f"{repo_id} was not pushed ({said}); that takes a network, a login (`hf auth login`) and a repository "
            "OWNER/NAME that you may write to"
        ) from problem
    sizes = {name: len(found) if isinstance(found, bytes) else found.stat().st_size for name, found in sent.items()}
    return [f"{name} ({count:,} bytes)" for name, count in sizes.items()]


def with_results(readme: str, name: str, metrics: Mapping[str, Mapping[str, Any]], **facts: Any) -> str:
    """A saved encoder's card with the scores of a run, which the hub shows as its own results (model-index).

    metrics: suite -> metric -> value, as a run has them. facts: fields of the card, such as license or language.
    """
    from huggingface_hub import EvalResult, ModelCard

    card = ModelCard(readme)
    data: Any = card.data
    data.model_name = name
    data.eval_results = [
        EvalResult(
            task_type="semantic-similarity",
            dataset_type=re.sub(r"[^\w.-]+", "-", suite),  # as the id of a set on the hub would be written
            dataset_name=suite,
            metric_type=f"{metric}_cosine" if metric == "spearman" else metric,
            metric_name=title,
            metric_value=round(float(values[metric]), 4),
        )
        for suite, values in metrics.items()
        for metric, title in (("spearman", "Spearman"), ("kcc", "KCC"), ("ndcg", "NDCG"))
        if values.get(metric) is not None
    ]
    for key, value in facts.items():
        if value:
            setattr(data, key, value)
    rows = [f"| {_cell(one.dataset_name)} | {one.metric_name} | {one.metric_value:g} |" for one in data.eval_results]
    text = card.text.partition("\n## Results")[0].rstrip()
    card.text = "\n".join([text, "", "## Results", "", "| set | metric | value |", "|---|---|---:|", *rows, ""])
    return str(card)


def _cell(text: Any) -> str:
    return escape(str(text), quote=False).replace("|", "\\|")
