"""Equations to try: sliders and lists, and a table or figure that the library's own losses and ranks give."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import combinations, groupby
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from workbench.errors import SettingError, WorkbenchError
from workbench.runs import Run
from workbench.views._asked import Untrained
from workbench.views._html import framed, grid, inlined, paragraph, problem_html, small_print
from workbench.views._style import COLOURS, laid_out

_CORPUS = np.array([[0.36, 0.62], [0.62, 0.66], [0.5, 0.36], [0.78, 0.3], [0.2, 0.22]])


class Mechanism(ipywidgets.VBox):
    """`controls` by name, and below them a drawing that follows their values."""

    def __init__(self, draw: Callable[..., str], figure: go.FigureWidget | None = None, **controls: Any) -> None:
        """Show what `draw` returns for the values of the controls: HTML, with classes of `STYLES`.

        A ValueError or WorkbenchError is shown in its place. If there is a figure, `draw` changes it and returns a
        description of it for notebooks without a kernel.
        """
        self.controls, self._draw, self._figure, self.drawing = controls, draw, figure, ipywidgets.HTML()
        for control in controls.values():
            control.style.description_width, control.layout.width = "initial", "26em"
            control.observe(self._update, "value")
        row = ipywidgets.HBox([*controls.values()], layout={"flex_flow": "row wrap"})
        super().__init__([row, figure or self.drawing])
        self.add_class("workbench-mechanism")
        self._update()

    def _update(self, _: Any = None) -> None:
        try:
            html = self._draw(**{name: control.value for name, control in self.controls.items()})
        except (ValueError, WorkbenchError) as problem:
            html = problem_html(problem)
        self.drawing.value = f'<div style="line-height:1.4">{inlined(html)}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown: Any = super()._repr_mimebundle_(**kwargs)
        figure: Any = go.Figure(self._figure)._repr_mimebundle_() if self._figure else {}
        static = f"<p>Run the cell to change the numbers.</p>{self.drawing.value}"
        return {**figure, **shown, "text/html": static}


def _slider(value: float, low: float, high: float, step: float, title: str) -> ipywidgets.FloatSlider:
    limits = {"min": low, "max": high, "step": step, "readout_format": ".3f"}
    return ipywidgets.FloatSlider(value=value, description=title, **limits)


def _matrix(values: np.ndarray, rows: list[str], columns: list[str]) -> str:
    return grid("", values, (rows, columns), 1.0, lambda value: f"{round(value, 3) + 0:.3f}")


def explore_listnet(
    sentences: Sequence[str],
    student: Any,
    teacher: Any,
    *,
    student_temperature: float = 0.025,
    teacher_temperature: float = 0.05,
) -> Mechanism:
    """Show RankCSE's ListNet (eq. 4): two lists as top-one distributions, and how the loss pulls the student.

    Args:
        sentences: n, the anchor first. Its own place is left out of both lists (footnote 1).
        student: [n] similarities to the anchor.
        teacher: [n] similarities to the anchor.
        student_temperature: tau_2 at first.
        teacher_temperature: tau_3 at first.
    """
    student, teacher = (np.asarray(scores, dtype=np.float64) for scores in (student, teacher))
    order = np.argsort(-teacher[1:], kind="stable")

    def draw(student_temperature: float, teacher_temperature: float) -> str:
        import torch

        from workbench.losses import listmle, listnet, top_one

        ours, theirs = torch.tensor(student[None]), torch.tensor(teacher[None])
        temperatures: Any = {"student_temperature": student_temperature, "teacher_temperature": teacher_temperature}
        loss = float(listnet(ours, theirs, **temperatures))
        mle = float(listmle(ours, theirs, temperature=student_temperature, exclude_positive=True))
        first = top_one(ours[:, 1:], temperature=student_temperature)[0].numpy()
        wanted = top_one(theirs[:, 1:], temperature=teacher_temperature)[0].numpy()
        values = np.column_stack([teacher[1:], wanted, student[1:], first, wanted - first])[order]
        names = ["teacher: similarity", "teacher: first", "student: similarity", "student: first", "pull"]
        return framed(
            paragraph(
                f"Anchor: <b>{escape(sentences[0])}</b>. &tau;<sub>2</sub> = {student_temperature:g} (student), "
                f"&tau;<sub>3</sub> = {teacher_temperature:g} (teacher): ListNet {loss:.3f}, ListMLE {mle:.3f}"
            ),
            _matrix(values, [str(sentences[1 + place]) for place in order], names),
            small_print(
                "<b>first</b>: how likely a sentence is to be the first of the list. <b>pull</b>: teacher's less "
                "student's: if it is positive, the loss raises the student's similarity, otherwise it lowers it. "
                "ListMLE only uses the teacher's order."
            ),
        )

    sliders = [(student_temperature, "temperature of the student"), (teacher_temperature, "of the teacher")]
    one, other = (_slider(value, 0.005, 0.2, 0.005, title) for value, title in sliders)
    return Mechanism(draw, student_temperature=one, teacher_temperature=other)


def explore_cosent(cosines: Any, labels: Any, *, scale: float = 20.0) -> Mechanism:
    """Show CoSENT (eq. 10): which two pairs it compares, and how hard each comparison pulls.

    A cell is the weight of one comparison: the share of its term in 1 plus the sum of all, and so in the gradient.

    Args:
        cosines: [n], of n pairs.
        labels: [n].
        scale: lambda at first: 1, 5, 20, 50 or 100.
    """
    cosines, labels = (np.asarray(values, dtype=np.float64) for values in (cosines, labels))
    order = np.argsort(-labels, kind="stable")

    def draw(scale: float) -> str:
        weights = comparison_weights(cosines, labels, scale)
        pull = np.nansum(weights, axis=1) - np.nansum(weights, axis=0)
        compared = ~np.isnan(weights)
        wrong = compared & (cosines[:, None] <= cosines[None])
        share = weights[wrong].sum() / max(weights[compared].sum(), 1e-300)
        names = [f"label {labels[place]:g}, cosine {cosines[place]:.2f}" for place in order]
        values = np.column_stack([weights[order][:, order], pull[order]])
        return framed(
            paragraph(
                f"&lambda; = {scale:g}: {compared.sum()} comparisons; {wrong.sum()} are in the wrong order and have "
                f"{share:.0%} of all the weight"
            ),
            _matrix(values, names, [*names, "pull / λ"]),
            small_print(
                "Row above column: the row has the higher label and should have the higher cosine; pairs of equal "
                "labels are not compared. <b>pull</b>: positive raises the cosine of the row, negative lowers it."
            ),
        )

    return Mechanism(draw, scale=ipywidgets.Dropdown(options=[1, 5, 20, 50, 100], value=scale, description="lambda"))


def comparison_weights(cosines: np.ndarray, labels: np.ndarray, scale: float) -> np.ndarray:
    """Return the weights [n, n] of CoSENT's comparisons of pair a (row), of the higher label, with b, otherwise nan."""
    terms = np.exp(scale * (cosines[None] - cosines[:, None]))
    terms[labels[:, None] <= labels[None]] = np.nan
    return terms / (1 + np.nansum(terms))


