"""Load a data set by its name in the catalogue, or a user's own file by its path.

A file becomes a table (_tables), its columns get roles (_roles), and the two become a set (_sets).
Bundled names are always bundled sets. WORKBENCH_DATA serves what it has (damaged: an error); the
hub serves the rest."""

import os
import re
import tarfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.data._catalogue import CATALOGUE, TRANSFER, DataSet, Kind, dataset_names, find_set
from workbench.data._roles import Columns, Scale, kinds_of_table
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
    Roles,
    Table,
    Texts,
    content_checksum,
    read_manifest,
    read_own,
    read_table,
    table_content,
    table_of,
)
from workbench.errors import DataError, require_known
from workbench.files import (
    OWN_FILES,
    AnyPath,
    as_list,
    file_checksum,
    path_text,
    project_path,
    set_name,
    text_checksum,
    user_path,
)
from workbench.printing import LOG

_log_once = lru_cache(LOG.info)


def load_data(
    name: AnyPath,
    kind: Kind | None = None,
    *,
    limit: int | None = None,
    seed: int = 0,
    columns: Columns = None,
    scale: Scale = None,
) -> Any:
    """Load a set of the catalogue, or your own file.

    A file is .txt, .csv, .tsv, .jsonl (these also as .gz) or .parquet.

    Args:
        kind: By default the fullest that the columns of a file allow.
        limit, seed: At most so many rows, drawn with the seed and kept in order.
        columns: Role -> column of your own file. By default guessed; `.source` reports the guess.
        scale: Range of the scores of your own file. By default guessed.

    Raises DataError if the set or file does not exist, is damaged, or cannot be read as this kind.
    """
    table = read_own(name)
    if table is not None:
        # Metrics are stored by this name, in which a file must not pass for a published set.
        stem = set_name(table.where)
        if stem in CATALOGUE:
            raise DataError(
                f"{table.where}: {stem} is the name of a data set of the catalogue; rename the file"
            )
        data = read_set(stem, kind, table, f"file {table.where}", columns=columns, scale=scale)
        _log_once(f"{data.kind} of {data.source}")
    elif scale is not None or columns:
        raise DataError(
            f"{name}: columns and scale follow from the catalogue; they can only be set for your "
            "own file"
        )
    else:
        entry = find_set(str(name), kind)
        table, source = _read_table_of(entry)
        table.require(entry.roles)
        if entry.rows not in (0, len(table)):  # perhaps a sample
            source += f" ({len(table)} rows; published: {entry.rows})"
        data = make_set(entry, table, source)
    return data if limit is None else sample(data, limit, seed)


def load_sentences(name: AnyPath, **options: Any) -> Sentences:
    """Load unlabelled sentences; options: limit, seed, columns, as of load_data."""
    return load_data(name, "sentences", **options)


def load_pairs(name: AnyPath, **options: Any) -> Pairs:
    """Load scored pairs; options: limit, seed, columns, scale, as of load_data.

    The text of STS12-16 and STS-B is what SentEval and so every paper here scores (Moses tokens,
    lower case)."""
    return load_data(name, "pairs", **options)


def load_task(name: str) -> TransferTask:
    """Load a transfer task of SentEval: mr, cr, subj, mpqa, sst2, trec or mrpc.

    Raises SettingError for another name.
    """
    require_known("transfer task", name, TRANSFER, "of SentEval")
    return TransferTask(name, {split: load_data(part) for split, part in TRANSFER[name].items()})


def load_training(config: Any) -> Sentences | Pairs | Triplets:
    """Load the set of `config.train`: at most `config.train_limit` rows or queries.

    They are the same for every seed.

    Example:
        config = SimCSEConfig.from_parameters("demo")
        sentences = load_training(config)
    """
    name = config.train
    needed = (run.encoder for run in config.runs_needed)
    used = [*config.checkpoints, *needed, config.dev, *config.suites]
    of_world = [part for part in used if part.startswith("world-")]
    if of_world and name.endswith(OWN_FILES):
        LOG.warning(
            "%s: of the bundled world, whose words are not those of %s; set encoder=, teachers= "
            "(RankEncoder: base=), dev= and suites= to yours",
            ", ".join(of_world),
            name,
        )
    if name in dataset_names("labelled"):
        raise DataError(f"train: {name} holds labelled sentences; no method trains on labels")
    columns = own_columns(name, config.columns)
    data = load_data(name, columns=columns)
    if data.kind not in config.train_kinds:  # but a file may be of several kinds
        for kind in kinds_of(name, columns):
            if kind in config.train_kinds:
                data = load_data(name, kind, columns=columns)
    limit = config.train_limit
    if limit is None:
        return data
    if isinstance(data, Pairs) and getattr(config, "trains_on_queries", False):
        return sample_queries(data, limit, seed=0)
    return sample(data, limit, seed=0)


