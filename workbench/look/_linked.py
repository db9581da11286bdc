"""What stands beside a list and shows its selection another way: ranks, scores by gold, a map, similarities."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from workbench.look import _charts
from workbench.look._asked import Vectors
from workbench.look._html import choice
from workbench.look._listing import Listing
from workbench.look.page import DRAWN
from workbench.look.queries import QueryView, places_off
from workbench.look.why import Reasons

RANKS, GOLD, MAP, SIMILAR = "ranks", "gold", "map", "similarities"
CHARTS = {RANKS: "ranks", GOLD: "scores by gold", MAP: "map", SIMILAR: "similarities"}
COLOURS = {"gold": "gold", "error": "error of a", "movement": "from a to b"}
# What the two signs of a map say.
SIGNS = {
    "gold": ("gold above the middle of its range", "gold below it"),
    "error": ("nearer under a than gold has it", "further"),
    "movement": ("b is nearer to gold than a", "b is further from it"),
}


class Linked(Listing):
    """A list with a chart of a chosen kind beside it; what needs vectors is offered where encoders are known."""

    looks: ClassVar = ("chart", "colour", "plane")

    def __init__(self, kind: str, labels: Sequence[str], orders: Any, order: str, reasons: Reasons) -> None:
        self._reasons = reasons
        self.chart, self.colour, self.plane = RANKS, "gold", "PCA"
        super().__init__(kind, labels, orders, order)

    def _look_again(self, labels: Sequence[str], orders: Any, order: str, reasons: Reasons) -> None:
        """From here on what `labels` name; `chosen`, `room` and what else was chosen stay where they still can be."""
        self._reasons, self._found = reasons, (None, [])
        self._offer(labels, orders, order)
        self.renew()
        self.redraw()

    @property
    def _vectors(self) -> dict[str, Vectors]:
        return {reader.label: reader for reader in self._reasons.readers}

    def _offer(self, labels: Sequence[str], orders: Mapping[str, tuple[str, str]], order: str) -> None:
        super()._offer(labels, orders, order)
        for name, offered in self.known().items():
            if name in self.looks and getattr(self, name) not in offered:
                setattr(self, name, offered[0])

    def known(self) -> dict[str, Sequence[str]]:
        charts = [name for name in CHARTS if self._vectors or name in (RANKS, GOLD)]
        colours = [name for name in COLOURS if len(self.labels) > 1 or name != "movement"]
        return super().known() | {"chart": charts, "colour": colours, "plane": planes_known()}

    def further(self) -> Iterable[str]:
        known = self.known()
        yield choice("chart", {name: CHARTS[name] for name in known["chart"]}, self.chart)
        if self.chart == MAP:
            yield choice("colour", {name: COLOURS[name] for name in known["colour"]}, self.colour, title="signs")
        if self.chart == MAP and len(known["plane"]) > 1:
            yield choice("plane", {name: name for name in known["plane"]}, self.plane)

    def _choose(self, chosen: Mapping[str, Any]) -> None:
        if chosen.get("plane") == "UMAP" and "UMAP" not in planes_known():
            raise ValueError("UMAP needs umap-learn, which is not installed: pip install 'ranking-workbench[maps]'")
        super()._choose(chosen)

    def told(self, name: str, value: Any) -> None:
        if name not in self.looks:
            self._reasons.told(name, value)
        if name in self.looks:
            setattr(self, name, value)
            if name == "chart":  # which has controls of its own; another, such as a field, may be typed in just now
                self.renew()
        elif name == "band":
            low, high = value.split()
            same = (str(getattr(self, "low", "")), str(getattr(self, "high", ""))) == (low, high)
            super().told("low", "" if same else low)
            super().told("high", "" if same else high)
            self.renew()
        else:
            super().told(name, value)

    def encoders(self) -> dict[str, Vectors]:
        """Those of a and b, or the first where these have none."""
        found = {label: self._vectors[label] for label in dict.fromkeys((self.a, self.b)) if label in self._vectors}
        return found or dict(list(self._vectors.items())[:1])

    def read(self, vectors: Vectors, texts: Sequence[str]) -> np.ndarray:
        """[n, d] rows of `texts`; the status says how far it is."""
        for words in vectors.reading(texts):
            self.say(words)
        return vectors(texts)

    def family_chart(self, view: QueryView) -> str:
        """Similarities or map of one query and its targets, of which those are drawn that are nearest."""
        shown = view.nearest(DRAWN)
        if self.chart == SIMILAR:
            return similarities(shown, self.encoders())
        return family_map(shown, self.encoders(), self.plane, self._worth(shown), SIGNS[self.colour])

    def _worth(self, view: QueryView) -> np.ndarray:
        """What the sign of each target says, in [-1, 1]."""
        reference, longest = view.reference, max(view.total - 1, 1)
        first, second = (places_off(view.ranks[label], reference) / longest for label in (self.a, self.b))
        values = {"error": first, "movement": np.abs(first) - np.abs(second)}
        return centred(view.gold) if self.colour == "gold" else values[self.colour]


def planes_known() -> list[str]:
    """PCA, and UMAP where the package umap-learn is; a folder that is called so is none."""
    found = find_spec("umap")
    return ["PCA", *(["UMAP"] if found and found.origin else [])]


def fitted(plane: str, rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Rows -> [n, 2] in the plane of that name, fitted to `rows` [n, d], the same each time."""
    from sklearn.decomposition import PCA

    made: Any = PCA(2, random_state=0)
    if plane == "UMAP" and len(rows) > 3:
        from umap import UMAP  # pyright: ignore[reportMissingImports]

        made = UMAP(n_neighbors=min(15, len(rows) - 1), metric="cosine", init="pca", random_state=0, n_jobs=1)
    return made.fit(rows).transform


def centred(values: np.ndarray | None) -> np.ndarray:
    """-1 to 1 from the smallest to the largest; 0 where there is nothing to tell apart."""
    if values is None or np.ptp(values) == 0:
        return np.zeros(0 if values is None else len(values))
    return 2 * (values - values.min()) / np.ptp(values) - 1


def similarities(view: QueryView, encoders: Mapping[str, Vectors]) -> str:
    """Heat maps of the query and its targets with each other, under each encoder."""
    texts = [view.query, *view.targets]
    rows = {label: vectors(texts) for label, vectors in encoders.items()}
    return _charts.similarities({label: found @ found.T for label, found in rows.items()}, texts, ["?", *view.letters])


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
    return _charts.sentences_map(points, texts, worth, named=named, lines=lines, said=said, signs=signs)
