"""Small views of how a method works: each is computed by the library's own losses and redrawn at every setting."""

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets
import numpy as np

from workbench.errors import SettingError
from workbench.runs import Run
from workbench.views._asked import Untrained
from workbench.views._html import framed, grid
from workbench.views._table import Panel, View, or_problem


class Mechanism(View):
    """Controls above a panel, which `answer` draws from their values."""

    def __init__(self, **controls: ipywidgets.ValueWidget) -> None:
        self.controls, self.panel = controls, Panel()
        for control in controls.values():
            control.observe(self.draw, "value")
        self.draw()
        super().__init__([self.control_row(), self.panel])

    def answer(self) -> str:
        """Return HTML for the values of the controls, by classes of `STYLES`."""
        raise NotImplementedError

    def draw(self, _: Any = None) -> None:
        self.panel.html = or_problem(lambda: framed(self.answer()))

    def static(self) -> str:
        return f"<p>Run the cell to change the settings.</p>{self.panel.html}"


def slider(description: str, value: float, low: float, high: float, step: float) -> ipywidgets.ValueWidget:
    """Return a slider of whole numbers if `step` is one, otherwise of floats."""
    kind = ipywidgets.IntSlider if isinstance(step, int) else ipywidgets.FloatSlider
    options = {"readout_format": ".3f"} if kind is ipywidgets.FloatSlider else {}
    style = {"description_width": "initial"}
    return kind(value, min=low, max=high, step=step, description=description, style=style, **options)


def selection(description: str, value: Any, options: Sequence[Any]) -> ipywidgets.ValueWidget:
    """Return a list of choices, each a value or a pair (text, value). Raises SettingError for another value."""
    values = [option[1] if isinstance(option, tuple) else option for option in options]
    if value not in values:
        raise SettingError(f"{description} is {value!r}; choose one of {', '.join(map(str, values))}")
    style = {"description_width": "initial"}
    return ipywidgets.Dropdown(options=options, value=value, description=description, style=style)


class TopOne(Mechanism):
    """RankCSE's ListNet (eq. 4): two lists of similarities as top-one distributions, and the pull on the student.

    The first sentence is the anchor; its own place is left out of both lists (footnote 1).
    """

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
        self._student, self._teacher = (np.asarray(scores, dtype=np.float64) for scores in (student, teacher))
        super().__init__(
            student_temperature=slider("temperature of the student", student_temperature, 0.005, 0.2, 0.005),
            teacher_temperature=slider("of the teacher", teacher_temperature, 0.005, 0.2, 0.005),
        )

    def answer(self) -> str:
        import torch

        from workbench.losses import listmle, listnet, top_one

        student = torch.tensor(self._student[None], requires_grad=True)
        teacher = torch.tensor(self._teacher[None])
        tau2, tau3 = (control.value for control in self.controls.values())
        loss = listnet(student, teacher, student_temperature=tau2, teacher_temperature=tau3)
        (gradient,) = torch.autograd.grad(loss, student)
        student = student.detach()
        first = [
            top_one(scores[:, 1:], temperature=tau)[0].numpy() for scores, tau in ((teacher, tau3), (student, tau2))
        ]
        pull = -tau2 * gradient[0, 1:].numpy()
        values = np.column_stack([self._teacher[1:], first[0], self._student[1:], first[1], pull])
        order = np.argsort(-self._teacher[1:], kind="stable")
        columns = ["teacher: similarity", "teacher: first", "student: similarity", "student: first", "pull"]
        rows = [self.sentences[1 + place] for place in order]
        mle = listmle(student, teacher, temperature=tau2, exclude_positive=True)
        return (
            f'<p class="head">Anchor: <b>{escape(self.sentences[0])}</b>. &tau;<sub>2</sub> = '
            f"{tau2:g} (student), &tau;<sub>3</sub> = {tau3:g} (teacher): "
            f"ListNet {float(loss.detach()):.3f}, ListMLE {float(mle):.3f}</p>"
            f"{grid('', values[order], (rows, columns), 1.0, _three_decimals)}"
            '<p class="head"><small><b>first</b>: the probability that a sentence is first in the list. <b>pull</b>: '
            "the teacher's probability minus the student's; if it is positive, the loss raises the student's "
            "similarity. ListMLE only uses the teacher's order.</small></p>"
        )


