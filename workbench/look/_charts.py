"""What stands beside a list and shows its selection another way, as SVG that the kernel draws: ranks, scores by band of
gold, a map of sentences, similarities.

What a colour says, a shape, a size or a number says too; what hovering says stands in a <title>.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

import numpy as np

from workbench.look._asked import Vectors
from workbench.look._html import cut, grid, note, quoted
from workbench.look._style import COLOURS, GREY, shortened
from workbench.look.pairs import gold_bands
from workbench.look.queries import QueryView, line_colours

_HIGH = 180  # pixels of a plot
_STEP = 15  # from box to box
_BOX_SAYS = (
    "across: bands of gold, up: the score. A box a label: its middle half, the thick line its median, the thin one "
    "from its lowest tenth to its highest. ◆ what is chosen."
)
_RAMP = line_colours(9)  # blue, grey, vermilion
RANKS, GOLD, MAP, SIMILAR = "ranks", "gold", "map", "similarities"
CHARTS = {RANKS: "ranks", GOLD: "scores by gold", MAP: "map", SIMILAR: "similarities"}
MEANINGS = {"gold": "gold", "error": "error of a", "movement": "from a to b"}
# What the two signs of a map say.
SIGNS = {
    "gold": ("gold above the middle of its range", "gold below it"),
    "error": ("nearer under a than gold has it", "further"),
    "movement": ("b is nearer to gold than a", "b is further from it"),
}


def svg(width: float, height: float, said: str, inside: Sequence[str], *, role: str = "img") -> str:
    """A drawing of this size that shrinks with its place; `said`: what it shows, for who does not see it.

    It has no paper of its own, and where no style sheet gives it the page's ink, one for light pages and dark ones.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" font-family="sans-serif" '
        f'viewBox="0 0 {width:g} {height:g}" font-size="12" fill="{GREY}" role="{role}" aria-label="{escape(said)}">'
        f"{''.join(inside)}</svg>"
    )


def picture(drawing: str, said: str) -> str:
    """A drawing as an <img> that carries it, since front ends clean drawings out of HTML; "" of none."""
    data = base64.b64encode(drawing.encode()).decode()
    shown = f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%" alt={quoted(said)}>'
    return shown if drawing else ""


def scores_by_gold(
    gold: np.ndarray, scores: Mapping[str, np.ndarray], here: np.ndarray, every: np.ndarray, *, pressed: bool = True
) -> str:
    """A box a label in each band of gold: middle half, median, and lines to the tenths; ◆ the chosen ones.

    gold [n] and scores [n] of what is listed, here [n] bool; every: gold of all, whose bands these are. With `pressed`
    a band is a button, `band`, of the value "low high".
    """
    names, limits, place = gold_bands(gold, every)
    known = np.concatenate([*scores.values()]) if len(gold) else np.zeros(1)
    low, high = float(known.min()), max(float(known.max()), float(known.min()) + 1e-9)
    wide, left = _STEP * len(scores) + 10, 44

    def down(value: float) -> float:
        return 14 + (_HIGH - 14) * (high - value) / (high - low)

    inside = [
        f'<text x="{left - 6}" y="{down(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        f'<line x1="{left}" x2="{left + wide * len(names)}" y1="{down(value):.1f}" y2="{down(value):.1f}" '
        'stroke="#888888" stroke-opacity="0.4"/>'
        for value in np.linspace(low, high, 5)
    ]
    for band, name in enumerate(names):
        within, x = place == band, left + wide * band
        area = f'<rect x="{x}" y="0" width="{wide}" height="{_HIGH + 44}" fill="transparent"/>'
        drawn = [area, f'<text x="{x + wide / 2}" y="{_HIGH + 36}" text-anchor="middle">{name}</text>']
        for number, (label, values) in enumerate(scores.items()):
            said = f"gold {name}, {label}"
            text = (
                f'<text x="0" y="{_HIGH + 18}" text-anchor="middle"><title>{escape(label)}</title>{number + 1}</text>'
            )
            drawn.append(f'<g transform="translate({x + 12 + _STEP * number})">{text}')
            if within.any():
                signs = map(down, values[within & here])
                box = [down(value) for value in np.quantile(values[within], [0.1, 0.25, 0.5, 0.75, 0.9])]
                drawn.append(_box(box, f"{said}: median {np.median(values[within]):.3f}", number) + _diamonds(signs))
            drawn.append("</g>")
        ends = " ".join(repr(end).removesuffix(".0") for end in limits[band])
        press = f' role="button" tabindex="0" data-tell="band" data-value="{ends}"' if pressed else ""
        told = escape(f"gold {name}: {int(within.sum()):,} pairs")
        inside.append(f'<g class="band"{press} aria-label="{told}">{"".join(drawn)}</g>')
    picture = svg(left + wide * len(names) + 4, _HIGH + 44, "Scores by band of gold", inside, role="group")
    ends = (0, 4, 8, 12, 16)
    labels = [
        f"{_key(_box(ends, label, number), 0, 8)} {number + 1} {escape(label)}" for number, label in enumerate(scores)
    ]
    return picture + note(f"{', '.join(labels)}; {_BOX_SAYS}")


