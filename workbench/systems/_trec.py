"""Run files and judgements of information retrieval: TREC's, and the layout of BEIR."""

import math
import re
from contextlib import suppress
from csv import QUOTE_NONE
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import read_own, read_text
from workbench.data._tables import to_number
from workbench.errors import DataError, WorkbenchError
from workbench.evaluation import RANKING_COLUMNS, Report, extract_table, ranking_metrics
from workbench.files import Facts, Names, as_list, user_path, write_text
from workbench.metrics import retrieval_metrics
from workbench.printing import LOG
from workbench.runs import AnyPath
from workbench.systems._scores import SystemScores

# The fields of a line, as columns are called.
_RUN = "query_id Q0 target_id rank score tag"
_QRELS = "query_id 0 target_id score"
RUN_INDEX = ["query_id", "target_id"]


def is_judgements(path: AnyPath) -> bool:
    """Return whether a file is one of `read_qrels`, by its first line."""
    with suppress(DataError):  # the name of a set, or Parquet, which is no text
        first_line = read_text(user_path(path)).strip().partition("\n")[0]
        fields = first_line.split()
        # A table of pairs has a header, whose last word is no number.
        is_header = fields == ["query-id", "corpus-id", "score"]
        return is_header or (len(fields) in (3, 4) and not math.isnan(to_number(fields[-1])))
    return False


def read_qrels(path: AnyPath) -> Any:
    """Return the grades of a file of judgements, a series by query_id and target_id.

    Its lines are `query 0 document grade`, as TREC's, or `query-id corpus-id score`, as BEIR's,
    with or without this header; it may end in .gz.

    Raises:
        DataError: A line has another form, or a document is judged twice for a query.
    """
    return _read_fields(path, _QRELS)["score"]


def read_runs(paths: Names, qrels: AnyPath) -> SystemScores:
    """Return the rankings of TREC run files, one system each, compared with judgements.

    A system is called by the tag of its file, if several "TAG+TAG", or by the path of the file if
    two have the same. The order of documents follows from the scores; ranks in the files are not
    read.

    Args:
        paths: Files with lines `query Q0 document rank score tag`; they may end in .gz.
        qrels: As of `judge_runs`.

    Raises:
        DataError: A line has another form, a score is not finite, a document is retrieved twice for
            a query, or no query is judged.

    Example:
        read_runs(["bm25.run", "dense.run"], "nfcorpus/qrels/test.tsv")
    """
    runs = {str(path): _read_fields(path, _RUN) for path in as_list(paths)}
    names = ["+".join(run["tag"].unique()) for run in runs.values()]
    if len({*names}) < len(names):
        names = list(runs)
    scores = {name: run["score"] for name, run in zip(names, runs.values(), strict=True)}
    return judge_runs(scores, qrels)


def judge_runs(runs: Facts, qrels: AnyPath) -> SystemScores:
    """Return the rankings of systems, compared with judgements.

    The suite is called like the file of judgements, or DATASET-SPLIT if that is BEIR's
    DATASET/qrels/SPLIT.tsv. Then DATASET/queries.jsonl and DATASET/corpus.jsonl have the texts that
    are shown; without these files the ids are.

    Args:
        runs: system -> its scores, a series by query_id and target_id.
        qrels: As `read_qrels` reads it.

    Returns:
        Reports with metrics n (targets), queries, kcc, ndcg and, if ir-measures is installed and
        the grades are whole, `RETRIEVAL`. The notes say what was left out.

    Raises:
        DataError: No query is judged, or a file cannot be read.
    """
    folder = user_path(qrels).absolute().parent
    suite = Path(str(qrels).removesuffix(".gz")).stem
    is_beir = folder.name == "qrels"
    if is_beir:
        suite = f"{folder.parent.name}-{suite}"
    joined = pd.concat({"": read_qrels(qrels), **runs}, axis=1).sort_index()
    has_query = joined.groupby(level=0).count() > 0
    judged: Any = has_query[has_query[""]]
    for name in runs:
        # Ids of documents may be written in two ways, where those of queries agree.
        if joined[["", name]].dropna().empty:
            raise DataError(
                f"no document of {name} is judged in {qrels}; give runs and judgements of one set, "
                "or leave it out"
            )
    kept = judged[judged[[*runs]].any(axis=1)]
    notes = [
        f"{count} queries are not in {name or suite}: those that are judged and in another run "
        "count as retrieving nothing, the others are left out"
        for name, count in (~has_query).sum().items()
        if count
    ]
    # What is not retrieved is tied last.
    scores = joined.loc[kept.index].astype(float).fillna(-np.inf)
    ranks = scores.groupby(level=0).rank(ascending=False)
    ids = scores.index.to_frame()
    table = ids.assign(
        suite=suite,
        query=ids["query_id"],
        target=ids["target_id"],
    )
    if is_beir:
        table["query"] = _find_texts(ids["query_id"], folder.parent / "queries.jsonl")
        table["target"] = _find_texts(ids["target_id"], folder.parent / "corpus.jsonl")
    # Categories, since texts of millions of rows take memory and time.
    table = table.astype("category").assign(gold=scores[""].clip(0))
    no_scores = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    reports = {}
    for name in runs:
        ranked = table.assign(score=scores[name], rank=ranks[name])
        ranked = ranked[[*RANKING_COLUMNS]].reset_index(drop=True)
        metrics = {"n": len(ranked), **ranking_metrics(ranked)}
        try:
            metrics |= retrieval_metrics(ranked).mean(numeric_only=True).to_dict()
        except WorkbenchError as problem:
            notes.append(str(problem))
        reports[name] = [Report({suite: metrics}, no_scores, ranked)]
    return SystemScores(reports, notes=list(dict.fromkeys(notes)))


