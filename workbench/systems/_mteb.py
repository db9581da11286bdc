"""Predictions that mteb wrote, and scores of runs as mteb's results."""

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data import TRANSFER, Pairs, load_pairs
from workbench.data._catalogue import TABLES
from workbench.errors import DataError
from workbench.evaluation import report_pairs
from workbench.files import AnyPath, Facts, user_path, write_json
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.systems._scores import SystemScores, join_systems
from workbench.systems._trec import RUN_INDEX, judge_runs

_ENDING = "_predictions.json"
_UNNAMED = "no_model_name/available"  # mteb's name of a model that was loaded from a folder
# Larger is closer in both; mteb's main score is that of cosines.
_SCORES = ("cosine_scores", "similarity_scores")


def read_mteb(path: AnyPath, *, on: Pairs | AnyPath | None = None) -> SystemScores:
    """Return the scores of pairs and the rankings that mteb wrote into its `prediction_folder`.

    Each model needs a folder of its own: in one folder, mteb keeps the name of the first model and
    the scores of the last. A system is called by its folder below `path`, otherwise by its model
    or, if that was loaded from a folder and so has no name, by the folder of the file.
    Predictions that are neither scores of known pairs nor rankings of judged documents are left
    out, which `notes` says.

    Args:
        path: A file TASK_predictions.json, or a folder that has such files at any depth.
        on: The pairs of the task in its order, with gold: a set, its name or a file. By default the
            set of the catalogue that has the same pairs. For retrieval and reranking a file of
            judgements as `read_qrels` reads it.

    Raises:
        DataError: A file is damaged, two have scores of one system for the same pairs, or no file
            has scores of known pairs.
    """
    root = user_path(path).absolute()
    files = sorted(root.rglob(f"[!.]*{_ENDING}")) if root.is_dir() else [root]
    parts = defaultdict(dict)  # task, subset, split -> system -> predictions
    for file in files:
        system, content = _read_predictions(file)
        if file.parent not in (root, root.parent):
            system = file.parent.relative_to(root).as_posix()
        elif system in (None, _UNNAMED):
            system = file.parent.name
        task = file.name.removesuffix(_ENDING)
        for subset, splits in content.items():
            for split, predictions in splits.items():
                systems = parts[task, subset, split]
                if system in systems:
                    raise DataError(
                        f"{file}: another file has {task} ({subset}, {split}) of {system}, too; "
                        "rename one of their folders"
                    )
                systems[system] = predictions
    notes = []
    found = []
    for (task, subset, split), systems in parts.items():
        part = f"{task} ({subset}, {split})"
        gold = on or TABLES["mteb"].get(task, {}).get(split)
        try:
            scores = _score_part(systems, gold)
        except (TypeError, ValueError, AttributeError) as problem:
            notes.append(
                f"{part} left out: {problem}; with --on FILE give its pairs in its order, or its "
                "judgements"
            )
            continue
        found.append(scores)
        notes += [f"{part}: {note}" for note in scores.notes]
    if not found:
        raise DataError(f"{path}: no file *{_ENDING} has scores of known pairs; {'; '.join(notes)}")
    return replace(join_systems(found), notes=notes)


def _read_predictions(file: Path) -> tuple[str, Facts]:
    """Return the model of a file, and subset -> split -> predictions."""
    try:
        # As NaN, an infinite score is refused.
        whole = json.loads(file.read_bytes(), parse_constant=lambda _: math.nan)
        content = {name: {**part} for name, part in whole.items()}
        return content.pop("mteb_model_meta")["model_name"], content
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise DataError(
            f"{file} is no file of predictions ({problem!r}); mteb 2 writes them with "
            "evaluate(..., prediction_folder=FOLDER)"
        ) from None


def _score_part(systems: Facts, gold: Any) -> SystemScores:
    """Return the scores of systems: score -> values, or query -> document -> score."""
    first, *_ = systems.values()
    if gold is None or not isinstance(first, dict):
        raise DataError("neither scores of pairs nor rankings whose gold is known")
    keys = [key for key in _SCORES if key in first]
    if not keys:
        if isinstance(gold, Pairs):
            raise DataError("they are rankings, whose gold is judgements and not pairs")
        found = judge_runs({name: _as_run(own) for name, own in systems.items()}, gold)
        selves = {query for own in systems.values() for query in own if query in own[query]}
        if selves:
            found.notes.append(
                f"{len(selves)} queries retrieve the document of their own name; mteb leaves it "
                "out of tasks with ignore_identical_ids: remove it from the file for its number"
            )
        return found
    pairs = gold if isinstance(gold, Pairs) else load_pairs(gold)
    reports = {
        name: [report_pairs({pairs.name: (pairs, own.get(keys[0], []))})]
        for name, own in systems.items()
    }
    note = f"{keys[0]}, and the gold of {pairs.name}, in its order"
    return SystemScores(reports, {pairs.name: pairs}, [note])


def _as_run(rankings: Facts) -> Any:
    queries = {query: pd.Series(scores, dtype=float) for query, scores in rankings.items()}
    run = pd.concat(queries, names=RUN_INDEX)
    if run.isna().any():
        raise ValueError("a score is not finite")
    return run


def write_mteb(run: Run, folder: AnyPath) -> list[Path]:
    """Write the scores of a finished run as mteb's results; return the paths.

    They are in FOLDER/results/MODEL/REVISION/, which `mteb.ResultCache(FOLDER).load_results()`
    reads. A suite that mteb does not have is a task of its own name. `mteb_version` is null, since
    mteb has not made the scores, and `dataset_revision` is ours: our texts are those of SentEval.

    Raises:
        RunError: The run is not finished, or damaged.
    """
    revision = run.path.resolve().name
    # mteb shows one revision of a model.
    name = f"{run.config.method}-{revision}"
    place = user_path(folder).joinpath("results", f"ranking-workbench__{name}", revision)
    model = {"name": f"ranking-workbench/{name}", "revision": revision}
    files: dict[Path, Facts] = {place / "model_meta.json": model}
    tasks = {
        suite: (task, split)
        for task, sets in TABLES["mteb"].items()
        for split, suite in sets.items()
    }
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
        files.setdefault(place / f"{Path(task).name}.json", content)["scores"][split] = [scores]
    place.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        write_json(path, content)
    return [*files]
