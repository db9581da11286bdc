"""What every configuration shares: documented settings, profiles, clear refusals, a table and a digest."""

import functools
import html
import inspect
import json
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import pydantic
from annotated_types import Ge, Gt, Lt
from pydantic.fields import FieldInfo

from workbench.errors import SettingError, unknown_name
from workbench.files import OWN_FILES, checkpoint_checksum, file_checksum, text_checksum

if TYPE_CHECKING:
    import pandas as pd  # as long to load as all that a refusal needs

# What transformers, sentence-transformers and the papers' code call what has another name here.
ELSEWHERE = {
    **dict.fromkeys(("model_name_or_path", "model_name", "model", "pretrained_model_name_or_path"), "encoder"),
    **dict.fromkeys(("max_seq_length", "max_length", "max_len"), "max_tokens"),
    **dict.fromkeys(("num_train_epochs", "num_epochs", "n_epochs"), "epochs"),
    **dict.fromkeys(("warmup_ratio", "warmup_steps", "warmup_proportion"), "warmup, a share of all steps"),
    **dict.fromkeys(("per_device_train_batch_size", "train_batch_size", "bs"), "batch_size, of all processes together"),
    **dict.fromkeys(("lr", "optimizer_params"), "learning_rate"),
    **dict.fromkeys(("temp", "tau", "simcse_temp"), "temperature"),
    **dict.fromkeys(("pooler_type", "pooling_mode", "pooler"), "pooling"),
    **dict.fromkeys(("train_file", "train_dataset", "dataset_name"), "train"),
    **dict.fromkeys(("eval_dataset", "validation_file", "evaluator"), "dev, or suites for what is reported"),
    **dict.fromkeys(("evaluation_steps", "eval_strategy"), "eval_steps"),
    **dict.fromkeys(("fp16", "bf16", "use_amp"), "precision=fp16 or precision=bf16"),
    **dict.fromkeys(("gradient_accumulation_steps", "mini_batch_size"), "chunk_size, which keeps all negatives"),
    **dict.fromkeys(("max_train_samples", "num_train_samples"), "train_limit"),
    **dict.fromkeys(("no_cuda", "use_cpu"), "device=cpu"),
    "early_stopping_patience": "patience",
    "hidden_dropout_prob": "dropout",
    "logging_steps": "log_steps",
    "mlp_only_train": "mlp, which is never part of the saved encoder",
    "output_dir": "the option --runs",
    "output_path": "the option --runs",
    "report_to": "track",
    "n_gpu": "processes",
    "nproc_per_node": "processes",
}

# Not typing.Self: beartype, which checks annotations in the tests, takes it only where it decorates the whole class.
SomeSettings = TypeVar("SomeSettings", bound="Settings")


@dataclass(frozen=True)
class Source:
    """Where a paper, or its code, gives the value of a setting; a setting without one is this project's choice."""

    text: str


@dataclass(frozen=True)
class Unit:
    """What a setting counts."""

    text: str


Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Ge(0), Lt(1)]
Count = Annotated[int, Ge(1)]


