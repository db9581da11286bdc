"""Check exercises, compare a guess with the result, and summarize a run, for notebooks."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import torch

from workbench.metrics import metrics_table
from workbench.runs import Run
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


def check_answer(
    answer: Any, expected: Callable[..., Any], *shapes: tuple[int, ...], **settings: Any
) -> Verdict:
    """Return whether the answer to an exercise is right, and otherwise where it is wrong.

    Args:
        answer: A function, or a value; None, ... or a function that returns one of them is not
            answered yet.
        expected: For a function another one: both get random numbers in [-1, 1] of these `shapes`
            (float64) and the `settings`. For a value a function that takes it and returns True, or
            a sentence: why it is not right.

    Example:
        check_answer(my_info_nce, info_nce, (5, 5), temperature=0.07)
        check_answer(answer, lambda count: count == 4 or "Count the words again.")
    """
    if _is_blank(answer):
        return _OPEN
    # The same inputs at each call: an answer is not right once and wrong the next time.
    generator = torch.Generator().manual_seed(0)
    where = ""
    try:
        if not callable(answer):
            reason = expected(answer)
            if isinstance(reason, str):
                return Verdict(f"Not yet. {reason}")
            return Verdict("Right." if reason else "Not yet.")
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
            right = torch.as_tensor(expected(*inputs, **settings))
            torch.testing.assert_close(torch.as_tensor(given), right, check_dtype=False)
    except Exception as problem:  # the code of a student can raise anything
        return Verdict(f"Not yet. {where}{type(problem).__name__}: {problem}")
    return Verdict(f"Right: equal to {expected.__name__} on {_TRIALS} random inputs.")


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
