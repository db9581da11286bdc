"""Push saved models to the Hugging Face hub, with a card of their scores."""

import re
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.runs import Run

_SUFFIXES = (".json", ".safetensors", ".txt", ".model", ".md")
_METRICS = {"spearman": "spearman_cosine", "kcc": "kcc", "ndcg": "ndcg"}  # ours -> the hub's


def push_folder(
    folder: Path, repo_id: str, *, metrics: Any = None, private: bool = False, dry_run: bool = False, **facts: Any
) -> list[str]:
    """Upload a saved model to `repo_id` and return the names of its files; `dry_run` sends nothing.

    metrics: suite -> metric -> value, for the model-index of its card. facts: other fields of the card.
    """
    from huggingface_hub import EvalResult, HfApi, ModelCard

    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.suffix in _SUFFIXES)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    card = ModelCard(readme.replace("Transformer(folder)", f'Transformer("{repo_id}")'))
    facts["eval_results"] = [  # a set's type must look like a hub id
        EvalResult("semantic-similarity", re.sub(r"[^\w.-]+", "-", suite), suite, kind, round(values[name], 4))
        for suite, values in (metrics or {}).items()
        for name, kind in _METRICS.items()
        if values.get(name) is not None
    ]
    for name, value in facts.items():
        if value:
            setattr(card.data, name, value)
    if dry_run:
        return files
    try:
        card.validate()  # before a repository is made
        HfApi().create_repo(repo_id, private=private, exist_ok=True)
        HfApi().upload_folder(folder_path=folder, repo_id=repo_id, allow_patterns=files)
        card.push_to_hub(repo_id)
    except Exception as error:  # the hub's client raises a dozen unrelated types
        raise RunError(f"{repo_id} was not pushed: {error}; log in with `hf auth login` and name OWNER/NAME") from None
    return files


def push_run(run: Run, repo_id: str, **options: Any) -> list[str]:
    """Upload the encoder of a trained run with a card of its scores; other arguments as for `push_folder`."""
    if not (run.path / "encoder" / "README.md").is_file():
        raise RunError(f"{run.path} has no saved encoder: push a run that was trained")
    options |= {"metrics": run.metrics(), "model_name": f"{run.config.method}-{run.path.name}"}
    return push_folder(run.path / "encoder", repo_id, **options)
