"""Find the roles of a user's columns and the range of the scores, as stated or guessed."""

import math
import re
from collections import Counter
from dataclasses import replace

from workbench.data._catalogue import TABLES, DataSet, Kind
from workbench.data._tables import Roles, Table, to_number
from workbench.errors import DataError, require_known
from workbench.files import Facts, fill_template

Columns = Roles | None  # as a user chose
Scale = tuple[float, float] | None
Matches = dict[str, list[str]]  # role -> the columns that may have it, best first

# Kind -> role -> the usual names of its column; the kind with the most roles comes first.
ROLES = TABLES["columns"]
# As in "similarity (0-5)", "score (0 to 5)" or "grade (0, 1, 2, 3)".
_STATED_SCALE = re.compile(
    r"\(\s*(-?[\d.]+(?:e[-+]?\d+)?)(?:\s*,\s*[\d.]+)*"
    r"\s*(?:to|-|–|,)\s*(-?[\d.]+(?:e[-+]?\d+)?)\s*\)"
)
# Names of columns that are neither a text nor a score, unless a user says so: they number or
# identify the rows, as pandas and spreadsheets write it; they are facts of a row; or they are
# larger for what is further. A range or a sign may follow ("#", "Nr.").
NO_ROLE = re.compile(
    r"""(?xi) ((.*[\W_])?((row|pair|query|question|prompt|doc|q)?(idx?|index|nr|no|number)|[dpqsu]id
        | \w*[a-z](?-i:Id))\d*
    | (row|pair|level_\d+|unnamed.*|__index_level.*)?
    | (.*[\W_])?(year|month|day|date|time(stamp)?|fold|split|seed|cluster|group|topic)
    | (.*[\W_])?(len(gth)?|count|vote|price|age|size)s?
    | (.*[\W_])?(dist(ance)?|rank(ing)?|position|error|loss(es)?|perplexity)s?
    )(\s*\(.*\))?[\W_]*"""
)
# What pandas makes of a list, of texts or of dictionaries, of a dictionary and of bytes.
_LIST_AS_TEXT = re.compile(r"""(?sx) \[\s*(['"{].*['"}])?\s*\] | \{['"].*\} | b'.*' | b".*\"""")


def kinds_of_table(table: Table, chosen: Columns = None) -> tuple[Kind, ...]:
    """Return every kind that a table can be read as, the fullest first.

    Raises DataError if there is none."""
    matches = {kind: match_columns(kind, table, chosen) for kind in ROLES}
    kinds = [kind for kind in ROLES if all(matches[kind].values())]
    # Last, because here no name says that these are pairs.
    if "pairs" not in kinds and all(_guess_texts(table, matches["pairs"]).values()):
        kinds.append("pairs")
    if not kinds:
        # A file of one column of texts holds sentences.
        fitting = ["sentences", *ROLES] if len(_texts_of(table)) < 2 else [*ROLES]
        nearest = max(fitting, key=lambda kind: sum(map(bool, matches[kind].values())))
        raise _missing_columns(table, nearest, matches[nearest])
    kinds.sort(key="triplets".__ne__)  # no score says more than a negative
    # Lists of positives and negatives are triplets, whatever other columns there are.
    if "triplets" in kinds:
        roles = _best_columns(matches["triplets"])
        if table.has_lists(roles["positive"], roles["negative"]):
            return ("triplets",)
    return tuple(kinds)


