"""Run controls for the results on the bundled world, one table for each result.

    python experiments/controls.py [--runs runs] [--only gold halves ...] [--seeds 3]

Each row changes some of the demo settings; dev selects the checkpoint. Prints Spearman x 100 on
test, and the difference to the first row of the table, paired by seed: its mean and 95 % interval
over seeds. Finished runs under --runs are reused."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from methods import fill_placeholder, trained_run

from workbench.config import CONFIGS
from workbench.data import Pairs, load_pairs, load_sentences
from workbench.files import write_text
from workbench.methods import METHODS
from workbench.methods.rankcse import RankCSE
from workbench.metrics import seed_interval
from workbench.runs import Run
from workbench.views.run_tables import format_spread

OWN = {"teachers": ["<SimCSE>"]}
LISTMLE = OWN | {"ranking": "listmle", "student_temperature": 0.05}
LISTS = {"ranking": "cosent"}
LONG = {"max_steps": 600}
SPANS = {"subsampling": "spans", "keep_sentences": False}
SHUFFLED = "shuffled teacher"  # in a label: the teacher's embeddings are permuted
Row = tuple[str, str, dict[str, Any]]
TABLES: dict[str, list[Row]] = {
    "seeds": [
        ("SimCSE", "simcse", {}),
        ("RankCSE without its ranking loss", "rankcse", {"gamma": 0}),
        ("RankCSE, ListNet, taught by its SimCSE", "rankcse", OWN),
    ],
    "tau_3": [
        (
            f"tau_3 {tau:g}, tau_2 {2 * tau:g}",
            "rankcse",
            OWN | {"teacher_temperature": tau, "student_temperature": 2 * tau},
        )
        for tau in (0.0125, 0.05, 0.1)
    ],
    "shuffled": [
        ("RankCSE taught by world-teacher", "rankcse", {}),
        (f"world-teacher as {SHUFFLED}", "rankcse", {}),
        ("RankCSE taught by its SimCSE", "rankcse", OWN),
        (f"its SimCSE as {SHUFFLED}", "rankcse", OWN),
    ],
    "listmle": [
        ("SimCSE", "simcse", {}),
        ("ListMLE with the positive", "rankcse", LISTMLE),
        ("ListMLE without it", "rankcse", LISTMLE | {"positive": "dropped"}),
        (
            "ListMLE without it, gamma 1/63",
            "rankcse",
            LISTMLE | {"positive": "dropped", "gamma": 1 / 63},
        ),
    ],
    "gold": [
        ("CoSENT", "cosent", {}),
        ("CoSENT, gold cubed", "cosent", {"train": "<cubed>"}),
        ("MSE", "cosent", {"objective": "mse"}),
        ("MSE, gold cubed", "cosent", {"objective": "mse", "train": "<cubed>"}),
    ],
    "lists": [
        ("ListNet, 200 steps", "rankcse", {}),
        ("CoSENT on lists, scale 5, 200 steps", "rankcse", LISTS | {"cosent_scale": 5.0}),
        ("CoSENT on lists, scale 20, 200 steps", "rankcse", LISTS),
        ("CoSENT on lists, scale 80, 200 steps", "rankcse", LISTS | {"cosent_scale": 80.0}),
        ("ListNet, 600 steps", "rankcse", LONG),
        ("CoSENT on lists, scale 5, 600 steps", "rankcse", LISTS | LONG | {"cosent_scale": 5.0}),
        ("CoSENT on lists, scale 20, 600 steps", "rankcse", LISTS | LONG),
    ],
    "halves": [
        ("CompCSE, halves", "compcse", {}),
        ("CompCSE, two random subsets of the words", "compcse", SPANS | {"spans": "<subsets>"}),
        ("SimCSE", "simcse", {}),
    ],
    "mixed": [
        ("RankCSE taught by world-teacher", "rankcse", {}),
        ("CompCSE", "compcse", {}),
        ("mixed: composed positives, taught by world-teacher", "mixed", {}),
        (
            "mixed: the same with rank lists of its SimCSE",
            "mixed",
            {"rank_lists": 1.0, "base": "<SimCSE>", "corpus_size": 10_000},
        ),
        (
            "mixed: composed positives, rank similarities of its SimCSE summed with weight 100",
            "mixed",
            {"gamma": 0.0, "rank_weight": 100.0, "base": "<SimCSE>", "corpus_size": 10_000},
        ),
    ],
}
SEEDS = {"seeds": 8}


class ShuffledTeacher(RankCSE):
    """RankCSE whose teacher returns the embedding of another sentence, by one fixed permutation."""

    def prepare(self, data: Any) -> None:
        super().prepare(data)
        lists = self.teacher_lists
        order = np.random.default_rng(self.config.seed).permutation(len(lists.embeddings[0]))
        lists.embeddings = [embeddings[order] for embeddings in lists.embeddings]


def main() -> None:
    """Print a Markdown table for each control."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument(
        "--seeds",
        type=int,
        help="number of seeds; default: 8 for the first table, 3 for the others",
    )
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = write_files(options.runs / "made")
    for table in options.only:
        print(f"\n| {table} | seeds | test | against the first row |\n|---|---|---|---|")
        first: np.ndarray | None = None
        for label, scores in rows(
            TABLES[table], options.runs, made, options.seeds or SEEDS.get(table, 3)
        ):
            difference = "" if first is None else mean_with_interval(scores - first)
            first = scores if first is None else first
            print(
                f"| {label} | {len(scores)} | {format_spread(scores, 1)} | {difference} |",
                flush=True,
            )


