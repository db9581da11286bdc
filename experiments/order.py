"""Does order help? Losses on the order, on the values, and on neither, under the same conditions.

    export WORKBENCH_DATA=DIR
    python experiments/order.py lists START TEACHER --name NAME [--rate 1e-4] [--alone]
    python experiments/order.py pairs START TRAINSET --name NAME [--rate 1e-4]
    python experiments/order.py views START none --name NAME [--rate 1e-4]

lists: what follows a teacher's lists in the place of RankCSE's ListNet. pairs: the loss on graded
pairs. views: what the positive of SimCSE is made of. START is a folder written by
data/build/detuned.py, a public encoder, or world-encoder for the bundled world. TEACHER is an
encoder, or <SimCSE>: the run of SimCSE with the same seed at --rate, which is a row of its own,
"its teacher", with which the losses are compared. TRAINSET is stsb-train, sick-train or
world-train.

Every loss has the same number of trials: three learning rates (--rate times 1/2, 1 and 2) times
two values of a setting of its own (of Pearson and the squared error on pairs, which have none, the
batch size), with seed 0 and without any test. The trial with the highest mean of the two dev sets
(STS-B dev and SICK trial; in the world its dev set) is trained with the seeds 1 to 5 and tested
once. With --alone the ranking loss has neither infoNCE nor the consistency beside it, which would
ruin an encoder that is tuned for sentences. Untrained, the start, its whitening (pooling and width
are chosen on dev) and tf-idf are measured, too, the last two fitted on the training sentences.

Every training becomes a row of data/order.csv; a recorded one is not trained again, so that the
command can be continued anywhere. --seed 6 trains the chosen setting of each loss once more and
says whether it lies where the recorded seeds predict it. Columns: Spearman x 100 of dev and of each
test set, their average, Kendall's tau-b of the ladders and accuracy of TREC (x 100), "resampled",
the average under 200 resamples of the pairs, which are the same for every run."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from english import add_row, find_row, settings, values_of
from methods import fill_placeholder, trained_run
from scipy import stats
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from workbench import evaluate, load_pairs, load_training
from workbench.config import SEVEN_STS, BaselineConfig
from workbench.evaluation import load_baseline
from workbench.files import project_path
from workbench.methods import RankCSE
from workbench.methods.base import Batch, Terms
from workbench.runs import Run
from workbench.views.run_tables import kept_checkpoint

RESULTS = project_path("data") / "order.csv"
KEY = ["start", "pooling", "teacher", "beside", "loss", "rate", "choice", "seed"]
TRIAL_SEED = 0
OWN = "<SimCSE>"
FINAL_SEEDS = [1, 2, 3, 4, 5]
RATES = (0.5, 1.0, 2.0)  # times --rate
VECTORS = "vectors by a projection"
NO_RANKING = "no ranking loss"
WHITENINGS = [  # width None keeps every direction
    {"kind": "whitening", "width": width, "pooling": pooling}
    for pooling in ("mean", "avg_first_last")
    for width in (16, 64, None)
]
Changes = dict[str, Any]


def with_temperatures(student: float, teacher: float) -> Changes:
    """Return ListNet's two temperatures."""
    return {"student_temperature": student, "teacher_temperature": teacher}