def read_roles(
    name: str, kind: Kind | None, table: Table, chosen: Columns, scale: Scale
) -> tuple[DataSet, Table, str]:
    """Return a user's table with an entry as in the catalogue, and a note of what was guessed.

    kind: By default the fullest that the columns allow."""
    kind = kind or kinds_of_table(table, chosen)[0]
    require_known("kind", kind, ROLES, "of your own files")
    matches = match_columns(kind, table, chosen)
    if kind == "pairs":
        matches = _guess_texts(table, matches)
    if not all(matches.values()):
        raise _missing_columns(table, kind, matches)
    roles = _best_columns(matches)
    chosen_columns = {*(chosen or {}).values()}
    table.require(roles)
    for role, column in roles.items():
        rivals = matches[role]
        most_usual = ROLES[kind][role][:3]
        if role == "score":
            # A score beside a label or a similarity may be what a system gave.
            rivals = [column, *filter(table.is_numeric, rivals[1:])]
            most_usual = ["gold"]
        # A most usual name is surely meant, whatever else may be.
        if len(rivals) > 1 and plain_name(column) not in most_usual:
            several = " or ".join(map(repr, rivals))
            raise DataError(
                f"{table.where}: {role} could be {several}; choose with --columns {role}=NAME"
            )
        first = next(filter(None, table.columns[column]), "")
        if _LIST_AS_TEXT.fullmatch(first) and not table.has_lists(column):
            raise DataError(
                f"{table.where}: {column} has {first:.40} where a text should be; write one text "
                "in a cell, or save it as .jsonl or .parquet with lists of texts"
            )
        # Texts may well be numbers, if you say that they are texts.
        if role != "score" and column not in chosen_columns and table.is_numeric(column):
            raise DataError(
                f"{table.where}: {column} has a number in every row; if these are the texts, or "
                f"another column has them, say so: --columns {role}=NAME"
            )
    notes = [f"{role} = {column}" for role, column in roles.items() if role != column]
    facts = {}
    if kind == "triplets":
        table = table.combine_lists(roles["positive"], roles["negative"])
    if kind == "pairs":
        facts, table, note = _read_scores(
            roles, table, scale, is_chosen=roles["score"] in chosen_columns
        )
    else:
        if scale is not None:
            raise DataError(
                f"{table.where}: it is read as {kind}, which have no scores; leave out scale"
            )
        unread = [column for column in table.columns if column not in roles.values()]
        note = f"not read: {', '.join(unread)}" if unread else ""
    notes += [note, table.note]
    entry = DataSet(name, kind, "your own", (table.where,), "your own", roles, **facts)
    return entry, table, ", ".join(filter(None, notes))


def plain_name(name: str) -> str:
    """Return the name of a column without case, signs and a stated range, as in `ROLES`."""
    return re.sub(r"[\W_]", "", _STATED_SCALE.sub("", name).casefold())


def _best_columns(matches: Matches) -> dict[str, str]:
    return {role: columns[0] for role, columns in matches.items() if columns}


def match_columns(kind: Kind, table: Table, chosen: Columns) -> Matches:
    """Return the columns that may have each role; none if a chosen role is not of this kind."""
    # A role may be called by any of its usual names.
    named = {plain_name(role): column for role, column in (chosen or {}).items()}
    taken = set(named.values())
    plain = {column: plain_name(column) for column in table.columns}
    matches = {}
    for role, names in ROLES[kind].items():
        given = [name for name in names if name in named]
        if given:
            matches[role] = [named.pop(given[0])]
            continue
        free = [column for column in plain if column not in taken]
        columns = [column for name in names for column in free if plain[column] == name]
        # "text" and "sentence" are a side of a pair only if another column is clearly its other.
        companions = TABLES["companions"].get(role, [])
        if not columns and not set(companions).isdisjoint(plain.values()):
            columns = [column for column in free if plain[column] in ("text", "sentence")]
        # "sent1" is a usual name of both sides: the first role that it fits takes it.
        matches[role] = columns
        taken.update(columns[:1])
    return {role: [] for role in matches} if named else matches


def _guess_texts(table: Table, matches: Matches) -> Matches:
    """Return the roles of pairs, of which the only two columns of texts may have any name.

    A score may not: no list of names excludes all that is larger for what is further."""
    texts = _texts_of(table)
    if not matches["score"] or len(texts) != 2:
        return matches
    # A text that is known to be second stands on the right.
    if texts[0] in matches["sentence2"] or texts[1] in matches["sentence1"]:
        texts.reverse()
    guess = {"sentence1": texts[:1], "sentence2": texts[1:]}
    return {role: columns or guess[role] for role, columns in matches.items()}


def _texts_of(table: Table) -> list[str]:
    """Return the columns that may be texts."""
    return [
        column
        for column in table.columns
        if not (NO_ROLE.fullmatch(column) or table.is_numeric(column))
    ]