def write_trec(source: Any, folder: AnyPath) -> list[Path]:
    """Write SUITE.TAG.run and SUITE.qrels of each suite with rankings; return their paths.

    A white space in an id becomes %20. Grades are rounded to whole numbers, with a warning:
    ir-measures and trec_eval read no others. A target that was not judged has grade 0. The tag is
    the name of the run, or "report".

    Args:
        source: A finished run, a report, or a ranking table.
        folder: Created if it is missing.

    Raises:
        DataError: There are no rankings, or a file of the folder has other lines.
    """
    table = extract_table(source, "rankings")
    if table.empty:
        raise DataError(f"{source!r:.80} has no rankings; a query is a sentence in 4 pairs or more")
    tag = re.sub(r"\s", "_", getattr(source, "path", Path("report")).resolve().name)
    place = user_path(folder)
    files = {}
    for suite, rows in table.groupby("suite", sort=False, observed=True):
        ids = rows[RUN_INDEX].astype(str).replace(r"\s", "%20", regex=True)
        lines = rows.assign(**ids, Q0="Q0", tag=tag, **{"0": 0})
        lines = lines.sort_values(["query_id", "score", "target_id"], ascending=False)
        lines["rank"] = lines.groupby("query_id").cumcount() + 1
        retrieved = lines.query("score > -inf")
        name = Path(str(suite)).name  # a suite of somebody else's run may be a path
        files[place / f"{name}.{tag}.run"] = retrieved[_RUN.split()]
        # Halves upwards, as a grade of 0.5 is one.
        grades = np.floor(lines["gold"].to_numpy(float) + 0.5).astype(int)
        if rounded := int((grades != lines["gold"]).sum()):
            LOG.warning("%s: %d of %d grades were rounded", suite, rounded, len(grades))
        files[place / f"{name}.qrels"] = lines.assign(score=grades)[_QRELS.split()]
    texts = {
        path: content.to_csv(
            sep=" ", header=False, index=False, quoting=QUOTE_NONE, lineterminator="\n"
        )
        for path, content in files.items()
    }
    for path, text in texts.items():
        # Judgements may be a user's own, with more in them, and scores those of another report.
        if path.exists() and path.read_bytes() != text.encode():
            raise DataError(f"{path} exists and has other lines; give another folder")
    place.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        write_text(path, text)
    return list(files)


def _find_texts(ids: Any, path: Path) -> Any:
    """Return the title, if any, and text of each id in a file of BEIR; otherwise the id."""
    if not path.is_file():
        return ids
    table: Any = read_own(path)
    table.require({"id": "_id", "text": "text"})
    columns = pd.DataFrame({"title": "", **table.columns}).set_index("_id")
    texts = columns["title"] + " " + columns["text"]
    return ids.map(texts.str.strip().to_dict()).fillna(ids)


def _read_fields(path: AnyPath, form: str) -> Any:
    """Return the fields of each line by query_id and target_id; the score is a finite number."""
    text = read_text(user_path(path))
    first_line = text.strip().partition("\n")[0]
    if len(first_line.split()) == 3:
        form = form.replace(" 0 ", " ")  # as BEIR's judgements
    header = f"{form} more"
    lines = pd.read_csv(
        StringIO(f"{header}\n{text}"),
        sep=r"\s+",
        usecols=header.split(),  # so that a line with further fields is no error
        dtype=str,
        quoting=QUOTE_NONE,
        keep_default_na=False,
        skip_blank_lines=False,  # so that a row has the number of its line
    )
    lines = lines.query("query_id not in ['', 'query-id']")  # the second is of BEIR's header
    lines["score"] = pd.to_numeric(lines["score"], errors="coerce")
    is_wrong = ~np.isfinite(lines["score"]) | lines.duplicated(RUN_INDEX)
    # A line with all of its fields lacks only what is more.
    is_wrong |= (lines == "").sum(axis=1) != 1
    for line in lines.index[is_wrong] + 1:
        raise DataError(
            f"{path}, line {line}: not `{form}` with a finite score, or a document of its query "
            "for the second time; correct the line"
        )
    return lines.set_index(RUN_INDEX)