# Loss -> method, its settings, and the two values of the setting that is its own.
Losses = dict[str, tuple[str, Changes, list[Changes]]]
SIMCSE: Losses = {"SimCSE": ("simcse", {}, [{"temperature": 0.05}, {"temperature": 0.1}])}
OF_LISTS: Losses = SIMCSE | {
    NO_RANKING: ("rankcse", {"gamma": 0.0}, [{"beta": 1.0}, {"beta": 0.3}]),
    "ListNet, the paper's temperatures": (
        "rankcse",
        with_temperatures(0.025, 0.0125),
        [{"gamma": 1.0}, {"gamma": 3.0}],
    ),
    "ListNet, softer": (
        "rankcse",
        {},
        [with_temperatures(0.05, 0.05), with_temperatures(0.1, 0.1)],
    ),
    "only the first": (
        "rankcse",
        {},
        [with_temperatures(0.025, 1e-4), with_temperatures(0.05, 1e-4)],
    ),
    # Its sum over a list of 63 has 63 factors, ListNet's has one.
    "ListMLE": (
        "rankcse",
        {"ranking": "listmle", "student_temperature": 0.05},
        [{"gamma": 1.0}, {"gamma": 1 / 63}],
    ),
    "CoSENT on lists": (
        "rankcse",
        {"ranking": "cosent"},
        [{"cosent_scale": 20.0}, {"cosent_scale": 50.0}],
    ),
    "mean squared error": ("rankcse", {"ranking": "mse"}, [{"gamma": 30.0}, {"gamma": 100.0}]),
    "correlation": ("rankcse", {"ranking": "correlation"}, [{"gamma": 5.0}, {"gamma": 15.0}]),
    VECTORS: ("rankcse", {"ranking": "mse"}, [{"gamma": 3.0}, {"gamma": 10.0}]),
}
OF_PAIRS: Losses = {
    "CoSENT": ("cosent", {"batch_size": 32}, [{"scale": 20.0}, {"scale": 50.0}]),
    # The control of the two that read values, if these choose the smaller batch and so more steps.
    "CoSENT, smaller batches": (
        "cosent",
        {"batch_size": 16},
        [{"scale": 20.0}, {"scale": 50.0}],
    ),
    "rank_kl": (
        "cosent",
        {"objective": "rank_kl", "batch_size": 32},
        [{"rank_temperature": 0.05}, {"rank_temperature": 0.1}],
    ),
    "Pearson": ("cosent", {"objective": "pearson"}, [{"batch_size": 16}, {"batch_size": 64}]),
    "squared error": ("cosent", {"objective": "mse"}, [{"batch_size": 16}, {"batch_size": 64}]),
}
OF_VIEWS: Losses = SIMCSE | {
    "crops": ("simcse", {"positives": "crop"}, [{"crop_share": 0.5}, {"crop_share": 0.75}]),
    "CompCSE": ("compcse", {"subvector": None}, [{"temperature": 0.05}, {"temperature": 0.1}]),
}
# The run that teaches where the teacher is the start's own SimCSE: chosen by no trial.
ITS_TEACHER = "its teacher"
OF_TEACHER: Losses = {ITS_TEACHER: ("simcse", {}, [{}])}
QUESTIONS = {"lists": OF_LISTS, "pairs": OF_PAIRS, "views": OF_VIEWS}
PAIRS_BETWEEN_EVALUATIONS = 1440  # a quarter of STS-B's training pairs


class ProjectedVectors(RankCSE):
    """One minus the cosine of the teacher's vector and a linear map of the student's.

    It takes the place of the ranking loss. The map is used in training only.
    """

    def prepare(self, data: Any) -> None:
        super().prepare(data)
        [embeddings] = self.teacher_lists.embeddings
        # A draw of its own: the first one of seed 0 began the projection that english-encoder was
        # made with, and is still near all-MiniLM's vectors (a mean cosine of .1, others 0).
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 + self.config.seed)
            self.projection = nn.Linear(self.encoder.dimension, embeddings.shape[1], bias=False)

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        terms = super().loss_terms(vectors, batch)
        del terms[self.config.ranking]
        [target] = batch["teachers"]
        # Converted first: autocast joins no half precision on a CPU.
        of_views = torch.cat([target.to(vectors.dtype)] * len(self.view_starts))
        cosines = cosine_similarity(self.projection(vectors), of_views, dim=1)
        return terms | {"vectors": self.config.gamma * (1 - cosines).mean()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=list(QUESTIONS))
    parser.add_argument("start", type=Path)
    parser.add_argument("teacher", help="an encoder, or <SimCSE>; pairs: a training set")
    parser.add_argument("--name", required=True, help="of the start in the results")
    parser.add_argument("--teacher-name", help="of the teacher in the results")
    parser.add_argument("--pooling", choices=["mean", "cls"], help="default: mean")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--alone", action="store_true", help="no infoNCE and no consistency")
    parser.add_argument("--losses", nargs="*", help="default: all of the question")
    parser.add_argument("--no-transfer", action="store_true", help="leave TREC out")
    parser.add_argument("--seed", type=int, help="another one, compared with the recorded seeds")
    parser.add_argument("--runs", type=Path, default=Path("runs-order"))
    options = parser.parse_args()
    options.teacher_name = options.teacher_name or options.teacher
    if str(options.start) == "world-encoder":
        # Of the demo's profiles.
        if options.pooling:
            parser.error(
                "world-encoder has the pooling of the demo's profiles; leave out --pooling"
            )
        options.pooling = "mean" if options.question == "pairs" else "cls"
        if options.question == "pairs" and options.teacher != "world-train":
            parser.error("world-encoder is trained on the pairs of world-train")
    options.pooling = options.pooling or "mean"
    if options.question == "views" and options.teacher != "none":
        parser.error("views have no teacher; write none in its place")
    if unknown := set(options.losses or []) - set(QUESTIONS[options.question]):
        parser.error(
            f"--losses: no loss {', '.join(sorted(unknown))}; {options.question} has "
            f"{', '.join(QUESTIONS[options.question])}"
        )
    if options.seed in (TRIAL_SEED, *FINAL_SEEDS):
        parser.error("--seed is another one than 0 of the trials and 1 to 5 of the rows")
    torch.set_num_threads(1)
    measure_untrained(options)
    if options.teacher == OWN:
        for seed in FINAL_SEEDS:
            train(ITS_TEACHER, options.rate, 0, seed, options)
    losses = options.losses or list(QUESTIONS[options.question])
    if options.alone:  # without a ranking loss there would be no loss; SimCSE has infoNCE
        losses = [loss for loss in losses if loss not in {NO_RANKING, *SIMCSE}]
    # A further seed is compared with what is recorded, and no trial is repeated for it.
    finished = {} if options.seed is None else {loss: row_of_all(loss, options) for loss in losses}
    if options.seed is not None and not options.losses:
        losses = [loss for loss in losses if finished[loss]]
    for loss in losses:
        chosen = finished.get(loss) or choose(loss, options)
        setting = (loss, chosen["rate"], int(chosen["choice"]))
        recorded = [train(*setting, seed, options) for seed in FINAL_SEEDS]
        if options.seed is not None:
            compare_seed(compute_row(*setting, options.seed, options), recorded)


