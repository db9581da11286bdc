"""Predictions that mteb wrote, and scores of runs as mteb's results."""

import json
import math
from pathlib import Path
from typing import Any

from workbench.data import TRANSFER, Pairs, load_pairs
from workbench.data._catalogue import TABLES
from workbench.errors import DataError
from workbench.evaluation import report_pairs
from workbench.files import Facts, write_json
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.systems._scores import SystemScores, join_systems

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
    parts: dict[Any, SystemScores] = {}
    notes: Facts = {}  # each once: most are the same for each system
    for file in files:
        system, content = _read_predictions(file)
        if file.parent not in (root, root.parent):
            system = file.parent.relative_to(root).as_posix()
        task = file.name.removesuffix(_ENDING)
        for subset, splits in content.items():
            for split, predictions in splits.items():
                part = f"{task} ({subset}, {split})"
                suite: Any = on or TABLES["mteb"].get(task, {}).get(split, task)
                # Larger is closer in both; mteb's main score is that of cosines.
                key = _COSINES if _COSINES in predictions else "similarity_scores"
                try:
                    pairs = load_pairs(suite) if isinstance(suite, str | Path) else suite
                    report = report_pairs({pairs.name: (pairs, predictions.get(key, []))})
                except ValueError as problem:
                    why = f"{problem}; give its pairs, in its order, with --on FILE"
                    notes[f"{part} left out: {why}"] = ""
                    continue
                if (system, pairs.name) in parts:
                    raise DataError(
                        f"{file}: {part} is not the only one with as many scores as {pairs.name} "
                        "has pairs; give the path of one file, with one such part"
                    )
                parts[system, pairs.name] = SystemScores({system: [report]}, {pairs.name: pairs})
                notes[f"{part}: {key}, and the gold of {pairs.name}, in its order"] = ""
    if not parts:
        raise DataError(f"{path}: no file *{_ENDING} has scores of known pairs; {'; '.join(notes)}")
    joined = join_systems(parts.values())
    return SystemScores(joined.reports, joined.pairs, list(notes))


def _read_predictions(file: Path) -> tuple[str, Facts]:
    """Return the model of a file, and subset -> split -> predictions."""
    try:
        # As NaN, an infinite score is refused.
        text = file.read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=lambda _: math.nan)
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
    place = Path(folder, "results", f"ranking-workbench__{method}", revision)
    model = {"name": f"ranking-workbench/{method}", "revision": revision}
    files: dict[Path, Facts] = {place / "model_meta.json": model}
    tasks = {}
    for task, sets in TABLES["mteb"].items():
        tasks |= {suite: (task, split) for split, suite in sets.items()}
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
        scores = {
            "main_score": spearman(rows["gold"], rows["predicted"]),
            "hf_subset": "default",
            "languages": ["cmn-Hans" if suite.startswith("zh-") else "eng-Latn"],
        }
        files.setdefault(place / f"{task}.json", content)["scores"][split] = [scores]
    place.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        write_json(path, content)
    return [*files]
