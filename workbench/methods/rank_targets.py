"""The corpus, and U: how similarly E1 ranks it for two training sentences."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.data import Sentences, read_text
from workbench.data._sets import draw_rows
from workbench.errors import DataError, EncoderError, SettingError
from workbench.files import CORPUS
from workbench.losses import (
    SquareScores,
    corpus_covariance,
    full_precision,
    gaussian_rank_similarity,
)
from workbench.methods.distributed import gather_rows
from workbench.methods.rank_vectors import Corpus, rank_vectors
from workbench.printing import LOG

_CORPUS_FILE = Path(CORPUS).name
_BLOCK_ROWS = 2048  # training sentences ranked at a time when all are ranked before the first step
# A million sentences against 10,000 would take 20 GB, against 100,000 200 GB.
_MAX_STORED_BYTES = 2**35


class RankTargets:
    """u_i . u_j for the sentences of a batch (RankEncoder eqs. 2-4).

    They are computed from E1's dropout-free embeddings.

    "exact": ranks of the corpus, averaged over ties; `stored` ranks all training sentences once, in
    half precision. "gaussian": the closed form, from the covariance of the corpus alone.
    """

    def __init__(
        self,
        embeddings: Float[np.ndarray, "n d"],
        corpus: Corpus,
        *,
        similarity: str = "exact",
        stored: bool = False,
    ) -> None:
        if corpus.distinct < 2:
            raise DataError(
                f"E1 gives all {len(corpus)} corpus sentences one vector, so they cannot be "
                "ranked; check E1 and its pooling, or set another corpus"
            )
        self.corpus = corpus
        self.rows = embeddings
        # The closed form needs no corpus afterwards: d x d numbers in place of the ranks.
        self.covariance = corpus_covariance(corpus.rows) if similarity == "gaussian" else None
        self.stored = self._rank_all() if stored and similarity == "exact" else None

    def _rank_all(self) -> np.ndarray:
        sentences = len(self.rows)
        size = len(self.corpus)
        needed = 2 * sentences * size
        if needed > _MAX_STORED_BYTES:
            raise SettingError(
                f"ranks='stored' would keep {needed / 2**30:.0f} GiB ({sentences} sentences x "
                f"{size} ranks); set ranks='step', or a smaller corpus_size"
            )
        # Half precision, 2 bytes for each rank: a million sentences would not fit otherwise.
        ranks = np.empty((sentences, size), dtype=np.float16)
        device = self.corpus.rows.device
        for start in range(0, sentences, _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            vectors = torch.tensor(self.rows[rows], dtype=torch.float32)
            lists = self.corpus.lists(vectors.to(device))
            ranks[rows] = rank_vectors(lists).half().cpu().numpy()
        return ranks

    def take(self, rows: Sequence[int]) -> Tensor:
        """Return the rows from which `similarities` computes a batch's targets.

        These are rank vectors if stored, otherwise E1's embeddings.
        """
        source = self.rows if self.stored is None else self.stored
        return torch.from_numpy(source[np.asarray(rows)])

    def similarities(self, taken: Float[Tensor, "n w"]) -> Float[Tensor, "m m"]:
        """Return U of all processes' sentences, from the rows of `take`.

        Each process ranks its own.
        """
        taken = taken.to(self.corpus.rows.device).float()
        with torch.no_grad():
            # The closed form of all processes' rows at once is cheap; ranks are computed by each
            # process for its own rows and then gathered.
            if self.covariance is not None:
                rows = gather_rows(taken)
                return gaussian_rank_similarity(rows, rows, self.covariance)
            own = taken if self.stored is not None else rank_vectors(self.corpus.lists(taken))
            return _gram_matrix(gather_rows(own))


@full_precision
def _gram_matrix(vectors: Float[Tensor, "n c"]) -> SquareScores:
    # Rounding: a sentence with itself is kept by upper = 1.
    return (vectors @ vectors.T).clamp(-1, 1)


def draw_corpus(data: Sentences, size: int, seed: int) -> list[str]:
    """Draw `size` distinct sentences of `data` without replacement, in their order there.

    There are fewer if `data` has fewer.

    Raises DataError if `data` has fewer than two distinct sentences: one has no order.
    """
    distinct = list(dict.fromkeys(data.sentences))
    count = len(distinct)
    if count < 2:
        raise DataError(
            f"the corpus {data.name} has {count} distinct sentence(s); ranks need at least 2"
        )
    if size > count:
        LOG.warning(
            "corpus_size is %d; %s has %d distinct sentences: all are taken",
            size,
            data.name,
            count,
        )
        size = count
    return [distinct[row] for row in draw_rows(count, size, seed)]


def write_corpus(folder: Path, sentences: Sequence[str]) -> None:
    """Add the corpus to an encoder's folder.

    transformers and sentence-transformers ignore the file.
    """
    # mtime=0: the same corpus gives the same bytes.
    content = json.dumps(list(sentences)).encode()
    (folder / _CORPUS_FILE).write_bytes(gzip.compress(content, mtime=0))


def read_corpus(folder: Path) -> list[str]:
    """Return the corpus that `write_corpus` added to `folder`.

    Raises EncoderError if there is none, DataError if it is damaged.
    """
    path = folder / _CORPUS_FILE
    if not path.is_file():
        raise EncoderError(
            f"{folder} has no {_CORPUS_FILE}, which RankEncoder ranks against: another "
            "method saved this encoder; load it with Encoder.from_pretrained"
        )
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError:
        raise DataError(f"{path} is damaged; restore it") from None
