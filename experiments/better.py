"""Make a public encoder better without labels: all-MiniLM-L6-v2, taught by all-mpnet-base-v2.

    export WORKBENCH_DATA=DIR
    python experiments/better.py STUDENT TEACHER [--seeds 1 2 3 4 5] [--steps 200] [--rate 1e-4]

STUDENT and TEACHER are hub ids or folders with the name of the encoder, such as all-MiniLM-L6-v2.
The sentences are unlabelled: of news (MRPC, without its labels), captions (Flickr8k), inference
(SNLI) and Wikipedia; none is in one of the sets that are tested or chosen on. --sentences more adds
reviews, phrases and questions, and takes more of each kind. The loss is RankCSE's ListNet alone,
soft (--temperature for both lists), or the squared error (--loss mse), in batches of
neighbourhoods: about an eighth of a batch is drawn, and each sentence brings six or seven others,
near and distant for the teacher; --batches random draws all.

The checkpoint is that with the highest mean of STS-B dev and SICK trial; the seven sets are tested
once per seed. Without --final nothing is tested: it is a trial. Every training is a row of
data/better.csv, and docs/results.md is written from these rows. --average prints dev of averages of
each seed's weights and the start's."""

import argparse
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from claims import fill
from english import add_row, find_row, values_of
from known import NAMES
from methods import trained_run

from workbench import Encoder, evaluate
from workbench.config import SEVEN_STS, RankCSEConfig
from workbench.data import load_data, load_pairs
from workbench.files import file_checksum, project_path, write_text
from workbench.methods import RankCSE
from workbench.methods.base import Batch
from workbench.metrics import hierarchical_interval
from workbench.runs import Run
from workbench.teachers import draw_near
from workbench.views.run_tables import kept_checkpoint

RESULTS = project_path("data") / "better.csv"
# The encoders, the seeds and the setting of the table in docs/results.md; others are recorded
# beside it.
STUDENT, TEACHER = "all-MiniLM-L6-v2", "all-mpnet-base-v2"
SHOWN_SEEDS = [1, 2, 3, 4, 5]
SHOWN = {
    "sentences": "some",
    "loss": "listnet",
    "batches": "neighbours",
    "rate": 1e-4,
    "temperature": 0.1,
    "steps": 200,
}
SENTENCES = "e2460a1f77db34e97c337904ecf439321bafb5dd1ce0bbe271a34a41d6723f6c"  # sha256 of the file
# The options that a row depends on; a trial without --final does not stand for the test.
KEY = ["student", "teacher", *SHOWN, "final"]
NEIGHBOURHOOD = 8  # sentences: one that was drawn, and those that it brings
MOST_WORDS, MOST_TOKENS = 28, 48
EVAL_STEPS = 50
DEV = ["stsb-dev", "sick-trial"]
SHARES = (0.5, 0.75)  # of the taught weights in an average
# Name -> kind -> the most sentences, and the sets that have them.
SOURCES = {
    "some": {
        "news": (4_000, ["mrpc-train", "mrpc-test"]),
        "captions": (2_500, ["flickr8k"]),
        "inference": (2_500, ["snli-dev", "snli-test", "cad-snli-train"]),
        "Wikipedia": (4_000, ["wiki"]),
    },
    "more": {
        "news": (6_000, ["mrpc-train", "mrpc-test"]),
        "captions": (10_000, ["flickr8k"]),
        "inference": (10_000, ["snli-dev", "snli-test", "cad-snli-train"]),
        "reviews": (5_000, ["subj", "mr", "cr"]),
        "phrases": (3_000, ["mpqa"]),
        "questions": (3_000, ["trec-train"]),
        "Wikipedia": (16_000, ["wiki"]),
    },
}
EVALUATED = [*SEVEN_STS, "stsb-train", "stsb-dev", "sick-train", "sick-trial"]


