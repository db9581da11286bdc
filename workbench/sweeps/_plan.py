"""The cells of a sweep: methods x grid x seeds, without exclusions."""

import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pydantic

from workbench.config import CONFIGS, TrainingConfig
from workbench.errors import SettingError, unknown_name
from workbench.runs import run_path

_MOST_CELLS = 100_000
_NAMES = ("methods", "seeds", "profile", "grid", "without")  # of a sweep's file


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    name: the settings of the grid that vary. path: its folder, relative to the folder of runs. needs: paths of the
    cells that must be finished before it.
    """

    method: str
    profile: str
    seed: int
    overrides: dict[str, Any]
    path: str
    needs: tuple[str, ...] = ()
    name: str = ""

    @property
    def config(self) -> TrainingConfig:
        """All settings of the run."""
        return CONFIGS[self.method].from_parameters(self.profile, self.seed, self.overrides)

    @property
    def title(self) -> str:
        """Method, varied settings and seed, as text."""
        return " ".join(part for part in (self.method, self.name, f"seed {self.seed}") if part)


def _as_grids(methods: Any) -> Any:
    if isinstance(methods, Mapping):
        return {name: grid or {} for name, grid in methods.items()}
    return {name: {} for name in ([methods] if isinstance(methods, str) else methods)}


def _read_seeds(value: Any) -> Any:
    """Return the seeds of 3, [0, 1], "3", "0-4" or "0-2,7"."""
    if not isinstance(value, str):
        return [value] if isinstance(value, int) else [*value]
    parts = [part.partition("-") for part in value.split(",")]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in parts]
    if not all(ranges) or sum(map(len, ranges)) > _MOST_CELLS:
        raise ValueError(f"{value!r}: expected 3, 0-4 or 0-2,7, and at most {_MOST_CELLS} seeds")
    return list(dict.fromkeys(itertools.chain(*ranges)))


_as_list = pydantic.BeforeValidator(lambda value: [*value] if isinstance(value, (list, tuple)) else [value])
Grid = dict[str, Annotated[list[Any], _as_list]]


def read_sweep_file(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML or YAML file that describes a sweep: arguments of `sweep`. Raises SettingError."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        content = dict(tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text))
    except (OSError, TypeError, ValueError, yaml.YAMLError) as problem:
        raise SettingError(f"{path} cannot be read ({problem}); expected {', '.join(_NAMES)} by name") from None
    for name in content.keys() - _NAMES:
        raise SettingError(f"{path}: {unknown_name('entry', name, _NAMES, 'of a sweep')}")
    return content


def plan_cells(**values: Any) -> list[Cell]:
    """Return every run of a sweep once, those that others need first; arguments as those of `sweep`.

    Raises SettingError for unknown names, wrong types and values, too many cells, and if nothing is left to run.
    """
    try:
        return _plan(**values)
    except pydantic.ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SettingError("; ".join(problems)) from None


@pydantic.validate_call
def _plan(
    methods: Annotated[dict[str, Grid], pydantic.BeforeValidator(_as_grids)],
    seeds: Annotated[list[int], pydantic.BeforeValidator(_read_seeds)],
    profile: str,
    grid: Grid,
    without: list[dict[str, Any]],
) -> list[Cell]:
    count = len(seeds) * sum(math.prod(map(len, (grid | own).values())) for own in methods.values())
    if count > _MOST_CELLS:
        raise SettingError(f"the sweep has {count} cells; at most {_MOST_CELLS} are possible")
    cells: dict[str, Cell] = {}
    unused = list(without)
    for method, own in methods.items():
        settings = grid | own
        varied = [name for name in settings if len(settings[name]) > 1]
        for values, seed in itertools.product(itertools.product(*settings.values()), seeds):
            chosen = dict(zip(settings, values, strict=True))
            facts = {"method": method, "profile": profile, "seed": seed, **chosen}
            excluding = [entry for entry in without if facts | entry == facts]
            unused = [entry for entry in unused if entry not in excluding]
            cell = _cell(method, profile, seed, chosen, ", ".join(f"{name}={chosen[name]}" for name in varied))
            if excluding or cell.path in cells:
                continue
            needs = [_cell(*needed, seed, {}) for needed in cell.config.runs_needed]
            cells |= {needed.path: needed for needed in needs if needed.path not in cells}
            cells[cell.path] = replace(cell, needs=tuple(needed.path for needed in needs))
    if unused:
        raise SettingError(f"without: {unused[0]} leaves nothing out; write names and values as in the grid")
    if not cells:
        raise SettingError("The sweep is empty: specify a method, e.g. `workbench sweep simcse --seeds 0-4`.")
    needed = {path for cell in cells.values() for path in cell.needs}
    return sorted(cells.values(), key=lambda cell: cell.path not in needed)


def _cell(method: str, profile: str, seed: int, settings: dict[str, Any], name: str = "") -> Cell:
    config = CONFIGS[method].from_parameters(profile, seed, settings)
    stored = config.model_dump(mode="json")
    overrides = {name: stored[name] for name in map(config.setting_name, settings)}
    return Cell(method, profile, seed, overrides, run_path(config, ".").as_posix(), name=name)
