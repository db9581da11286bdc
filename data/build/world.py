"""Build the bundled world of sentences: 30,000 unlabelled lines and graded pairs in three splits.

python data/build/world.py --seed 0 --out data/world     # rebuild, byte for byte
python data/build/world.py --measure [--seed 1]          # simple similarities against gold
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from draw import Draw
from grammar import wording
from lexicon import DOMAINS
from meaning import ANYONE, WEIGHTS, Frame, World, fit_trait, gold

LINES = 30_000
QUERIES = {"train": 600, "dev": 250, "test": 250}
PAIR_COLUMNS = ("query_id", "score", "sentence1", "sentence2", "relation")
CHANGES = (("one change", 1), ("two changes", 2), ("three changes", 3))
# How often a slot is the one that changes: the core of the meaning before its details.
CHANGE_WEIGHTS = {
    "what": 3,
    "whom": 3,
    "who": 3,
    "where": 1.5,
    "when": 1,
    "how": 1,
    "who_trait": 1,
    "whom_trait": 1,
}


@dataclass(frozen=True)
class Pair:
    """A query and one of its targets."""

    query_id: str
    score: float
    sentence1: str
    sentence2: str
    relation: str


def changed_slots(frame: Frame, count: int, draw: Draw) -> list[str]:
    """Return `count` different slots to change."""
    slots = [slot for slot in WEIGHTS if not (slot == "how" and frame.negated)]
    chosen: list[str] = []
    for _ in range(count):
        left = [slot for slot in slots if slot not in chosen]
        chosen.append(draw.weighted(left, [CHANGE_WEIGHTS[slot] for slot in left]))
    return sorted(chosen, key=slots.index)


def twist(world: World, frame: Frame, draw: Draw) -> tuple[str, Frame]:
    """Return a target that misleads word overlap: negated, with swapped roles, or another event in
    the same setting."""
    if frame.whom.kind == "people":
        traits = {"who_trait": frame.whom_trait, "whom_trait": frame.who_trait}
        return "swap", replace(frame, who=frame.whom, whom=frame.who, **traits)
    if draw.chance(0.5):
        return "negation", replace(frame, negated=not frame.negated, how=None)
    other = elsewhere(world, frame, draw)
    who = frame.who if frame.who in ANYONE else other.who
    setting = {
        "when": frame.when,
        "who_trait": frame.who_trait,
        "whom_trait": frame.whom_trait,
        "negated": frame.negated,
    }
    return "decoy", fit_trait(replace(other, who=who, **setting))


def elsewhere(world: World, frame: Frame, draw: Draw) -> Frame:
    """Return a frame of another domain."""
    return world.frame(
        draw, draw.pick([domain.name for domain in DOMAINS if domain.name != frame.domain])
    )


def targets(world: World, frame: Frame, draw: Draw) -> list[tuple[str, Frame]]:
    """Return the seven targets of a query, as relation and meaning, from the closest to the
    furthest."""
    found = [("paraphrase", frame)]
    for relation, count in CHANGES:
        found.append((relation, world.change(frame, changed_slots(frame, count, draw), draw)))
    found.append(twist(world, frame, draw))
    found.append(("topic", world.frame(draw, frame.domain)))
    found.append(("unrelated", elsewhere(world, frame, draw)))
    return found


def build_pairs(world: World, owner: dict[Frame, str], split: str, queries: int) -> list[Pair]:
    """Return the pairs of one split. `owner` maps each meaning to its split: no two splits share
    one."""
    draw = Draw("pairs", world.seed, split)
    pairs: list[Pair] = []
    queried: dict[Frame, None] = {}
    while len(queried) < queries:
        frame = world.frame(draw)
        graded = targets(world, frame, draw)
        meanings = [meaning for _, meaning in graded]
        if frame in queried or any(owner.get(meaning, split) != split for meaning in meanings):
            continue
        query = wording(frame, draw)
        said = [query]
        for _, meaning in graded:
            line = wording(meaning, draw)
            while line in said:
                line = wording(meaning, draw)
            said.append(line)
        query_id = f"{split}-{len(queried):04d}"
        queried[frame] = None
        owner.update((meaning, split) for meaning in meanings)
        for (relation, meaning), line in zip(graded, said[1:], strict=True):
            pairs.append(Pair(query_id, gold(frame, meaning), query, line, relation))
    return pairs


def build(seed: int, lines: int = LINES) -> tuple[list[str], dict[str, list[Pair]]]:
    """Return (unlabelled lines, pairs by split). No line is a sentence of a pair, and no line
    occurs twice."""
    world = World(seed)
    owner: dict[Frame, str] = {}
    pairs = {split: build_pairs(world, owner, split, count) for split, count in QUERIES.items()}
    known = {
        text
        for rows in pairs.values()
        for pair in rows
        for text in (pair.sentence1, pair.sentence2)
    }
    draw = Draw("lines", seed)
    corpus: list[str] = []
    while len(corpus) < lines:
        line = wording(world.frame(draw), draw)
        if line not in known:
            known.add(line)
            corpus.append(line)
    return corpus, pairs


def tsv(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> bytes:
    """Return one header line, then one line per row, with fields separated by one tab and nothing
    quoted."""
    return "".join("\t".join(row) + "\n" for row in (columns, *rows)).encode()


def contents(seed: int) -> dict[str, bytes]:
    """Return the decompressed files of the world, by name."""
    corpus, pairs = build(seed)
    files = {"world_sentences.tsv.gz": tsv(["sentence"], ([line] for line in corpus))}
    for split, rows in pairs.items():
        cells = ([p.query_id, f"{p.score:.1f}", p.sentence1, p.sentence2, p.relation] for p in rows)
        files[f"world.{split}.tsv.gz"] = tsv(PAIR_COLUMNS, cells)
    return files


def write(seed: int, out: Path) -> None:
    """Write the files of `contents`; the archives contain no time stamp, so their checksums are
    stable."""
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents(seed).items():
        (out / name).write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
        print(f"{out / name}: {len(content.splitlines()) - 1} rows")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "world")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="print the agreement of known similarities, write nothing",
    )
    arguments = parser.parse_args()
    if arguments.measure:
        from world_measure import measure

        measure(*build(arguments.seed))
    else:
        write(arguments.seed, arguments.out)


if __name__ == "__main__":
    main()
