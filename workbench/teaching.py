"""Check exercises, compare a guess with the result, and summarize a run, for notebooks."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch

from workbench.metrics import metrics_table
from workbench.runs import Facts, Run
from workbench.views.run_tables import kept_checkpoint

_TRIALS = 5
_DEV = {
    "dev_spearman": "dev: Spearman",
    "dev_uniformity": "dev: uniformity",
    "dev_alignment": "dev: alignment",
}
_TEST = ["Spearman", "KCC", "NDCG", "accuracy"]


class Verdict(str):
    """A sentence that a notebook shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


_OPEN = Verdict("Not answered yet.")


class _Trial(NamedTuple):
    """The answer's and the right result on random inputs, and the function `compute` of these."""

    given: torch.Tensor
    right: torch.Tensor
    inputs: list[torch.Tensor]
    compute: Callable[..., Any]


# A mistake -> two results of a trial that it makes equal.
_MISTAKES: dict[str, Callable[[_Trial], tuple[Any, Any]]] = {
    "Rows and columns are exchanged: look at the axis (dim).": lambda trial: (
        trial.given,
        trial.compute(*map(torch.t, trial.inputs)),
    ),
    "Rows and columns change places: look at the axis (dim).": lambda trial: (
        trial.given.t(),
        trial.compute(*map(torch.t, trial.inputs)),
    ),
    "The result is transposed: look at the axis (dim).": lambda trial: (
        trial.given.t(),
        trial.right,
    ),
    "The arguments are exchanged: the second is used as the first.": lambda trial: (
        trial.given,
        trial.compute(*reversed(trial.inputs)),
    ),
    "A mean is missing at the end.": lambda trial: (trial.given.mean(), trial.right),
    "A sum is missing at the end.": lambda trial: (trial.given.sum(), trial.right),
}


def check_answer(
    answer: Any,
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    exercise: str = "",
    mistakes: Mapping[Any, str] | None = None,
    **settings: Any,
) -> Verdict:
    """Return whether the answer to an exercise is right, and otherwise where it is wrong.

    Args:
        answer: A function, or a value; None, ... or a function that returns one of them is not
            answered yet.
        expected: For a function another one: both get random numbers in [-1, 1] of these `shapes`
            (float64) and the `settings`. For a value a function that takes it and returns True, or
            a sentence: why it is not right.
        exercise: Its number and title, such as "1. Write the loss", for the sheet of `sign`.
        mistakes: Wrong value -> a hint that names the mistake, in place of the sentence of
            `expected`. Numbers are equal up to 1 %; a list is looked up as a tuple.

    A function that exchanges an axis or the arguments, takes a sum for a mean, forgets a mean, a
    sign or a setting, or is wrong by a constant factor or summand, is told so.

    Example:
        check_answer(my_info_nce, info_nce, (5, 5), temperature=0.07)
        check_answer(answer, lambda count: count == 4, mistakes={5: "The full stop is no word."})
    """
    if _is_blank(answer):
        return _OPEN
    verdict = _judge(answer, expected, shapes, settings)
    if verdict.startswith("Not yet"):
        for wrong, hint in (mistakes or {}).items():
            if _is_same(answer, wrong):
                verdict = Verdict(f"Not yet. {hint}")
    return verdict


def _judge(
    answer: Any, expected: Callable[..., Any], shapes: Sequence[tuple[int, ...]], settings: Facts
) -> Verdict:
    # The same inputs at each call: an answer is not right once and wrong the next time.
    generator = torch.Generator().manual_seed(0)
    where = ""
    try:
        if not callable(answer):
            reason = expected(answer)
            if isinstance(reason, str):
                return Verdict(f"Not yet. {reason}")
            return Verdict("Right." if reason else "Not yet.")
        compute = partial(expected, **settings)
        trials = []
        for trial in range(1, _TRIALS + 1):
            where = f"On random input {trial}: "
            inputs = []
            for shape in shapes:
                unit = torch.rand(shape, generator=generator, dtype=torch.float64)
                inputs.append(2 * unit - 1)
            # Copies, as an answer may write into its inputs.
            given = answer(*map(torch.clone, inputs), **settings)
            if _is_blank(given):
                return _OPEN
            results = map(torch.as_tensor, (given, compute(*inputs)))
            trials.append(_Trial(*results, inputs, compute))
        if hint := _name_mistake(trials, settings):
            return Verdict(f"Not yet. {hint}")
        for number, trial in enumerate(trials, 1):
            where = f"On random input {number}: "
            torch.testing.assert_close(trial.given, trial.right, check_dtype=False)
    except Exception as problem:  # the code of a student can raise anything
        return Verdict(f"Not yet. {where}{type(problem).__name__}: {problem}")
    return Verdict(f"Right: equal to {expected.__name__} on {_TRIALS} random inputs.")


