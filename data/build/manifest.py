"""Writes data/MANIFEST.json: rows, columns, scale, licence and sha256 of everything that is bundled.

python data/build/manifest.py            write it, after a builder has changed something
python data/build/manifest.py --check    compare it; exit 1 and name what differs
"""

import argparse
import sys
from pathlib import Path

from workbench.data import CATALOGUE, describe_file, read_manifest, write_manifest

DATA = Path(__file__).resolve().parent.parent
LICENCE, TAUGHT, ITS_LICENCE = "MIT", "models/english-encoder/", "Apache-2.0"  # that of its teacher


def bundled_files() -> list[str]:
    """The tables and the files of the models, relative to data/."""
    tables = [path for path in DATA.rglob("*.tsv.gz") if path.is_file()]
    models = [path for path in (DATA / "models").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(path.relative_to(DATA).as_posix() for path in [*tables, *models])


def entries() -> list[dict]:
    """One manifest entry a file; of a table also the name, title and scale that the catalogue gives it."""
    known = {file: entry for entry in CATALOGUE.values() if entry.bundled for file in entry.files}
    described = []
    for file in bundled_files():
        entry = describe_file(DATA, file) | {"licence": ITS_LICENCE if file.startswith(TAUGHT) else LICENCE}
        if file in known:
            scale = known[file].scale
            entry |= {"name": known[file].name, "dataset": known[file].title, "scale": list(scale) if scale else None}
        described.append(entry)
    return described


def main() -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    found = {entry["file"]: entry for entry in entries()}
    if not parser.parse_args().check:
        write_manifest(DATA, list(found.values()))
        print(f"{DATA / 'MANIFEST.json'}: {len(found)} files, {sum(e['bytes'] for e in found.values()) / 1e6:.2f} MB")
        return 0
    listed = read_manifest(DATA)
    differing = sorted(file for file in found.keys() | listed.keys() if found.get(file) != listed.get(file))
    for file in differing:
        state = "not in MANIFEST.json" if file not in listed else "missing" if file not in found else "changed"
        print(f"{file}: {state}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
