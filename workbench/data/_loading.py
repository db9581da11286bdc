"""Load a data set by its name in the catalogue, or a user's own file by its path.

Bundled names are always bundled sets. WORKBENCH_DATA serves what it has (damaged: an error); the
hub serves the rest."""

import logging
import os
import re
import tarfile
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from workbench.config import BUNDLED_MODELS
from workbench.data._catalogue import (
    CATALOGUE,
    TRANSFER,
    Columns,
    DataSet,
    Kind,
    Scale,
    find_set,
    kinds_of_table,
)
from workbench.data._sets import (
    Pairs,
    Sentences,
    TransferTask,
    Triplets,
    make_set,
    read_set,
    sample,
    sample_queries,
)
from workbench.data._tables import (
    Table,
    Texts,
    content_checksum,
    own_file,
    read_manifest,
    read_own,
    read_table,
    table_content,
    table_of,
)
from workbench.errors import DataError
from workbench.files import file_checksum, project_path, set_name, text_checksum

_LOG = logging.getLogger("workbench")


def load_data(
    name: str | Path,
    kind: Kind | None = None,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Columns = None,
    scale: Scale = None,
) -> Any:
    """Load a set of the catalogue, or your own file: .txt, .csv, .tsv, .jsonl (these also as .gz)
    or .parquet.

    Args:
        kind: By default the fullest that the columns of a file allow.
        limit, seed: At most so many rows, drawn with the seed and kept in order.
        columns: Role -> column of your own file. By default guessed; `.source` reports the guess.
        scale: Range of the scores of your own file. By default guessed.

    Raises DataError if the set or file does not exist, is damaged, or cannot be read as this kind.
    """
    path = own_file(name)
    if path:
        stem = set_name(path)
        if stem in CATALOGUE:
            raise DataError(
                f"{path}: {stem} is the name of a data set of the catalogue; rename the file"
            )
        table = read_own(path, file_checksum(path))
        kind = kind or kinds_of_table(table, columns)[0]
        data = read_set(stem, kind, table, f"file {path}", columns=columns, scale=scale)
        _log_once(f"{kind} of {data.source}")
    elif scale is not None or columns:
        raise DataError(
            f"{name}: columns and scale follow from the catalogue; they can only be set "
            "for your own file"
        )
    else:
        entry = find_set(str(name), kind)
        table, source = _read_set(entry)
        if entry.rows not in (0, len(table)):  # perhaps a sample
            source += f" ({len(table)} rows; published: {entry.rows})"
        data = make_set(entry, table, source)
    return sample(data, limit, seed)


def load_sentences(name: str | Path, **options: Any) -> Sentences:
    """Load unlabelled sentences; options: limit, seed, columns, as of load_data."""
    return load_data(name, "sentences", **options)


def load_pairs(name: str | Path, **options: Any) -> Pairs:
    """Load scored pairs; options: limit, seed, columns, scale, as of load_data.

    The text of STS12-16 and STS-B is what SentEval and so every paper here scores (Moses tokens,
    lower case)."""
    return load_data(name, "pairs", **options)


def load_task(name: str) -> TransferTask:
    """Load a transfer task of SentEval: mr, cr, subj, mpqa, sst2, trec or mrpc."""
    return TransferTask(name, {split: load_data(part) for split, part in TRANSFER[name].items()})


def load_training(config: Any) -> Sentences | Pairs | Triplets:
    """Load the set of `config.train`, at most `config.train_limit` rows or queries, the same for
    every seed."""
    name = config.train
    words = BUNDLED_MODELS.get(config.encoder)
    if words and own_file(name):
        text = (
            "%s only knows the words of the bundled %s; use another encoder for %s, such as "
            "encoder=english-encoder"
        )
        _LOG.warning(text, config.encoder, words, name)
    kind = kinds_of(name)[0]
    if kind in ("labelled", "transfer tasks"):  # no method trains on them: refused as no sentences
        kind = "sentences"
    if kind == "pairs" and getattr(config, "trains_on_queries", False):
        return sample_queries(load_data(name, kind), config.train_limit, seed=0)
    return load_data(name, kind, limit=config.train_limit)


def load_dev(config: Any) -> Pairs:
    """Load the scored pairs of `config.dev`; of several sets, their subsets, whose gold is scaled
    to 0 to 1."""
    sets = [load_pairs(name) for name in config.dev_sets]
    if len(sets) == 1:
        return sets[0]
    gold = [(each.gold - each.score_range[0]) / np.ptp(each.score_range) for each in sets]
    return Pairs(
        config.dev,
        [text for each in sets for text in each.sentence1],
        [text for each in sets for text in each.sentence2],
        np.concatenate(gold),
        subset=[each.name for each in sets for _ in each.gold],
        pair_id=[f"{each.name} {row}" for each in sets for row in each.pair_id],
        score_range=(0.0, 1.0),
        source="; ".join(each.source for each in sets),
        checksum=text_checksum(" ".join(each.checksum for each in sets)),
        how="mean",
    )


def load_suites(config: Any) -> dict[str, Pairs | TransferTask]:
    """Load the suites of `config.suites`, or of a list of names, in order: scored pairs and
    transfer tasks."""
    suites: dict[str, Pairs | TransferTask] = {}
    for name in getattr(config, "suites", config):
        suite = load_task(name) if name in TRANSFER else load_pairs(name)
        if suite.name in suites:
            raise DataError(f"suites: two sets are called {suite.name}; rename one of the files")
        suites[suite.name] = suite
    return suites


