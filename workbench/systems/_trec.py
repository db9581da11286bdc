"""Run files and judgements of information retrieval: TREC's, and the layout of BEIR."""

import logging
from collections.abc import Mapping, Sequence
from csv import QUOTE_NONE
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import read_own, read_text
from workbench.errors import DataError, WorkbenchError, first_problem
from workbench.evaluation import Report, extract_table, ranking_metrics
from workbench.files import atomic_write
from workbench.metrics import RETRIEVAL, retrieval_metrics
from workbench.runs import AnyPath
from workbench.systems._scores import SystemScores

_RUN = "`query Q0 document rank score tag`"
_QRELS = "`query 0 document grade` or `query-id corpus-id score`"
_FIELDS = ["query", "document", "number", "last"]
# Their places, by the number of fields.
_PLACES = {_RUN: {6: [0, 2, 4, 5]}, _QRELS: {4: [0, 2, 3, 3], 3: [0, 1, 2, 2]}}
_ID = ["query_id", "target_id"]
_LOG = logging.getLogger("workbench")


def read_qrels(path: AnyPath) -> dict[str, dict[str, float]]:
    """Return query -> document -> grade of a file of judgements.

    It has lines `query 0 document grade`, as TREC's, or `query-id corpus-id score`, as BEIR's, with
    or without this header; it may end in .gz.

    Raises:
        DataError: A line has another form, or a document is judged twice for a query.
    """
    queries: Any = _read_fields(path, _QRELS).groupby("query", sort=False)
    return {query: dict(rows[["document", "number"]].to_numpy()) for query, rows in queries}


def read_runs(
    paths: Sequence[AnyPath],
    qrels: AnyPath,
    *,
    queries: AnyPath | None = None,
    corpus: AnyPath | None = None,
) -> SystemScores:
    """Return the rankings of TREC run files, one system each, compared with judgements.

    A system is called by the tag of its file, or by the name of the file if a file has several tags
    or two have the same. The order of documents follows from the scores; ranks in the files are not
    read. The suite is called like the file of judgements, or DATASET-SPLIT if that is BEIR's
    DATASET/qrels/SPLIT.tsv.

    Args:
        paths: Files with lines `query Q0 document rank score tag`; they may end in .gz.
        qrels: As `read_qrels` reads it.
        queries: BEIR's queries.jsonl, whose texts are shown; by default the ids are.
        corpus: BEIR's corpus.jsonl, whose titles and texts are shown; by default the ids are.

    Returns:
        Reports with metrics n (targets), queries, kcc, ndcg and, if ir-measures is installed and
        the grades are whole, `RETRIEVAL`. The notes say what was left out.

    Raises:
        DataError: A line has another form, a score is not finite, a document is retrieved twice for
            a query, two systems have one name, or no query is judged.

    Example:
        read_runs(["bm25.run", "dense.run"], "nfcorpus/qrels/test.tsv")
    """
    runs = [_read_fields(path, _RUN) for path in paths]
    names = [tag for run in runs for tag in run["last"].unique()]
    if not len(runs) == len(names) == len({*names}):
        names = list(map(_stem, paths))
    systems = dict(zip(names, runs, strict=True))
    if len(systems) < len(runs):
        raise DataError(f"two of the runs are called {names}; rename a file")
    folder = Path(qrels).absolute().parent
    suite = _stem(qrels)
    if folder.name == "qrels":
        suite = f"{folder.parent.name}-{suite}"
    tables, notes = rankings_table(systems, _read_fields(qrels, _QRELS), suite)
    files = {"query": queries, "target": corpus}
    texts = {role: _read_texts(path) for role, path in files.items() if path}
    no_scores = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    reports = {}
    for name, table in tables.items():
        metrics = {"n": len(table), **ranking_metrics(table)}
        try:
            metrics |= retrieval_metrics(table)[[*RETRIEVAL]].mean().to_dict()
        except WorkbenchError as problem:
            notes = [*notes, str(problem)]
        for role, known in texts.items():
            table[role] = table[role].map(known).fillna(table[role])
        reports[name] = [Report({suite: metrics}, no_scores, table)]
    return SystemScores(reports, notes=list(dict.fromkeys(notes)))


