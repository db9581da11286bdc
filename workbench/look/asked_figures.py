"""Figures of the papers for which the encoders of finished runs are asked anew; only then is torch loaded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.config import BaseConfig
from workbench.data import load_dev
from workbench.look._asked import encode_of
from workbench.look.figures import cosine_maps
from workbench.look.rank_figures import neighbour_bins, neighbours_and_gain, vector_spaces
from workbench.runs import Run

_SHOWN = 1000  # sentences on a plane


def phrases(found: Mapping[str, Run], of: Mapping[str, Any], *_: Any) -> go.Figure:
    """Cosines of a sentence, its phrases and others, a map a run: the paper's texts, or the bundled world's."""
    on_the_world = any(getattr(run.config, "train", "") == "world" for run in found.values())
    texts = of["world" if on_the_world else "texts"]
    rows = {name: _rows(name, run, texts) for name, run in found.items()}
    return cosine_maps({name: each @ each.T for name, each in rows.items()}, texts)


def lengths(found: Mapping[str, Run], *_: Any) -> go.Figure:
    """The sentences of dev on the plane of each run's two largest variances, coloured by their number of words."""
    held = _sentences(next(iter(found.values())))[:_SHOWN]
    words = pd.Series([len(text.split()) for text in held], name="words")
    return vector_spaces({name: _rows(name, run, held) for name, run in found.items()}, held, colour=words)


def neighbours(found: Mapping[str, Run], *_: Any) -> go.Figure:
    """By bins of cosine on dev: neighbours shared in the corpus, and what the rank vectors of E1 add."""
    from workbench.methods.rankencoder import neighbour_table

    run = next(iter(found.values()))
    return neighbours_and_gain(neighbour_bins(neighbour_table(_ranks_of_e1(run), load_dev(run.config))))


def spaces(found: Mapping[str, Run], *_: Any) -> go.Figure:
    """Sentences of dev as E1's embeddings and as its rank vectors."""
    run = next(iter(found.values()))
    mixture, held = _ranks_of_e1(run), _sentences(run)[:_SHOWN]
    embedded = mixture.embed(held, 64)
    ranked = mixture.encode(held)[:, embedded.shape[1] :]
    return vector_spaces({"embeddings of E1": embedded.numpy(), "its rank vectors": ranked.numpy()}, held)


def _rows(name: str, run: Run, texts: list[str]) -> np.ndarray:
    """Unit rows under the encoder that the run trained, or evaluated as it is."""
    if isinstance(run.config, BaseConfig):
        from workbench.baselines import load_base

        return np.asarray(load_base(run.config).encode(texts))
    return np.asarray(encode_of(name, run)(texts))


def _sentences(run: Run) -> list[str]:
    """The distinct sentences of dev, in their order."""
    pairs = load_dev(run.config)
    return list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))


def _ranks_of_e1(run: Run) -> Any:
    """E1's rank vectors alone (eq. 2), over the corpus that the run keeps."""
    from workbench.methods.rankencoder import RankMixture, load_e1, read_corpus

    config: Any = run.config
    base = load_e1(config)
    return RankMixture(base.encode, read_corpus(run.path / "encoder"), weight=1.0, device=base.device)
