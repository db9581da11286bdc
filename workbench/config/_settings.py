"""The base class of all settings: their meaning, unit, source and profiles, and a digest."""

import json
import re
import tomllib
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from workbench.errors import SettingError, describe_problems, require_known, unknown_name
from workbench.files import OWN_FILES, as_list, checksum_of_name, project_path, text_checksum

if TYPE_CHECKING:
    import pandas as pd  # takes as long to load as everything that a refusal needs

Values = dict[str, Any]


def read_data(name: str) -> Values:
    """Return the tables of a TOML file of the project's data."""
    return tomllib.loads((project_path("data") / name).read_text("utf-8"))


PUBLISHED = read_data("checkpoints.toml")  # how published checkpoints are read
_PROFILES = read_data("profiles.toml")
_NAMES = read_data("setting_names.toml")
ALIASES = _NAMES["others"]  # other name -> setting, of all methods
_FORMER = _NAMES["former"]  # name or value -> the one that counts in a digest
_PRESENT = {former: name for name, former in _FORMER.items()}

# (unit) meaning [source]
_TEXT = re.compile(r"(?:\(([^)]*)\) )?(.*?) ?(?:\[([^\]]*)\])?$")

Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Ge(0), Lt(1)]
Count = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Le(1)]
Cosine = Annotated[float, Ge(-1), Le(1)]
Seed = Annotated[int, Ge(0), Lt(2**31)]
Cut = Annotated[int, Ge(3)]  # sentences are cut at so many tokens, specials included


def current_value(value: Any) -> Any:
    """Return the present name of a value that had another one, such as "first_last"."""
    return _PRESENT.get(value, value) if isinstance(value, str) else value


Value = BeforeValidator(current_value)


def parse_columns(text: Any) -> Any:
    """Return {"sentence1": "left", ...} for "sentence1=left,score=how close".

    Other values are returned as they are."""
    if not isinstance(text, str):
        return text
    # A name of a column may have commas, as grade (0, 1, 2) has.
    parts = filter(None, re.split(",(?=[^,=]*=)", text.strip(",")))
    return parse_pairs(parts, "ROLE=COLUMN, such as sentence1=left,score=grade")


def parse_pairs(texts: Iterable[str], form: str) -> Values:
    """Return texts NAME=VALUE as a dictionary.

    Raises SettingError for a text of another form than `form` says, or a name given twice.
    """
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise SettingError(f"{text!r} is not {form}")
        pairs.append((name.strip(), value))
    return unique_keys(pairs)


FileColumns = Annotated[dict[str, str], BeforeValidator(parse_columns)]


def read_profiles(method: str) -> dict[str, Values]:
    """Return profile -> the settings that data/profiles.toml has for it."""
    profiles = {}
    for name, own in _PROFILES.get(method, {}).items():
        shared = [_PROFILES["like"][other] for other in own.get("like", [])]
        values = dict(ChainMap(own, *shared))  # the first that has a setting decides
        values.pop("like", None)
        profiles[name] = values
    return profiles


