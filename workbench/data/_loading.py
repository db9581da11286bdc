"""load_*: a set by its name in the catalogue, or a file of the user's own. Never a silent fallback.

A bundled name is only ever bundled. Otherwise WORKBENCH_DATA serves the set when it holds its files, intact or not
(a damaged file is an error), and the hub serves what the local root does not hold.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workbench.data import _sets as sets
from workbench.data._catalogue import CATALOGUE, DataSet, Kind, find
from workbench.data._format import MANIFEST, Table, check_regular, read_header, read_manifest, read_table
from workbench.data._hub import LOCAL_ROOT, check_revisions, read_hub, rows_note
from workbench.data._sets import LabelledSentences, Pairs, Sentences, Triples
from workbench.errors import DataError
from workbench.files import project_path, text_checksum

Revisions = Mapping[str, str]
SAMPLE_SEED = 0  # of train_limit: a run's own seed must not change what it is trained on
TABLES = (".tsv", ".tsv.gz")
LINES = (".txt", ".txt.gz")
# What the columns of a file of the user's own are called.
ROLES: Mapping[str, Mapping[str, str]] = {
    "sentences": {"sentence": "sentence"},
    "triples": {"anchor": "sent0", "positive": "sent1", "hard_negative": "hard_neg"},
    "pairs": {"sentence1": "sentence1", "sentence2": "sentence2"},
}
GOLD_COLUMNS = ("score", "label", "gold")


def load_sentences(
    name: str | Path, *, limit: int | None = None, seed: int = 0, revisions: Revisions | None = None
) -> Sentences:
    """Unlabelled sentences: a set of the catalogue, a .txt file (one a line) or a .tsv file with a column sentence.

    name: of the catalogue, or a path.  limit: at most so many, drawn with `seed` and kept in order; None: all. Of a
    file no more than these are held in memory.
    revisions: hub id -> git revision, instead of the catalogue's.  Raises DataError.
    """
    return sets.as_sentences(*_read(name, "sentences", revisions, limit, seed))


def load_triples(
    name: str | Path, *, limit: int | None = None, seed: int = 0, revisions: Revisions | None = None
) -> Triples:
    """Anchors with a positive and a hard negative: of the catalogue, or a .tsv file with sent0, sent1, hard_neg.

    Arguments as of load_sentences.
    """
    return sets.as_triples(*_read(name, "triples", revisions, limit, seed))


def load_pairs(
    name: str | Path,
    *,
    scale: tuple[float, float] | None = None,
    limit: int | None = None,
    seed: int = 0,
    revisions: Revisions | None = None,
) -> Pairs:
    """Scored pairs: a set of the catalogue, or a .tsv file with columns sentence1, sentence2 and score (or label).

    scale: of a file of your own; None: the range of its gold. The other arguments as of load_sentences; the text of
    STS12-16 and STS-B is what SentEval and so every paper here scores (Moses tokens, lower case).
    """
    own = own_file(name) is not None
    if scale is not None and not own:
        raise DataError(f"{name}: the catalogue knows its scale; give scale only with a file of your own")
    sets.draw(1, limit, seed)  # refuses what is no limit or seed before anything is read
    entry, table, source = _read(name, "pairs", revisions)
    pairs = sets.as_pairs(replace(entry, scale=scale) if own else entry, table, source)
    if own and scale is None:
        pairs = replace(pairs, source=f"{source}; scale {pairs.scale} is the range of its own gold")
    return sets.some_pairs(pairs, limit, seed)


def load_labelled(name: str, *, revisions: Revisions | None = None) -> LabelledSentences:
    """A single-sentence transfer task: mr, cr, subj, mpqa, sst2-<split>, trec-<split>. MRPC is pairs."""
    return sets.as_labelled(*_read(name, "labelled", revisions))


LOADERS = {"sentences": load_sentences, "pairs": load_pairs, "triples": load_triples, "labelled": load_labelled}


def load_training(config: Any) -> Sentences | Pairs | Triples:
    """The set that `config.train` names, at most `config.train_limit` rows of it.

    The sample is drawn with a fixed seed, not the run's: runs of several seeds train on the same rows.
    """
    load = LOADERS[kind_of(config.train, *ROLES)]
    limit = getattr(config, "train_limit", None)
    return load(config.train, limit=limit, seed=SAMPLE_SEED, revisions=data_revisions(config))


def load_dev(config: Any) -> Pairs:
    """The scored pairs that `config.dev` names."""
    return load_pairs(config.dev, revisions=data_revisions(config))


def load_suites(config: Any) -> dict[str, Pairs]:
    """The sets of `config.suites` by name, in their order; all are read, and so checked, before anything is trained."""
    revisions = data_revisions(config)
    suites: dict[str, Pairs] = {}
    for name in config.suites:
        pairs = load_pairs(name, revisions=revisions)
        if pairs.name in suites:
            raise DataError(f"suites: two sets are called {pairs.name}; name each once")
        suites[pairs.name] = pairs
    return suites


def data_revisions(config: Any) -> dict[str, str]:
    """The revisions that are of data sets; the encoder's and the teachers' are theirs. DataError for one of neither."""
    models = {getattr(config, "encoder", ""), getattr(config, "base", ""), *getattr(config, "teachers", [])}
    revisions = {
        name: value for name, value in (getattr(config, "revisions", None) or {}).items() if name not in models
    }
    check_revisions(revisions)
    return revisions


def own_file(name: str | Path) -> Path | None:
    """The path when `name` is a file of the user's own rather than a name of the catalogue; DataError."""
    text = str(name)
    if text.endswith((*TABLES, *LINES)):
        path = Path(text).expanduser()
        check_regular(path)
        return path
    if isinstance(name, Path) or "/" in text or text.endswith((".csv", ".json", ".jsonl", ".parquet")):
        raise DataError(
            f"{text}: a file of your own is a .tsv or .tsv.gz with a header, or a .txt with one sentence a line; "
            "convert it (data/README.md has the format)"
        )
    return None


