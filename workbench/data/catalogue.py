"""Every set by name."""

from collections.abc import Mapping

from workbench.data.entry import DataSet
from workbench.data.format import did_you_mean
from workbench.data.pair_sets import pair_sets
from workbench.data.text_sets import bundled_sets, training_sets, transfer_sets
from workbench.errors import DataError

CATALOGUE: Mapping[str, DataSet] = {
    entry.name: entry for group in (bundled_sets, training_sets, pair_sets, transfer_sets) for entry in group()
}


def dataset_names(kind: str | None = None) -> list[str]:
    """The names of the catalogue, of one kind ("sentences", "pairs", "triples", "labelled") or of all."""
    return [name for name, entry in CATALOGUE.items() if kind in (None, entry.kind)]


def find(name: str, *kinds: str) -> DataSet:
    """The entry called `name`; DataError with the closest names, or with the splits when only the split is wrong."""
    entry = CATALOGUE.get(name)
    if entry is None:
        base = name.rpartition("-")[0] or name
        splits = [known for known in CATALOGUE if known.rpartition("-")[0] in (base, name)]
        hint = f"; its splits are {', '.join(splits)}" if splits else did_you_mean(name, list(CATALOGUE))
        raise DataError(f"no dataset {name!r}{hint}; `workbench data list` shows all {len(CATALOGUE)}")
    if kinds and entry.kind not in kinds:
        raise DataError(
            f"{name} holds {entry.kind}, not {' or '.join(kinds)}: load it with load_{entry.kind}, or choose one of "
            f"{', '.join(f'dataset_names({kind!r})' for kind in kinds)}"
        )
    return entry
