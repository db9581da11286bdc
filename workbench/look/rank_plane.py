"""RankEncoder figure 3, to try: a sentence moves in a plane, and its rank vector changes at each boundary."""

from itertools import combinations, groupby
from typing import Any, ClassVar, cast

import numpy as np

from workbench.look._charts import picture, svg
from workbench.look._sliders import Mechanism, Slider
from workbench.look._style import COLOURS

_SIDE, _CELLS = 420, 70  # pixels of the plane, and in how many cells a side it is coloured
_CORPUS = np.array([[0.36, 0.62], [0.62, 0.66], [0.5, 0.36], [0.78, 0.3], [0.2, 0.22]])
_NAMES = "abcde"


class RankPlane(Mechanism):
    """A sentence x among the sentences a, b, c, ... of a corpus; each line is where two of them change their order.

    All places between the lines that x lies between have the rank vector of x; the number in an area is how similar its
    rank vector is to that of x (eqs. 2 to 4).
    """

    sliders: ClassVar = {"x": Slider("x, across", 0, 1, 0.02), "y": Slider("up", 0, 1, 0.02)}
    lists: ClassVar = {"size": ("corpus", {"3": "3 sentences", "4": "4 sentences", "5": "5 sentences"})}

    def __init__(self, *, x: float = 0.4, y: float = 0.5, size: int = 3) -> None:
        super().__init__(x=x, y=y, size=size)

    @property
    def corpus(self) -> np.ndarray:
        """[c, 2], where the sentences of the corpus lie."""
        return _CORPUS[: int(self.values["size"])]

    @property
    def _x(self) -> np.ndarray:
        return np.array([self.values["x"], self.values["y"]])

    def similarity(self, places: Any) -> np.ndarray:
        """[n] similarity of the rank vectors of `places` [n, 2] with that of x, in [-1, 1]."""
        ranks = self._rank_vectors(np.vstack([self._x, np.asarray(places)]))
        return ranks[1:] @ ranks[0]

    def order(self) -> str:
        """The corpus as x sees it, nearest first; = where two are equally far."""
        own = self._rank_vectors(self._x[None])[0].round(9)
        groups = groupby(sorted(range(len(own)), key=lambda place: -own[place]), key=lambda place: own[place])
        return ", ".join(" = ".join(_NAMES[place] for place in group) for _, group in groups)

    def _rank_vectors(self, places: np.ndarray) -> np.ndarray:
        import torch

        from workbench.ranks import rank_vectors

        apart = ((places[:, None] - self.corpus[None]) ** 2).sum(axis=2)
        return rank_vectors(torch.tensor(-apart)).numpy()

    def shown(self) -> str:
        return f'{self._said()}<div class="plane">{self._picture()}</div>'

    def static(self) -> str:
        image = picture(self._picture(), "the plane, as said above")
        return f"<p>Run the cell to move x.</p>{self._said()}<p>{image}</p>"

    def _said(self) -> str:
        return (
            f'<p class="head" role="status">x at {self._x[0]:.2f}, {self._x[1]:.2f} has, nearest first: '
            f"<b>{self.order()}</b>. <small>A line: there two sentences change their order. A number: how similar "
            "the rank vector of its area is to that of x; the bluer the nearer to 1, the more orange to -1.</small></p>"
        )

    def _picture(self) -> str:
        middles = (np.arange(_CELLS) + 0.5) / _CELLS
        grid = np.stack(np.meshgrid(middles, middles[::-1]), axis=-1)
        values = self.similarity(grid.reshape(-1, 2)).reshape(_CELLS, _CELLS).round(6)
        drawn = [*_areas(values), *(_boundary(*two, self.corpus) for two in combinations(range(len(self.corpus)), 2))]
        drawn += _numbers(values, grid)
        drawn += [_dot(_NAMES[place], at, "#000000") for place, at in enumerate(self.corpus)]
        drawn.append(_dot("x", self._x, COLOURS[1], size=7))
        return svg(_SIDE, _SIDE, f"A plane; x sees the corpus as {self.order()}", drawn)


def _areas(values: np.ndarray) -> list[str]:
    """Rows of cells of one value as one rectangle each."""
    side, drawn = _SIDE / _CELLS, []
    for row, line in enumerate(values.tolist()):
        start = 0
        for value, cells in groupby(line):
            count = len(list(cells))
            colour, depth = COLOURS[0 if value > 0 else 1], 0.45 * abs(value)
            drawn.append(
                f'<rect x="{start * side:g}" y="{row * side:g}" width="{count * side:g}" height="{side:g}" '
                f'fill="{colour}" fill-opacity="{depth:.2f}" shape-rendering="crispEdges"/>'
            )
            start += count
    return drawn


def _boundary(i: int, j: int, corpus: np.ndarray) -> str:
    """The line of places that are equally far from two sentences."""
    middle, apart = (corpus[i] + corpus[j]) / 2, corpus[j] - corpus[i]
    along = np.array([-apart[1], apart[0]]) / np.hypot(*apart) * 2  # past every edge
    (x1, y1), (x2, y2) = _pixels(middle - along), _pixels(middle + along)
    name = f"{_NAMES[i]} and {_NAMES[j]} change their order"
    return (
        f'<g><title>{name}</title><line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#7a7a7a" '
        'stroke-width="2"/></g>'
    )


def _numbers(values: np.ndarray, places: np.ndarray) -> list[str]:
    """The similarity in the middle of each of its areas that is large enough."""
    from scipy.ndimage import label

    drawn = []
    for value in np.unique(values):
        marked, count = cast("tuple[np.ndarray, int]", label(values == value))
        for number in range(1, count + 1):
            cells = places[marked == number]
            if len(cells) >= 80:
                inside = cells[np.abs(cells - cells.mean(axis=0)).sum(axis=1).argmin()]
                x, y = _pixels(inside)
                drawn.append(
                    f'<text x="{x:g}" y="{y + 4:g}" font-size="12" text-anchor="middle">{value + 0:.2g}</text>'
                )
    return drawn


def _dot(name: str, at: np.ndarray, colour: str, size: int = 5) -> str:
    x, y = _pixels(at)
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="{size}" fill="{colour}" stroke="#ffffff"/>'
        f'<text x="{x + 9:g}" y="{y - 6:g}" font-size="15" font-weight="bold">{name}</text>'
    )


def _pixels(place: np.ndarray) -> tuple[float, float]:
    return float(_SIDE * place[0]), float(_SIDE * (1 - place[1]))
