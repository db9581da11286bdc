"""The sentences that others are ranked against: drawn once, kept with the encoder."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from workbench.data import Sentences
from workbench.errors import DataError, EncoderError

_LOG = logging.getLogger("workbench")
_FILE = "corpus.json.gz"


def draw_corpus(data: Sentences, size: int, seed: int) -> list[str]:
    """`size` distinct sentences of `data`, drawn with `seed` without replacement, in their order there.

    Fewer when `data` holds fewer distinct ones, which is said. Raises DataError when fewer than two are left: one
    sentence has no order.
    """
    distinct = list(dict.fromkeys(data.sentences))
    if len(distinct) < 2:
        raise DataError(
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
    """The corpus that `write_corpus` left in `folder`. Raises EncoderError where there is none, or a broken one."""
    path = folder / _FILE
    try:
        return json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))
    except FileNotFoundError:
        raise EncoderError(
            f"{folder} holds no {_FILE}, which RankEncoder ranks against at test: another method saved this encoder; "
            "load it with Encoder.from_pretrained"
        ) from None
    except (OSError, EOFError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read ({error}); train the run again") from error
