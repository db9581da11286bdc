"""Build data/ladders/ladders.all.tsv.gz from the two graded text files next to it, after checking
them.

    python data/build/ladders.py                 # check, then write the table
    python data/build/ladders.py --blind 7       # a sheet for a second, blind grading (seed 7)
    python data/build/ladders.py --agreement     # how well the two gradings agree
    python data/build/ladders.py --measure       # how word overlap, tf-idf and MiniLM rank them

ladders.txt contains every ladder with its first grades, ladders.second.txt the ladders drawn for
the second grading."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from ladders_measure import agreement, measure

FOLDER = Path(__file__).resolve().parents[1] / "ladders"
SOURCE, SECOND, TABLE = (
    FOLDER / "ladders.txt",
    FOLDER / "ladders.second.txt",
    FOLDER / "ladders.all.tsv.gz",
)
COLUMNS = ("query_id", "score", "score_second", "relation", "sentence1", "sentence2")
RELATIONS = (
    "paraphrase",
    "detail",
    "negation",
    "opposite",
    "agent",
    "object",
    "role_swap",
    "number",
    "time",
    "place",
    "manner",
    "modality",
    "same_topic",
    "word_sense",
    "unrelated",
)
TARGETS, WORDS, GRADES = 6, range(5, 21), tuple(step / 2 for step in range(11))
FIRST_EDITION = 126  # ladders; those after them were written later and are graded once
SECOND_SEED, SECOND_SHARE = 20, 3  # one ladder in three of the first edition, drawn by this seed


class LadderError(ValueError):
    """A ladder has a wrong format; the message names the ladder, the fault and the allowed
    values."""


@dataclass(frozen=True)
class Target:
    """One graded sentence of a ladder; relation is empty in a blind sheet."""

    score: float | None
    relation: str
    sentence: str


Ladders = dict[str, tuple[str, list[Target]]]  # query id -> (query, its six targets)


def read_ladders(path: Path, *, relations: bool = True) -> Ladders:
    """Parse the ladders of a file: an unindented line is a query, an indented one a target, #
    begins a comment."""
    ladders: Ladders = {}
    current = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        indented = line.startswith("  ")
        parts = line.strip().split(" ", 2 if indented and relations else 1)
        if len(parts) < 2 or (
            indented and (not current or parts[0] not in {"?", *(f"{g:g}" for g in GRADES)})
        ):
            raise LadderError(
                f"{path.name}, line {number}: {line!r} is neither 'query-id Query.' nor "
                "'  grade relation Target.' "
                "with a grade of 0, 0.5 .. 5"
            )
        if indented:
            score = None if parts[0] == "?" else float(parts[0])
            ladders[current][1].append(Target(score, parts[1] if relations else "", parts[-1]))
        elif parts[0] in ladders:
            raise LadderError(f"{path.name}, line {number}: the query id {parts[0]} is used twice")
        else:
            current = parts[0]
            ladders[current] = (parts[1], [])
    return ladders


def sentence_faults(sentence: str) -> list[str]:
    """Return the faults of a sentence as text; empty if there are none."""
    words = re.findall(r"[a-z']+", sentence.lower())
    checks = {
        "holds a character that is not printable ASCII": not (
            sentence.isascii() and sentence.isprintable()
        ),
        "holds a double space or a space before a mark": bool(re.search(r"  | [.,?!]", sentence)),
        "does not begin with a capital": not sentence[:1].isupper(),
        "does not end with one of . ? !": not re.search(r"[^.?!][.?!]$", sentence),
        "lacks a space after a mark": bool(re.search(r"[,.?!;:][A-Za-z]", sentence)),
        "repeats a word": any(a == b for a, b in pairwise(words)),
        f"does not have {WORDS[0]} to {WORDS[-1]} words": len(sentence.split()) not in WORDS,
    }
    return [fault for fault, found in checks.items() if found]


def check_ladder(query_id: str, query: str, targets: list[Target]) -> list[str]:
    """Return the faults of one ladder: size, grades, relations, texts, duplicates."""
    faults = [
        f"{s!r} {fault}"
        for s in (query, *(t.sentence for t in targets))
        for fault in sentence_faults(s)
    ]
    if not re.fullmatch(r"[a-z]+-\d\d", query_id):
        faults.append("its id is not of the form domain-07")
    if len(targets) != TARGETS:
        faults.append(f"has {len(targets)} targets, not {TARGETS}")
    faults += [
        f"has the relation {t.relation!r}, not one of {RELATIONS}"
        for t in targets
        if t.relation not in RELATIONS
    ]
    scores = [t.score for t in targets]
    if None in scores:
        return [*faults, "has a target without a grade"]
    known = [s for s in scores if s is not None]
    if len(set(known)) < 4 or max(known) < 4 or min(known) > 0.5:
        faults.append(
            f"has the grades {known}: at least 4 distinct ones from >= 4 down to <= 0.5 are needed"
        )
    return faults


def check_all(ladders: Ladders) -> None:
    """Raise LadderError with every fault of every ladder, if there are any."""
    faults = [
        f"{i}: {fault}"
        for i, (query, targets) in ladders.items()
        for fault in check_ladder(i, query, targets)
    ]
    texts = Counter(
        s.lower()
        for query, targets in ladders.values()
        for s in (query, *(t.sentence for t in targets))
    )
    faults += [f"{text!r} occurs {count} times" for text, count in texts.items() if count > 1]
    shapes: dict[tuple[tuple[float, str], ...], str] = {}
    for query_id, (_, targets) in ladders.items():
        shape = tuple(
            sorted((t.score if t.score is not None else -1.0, t.relation) for t in targets)
        )
        if shape in shapes:
            faults.append(
                f"{query_id} has the same grades and relations as {shapes[shape]}: vary "
                "one of the two"
            )
        shapes.setdefault(shape, query_id)
    if faults:
        raise LadderError("\n".join(faults))


def drawn(ladders: Ladders) -> list[str]:
    """Return the ids of the ladders for the second grading: a seeded third of the first edition, in
    file order."""
    first = sorted(list(ladders)[:FIRST_EDITION])
    chosen = set(random.Random(SECOND_SEED).sample(first, len(first) // SECOND_SHARE))
    return [query_id for query_id in ladders if query_id in chosen]


def blind_sheet(ladders: Ladders, seed: int) -> str:
    """Return the sheet for the second grader: ladders and targets shuffled, ? as grades, no
    relations."""
    order = random.Random(seed)
    ids = drawn(ladders)
    order.shuffle(ids)
    lines = [
        "# Second grading. Put a grade of 0, 0.5 .. 5 in the place of each ?; guideline: "
        "data/README.md."
    ]
    for query_id in ids:
        query, targets = ladders[query_id]
        sentences = sorted(t.sentence for t in targets)
        order.shuffle(sentences)
        lines += ["", f"{query_id} {query}", *(f"  ? {sentence}" for sentence in sentences)]
    return "\n".join(lines) + "\n"


def second_scores(ladders: Ladders, path: Path) -> dict[tuple[str, str], float]:
    """Return (query id, target) -> second grade; all targets of the drawn ladders are required, and
    no others."""
    second = read_ladders(path, relations=False)
    if set(second) != set(drawn(ladders)):
        wrong = sorted(set(second) ^ set(drawn(ladders)))
        raise LadderError(
            f"{path.name}: covers other ladders than those drawn (too many or missing: {wrong})"
        )
    scores: dict[tuple[str, str], float] = {}
    for query_id, (query, targets) in second.items():
        first_query, first_targets = ladders[query_id]
        if query != first_query or {t.sentence for t in targets} != {
            t.sentence for t in first_targets
        }:
            raise LadderError(
                f"{path.name}: the sentences of {query_id} differ from those of {SOURCE.name}"
            )
        for target in targets:
            if target.score is None:
                raise LadderError(f"{path.name}: {query_id} has no grade for {target.sentence!r}")
            scores[query_id, target.sentence] = target.score
    return scores


def table(ladders: Ladders, second: dict[tuple[str, str], float]) -> bytes:
    """Return the table as bytes before compression.

    The six targets are ordered by a hash of their text. The order is independent of grade and
    relation, so a method that scores all targets alike gains nothing from a stable sort."""
    rows = ["\t".join(COLUMNS)]
    for query_id, (query, targets) in ladders.items():
        for target in sorted(targets, key=lambda t: hashlib.sha256(t.sentence.encode()).digest()):
            again = second.get((query_id, target.sentence))
            grades = (f"{target.score:g}", "" if again is None else f"{again:g}")
            rows.append("\t".join((query_id, *grades, target.relation, query, target.sentence)))
    return ("\n".join(rows) + "\n").encode()


def build(source: Path = SOURCE, second: Path = SECOND) -> bytes:
    """Read and check the two text files; return the table as bytes before compression."""
    ladders = read_ladders(source)
    check_all(ladders)
    return table(ladders, second_scores(ladders, second))


def main(arguments: list[str] | None = None) -> None:
    """Run the commands of the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--blind", type=int, metavar="SEED", help="print a blind sheet, shuffled by SEED"
    )
    parser.add_argument(
        "--agreement", action="store_true", help="print the agreement of the two gradings"
    )
    parser.add_argument(
        "--measure", action="store_true", help="print how simple and real scorers rank the ladders"
    )
    chosen = parser.parse_args(arguments)
    if chosen.blind is not None:
        ladders = read_ladders(SOURCE)
        check_all(ladders)
        sys.stdout.write(blind_sheet(ladders, chosen.blind))
        return
    content = build()
    rows = [line.split("\t") for line in content.decode().splitlines()[1:]]
    if chosen.agreement:
        both = [row for row in rows if row[2]]
        first, second = (np.array([float(row[column]) for row in both]) for column in (1, 2))
        for name, value in agreement([row[0] for row in both], first, second).items():
            print(f"{name:36} {value:.3f}" if isinstance(value, float) else f"{name:36} {value}")
    if chosen.measure:
        print("\n".join(measure(rows)))
    if not (chosen.agreement or chosen.measure):
        TABLE.write_bytes(gzip.compress(content, mtime=0))
        print(f"{TABLE.name}: {len(rows)} pairs, {len({row[0] for row in rows})} queries")


if __name__ == "__main__":
    main()
