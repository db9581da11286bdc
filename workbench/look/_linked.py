"""What stands beside a list and shows its selection another way: ranks, scores by gold, a map, similarities."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from workbench.look import _charts
from workbench.look._asked import Vectors
from workbench.look.queries import QueryView

RANKS, GOLD, MAP, SIMILAR = "ranks", "gold", "map", "similarities"
CHARTS = {RANKS: "ranks", GOLD: "scores by gold", MAP: "map", SIMILAR: "similarities"}
COLOURS = {"gold": "gold", "error": "error of a", "movement": "from a to b"}
# What the two signs of a map say.
SIGNS = {
    "gold": ("gold above the middle of its range", "gold below it"),
    "error": ("nearer under a than gold has it", "further"),
    "movement": ("b is nearer to gold than a", "b is further from it"),
}


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
