"""The corpus that a sentence is ranked against: drawn once, embedded once, kept with the encoder."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.data import Sentences
from workbench.losses.arguments import full_precision

_LOG = logging.getLogger("workbench")
_FILE = "corpus.json.gz"


def draw_corpus(data: Sentences, size: int, seed: int) -> list[str]:
    """`size` distinct sentences of `data`, drawn with `seed` without replacement, in their order there.

    Fewer when `data` holds fewer distinct ones, which is said. Raises ValueError when fewer than two are left: one
    sentence has no order.
    """
    distinct = list(dict.fromkeys(data.sentences))
    if len(distinct) < 2:
        raise ValueError(
            f"the corpus {data.name} holds {len(distinct)} distinct sentence(s) of {len(data)}; ranks need at least 2: "
            "name another set (corpus)"
        )
    if size > len(distinct):
        _LOG.warning("corpus_size is %d; %s holds %d distinct sentences: all are taken", size, data.name, len(distinct))
    if size >= len(distinct):
        return distinct
    return [distinct[row] for row in np.sort(np.random.default_rng(seed).choice(len(distinct), size, replace=False))]


def write_corpus(folder: Path, sentences: Sequence[str]) -> None:
    """Adds the corpus to an encoder's folder; transformers and sentence-transformers pass over the file."""
    content = json.dumps(list(sentences), ensure_ascii=False).encode("utf-8", "surrogatepass")
    (folder / _FILE).write_bytes(gzip.compress(content, mtime=0))


def read_corpus(folder: Path) -> list[str]:
    """The corpus that `write_corpus` left in `folder`. Raises ValueError where there is none, or a broken one."""
    path = folder / _FILE
    try:
        return json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))
    except FileNotFoundError:
        raise ValueError(
            f"{folder} holds no {_FILE}, which RankEncoder ranks against at test: another method saved this encoder; "
            "load it with Encoder.from_pretrained"
        ) from None
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); train the run again") from error


class Corpus:
    """The corpus as one encoder sees it: unit rows, each distinct one held once.

    Copies are put back behind the product, so that sentences which the encoder cannot tell apart tie exactly. A matrix
    product may sum equal columns in different orders, and rounding would rank them.
    """

    def __init__(self, embeddings: Float[np.ndarray, "c d"], device: torch.device | str = "cpu") -> None:
        rows = np.ascontiguousarray(embeddings, dtype=np.float32)
        keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
        _, first, places = np.unique(keys, return_index=True, return_inverse=True)
        self.size, self.distinct = len(rows), len(first)
        self.copied = self.distinct < self.size
        self.vectors = torch.tensor(rows[first] if self.copied else rows).to(device)
        self.places = torch.from_numpy(places).to(device) if self.copied else None

    def lists(self, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Cosine of each of the unit `rows` with each corpus sentence, in float32."""
        scores = _product(rows, self.vectors)
        return scores if self.places is None else scores[:, self.places]

    def embeddings(self) -> Float[Tensor, "c d"]:
        """All rows, copies included."""
        return self.vectors if self.places is None else self.vectors[self.places]


@full_precision
def _product(rows: Tensor, corpus: Tensor) -> Tensor:
    return rows @ corpus.T
