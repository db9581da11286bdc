"""A live view of a computation: sliders and lists set numbers, and what they give is drawn anew."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from workbench.errors import SettingError
from workbench.look._html import choice, field, framed
from workbench.look._live import Live


class Slider(NamedTuple):
    """From `low` to `high` in steps, named `words`."""

    words: str
    low: float
    high: float
    step: float


class Mechanism(Live):
    """What is set stands in `values`, by the names of `sliders` (numbers) and `lists` (texts)."""

    runs_to: ClassVar = "change the numbers"
    sliders: ClassVar[Mapping[str, Slider]] = {}
    lists: ClassVar[Mapping[str, tuple[str, dict[str, str]]]] = {}  # name -> (words, value -> what is shown)

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = {}
        for name, value in values.items():
            self.told(name, value)
        super().__init__("mechanism")

    def shown(self) -> str:
        """HTML of what the values give, by classes of `STYLES`."""
        raise NotImplementedError

    def controls(self) -> str:
        sliders = "".join(
            field(name, f"{self.values[name]:g}", one.words, type="range", min=one.low, max=one.high, step=one.step)
            for name, one in self.sliders.items()
        )
        return sliders + "".join(
            choice(name, options, self.values[name], title=words) for name, (words, options) in self.lists.items()
        )

    def told(self, name: str, value: Any) -> None:
        """Takes a number within its slider's ends, or a value of a list as that has it, numbers by their size.

        Raises SettingError for one that a list has not.
        """
        if name in self.sliders:
            value = min(max(float(value), self.sliders[name].low), self.sliders[name].high)
        elif name in self.lists:
            given, options = value, self.lists[name][1]
            value = f"{given:g}" if isinstance(given, Real) else str(given)
            if value not in options:
                raise SettingError(f"{name} is {given!r}; choose one of {', '.join(options)}")
        self.values = {**self.values, name: value}

    def select(self, **values: Any) -> None:
        """Sets from code what the controls set.

        Raises TypeError for what there is no control of, SettingError for what a list has not.
        """
        self.put([*self.sliders, *self.lists], values)

    def drawn(self) -> dict[str, str]:
        return {"answer": framed(self.shown())}