def kind_of(name: str, *kinds: str) -> Kind:
    """What a set of the catalogue (one of `kinds` where given) or a file of the user's own holds; DataError."""
    path = own_file(name)
    if path is None:
        return find(name, *kinds).kind
    if path.name.endswith(LINES):
        return "sentences"
    header = read_header(path)
    return "pairs" if "sentence1" in header else "triples" if "sent0" in header else "sentences"


def local_root() -> Path | None:
    """The folder that WORKBENCH_DATA names, None when it is not set; DataError when it is no folder."""
    named = os.environ.get(LOCAL_ROOT)
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        raise DataError(f"{LOCAL_ROOT}={named}: no such folder; set it to a local data root, or unset it")
    return root


def located(entry: DataSet) -> tuple[str, Path] | None:
    """("bundled" or "local", root) of a set on this machine; None when only the hub can have it."""
    root = project_path("data") if entry.bundled else local_root()
    if root is None:
        return None
    present = [file for file in entry.files if (root / file).is_file()]
    if not present and not entry.bundled:
        return None
    if len(present) < len(entry.files):
        missing = ", ".join(file for file in entry.files if file not in present)
        raise DataError(f"{entry.name}: {missing} is missing in {root}; restore it from where the folder came from")
    return ("bundled" if entry.bundled else "local"), root


def _read(
    name: str | Path, kind: Kind, revisions: Revisions | None, limit: int | None = None, seed: int = 0
) -> tuple[DataSet, Table, str]:
    """The entry, the table of at most `limit` rows and, in words, the source of a set or of a file of one's own."""
    sets.draw(1, limit, seed)  # refuses what is no limit or seed before anything is read
    check_revisions(revisions or {})
    path = own_file(name)
    entry = find(str(name), kind) if path is None else _own_entry(path, kind)
    found = None if path else located(entry)
    if path is not None:
        table, source = _read_files([path], limit, seed), f"file {path}"
    elif found is not None:
        where, root = found
        table = _read_files([root / file for file in entry.files], limit, seed, root)
        first, *more = entry.files
        source = f"{where} {root / first}{f' and {len(more)} more' if more else ''}" + rows_note(entry, table.total)
    else:
        table, source = read_hub(entry, revisions)
        rows = sets.draw(table.total, limit, seed)
        if rows is not None:
            table = replace(table, columns={name: [column[i] for i in rows] for name, column in table.columns.items()})
    if len(table) < table.total:
        source, checksum = sets.sampled(source, table.checksum, table.total, limit, seed)
        table = replace(table, checksum=checksum)
    return entry, table, source


def _own_entry(path: Path, kind: Kind) -> DataSet:
    if kind != "sentences" and path.name.endswith(LINES):
        raise DataError(f"{path}: a .txt holds sentences, one a line; {kind} need a .tsv with a header")
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    if stem in CATALOGUE:
        raise DataError(
            f"{path}: {stem} is the name of a set of the catalogue, and scores would be taken for its; rename it"
        )
    roles = ROLES[kind]
    if kind == "pairs":
        header = read_header(path)
        roles = {**roles, "gold": next((name for name in GOLD_COLUMNS if name in header), GOLD_COLUMNS[0])}
    return DataSet(stem, kind, "your own", (str(path),), "your own", roles)


def _read_files(paths: Sequence[Path], limit: int | None, seed: int, root: Path | None = None) -> Table:
    """The rows of the user's own files, or of those of a data root, whose manifest must agree with them.

    Where a limit is given, the rows are counted first, or taken from the manifest, and only those drawn are kept.
    """
    said = read_manifest(root) if root else {}
    listed = [said.get(path.relative_to(root).as_posix(), {}) if root else {} for path in paths]
    shares: Sequence[Any] = [None] * len(paths)
    if limit is not None:
        totals = [
            entry.get("rows") or read_table(path, rows=(), crlf=not root).total
            for path, entry in zip(paths, listed, strict=True)
        ]
        rows = sets.draw(sum(totals), limit, seed)
        if rows is not None:
            starts = [0, *np.cumsum(totals).tolist()]
            cuts = np.searchsorted(rows, starts).tolist()
            shares = [np.array(rows[cuts[i] : cuts[i + 1]]) - starts[i] for i in range(len(paths))]
    tables = [read_table(path, rows=share, crlf=not root) for path, share in zip(paths, shares, strict=True)]
    for table, entry in zip(tables, listed, strict=True):
        _check_manifest(table, entry)
    return tables[0] if len(tables) == 1 else _joined(tables)


def _check_manifest(table: Table, entry: Mapping[str, Any]) -> None:
    for what, value, listed in (
        ("sha256 of its content", table.checksum, entry.get("sha256_uncompressed") or table.checksum),
        ("number of its rows", table.total, entry.get("rows") or table.total),
    ):
        if value != listed:
            raise DataError(
                f"{table.where}: the {what} is {value}, but the {MANIFEST} of the data root says {listed}: the file "
                "was changed or cut; restore it, or correct the manifest"
            )


def _joined(tables: list[Table]) -> Table:
    columns = {name: [v for table in tables for v in table.column(name)] for name in tables[0].columns}
    checksum = text_checksum(*(table.checksum for table in tables))
    return Table(columns, " + ".join(table.where for table in tables), checksum, sum(table.total for table in tables))
