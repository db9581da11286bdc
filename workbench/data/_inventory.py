"""What there is: describe a set, check those on this machine, fetch one from the hub into a local data root."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from workbench.data._catalogue import CATALOGUE, DataSet, find
from workbench.data._columns import Said
from workbench.data._format import describe_file, read_manifest, write_manifest, write_table
from workbench.data._hub import read_hub, rows_note
from workbench.data._loading import LOADERS, Scale, kinds_of, load_own, local_root, located
from workbench.data._own import own_file
from workbench.data._sets import AnySet, Pairs
from workbench.data._tasks import sets_of
from workbench.errors import DataError

CHECK_COLUMNS = ["name", "kind", "found", "file", "rows", "sha256", "problem"]


def describe(name: str) -> dict[str, str]:
    """What the catalogue says of a set, as text: kind, title, rows, scale, columns, files, hub, licence, note."""
    entry = find(name)
    hub = entry.hub
    return {
        "name": entry.name,
        "kind": entry.kind,
        "title": entry.title,
        "rows": str(_published_rows(entry) or ""),
        "scale": "{:g} to {:g}".format(*entry.scale) if entry.scale else "",
        "columns": ", ".join(entry.roles.values()),
        "source": "bundled" if entry.bundled else "local or hub" if hub else "local",
        "files": ", ".join(entry.files),
        "hub": f"{hub.repo} at {hub.revision}" if hub else "",
        "licence": entry.licence,
        "note": entry.note,
    }


def check(names: Iterable[str] | None = None) -> pd.DataFrame:
    """One row a set: where it is, its rows, whether its sha256 is the manifest's, and what is wrong with it.

    names: of the catalogue, or paths of files of the user's own; None: the whole catalogue. A transfer task stands
    for its sets.
    found: "bundled", "local", "own file", "hub" (not on this machine; nothing is downloaded) or "missing".
    rows: those that were read; of a set that is not here those that `describe` gives.
    sha256: "ok", "differs", or "" where no manifest lists the file.  problem: "" when it loads.
    """
    return check_and_keep(names)[0]


def check_and_keep(
    names: Iterable[str] | None = None, *, columns: Said = None, scale: Scale = None
) -> tuple[pd.DataFrame, dict[str, AnySet]]:
    """What `check` gives, and path -> set of the files of the user's own that load, each read once for both.

    columns, scale: of the files, instead of a guess.
    """
    own: dict[str, AnySet] = {}
    every = [part for name in (CATALOGUE if names is None else names) for part in sets_of(name)]
    rows = [_checked(name, columns, scale, own) for name in every]
    return pd.DataFrame(rows, columns=CHECK_COLUMNS).astype({"rows": "Int64"}), own


def unusable(table: pd.DataFrame) -> dict[str, str]:
    """name -> problem of the sets in a table of `check` that cannot be loaded."""
    broken = (table["problem"] != "") & (table["rows"].isna() | (table["found"] == "missing"))
    return dict(zip(table["name"][broken], table["problem"][broken], strict=True))


def _checked(name: str, columns: Said, scale: Scale, own: dict[str, AnySet]) -> dict[str, object]:
    """The row of one set, which is put into `own` when it is a file of the user's."""
    row: dict[str, object] = {"name": name, "kind": "", "found": "", "file": name, "rows": None}
    row |= {"sha256": "", "problem": ""}
    try:
        entry = find(name) if own_file(name) is None else None
        if entry is None:
            row["found"] = "own file"
        else:
            row |= {"kind": entry.kind, "file": ", ".join(entry.files)}
            found = located(entry)
            if found is None:
                return row | _elsewhere(entry)
            row["found"], root = found
            listed = read_manifest(root)
            row["sha256"] = "ok" if all("sha256_uncompressed" in listed.get(file, {}) for file in entry.files) else ""
        row["kind"] = entry.kind if entry else kinds_of(name, columns)[0]
        if entry is None:
            data = own[name] = load_own(name, columns=columns, scale=scale)
        else:
            data = LOADERS[entry.kind](name)
        row["rows"] = len(data)
        remarks = [rows_note(entry, len(data)).strip(" ()") if entry else "", _cannot_rank(data)]
        row["problem"] = "; ".join(filter(None, remarks))
    except DataError as error:
        row |= {"found": row["found"] or ("damaged" if row["kind"] else "missing"), "problem": str(error)}
        row["sha256"] = "differs" if "sha256" in str(error) else ""
    return row


def _cannot_rank(data: object) -> str:
    """Of scored pairs whose gold is one value: they load, since training may use them, but rank nothing."""
    if not isinstance(data, Pairs) or np.ptp(data.gold) > 0:
        return ""
    return f"gold is {data.gold[0]:g} in every row: no correlation can be computed, so it can neither choose nor report"


def _elsewhere(entry: DataSet) -> dict[str, object]:
    """What is known of a set that is not on this machine."""
    known: dict[str, object] = {"rows": _published_rows(entry)}
    if entry.hub:
        return known | {"found": "hub", "file": entry.hub.repo}
    return known | {"found": "missing", "problem": "only a local data root has it: set WORKBENCH_DATA"}


def _published_rows(entry: DataSet) -> int | None:
    """Of what serves the set here: the hub may cut it otherwise, or keep rows without gold in it."""
    root = None if entry.bundled else local_root()
    here = entry.bundled or (root is not None and (root / entry.files[0]).is_file())
    on_hub = entry.hub.rows if entry.hub else None
    return (entry.rows or on_hub) if here else (on_hub or entry.rows)


def fetch(name: str, root: str | Path) -> Path:
    """Downloads a set of the hub, writes it into the local data root `root` and lists it in its MANIFEST.json.

    Returns the file. A machine without a network reads it with WORKBENCH_DATA=root. Raises DataError when the set is
    bundled or not on the hub, and when the hub cannot be read.
    """
    entry = find(name)
    if entry.bundled:
        raise DataError(f"{name} is bundled with the project; there is nothing to fetch")
    if entry.hub is None:
        fetchable = ", ".join(known for known, other in CATALOGUE.items() if other.hub)
        raise DataError(f"{name} is not on the hub, only in a local data root; those on the hub are {fetchable}")
    table, source = read_hub(entry)
    root = Path(root).expanduser()
    file = entry.files[0]
    if (root / file).exists():
        raise DataError(f"{root / file} is there already and is not replaced; move it away, or give another root")
    try:
        listed = read_manifest(root)
        write_table(root / file, table.columns)
        listed[file] = describe_file(root, file) | {"dataset": entry.title, "source": source, "licence": entry.licence}
        write_manifest(root, list(listed.values()))
    except OSError as error:
        raise DataError(
            f"cannot write {root / file} ({error.strerror}); free some space or give another root"
        ) from error
    return root / file