def load_own_pairs(name: AnyPath, columns: Any) -> Pairs:
    """Load scored pairs; of your own file with those of the columns that it has.

    The role "id" is one of files of scores, and is left out."""
    chosen = dict(own_columns(name, columns) or {})
    chosen.pop("id", None)
    return load_pairs(name, columns=chosen)


def load_dev(config: Any) -> Pairs:
    """Load the scored pairs of `config.dev`.

    Several sets become the subsets of one, whose gold is scaled to 0 to 1.

    Example:
        dev = load_dev(SimCSEConfig(dev="world-dev+ladders-all"))
        print(dev.summary)
    """
    sets = [load_own_pairs(name, config.columns) for name in config.dev_sets]
    if len(sets) == 1:
        return sets[0]
    # The only grade of a set is its lowest; its subset then has no correlation.
    gold = [(each.gold - each.score_range[0]) / (np.ptp(each.score_range) or 1) for each in sets]
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
    """Load the suites of `config.suites`, or of one or several names, in order.

    They are scored pairs and transfer tasks.

    Example:
        suites = load_suites(["ladders-all"])
        print(suites["ladders-all"].summary)
    """
    suites = {}
    columns = getattr(config, "columns", {})
    for name in as_list(getattr(config, "suites", config)):
        suite = load_task(name) if path_text(name) in TRANSFER else load_own_pairs(name, columns)
        if suite.name in suites:
            raise DataError(f"suites: two sets are called {suite.name}; rename one of the files")
        suites[suite.name] = suite
    return suites


def default_suite() -> str:
    """Return the name of the pairs to show if none are named: of English, if they are here."""
    return "stsb-test" if checksum_here("stsb-test") else "ladders-all"


def own_columns(name: AnyPath, columns: Roles) -> Columns:
    """Return those of the settings' columns that your own file has; None for any other set.

    Example:
        load_sentences(config.corpus, columns=own_columns(config.corpus, config.columns))
    """
    table = read_own(name) if columns else None
    if table is None:
        return None
    return {role: column for role, column in columns.items() if column in table.columns}


def require_columns(config: Any) -> None:
    """Raise DataError for a column of the settings that none of their files has."""
    files = [name for names, _ in config.data_sets.values() for name in names]
    require_in_one(files, config.columns)


def require_in_one(files: Iterable[AnyPath], columns: Roles) -> None:
    """Raise DataError for a column that none of your own files has."""
    known = {}
    for table in map(read_own, files if columns else ()):
        known |= table.columns if table else {}
    Table(known, "your files", "").require(columns)


def kinds_of(name: AnyPath, columns: Columns = None) -> tuple[Kind, ...]:
    """Return what a set or transfer task holds, or all that your own file can be read as.

    The fullest kind comes first."""
    if name in TRANSFER:
        return ("labelled", "transfer tasks") if name in CATALOGUE else ("transfer tasks",)
    table = read_own(name)
    if table is None:
        return (find_set(str(name)).kind,)
    return kinds_of_table(table, columns)


def local_root(entry: DataSet) -> Path | None:
    """Return the data root of a set on this machine, None if only the hub can have it."""
    if entry.bundled:
        return project_path("data")
    folder = os.environ.get("WORKBENCH_DATA")
    if not folder:
        return None
    root = user_path(folder)
    if not root.is_dir():
        raise DataError(f"WORKBENCH_DATA={folder} is not a folder")
    return root if any((root / file).is_file() for file in entry.files) else None


def checksum_here(name: str) -> str | None:
    """Return the checksum of a set of the catalogue on this machine; None for any other name.

    No table is parsed, and an unchanged file is read once in each process.
    """
    entry = CATALOGUE.get(name)
    root = entry and local_root(entry)
    if not (entry and root):
        return None
    paths = [root / file for file in entry.files]
    if not all(map(Path.is_file, paths)):
        return None
    return _joint_checksum([content_checksum(path, file_checksum(path)) for path in paths])


def _joint_checksum(checksums: list[str]) -> str:
    return checksums[0] if len(checksums) == 1 else text_checksum(*checksums)


