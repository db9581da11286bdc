"""load_*: a set by its name in the catalogue, or a file of the user's own. Never a silent fallback.

A bundled name is only ever bundled. Otherwise WORKBENCH_DATA serves the set when it holds its files, intact or not
(a damaged file is an error), and the hub serves what the local root does not hold.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.config import BUNDLED_MODELS
from workbench.data import _sets as sets
from workbench.data._catalogue import CATALOGUE, DataSet, Kind, find
from workbench.data._columns import Said, kinds_of_columns, not_found, understood
from workbench.data._format import MANIFEST, Table, read_manifest, read_table
from workbench.data._hub import LOCAL_ROOT, check_revisions, read_hub, rows_note
from workbench.data._own import columns_of, own_file, read_own
from workbench.data._sets import LabelledSentences, Pairs, Sentences, Triples
from workbench.data._tasks import TRANSFER, TransferTask
from workbench.errors import DataError, unknown_name
from workbench.files import project_path, set_name, text_checksum

Revisions = Mapping[str, str]
SAMPLE_SEED = 0  # of train_limit: a run's own seed must not change what it is trained on
Scale = tuple[float, float] | None
_LOG = logging.getLogger("workbench")


def load_sentences(
    name: str | Path,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Said = None,
    revisions: Revisions | None = None,
) -> Sentences:
    """Unlabelled sentences: a set of the catalogue, a .txt file (one a line) or a table with a column sentence.

    name: of the catalogue, or a path to .txt, .csv, .tsv, .jsonl (these also as .gz) or .parquet.  limit: at most so
    many, drawn with `seed` and kept in order; None: all. Of a text file no more than these are held in memory.
    columns: role -> column of a file of your own, instead of the guess by names; `.source` says what was guessed.
    revisions: hub id -> git revision, instead of the catalogue's.  Raises DataError.
    """
    return sets.as_sentences(*_read(name, "sentences", revisions, limit=limit, seed=seed, columns=columns))


def load_triples(
    name: str | Path,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Said = None,
    revisions: Revisions | None = None,
) -> Triples:
    """Anchors with a positive and a hard negative: of the catalogue, or a table with anchor, positive, negative.

    Arguments as of load_sentences.
    """
    return sets.as_triples(*_read(name, "triples", revisions, limit=limit, seed=seed, columns=columns))


def load_pairs(
    name: str | Path,
    *,
    scale: Scale = None,
    limit: int | None = None,
    seed: int = 0,
    columns: Said = None,
    revisions: Revisions | None = None,
) -> Pairs:
    """Scored pairs: a set of the catalogue, or a table with sentence1, sentence2 and score (or label).

    scale: of a file of your own; None: a guess from its gold. The other arguments as of load_sentences; the text of
    STS12-16 and STS-B is what SentEval and so every paper here scores (Moses tokens, lower case).
    """
    sets.draw(1, limit, seed)  # refuses what is no limit or seed before anything is read
    pairs = sets.as_pairs(*_read(name, "pairs", revisions, columns=columns, scale=scale))
    return sets.some_pairs(pairs, limit, seed)


def load_labelled(name: str | Path, *, columns: Said = None, revisions: Revisions | None = None) -> LabelledSentences:
    """Sentences with a class each: mr, cr, subj, mpqa, sst2-<split>, trec-<split>, or a table with sentence and label.

    MRPC is pairs. Arguments as of load_sentences.
    """
    return sets.as_labelled(*_read(name, "labelled", revisions, columns=columns))


def load_task(name: str, *, revisions: Revisions | None = None) -> TransferTask:
    """A transfer task of SentEval, whole: mr, cr, subj, mpqa, sst2, trec, mrpc. Raises DataError."""
    if name not in TRANSFER:
        raise DataError(unknown_name("transfer task", name, TRANSFER, "here"))
    parts = TRANSFER[name].items()
    return TransferTask(name, {part: LOADERS[find(s).kind](s, revisions=revisions) for part, s in parts})


LOADERS = {"sentences": load_sentences, "pairs": load_pairs, "triples": load_triples, "labelled": load_labelled}


def load_own(path: str | Path, *, columns: Said = None, scale: Scale = None) -> sets.AnySet:
    """A file of the user's own as the fullest kind that its columns allow; arguments as of load_pairs."""
    kind = kinds_of(path, columns)[0]
    return LOADERS[kind](path, columns=columns, **({"scale": scale} if kind == "pairs" else {}))


def load_training(config: Any) -> Sentences | Pairs | Triples:
    """The set that `config.train` names, at most `config.train_limit` rows of it.

    The sample is drawn with a fixed seed, not the run's: runs of several seeds train on the same rows.
    """
    load = LOADERS[kind_of(config.train, "sentences", "triples", "pairs")]
    known = BUNDLED_MODELS.get(getattr(config, "encoder", ""))
    if known and own_file(config.train):
        _LOG.warning(
            "%s is read by %s, which knows the words of the bundled %s alone: name another encoder for real language, "
            "such as encoder=english-encoder",
            config.train,
            config.encoder,
            known,
        )
    limit = getattr(config, "train_limit", None)
    return load(config.train, limit=limit, seed=SAMPLE_SEED, revisions=data_revisions(config))


def load_dev(config: Any) -> Pairs:
    """The scored pairs that `config.dev` names."""
    return load_pairs(config.dev, revisions=data_revisions(config))


