"""Which runs a sweep consists of: methods x grid x seeds, named points, and exclusions."""

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic

from workbench.config import ALIASES, CONFIGS, TrainingConfig
from workbench.errors import SettingError, unknown_name
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
        """Method, changed settings and seed, as text."""
        return " ".join(part for part in (self.method, self.name, f"seed {self.seed}") if part)


class Point(pydantic.BaseModel, extra="forbid"):
    """One named choice of settings outside the grid."""

    name: str
    method: str
    settings: dict[str, Any] = {}
    profile: str | None = None


def _as_lists(grid: Any) -> Any:
    """Return a grid whose values are all lists: a single value becomes a list of one."""
    if not isinstance(grid, dict):
        return grid
    return {name: [*values] if isinstance(values, (list, tuple)) else [values] for name, values in grid.items()}


class Spec(pydantic.BaseModel, extra="forbid"):
    """The contents of a sweep, as its file, the function and the command describe it.

    Every method is run with every combination of `grid` and of its own grid, with every seed; the points are added.
    A combination is left out if all values of an entry of `without` hold for it.
    """

    methods: dict[str, dict[str, list[Any]]] = {}
    seeds: list[int] = [0]
    profile: str = "demo"
    grid: dict[str, list[Any]] = {}
    points: list[Point] = []
    without: list[dict[str, Any]] = []

    @pydantic.field_validator("methods", mode="before")
    @classmethod
    def _names_only(cls, value: Any) -> Any:
        names = [value] if isinstance(value, str) else value
        methods = names if isinstance(names, dict) else dict.fromkeys(names)
        return {name: _as_lists(grid or {}) for name, grid in methods.items()}

    @pydantic.field_validator("grid", mode="before")
    @classmethod
    def _single_values(cls, value: Any) -> Any:
        return _as_lists(value)

    @pydantic.field_validator("seeds", mode="before")
    @classmethod
    def _ranges(cls, value: Any) -> Any:
        return _seeds(value) if isinstance(value, str) else [value] if isinstance(value, int) else [*value]

    @pydantic.model_validator(mode="after")
    def _is_countable(self) -> "Spec":
        grids = ({**self.grid, **own} for own in self.methods.values())
        cells = len(self.seeds) * (len(self.points) + sum(math.prod(map(len, grid.values())) for grid in grids))
        if cells > _MOST_CELLS:
            raise ValueError(f"it has {cells} cells; a sweep has at most {_MOST_CELLS}")
        return self

    @property
    def title(self) -> str:
        """A name made of the methods and a checksum of the contents."""
        names = dict.fromkeys([*self.methods, *(point.method for point in self.points)])
        return f"{'-'.join(names)}-{text_checksum(json.dumps(self.model_dump(mode='json'), sort_keys=True))[:6]}"


def read_spec(**values: Any) -> Spec:
    """Return the Spec of these values. Raises SettingError for unknown names and wrong types."""
    try:
        return Spec(**values)
    except pydantic.ValidationError as error:
        problems = [
            f"{'.'.join(map(str, item['loc'])) or 'sweep'}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors()
        ]
        raise SettingError(f"{'; '.join(problems)} (a sweep has {', '.join(Spec.model_fields)})") from None


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


def _seeds(text: str) -> list[int]:
    """Return the seeds of "0-4", "3" or "0-2,7"."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(last) >= int(first))):
            raise ValueError(f"{text!r} is not a list of seeds such as 3, 0-4 or 0-2,7")
        if int(last or first) - int(first) > _MOST_CELLS:
            raise ValueError(f"{text!r}: a sweep has at most {_MOST_CELLS} cells")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))


def typed_grid(words: Iterable[str]) -> tuple[dict[str, list[Any]], dict[str, dict[str, list[Any]]]]:
    """Read KEY=V1,V2 and METHOD.KEY=V1,V2 into the grid of every method and the grids of single ones.

    Values are YAML: suites=[a,b],[a] are two lists.
    """
    import yaml

    shared: dict[str, list[Any]] = {}
    own: dict[str, dict[str, list[Any]]] = {}
    for word in words:
        name, _, values = (part.strip() for part in word.partition("="))
        method, dot, key = name.rpartition(".")
        grid = own.setdefault(CONFIGS[method].method, {}) if dot else shared
        if not key or key in grid:
            raise SettingError(f"{word!r}: {f'{name} is repeated' if key else 'expected KEY=V1,V2'}")
        try:
            grid[key] = yaml.safe_load(f"[{values}]")
        except yaml.YAMLError:
            raise SettingError(f"{word!r}: the values cannot be read; put a text with commas in quotes") from None
    return shared, own


def cells_of(spec: Spec) -> list[Cell]:
    """Return every run of a sweep once, those that others need first.

    Raises SettingError for unknown names and values, and if nothing is left to run.
    """
    cells: dict[str, Cell] = {}
    names = {"method", *ALIASES, *(name for each in CONFIGS.values() for name in each.model_fields)}
    for unknown in (name for entry in spec.without for name in entry if name not in names):
        raise SettingError(unknown_name("setting", unknown, names, "of a method (in without)"))
    unused = list(spec.without)
    for method, settings, name, profile in _combinations(spec):
        for seed in spec.seeds:
            cell = _cell(method, profile, seed, settings, name)
            if held := [entry for entry in spec.without if _holds(entry, cell)]:
                unused = [entry for entry in unused if entry not in held]
            else:
                _add(cells, cell)
    if unused:
        raise SettingError(f"without: {unused[0]} leaves nothing out; its values are not in the sweep")
    if not cells:
        raise SettingError(
            "The sweep is empty: specify at least one method, e.g. `workbench sweep simcse --seeds 0-4`."
        )
    needed = {path for cell in cells.values() for path in cell.needs}
    return sorted(cells.values(), key=lambda cell: cell.path not in needed)


def _combinations(spec: Spec) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    for method, own in spec.methods.items():
        try:
            grid = {CONFIGS[method].setting_name(name): values for name, values in {**spec.grid, **own}.items()}
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
    read = {name: stored[name] for name in map(config.setting_name, settings)}
    return Cell(method, profile, seed, read, run_path(config, ".").as_posix(), (), name)


def _add(cells: dict[str, Cell], cell: Cell) -> None:
    """Add a cell, and first the cells that it needs."""
    if cell.path in cells:
        return
    needs = [_cell(method, profile, cell.seed, {}) for method, profile in cell.config.runs_needed]
    for needed in needs:
        _add(cells, needed)
    cells[cell.path] = replace(cell, needs=tuple(needed.path for needed in needs))


def _holds(entry: dict[str, Any], cell: Cell) -> bool:
    """Return whether a cell has every value of an entry of `without`, read as its settings read them."""
    facts = {"method": cell.method, "profile": cell.profile, "seed": cell.seed}
    if any(str(facts[name]) != str(value) for name, value in entry.items() if name in facts):
        return False
    config = CONFIGS[cell.method]
    try:
        changes = {config.setting_name(name): value for name, value in entry.items() if name not in facts}
        asked = config.from_parameters(cell.profile, cell.seed, cell.overrides | changes)
    except SettingError:  # the method has no such setting, or the value does not fit the others of this cell
        return False
    return asked.model_dump() == cell.config.model_dump()
