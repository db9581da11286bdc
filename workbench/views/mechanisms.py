"""How a method works, to try: one small view each, computed by the library's own losses, drawn anew at each setting."""

from collections.abc import Mapping, Sequence
from html import escape
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from workbench.errors import SettingError
from workbench.runs import Run
from workbench.views._asked import Untrained
from workbench.views._html import framed, grid
from workbench.views._live import Live, choice, field

_LAMBDAS = ("1", "5", "20", "50", "100")


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


class TopOne(Mechanism):
    """RankCSE's ListNet (eq. 4): two lists of similarities as top-one distributions, and where the student is pulled.

    The first sentence is the anchor, whose own place is left out of both lists (footnote 1).
    """

    sliders: ClassVar = {
        "student_temperature": Slider("temperature of the student", 0.005, 0.2, 0.005),
        "teacher_temperature": Slider("of the teacher", 0.005, 0.2, 0.005),
    }

    def __init__(
        self,
        sentences: Sequence[str],
        student: Any,
        teacher: Any,
        *,
        student_temperature: float = 0.025,
        teacher_temperature: float = 0.05,
    ) -> None:
        """sentences: n, the anchor first. student, teacher: [n], their similarities to the anchor."""
        self.sentences = list(sentences)
        self._student, self._teacher = (np.asarray(list_, dtype=np.float64) for list_ in (student, teacher))
        super().__init__(student_temperature=student_temperature, teacher_temperature=teacher_temperature)

    def shown(self) -> str:
        import torch

        from workbench.losses import listmle, listnet, top_one

        student = torch.tensor(self._student[None], requires_grad=True)
        teacher = torch.tensor(self._teacher[None])
        tau2, tau3 = self.values["student_temperature"], self.values["teacher_temperature"]
        loss = listnet(student, teacher, student_temperature=tau2, teacher_temperature=tau3)
        (gradient,) = torch.autograd.grad(loss, student)
        student, loss = student.detach(), float(loss.detach())
        shares = [
            top_one(scores[:, 1:], temperature=tau)[0].numpy() for scores, tau in ((teacher, tau3), (student, tau2))
        ]
        pull = -tau2 * gradient[0, 1:].numpy()
        table = np.column_stack([self._teacher[1:], shares[0], self._student[1:], shares[1], pull])
        order = np.argsort(-self._teacher[1:], kind="stable")
        names = ["teacher: similarity", "teacher: first", "student: similarity", "student: first", "pull"]
        rows = [self.sentences[1 + place] for place in order]
        mle = listmle(student, teacher, temperature=tau2, exclude_positive=True)
        return (
            f'<p class="head">Anchor: <b>{escape(self.sentences[0])}</b>. &tau;<sub>2</sub> = '
            f"{tau2:g} (student), &tau;<sub>3</sub> = {tau3:g} (teacher): "
            f"ListNet {loss:.3f}, ListMLE {float(mle):.3f}</p>"
            f"{grid('', table[order], (rows, names), 1.0, _three)}"
            '<p class="head"><small><b>first</b>: how likely a sentence is to be the first of the list. <b>pull</b>: '
            "teacher's less student's: where it is positive, the loss raises the student's similarity, else it lowers "
            "it. ListMLE knows only the teacher's order.</small></p>"
        )


