"""Maps of sentences: their vectors in a plane, as a plotly figure."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from workbench.views._style import laid_out, plain, tick_names, wrapped


def sentence_map(
    vectors: Mapping[str, ArrayLike], sentences: Sequence[str], *, values: ArrayLike | None = None, method: str = "PCA"
) -> go.Figure:
    """Draw sentences in a plane for each label, on one scale and the same each time; hovering shows a sentence.

    Args:
        vectors: label -> [n, d], such as an encoder returns for the sentences.
        sentences: n texts.
        values: [n] numbers that colour the points, such as gold or an error; a Series has their name. None: the colour
            is the place along the first component of the first label.
        method: "PCA" or "t-SNE", of vectors of unit length.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize

    near = min(30, (len(sentences) - 1) / 3)
    model = PCA(2, random_state=0) if method == "PCA" else TSNE(perplexity=near, init="pca", random_state=0)
    planes = [model.fit_transform(normalize(np.asarray(rows, dtype=np.float64))) for rows in vectors.values()]
    figure = make_subplots(cols=len(planes), subplot_titles=tick_names([*vectors], 28), horizontal_spacing=0.03)
    colours = planes[0][:, 0] if values is None else np.asarray(values)
    marker = {"size": 8 if len(sentences) < 200 else 4, "color": colours, "coloraxis": "coloraxis"}
    dots = {"mode": "markers", "marker": marker, "hovertemplate": "%{text}<extra></extra>"}
    for column, (x, y) in enumerate((points.T for points in planes), start=1):
        figure.add_scatter(x=x, y=y, text=[wrapped(text, 60) for text in sentences], **dots, row=1, col=column)
    figure.update_xaxes(visible=False, matches="x")
    figure.update_yaxes(visible=False, matches="y")
    bar = {"title": plain(getattr(values, "name", None) or "")}
    scale = {"colorscale": "Viridis", "showscale": values is not None, "colorbar": bar}
    title, width = f"{plain(method)} of {len(sentences)} sentences", 330 * len(vectors)
    return laid_out(figure, title, coloraxis=scale, showlegend=False, width=width)