class Ordering(Mechanism):
    """CoSENT (eq. 10): which pairs are compared, and how much weight each comparison has in the gradient.

    The weight of a comparison is its term divided by 1 plus the sum of all terms.
    """

    def __init__(self, cosines: Any, labels: Any, *, scale: float = 20) -> None:
        """cosines, labels: [n], one for each pair. scale: lambda, one of 1, 5, 20, 50 and 100."""
        self._cosines, self._labels = (np.asarray(values, dtype=np.float64) for values in (cosines, labels))
        super().__init__(scale=selection("lambda", scale, (1, 5, 20, 50, 100)))

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return [n, n] weights and [n] pulls.

        weights[a, b] belongs to the comparison of pair a, which has the higher label, with pair b; nan if there is
        none. The pull is the negative gradient of a cosine.
        """
        import torch

        from workbench.losses import cosent

        scale, labels = float(self.controls["scale"].value), torch.tensor(self._labels)
        cosines = torch.tensor(self._cosines, requires_grad=True)
        loss = cosent(cosines, labels, scale=scale)
        (gradient,) = torch.autograd.grad(loss, cosines)
        weights = np.full((len(labels), len(labels)), np.nan)
        for a, b in np.argwhere(self._labels[:, None] > self._labels[None]):
            alone = cosent(cosines[[a, b]], labels[[a, b]], scale=scale)  # log(1 + its own term)
            weights[a, b] = float(torch.expm1(alone.detach()) * torch.exp(-loss.detach()))
        return weights, -gradient.numpy()

    def answer(self) -> str:
        scale = self.controls["scale"].value
        weights, pull = self.weights()
        order = np.argsort(-self._labels, kind="stable")
        names = [f"label {self._labels[place]:g}, cosine {self._cosines[place]:.2f}" for place in order]
        values = np.column_stack([weights[order][:, order], pull[order] / scale])
        compared = ~np.isnan(weights)
        wrong = compared & (self._cosines[:, None] <= self._cosines[None])
        share = weights[wrong].sum() / max(weights[compared].sum(), 1e-300)
        return (
            f'<p class="head">&lambda; = {scale:g}: {compared.sum()} comparisons; {wrong.sum()} are in '
            f"the wrong order and have {share:.0%} of the total weight</p>"
            f"{grid('', values, (names, [*names, 'pull / λ']), 1.0, _three_decimals)}"
            '<p class="head"><small>The row has the higher label and should have the higher cosine than the column; '
            "pairs with equal labels are not compared. <b>pull</b>: a positive value raises the cosine of the row."
            "</small></p>"
        )


class Composition(Mechanism):
    """CompCSE (eq. 1): the parts of sentences, what is composed of them, and whether it is nearest to its sentence.

    The encoder is used without the train-only layer and without dropout.
    """

    def __init__(self, encoder: Any, sentences: Sequence[str], *, how: str = "avg", temperature: float = 0.05) -> None:
        """encoder: a name, a folder, an `Encoder`, or a run, which stands for the encoder before its training.

        sentences: at least two, otherwise SettingError. The encoder is loaded when it is first needed.
        """
        if len(sentences) < 2:
            raise SettingError(f"Composition has {len(sentences)} sentences; it needs at least two to compare")
        self._encoder, self.sentences, self._vectors = encoder, list(sentences), {}
        composed = [("average", "avg"), ("sum", "sum"), ("halves of the coordinates", "concat_halves")]
        super().__init__(
            parts=slider("parts", 2, 2, 4, 1),
            temperature=slider("temperature", temperature, 0.01, 0.2, 0.01),
            how=selection("composed by", how, composed),
        )

    def answer(self) -> str:
        import torch

        from workbench.losses import compose, cosine_matrix, info_nce
        from workbench.methods.splitting import split_words

        parts, temperature, how = (control.value for control in self.controls.values())
        if how == "concat_halves" and parts > 2:
            raise SettingError(f"halves of the coordinates are composed of 2 parts, not {parts}; use avg or sum")
        cuts = [split_words(sentence, parts) for sentence in self.sentences]
        sides = [self._encode([cut[place] for cut in cuts]) for place in range(parts)]
        cosines = cosine_matrix(self._encode(self.sentences), compose(sides, how))
        loss = float(info_nce(cosines, temperature=temperature))
        nearest = int((cosines.argmax(dim=1) == torch.arange(len(cuts))).sum())
        rows = [f"{number}: {' ‖ '.join(cut)}" for number, cut in enumerate(cuts, start=1)]
        columns = [f"parts of {number}" for number in range(1, len(rows) + 1)]
        return (
            f'<p class="head">Temperature {temperature:g}: loss {loss:.3f}; {nearest} of {len(rows)} sentences '
            f"are nearest to their own parts; the mean cosine with them is {float(cosines.diagonal().mean()):.3f}</p>"
            f"{grid('', cosines.numpy(), (rows, columns), 1.0, _three_decimals)}"
            '<p class="head"><small>‖ marks a cut. Rows: whole sentences; columns: the composition of the parts of '
            "each. The diagonal should be the largest value of its row.</small></p>"
        )

    def _encode(self, texts: list[str]) -> Any:
        import torch

        from workbench.encoder import Encoder

        if isinstance(self._encoder, Run):
            self._encoder = Untrained(self._encoder.path).load()
        elif not isinstance(self._encoder, Encoder):
            self._encoder = Encoder.from_pretrained(self._encoder)
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._encoder.vectors(new), strict=True))
        return torch.stack([self._vectors[text] for text in texts])


def _three_decimals(value: float) -> str:
    return f"{round(value, 3) + 0:.3f}"
