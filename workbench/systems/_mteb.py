"""Predictions that mteb wrote, and scores of runs as mteb's results."""

import json
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
_COSINES = "cosine_scores"


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
        DataError: A file is damaged, two have scores of one system for the same pairs, or no file
            has scores of known pairs.
    """
    root = Path(path)
    files = sorted(root.rglob(f"*{_ENDING}")) if root.is_dir() else [root]
    scored: dict[str, Any] = {}
    suites = {}
    notes: Facts = {}  # each once: most are the same for each system
    for file in files:
        system, content = _read_predictions(file)
        if file.parent not in (root, root.parent):
            system = file.parent.relative_to(root).as_posix()
        own = scored.setdefault(system, {})
        task = file.name.removesuffix(_ENDING)
        for subset, splits in content.items():
            for split, predictions in splits.items():
                part = f"{task} ({subset}, {split})"
                suite: Any = on or TABLES["mteb"].get(task, {}).get(split, ())
                pairs = load_pairs(suite) if isinstance(suite, str | Path) else suite
                # Of both, larger is closer; gold is compared with cosines by mteb, too.
                key = _COSINES if _COSINES in predictions else "similarity_scores"
                values = np.array(predictions.get(key, []), dtype=float)
                count = np.isfinite(values).sum()
                if not 0 < count == len(values) == len(pairs):
                    notes[
                        f"{part} left out: {count} finite scores of {len(values)} for {len(pairs)} "
                        "known pairs; give its pairs, in its order, with --on FILE"
                    ] = ""
                    continue
                name = pairs.name
                if name in own:
                    raise DataError(
                        f"{file}: {part} is not the only one with as many scores as {name} has "
                        "pairs; give the path of one file, with one such part"
                    )
                own[name] = (pairs, values)
                suites[name] = pairs
                notes[f"{part}: {key}, and the gold of {name}, in its order"] = ""
    if not suites:
        raise DataError(f"{path}: no file *{_ENDING} has scores of known pairs; {'; '.join(notes)}")
    reports = {system: [report_pairs(own)] for system, own in scored.items() if own}
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
    mteb has not made the scores, and `dataset_revision` is ours: our texts are those of SentEval.

    Raises:
        RunError: The run is not finished, or damaged.
    """
    method = run.facts()["method"]
    revision = run.path.name
    tasks = {}
    for task, sets in TABLES["mteb"].items():
        tasks |= {suite: (task, split) for split, suite in sets.items()}
    files: Facts = {"model_meta": {"name": f"ranking-workbench/{method}", "revision": revision}}
    groups: Any = run.scores().groupby("suite", sort=False)
    for suite, rows in groups:
        if suite in TRANSFER:
            continue
        task, split = tasks.get(suite, (suite, "test"))
        content = {
            "task_name": task,
            "dataset_revision": "ranking-workbench",
            "mteb_version": None,
            "evaluation_time": None,
            "scores": {},
        }
        value = spearman(rows["gold"], rows["predicted"])
        scores = {
            "main_score": value,
            "cosine_spearman": value,
            "hf_subset": "default",
            "languages": ["cmn-Hans" if suite.startswith("zh-") else "eng-Latn"],
        }
        files.setdefault(task, content)["scores"][split] = [scores]
    place = Path(folder, "results", f"ranking-workbench__{method}", revision)
    place.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in files.items():
        paths.append(place / f"{name}.json")
        write_json(paths[-1], content)
    return paths