def rows(
    table: list[Row], root: Path, made: dict[str, str], seeds: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the label and the test Spearman x 100 per seed of each row."""
    for label, method, settings in table:
        scores = []
        for seed in range(seeds):
            changes = {key: made.get(str(value), value) for key, value in settings.items()}
            simcse = CONFIGS["simcse"].from_parameters("demo", seed)
            changes = fill_placeholder(changes, partial(trained_run, simcse, root))
            scores.append(
                100
                * finish_run(label, method, changes, root, seed).metrics()["world-test"]["spearman"]
            )
        yield label, np.array(scores)


def finish_run(label: str, method: str, settings: dict[str, Any], root: Path, seed: int) -> Run:
    """Return the finished run; a shuffled teacher has equal settings, thus another root."""
    config = CONFIGS[method].from_parameters("demo", seed, settings)
    if SHUFFLED in label:
        return trained_run(config, root / "shuffled", ShuffledTeacher)
    return trained_run(config, root, METHODS[method])


def mean_with_interval(differences: np.ndarray) -> str:
    """Return the mean with its 95 per cent interval over seeds."""
    mean, low, high = seed_interval(differences)
    return f"{mean:+.1f}" if len(differences) < 2 else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def write_files(folder: Path) -> dict[str, str]:
    """Write pairs with cubed gold and sentences with two random subsets of their words."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = load_pairs("world-train")
    written = {
        "<cubed>": write_pairs(
            pairs, pairs.gold**3 / pairs.score_range[1] ** 2, folder / "cubed.tsv"
        ),
        "<subsets>": folder / "subsets.tsv",
    }
    subsets = pd.DataFrame(word_subsets(load_sentences("world").sentences))
    # At once and whole: another process may read the file of an earlier start.
    write_text(written["<subsets>"], subsets.to_csv(sep="\t", index=False))
    return {name: str(path.resolve()) for name, path in written.items()}


def write_pairs(pairs: Pairs, gold: np.ndarray, path: Path) -> Path:
    """Write the pairs with this gold as TSV and return its path."""
    columns = {"score": gold, "sentence1": pairs.sentence1, "sentence2": pairs.sentence2}
    write_text(path, pd.DataFrame(columns).to_csv(sep="\t", index=False))
    return path


def word_subsets(sentences: list[str]) -> Iterator[dict[str, str]]:
    """Yield each sentence and two random halves of its words, each in the order of the sentence."""
    draw = np.random.default_rng(0)
    for sentence in sentences:
        words = np.array(sentence.split())
        left = np.isin(np.arange(len(words)), draw.permutation(len(words))[: len(words) // 2])
        parts = [" ".join(words[side]) or sentence for side in (left, ~left)]
        yield {"anchor": sentence, "left": parts[0], "right": parts[1]}


if __name__ == "__main__":
    main()