def _box(ends: Sequence[float], said: str, number: int) -> str:
    tenth, first, median, third, last = ends
    colour = COLOURS[number % len(COLOURS)]
    return (
        f'<g><title>{escape(said)}</title><path d="M0 {tenth:.1f}V{last:.1f}" stroke="{colour}"/>'
        f'<rect x="-6" width="12" y="{third:.1f}" height="{max(first - third, 1):.1f}" fill="{colour}" '
        f'fill-opacity="0.35" stroke="{colour}"/><path d="M-6 {median:.1f}h12" stroke="{colour}" stroke-width="3"/></g>'
    )


def _diamonds(heights: Iterable[float]) -> str:
    return "".join(f'<path d="M0 {at - 6:.1f}l6 6 -6 6 -6 -6z" fill="currentColor"/>' for at in heights)


def similarities(view: QueryView, encoders: Mapping[str, Vectors]) -> str:
    """Cosines of the query and its targets with each other, a map an encoder, on one scale, which the number says too:
    darker is closer.
    """
    texts, names = [view.query, *view.targets], ["?", *view.letters]
    rows = {label: vectors(texts) for label, vectors in encoders.items()}
    found = {label: each @ each.T for label, each in rows.items()}
    low, whole = min([0.0, *(float(values.min()) for values in found.values())]), dict(zip(names, texts, strict=True))

    def said(value: float) -> str:
        return f"{value:.2f}" if len(texts) <= 12 else f"{100 * value:.0f}"

    maps = [
        _under(label, grid("", values, (names, names), 1, said, least=low, whole=whole))
        for label, values in found.items()
    ]
    return _beside(maps, "Cosine of each with each, ? the query; bluer: closer.")


def sentences_map(
    planes: Mapping[str, tuple[np.ndarray, str]],
    texts: Sequence[str],
    values: np.ndarray,
    *,
    named: Mapping[int, str],
    lines: Sequence[tuple[int, int]] = (),
    rows: Sequence[int | None] | None = None,
    said: str,
    signs: Sequence[str] = (),
) -> str:
    """A sign a sentence where `planes` (label -> [n, 2], and what its axes show) has it, the larger the further its
    value is from 0.

    values [n] in [-1, 1]: ▲ blue above 0, ▼ vermilion below, ● where it is 0 or nearly so. named: place -> the letter
    that stands there in place of a sign. lines: between places. rows: what a press on a sign chooses, None for nothing.
    signs: what ▲ and ▼ say, in words; none: they say nothing. said: what else is to be known.
    """
    maps, side = [], 240 if len(named) == len(texts) else 300  # a query and its targets need little room
    for label, (points, shown) in planes.items():
        middle, reach = (points.max(axis=0) + points.min(axis=0)) / 2, float(np.ptp(points, axis=0).max()) or 1.0
        at = side / 2 + (points - middle) / reach * (side - 48)  # one scale for both axes: distances stay true
        drawn = [
            f'<line x1="{at[a, 0]:.0f}" y1="{at[a, 1]:.0f}" x2="{at[b, 0]:.0f}" y2="{at[b, 1]:.0f}" stroke="#888888"/>'
            for a, b in lines
        ]
        last = [place for place in range(len(texts)) if place not in named] + list(named)
        for place in last:
            row = None if rows is None else rows[place]
            press = "" if row is None else f' data-tell="chosen" data-value="{row}"'
            drawn.append(_sign(at[place], values[place], texts[place], named.get(place), press))
        maps.append(_under(label, svg(side, side, f"Map of {len(texts)} sentences under {label}", drawn), shown))
    letter = "A" if len(named) == len(texts) else None
    keys = [_shape(np.array([9.0, 9.0]), value, letter) for value in (1.0, -1.0)]
    meaning = [f"{_key(key, 9, 9)} {escape(words)}" for key, words in zip(keys, signs, strict=False)]
    strength = ["the stronger the colour, the more"] if signs else []
    return _beside(maps, "; ".join([escape(said), *meaning, *strength]))


