"""Where a set comes from: bundled with the project, the local data root, or the hub. Never a silent fallback.

A bundled name is only ever bundled. Otherwise WORKBENCH_DATA serves the set when it holds its files, intact or not
(a damaged file is an error), and the hub serves what the local root does not hold.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.data.catalogue import CATALOGUE
from workbench.data.entry import DataSet, Hub
from workbench.data.format import Table, did_you_mean, parse_table, read_content, read_manifest, table_content
from workbench.data.senteval import read_senteval
from workbench.errors import DataError
from workbench.paths import project_path

LOCAL_ROOT = "WORKBENCH_DATA"
HUB_MIRROR = "WORKBENCH_HUB_MIRROR"


def local_root() -> Path | None:
    """The folder that WORKBENCH_DATA names, None when it is not set; DataError when it is no folder."""
    named = os.environ.get(LOCAL_ROOT)
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        raise DataError(f"{LOCAL_ROOT}={named}: no such folder; set it to a local data root, or unset it")
    return root


def located(entry: DataSet) -> tuple[str, Path, tuple[str, ...]] | None:
    """("bundled" or "local", root, files) of a set on this machine; None when only the hub can have it."""
    root = project_path("data") if entry.bundled else local_root()
    if root is None:
        return None
    present = [file for file in entry.files if (root / file).is_file()]
    if not present and not entry.bundled:
        return None
    if len(present) < len(entry.files):
        missing = ", ".join(file for file in entry.files if file not in present)
        raise DataError(f"{entry.name}: {missing} is missing in {root}; restore it from where the folder came from")
    return ("bundled" if entry.bundled else "local"), root, entry.files


def read(entry: DataSet, *, raw: bool = False, revisions: Mapping[str, str] | None = None) -> tuple[Table, str]:
    """The table of a set and, in words, the source that served it."""
    check_revisions(revisions or {})
    found = located(entry)
    if found is not None:
        kind, root, files = found
        tables = [_read_file(root, file) for file in files]
        where = f"{kind} {root / files[0]}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        return _joined(tables), where + rows_note(entry, sum(map(len, tables)))
    hub = (entry.hub_raw if raw else None) or entry.hub
    if hub is None:
        raise DataError(
            f"{entry.name}: {', '.join(entry.files)} is not on this machine and not on the hub; set {LOCAL_ROOT} to a "
            "local data root that holds it (data/README.md says where it comes from)"
        )
    return read_hub(entry, hub, (revisions or {}).get(hub.repo, hub.revision))


def check_revisions(revisions: Mapping[str, str]) -> None:
    """DataError when a key of `revisions` is no hub id of the catalogue."""
    repos = {hub.repo: hub for entry in CATALOGUE.values() for hub in (entry.hub, entry.hub_raw) if hub}
    for repo in revisions:
        if repo not in repos:
            raise DataError(f"revisions: no set comes from hub id {repo!r}{did_you_mean(repo, list(repos))}")


def rows_note(entry: DataSet, rows: int) -> str:
    """What to say of a row count other than the published one: stated, not refused, for a sample is a fair choice."""
    known = {n for n in (entry.rows, entry.hub.rows if entry.hub else None) if n is not None}
    return f" ({rows} rows; published: {' or '.join(map(str, sorted(known)))})" if known and rows not in known else ""


def _read_file(root: Path, file: str) -> Table:
    path = root / file
    listed = read_manifest(root).get(file, {})
    table = parse_table(read_content(path), str(path))
    expected = listed.get("sha256_uncompressed")
    if expected and expected != table.checksum:
        raise DataError(
            f"{path}: the sha256 of its content is {table.checksum[:12]}..., but {root / 'MANIFEST.json'} says "
            f"{expected[:12]}...: the file was changed or cut; restore it, or correct the manifest"
        )
    return table


def _joined(tables: list[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]
    columns = {name: [v for table in tables for v in table.column(name)] for name in tables[0].columns}
    checksum = hashlib.sha256("".join(table.checksum for table in tables).encode()).hexdigest()
    return Table(columns, " + ".join(table.where for table in tables), checksum)


def read_hub(entry: DataSet, hub: Hub, revision: str) -> tuple[Table, str]:
    """The table of a set from the hub at `revision`, in the columns of our format, and the source in words."""
    try:
        if hub.archive:
            columns, commit = _read_archive(entry, hub, revision)
        else:
            columns, commit = _read_dataset(hub, revision)
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            f"{entry.name}: reading the hub needs {error.name}; pip install 'ranking-workbench[train]'"
        ) from error
    except Exception as error:  # the hub's clients raise a dozen unrelated types for "not there" and "no network"
        raise DataError(
            f"{entry.name}: hub set {hub.repo} at revision {revision} could not be read "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}). "
            f"Give this machine network access to the hub; or run `workbench data fetch {entry.name}` where there is "
            f"some and set {LOCAL_ROOT} to the folder it wrote; or set {HUB_MIRROR} to a folder of downloaded hub sets"
        ) from error
    table = Table(columns, f"hub {hub.repo}", hashlib.sha256(table_content(columns)).hexdigest(), first_line=2)
    note = f", {hub.note}" if hub.note else ""
    file = f"/{hub.file}" if hub.file else ""
    return table, f"hub {hub.repo}{file} at {commit}{note}" + rows_note(replace(entry, rows=None, hub=hub), len(table))


def _mirrored(hub: Hub) -> Path | None:
    mirror = os.environ.get(HUB_MIRROR)
    if not mirror:
        return None
    folder = Path(mirror).expanduser() / hub.repo
    if not folder.is_dir():
        raise DataError(f"{HUB_MIRROR}={mirror}: no folder {hub.repo} in it; download it there, or unset {HUB_MIRROR}")
    return folder


def _read_archive(entry: DataSet, hub: Hub, revision: str) -> tuple[dict[str, list[str]], str]:
    assert hub.file is not None
    folder = _mirrored(hub)
    if folder is not None:
        return read_senteval(folder / hub.file, entry.name), f"mirror {folder}"
    from huggingface_hub import hf_hub_download

    archive = Path(hf_hub_download(hub.repo, hub.file, repo_type="dataset", revision=revision))
    return read_senteval(archive, entry.name), archive.parent.name  # the snapshot's folder is named by its commit


def _read_dataset(hub: Hub, revision: str) -> tuple[dict[str, list[str]], str]:
    from datasets import load_dataset

    folder = _mirrored(hub)
    options: dict[str, Any] = {"data_files": hub.file} if hub.file else {}
    if hub.file and hub.file.endswith(".csv"):
        options["keep_default_na"] = False  # "None" and "NA" are sentences here, not gaps
    if folder is None:
        options["revision"] = revision
    loaded = load_dataset(str(folder or hub.repo), hub.config, split=hub.split, **options)
    missing = [theirs for theirs in hub.columns.values() if theirs not in loaded.column_names]
    if missing:
        raise DataError(
            f"hub {hub.repo}: no column {', '.join(missing)}; its columns are {', '.join(loaded.column_names)}; "
            "another revision may have it (setting revisions)"
        )
    texts = {ours: [_text(value) for value in loaded[theirs]] for ours, theirs in hub.columns.items()}
    if hub.labels:
        texts["label"] = [hub.labels.get(label, label) for label in texts["label"]]
    urls = " ".join(loaded.info.download_checksums or {})
    resolved = re.search(r"@([0-9a-f]{40})/", urls)
    return texts, f"mirror {folder}" if folder else resolved.group(1) if resolved else revision


def _text(value: object) -> str:
    """A hub value as a field: a tab or line break inside a sentence becomes a space, a missing one is empty."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    return re.sub(r"[\t\r\n]+", " ", text) if not text.isprintable() else text