def rankings_table(
    runs: Mapping[str, Any], judged: Any, suite: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the ranking table of each run with the same rows, and notes on what was left out.

    The rows are the documents of each query that a run retrieved or that are judged. Gold is 0
    without a judgement and for a grade below 0; the score is -inf for a document that a run did not
    retrieve, and such documents are tied last.

    Args:
        runs: name -> query, document, number (its score); a document occurs once in a query.
        judged: query, document, number (its grade).
        suite: The name of the first column.

    Raises:
        DataError: No query of a run is judged.
    """
    frames = {"": judged, **runs}
    columns = {
        name: frame.set_index(["query", "document"])["number"] for name, frame in frames.items()
    }
    joined: Any = pd.concat(columns, axis=1).sort_index()
    has_any = joined.notna().groupby(level=0).any()
    is_kept = has_any[""] & has_any.iloc[:, 1:].any(axis=1)
    joined = joined[joined.index.isin(has_any.index[is_kept], level=0)]
    if joined.empty:
        raise DataError(
            f"no query of the runs is judged in {suite}, such as {judged['query'][0]}; give runs "
            "and judgements of one set"
        )
    left_out = "queries without judgements, or in no run, are left out"
    counts = {left_out: (~is_kept).sum()}
    for name, count in (~has_any[is_kept]).sum().items():
        counts[f"judged queries are not in {name}, which so has retrieved nothing"] = count
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    # Categories, since texts of millions of rows take memory and time.
    table = joined.index.to_frame(index=False, name=_ID).astype("category")
    table.insert(0, "suite", pd.Categorical([suite]).repeat(len(table)))
    table[["query", "target"]] = table[_ID]
    table["gold"] = joined[""].clip(0).fillna(0).to_numpy()
    queries = table["query_id"]
    tables = {}
    for name in runs:
        scores = joined[name].fillna(-np.inf).reset_index(drop=True)
        ranks = scores.groupby(queries, observed=True).rank(ascending=False)
        tables[name] = table.assign(score=scores, rank=ranks)
    return tables, notes


def write_trec(source: Any, folder: AnyPath) -> list[Path]:
    """Write SUITE.run and SUITE.qrels of each suite with rankings; return their paths.

    A white space in an id becomes %20. Grades are written as they are: ir-measures and trec_eval
    refuse those that are not whole, which a warning says; `read_runs` reads them. The tag is the
    name of the run, or "report".

    Args:
        source: A finished run, a report, or a ranking table.
        folder: Created if it is missing.

    Raises:
        DataError: There are no rankings.
    """
    table = extract_table(source, "rankings")
    if table.empty:
        raise DataError(f"{source!r:.80} has no rankings; a query is a sentence in 4 pairs or more")
    Path(folder).mkdir(parents=True, exist_ok=True)
    tag = getattr(source, "path", Path("report")).name
    written = []
    for suite, rows in table.groupby("suite", sort=False, observed=True):
        ids = rows[_ID].astype(str).replace(r"\s", "%20", regex=True)
        lines = rows.assign(**ids, Q0="Q0", iteration=0, tag=tag)
        if any(lines["gold"] % 1):
            _LOG.warning("%s: its grades are not whole, which ir-measures refuses to read", suite)
        else:
            lines["gold"] = lines["gold"].astype(int)
        ranked = lines.sort_values(["query_id", "score", "target_id"], ascending=False)
        ranked["rank"] = ranked.groupby("query_id").cumcount() + 1
        retrieved = ranked[ranked["score"] > -np.inf]
        forms = {
            "run": retrieved[["query_id", "Q0", "target_id", "rank", "score", "tag"]],
            "qrels": lines[["query_id", "iteration", "target_id", "gold"]],
        }
        for ending, content in forms.items():
            path = Path(folder, f"{suite}.{ending}")
            with atomic_write(path) as file:
                content.to_csv(file, sep=" ", header=False, index=False, quoting=QUOTE_NONE)
            written.append(path)
    return written


def _read_texts(path: AnyPath) -> dict[str, str]:
    """Return id -> title, if there is one, and text of a queries.jsonl or corpus.jsonl of BEIR."""
    table: Any = read_own(path)
    table.require({"id": "_id", "text": "text"})
    columns = pd.DataFrame({"title": "", **table.columns})
    texts = columns["title"] + " " + columns["text"]
    return dict(zip(columns["_id"], texts.str.strip(), strict=True))


def _stem(path: AnyPath) -> str:
    return Path(Path(path).name.removesuffix(".gz")).stem


def _read_fields(path: AnyPath, form: str) -> Any:
    """Return query, document, number and last word of each line."""
    lines = StringIO(read_text(Path(path)))
    try:
        cells: Any = pd.read_csv(
            lines,
            sep=r"\s+",
            names=range(8),
            dtype=str,
            quoting=QUOTE_NONE,
            keep_default_na=False,
            skip_blank_lines=False,  # so that a row has the number of its line
        )
    except ValueError as problem:
        raise DataError(f"{path}: {first_problem(problem)}; each line is {form}") from None
    cells = cells[~cells[0].isin(["", "query-id"])]  # the second is of BEIR's header
    width = int((cells.head(1) != "").sum(axis=None))
    if width not in _PLACES[form]:
        raise DataError(f"{path}: the first line has {width} fields; each line is {form}")
    table = cells[_PLACES[form][width]].set_axis(_FIELDS, axis=1)
    numbers: Any = pd.to_numeric(table["number"], errors="coerce")
    table["number"] = numbers.astype(float)
    is_wrong = ~np.isfinite(table["number"]) | (table["last"] == "") | (cells[width] != "")
    is_wrong |= table.duplicated(["query", "document"])
    for line in table.index[is_wrong] + 1:
        raise DataError(
            f"{path}, line {line}: not {form} with a finite number, or a document of its query for "
            "the second time; correct the line"
        )
    return table.astype({"query": "category", "document": "category"})