class Settings(pydantic.BaseModel):
    """Immutable, self-validating settings; every default stands once, in a class of this kind, and nowhere else.

    The text under a setting is its meaning; its annotation says what is allowed, its unit and its source.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
        validate_default=True,
    )

    method: ClassVar[str] = ""
    # Profile name -> the settings in which it differs from the defaults of the fields.
    profiles: ClassVar[dict[str, dict[str, Any]]] = {}
    # What says where or how, not what is computed: two runs that differ in these alone share a digest.
    outside_digest: ClassVar[frozenset[str]] = frozenset({"profile", "seed", "device", "processes"})
    # Settings that came after runs had been made: at their default they do not count, so that those keep their names.
    added: ClassVar[frozenset[str]] = frozenset()

    profile: str = "paper"
    """which set of values the settings start from"""
    seed: Annotated[int, Ge(0), Lt(2**31)] = 0
    """every random generator derives from it"""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _start_from_profile(cls, values: Any) -> Any:
        """Read a configuration that names no profile as changes of the default one."""
        if not isinstance(values, dict) or "profile" in values:
            return values
        return cls.profiles.get(cls.model_fields["profile"].default, {}) | values

    @classmethod
    def profile_values(cls, profile: str, encoder: str | None = None) -> dict[str, Any]:
        """Return what a profile sets; a method may make it depend on the start."""
        return cls.profiles.get(profile, {})

    @classmethod
    def from_profile(cls: type[SomeSettings], profile: str, *, seed: int = 0, **changes: Any) -> SomeSettings:
        """Return the settings of `profile` with `changes`: SimCSEConfig.from_profile("demo", temperature=0.07)."""
        return cls.from_parameters(profile, seed, changes)

    @classmethod
    def from_parameters(
        cls: type[SomeSettings], profile: str = "demo", seed: int = 0, overrides: dict[str, Any] | None = None
    ) -> SomeSettings:
        """The settings of `profile`, with `seed` and `overrides` (setting name -> value) on top.

        Text is read as the type of its setting ("0.07", "false", "none", "[1, 2]"), as it comes from a command line.
        Raises SettingError on an unknown profile or setting (with a suggestion) and on a value that is not allowed.
        """
        if not isinstance(profile, str) or profile not in cls.profiles:
            raise SettingError(unknown_name("profile", profile, cls.profiles, f"of {cls.method or cls.__name__}"))
        if overrides is None:
            overrides = {}
        if not isinstance(overrides, dict):
            raise SettingError(f'overrides: got {overrides!r}; give a dictionary such as {{"temperature": 0.07}}')
        for name in overrides:
            if name in ("profile", "seed"):
                raise SettingError(
                    f"{name!r} is no setting: give --{name} {overrides[name]} to a command, {name}= in code"
                )
            if name not in cls.model_fields:
                where = f"in {cls.method or cls.__name__}"
                raise SettingError(unknown_name("setting", name, cls.model_fields, where, ELSEWHERE))
        given = {name: _read_text(name, value, cls.model_fields[name].annotation) for name, value in overrides.items()}
        start = cls.profile_values(profile, given.get("encoder"))
        config = cls.model_validate_settings({**start, **given, "profile": profile, "seed": seed})
        if "encoder" in given and "encoder" in config.changed():  # what the profile says of its own is not said of it
            config.model_fields_set.difference_update(start.keys() - given.keys())
        return config

    @classmethod
    def model_validate_settings(cls: type[SomeSettings], values: dict[str, Any]) -> SomeSettings:
        """The settings by name, as a run's config.json holds them; SettingError where one does not fit."""
        try:
            return cls(**values)
        except pydantic.ValidationError as error:
            raise SettingError(_explain(error, cls)) from None

    def digest(self) -> str:
        """Eight hexadecimal digits that name what is computed; seed, profile, device and processes do not count.

        A file of the user's own counts by its name and content, a folder by the content of the encoder in it: the same
        files elsewhere give the same digest, other content at the same place gives another. Bundled names and those of
        the hub or the catalogue count as they are. Raises SettingError when a file or folder is not there.
        """
        content = _by_content(self._computed(), self.contents())
        return text_checksum(json.dumps([self.method, content], sort_keys=True))[:8]

    def contents(self) -> dict[str, str]:
        """Path -> sha256 of every file and folder of the user's own that the settings name."""
        found: dict[str, str] = {}
        for name, texts in self.paths().items():
            for text in texts:
                try:
                    path = Path(text)
                    if path.exists() and not path.is_dir() and not path.is_file():  # reading would never end
                        raise SettingError(f"{name}: {text} is no regular file (a pipe or a device); give a file")
                    found[text] = checkpoint_checksum(path) if path.is_dir() else file_checksum(path)
                except OSError as problem:
                    raise SettingError(
                        f"{name}: there is no folder or file {text!r} ({problem.strerror}); give one that is there"
                    ) from None
        return found

    def paths(self) -> dict[str, list[str]]:
        """Setting -> the paths of the user's own, folders of runs too, that it names, whether they are there or not."""
        return {name: list(filter(_is_path, _texts(value))) for name, value in self._computed().items()}

    def naming(self, text: str) -> str | None:
        """The first setting in whose value `text` stands."""
        return next((name for name, value in self if text in _texts(value)), None)

    def _computed(self) -> dict[str, Any]:
        fields = type(self).model_fields
        unchanged = {name for name in self.added if getattr(self, name) == fields[name].default}
        return self.model_dump(mode="json", exclude={*self.outside_digest, *unchanged})

    def table(self) -> "pd.DataFrame":
        """One row a setting; `changed` marks what differs from its profile."""
        import pandas as pd

        rows, changed = [], self.changed()
        for name, field in type(self).model_fields.items():
            source = "given for this run" if name in changed else self._source_of(name, field)
            allowed = _allowed(field.annotation, field.metadata)
            value, unit = getattr(self, name), _mark(field, Unit)
            rows.append((name, value, unit, allowed, _meaning(field), source, name in changed))
        return pd.DataFrame(rows, columns=["setting", "value", "unit", "allowed", "meaning", "source", "changed"])

    def changed(self) -> dict[str, Any]:
        """Setting -> value, of those that are not as their profile has them."""
        start = _start_of(type(self), self.profile, str(Path.cwd()), getattr(self, "encoder", None))
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in ("seed", "profile")}
        return {name: value for name, value in values.items() if value != getattr(start, name)}

    def _source_of(self, name: str, field: FieldInfo) -> str:
        """A field's source speaks of its default and of the papers' other backbones, not of a profile of our own."""
        ours = name in self.profiles.get(self.profile, {}) and not self.profile.startswith("paper")
        return f"our choice for {self.profile!r}" if ours else _mark(field, Source) or "our choice"

    def _repr_html_(self) -> str:
        """The table as a notebook shows it, changed settings in bold; what every method shares is folded."""
        rows = self.table().to_dict("records")
        kept = {*self._own(), *self.profiles.get(self.profile, {})}
        shown = [row for row in rows if row["changed"] or row["setting"] in kept]
        folded = [row for row in rows if row not in shown]
        rest = f"<details><summary>{len(folded)} more, as in every method</summary>{_html_table(folded)}</details>"
        return _html_table(shown) + (rest if folded else "")

    @classmethod
    def _own(cls) -> set[str]:
        """The settings that a method adds to those of all, or changes of them; of other settings all."""
        below = cls.__mro__[: cls.__mro__.index(Settings) - 1]
        return {name for each in below for name in inspect.get_annotations(each)} or set(cls.model_fields)