def kinds_of(name: str | Path, columns: Columns = None) -> tuple[Kind, ...]:
    """Return what a set or transfer task holds, or all that your own file can be read as, the
    fullest first."""
    if name in TRANSFER:
        return ("labelled", "transfer tasks") if name in CATALOGUE else ("transfer tasks",)
    path = own_file(name)
    return (
        kinds_of_table(read_own(path, file_checksum(path)), columns)
        if path
        else (find_set(str(name)).kind,)
    )


def local_root(entry: DataSet) -> Path | None:
    """Return the data root of a set on this machine, None if only the hub can have it."""
    if entry.bundled:
        return project_path("data")
    if not (named := os.environ.get("WORKBENCH_DATA", "")):
        return None
    if not (root := Path(named).expanduser()).is_dir():
        raise DataError(f"WORKBENCH_DATA={named} is not a folder")
    return root if any((root / file).is_file() for file in entry.files) else None


def checksum_here(name: str) -> str | None:
    """Return the checksum of a set of the catalogue on this machine; None for any other name.

    No table is parsed, and an unchanged file is read once in each process.
    """
    entry = CATALOGUE.get(name)
    root = entry and local_root(entry)
    paths = [root / file for file in entry.files] if entry and root else []
    if not paths or not all(path.is_file() for path in paths):
        return None
    sums = [content_checksum(path, file_checksum(path)) for path in paths]
    return sums[0] if len(sums) == 1 else text_checksum(*sums)


def _read_set(entry: DataSet) -> tuple[Table, str]:
    """Return the table of a set and its source; files of a data root must agree with its
    manifest."""
    if (root := local_root(entry)) is None:
        return _read_hub(entry)
    where = f"{'bundled' if entry.bundled else 'local'} {root / entry.files[0]}"
    listed, tables = read_manifest(root), [read_table(root / file) for file in entry.files]
    for file, table in zip(entry.files, tables, strict=True):
        if listed.get(file, {}).get("sha256_uncompressed", table.checksum) != table.checksum:
            raise DataError(
                f"{root / file}: its content has not the sha256 that MANIFEST.json "
                "lists; restore it"
            )
    if len(tables) == 1:
        return tables[0], where
    columns = {
        name: list(chain.from_iterable(t.columns[name] for t in tables))
        for name in tables[0].columns
    }
    checksum = text_checksum(*(table.checksum for table in tables))
    return Table(columns, entry.name, checksum), f"{where} and {len(tables) - 1} more"


def _read_hub(entry: DataSet) -> tuple[Table, str]:
    """Return the table of a data set on the hub in our columns, and its source. HF_HOME and
    HF_ENDPOINT apply."""
    if not (hub := entry.hub):
        raise DataError(
            f"{entry.name} is not local; set WORKBENCH_DATA to a folder with "
            f"{', '.join(entry.files)}"
        )
    try:
        if entry.archive:
            columns = _read_archive(entry)
        else:
            from datasets import load_dataset

            loaded = load_dataset(**hub)
            columns = table_of(
                {ours: loaded[theirs] for ours, theirs in entry.hub_columns.items()}, entry.name
            ).columns
        if entry.hub_labels:
            columns["label"] = [entry.hub_labels.get(label, label) for label in columns["label"]]
    except (
        Exception
    ) as error:  # the hub's clients raise a dozen unrelated types for "not there" and "no network"
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        what = (
            f"{entry.name}: cannot read {hub['path']} at {hub['revision']} from the hub ({problem})"
        )
        raise DataError(
            f"{what}; without a network set WORKBENCH_DATA, or HF_HOME to a filled cache"
        ) from error
    source = (
        f"hub {'/'.join(filter(None, [hub['path'], hub.get('data_files')]))} at {hub['revision']}"
    )
    return Table(columns, f"hub {hub['path']}", text_checksum(table_content(columns))), source


def _read_archive(entry: DataSet) -> Texts:
    """Return the columns of a set in SentEval's archive: the text that SentEval scores. Nothing is
    unpacked to disk."""
    from huggingface_hub import hf_hub_download

    hub, files = entry.hub, entry.archive
    archive = hf_hub_download(
        hub["path"], hub["data_files"], repo_type="dataset", revision=hub["revision"]
    )
    with tarfile.open(archive) as tar:
        members = {"/".join(Path(member.name).parts[-2:]): member for member in tar}

        def lines(path: str) -> list[str]:
            file: Any = tar.extractfile(members[path])
            content = file.read().replace(b"\r\n", b"\n").removesuffix(b"\n")
            try:
                return content.decode("utf-8-sig").split("\n")
            except (
                UnicodeDecodeError
            ):  # TREC and some of the polarity files; SentEval reads them this way
                return content.decode("latin-1").split("\n")

        if "subset" in entry.roles:
            rows = []
            for path in files:
                for line, (score, pair) in enumerate(
                    zip(lines(path.replace("input", "gs")), lines(path), strict=True)
                ):
                    # A blank one marks a pair that was never graded: STS15 and STS16 have many.
                    if score.strip():
                        rows.append([path.split(".")[-2], str(line), score, *pair.split("\t")])
        elif entry.name.startswith("trec"):
            rows = [re.split("[: ]", line, maxsplit=2) for line in lines(files[0])]
        elif len(files) == 2:  # of label 1, and of label 0
            rows = [
                [label, line]
                for label, path in zip("10", files, strict=True)
                for line in lines(path)
            ]
        else:
            rows = [line.split("\t") for line in lines(files[0])[entry.header :]]
    # Sentences last.
    order = sorted(enumerate(entry.fields.split()), key=lambda item: item[1].startswith("sentence"))
    return {name: [" ".join(row[place].split()) for row in rows] for place, name in order}


_log_once = lru_cache(_LOG.info)
