"""Check exercises, note answers, compare a guess with the result, and summarize a run."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame

from workbench.errors import first_problem
from workbench.files import fill_template, timestamp
from workbench.metrics import metrics_table
from workbench.notebook import live_notebook
from workbench.printing import LOG
from workbench.runs import Facts, Run
from workbench.views.board import SHEET, SHEET_COLUMNS
from workbench.views.run_tables import kept_checkpoint

_TRIALS = 5
_DEV = {
    "dev_spearman": "dev: Spearman",
    "dev_uniformity": "dev: uniformity",
    "dev_alignment": "dev: alignment",
}
_TEST = "Spearman KCC NDCG accuracy"


class Verdict(str):
    """A sentence that a notebook shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


_OPEN = "Not answered yet."
_Compute = Callable[..., Any]
_Trials = list[list[torch.Tensor]]  # the inputs of a function, several times
_signature = []  # name and sheet, once a student has signed
# What a spreadsheet would compute; a negative number stays one.
_FORMULA = re.compile(r"^(?=[=+@-])(?!-[\d.]+$)")


def check_answer(
    answer: Any,
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    exercise: str = "",
    mistakes: Mapping[Any, str] = {},
    **settings: Any,
) -> Verdict:
    """Return whether the answer to an exercise is right, and otherwise where it is wrong.

    A common mistake of a function (another axis, exchanged arguments, an unused setting, a missing
    mean, a constant factor or summand) is named if it explains the results on all random inputs.

    Args:
        answer: A function, or a value; None, ... or a function that returns ... is not answered
            yet.
        expected: For a function another one: both get random numbers in [-1, 1] of these `shapes`
            (float64) and the `settings`. For a value a function that takes it and returns True, or
            a sentence: why it is not right.
        exercise: Its number and title, such as "1. Write the loss", for the sheet of `sign`.
        mistakes: Wrong value -> a hint that names the mistake, in place of the sentence of
            `expected`. Numbers are compared up to 1 %; a list is looked up as a tuple.

    Example:
        check_answer(my_info_nce, info_nce, (5, 5), temperature=0.07)
        check_answer(answer, lambda count: count == 4, mistakes={5: "The full stop is no word."})
    """
    # The same inputs at each call: an answer is not right once and wrong the next time.
    generator = torch.Generator().manual_seed(0)
    trials = [
        [
            torch.empty(shape, dtype=torch.float64).uniform_(-1, 1, generator=generator)
            for shape in shapes
        ]
        for _ in range(_TRIALS)
    ]
    verdict = _judge(answer, expected, trials, settings)
    for wrong, hint in mistakes.items():
        if verdict.startswith("Not yet") and _is_same(answer, wrong):
            verdict = f"Not yet. {hint}"
    if verdict != _OPEN:
        _note(exercise, int(verdict.startswith("Right")), _source_of(answer), "")
    return Verdict(verdict)


def _judge(answer: Any, expected: _Compute, trials: _Trials, settings: Facts) -> str:
    if answer is None or answer is ...:
        return _OPEN
    if not (trials[0] and callable(answer)):
        return "Not yet. It takes a function." if trials[0] else _judge_value(answer, expected)
    where = ""
    try:
        for number, inputs in enumerate(trials, 1):
            where = f"On random input {number}: "
            # Copies, as an answer may write into its inputs.
            given = answer(*map(torch.clone, inputs), **settings)
            if given is ...:
                return _OPEN
            if given is None:
                return "Not yet. It returns nothing: is `return` missing?"
            right = torch.as_tensor(expected(*inputs, **settings))
            torch.testing.assert_close(
                torch.as_tensor(given), right, rtol=1e-5, atol=1e-5, check_dtype=False
            )
    except Exception as problem:  # the code of a student can raise anything
        reason = f"{where}{_in_one_line(problem)}"
        with suppress(Exception):  # without results there is no other reason
            reason = _name_mistake(answer, expected, trials, settings) or reason
        return f"Not yet. {reason}"
    name = getattr(expected, "__name__", "the solution")  # a module of torch has none
    return f"Right: equal to {name} on {_TRIALS} random inputs."


def _judge_value(answer: Any, expected: _Compute) -> str:
    try:
        reason = expected(answer)
        verdict = "Right." if reason else "Not yet."
    except (TypeError, AttributeError):  # such as of a text in the place of a number
        return (
            f"Not yet. Your answer is of the type {type(answer).__name__}: "
            "is it what the exercise asks for?"
        )
    except Exception as problem:
        return f"Not yet. {_in_one_line(problem)}"
    return f"Not yet. {reason}" if isinstance(reason, str) else verdict


def _in_one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {first_problem(problem)}"


def _is_same(answer: Any, wrong: Any) -> bool:
    with suppress(Exception):  # no numbers
        return math.isclose(answer, wrong, rel_tol=0.01)
    with suppress(Exception):  # an array has no single truth
        return bool(wrong == (tuple(answer) if isinstance(answer, list) else answer))
    return False


def _source_of(answer: Any) -> str:
    """Return an answer as a text, of a function its code, if it can be found."""
    for read in (inspect.getsource, str):
        with suppress(Exception):  # anything may be given as an answer
            return read(answer)
    return type(answer).__name__