def family_map(
    view: QueryView, encoders: Mapping[str, Vectors], plane: str, values: np.ndarray, signs: Sequence[str]
) -> str:
    """The query and its targets in a plane under each encoder, lines from the query; values [targets] in [-1, 1]."""
    texts = [view.query, *view.targets]
    points = {label: fitted(plane, rows)(rows) for label, rows in ((one, of(texts)) for one, of in encoders.items())}
    lines = [(0, place) for place in range(1, len(texts))]
    named = dict(enumerate(["?", *view.letters]))
    worth = np.concatenate([[0.0], values if len(values) else np.zeros(len(view.targets))])
    said = (
        f"{plane} of the vectors: near each other stands what the encoder has near; ? the query, lines: to its targets"
    )
    return sentences_map(points, texts, worth, named=named, lines=lines, said=said, signs=signs)


def planes_known() -> list[str]:
    """PCA, and UMAP where the package umap-learn is; a folder that is called so is none."""
    found = find_spec("umap")
    return ["PCA", *(["UMAP"] if found and found.origin else [])]


def fitted(plane: str, rows: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, str]]:
    """Rows -> [n, 2] in the plane of that name, fitted to `rows` [n, d], the same each time; and how much it shows of
    these, which UMAP does not say.
    """
    from sklearn.decomposition import PCA

    made: Any = PCA(2, random_state=0)
    if plane == "UMAP" and len(rows) > 3:
        from umap import UMAP  # pyright: ignore[reportMissingImports]

        made = UMAP(n_neighbors=min(15, len(rows) - 1), metric="cosine", init="pca", random_state=0, n_jobs=1)
    made.fit(rows)
    share = float(np.sum(getattr(made, "explained_variance_ratio_", np.nan)))
    shown = "" if np.isnan(share) else f"{share:.0%} of the variance"
    return lambda placed: (made.transform(placed), shown)


def centred(values: np.ndarray | None) -> np.ndarray:
    """-1 to 1 from the smallest to the largest; 0 where there is nothing to tell apart."""
    if values is None or np.ptp(values) == 0:
        return np.zeros(0 if values is None else len(values))
    return 2 * (values - values.min()) / np.ptp(values) - 1


def _key(drawn: str, x: float, y: float) -> str:
    """A sign as it stands in a chart, with its middle at x, y, small enough for a line of text."""
    moved = f"translate({9 - x:g} {9 - y:g})"
    return f'<svg width="18" height="18" aria-hidden="true"><g transform="{moved}">{drawn}</g></svg>'


def _sign(at: np.ndarray, value: float, text: str, name: str | None, press: str) -> str:
    title = f"<title>{escape(f'{name}: ' if name else '')}{escape(cut(text, 200))}\n{value:+.2f}</title>"
    marks = f"{f' data-row={quoted(name)}' if name else ''}{press}"
    return f"<g{marks}>{title}{_shape(at, value, name)}</g>"


def _shape(at: np.ndarray, value: float, name: str | None) -> str:
    x, y = at.round(1)
    colour, size = _RAMP[round(4 - 4 * float(np.clip(value, -1, 1)))], 3 + 5 * min(abs(value), 1)
    sign = "" if abs(value) < 0.02 else "▲" if value > 0 else "▼"
    if name:
        return (
            f'<circle class="paper" cx="{x}" cy="{y}" r="9" fill="#ffffff" stroke="{colour}" stroke-width="2.5"/>'
            f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-weight="bold">{name}</text>'
            f'<text x="{x + 10}" y="{y + 4}" font-size="9">{sign}</text>'
        )
    if not sign:
        return f'<circle cx="{x}" cy="{y}" r="3" fill="#777777"/>'
    down = 1 if value > 0 else -1
    corners = f"M{x} {y - down * size:.1f}l{size:.1f} {down * 1.7 * size:.1f}h{-2 * size:.1f}z"
    return f'<path d="{corners}" fill="{colour}" fill-opacity="0.8"/>'


def _under(label: str, drawing: str, shown: str = "") -> str:
    name = f'<figcaption title="{escape(label)}">{escape(shortened([label], 40)[label])}</figcaption>'
    return f"<figure>{name}{note(escape(shown))}{drawing}</figure>"


def _beside(figures: Sequence[str], said: str) -> str:
    return f'<div class="figures">{"".join(figures)}</div>{note(said)}'
