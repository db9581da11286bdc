"""Which runs a sweep consists of: methods, grids, named points, exclusions, seeds."""

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic

from workbench.config import CONFIGS, TrainingConfig
from workbench.errors import SettingError, unknown_name
from workbench.files import text_checksum
from workbench.runs import run_path

Grid = Mapping[str, Any]
_MOST = 20_000  # cells of a sweep; they are counted before they are listed


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    name: of a point, else what of the grid varies. path: its folder as seen from that of the runs. needs: paths of the
    cells that are run before it.
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
        """Its settings."""
        return CONFIGS[self.method].from_parameters(self.profile, self.seed, self.overrides)

    @property
    def title(self) -> str:
        """In short, to read: method, what was changed, seed."""
        return " ".join(part for part in (self.method, self.name, f"seed {self.seed}") if part)


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Point(_Strict):
    """One setting by name, outside the grid."""

    name: str
    method: str
    settings: dict[str, Any] = {}
    profile: str | None = None


class Spec(_Strict):
    """What a sweep's file says, and what the function and the command take.

    Every method is run with every combination of `grid` and of its own grid, with every seed; then come the points.
    A combination is left out where all values of an entry of `without` hold.
    """

    methods: dict[str, dict[str, list[Any]]] = {}
    seeds: list[int] = [0]
    profile: str = "demo"
    grid: dict[str, list[Any]] = {}
    points: list[Point] = []
    without: list[dict[str, Any]] = []

    @pydantic.field_validator("methods", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        names = [value] if isinstance(value, str) else value
        found = names if isinstance(names, dict) else dict.fromkeys(names)
        return {name: _lists(grid or {}) for name, grid in found.items()}

    @pydantic.field_validator("grid", mode="before")
    @classmethod
    def _one_value(cls, value: Any) -> Any:
        return _lists(value) if isinstance(value, dict) else value

    @pydantic.field_validator("seeds", mode="before")
    @classmethod
    def _ranges(cls, value: Any) -> Any:
        if isinstance(value, str):
            return seeds_of(value)
        return [value] if isinstance(value, int) else list(itertools.islice(value, _MOST + 1))

    @property
    def title(self) -> str:
        """A name for it: its methods, and a checksum of all it says."""
        names = dict.fromkeys([*self.methods, *(point.method for point in self.points)])
        return f"{'-'.join(names)}-{text_checksum(json.dumps(self.model_dump(mode='json'), sort_keys=True))[:6]}"


def read_spec(**given: Any) -> Spec:
    """A Spec of these values; SettingError for one that it does not have or cannot hold."""
    try:
        return Spec(**given)
    except pydantic.ValidationError as error:
        told = [
            f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}, got {item['input']!r}"
            for item in error.errors()
        ]
        known = ", ".join(Spec.model_fields)
        raise SettingError(f"this is no sweep: {'; '.join(told)} (known: {known})") from None


def read_spec_file(path: Path) -> dict[str, Any]:
    """What a TOML or YAML file says of a sweep."""
    import yaml  # papermill has it

    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as problem:
        raise SettingError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, yaml.YAMLError) as problem:
        raise SettingError(f"{path} cannot be read as {path.suffix[1:].upper()}: {problem}") from None
    if not isinstance(found, dict):
        raise SettingError(f"{path} holds a {type(found).__name__}; give methods, seeds, grid, points, without by name")
    return found


def seeds_of(text: str) -> list[int]:
    """The seeds that "0-4", "3" or "0-2,7" mean."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(last) >= int(first))):
            raise SettingError(f"seeds {text!r}: give whole numbers such as 3, 0-4 or 0-2,7, the lower one first")
        seeds = range(int(first), int(last or first) + 1)
        _require_few(seeds.stop - seeds.start)
        found += seeds
    return list(dict.fromkeys(found))


def typed_grid(words: Iterable[str]) -> tuple[dict[str, list[Any]], dict[str, dict[str, list[Any]]]]:
    """KEY=V1,V2 as typed: the grid of every method, and, of METHOD.KEY=V1,V2, that of one.

    Commas in brackets belong to a value: suites=[a,b],[a] are two lists.
    """
    shared: dict[str, list[Any]] = {}
    own: dict[str, dict[str, list[Any]]] = {}
    for word in words:
        name, _, values = (part.strip() for part in word.partition("="))
        method, dot, key = name.rpartition(".")
        grid = own.setdefault(CONFIGS[method].method, {}) if dot else shared
        if not key or key in grid:
            raise SettingError(f"{word!r}: " + (f"{name} is given twice" if key else "give KEY=V1,V2"))
        grid[key] = [_typed(value) for value in _split(values)]
    return shared, own


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _typed(text: str) -> Any:
    """A list in brackets, with or without quotes; else the text, which a setting reads as its own type."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return json.loads(text)
        except ValueError:
            return [part.strip() for part in text[1:-1].split(",")]
    return text


