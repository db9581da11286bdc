"""The errors of the library: each message has the value, and a remedy or what is allowed."""

import difflib
from collections.abc import Collection, Iterable

from pydantic import ValidationError


class WorkbenchError(Exception):
    """Any error of the library."""

    exit_code = 2  # of a command that ends with it


class SettingError(WorkbenchError, ValueError):
    """A setting does not exist, or cannot have this value."""


class DataError(WorkbenchError, ValueError):
    """A data set is missing, broken or of another kind."""


class EncoderError(WorkbenchError, ValueError):
    """A checkpoint is missing or broken, or a sentence cannot be encoded."""


class RunError(WorkbenchError, RuntimeError):
    """A run cannot be trained, written, read or mixed as asked."""

    exit_code = 1


class BusyError(RunError):
    """Another process is working on the run; the same call can succeed later."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h, so that a script can wait and repeat the command


def describe_problems(error: ValidationError) -> list[str]:
    """Return each problem that pydantic lists, with the place and the value if it has a place."""
    texts = []
    for problem in error.errors():
        place = "".join(f"{part}: " for part in problem["loc"])
        text = place + problem["msg"].removeprefix("Value error, ")
        if place:
            text += f" (got {problem['input']!r:.80})"
        texts.append(text)
    return texts


def first_problem(problem: object) -> str:
    """Return why reading failed, on one line; of the problems that pydantic lists the first."""
    if isinstance(problem, ValidationError):
        return describe_problems(problem)[0]
    return " ".join(str(problem).split())


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean 'x'?" with the most similar known name, or "" if none is similar."""
    # Names are compared without case: STSB-Dev is nearer to stsb-dev than its letters say.
    names = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(str(name).casefold(), names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def unknown_name(kind: str, name: object, known: Iterable[str], where: str) -> str:
    """Return the message for an unknown name, with the most similar known one."""
    names = sorted(known)
    return (
        f"no {kind} {name!r} {where}{did_you_mean(name, names)} (known: {', '.join(names):.2000})"
    )


def require_known(kind: str, name: object, known: Collection[str], where: str) -> None:
    """Raise SettingError, with the most similar known name, if a name is unknown."""
    if name not in known:
        raise SettingError(unknown_name(kind, name, known, where))
