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
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    figure = make_subplots(cols=len(vectors), subplot_titles=tick_names(list(vectors), 28), horizontal_spacing=0.03)
    marker: dict[str, Any] = {"size": 8}
    marker |= {} if values is None else {"color": np.asarray(values), "coloraxis": "coloraxis"}
    dots = {"mode": "markers", "marker": marker, "hovertemplate": "%{text}<extra></extra>"}
    for column, rows in enumerate(vectors.values(), start=1):
        unit = np.asarray(rows, dtype=np.float64)
        unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
        near = min(30, (len(unit) - 1) / 3)
        model = PCA(2, random_state=0) if method == "PCA" else TSNE(perplexity=near, init="pca", random_state=0)
        x, y = model.fit_transform(unit).T
        figure.add_scatter(x=x, y=y, text=[wrapped(one, 60) for one in sentences], **dots, row=1, col=column)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    title, width = f"{plain(method)} of {len(sentences)} sentences", 330 * len(vectors)
    return laid_out(figure, title, coloraxis={"colorscale": "Viridis"}, showlegend=False, width=width)
