"""Maps of sentences: their vectors in a plane, as a plotly figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from workbench.views._style import laid_out, plain, tick_names, wrapped


def sentence_map(
    vectors: Mapping[str, ArrayLike], sentences: Sequence[str], *, values: ArrayLike | None = None, method: str = "PCA"
) -> go.Figure:
    """Draw sentences in a plane for each label, the same each time; hovering shows a sentence.

    Args:
        vectors: label -> [n, d], such as an encoder returns for the sentences.
        sentences: n texts.
        values: [n] numbers that colour the points, such as gold or an error; None: no colour.
        method: "PCA" or "t-SNE", of vectors of unit length.
    """
    names, texts = tick_names(list(vectors), 28), [wrapped(sentence, 60) for sentence in sentences]
    figure = make_subplots(cols=len(vectors), subplot_titles=names, horizontal_spacing=0.03)
    colour: dict[str, Any] = {} if values is None else {"color": np.asarray(values), "coloraxis": "coloraxis"}
    for column, rows in enumerate(vectors.values(), start=1):
        points = _plane(np.asarray(rows, dtype=np.float64), method)
        figure.add_scatter(
            **{"x": points[:, 0], "y": points[:, 1], "mode": "markers", "marker": {"size": 8, **colour}},
            **{"text": texts, "hovertemplate": "%{text}<extra></extra>", "row": 1, "col": column},
        )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    scale = {"colorscale": "Viridis"}
    title = f"{plain(method)} of {len(texts)} sentences"
    return laid_out(figure, title, coloraxis=scale, showlegend=False, width=330 * len(vectors))


def _plane(rows: np.ndarray, method: str) -> np.ndarray:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    made: Any = {
        "PCA": PCA(2, random_state=0),
        "t-SNE": TSNE(perplexity=min(30, (len(rows) - 1) / 3), init="pca", random_state=0),
    }[method]
    return made.fit_transform(rows)