class Ordering(Mechanism):
    """CoSENT (eq. 10): which two pairs it compares, and how hard each comparison pulls.

    A cell is the weight of one comparison: the part that its term has of 1 plus the sum of all, and so of the gradient.
    """

    lists: ClassVar = {"scale": ("lambda", {value: value for value in _LAMBDAS})}

    def __init__(self, cosines: Any, labels: Any, *, scale: float = 20.0) -> None:
        """cosines, labels: [n], a pair each. scale: lambda, of 1, 5, 20, 50 and 100."""
        self._cosines, self._labels = (np.asarray(list_, dtype=np.float64) for list_ in (cosines, labels))
        super().__init__(scale=scale)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """[n, n] weight of the comparison of pair a (row), labelled higher, with pair b, nan where there is none; and
        [n] the pull on each cosine, what the gradient would add to it."""
        import torch

        from workbench.losses import cosent

        scale, labels = float(self.values["scale"]), torch.tensor(self._labels)
        cosines = torch.tensor(self._cosines, requires_grad=True)
        loss = cosent(cosines, labels, scale=scale)
        (gradient,) = torch.autograd.grad(loss, cosines)
        n = len(self._labels)
        found = np.full((n, n), np.nan)
        for a, b in np.argwhere(self._labels[:, None] > self._labels[None]):
            alone = cosent(cosines[[a, b]], labels[[a, b]], scale=scale)  # log(1 + its own term)
            found[a, b] = float(torch.expm1(alone.detach()) * torch.exp(-loss.detach()))
        return found, -gradient.numpy()

    def shown(self) -> str:
        weights, pull = self.weights()
        order = np.argsort(-self._labels, kind="stable")
        names = [f"label {self._labels[place]:g}, cosine {self._cosines[place]:.2f}" for place in order]
        table = np.column_stack([weights[order][:, order], pull[order] / float(self.values["scale"])])
        compared = ~np.isnan(weights)
        wrong = compared & (self._cosines[:, None] <= self._cosines[None])
        share = weights[wrong].sum() / max(weights[compared].sum(), 1e-300)
        return (
            f'<p class="head">&lambda; = {self.values["scale"]}: {compared.sum()} comparisons; {wrong.sum()} are in '
            f"the wrong order and have {share:.0%} of all the weight</p>"
            f"{grid('', table, (names, [*names, 'pull / λ']), 1.0, _three)}"
            '<p class="head"><small>Row above column: the row has the higher label and should have the higher cosine; '
            "pairs of equal labels are not compared. <b>pull</b>: positive raises the cosine of the row, negative "
            "lowers it.</small></p>"
        )


class Composition(Mechanism):
    """CompCSE (eq. 1): where sentences are cut, what is composed of the parts, and whether it is found again.

    Without the layer and the dropout of training: the encoder as it is.
    """

    sliders: ClassVar = {
        "parts": Slider("parts", 2, 4, 1),
        "temperature": Slider("temperature", 0.01, 0.2, 0.01),
    }
    lists: ClassVar = {
        "how": ("composed by", {"avg": "average", "sum": "sum", "concat_halves": "halves of the coordinates"})
    }

    def __init__(self, encoder: Any, sentences: Sequence[str], *, how: str = "avg", temperature: float = 0.05) -> None:
        """encoder: a name, a folder, an `Encoder`, or a run, of which it is what training began with; loaded when it is
        first needed. sentences: two at least, else SettingError.
        """
        self._given, self.sentences = encoder, list(sentences)
        if len(self.sentences) < 2:
            raise SettingError(f"{len(self.sentences)} sentences have nothing to be told apart from; give two at least")
        self._known: dict[str, Any] = {}
        super().__init__(parts=2, how=how, temperature=temperature)

    def shown(self) -> str:
        import torch

        from workbench.losses import compose, cosine_matrix, info_nce
        from workbench.methods.splitting import split_words

        cuts = [split_words(sentence, int(self.values["parts"])) for sentence in self.sentences]
        sides = [self._vectors([cut[place] for cut in cuts]) for place in range(int(self.values["parts"]))]
        cosines = cosine_matrix(self._vectors(self.sentences), compose(sides, self.values["how"]))
        tau = self.values["temperature"]
        loss = float(info_nce(cosines, temperature=tau))
        own = cosines.diagonal()
        nearest = int((cosines.argmax(dim=1) == torch.arange(len(cuts))).sum())
        rows = [" ‖ ".join(cut) for cut in cuts]
        names = [f"parts of {number}" for number in range(1, len(rows) + 1)]
        numbered = [f"{number}: {row}" for number, row in enumerate(rows, start=1)]
        return (
            f'<p class="head">Temperature {tau:g}: loss {loss:.3f}; {nearest} of {len(rows)} sentences '
            f"are nearest to their own parts, at a cosine of {float(own.mean()):.3f} in the mean</p>"
            f"{grid('', cosines.numpy(), (numbered, names), 1.0, _three)}"
            '<p class="head"><small>‖: where a sentence is cut. Rows: whole sentences, columns: what is composed of '
            "the parts of each. The diagonal should be largest in its row.</small></p>"
        )

    def _vectors(self, texts: list[str]) -> Any:
        import torch

        from workbench.encoder import Encoder

        if isinstance(self._given, Run):
            self._given = Untrained(self._given.path).load()
        elif not isinstance(self._given, Encoder):
            self._given = Encoder.from_pretrained(self._given)
        lacking = [text for text in dict.fromkeys(texts) if text not in self._known]
        if lacking:
            self._known.update(zip(lacking, self._given.vectors(lacking), strict=True))
        return torch.stack([self._known[text] for text in texts])


def _three(value: float) -> str:
    return f"{round(value, 3) + 0:.3f}"