def _missing_columns(table: Table, kind: Kind, matches: Matches) -> DataError:
    """Return an error with the columns of a table and the roles that none of them has."""
    known = _best_columns(matches)
    texts = iter([text for text in _texts_of(table) if text not in known.values()])
    guess = {role: next(texts, "NAME") for role in matches if role not in (*known, "score")}
    text = fill_template(
        "data/missing_columns.txt",
        table=table,
        kind=kind,
        roles=list(matches),
        known=known,
        columns=known | guess,
    )
    return DataError(text)


def _read_scores(
    roles: Roles, table: Table, scale: Scale, *, is_chosen: bool
) -> tuple[Facts, Table, str]:
    """Return the range or the classes of scores, a table that has them, and a note."""
    if scale is not None and not (len(scale) == 2 and -math.inf < scale[0] < scale[1] < math.inf):
        raise DataError(
            f"scale is {scale}: give the lowest score, then the highest, such as (0, 5) or --scale "
            "0 5"
        )
    column = roles["score"]
    # An empty cell has no label, like the "-" of SNLI.
    labels = [text.strip().casefold() or "-" for text in table.columns[column]]
    counts = Counter(labels)

    def count(classes):
        return sum(map(counts.__getitem__, classes))

    classes = max(TABLES["guess"]["classes"], key=count)
    # Most of them are enough: one that is no class is refused later, with its line.
    if 2 * count(classes) > len(labels) - counts["-"]:
        if scale is not None:
            raise DataError(
                f"{table.where}: classes have the scale of their order; leave out scale"
            )
        facts = {"classes": classes, "unlabelled": "-", "scale": (0.0, len(classes) - 1.0)}
        table = replace(table, columns=table.columns | {column: labels})
        return facts, table, f"classes {' < '.join(classes)}"
    numbers = table.numbers(column)
    stated = _STATED_SCALE.search(column)
    if stated and scale is None:
        low, high = map(to_number, stated.groups())
        scale = (low, high) if low < high else None
    if not is_chosen and not stated and _are_numbered_classes(roles, set(numbers)):
        raise DataError(
            f"{table.where}: {column} holds classes as numbers, and most published files count "
            "from 0 = entailment; write the words (or triplets: docs/own-data.md); if larger is "
            f"closer, --columns score={column} says so"
        )
    # A cell without a number is refused later, with its line.
    if scale is not None or any(map(math.isnan, numbers)):
        return {"scale": scale}, table, ""
    values = sorted(set(numbers))
    low = values[0]
    high = values[-1]
    if low == -1 and high > 1 and values[1] >= 0:
        raise DataError(
            f"{table.at(numbers.index(-1))}: {column} is -1, which often means that there is no "
            f"score; drop such rows, or write the range into the name: {column} (-1 to {high:g})"
        )
    scale = (low, high)
    # Whole numbers may be grades of any range: their own range is taken.
    if not all(map(float.is_integer, values)):
        scale = _guess_scale(low, high)
    note = "scale {:g} to {:g} is a guess from gold of {:g} to {:g}".format(*scale, low, high)
    return {"scale": scale}, table, note


def _are_numbered_classes(roles: Roles, values: set[float]) -> bool:
    """Return whether scores are the classes of natural language inference as numbers.

    The lowest of these is often the closest. Without a premise, labels of 0 and 1 are those of
    paraphrases (1 = similar), labels of -1 and 1 are similar or not, and labels of a query are
    grades of relevance."""
    if not values <= {-1, 0, 1, 2, 3}:
        return False
    first = plain_name(roles["sentence1"])
    if first == "premise":
        return True
    name = plain_name(roles["score"])
    is_query = first in ("query", "question", "question1")
    return "label" in name and not is_query and not values <= {0, 1} and values != {-1, 1}


def _guess_scale(low: float, high: float) -> tuple[float, float]:
    """Return the first usual scale that contains scores from low to high, otherwise these."""
    for lowest, highest in TABLES["guess"]["scales"]:
        # A scale that begins elsewhere, such as 1 to 5, only if its lowest score occurs.
        if lowest <= low and high <= highest and lowest in (low, 0, -1):
            return lowest, highest
    return low, high