def explore_composition(
    encoder: Any, sentences: Sequence[str], *, how: str = "avg", temperature: float = 0.05
) -> Mechanism:
    """Show CompCSE (eq. 1): where sentences are cut, what is composed of the parts, and whether it is found again.

    The encoder is used as it is, without the layer and the dropout of training.

    Args:
        encoder: A name, a folder, an `Encoder`, or a run, for the encoder that its training began with.
        sentences: At least two, otherwise SettingError.
        how: "avg", "sum" or "concat_halves" at first.
        temperature: Of infoNCE at first.
    """
    if len(sentences) < 2:
        raise SettingError(f"there are {len(sentences)} sentences to tell apart; give at least two")
    loaded: list[Any] = []

    def draw(parts: int, how: str, temperature: float) -> str:
        from workbench.encoder import Encoder
        from workbench.losses import compose, cosine_matrix, info_nce
        from workbench.methods.splitting import split_words

        if how == "concat_halves" and parts != 2:
            raise ValueError(f"halves of the coordinates are of 2 parts, and there are {parts}; use avg or sum")
        if not loaded:
            given = Untrained(encoder.path).load() if isinstance(encoder, Run) else encoder
            loaded.append(given if isinstance(given, Encoder) else Encoder.from_pretrained(given))
        cuts = [split_words(sentence, parts) for sentence in sentences]
        sides = [loaded[0].vectors([cut[place] for cut in cuts]) for place in range(parts)]
        cosines = cosine_matrix(loaded[0].vectors(list(sentences)), compose(sides, how))
        loss, own = float(info_nce(cosines, temperature=temperature)), float(cosines.diagonal().mean())
        found = int((cosines.argmax(dim=1).numpy() == np.arange(len(cuts))).sum())
        names = [f"{number}: {' ‖ '.join(cut)}" for number, cut in enumerate(cuts, start=1)]
        return framed(
            paragraph(
                f"Temperature {temperature:g}: loss {loss:.3f}; {found} of {len(cuts)} sentences are nearest to their "
                f"own parts, at a mean cosine of {own:.3f}"
            ),
            _matrix(cosines.numpy(), names, [f"parts of {number}" for number in range(1, len(cuts) + 1)]),
            small_print(
                "‖: where a sentence is cut. Rows: whole sentences, columns: what is composed of the parts of each. "
                "The diagonal should be the largest value of its row."
            ),
        )

    ways = [("average", "avg"), ("sum", "sum"), ("halves of the coordinates", "concat_halves")]
    return Mechanism(
        draw,
        parts=ipywidgets.IntSlider(value=2, min=2, max=4, description="parts"),
        how=ipywidgets.Dropdown(options=ways, value=how, description="composed by"),
        temperature=_slider(temperature, 0.01, 0.2, 0.01, "temperature"),
    )