class Settings(BaseModel):
    """Immutable, validated settings; every default is defined once, in a subclass.

    The text under a setting is its unit in parentheses, its meaning, and in square brackets its
    source: the place where a paper, or its code, gives the value; a setting without one is this
    project's choice. The annotation has the allowed values."""

    model_config = ConfigDict(
        frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, validate_default=True
    )
    method: ClassVar[str] = ""
    # Profile name -> the settings in which it differs from the defaults of the fields; a method
    # that data/profiles.toml does not have inherits those of its parent.
    profiles: ClassVar[dict[str, Values]] = {}
    # Settings that do not change what is computed.
    outside_digest: ClassVar[set[str]] = {*_NAMES["outside_digest"]}
    # Settings added after runs had been made: at their default they do not count, so that those
    # keep their names.
    added: ClassVar[set[str]] = {"mlm_weight", "columns"}

    profile: str = "paper"
    """which set of values the settings start from"""
    seed: Seed = 0
    """every random generator derives from it"""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """where to compute; auto: the best device available"""

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        cls.profiles = read_profiles(cls.method) or cls.profiles

    def __init__(self, **values: Any) -> None:
        """Read settings by name or alias on top of `profile`.

        Text is read as the type of its setting.
        Raises SettingError for an unknown name, with a suggestion, and for a value that is not
        allowed."""
        fields = type(self).model_fields
        named = self._read_values(
            unique_keys((self.setting_name(name), value) for name, value in values.items())
        )
        given = named
        profile = named.get("profile", fields["profile"].default)
        # The settings of a recorded run are complete: its profile may be gone, and a setting that
        # was added later had its default then, whatever the profile says now. Those that change no
        # result are added without a mention in `added`.
        is_complete = fields.keys() - self.added - self.outside_digest <= named.keys()
        if not is_complete:
            require_known("profile", profile, self.profiles, f"of {self.method}")
            named = self.profile_values(profile, named) | named
        try:
            super().__init__(**named)
        except ValidationError as error:
            raise SettingError("\n".join(describe_problems(error))) from None
        # Settings that the profile set do not count as set by the user.
        self.model_fields_set.intersection_update(given)

    @classmethod
    def setting_name(cls, name: str) -> str:
        """Return the setting of this name or alias.

        Raises SettingError, with a suggestion, if there is none."""
        fields = cls.model_fields
        plain = name.replace("-", "_")
        # A field's own name comes first: another method may use it as an alias.
        setting = plain if plain in fields else ALIASES.get(plain, plain)
        if setting not in fields:
            raise SettingError(unknown_name("setting", name, fields, f"in {cls.method}"))
        return setting

    @classmethod
    def profile_values(cls, profile: str, given: Mapping[str, Any] = {}) -> Values:
        """Return the values that a profile sets.

        They may depend on the encoder and the data among the `given` settings."""
        return cls._read_values(cls.profiles.get(profile, {}))

    @classmethod
    def _read_values(cls, values: Values) -> Values:
        fields = cls.model_fields
        return {name: read_value(value, fields[name].annotation) for name, value in values.items()}

    @classmethod
    def from_parameters(
        cls, profile: str = "demo", seed: int = 0, overrides: Values | str | None = None
    ) -> Self:
        """Return the settings of a profile with changes, as notebooks and commands make them.

        overrides: A dictionary, or the JSON text of one.

        Example:
            config = SimCSEConfig.from_parameters("demo", 3, {"temperature": 0.07})
            config.changed()  # {"temperature": 0.07}
        """
        changes = read_parameter("overrides", {} if overrides is None else overrides, Values)
        for name in {"profile", "seed"} & changes.keys():
            raise SettingError(
                f"{name!r} does not belong here: give --{name} to a command (--seeds to a sweep, "
                f"nothing to an evaluation), {name}= in code"
            )
        return cls(profile=profile, seed=seed, **changes)

    def digest(self) -> str:
        """Return eight hexadecimal digits that name what is computed.

        Seed, profile, device and the other settings in `outside_digest` do not count.
        A file counts by its name and content, a folder by the content of the encoder in it and by
        what its name or "st:" says of its reading; bundled names and those of the hub or the
        catalogue count as they are. Raises SettingError if a file or folder does not exist.
        """
        names = {path: _identity(path, checksum) for path, checksum in self.contents().items()}
        counting = self.model_dump(mode="json", exclude=self.outside_digest | self.added)
        # Runs made before a setting was added keep their names.
        counting |= self.model_dump(mode="json", include=self.added, exclude_defaults=True)
        counted = {}
        for name, value in counting.items():
            others = names | _FORMER if name in _NAMES["with_former_values"] else names
            counted[_FORMER.get(name, name)] = _rename(value, others)
        return text_checksum(json.dumps([self.method, counted], sort_keys=True))[:8]

    def contents(self) -> dict[str, str]:
        """Return path -> sha256 for every local file and folder that the settings name."""
        checksums = {}
        for text, name in self.paths().items():
            try:
                checksums[text] = checksum_of_name(text)
            except OSError as problem:
                raise SettingError(
                    f"{name}: there is no folder or file {text!r} ({problem.strerror})"
                ) from None
        return checksums

    def paths(self) -> dict[str, str]:
        """Return local path -> the setting that names it, whether it exists or not."""
        paths = {}
        for name, value in self.model_dump(exclude=self.outside_digest).items():
            # The keys of a dictionary are encoders.
            for text in as_list(value):
                if (
                    isinstance(text, str)
                    and "{sentence}" not in text  # a template may begin with a slash too
                    and Path(text.removeprefix("st:")).is_absolute()
                ):
                    paths[text] = name
        return paths

    @property
    def overrides(self) -> Values:
        """The settings that were given, without profile and seed, as JSON has them."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"profile", "seed"})

    @property
    def runs_needed(self) -> list[Any]:
        """Settings of the runs of the same seed that must be trained first."""
        return []

    def changed(self) -> Values:
        """Return the settings that differ from their profile."""
        start = {name: field.default for name, field in type(self).model_fields.items()}
        start |= self.profile_values(self.profile, dict(self))
        start |= {"seed": self.seed, "profile": self.profile}
        return {name: value for name, value in self if value != start[name]}

    def table(self) -> "pd.DataFrame":
        """Return one row per setting: setting, value, unit, allowed, meaning, source."""
        import pandas as pd

        changed = self.changed()
        schemas = self.model_json_schema()["properties"]
        of_profile = self.profile_values(self.profile, dict(self))
        is_paper = self.profile.startswith("paper")
        rows = []
        for name, field in type(self).model_fields.items():
            unit, meaning, source = _split_text(field)
            # A setting that a subclass declares again, with another default, keeps its meaning.
            for parent in type(self).__mro__:
                inherited = getattr(parent, "model_fields", {}).get(name)
                if inherited and not meaning:
                    unit, meaning, _ = _split_text(inherited)
            if name in changed:
                source = "set for this run"
            elif name in of_profile and not is_paper:
                source = f"our choice for {self.profile!r}"
            rows.append(
                {
                    "setting": name,
                    "value": getattr(self, name),
                    "unit": unit,
                    "allowed": _describe_schema(schemas[name]),
                    "meaning": meaning,
                    "source": source,
                }
            )
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Show the table in a notebook; settings of no paper and no profile are folded."""
        import pandas as pd

        table = self.table().drop(columns="allowed")
        folded = table["source"] == "our choice"
        with pd.option_context("display.max_colwidth", None):
            first = table[~folded].to_html(index=False)
            rest = table[folded].to_html(index=False)
        return f"{first}<details><summary>{folded.sum()} more settings</summary>{rest}</details>"


