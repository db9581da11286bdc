"""What the library refuses with; every text says what was given, what is allowed and what to do."""

import difflib
import re
from collections.abc import Iterable

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed


def printable(text: object) -> str:
    """Replace control characters, such as the escape sequences of a terminal, by their codes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


class WorkbenchError(Exception):
    """Every refusal of the library; catch this to catch them all."""


class SettingError(WorkbenchError, ValueError):
    """A setting that does not exist or cannot have the value given."""


class DataError(WorkbenchError, ValueError):
    """A set that is missing, broken or of another kind than asked for."""


class EncoderError(WorkbenchError, ValueError):
    """A checkpoint or a teacher that is missing or broken, or a sentence that an encoder cannot read."""


class RunError(WorkbenchError, RuntimeError):
    """A run that cannot be trained, kept, read or mixed as asked."""


def did_you_mean(given: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """'; did you mean 'x'?' when one of `known` is close to `given` (of 1: the same), else nothing."""
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(given).casefold(), names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def unknown_name(kind: str, given: object, known: Iterable[str], where: str) -> str:
    """Return the message for an unknown name, with the most similar known one."""
    names = sorted(known)
    return f"no {kind} {given!r} {where}{did_you_mean(given, names)} (known: {', '.join(names)})"