def row_of_all(loss: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the first of the rows of a loss that a further seed is compared with, if all are
    recorded."""
    key = key_of(loss, 0.0, 0, 0, options)
    same = {name: key[name] for name in ("start", "pooling", "teacher", "beside", "loss")}
    rows = [find_row(RESULTS, same | {"seed": seed}) for seed in FINAL_SEEDS]
    return None if None in rows else rows[0]


def compare_seed(row: dict[str, Any], recorded: list[dict[str, Any]]) -> None:
    """Print whether a further seed lies where the recorded ones predict it; record nothing."""
    averages = np.array([one["average"] for one in recorded])
    count = len(averages)
    # Student's prediction interval of one more value from the same normal distribution.
    half = stats.t.ppf(0.975, count - 1) * averages.std(ddof=1) * np.sqrt(1 + 1 / count)
    low, high = averages.mean() - half, averages.mean() + half
    verdict = "inside" if low <= row["average"] <= high else "OUTSIDE"
    print(
        f"{row['loss']}, seed {row['seed']}: {row['average']:.2f}, {verdict} the 95 % prediction "
        f"interval of seeds {FINAL_SEEDS}: {low:.2f} to {high:.2f}",
        flush=True,
    )


def measure_untrained(options: argparse.Namespace) -> None:
    """Record the start as it is, tf-idf, and the whitening that is best on dev."""
    start = {"encoder": str(options.start)}
    measure("the start", [start | {"pooling": options.pooling}], options)
    measure("tf-idf", [{"kind": "tfidf"}], options)
    measure("whitening of the start", [start | changes for changes in WHITENINGS], options)


def measure(name: str, settings_of: list[Changes], options: argparse.Namespace) -> None:
    """Record the untrained encoder that is best on dev among these settings."""
    key = dict.fromkeys(KEY, "-") | {"start": options.name, "pooling": options.pooling}
    key |= {"loss": name, "rate": 0.0, "choice": 0, "seed": 0}
    if options.question == "pairs":  # it has test sets of its own
        key |= {"teacher": options.teacher_name}
    if find_row(RESULTS, key) is not None:
        return
    suites = suites_of(options, is_trial=False)
    if options.question == "pairs":
        training = settings("cosent", 0, options, **suites, **of_pairs(options, 1))
        first, second = load_training(training).texts
        sentences = [*first, *second]
    else:
        training = settings("simcse", 0, options, **suites)
        sentences = load_training(training).sentences
    dev_sets = {dev: load_pairs(dev) for dev in training.dev_sets}
    tried = []
    for changes in settings_of:
        config = BaselineConfig.from_parameters("cls", 0, changes)
        baseline = load_baseline(config, sentences)
        on_dev = evaluate(baseline, dev_sets).metrics
        dev = sum(one["spearman"] for one in on_dev.values()) / len(on_dev)
        tried.append((dev, config, baseline))
    dev, config, baseline = max(tried, key=lambda one: one[0])
    # A classifier on a vector of every word of the vocabulary would take hours.
    suites = [one for one in training.suites if not (one == "trec" and config.kind == "tfidf")]
    result = evaluate(baseline, suites)
    chosen = f"{config.pooling} width={config.width or 'all'}" if config.kind == "whitening" else ""
    record(key | {"settings": chosen, "dev": 100 * dev} | tested(result.metrics, result.scores))


def choose(loss: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of the trial that is best on dev, after training those that are missing.

    Of equals it is the last: alone, the weight of a loss changes nothing.
    """
    _, _, choices = QUESTIONS[options.question][loss]
    trials = [
        train(loss, factor * options.rate, choice, TRIAL_SEED, options)
        for factor in RATES
        for choice in range(len(choices))
    ]
    return max(reversed(trials), key=lambda row: row["dev"])


def train(
    loss: str, rate: float, choice: int, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the recorded row of a training; compute and record it if there is none."""
    found = find_row(RESULTS, key_of(loss, rate, choice, seed, options))
    if found is not None:
        return found
    row = compute_row(loss, rate, choice, seed, options)
    record(row)
    return row


def key_of(
    loss: str, rate: float, choice: int, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the columns that tell the row of a training from all others."""
    return {
        "start": options.name,
        "pooling": options.pooling,
        "teacher": options.teacher_name,
        "beside": beside(options),
        "loss": loss,
        "rate": rate,
        "choice": choice,
        "seed": seed,
    }


def compute_row(
    loss: str, rate: float, choice: int, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Train and measure, and return the row; a finished run is only measured."""
    method, changes, choices = (QUESTIONS[options.question] | OF_TEACHER)[loss]
    given = changes | choices[choice] | {"learning_rate": rate}
    if method == "cosent":
        given |= of_pairs(options, given["batch_size"])
    if method == "rankcse":
        given |= {"teachers": [options.teacher], "lists_after_mlp": False}
        if options.alone:
            given |= {"info_nce": False, "beta": 0.0}
    is_trial = seed == TRIAL_SEED
    run = trained(method, given, seed, options, is_trial=is_trial, is_vectors=loss == VECTORS)
    history = run.history()
    best = kept_checkpoint(history)
    row = key_of(loss, rate, choice, seed, options) | {
        "settings": " ".join(f"{name}={value:g}" for name, value in choices[choice].items()),
        "dev": 100 * best["dev_spearman"],
        "dev of the start": 100 * history["dev_spearman"].iloc[0],
        "step": int(best["step"]),
        "seconds": float(history["seconds"].max()),
        "precision": run.facts().get("precision"),
        "run": run.path.name,
    }
    metrics = run.metrics()
    if is_trial:
        row |= {name: 100 * values["spearman"] for name, values in metrics.items()}
    else:
        row |= tested(metrics, run.scores())
    return row


def beside(options: argparse.Namespace) -> str:
    """Return what the loss of a question has beside it."""
    if options.question != "lists":
        return "-"
    return "alone" if options.alone else "with infoNCE and consistency"


def of_pairs(options: argparse.Namespace, batch_size: int) -> Changes:
    """Return the settings of a training on graded pairs: one epoch, evaluated four times."""
    if str(options.start) == "world-encoder":
        return {}
    return {
        "train": options.teacher,
        "train_limit": None,
        "epochs": 1.0,
        "eval_steps": PAIRS_BETWEEN_EVALUATIONS // batch_size,
    }


def tested(metrics: dict[str, Any], scores: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the test sets."""
    tests = [name for name in metrics if name in (*SEVEN_STS, "world-test")]
    row = values_of(scores[scores["suite"].isin(tests)])
    if "ladders-all" in metrics:
        row |= {"ladders": 100 * metrics["ladders-all"]["kcc"]}
    if "trec" in metrics:
        row |= {"trec": 100 * metrics["trec"]["accuracy"]}
    return row


def trained(
    method: str,
    changes: Changes,
    seed: int,
    options: argparse.Namespace,
    *,
    is_trial: bool,
    is_vectors: bool = False,
) -> Run:
    """Return the run of a loss; its own teacher is SimCSE's run of this seed."""
    rate = {"learning_rate": options.rate}
    own = partial(trained, "simcse", rate, seed, options, is_trial=True)
    changes = fill_placeholder(changes, own, OWN)
    config = settings(method, seed, options, **suites_of(options, is_trial=is_trial), **changes)
    if not is_vectors:
        return trained_run(config, options.runs)
    # Another loss under the same settings needs a folder of its own.
    return trained_run(config, options.runs / "vectors", ProjectedVectors)


def suites_of(options: argparse.Namespace, *, is_trial: bool) -> Changes:
    """Return the settings of dev and of the test sets, which no trial reads."""
    if str(options.start) == "world-encoder":
        return {"suites": ["world-dev" if is_trial else "world-test"]}
    dev = ["stsb-dev", "sick-trial"]
    tests = [*SEVEN_STS, "ladders-all", "trec"]
    if options.no_transfer:
        tests.remove("trec")
    if options.question == "pairs":
        tests = ["stsb-test", "sick-test", "ladders-all"]
    return {"dev": "+".join(dev), "suites": dev if is_trial else tests}


def record(row: dict[str, Any]) -> None:
    """Add a row to the results, its numbers to six digits, and print it."""
    numbers = {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in row.items()
    }
    add_row(RESULTS, numbers, KEY)
    print(*(row[name] for name in KEY), f"dev {row['dev']:.2f}", row.get("average"), flush=True)


if __name__ == "__main__":
    main()