def _name_mistake(answer: _Compute, expected: _Compute, trials: _Trials, settings: Facts) -> str:
    """Return the mistakes that explain a function's results on all trials, "" if none do."""
    compute = partial(expected, **settings)
    ones = {name: value and 1.0 for name, value in settings.items()}  # False stays False
    # Mistake -> what a function with it computes.
    wrong = {
        "Rows and columns are exchanged (dim).": lambda *x: compute(*map(torch.t, x)),
        "It is along the other axis (dim).": lambda *x: compute(*map(torch.t, x)).t(),
        "The arguments are exchanged.": lambda *x: compute(*reversed(x)),
        "A sign or a comparison is the other way round.": lambda *x: compute(*x[:-1], -x[-1]),
        **{f"Not used: {name}.": partial(compute, **{name: 1.0}) for name in settings},
        "The settings are not used.": partial(compute, **ones),
    }

    def results(function: _Compute) -> ndarray:
        # Copies, as an answer may write into its inputs.
        return np.array([function(*map(torch.clone, x)) for x in trials], float)

    given = results(partial(answer, **settings))
    right = results(compute)
    if difference := _compare_results(given, right, trials[0]):
        return difference
    for mistake, function in wrong.items():
        with suppress(Exception):  # this mistake is impossible with inputs of these shapes
            if np.allclose(given, results(function)):
                return mistake
    return ""


def _compare_results(given: ndarray, right: ndarray, inputs: list[torch.Tensor]) -> str:
    """Return the factor and the constant by which all results differ, or that a mean is missing.

    Returns "" if none of this explains them."""
    if given.shape != right.shape:
        means = given.reshape(*right.shape, -1).mean(axis=-1)
        is_unreduced = given.size > right.size and np.allclose(means, right)
        return "A mean is missing at the end." if is_unreduced else ""
    factor, shift = np.polyfit(right.ravel(), given.ravel(), 1).round(6)
    if factor == 0 or not np.allclose(given, factor * right + shift):
        return ""
    text = "It is"
    if factor != 1:
        text += f" {factor:g} times the right result"
    if shift:
        text += f" off by {shift:+g}"
    lengths = [length for tensor in inputs for length in tensor.shape]
    if np.isclose([[factor], [1 / factor]], lengths).any():
        return f"{text}: a sum in place of a mean, or the reverse?"
    return f"{text}: look at the sign." if factor < 0 else f"{text}."


def sign(name: str = "") -> Verdict:
    """Note checked answers and guesses from now on in `answers.csv` of the current folder.

    Each is appended as a line: time (UTC), name, notebook, exercise, right (1 or 0), answer (of a
    function its code, all up to 1,500 characters) or guess, and the measured gain. Nothing is sent.

    Args:
        name: Of the student; by default that of the folder.

    Example:
        teaching.sign("Anna")
    """
    sheet = Path(SHEET).absolute()
    _signature[:] = [(str(name or "").strip() or sheet.parent.name, sheet)]
    return Verdict(f"Answers are noted in {sheet}")


def _note(*values: object) -> None:
    notebook = Path(live_notebook()).stem
    for name, sheet in _signature:
        cells = [
            str(value).encode("utf-8", "backslashreplace").decode()  # of half a sign its number
            for value in (timestamp(), name, notebook, *values)
        ]
        row = DataFrame([[_FORMULA.sub("'", cell)[:1500] for cell in cells]], columns=SHEET_COLUMNS)
        try:
            # Without a buffer: one write, which does not mix with the lines of other notebooks.
            with sheet.open("ab+", 0) as file:
                file.seek(0)
                written = file.read()
                # A spreadsheet may have changed the commas into semicolons, and an editor may have
                # removed the last line end.
                header = written.partition(b"\n")[0]
                separator = next((sign for sign in ";\t" if sign.encode() in header), ",")
                line_end = "" if written.endswith(b"\n") or not written else "\n"
                line = row.to_csv(index=False, header=not written, sep=separator)
                _append(file, (line_end + line).encode())
        except OSError as problem:  # the answer is right or wrong all the same
            LOG.warning(
                "not noted: %s; is the sheet open in a spreadsheet, or the disk full?", problem
            )


def _append(file: Any, line: bytes) -> None:
    """Write a line whole or not at all: a full disk takes a part of it, without an error."""
    count = file.write(line)
    if count < len(line):
        file.truncate(file.tell() - count)
        raise OSError("there was room for a part of it")


def compare_guess(guess: float | str | None, history: DataFrame) -> str:
    """Return a sentence with the guessed and the measured gain on dev.

    Gains are in points of Spearman x 100, of the kept checkpoint over the start.

    Example:
        print(compare_guess(2.5, run.history()))
    """
    start, kept = 100 * _start_and_kept(history)["dev_spearman"]
    gain = kept - start
    is_number = isinstance(guess, int | float) and math.isfinite(guess)
    if is_number:
        _note("guess", "", f"{guess:.1f}", f"{gain:.1f}")
    shown = f"{gain:+z.1f}"
    return fill_template(
        "guess.txt", guess=guess, is_number=is_number, shown=shown, start=start, kept=kept
    )


def recap(run: Run) -> DataFrame:
    """Return the numbers of a finished run before and after its training.

    Correlations and accuracies are x 100.

    Example:
        recap(run)
    """
    dev = _start_and_kept(run.history()).filter(_DEV).rename(columns=_DEV)
    dev["dev: Spearman"] *= 100
    tests = []
    for stage in ("before", ""):
        scores = metrics_table(run.metrics(stage)).set_index("suite").filter(_TEST.split())
        row = scores.stack().dropna()
        tests.append(row.set_axis(row.index.map(": ".join)))
    table = pd.concat([dev.T.set_axis([0, 1], axis=1), DataFrame(tests).T])
    table.columns = ["before", "after"]
    table = table.assign(change=table["after"] - table["before"]).round(2)
    table.attrs["caption"] = (
        "Correlations, NDCG and accuracies x 100. Smaller is better for uniformity and alignment."
    )
    return table


def _start_and_kept(history: DataFrame) -> DataFrame:
    """Return two rows of a history: step 0, and the checkpoint that is best on dev."""
    measured = history.dropna(subset="dev_spearman")
    return history.loc[[measured.index[0], kept_checkpoint(history).name]]
