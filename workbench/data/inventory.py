"""What there is: describe a set, check those on this machine, fetch one from the hub into a local data root."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from workbench.data.catalogue import CATALOGUE, find
from workbench.data.entry import DataSet
from workbench.data.format import DataError, describe_file, read_manifest, write_manifest, write_table
from workbench.data.loading import load_labelled, load_pairs, load_sentences, load_triples
from workbench.data.sources import located, read_hub, rows_note

LOADERS = {"sentences": load_sentences, "pairs": load_pairs, "triples": load_triples, "labelled": load_labelled}
CHECK_COLUMNS = ["name", "found", "file", "rows", "sha256", "problem"]


def describe(name: str) -> dict[str, str]:
    """What the catalogue says of a set, as text: kind, title, rows, scale, columns, files, hub, licence, note."""
    entry = find(name)
    hub = entry.hub
    return {
        "name": entry.name,
        "kind": entry.kind,
        "title": entry.title,
        "rows": str(entry.rows or ""),
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

    found: "bundled", "local", "hub" (not on this machine; not asked, so nothing is downloaded) or "missing".
    sha256: "ok", "differs", or "" where no manifest lists the file.  problem: "" when it loads.
    """
    rows = [_checked(find(name)) for name in (CATALOGUE if names is None else names)]
    return pd.DataFrame(rows, columns=CHECK_COLUMNS)


def _checked(entry: DataSet) -> dict[str, object]:
    row: dict[str, object] = {"name": entry.name, "found": "", "file": ", ".join(entry.files), "rows": 0}
    row |= {"sha256": "", "problem": ""}
    try:
        found = located(entry)
        if found is None:
            row["found"] = "hub" if entry.hub else "missing"
            row["rows"] = (entry.hub.rows if entry.hub else None) or 0
            row["file"] = entry.hub.repo if entry.hub else row["file"]
            if not entry.hub:
                row["problem"] = "only a local data root has it: set WORKBENCH_DATA"
            return row
        row["found"], root, files = found
        listed = read_manifest(root)
        loaded = LOADERS[entry.kind](entry.name)
        row["rows"] = len(loaded)
        row["sha256"] = "ok" if all("sha256_uncompressed" in listed.get(file, {}) for file in files) else ""
        row["problem"] = rows_note(entry, len(loaded)).strip(" ()")
    except DataError as error:
        row["found"] = row["found"] or "damaged"
        row["sha256"] = "differs" if "sha256" in str(error) else ""
        row["problem"] = str(error)
    return row


def fetch(name: str, root: str | Path, *, revisions: Mapping[str, str] | None = None) -> Path:
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
    revision = (revisions or {}).get(entry.hub.repo, entry.hub.revision)
    table, source = read_hub(entry, entry.hub, revision)
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
