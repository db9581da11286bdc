"""Write data/MANIFEST.json: rows, columns, scale, licence and sha256 of everything that is bundled.

python data/build/manifest.py            write it, after a builder has changed something
python data/build/manifest.py --check    compare it; exit 1 and name what differs
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from workbench.data import CATALOGUE, read_manifest, read_table

DATA = Path(__file__).resolve().parent.parent
LICENCE, TAUGHT, ITS_LICENCE = "MIT", "models/english-encoder/", "Apache-2.0"  # that of its teacher


def bundled_files() -> list[str]:
    """Return the tables and the files of the models, relative to data/."""
    tables = [path for path in DATA.rglob("*.tsv.gz") if path.is_file()]
    models = [
        path
        for path in (DATA / "models").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]
    return sorted(path.relative_to(DATA).as_posix() for path in [*tables, *models])


def describe_file(file: str) -> dict[str, Any]:
    """Return the size and sha256 of one file; for a table also rows, columns and the sha256 of its
    content."""
    packed = (DATA / file).read_bytes()
    entry: dict[str, Any] = {
        "file": file,
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    if file.endswith(".tsv.gz"):
        table = read_table(DATA / file)
        entry |= {
            "rows": len(table),
            "columns": list(table.columns),
            "sha256_uncompressed": table.checksum,
        }
    return entry


def entries() -> list[dict]:
    """Return one manifest entry per file; a table also has its name, title and scale from the
    catalogue."""
    known = {file: entry for entry in CATALOGUE.values() if entry.bundled for file in entry.files}
    described = []
    for file in bundled_files():
        entry = describe_file(file) | {
            "licence": ITS_LICENCE if file.startswith(TAUGHT) else LICENCE
        }
        if file in known:
            scale = known[file].scale
            entry |= {
                "name": known[file].name,
                "dataset": known[file].title,
                "scale": list(scale) if scale else None,
            }
        described.append(entry)
    return described


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    found = {entry["file"]: entry for entry in entries()}
    if not parser.parse_args().check:
        rules = (
            "gzip TSV, UTF-8, one header line, fields never quoted or escaped, no tab or "
            "newline inside a field"
        )
        content = {"format": rules, "files": list(found.values())}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (DATA / "MANIFEST.json").write_text(text, encoding="utf-8", newline="\n")
        print(
            f"{DATA / 'MANIFEST.json'}: {len(found)} files, "
            f"{sum(e['bytes'] for e in found.values()) / 1e6:.2f} MB"
        )
        return 0
    listed = read_manifest(DATA)
    differing = sorted(
        file for file in found.keys() | listed.keys() if found.get(file) != listed.get(file)
    )
    for file in differing:
        state = (
            "not in MANIFEST.json"
            if file not in listed
            else "missing"
            if file not in found
            else "changed"
        )
        print(f"{file}: {state}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
