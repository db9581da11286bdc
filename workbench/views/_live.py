"""A view that the kernel draws as HTML and a browser shows: what is pressed and typed comes back here."""

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from workbench.errors import WorkbenchError
from workbench.views._html import STYLES, inlined, problem_html as refused, quoted
from workbench.views._style import FIGURE_RULES

_RULES = (Path(__file__).parent / "live.css").read_text(encoding="utf-8")
_CLASSES = [f".workbench-look .{name} {{ {style} }}" for name, style in STYLES.items()]
STYLE_SHEET = "\n".join([_RULES, FIGURE_RULES, *_CLASSES])


class Live(anywidget.AnyWidget):
    """Parts of HTML by name, drawn again after each of the reader's doings; only those that changed reach the page.

    A view says what it shows (`controls`, `drawn`), what a doing means (`told`) and what stands there without a kernel
    (`static`). Controls are not drawn again while somebody types in them, unless the view says so (`renew`).
    """

    _esm = Path(__file__).parent / "live.js"
    _css = STYLE_SHEET
    kind = traitlets.Unicode().tag(sync=True)  # which grid of the style sheet
    parts = traitlets.Dict().tag(sync=True)
    runs_to: ClassVar = "change it"

    def __init__(self, kind: str) -> None:
        self._times = count()
        self.renew()
        self.redraw()  # before the page is told of the view: a part drawn later may come before it listens, and be lost
        super().__init__(kind=kind, parts=self.parts)
        self.on_msg(self._told)

    def controls(self) -> str:
        """HTML of fields, lists and buttons, whose names are those that `told` gets."""
        raise NotImplementedError

    def drawn(self) -> dict[str, str]:
        """name -> HTML of what else is shown. Raises ValueError or WorkbenchError to say why nothing can be."""
        raise NotImplementedError

    def told(self, name: str, value: Any) -> None:
        """The reader set the control `name` to `value`, or pressed its button of this value."""
        raise NotImplementedError

    def static(self) -> str:
        """HTML for where no kernel runs, or the notebook is not trusted: what is drawn, and what the cell is for."""
        return f"<p>Run the cell to {self.runs_to}.</p>{self.explained(lambda: self.drawn()['answer'])}"

    def renew(self) -> None:
        """Draws the controls by what is chosen now, at the next `redraw`."""
        self._controls = f"{self.controls()}<!-- {next(self._times)} -->"  # the number: whatever was typed goes

    def redraw(self) -> None:
        """Draws all parts; what cannot be drawn is said in their place."""
        try:
            said = {"problem": "", **self.drawn()}
        except (ValueError, WorkbenchError) as problem:
            self.refuse(str(problem))
        else:
            self.parts = {"controls": self._controls, **said}

    def refuse(self, words: str) -> None:
        """Puts these words in the place of all that is drawn: why it cannot be."""
        said = dict.fromkeys(self.parts.keys() - {"controls"}, "")
        said |= {"problem": refused(words)}
        self.parts = {"controls": self._controls, **said}

    def explained(self, drawn: Callable[[], str]) -> str:
        """What this draws, or why it cannot be drawn."""
        try:
            return drawn()
        except (ValueError, WorkbenchError) as problem:
            return refused(problem)

    def known(self) -> Mapping[str, Collection[str]]:
        """Control -> what can be chosen there, of those that are lists."""
        return {}

    def put(self, names: Sequence[str], values: Mapping[str, Any]) -> None:
        """Sets from code what the controls set, in the order of `names`; where one value is refused, none.

        Raises TypeError for what is not among `names`, ValueError for what is no choice of its list.
        """
        if unknown := values.keys() - set(names):
            raise TypeError(f"select has no {', '.join(sorted(unknown))}; it takes {', '.join(names)}")
        before = dict(vars(self))
        try:
            for name in filter(values.__contains__, names):
                self._require_known(name, values[name])
                self.given(name, values[name])
        except Exception:
            vars(self).update(before)
            raise
        self.renew()
        self.redraw()

    def _require_known(self, name: str, value: Any) -> None:
        offered = self.known().get(name)
        if offered is not None and value not in offered:
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(offered)}")

    def given(self, name: str, value: Any) -> None:
        """Takes one value from code, which may have other kinds of them than a page: ValueError for what is none."""
        self.told(name, value)

    def say(self, words: str) -> None:
        """Puts these words in the place of the status, at once: something takes time."""
        self.parts = self.parts | {"status": f'<span role="status">{escape(words)}</span>'}

    def answer(self) -> None:
        """Draws after something was told."""
        self.redraw()

    def _told(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if not content:  # a page that shows the view asks what stands there
            self.send_state("parts")
            self.send({"done": True})
            return
        try:
            for name, value in content.items():
                self.told(name, value)
            self.answer()
        finally:
            self.send({"done": True})  # or nothing more would come

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        self.renew()
        self.redraw()
        data, metadata = bundle
        return {**data, "text/html": inlined(self.static())}, metadata


def choice(name: str, options: Mapping[str, str], chosen: str, *, title: str = "") -> str:
    """A drop-down list with its name before it. options: value -> what is shown."""
    shown = "".join(
        f"<option value={quoted(value)}{f' title={quoted(value)}' if '…' in text else ''}"
        f"{' selected' if value == chosen else ''}>{escape(text)}</option>"
        for value, text in options.items()
    )
    return f'<label title={quoted(title)}>{escape(title or name)} <select name="{name}">{shown}</select></label>'


def field(name: str, value: object, words: str = "", *, wide: bool = False, **attributes: object) -> str:
    """An <input>, with its words before it where there are any; `wide`: as wide as there is room.

    attributes: with - for _; True: without a value; False: none. value None: without, as of a box to tick.
    """
    given = attributes if value is None else {**attributes, "value": value}
    kept = {key.replace("_", "-"): each for key, each in given.items() if each is not False}
    put = "".join(f" {key}" if each is True else f" {key}={quoted(str(each))}" for key, each in kept.items())
    style = ' class="wide"' if wide else ""
    box = f'<input name="{name}"{put}>'
    return f"<label{style}>{escape(words)} {box}</label>" if words else box