def load_suites(config: Any) -> dict[str, Pairs | TransferTask]:
    """What `config.suites`, or a list, names, in its order: scored pairs and transfer tasks.

    All are read, and so checked, before anything is trained.
    """
    names, revisions = (config, {}) if isinstance(config, (list, tuple)) else (config.suites, data_revisions(config))
    suites: dict[str, Pairs | TransferTask] = {}
    for name in names:
        suite = (load_task if name in TRANSFER else load_pairs)(name, revisions=revisions)
        if suite.name in suites:
            raise DataError(f"suites: two sets are called {suite.name}; name each once")
        suites[suite.name] = suite
    return suites


def data_revisions(config: Any) -> dict[str, str]:
    """The revisions that are of data sets; the encoder's and the teachers' are theirs. DataError for one of neither."""
    models = {getattr(config, "encoder", ""), getattr(config, "base", ""), *getattr(config, "teachers", [])}
    revisions = {
        name: value for name, value in (getattr(config, "revisions", None) or {}).items() if name not in models
    }
    check_revisions(revisions)
    return revisions


def kinds_of(name: str | Path, columns: Said = None) -> tuple[Kind, ...]:
    """What a set of the catalogue or a transfer task holds, or all that a file of the user's own can be read as.

    The fullest kind stands first.
    """
    if name in TRANSFER:
        return ("labelled", "transfer tasks") if name in CATALOGUE else ("transfer tasks",)
    path = own_file(name)
    if path is None:
        return (find(str(name)).kind,)
    names = columns_of(path)
    kinds = kinds_of_columns(names, columns)
    if not kinds:
        raise DataError(not_found(str(path), names))
    return kinds


def kind_of(name: str | Path, *kinds: str) -> Kind:
    """The kind of a set: of a file that can be read as several, the first that is one of `kinds`. DataError."""
    for kind in kinds_of(name):
        if kind in kinds or not kinds:
            return kind
    return find(str(name), *kinds).kind


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
    name: str | Path,
    kind: Kind,
    revisions: Revisions | None,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Said = None,
    scale: Scale = None,
) -> tuple[DataSet, Table, str]:
    """The entry, the table of at most `limit` rows and, in words, the source of a set or of a file of one's own."""
    sets.draw(1, limit, seed)  # refuses what is no limit or seed before anything is read
    check_revisions(revisions or {})
    path = own_file(name)
    if path is not None:
        return _sampled(*_read_own(path, kind, limit, seed, columns=columns, scale=scale), limit, seed)
    if scale is not None or columns:
        raise DataError(f"{name}: the catalogue knows its columns and scale; give them only with a file of your own")
    return _sampled(*_read_set(find(str(name), kind), revisions, limit, seed), limit, seed)


def _sampled(entry: DataSet, table: Table, source: str, limit: int | None, seed: int) -> tuple[DataSet, Table, str]:
    """Table and source with a checksum of their own where a part of the rows was drawn."""
    if len(table) == table.total:
        return entry, table, source
    source, checksum = sets.sampled(source, table.checksum, table.total, limit or 0, seed)
    return entry, replace(table, checksum=checksum), source


def _read_set(entry: DataSet, revisions: Revisions | None, limit: int | None, seed: int) -> tuple[DataSet, Table, str]:
    found = located(entry)
    if found is not None:
        where, root = found
        table = _read_files([root / file for file in entry.files], limit, seed, root)
        first, *more = entry.files
        source = f"{where} {root / first}{f' and {len(more)} more' if more else ''}" + rows_note(entry, table.total)
        return entry, table, source
    table, source = read_hub(entry, revisions)
    rows = sets.draw(table.total, limit, seed)
    if rows is not None:
        table = replace(table, columns={name: [column[i] for i in rows] for name, column in table.columns.items()})
    return entry, table, source


def _read_own(
    path: Path, kind: Kind, limit: int | None, seed: int, *, columns: Said, scale: Scale
) -> tuple[DataSet, Table, str]:
    """A file of the user's own as `kind`, with what was guessed in its source; a guess is told once a process."""
    stem = set_name(path)
    if stem in CATALOGUE:
        raise DataError(
            f"{path}: {stem} is the name of a set of the catalogue, and scores would be taken for its; rename it"
        )
    table = read_own(path, rows=None if limit is None else range(limit))  # all, where there are no more
    if len(table) < table.total:
        table = read_own(path, rows=sets.draw(table.total, limit, seed))
    entry, table, guess = understood(stem, kind, table, columns, scale)
    if guess:
        _tell(f"{path}: {kind}; {guess}")
    return entry, table, f"file {path}" + (f"; {guess}" if guess else "")


@lru_cache
def _tell(guess: str) -> None:
    _LOG.info(guess)


def _read_files(paths: Sequence[Path], limit: int | None, seed: int, root: Path) -> Table:
    """The rows of files of a data root, whose manifest must agree with them.

    Where a limit is given, the rows are counted first, or taken from the manifest, and only those drawn are kept.
    """
    said = read_manifest(root)
    listed = [said.get(path.relative_to(root).as_posix(), {}) for path in paths]
    shares: Sequence[Any] = [None] * len(paths)
    if limit is not None:
        totals = [
            entry.get("rows") or read_table(path, rows=()).total for path, entry in zip(paths, listed, strict=True)
        ]
        rows = sets.draw(sum(totals), limit, seed)
        if rows is not None:
            starts = [0, *np.cumsum(totals).tolist()]
            cuts = np.searchsorted(rows, starts).tolist()
            shares = [np.array(rows[cuts[i] : cuts[i + 1]]) - starts[i] for i in range(len(paths))]
    tables = [read_table(path, rows=share) for path, share in zip(paths, shares, strict=True)]
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