def _name_mistake(trials: list[_Trial], settings: Facts) -> str:
    """Return the mistake that explains the results of all trials, "" if there is none."""
    mistakes = dict(_MISTAKES)
    numbers = [name for name, value in settings.items() if type(value) in (int, float)]
    for names in [*([name] for name in numbers), numbers]:
        ones = dict.fromkeys(names, 1)
        mistakes[f"Not used: {', '.join(names)}."] = lambda trial, ones=ones: (
            trial.given,
            trial.compute(*trial.inputs, **ones),
        )
    if all(_is_close(trial.given, trial.right) for trial in trials):
        return ""
    for mistake, results in mistakes.items():
        with suppress(Exception):  # inputs or results have shapes that exclude this mistake
            if all(_is_close(*results(trial)) for trial in trials):
                return mistake
    if any(trial.given.shape != trial.right.shape for trial in trials):
        return ""
    given = torch.cat([trial.given.flatten().double() for trial in trials])
    right = torch.cat([trial.right.flatten().double() for trial in trials])
    factor = float(given @ right / (right @ right))
    shift = float((given - right).mean())
    if factor and _is_close(given, factor * right):
        return _describe_factor(factor, trials[0].inputs)
    if _is_close(given, right + shift):
        return f"Each number differs from the right one by {shift:+.4g} (do ranks begin at 1?)."
    return ""


def _describe_factor(factor: float, inputs: list[torch.Tensor]) -> str:
    """Return the mistake of results that are the right ones times a factor."""
    if math.isclose(factor, -1, rel_tol=1e-5):
        return "The sign is wrong: each result is minus the right one."
    for length in (size for tensor in inputs for size in (*tensor.shape, tensor.numel())):
        if math.isclose(factor, length, rel_tol=1e-5):
            return f"It is {length} times the right result: a sum in place of a mean?"
        if math.isclose(factor * length, 1, rel_tol=1e-5):
            return f"It is 1/{length} of the right result: a mean in place of a sum?"
    return f"It is {factor:.4g} times the right result on each input."


def _is_close(first: torch.Tensor, second: torch.Tensor) -> bool:
    # allclose alone would accept shapes that can be broadcast.
    return first.shape == second.shape and torch.allclose(first.double(), second.double())


def _is_same(answer: Any, wrong: Any) -> bool:
    if isinstance(answer, list):
        answer = tuple(answer)
    with suppress(Exception):  # no numbers
        return math.isclose(answer, wrong, rel_tol=0.01)
    return bool(answer == wrong)


def _is_blank(answer: Any) -> bool:
    return answer is None or answer is ...


def compare_guess(guess: float | str | None, history: pd.DataFrame) -> str:
    """Return a sentence with the guessed and the measured gain on dev.

    Gains are in points of Spearman x 100, of the kept checkpoint over the start.

    Example:
        print(compare_guess(2.5, run.history()))
    """
    start, kept = 100 * _start_and_kept(history)["dev_spearman"]
    gain = kept - start
    result = f"it is {gain:+z.1f} points on dev, from {start:.1f} to {kept:.1f}"
    if gain < 0:
        result += " (no later step was better than the start; the best of them was kept)"
    if guess is None:
        return f"You made no guess; {result}."
    if isinstance(guess, str):
        return f"Your guess is the text {guess!r}, not a number such as 2.5; {result}."
    return f"You guessed {guess:+.1f}; {result}. You are {abs(gain - guess):.1f} points off."


def recap(run: Run) -> pd.DataFrame:
    """Return the numbers of a finished run before and after its training.

    Correlations and accuracies are x 100.

    Example:
        recap(run)
    """
    dev = _start_and_kept(run.history()).filter([*_DEV]).rename(columns=_DEV)
    dev["dev: Spearman"] *= 100
    tests = []
    for stage in ("before", ""):
        scores: Any = metrics_table(run.metrics(stage)).set_index("suite").filter(_TEST)
        row = scores.stack().dropna()
        tests.append(row.set_axis(row.index.map(": ".join)))
    table = pd.concat([dev.T.set_axis([0, 1], axis=1), pd.DataFrame(tests).T])
    table.columns = ["before", "after"]
    table = table.assign(change=table["after"] - table["before"]).round(2)
    table.attrs["caption"] = (
        "Correlations, NDCG and accuracies x 100. Smaller is better for uniformity and alignment."
    )
    return table


def _start_and_kept(history: pd.DataFrame) -> pd.DataFrame:
    """Return two rows of a history: step 0, and the checkpoint that is best on dev."""
    measured = history.dropna(subset=["dev_spearman"])
    return history.loc[[measured.index[0], kept_checkpoint(history).name]]
