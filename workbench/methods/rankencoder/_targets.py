"""U: how similarly E1 makes two training sentences rank the corpus, from embeddings that never change."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.errors import DataError, SettingError
from workbench.losses import full_precision
from workbench.processes import gather_rows
from workbench.ranks import Corpus, corpus_covariance, gaussian_rank_similarity, rank_vectors

_ROWS = 2048  # training sentences ranked at a time when all are ranked beforehand
_MOST_STORED = 2**35  # bytes; a million sentences against 10,000 would take 20 GB, against 100,000 200 GB


class RankTargets:
    """u_i . u_j for the sentences of a batch (RankEncoder eqs. 2-4), of E1's dropout-free embeddings.

    "exact": ranks of the corpus, averaged over ties; "stored" ranks all training sentences once, in half precision.
    "gaussian": the closed form, from the covariance of the corpus alone.
    """

    def __init__(
        self,
        embeddings: Float[np.ndarray, "n d"],
        corpus: Corpus,
        *,
        similarity: Literal["exact", "gaussian"] = "exact",
        stored: bool = False,
    ) -> None:
        if corpus.distinct < 2:
            raise DataError(
                f"E1 gives all {len(corpus)} corpus sentences one vector; nothing is nearer than anything else: "
                "look at E1 and its pooling, or name another corpus"
            )
        self.corpus = corpus
        self.rows = embeddings
        self.covariance = corpus_covariance(corpus.rows) if similarity == "gaussian" else None
        self.stored = self._rank_all() if stored and similarity == "exact" else None

    def _rank_all(self) -> np.ndarray:
        needed = 2 * len(self.rows) * len(self.corpus)
        if needed > _MOST_STORED:
            raise SettingError(
                f"ranks='stored' would keep {needed / 2**30:.0f} GiB ({len(self.rows)} sentences x {len(self.corpus)} "
                "ranks); take ranks='step', or a smaller corpus_size"
            )
        found = np.empty((len(self.rows), len(self.corpus)), dtype=np.float16)
        device = self.corpus.rows.device
        for start in range(0, len(self.rows), _ROWS):
            block = torch.from_numpy(np.asarray(self.rows[start : start + _ROWS], dtype=np.float32)).to(device)
            found[start : start + len(block)] = rank_vectors(self.corpus.lists(block)).half().cpu().numpy()
        return found

    def of(self, rows: Sequence[int]) -> Tensor:
        """What a batch carries of these training sentences: their rank vectors when stored, else E1's embeddings."""
        source = self.rows if self.stored is None else self.stored
        return torch.from_numpy(np.asarray(source[np.asarray(rows)]))

    def similarities(self, carried: Float[Tensor, "n w"]) -> Float[Tensor, "m m"]:
        """U of all processes' sentences, from what `of` gave; each process ranks its own."""
        carried = carried.to(self.corpus.rows.device).float()
        with torch.no_grad():
            if self.covariance is not None:
                rows = gather_rows(carried)
                return gaussian_rank_similarity(rows, rows, self.covariance)
            own = carried if self.stored is not None else rank_vectors(self.corpus.lists(carried))
            return _gram(gather_rows(own))


@full_precision
def _gram(vectors: Float[Tensor, "n c"]) -> Float[Tensor, "n n"]:
    return (vectors @ vectors.T).clamp(-1, 1)  # rounding: a sentence with itself is kept by upper = 1