def _lists(grid: Grid) -> dict[str, list[Any]]:
    """Each value as the list of its values: one alone is a list of one."""
    return {name: list(value) if isinstance(value, (list, tuple)) else [value] for name, value in grid.items()}


def cells_of(spec: Spec) -> list[Cell]:
    """Every run of a sweep once, first those that others need.

    Raises SettingError for a name or a value that does not exist, and where nothing is left to run.
    """
    grids = [{**spec.grid, **own} for own in spec.methods.values()]
    _require_few(len(spec.seeds) * (sum(math.prod(map(len, grid.values())) for grid in grids) + len(spec.points)))
    found: dict[str, Cell] = {}
    idle = [_known(entry) for entry in spec.without]
    for method, settings, name, profile in _combinations(spec):
        for seed in spec.seeds:
            cell = _cell(method, profile, seed, settings, name)
            if held := [entry for entry in spec.without if _holds(entry, cell)]:
                idle = [entry for entry in idle if entry not in held]
            else:
                _add(found, cell)
    if idle:
        raise SettingError(f"without: {idle[0]} leaves nothing out; give values that the sweep has")
    if not found:
        raise SettingError("nothing to run: name a method, as in: workbench sweep simcse --seeds 0-4")
    needed = {path for cell in found.values() for path in cell.needs}
    return sorted(found.values(), key=lambda cell: cell.path not in needed)


def _require_few(count: int) -> None:
    if count > _MOST:
        raise SettingError(f"a sweep has at most {_MOST:,} cells, and this one has {count:,} or more; split it")


def _combinations(spec: Spec) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    for method, own in spec.methods.items():
        grid, known = {**spec.grid, **own}, CONFIGS[method].model_fields
        unknown = next((name for name in grid if name not in known), None)
        if unknown is not None:
            hint = f"; one method's alone is given as METHOD.{unknown}=..." if unknown in spec.grid else ""
            raise SettingError(unknown_name("setting", unknown, known, f"in {method}") + hint)
        for values in itertools.product(*grid.values()):
            settings = dict(zip(grid, values, strict=True))
            varied = ", ".join(f"{name}={value}" for name, value in settings.items() if len(grid[name]) > 1)
            yield method, settings, varied, spec.profile
    for point in spec.points:
        yield point.method, point.settings, point.name, point.profile or spec.profile


def _cell(method: str, profile: str, seed: int, settings: dict[str, Any], name: str = "") -> Cell:
    config = CONFIGS[method].from_parameters(profile, seed, settings)
    understood = config.model_dump(mode="json")
    read = {key: understood[key] for key in settings}
    return Cell(method, profile, seed, read, run_path(config, ".").as_posix(), name=name)


def _add(found: dict[str, Cell], cell: Cell) -> None:
    """Adds a cell behind what it needs, unless it is there."""
    if cell.path in found:
        return
    needs = [_cell(method, profile, cell.seed, {}) for method, profile in cell.config.runs_needed]
    for needed in needs:
        _add(found, needed)
    found[cell.path] = replace(cell, needs=tuple(needed.path for needed in needs))


def _known(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of `without`, whose names are settings; SettingError for another name."""
    names = {"method", *(name for each in CONFIGS.values() for name in each.model_fields)}
    if unknown := [name for name in entry if name not in names]:
        raise SettingError(unknown_name("setting", unknown[0], names, "of a method (in without)"))
    return entry


def _holds(entry: dict[str, Any], cell: Cell) -> bool:
    """Whether a cell has every value of an entry of `without`, read as its settings read a value of the grid."""
    settings = cell.config.model_dump()
    facts = {"method": cell.method, **settings}
    about = {name: entry[name] for name in ("method", "profile", "seed") if name in entry}
    if entry.keys() - facts.keys() or any(str(facts[name]) != str(value) for name, value in about.items()):
        return False
    own = {name: value for name, value in entry.items() if name not in about}
    try:
        asked = CONFIGS[cell.method].from_parameters(cell.profile, cell.seed, cell.overrides | own)
    except SettingError:  # a value that does not go with the others of this cell
        return False
    return asked.model_dump() == settings
