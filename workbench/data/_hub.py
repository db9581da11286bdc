"""Sets read from the hub at a pinned commit, or from a folder of downloaded hub sets (WORKBENCH_HUB_MIRROR)."""

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.data._catalogue import CATALOGUE, DataSet, Hub
from workbench.data._format import Table, field, table_content
from workbench.data._senteval import read_senteval
from workbench.errors import DataError, did_you_mean
from workbench.files import text_checksum
from workbench.publishing import reading_hub

LOCAL_ROOT = "WORKBENCH_DATA"
HUB_MIRROR = "WORKBENCH_HUB_MIRROR"


def check_revisions(revisions: Mapping[str, str]) -> None:
    """DataError when a key of `revisions` is no hub id of the catalogue."""
    repos = {entry.hub.repo for entry in CATALOGUE.values() if entry.hub}
    for repo in revisions:
        if repo not in repos:
            raise DataError(f"revisions: no set comes from hub id {repo!r}{did_you_mean(repo, repos)}")


def rows_note(entry: DataSet, rows: int) -> str:
    """What to say of a row count other than the published one: stated, not refused, for a sample is a fair choice."""
    known = {n for n in (entry.rows, entry.hub.rows if entry.hub else None) if n is not None}
    return f" ({rows} rows; published: {' or '.join(map(str, sorted(known)))})" if known and rows not in known else ""


def read_hub(entry: DataSet, revisions: Mapping[str, str] | None = None) -> tuple[Table, str]:
    """The table of a set from the hub, in the columns of our format, and the source in words.

    revisions: hub id -> git revision, instead of the catalogue's.
    """
    hub = entry.hub
    if hub is None:
        raise DataError(
            f"{entry.name}: {', '.join(entry.files)} is not on this machine and not on the hub; set {LOCAL_ROOT} to a "
            "local data root that holds it (data/README.md says where it comes from)"
        )
    revision = (revisions or {}).get(hub.repo, hub.revision)
    folder = _mirrored(hub)
    try:
        columns, commit = (_read_archive if hub.archive else _read_dataset)(entry.name, hub, revision, folder)
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
    rows = len(next(iter(columns.values())))
    table = Table(columns, f"hub {hub.repo}", text_checksum(table_content(columns)), rows)
    note = f", {hub.note}" if hub.note else ""
    file = f"/{hub.file}" if hub.file else ""
    return table, f"hub {hub.repo}{file} at {commit}{note}" + rows_note(replace(entry, rows=None), rows)


def _mirrored(hub: Hub) -> Path | None:
    mirror = os.environ.get(HUB_MIRROR)
    if not mirror:
        return None
    folder = Path(mirror).expanduser() / hub.repo
    if not folder.is_dir():
        raise DataError(f"{HUB_MIRROR}={mirror}: no folder {hub.repo} in it; download it there, or unset {HUB_MIRROR}")
    return folder


def _read_archive(name: str, hub: Hub, revision: str, folder: Path | None) -> tuple[dict[str, list[str]], str]:
    assert hub.file is not None
    if folder is not None:
        return read_senteval(folder / hub.file, name), f"mirror {folder}"
    from huggingface_hub import hf_hub_download

    with reading_hub():
        archive = Path(hf_hub_download(hub.repo, hub.file, repo_type="dataset", revision=revision))
    return read_senteval(archive, name), archive.parent.name  # the snapshot's folder is named by its commit


def _read_dataset(_: str, hub: Hub, revision: str, folder: Path | None) -> tuple[dict[str, list[str]], str]:
    from datasets import load_dataset  # before reading_hub: when loaded, it keeps whether there is a network

    options: dict[str, Any] = {"data_files": hub.file} if hub.file else {}
    if hub.file and hub.file.endswith(".csv"):
        options["keep_default_na"] = False  # "None" and "NA" are sentences here, not gaps
    if folder is None:
        options["revision"] = revision
    with reading_hub() if folder is None else nullcontext():
        loaded = load_dataset(str(folder or hub.repo), hub.config, split=hub.split, **options)
    missing = [theirs for theirs in hub.columns.values() if theirs not in loaded.column_names]
    if missing:
        raise DataError(
            f"hub {hub.repo}: no column {', '.join(missing)}; its columns are {', '.join(loaded.column_names)}; "
            "another revision may have it (setting revisions)"
        )
    texts = {
        ours: ["" if value is None else field(str(value)) for value in loaded[theirs]]
        for ours, theirs in hub.columns.items()
    }
    if hub.labels:
        texts["label"] = [hub.labels.get(label, label) for label in texts["label"]]
    urls = " ".join(loaded.info.download_checksums or {})
    resolved = re.search(r"@([0-9a-f]{40})/", urls)
    return texts, f"mirror {folder}" if folder else resolved.group(1) if resolved else revision