class InNeighbourhoods(RankCSE):
    """RankCSE with batches of neighbourhoods: about an eighth of a batch, and neighbours of each.

    The nearest to a sentence is often itself, so that it brings six or seven others.

    The neighbours are drawn from the sentences near and distant for the first teacher, with a seed
    made of the batch, so that a resumed training draws them again."""

    def prepare(self, data: Any) -> None:
        super().prepare(data)
        self.table = self.teacher_lists.embeddings[0].astype(np.float32)

    def collate(self, rows: Sequence[int]) -> Batch:
        draw = np.random.default_rng(np.asarray(rows))
        chosen: dict[int, None] = {}
        for row in rows:
            if len(chosen) >= len(rows):
                break
            near = draw_near(self.table @ self.table[row], NEIGHBOURHOOD, draw)
            chosen |= dict.fromkeys([row, *near.tolist()][:NEIGHBOURHOOD])
        return super().collate([*chosen][: len(rows)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("student")
    parser.add_argument("teacher")
    parser.add_argument("--seeds", type=int, nargs="+", default=SHOWN_SEEDS)
    parser.add_argument("--steps", type=int, default=SHOWN["steps"])
    parser.add_argument("--rate", type=float, default=SHOWN["rate"])
    parser.add_argument("--temperature", type=float, default=SHOWN["temperature"])
    parser.add_argument("--sentences", default="some", choices=list(SOURCES))
    parser.add_argument("--loss", default="listnet", choices=["listnet", "mse"])
    parser.add_argument("--batches", default="neighbours", choices=["neighbours", "random"])
    parser.add_argument("--final", action="store_true", help="test the seven sets")
    parser.add_argument("--average", action="store_true", help="weights with the start's, on dev")
    parser.add_argument("--runs", default="runs-better")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.final:
        read_known(options.student, options.teacher)
    file = Path(options.runs) / f"{options.sentences}.txt"
    file = write_unlabelled(SOURCES[options.sentences], file)
    work = print_averages if options.average else train
    for seed in options.seeds:
        work(file, seed, options)
    write_results()


def write_unlabelled(sources: dict[str, tuple[int, list[str]]], file: Path) -> str:
    """Write the distinct sentences of sources that no evaluated set contains; return the file.

    sources: Kind -> the most sentences, and the sets that have them."""
    seen = {plain(text) for name in EVALUATED for side in load_pairs(name).texts for text in side}
    draw = np.random.default_rng(0)
    chosen: dict[str, None] = {}
    for kind, (most, names) in sources.items():
        texts = dict.fromkeys(
            text for name in names for side in load_data(name).texts for text in side
        )
        new = [
            text
            for text in texts
            if plain(text) not in seen and 4 <= len(text.split()) <= MOST_WORDS
        ]
        order = draw.permutation(len(new))[:most]
        print(f"{kind}: {len(order)} of {len(new)} sentences", flush=True)
        chosen |= dict.fromkeys(new[place] for place in order)
    file.parent.mkdir(parents=True, exist_ok=True)
    # At once and whole: another seed may be reading the file in another process.
    write_text(file, "".join(f"{text}\n" for text in chosen))
    if sources is SOURCES["some"] and file_checksum(file) != SENTENCES:
        print(f"{file}: not the sentences of the recorded rows, which had SNLI of a data folder")
    return str(file)


def plain(text: str) -> str:
    """Return the letters and digits of a text, so that two ways of writing it are one."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def train(file: str, seed: int, options: argparse.Namespace) -> None:
    """Train and record a seed on the sentences of a file, unless it is recorded."""
    key = {name: getattr(options, name) for name in KEY} | {"seed": seed}
    # The results name encoders, not the folders in which somebody has them.
    key |= {role: Path(key[role]).name for role in ("student", "teacher")}
    if find_row(RESULTS, key) is not None:
        return
    run = taught(file, seed, options)
    history = run.history()
    best = kept_checkpoint(history)
    row = key | {
        "dev of the start": 100 * history["dev_spearman"].iloc[0],
        "dev": 100 * best["dev_spearman"],
        "step": int(best["step"]),
        "seconds": float(history["seconds"].max()),
    }
    if options.final:
        row |= values_of(run.scores())
        before = start_values(options.student)
        row["average of the start"] = before["average"]
        # Both have the same resamples of the pairs: what is kept is the gain on each.
        gains = numbers_in(row["resampled"]) - numbers_in(before["resampled"])
        row["resampled"] = " ".join(f"{gain:.2f}" for gain in gains)
    else:
        row |= {name: 100 * values["spearman"] for name, values in run.metrics().items()}
    add_row(RESULTS, row, key)
    print(*key.values(), f"dev {row['dev']:.2f}", row.get("average"), flush=True)


def taught(file: str, seed: int, options: argparse.Namespace) -> Run:
    """Return the run of a seed, trained now if it is not finished."""
    config = RankCSEConfig.from_parameters(
        "distillation",
        seed,
        {
            "encoder": options.student,
            "teachers": [options.teacher],
            "ranking": options.loss,
            "gamma": 1.0,
            "student_temperature": options.temperature,
            "teacher_temperature": options.temperature,
            "max_seq_length": MOST_TOKENS,
            "teacher_max_seq_length": MOST_TOKENS,
            "learning_rate": options.rate,
            "warmup": 0.1,
            "max_steps": options.steps,
            "eval_steps": EVAL_STEPS,
            "train": file,
            "dev": "+".join(DEV),
            "suites": SEVEN_STS if options.final else DEV,
        },
    )
    in_neighbourhoods = options.batches == "neighbours"
    # The loss does not tell the two apart, so each has its own folder.
    return trained_run(
        config,
        Path(options.runs) / options.batches,
        InNeighbourhoods if in_neighbourhoods else None,
    )


def print_averages(file: str, seed: int, options: argparse.Namespace) -> None:
    """Print dev of averages of the start's weights and the taught ones; nothing is tested."""
    student = Encoder.from_pretrained(options.student)
    before = {name: value.clone() for name, value in student.state_dict().items()}
    run = taught(file, seed, options)
    after = Encoder.from_pretrained(str(run.path / "encoder")).state_dict()
    for share in SHARES:
        student.load_state_dict(
            {name: torch.lerp(before[name], after[name], share) for name in before}
        )
        metrics = evaluate(student.encode, DEV).metrics
        dev = 100 * np.mean([values["spearman"] for values in metrics.values()])
        print(f"seed {seed}, {share:.0%} of the taught weights: dev {dev:.2f}", flush=True)


@cache
def start_values(student: str) -> dict[str, Any]:
    """Return `values_of` the student as it is; it is measured once."""
    return values_of(evaluate(Encoder.from_pretrained(student).encode, SEVEN_STS).scores)


def numbers_in(text: str) -> np.ndarray:
    return np.array(text.split(), float)


def read_known(student: str, teacher: str) -> Any:
    """Return our rows of student and teacher in data/known.csv, which the table compares with."""
    table: Any = pd.read_csv(project_path("data") / "known.csv")
    names = [Path(name).name for name in (student, teacher)]
    rows = table[table["numbers"] == "the workbench"].set_index("encoder")
    if missing := [name for name in names if name not in rows.index]:
        raise SystemExit(f"data/known.csv lacks {', '.join(missing)}: run known.py NAME=FOLDER")
    return rows


def write_results() -> None:
    """Write the tested seeds into docs/results.md, between start and teacher of data/known.csv, and
    the trials.

    Of several seeds the mean is written into README.md, too."""
    table: Any = pd.read_csv(RESULTS)
    table = table[(table["student"] == STUDENT) & (table["teacher"] == TEACHER)]
    # Rows of another setting, or of a reader's own seed, are another experiment.
    is_shown = table["final"] & table["seed"].isin(SHOWN_SEEDS)
    for name, value in SHOWN.items():
        is_shown &= table[name] == value
    tested = table[is_shown].sort_values("seed")
    sets = [name.removesuffix("-test") for name in SEVEN_STS]
    ours = tested.rename(columns=dict(zip(sets, NAMES, strict=True)))
    columns = [*NAMES, "average"]
    known = read_known(STUDENT, TEACHER)
    distance = known.loc[TEACHER, "average"] - known.loc[STUDENT, "average"]
    gains = tested["average"] - tested["average of the start"]
    lines = ["| encoder | " + " | ".join(columns) + " | gain, of the distance | seconds |"]
    lines.append("|---|" + "---|" * (len(columns) + 2))
    lines.append(line_of(STUDENT, known.loc[STUDENT, columns], "", ""))
    for (_, row), gain in zip(ours.iterrows(), gains, strict=True):
        share = f"{gain:+.2f}, {100 * gain / distance:.0f} %"
        name = f"taught, seed {row['seed']}, step {row['step']} of {row['steps']}"
        lines.append(line_of(name, row[columns], share, f"{row['seconds']:.0f}"))
    project = project_path("data").parent
    parts = {}
    if len(tested) > 1:
        draws = np.array([numbers_in(text) for text in tested["resampled"]])
        mean, low, high = hierarchical_interval(gains, draws)
        gained = f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
        share = f"{100 * mean / distance:.0f} %"
        lines.append(line_of("taught, mean", ours[columns].mean(), f"{gained}, {share}", ""))
        least, most = gains.min(), gains.max()
        sentence = (
            f"Taught by {TEACHER} without labels, {STUDENT} gains {gained} points over these seven "
            f"sets (95 % interval over seeds and pairs; {least:.2f} to {most:.2f} in {len(gains)} "
            f"seeds), {share} of the distance between the two: [the command and every seed]"
            "(docs/results.md#one-of-them-made-better-without-labels)."
        )
        sentence = textwrap.fill(sentence, 100, break_on_hyphens=False)
        parts[project / "README.md"] = {"better": f"{sentence}\n"}
    lines.append(line_of(TEACHER, known.loc[TEACHER, columns], f"{distance:+.2f}", ""))
    parts[project / "docs" / "results.md"] = {
        "better": "\n".join(lines) + "\n",
        "better trials": trials_table(table[~table["final"]]),
    }
    for page, texts in parts.items():
        write_text(page, fill(page, texts))


def trials_table(trials: Any) -> str:
    """Return the recorded trials, the best on dev first."""
    lines = [f"| {' | '.join(SHOWN)} | seed | dev, to the start | its step | {' | '.join(DEV)} |"]
    lines.append("|---" * (len(SHOWN) + 3 + len(DEV)) + "|")
    gains = trials.assign(gain=trials["dev"] - trials["dev of the start"])
    for _, row in gains.sort_values("gain", ascending=False, kind="stable").iterrows():
        cells = [f"{row[name]:g}" if name == "rate" else row[name] for name in SHOWN]
        cells += [row["seed"], f"{row['dev']:.2f}, {row['gain']:+.2f}", row["step"]]
        cells += [f"{row[name]:.2f}" for name in DEV]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def line_of(name: str, values: Any, gain: str, seconds: str) -> str:
    cells = [name, *(f"{value:.2f}" for value in values), gain, seconds]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