def _identity(path: str, checksum: str) -> str:
    """Return the text that stands in a digest for a local file or folder."""
    # Read by SentenceTransformer: the name decides nothing.
    if path.startswith("st:"):
        return f"st:{checksum}"
    if path.endswith(OWN_FILES):  # the name of a file is that of its dataset, in metrics and tables
        return f"{Path(path).name} {checksum}"
    # [CLS] is also what an encoder without a published name is evaluated by.
    reading = published_entry(path)
    if reading is None or reading["pooling"] == "cls":
        return checksum
    return f"{checksum} read as {reading['name']}"


def _rename(value: Any, names: dict[str, str]) -> Any:
    """Return a setting's value with each path replaced by its name in the digest."""
    if isinstance(value, dict):
        return {_rename(key, names): _rename(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [_rename(part, names) for part in value]
    return names.get(value, value)


def published_entry(name: str) -> Values | None:
    """Return how a published checkpoint is read, None for an unknown hub id or folder.

    Only the last part of a path counts, or the repository in a hub cache
    (models--owner--name/snapshots/...)."""
    repository = Path(name).name
    for part in Path(name).parts:
        if part.startswith("models--"):
            repository = part.rpartition("--")[2]
    for entry in PUBLISHED["reading"]:
        if re.search(entry["name"], repository.lower()):
            return entry
    return None


def read_value(value: Any, annotation: Any) -> Any:
    """Read the text of a setting: "none", lists and JSON; pydantic reads numbers and truth values.

    Commands, sweeps, their files and notebooks all read values here, so that a text means the same
    in each."""
    kinds = {get_origin(kind) or kind for kind in (annotation, *get_args(annotation))}
    if isinstance(value, bool) and bool not in kinds:
        return str(value)  # pydantic reads True as 1, and refuses "True" as a number
    if not isinstance(value, str):
        return value
    if type(None) in kinds and value.lower() in ("none", "null", ""):
        return None
    if not kinds & {list, dict}:
        return value
    # A text that is no JSON may be a list as people write it, such as a,b.
    try:
        content = json.loads(value, object_pairs_hook=unique_keys)
    except json.JSONDecodeError:
        content = value
    if list in kinds and not isinstance(content, list):
        # a,b or [a,b] or ['a','b']
        bare = value[1:-1] if value[:1] + value[-1:] == "[]" else value
        return [part.strip().strip("\"'") for part in bare.split(",") if part.strip()]
    return content


def unique_keys(pairs: Iterable[tuple[str, Any]]) -> Values:
    """Return the pairs as a dictionary. Raises SettingError for a key that is given twice."""
    content = {}
    for name, value in pairs:
        if name in content:
            raise SettingError(f"{name} is given twice; keep one of them")
        content[name] = value
    return content


def read_parameter(name: str, value: Any, kind: Any) -> Any:
    """Read a notebook's parameter as its kind.

    The option -p of papermill leaves "false", lists and JSON as text."""
    try:
        return TypeAdapter(kind).validate_python(read_value(value, kind))
    except ValidationError:
        raise SettingError(
            f"{name}={value!r} cannot be read as {kind.__name__}; with papermill give it as YAML, "
            f"-y '{name}: ...', or a text by -r"
        ) from None


def setting_text(value: Any) -> str:
    """Return a setting's value as text that is read back to the last digit.

    Any other value would be another run."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    # Commas alone are easier to type in a shell, unless a part contains one.
    if isinstance(value, list) and value:
        joined = ",".join(map(str, value))
        if read_value(joined, list) == value:
            return joined
    return json.dumps(value).removesuffix(".0")


def _split_text(field: FieldInfo) -> tuple[str, str, str]:
    """Return unit, meaning and source of a setting, from the text under it."""
    text = " ".join((field.description or "").split())
    unit, meaning, source = _TEXT.findall(text)[0]
    return unit, meaning, source or "our choice"


def _describe_schema(schema: Values) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(map(_describe_schema, schema["anyOf"]))
    if inner := schema.get("items") or schema.get("additionalProperties"):
        return f"{schema['type']} of {_describe_schema(inner)}"
    signs = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    limits = [f"{sign} {schema[key]}" for key, sign in signs.items() if key in schema]
    kind = schema["type"].replace("null", "none")
    return f"{kind} {' and '.join(limits)}".strip()
