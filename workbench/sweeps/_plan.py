"""The runs of a sweep: methods x grid x seeds, named points, and exclusions."""

import itertools
import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pydantic

from workbench.config import CONFIGS, TrainingConfig
from workbench.errors import SettingError
from workbench.files import text_checksum
from workbench.runs import run_path

_MOST_CELLS = 100_000


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    name: of a point, otherwise the settings of the grid that vary. path: its folder, relative to the folder of runs.
    needs: paths of the cells that must be finished before it.
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


def _as_list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (list, tuple)) else [value]


def _as_grids(methods: Any) -> Any:
    if isinstance(methods, dict):
        return {name: grid or {} for name, grid in methods.items()}
    return {name: {} for name in ([methods] if isinstance(methods, str) else methods)}


def _read_seeds(value: Any) -> Any:
    """Return the seeds of 3, [0, 1], "3", "0-4" or "0-2,7"."""
    if not isinstance(value, str):
        return [value] if isinstance(value, int) else [*value]
    seeds: list[int] = []
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(last) >= int(first))):
            raise ValueError(f"{value!r} is not a list of seeds such as 3, 0-4 or 0-2,7")
        if int(last or first) - int(first) > _MOST_CELLS:
            raise ValueError(f"{value!r}: a sweep has at most {_MOST_CELLS} cells")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))


Grid = dict[str, Annotated[list[Any], pydantic.BeforeValidator(_as_list)]]


class Point(pydantic.BaseModel, extra="forbid"):
    """One named choice of settings outside the grid."""

    name: str
    method: str
    settings: dict[str, Any] = {}
    profile: str | None = None


class Spec(pydantic.BaseModel, extra="forbid"):
    """The contents of a sweep, as its file, the function and the command describe it.

    Every method is run with every combination of `grid` and of its own grid, with every seed; the points are added.
    A combination is left out if all values of an entry of `without` hold for it.
    """

    methods: Annotated[dict[str, Grid], pydantic.BeforeValidator(_as_grids)] = {}
    seeds: Annotated[list[int], pydantic.BeforeValidator(_read_seeds)] = [0]
    profile: str = "demo"
    grid: Grid = {}
    points: list[Point] = []
    without: list[dict[str, Any]] = []

    @property
    def title(self) -> str:
        """A name made of the methods and a checksum of the contents."""
        names = dict.fromkeys([*self.methods, *(point.method for point in self.points)])
        return f"{'-'.join(names)}-{text_checksum(json.dumps(self.model_dump(mode='json'), sort_keys=True))[:6]}"


def read_spec(**values: Any) -> Spec:
    """Return the Spec of these values. Raises SettingError for unknown names, wrong types and too many cells."""
    try:
        spec = Spec(**values)
    except pydantic.ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SettingError(f"{problems} (a sweep has {', '.join(Spec.model_fields)})") from None
    grids = [math.prod(map(len, (spec.grid | own).values())) for own in spec.methods.values()]
    if (count := len(spec.seeds) * (len(spec.points) + sum(grids))) > _MOST_CELLS:
        raise SettingError(f"the sweep has {count} cells; at most {_MOST_CELLS} are possible")
    return spec


def read_spec_file(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML or YAML file that describes a sweep."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise SettingError(f"{path} cannot be read: {problem}") from None
    if not isinstance(content, dict):
        raise SettingError(f"{path} holds a {type(content).__name__}; expected {', '.join(Spec.model_fields)} by name")
    return content


def cells_of(spec: Spec) -> list[Cell]:
    """Return every run of a sweep once, those that others need first.

    Raises SettingError for unknown names and values, and if nothing is left to run.
    """
    cells: dict[str, Cell] = {}
    unused = list(spec.without)
    for method, settings, name, profile in _combinations(spec):
        for seed in spec.seeds:
            cell = _cell(method, profile, seed, settings, name)
            excluding = [entry for entry in spec.without if _is_excluded(cell, entry)]
            unused = [entry for entry in unused if entry not in excluding]
            if excluding or cell.path in cells:
                continue
            needs = [_cell(*needed, seed, {}) for needed in cell.config.runs_needed]
            cells |= {needed.path: needed for needed in needs if needed.path not in cells}
            cells[cell.path] = replace(cell, needs=tuple(needed.path for needed in needs))
    if unused:
        raise SettingError(f"without: {unused[0]} leaves nothing out; its names and values are not in the sweep")
    if not cells:
        raise SettingError(
            "The sweep is empty: specify at least one method, e.g. `workbench sweep simcse --seeds 0-4`."
        )
    needed = {path for cell in cells.values() for path in cell.needs}
    return sorted(cells.values(), key=lambda cell: cell.path not in needed)


def _combinations(spec: Spec) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Yield method, settings, name and profile."""
    for method, own in spec.methods.items():
        try:
            grid = {CONFIGS[method].setting_name(name): values for name, values in (spec.grid | own).items()}
        except SettingError as error:
            raise SettingError(f"{error}; a setting of one method is METHOD.NAME=...") from None
        for values in itertools.product(*grid.values()):
            settings = dict(zip(grid, values, strict=True))
            varied = ", ".join(f"{name}={value}" for name, value in settings.items() if len(grid[name]) > 1)
            yield method, settings, varied, spec.profile
    for point in spec.points:
        yield point.method, point.settings, point.name, point.profile or spec.profile


def _cell(method: str, profile: str, seed: int, settings: dict[str, Any], name: str = "") -> Cell:
    config = CONFIGS[method].from_parameters(profile, seed, settings)
    stored = config.model_dump(mode="json")
    overrides = {name: stored[name] for name in map(config.setting_name, settings)}
    return Cell(method, profile, seed, overrides, run_path(config, ".").as_posix(), name=name)


def _is_excluded(cell: Cell, entry: dict[str, Any]) -> bool:
    """Return whether a cell has every value of an entry of `without`, read as its settings read them."""
    facts = {"method": cell.method, "profile": cell.profile, "seed": cell.seed}
    if any(str(facts[name]) != str(value) for name, value in entry.items() if name in facts):
        return False
    config = CONFIGS[cell.method]
    try:
        changes = {config.setting_name(name): value for name, value in entry.items() if name not in facts}
        wanted = config.from_parameters(cell.profile, cell.seed, cell.overrides | changes)
    except SettingError:  # the method has no such setting, or the value does not fit the others of this cell
        return False
    return wanted.model_dump() == cell.config.model_dump()
