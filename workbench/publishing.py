"""Push saved models to the Hugging Face hub, with a card of their scores."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import RunError

_SUFFIXES = (".json", ".safetensors", ".txt", ".model", ".md")


def push_folder(
    folder: Path, repo_id: str, *, card: str | None = None, private: bool = False, dry_run: bool = False
) -> list[str]:
    """Upload a saved model to `repo_id` with `card` as its README.md, and return the names of its files."""
    from huggingface_hub import HfApi, ModelCard

    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.suffix in _SUFFIXES)
    text = card or (folder / "README.md").read_text(encoding="utf-8")
    readme = ModelCard(text.replace("Transformer(folder)", f'Transformer("{repo_id}")'))
    if dry_run:
        return files
    try:
        readme.validate()  # before a repository is made
        HfApi().create_repo(repo_id, private=private, exist_ok=True)
        HfApi().upload_folder(folder_path=folder, repo_id=repo_id, allow_patterns=files)
        readme.push_to_hub(repo_id)
    except Exception as error:  # the hub's client raises a dozen unrelated types
        raise RunError(f"{repo_id} was not pushed: {error}; log in with `hf auth login` and name OWNER/NAME") from None
    return files


def with_results(readme: str, name: str, metrics: Mapping[str, Mapping[str, Any]], **facts: Any) -> str:
    """Return a saved encoder's card with the scores of a run (suite -> metric -> value) as the hub's model-index."""
    from huggingface_hub import EvalResult, ModelCard

    kinds = {"spearman": "spearman_cosine", "kcc": "kcc", "ndcg": "ndcg"}
    card = ModelCard(readme)
    results = [  # a set's type has the form of an id of the hub
        EvalResult("semantic-similarity", re.sub(r"[^\w.-]+", "-", suite), suite, kind, round(values[metric], 4))
        for suite, values in metrics.items()
        for metric, kind in kinds.items()
        if values.get(metric) is not None
    ]
    for key, value in {**facts, "model_name": name, "eval_results": results}.items():
        if value:
            setattr(card.data, key, value)
    return str(card)