def _read_table_of(entry: DataSet) -> tuple[Table, str]:
    """Return the table of a set and its source.

    The files of a data root must agree with its manifest."""
    root = local_root(entry)
    if root is None:
        return _read_hub(entry)
    manifest = read_manifest(root)
    tables = []
    # A file that the manifest does not list is read as it is.
    for file in entry.files:
        table = read_table(root / file)
        if manifest.get(file, {}).get("sha256_uncompressed", table.checksum) != table.checksum:
            raise DataError(
                f"{root / file}: its content has not the sha256 that MANIFEST.json lists; restore "
                "it"
            )
        tables.append(table)
    source = f"{'bundled' if entry.bundled else 'local'} {root / entry.files[0]}"
    if len(tables) == 1:
        return tables[0], source
    columns = {
        name: [text for table in tables for text in table.columns[name]]
        for name in tables[0].columns
    }
    checksum = _joint_checksum([table.checksum for table in tables])
    return Table(columns, entry.name, checksum), f"{source} and {len(tables) - 1} more"


def _read_hub(entry: DataSet) -> tuple[Table, str]:
    """Return the table of a data set on the hub in our columns, and its source.

    HF_HOME and HF_ENDPOINT apply."""
    hub = entry.hub
    if not hub:
        raise DataError(
            f"{entry.name} is not local; set WORKBENCH_DATA to a folder with "
            f"{', '.join(entry.files)}"
        )
    # Not below: that it is missing is no fault of the hub.
    from datasets import load_dataset

    try:
        if entry.archive:
            columns = _read_archive(entry)
        else:
            rows = load_dataset(**hub)
            own = {ours: rows[theirs] for ours, theirs in entry.hub_columns.items()}
            columns = table_of(own, entry.name).columns
        if entry.hub_labels:
            columns["label"] = [entry.hub_labels.get(label, label) for label in columns["label"]]
    # The hub's clients raise a dozen unrelated types for "not there" and "no network".
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        raise DataError(
            f"{entry.name}: cannot read {hub['path']} at {hub['revision']} from the hub "
            f"({type(error).__name__}: {first_line}); without a network set WORKBENCH_DATA, or "
            "HF_HOME to a filled cache"
        ) from error
    place = "/".join(filter(None, [hub["path"], hub.get("data_files")]))
    checksum = text_checksum(table_content(columns))
    return Table(columns, f"hub {hub['path']}", checksum), f"hub {place} at {hub['revision']}"


def _read_archive(entry: DataSet) -> Texts:
    """Return the columns of a set in SentEval's archive: the text that SentEval scores.

    Nothing is unpacked to disk."""
    from huggingface_hub import hf_hub_download

    hub = entry.hub
    archive = hf_hub_download(
        hub["path"], hub["data_files"], repo_type="dataset", revision=hub["revision"]
    )
    with tarfile.open(archive) as tar:
        members = {"/".join(Path(member.name).parts[-2:]): member for member in tar}

        def lines(path):
            file: Any = tar.extractfile(members[path])
            content = file.read().replace(b"\r\n", b"\n").removesuffix(b"\n")
            try:
                text = content.decode("utf-8-sig")
            except UnicodeDecodeError:
                # TREC and some of the polarity files; SentEval reads them this way.
                text = content.decode("latin-1")
            return text.split("\n")

        rows = _archive_rows(entry, lines)
    # As in the files of a data root: sentences last.
    order = sorted(enumerate(entry.fields.split()), key=lambda item: item[1].startswith("sentence"))
    return {name: [" ".join(row[place].split()) for row in rows] for place, name in order}


def _archive_rows(entry: DataSet, lines: Callable[[str], list[str]]) -> list[list[str]]:
    """Return the fields of each row, in the order of `entry.fields`; `lines` reads a file."""
    files = entry.archive
    if "subset" in entry.roles:  # STS: the scores are in a file of their own
        rows = []
        for path in files:
            subset = path.split(".")[-2]
            scores = lines(path.replace("input", "gs"))
            for line, (score, pair) in enumerate(zip(scores, lines(path), strict=True)):
                # A blank score marks a pair that was never graded: STS15 and STS16 have many.
                if score.strip():
                    rows.append([subset, str(line), score, *pair.split("\t")])
        return rows
    if entry.name.startswith("trec"):  # LABEL:detail question
        return [re.split("[: ]", line, maxsplit=2) for line in lines(files[0])]
    if len(files) == 2:  # a file for each class
        positive, negative = map(lines, files)
        return [["1", line] for line in positive] + [["0", line] for line in negative]
    return [line.split("\t") for line in lines(files[0])[entry.header :]]
