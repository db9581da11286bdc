"""Predictions that mteb wrote, and scores of runs as mteb's results."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from workbench.data import TRANSFER, Pairs, load_pairs
from workbench.data._catalogue import TABLES
from workbench.errors import DataError
from workbench.evaluation import report_pairs
from workbench.files import Facts, write_json
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.systems._scores import SystemScores

_ENDING = "_predictions.json"
# As mteb calls scores of which larger is closer; the first that a task has is taken.
_SCORES = ("cosine_scores", "similarity_scores")


def read_mteb(path: str | Path, *, on: Pairs | str | Path | None = None) -> SystemScores:
    """Return the scores of pairs that mteb wrote with `mteb.evaluate(prediction_folder=...)`.

    Each model needs a folder of its own: in one folder, mteb keeps the name of the first model and
    the scores of the last. A system is called by its folder below `path`, otherwise by its model.
    Predictions that are no scores of known pairs are left out, which `notes` says.

    Args:
        path: A file TASK_predictions.json, or a folder that has such files at any depth.
        on: The pairs of the task in its order, with gold: a set, its name or a file. By default the
            set of the catalogue that has the same pairs.

    Raises:
        DataError: A file is damaged, its scores are not those of the pairs, or no file has any.
    """
    root = Path(path)
    files = sorted(root.rglob(f"*{_ENDING}")) if root.is_dir() else [root]
    suites: dict[str, Pairs] = {}
    scored: dict[str, Facts] = defaultdict(dict)
    notes: Facts = {}  # each once: most are the same for each system
    for file in files:
        system, content = _read_predictions(file)
        if file.parent not in (root, root.parent):
            system = file.parent.relative_to(root).as_posix()
        task = file.name.removesuffix(_ENDING)
        for subset, splits in content.items():
            for split, predictions in splits.items():
                part = f"{task} ({subset}, {split})"
                key = next((key for key in _SCORES if key in predictions), None)
                suite = on or TABLES["mteb"].get(task, {}).get(split)
                if not key or not suite:
                    why = "no set of the catalogue has its pairs; give them with --on FILE"
                    notes[f"{part} left out: {why if key else 'it has no scores of pairs'}"] = ""
                    continue
                pairs = suite if isinstance(suite, Pairs) else load_pairs(suite)
                values = np.asarray(predictions[key], dtype=float)
                count = np.isfinite(values).sum()
                if not count == len(values) == len(pairs):
                    why = f"{count} finite scores of {len(values)} for {len(pairs)} pairs"
                    remedy = "give its pairs, in its order, with --on FILE"
                    notes[f"{part} of {system} left out: {why} of {pairs.name}; {remedy}"] = ""
                    continue
                if pairs.name in scored[system]:
                    raise DataError(
                        f"{file}: {part} is not the only one with as many scores as {pairs.name} "
                        "has pairs; give the path of one file, with one such part"
                    )
                notes[f"{part}: {key}, and the gold of {pairs.name}, in its order"] = ""
                suites[pairs.name] = pairs
                scored[system][pairs.name] = (pairs, values)
    if not suites:
        raise DataError(f"{path}: no file *{_ENDING} has scores of known pairs; {'; '.join(notes)}")
    reports = {system: [report_pairs(own)] for system, own in scored.items()}
    return SystemScores(reports, suites, list(notes))


def _read_predictions(file: Path) -> tuple[str, Facts]:
    """Return the model of a file, and subset -> split -> predictions."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return content.pop("mteb_model_meta")["model_name"], content
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise DataError(
            f"{file} is no file of predictions ({problem!r}); mteb 2 writes them with "
            "evaluate(..., prediction_folder=FOLDER)"
        ) from None


def write_mteb(run: Run, folder: str | Path) -> list[Path]:
    """Write the scores of a finished run as mteb's results; return the paths.

    They are in FOLDER/results/MODEL/REVISION/, which `mteb.ResultCache(FOLDER).load_results()`
    reads. A suite that mteb does not have is a task of its own name. `mteb_version` is null, since
    mteb has not made the scores, and `dataset_revision` names our set with its checksum: its texts
    are those of SentEval.

    Raises:
        RunError: The run is not finished, or damaged.
    """
    facts = run.facts()
    tasks = {}
    for task, sets in TABLES["mteb"].items():
        tasks |= {suite: (task, split) for split, suite in sets.items()}
    model = {"name": f"ranking-workbench/{facts['method']}", "revision": run.path.name}
    files: Facts = {"model_meta": model}
    groups: Any = run.scores().groupby("suite", sort=False)
    for suite, rows in groups:
        if suite in TRANSFER:
            continue
        task, split = tasks.get(suite, (suite, "test"))
        checksum = facts.get("inputs", {}).get(suite, {}).get("sha256", "")
        result = files.setdefault(task, {"task_name": task, "scores": {}})
        result["dataset_revision"] = f"{suite} {checksum[:12]}"
        result |= {"mteb_version": None, "evaluation_time": None}
        value = spearman(rows["gold"], rows["predicted"])
        scores = {"main_score": value, "cosine_spearman": value, "hf_subset": "default"}
        scores["languages"] = ["cmn-Hans" if suite.startswith("zh-") else "eng-Latn"]
        result["scores"][split] = [scores]
    place = Path(folder, "results", model["name"].replace("/", "__"), model["revision"])
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{name}.json" for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        write_json(path, content)
    return paths
