"""What the columns of a user's table mean: guessed by their names, or said; and on which scale their gold lies."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from workbench.data._catalogue import DataSet, Kind
from workbench.data._format import Table
from workbench.errors import DataError, SettingError

Said = Mapping[str, str] | None
_WHERE_SAID = (
    "(of `workbench data check`, and of `workbench data split`, whose files every command reads: one file of all rows "
    "with --dev 0 --test 0; in Python columns={...})"
)

_SENTENCE = "sentence text sent content utterance review comment"
# Kind -> role -> what its column is called, without case and signs. Of two columns that fit the earlier name is taken
# when it is among the first three, which are ours and SentEval's; else the user is asked.
NAMES: Mapping[Kind, Mapping[str, str]] = {
    "pairs": {
        "sentence1": "sentence1 sent0 sentencea text1 texta sent1 premise query anchor question1 question s1 source "
        "text sentence",
        "sentence2": "sentence2 sent2 sentenceb text2 textb sent1 hypothesis target passage document candidate "
        "answer positive question2 s2 textpair text sentence",
        "score": "score label gold similarity similarityscore relatedness relatednessscore sim rating grade "
        "relevance isduplicate goldlabel",
    },
    "triples": {
        "anchor": "sent0 anchor query premise question sentence",
        "positive": "sent1 positive pos entailment",
        "negative": "hardneg negative hardnegative neg contradiction",
    },
    "labelled": {"sentence": _SENTENCE, "label": "label class category topic intent sentiment"},
    "sentences": {"sentence": _SENTENCE},
}
# What is alone in other kinds is one of a pair only beside a column that is called as the other.
_ASKED = {"query", "question", "premise", "anchor"}
_BESIDE = {
    ("sentence1", "text"): {"textpair", "text2", "textb"},
    ("sentence1", "sentence"): {"sentence2", "sentenceb"},
    **dict.fromkeys((("sentence2", "text"), ("sentence2", "sentence")), _ASKED),
}
_CLASSES = (("contradiction", "neutral", "entailment"), ("false", "true"), ("no", "yes"))
_USUAL = ((0.0, 1.0), (-1.0, 1.0), (1.0, 5.0), (0.0, 5.0), (0.0, 10.0), (0.0, 100.0))
_STATED = re.compile(r"\(\s*(-?[\d.]+)\s*(?:to|-|–|,)\s*(-?[\d.]+)\s*\)")  # as in "similarity (0-5)"
_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")


def columns_said(text: str) -> dict[str, str]:
    """{"sentence1": "left", ...} from "sentence1=left,score=how close"; {} from ""."""
    if not text:
        return {}
    parts = [[half.strip() for half in part.partition("=")] for part in text.split(",")]
    if not all(role and column for role, _, column in parts):
        raise SettingError(f"--columns {text!r}: give ROLE=COLUMN,..., for example sentence1=left,score=grade")
    return {role: column for role, _, column in parts}


def kinds_of_columns(columns: Iterable[str], said: Said = None) -> tuple[Kind, ...]:
    """Every kind that a table with these columns can be read as, the fullest first."""
    names = list(columns)
    return tuple(kind for kind in NAMES if all(_candidates(kind, names, said).values()) and _fits(kind, said))


def roles_of(kind: Kind, table: Table, said: Said = None) -> dict[str, str]:
    """role -> column of a table to be read as `kind`; DataError where a role has no column, or two that fit as well."""
    names = list(table.columns)
    if not _fits(kind, said):
        raise DataError(f"{table.where}: columns for {', '.join(said or {})}; {kind} have {', '.join(NAMES[kind])}")
    for column in (said or {}).values():
        table.column(column)
    roles: dict[str, str] = {}
    for role, found in _candidates(kind, names, said).items():
        free = [name for name in found if name not in roles.values()]
        if not free:
            raise DataError(not_found(table.where, names, kind, role) + (f" ({table.note})" if table.note else ""))
        if len(free) > 1 and _plain(free[0]) not in NAMES[kind][role].split()[:3]:
            several = " or ".join(map(repr, free))
            raise DataError(f"{table.where}: {role} could be {several}; say which with --columns {role}=NAME")
        roles[role] = free[0]
    return roles


def not_found(where: str, columns: Sequence[str], kind: str = "", role: str = "") -> str:
    """The refusal of a table in which a role, or every kind, has no column."""
    shown = ", ".join(repr(name[:40]) for name in columns[:12])
    what = f"no column is called like a {role} of {kind}" if role else "its columns tell no kind of data"
    return f"{where}: {what}; they are {shown}. {_what_to_say(columns, kind)}"


def _what_to_say(columns: Sequence[str], kind: str) -> str:
    """How the user says what the columns are: what is missing of `kind`, for "" of the nearest kind."""
    kinds = {one: _candidates(one, columns, None) for one in NAMES if kind in ("", one)}
    kind, found = max(kinds.items(), key=lambda item: sum(map(bool, item[1].values())))
    known = [f"{role} = {names[0]}" for role, names in found.items() if names]
    if known:
        missing = ",".join(f"{role}=NAME" for role, names in found.items() if not names)
        return f"As {kind} they would be {', '.join(known)}; say the rest: --columns {missing or '...'} {_WHERE_SAID}"
    return (
        "Say which is which, as in --columns sentence1=NAME,sentence2=NAME,score=NAME (or anchor, positive, negative; "
        f"sentence, label) {_WHERE_SAID}; where line 1 of a file is no header, write one above it"
    )


def understood(
    name: str, kind: Kind, table: Table, said: Said = None, scale: tuple[float, float] | None = None
) -> tuple[DataSet, Table, str]:
    """The entry of a user's table as in the catalogue, the table with gold to be read, and in words what was guessed.

    Raises DataError for text that is in the place of numbers, or numbers in the place of text.
    """
    roles = roles_of(kind, table, said)
    for role, column in roles.items():
        if role not in ("score", "label"):
            _require_text(table, column)
    entry = DataSet(name, kind, "your own", (table.where,), "your own", _entry_roles(kind, roles))
    words = [f"{role} = {column}" for role, column in roles.items() if role != column]
    if kind == "labelled":
        entry = replace(entry, classes=_classes(table, roles))
        words.append(f"{len(entry.classes)} classes")
    if kind == "pairs":
        entry, table, said_of_gold = _with_gold(
            entry, table, roles["score"], scale, sure=roles["score"] in (said or {}).values()
        )
        words += said_of_gold
    elif unread := [column for column in table.columns if column not in roles.values()]:
        words.append(f"not read: {', '.join(unread)}")
    return entry, table, ", ".join(filter(None, [*words, table.note]))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _STATED.sub("", name).casefold())


def _fits(kind: Kind, said: Said) -> bool:
    """Whether every role that the user named is one of the kind."""
    return all(any(_plain(key) in names.split() for names in NAMES[kind].values()) for key in said or {})


def _candidates(kind: Kind, columns: Sequence[str], said: Said) -> dict[str, list[str]]:
    """role -> the columns that may have it, in the order of NAMES; the one that the user named, where he did."""
    found, there = {}, {_plain(column) for column in columns}
    for role, text in NAMES[kind].items():
        alone = {name: others for (one, name), others in _BESIDE.items() if one == role}
        free = [name for name, others in alone.items() if (role == "sentence1" if said else there & others)]
        names = [name for name in text.split() if name not in alone or name in free]
        named = [column for key, column in (said or {}).items() if _plain(key) in names and key not in found]
        like = [column for name in names for column in columns if _plain(column) == name]
        if role == "sentence2":  # what is called as one of a pair goes before what is only beside a query
            like = [column for column in like if _plain(column) not in alone] or like
        found[role] = named[:1] or [column for column in like if column not in (said or {}).values()]
    return found


def _entry_roles(kind: Kind, roles: Mapping[str, str]) -> dict[str, str]:
    """The roles by the names that the catalogue has for them."""
    ours = {"pairs": {"score": "gold"}, "triples": {"negative": "hard_negative"}}.get(kind, {})
    return {ours.get(role, role): column for role, column in roles.items()}


def _require_text(table: Table, column: str) -> None:
    values = table.column(column)
    if values and all(map(_is_number, values)):
        raise DataError(
            f"{table.where}: {column} holds numbers in every row; are columns swapped? --columns says which"
        )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def _classes(table: Table, roles: Mapping[str, str]) -> tuple[str, ...]:
    labels, sentences = set(table.column(roles["label"])), set(table.column(roles["sentence"]))
    if len(labels) > max(1, len(sentences)):
        raise DataError(
            f"{table.where}: {roles['label']} has {len(labels)} different labels for {len(sentences)} different "
            "sentences; are columns swapped? --columns says which"
        )
    if "" in labels:
        raise DataError(f"{table.at(table.column(roles['label']).index(''))}: {roles['label']} is empty; fill it in")
    return tuple(sorted(labels, key=lambda label: (float(label), "") if _is_number(label) else (0.0, label)))


def _with_gold(
    entry: DataSet, table: Table, column: str, scale: tuple[float, float] | None, *, sure: bool
) -> tuple[DataSet, Table, list[str]]:
    """Entry and table with a gold that can be read, and what was made of it; `sure`: the user named the column."""
    if scale is not None and scale[0] >= scale[1]:
        raise DataError(f"--scale {scale[0]:g} {scale[1]:g}: give the lowest gold first, then the highest")
    labels = table.column(column)
    words = [label.strip().casefold() for label in labels]
    classes = next((ordered for ordered in _CLASSES if {*words} - {"-"} <= {*ordered}), ())
    if classes:
        entry = replace(entry, classes=classes, unlabelled="-", scale=scale or (0.0, len(classes) - 1.0))
        return entry, _with_column(table, column, words), [f"classes {' < '.join(classes)}"]
    if not sure and _plain(entry.roles["sentence1"]) == "premise" and {*words} <= {"0", "1", "2", "-1"}:
        raise DataError(
            f"{table.where}: {column} counts classes, and most published files count from entailment, the closest, "
            f"as 0; write the words, or say --columns score={column} where larger is closer"
        )
    numbers, note = _with_points(table, column, labels)
    stated = _STATED.search(column)
    if scale is None and stated:
        scale = (float(stated[1]), float(stated[2]))
    scale, guess = (scale, "") if scale else guessed_scale(numbers)
    return replace(entry, scale=scale), _with_column(table, column, numbers), [note, guess]


def _with_column(table: Table, column: str, values: list[str]) -> Table:
    return replace(table, columns={**table.columns, column: values})


def _with_points(table: Table, column: str, labels: list[str]) -> tuple[list[str], str]:
    """Labels with a decimal point; DataError where a comma may as well set off thousands."""
    commas = [label for label in labels if "," in label]
    if not commas or not all(_COMMA.fullmatch(label) for label in labels):
        return labels, ""
    if all(_THOUSANDS.fullmatch(label) for label in commas):
        row = labels.index(commas[0])
        raise DataError(f"{table.at(row)}: {column} is {commas[0]!r}; is it thousands or decimals? write a point")
    return [label.replace(",", ".") for label in labels], "decimal commas"


def guessed_scale(labels: Sequence[str]) -> tuple[tuple[float, float] | None, str]:
    """The range of whole numbers, of others the smallest usual scale around them; and what to say of it."""
    try:
        gold = np.array(labels, dtype=np.float64)
    except ValueError:
        return None, ""  # the first of them is refused with its line
    if not len(gold) or not np.isfinite(gold).all():
        return None, ""
    own = (float(gold.min()), float(gold.max()))
    usual = [(low, high) for low, high in _USUAL if low <= own[0] and own[1] <= high and low in (own[0], 0.0, -1.0)]
    scale = own if (gold == np.round(gold)).all() or not usual else usual[0]
    return scale, f"scale {scale[0]:g} to {scale[1]:g} is a guess from gold of {own[0]:g} to {own[1]:g}"