def explore_rank_plane(*, x: float = 0.4, y: float = 0.5, size: int = 3) -> Mechanism:
    """Show RankEncoder figure 3: a sentence x moves among the sentences a, b, c, ... of a corpus in a plane.

    At each line two sentences of the corpus change their order, so all places between the lines around x have the rank
    vector of x. The colour of a place is the similarity of its rank vector to that of x (eqs. 2 to 4).

    Args:
        x: Place of the sentence at first, from left to right in [0, 1].
        y: From below to above.
        size: Sentences in the corpus: 3, 4 or 5.
    """
    side = np.linspace(0, 1, 101)
    places = np.stack(np.meshgrid(side, side), axis=-1)
    scale = {"colorscale": [COLOURS[1], "white", COLOURS[0]], "zmid": 0, "zmin": -1, "zmax": 1}
    areas = go.Heatmap(
        x=side, y=side, **scale, colorbar={"title": "similarity"}, hovertemplate="%{z:.2f}<extra></extra>"
    )
    names = {"mode": "markers+text", "textposition": "top right", "textfont": {"size": 16, "color": "black"}}
    edges = go.Scatter(mode="lines", line={"color": "#444", "width": 2}, hoverinfo="skip")
    dots = go.Scatter(hoverinfo="skip", **names)
    figure = go.FigureWidget(laid_out(go.Figure([areas, edges, dots]), "x", height=560))
    figure.update_xaxes(range=[0, 1], visible=False, constrain="domain")
    figure.update_yaxes(range=[0, 1], visible=False, constrain="domain", scaleanchor="x")

    def draw(x: float, y: float, size: int) -> str:
        corpus, place = _CORPUS[:size], np.array([x, y])
        similarity, order = rank_similarities(place, places.reshape(-1, 2), corpus), order_seen_from(place, corpus)
        lines: list[Any] = []
        for one, other in combinations(corpus, 2):
            middle, along = (one + other) / 2, 10 * np.array([one[1] - other[1], other[0] - one[0]])  # past every edge
            lines += [middle - along, middle + along, (None, None)]
        across, up = zip(*lines, strict=True)
        points = np.vstack([corpus, place])
        marker = {"size": 12, "color": ["black"] * size + [COLOURS[4]], "line": {"color": "black", "width": 1}}
        # Not in a batch: it would give the dots' coordinates to the areas too.
        figure.update_layout(title_text=f"x sees, nearest first: {order}")
        figure.data[0].z = similarity.reshape(len(side), len(side)).round(6).tolist()
        figure.data[1].update(x=across, y=up)
        figure.data[2].update(x=points[:, 0], y=points[:, 1], text=[*"abcde"[:size], "x"], marker=marker)
        return paragraph(f"x at {x:.2f}, {y:.2f} sees, nearest first: <b>{order}</b>.")

    return Mechanism(
        draw,
        figure,
        x=_slider(x, 0, 1, 0.02, "x, across"),
        y=_slider(y, 0, 1, 0.02, "up"),
        size=ipywidgets.Dropdown(options=[(f"{n} sentences", n) for n in (3, 4, 5)], value=size, description="corpus"),
    )


def rank_similarities(place: np.ndarray, others: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    """Return the similarity [n] in [-1, 1] of the rank vectors of the `others` [n, 2] to that of `place` [2]."""
    import torch

    from workbench.ranks import rank_vectors

    distances = ((np.vstack([place, others])[:, None] - corpus[None]) ** 2).sum(axis=2)
    ranks = rank_vectors(torch.tensor(-distances)).numpy()
    return ranks[1:] @ ranks[0]


def order_seen_from(place: np.ndarray, corpus: np.ndarray) -> str:
    """Return the letters of the corpus, nearest first; = between two that are equally far."""
    distances = ((corpus - place) ** 2).sum(axis=1).round(9)
    ordered = sorted(range(len(corpus)), key=distances.__getitem__)
    return ", ".join(" = ".join("abcde"[one] for one in same) for _, same in groupby(ordered, distances.__getitem__))
