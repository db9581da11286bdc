"""RankEncoder figure 3, to try: a sentence moves in a plane, and its rank vector changes at each boundary."""

from collections.abc import Sequence
from itertools import combinations, groupby
from typing import Any, ClassVar

import numpy as np

from workbench.views._html import picture, svg
from workbench.views._style import COLOURS
from workbench.views.mechanisms import Mechanism, Slider

_SIDE, _ROOM = 420, 40  # pixels of the plane, and of an area either way that has room for its number
_NOTHING = 1e-9  # of the plane's side
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
        pairs = list(combinations(range(len(self.corpus)), 2))
        areas = _areas([_bisector(self.corpus[i], self.corpus[j]) for i, j in pairs])
        middles = np.array([area.mean(axis=0) for area in areas])
        drawn = list(map(_area, areas, self.similarity(middles).round(6).tolist()))
        drawn += [_boundary(i, j, self.corpus) for i, j in pairs]
        drawn += [_dot(_NAMES[place], at) for place, at in enumerate(self.corpus)]
        drawn.append(_dot("x", self._x, f'r="7" fill="{COLOURS[1]}"'))
        return svg(_SIDE, _SIDE, f"A plane; x sees the corpus as {self.order()}", drawn)


def _bisector(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, float]:
    """n and d of the line n . place = d, on which places are equally far from both."""
    return two - one, float((two - one) @ (one + two) / 2)


def _areas(lines: Sequence[tuple[np.ndarray, float]]) -> list[np.ndarray]:
    """The corners [n, 2] of each area into which the lines cut the plane."""
    areas = [np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])]
    for normal, far in lines:
        areas = [part for area in areas for side in (1, -1) for part in _beyond(area, side * normal, side * far)]
    return areas


def _beyond(area: np.ndarray, normal: np.ndarray, far: float) -> list[np.ndarray]:
    """The part of a convex area where normal . place is at least `far`; none where it is no wider than rounding."""
    corners, heights = [], area @ normal - far
    for place, height in enumerate(heights):
        before = heights[place - 1]
        if before * height < 0:
            corners.append(area[place] + (area[place - 1] - area[place]) * height / (height - before))
        if height >= 0:
            corners.append(area[place])
    return [np.array(corners)] if heights.max() > _NOTHING and len(corners) > 2 else []


def _area(corners: np.ndarray, value: float) -> str:
    """An area in the colour of its similarity, which stands in its middle where there is room."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(_pixels, corners))
    colour, depth = COLOURS[0 if value > 0 else 1], 0.45 * abs(value)
    drawn = f'<polygon points="{points}" fill="{colour}" fill-opacity="{depth:.2f}"/>'
    (x, y), (wide, high) = _pixels(corners.mean(axis=0)), _SIDE * np.ptp(corners, axis=0)
    number = f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{value + 0:.2g}</text>'
    return drawn + (number if min(wide, high) >= _ROOM else "")


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


def _dot(name: str, at: np.ndarray, how: str = 'r="5" class="ink"') -> str:
    x, y = _pixels(at)
    return (
        f'<circle cx="{x:g}" cy="{y:g}" {how}/>'
        f'<text x="{x + 9:g}" y="{y - 6:g}" font-size="15" font-weight="bold">{name}</text>'
    )


def _pixels(place: np.ndarray) -> tuple[float, float]:
    return float(_SIDE * place[0]), float(_SIDE * (1 - place[1]))
