"""What resampling found, kept beside the run that it is of: computed once."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.files import write_json
from workbench.runs import read_json

_FILE = "significance.json"


def scores_checksum(facts: Mapping[str, Any], stage: str = "") -> str:
    """What names the scores of a run with these facts (`Run.facts`); "" where they do not say."""
    name = f"{stage}/scores.csv" if stage else "scores.csv"
    return facts.get("files", {}).get(name, {}).get("sha256", "")[:16]


def kept(
    path: str | Path, key: str, suites: Sequence[str], compute: Callable[[str], Sequence[float] | None]
) -> dict[str, list[float]]:
    """Suite -> numbers, from the run's file where it has them under `key`, else computed now and kept there.

    `key` must name all that the numbers depend on; "" keeps nothing. A suite without numbers (None) is left out.
    """
    file, known = Path(path) / _FILE, {}
    with contextlib.suppress(RunError):
        known = read_json(file)
    found = {suite: values for suite, values in known.get(key, {}).items() if suite in suites}
    missing = [suite for suite in suites if suite not in found]
    computed = {suite: values for suite in missing if (values := compute(suite)) is not None}
    if computed and key:
        with contextlib.suppress(OSError):  # a folder that cannot be written to: computed again next time
            write_json(file, known | {key: known.get(key, {}) | computed})
    found |= {suite: list(values) for suite, values in computed.items()}
    return {suite: [float("nan") if value is None else value for value in values] for suite, values in found.items()}