@functools.lru_cache
def _start_of(cls: type[Settings], profile: str, _folder: str, encoder: str | None) -> Settings:
    """The settings of a profile; `_folder`: where one is, from where names of local folders are read."""
    return cls(**{**cls.profile_values(profile, encoder), "profile": profile})


def _html_table(settings: list[dict[Any, Any]]) -> str:
    rows = []
    for row in settings:
        texts = [row["setting"], f"{row['value']} {row['unit']}".strip(), row["meaning"], row["source"]]
        name, value, *rest = (html.escape(str(text)) for text in texts)
        rows.append([f"<b>{name}</b>", f"<b>{value}</b>", *rest] if row["changed"] else [name, value, *rest])
    # A folder's path is one long word, which may break anywhere; the name of a setting may not.
    widths = ("white-space:nowrap", "min-width:8em; overflow-wrap:anywhere", "min-width:16em", "min-width:8em")
    styles = [f"style='text-align:left; {width}'" for width in widths]
    titles = zip(styles, ("setting", "value", "meaning", "source"), strict=True)
    head = "".join(f"<th {style}>{title}</th>" for style, title in titles)
    cells = ["".join(f"<td {style}>{text}</td>" for style, text in zip(styles, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _mark(field: FieldInfo, kind: type[Source] | type[Unit]) -> str:
    return next((mark.text for mark in field.metadata if isinstance(mark, kind)), "")


def _meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _texts(value: Any) -> Iterable[str]:
    """Every text in a setting's value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _texts(item)


def _is_path(text: str) -> bool:
    """Whether a text is a path of the user's own: whole, as the settings keep it, or of a file that is not there."""
    return (Path(text).is_absolute() and "{sentence}" not in text) or text.endswith(OWN_FILES)


def _by_content(value: Any, contents: dict[str, str]) -> Any:
    """A setting's value with each path replaced by what lies there."""
    if isinstance(value, str) and value in contents:
        # The name of a file is that of its set, in metrics and tables.
        return f"{Path(value).name} {contents[value]}" if value.endswith(OWN_FILES) else contents[value]
    if isinstance(value, list):
        return [_by_content(item, contents) for item in value]
    if isinstance(value, dict):
        return {_by_content(key, contents): _by_content(item, contents) for key, item in value.items()}
    return value


def _read_text(name: str, value: Any, annotation: Any) -> Any:
    """Text from a command line as the setting's type wants it; anything else as it is."""
    members = typing.get_args(annotation) or (annotation,)
    if isinstance(value, bool) and bool not in members:  # pydantic alone would read the number 1
        raise SettingError(f"{name}: got {value!r} (bool); allowed: {_allowed(annotation)}")
    if not isinstance(value, str):
        return value
    optional = type(None) in members
    if optional and value.lower() in ("none", "null", ""):
        return None
    kinds = {typing.get_origin(a) or a for a in (members if optional else (annotation,))}
    if kinds & {list, dict, tuple}:
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value if dict in kinds else [part.strip() for part in value.split(",") if part.strip()]
    return value


def _allowed(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """What a field admits, in words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _allowed(arguments[0], arguments[1:])
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_allowed(argument, metadata) for argument in arguments)
    if origin in (list, dict):
        return f"{origin.__name__} of {' -> '.join(map(_allowed, arguments))}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    limits = [f"{sign} {getattr(item, key)}" for item in metadata for key, sign in signs.items() if hasattr(item, key)]
    name = words.get(annotation, str(annotation).replace("typing.", ""))
    return f"{name} {' and '.join(limits)}".strip() if annotation in (int, float) else name


def _explain(error: pydantic.ValidationError, cls: type[Settings]) -> str:
    """Every refused value of one validation, each on its line: given, allowed, meaning."""
    lines = []
    for item in error.errors():
        name = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "extra_forbidden":
            lines.append(unknown_name("setting", name, cls.model_fields, f"in {cls.method or cls.__name__}"))
        elif name in cls.model_fields and item["type"] != "value_error":
            field, given = cls.model_fields[name], item["input"]
            allowed = _allowed(field.annotation, field.metadata)
            kind = "" if isinstance(given, str) else f" ({type(given).__name__})"  # a command's values are all text
            lines.append(f"{name}: got {given!r}{kind}; allowed: {allowed} - {_meaning(field)}")
        else:
            lines.append(f"{name + ': ' if name else ''}{item['msg'].removeprefix('Value error, ')}")
    return "\n".join(lines)
