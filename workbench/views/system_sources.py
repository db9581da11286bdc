"""Scores of whatever can be named: encoders, runs, folders of runs, and files from elsewhere."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoints import find_checkpoint
from workbench.config import BaselineConfig
from workbench.data import Pairs, default_suite, load_own_pairs, own_columns, require_in_one
from workbench.errors import DataError, RunError, SettingError
from workbench.evaluation import Report, extract_table, report_pairs
from workbench.files import AnyPath, Names, as_list, path_text, set_name, user_path
from workbench.printing import printable
from workbench.runs import NAME, Run, is_finished, read_row
from workbench.systems import (
    SystemComparison,
    SystemScores,
    compare_scores,
    is_judgements,
    join_systems,
    read_mteb,
    read_runs,
    read_score_file,
    score_files,
)
from workbench.views import run_tables
from workbench.views._style import render, svg_image
from workbench.views.encoders import Encoders, label_encoders, model_of, scores_of
from workbench.views.export import write_page
from workbench.views.pair_explorer import scores_in_order

_PREDICTIONS = "*_predictions.json"  # mteb's files in its folder of predictions
DRAWN_PAIRS = 1_000
# suite -> the name or file of its pairs, if any, and the pairs
Datasets = dict[str, tuple[str | None, Pairs]]


def compare_systems(
    sources: Encoders,
    on: Names = (),
    *,
    runs_root: AnyPath = "runs",
    columns: Any = None,
    baseline: str = "",
    samples: int = 1000,
) -> SystemComparison:
    """Compare encoders, runs and scores from elsewhere in one table for each suite.

    Args:
        sources, on, runs_root, columns: As of `read_systems`.
        baseline, samples: As of `compare_scores`.

    Example:
        compare_systems(["english-encoder", "word-overlap"], ["ladders-all"])
        compare_systems("scores.csv")
        compare_systems("runs", baseline="simcse").overview()

    The baseline of a folder of runs is the first SimCSE, otherwise the first label.
    """
    on = as_list(on)
    scores = read_systems(sources, on, runs_root=runs_root, columns=columns)
    # A folder of runs has no first system that anybody chose.
    if not (baseline or scores.pairs) and len(label_encoders(sources)) == 1:
        baseline = run_tables.default_baseline(list(scores.reports))
    reports = chain.from_iterable(scores.reports.values())
    facts = [report.facts() for report in reports if isinstance(report, Run)]
    for suite in scores.suites:
        versions = {run_tables.suite_version(of_run, suite) for of_run in facts}
        if len(versions - {""}) > 1:
            scores.notes.append(f"{suite}: runs read it with other texts, though with this gold")
    suites = [name for name in map(set_name, on) if name in scores.suites]
    return compare_scores(scores, suites=suites, baseline=baseline, samples=samples)


def read_systems(
    sources: Encoders,
    on: Names = (),
    *,
    runs_root: AnyPath = "runs",
    columns: Any = None,
) -> SystemScores:
    """Return the scores of systems in the order of their sources.

    Args:
        sources: Each is, and is tried in this order as: a file of scores (.csv, .tsv, .jsonl,
            .parquet) or a folder of such files, which are all read as one; a TREC run file (any
            other file); a folder of mteb's predictions, or of such folders; a run; a folder of
            runs; the label of runs under `runs_root`; or an encoder.
        on: Sets or files of scored pairs that encoders score; gold of files that have none; for
            TREC run files one file of judgements. By default the pairs of other sources' files,
            otherwise stsb-test if it is here, or ladders-all.
        runs_root: Folder of runs, for their labels.
        columns: Role -> column of files of scores.

    Raises:
        DataError, RunError, EncoderError: A source cannot be read, or has other pairs.
    """
    on = as_list(on)
    _require_named_apart(map(set_name, on))
    # A mapping names its encoders; everything else has names of its own.
    sources_of = {label: path_text(source) for label, source in label_encoders(sources).items()}
    if not sources_of:
        raise SettingError("no system is given: name encoders, runs or files of scores")
    is_judged = any(map(is_judgements, on[:1]))
    # Files of a kind are read together, with the first: each may hold one system of the same pairs.
    # Where documents are judged, a .tsv is a run file.
    names = sources_of.values()
    tables = [name for name in names if not is_judged and score_files(name)]
    files = chain.from_iterable(map(score_files, tables))
    require_in_one([*files, *on], columns or {})
    mteb = [name for name in names if user_path(name).match(_PREDICTIONS)]
    trec = [name for name in names if name not in (*tables, *mteb) and user_path(name).is_file()]
    parts = {}
    encoders = {}
    for label, name in sources_of.items():
        if name in tables[:1]:
            parts[label] = read_score_file(tables, on=_only(on), columns=columns)
        elif name in trec[:1]:
            parts[label] = _read_trec(trec, _only(on))
        elif name in tables or name in trec:
            continue
        elif name in mteb or any(user_path(name).rglob(_PREDICTIONS)):
            gold = _only(on)
            if gold and not is_judged:
                gold = load_own_pairs(gold, columns)
            parts[label] = read_mteb(name, on=gold)
        elif runs := _runs_of(name, runs_root, {*on}):
            # The label of a run depends on the others, so a name that was given is better.
            if isinstance(sources, Mapping) and len(runs) == 1:
                runs = {label: next(iter(runs.values()))}
            reports = {title: _reports(own, on, columns) for title, own in runs.items()}
            parts[label] = SystemScores(reports)
        elif is_judged:
            raise DataError(
                f"{name}: no run file; {on[0]} judges documents, so give TREC run files, each "
                "by its name, or a folder of mteb's predictions"
            )
        else:
            encoders[label] = name
    # Last, because they score the pairs that the other sources brought.
    if encoders:
        parts |= score_encoders(encoders, on, columns=columns, parts=parts.values())
    return join_systems(parts[label] for label in sources_of if label in parts)


def _require_named_apart(names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"two sets are called {name}; rename one of the files, or leave it out")


def score_encoders(
    encoders: Mapping[str, str],
    on: Sequence[str],
    *,
    columns: Any = None,
    parts: Iterable[SystemScores] = (),
) -> dict[str, SystemScores]:
    """Return the scores of each encoder on the pairs of `on`, or on those of other systems."""
    for name in filter(os.path.isdir, encoders.values()):
        find_checkpoint(name)  # another folder is refused before torch is loaded
    data = _datasets(on, parts, columns)
    pairs = {suite: of_suite for suite, (_, of_suite) in data.items()}
    return {
        label: SystemScores({label: [_score(label, name, data, columns)]}, pairs)
        for label, name in encoders.items()
    }


def _only(on: Sequence[str]) -> str | None:
    if len(on) > 1:
        raise SettingError("scores in files are compared with one --on at a time")
    return next(iter(on), None)


def _read_trec(paths: list[str], judgements: str | None) -> SystemScores:
    if judgements is None or not user_path(judgements).is_file():
        raise SettingError(
            f"{paths[0]} is read as a TREC run file, which needs judgements: give their file with "
            "--on FILE, or name a file of scores .csv, .tsv, .jsonl or .parquet, or the folder of "
            "predictions that mteb wrote"
        )
    return read_runs(paths, judgements)


def comparison_html(compared: SystemComparison) -> str:
    """Return the tables, verdicts and notes of a comparison, and the scores against gold."""
    html = compared.to_html()
    for suite, _ in compared.tables():
        html += score_scatter(compared.scores, suite)
    return html


def comparison_page(path: AnyPath, compared: SystemComparison) -> Path:
    """Write a comparison as a page that needs no network, and return its path."""
    title = f"Comparison of {', '.join(compared.scores.reports)}"
    html = comparison_html(compared)
    # A name may have characters that turn the text around it.
    return write_page(path, render("titled.html", title=printable(title), html=printable(html)))


def score_scatter(scores: SystemScores, suite: str) -> str:
    """Return drawings of scores against gold, one for each system, as HTML of images.

    Of more than `DRAWN_PAIRS` pairs as many are drawn at random, the same for every system; each
    drawing is as high as its own scores.
    """
    html = ""
    # Of several seeds the first: dots of all would hide each other.
    for name, report in scores.first.items():
        table = extract_table(report, "scores")
        rows = table.loc[table["suite"] == suite, ["gold", "predicted"]]
        if len(rows):
            # Shares of the way from the smallest to the largest; 0 if all are equal.
            shares = (rows - rows.min()) / (rows.max() - rows.min()).replace(0, 1)
            # With a seed, so that two pages of the same scores are equal.
            drawn = shares.sample(min(DRAWN_PAIRS, len(rows)), random_state=0)
            dots = drawn.to_numpy().tolist()
            low, high = rows["gold"].agg(["min", "max"])
            alt = f"scores against gold on {suite}: {name}"
            drawing = render("scatter.svg", name=name, dots=dots, low=low, high=high, alt=alt)
            html += svg_image(drawing, alt)
    return html


def _datasets(on: Sequence[str], parts: Iterable[SystemScores], columns: Any) -> Datasets:
    """Return the pairs that encoders score: those of `on`, of other sources, or of a set."""
    if not on:
        if others := {suite: pairs for part in parts for suite, pairs in part.pairs.items()}:
            return {suite: (None, pairs) for suite, pairs in others.items()}
        on = [default_suite()]
    return {set_name(name): (name, load_own_pairs(name, columns)) for name in on}


def _score(label: str, source: Any, data: Datasets, columns: Any) -> Report:
    """Return the report of an encoder, or of scores; those by encoders of named sets are cached."""
    scored = {}
    for suite, (name, pairs) in data.items():
        of_file = own_columns(name, columns) if name else None
        scores = scores_of(source, pairs, name, of_file)
        scored[suite] = pairs, scores_in_order(label, scores, pairs, suite)
    return report_pairs(scored)


def _runs_of(name: str, root: AnyPath, suites: set[str]) -> dict[str, list[Run]]:
    """Return label -> finished runs: those in a folder, of a label, or one; {} if there is none.

    The label of an evaluated encoder is its name: if these suites were not evaluated, or are files,
    whose content may be another one by now, the name is that of the encoder.
    """
    folder = user_path(name)
    if is_finished(folder):
        row = read_row(folder)
        rows = [row]
        if row["status"] != "finished":
            # The folder of an encoder may have these files, too.
            if NAME.fullmatch(folder.resolve().name):
                raise RunError(row["failure"])
            rows = []
    # Any other folder may be that of an encoder, which has no runs.
    elif folder.is_dir():
        rows = run_tables.finished_rows(folder)
    else:
        rows = run_tables.finished_rows(root) if user_path(root).is_dir() else []
    groups = defaultdict(list)
    # The label depends on the other runs under the root, so it is that of all of them.
    for row, label in zip(rows, run_tables.label_runs(rows), strict=True):
        is_encoder = row["method"] == BaselineConfig.method and suites - row["metrics"].keys()
        if folder.is_dir() or (label == name and not is_encoder):
            groups[label].append(row)
    runs = {label: runs_by_seed(label, groups[label]) for label in sorted(groups)}
    return {label: own for label, own in runs.items() if own}


def runs_by_seed(label: str, rows: list[Any]) -> list[Run]:
    """Return the runs of a label by seed.

    Raises DataError if they read different data. RankEncoder's E1 (its role is "base") and the
    start ("encoder", of which the seed may draw a layer) may be others for each seed.
    """
    checksums = defaultdict(set)
    for row in rows:
        for role, source in row["facts"].get("inputs", {}).items():
            checksums[role].add(source["sha256"])
    several = {role for role, values in checksums.items() if len(values) > 1}
    if different := ", ".join(sorted(several - {"base", "encoder"})):
        raise DataError(f"{label}: runs of different {different} have no mean; pass another folder")
    paths = [row["path"] for row in sorted(rows, key=lambda row: row["seed"])]
    # Not read: that takes as long as the comparison, which reads them.
    return [
        Run(path)
        for path in paths
        if run_tables.read_or_warn(path, Run.stored_path, name="scores.csv")
    ]


def _reports(runs: list[Run], on: Sequence[str], columns: Any) -> list[Any]:
    """Return the runs of a label, or the reports of their encoders on data that a run lacks."""
    if all(_has_scored(run, name, columns) for run in runs for name in on):
        return runs
    data = _datasets(on, (), columns)
    return [
        replace(_score(str(run.path), model_of(run), data, columns), config=run.config)
        for run in runs
    ]


def _has_scored(run: Run, name: str, columns: Any) -> bool:
    """Return whether a run has scores of a set, or of a file with the content that it has now."""
    if run_tables.suite_file(name) is None:
        return set_name(name) in run.metrics()
    # The file may have changed, or another one may have this name.
    asked = load_own_pairs(name, columns)
    if run_tables.suite_version(run.facts(), set_name(name)) != asked.checksum:
        return False
    # With other columns it may be another set.
    scored = load_own_pairs(name, run.config.columns)
    return asked.texts == scored.texts and np.array_equal(asked.gold, scored.gold)
