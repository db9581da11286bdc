"""A live view of a computation: sliders and lists set numbers, and what they give is drawn anew."""

from collections.abc import Mapping
from html import escape
from typing import Any, ClassVar, NamedTuple

from workbench.look._live import Live, choice


class Slider(NamedTuple):
    """From `low` to `high` in steps, named `words`."""

    words: str
    low: float
    high: float
    step: float


class Mechanism(Live):
    """What is set stands in `values`, by the names of `sliders` (numbers) and `lists` (texts)."""

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
            f'<label>{escape(one.words)} <input name="{name}" type="range" min="{one.low:g}" max="{one.high:g}" '
            f'step="{one.step:g}" value="{self.values[name]:g}"></label>'
            for name, one in self.sliders.items()
        )
        return sliders + "".join(
            choice(name, options, self.values[name], title=words) for name, (words, options) in self.lists.items()
        )

    def told(self, name: str, value: Any) -> None:
        if name in self.sliders:
            self.values[name] = min(max(float(value), self.sliders[name].low), self.sliders[name].high)
        elif name in self.lists:
            self.values[name] = str(value)

    def select(self, **values: Any) -> None:
        """Sets from code what the controls set. Raises TypeError for what there is no control of."""
        if unknown := values.keys() - {*self.sliders, *self.lists}:
            known = ", ".join([*self.sliders, *self.lists])
            raise TypeError(f"select has no {', '.join(sorted(unknown))}; it takes {known}")
        for name, value in values.items():
            self.told(name, value)
        self.renew()
        self.redraw()

    def drawn(self) -> dict[str, str]:
        return {"answer": f'<div class="mathjax_ignore"><div class="view">{self.shown()}</div></div>'}

    def static(self) -> str:
        return f"<p>Run the cell to change the numbers.</p>{self.drawn()['answer']}"
