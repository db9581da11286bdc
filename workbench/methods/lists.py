"""Graded lists: each query's targets must be ranked as their gold scores rank them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity, pad
from torch.nn.utils.rnn import pad_sequence

from workbench.config import ListsConfig
from workbench.encoder import number_sentences
from workbench.errors import DataError
from workbench.losses import Scalar, Scores
from workbench.methods.base import Batch, Method, Terms, named_loss, rank_labels
from workbench.methods.distributed import gather_rows, max_over_processes
from workbench.printing import LOG

_TEXTS, _TARGETS = 32, 8  # numbers are rounded up to these multiples for replayed steps
# Value of `ranking` -> its loss, where another loss has that name.
_LOSSES = {"cosent": "cosent_lists", "listmle": "graded_listmle"}
_TOP_GRADE = 5.0  # the top of the scale on which the gain 2^gold - 1 is computed


class Lists(Method):
    """Train on the mean over queries of a loss of each query's list; batches are of whole queries.

    A list has the cosines of a query with its targets. The queries are the sentences in four or
    more pairs whose gold scores are not all equal, on either side: the queries on which KCC is
    defined. A list shorter than the longest of its batch is filled up with -inf, which every loss
    ignores."""

    config_class = ListsConfig
    config: ListsConfig

    def prepare(self, data: Any) -> None:
        # The rule of the metrics: what is trained is what KCC measures.
        self.groups = [group for group in data.groups() if np.ptp(group.gold)]
        if not self.groups:
            raise DataError(
                f"{data.name}: no sentence is in four or more pairs whose gold scores are not all "
                "equal, so there are no lists; train with cosent"
            )
        used = {pair for group in self.groups for pair in group.pairs.tolist()}
        if len(used) < len(data):
            LOG.info(
                "%s: %d queries with %d of %d pairs; the other pairs are in no list",
                data.name,
                len(self.groups),
                len(used),
                len(data),
            )
        # Each distinct sentence is tokenised once; a list is the rows of its query and targets.
        texts, self.lists = number_sentences(
            *([group.query, *group.targets] for group in self.groups)
        )
        self.tokens = self.encoder.token_rows(texts)
        gold = rank_labels(data)
        if self.config.ranking in ("listnet", "approx_ndcg"):  # which read more than the order
            low, high = data.score_range
            gold = (data.gold - low) / (high - low)
        self.gold = [torch.tensor(gold[group.pairs], dtype=torch.float32) for group in self.groups]

    def examples(self, data: Any) -> int:
        """Return the number of queries."""
        return len(self.groups)

    def collate(self, rows: Sequence[int]) -> Batch:
        lists = [self.lists[row] for row in rows]
        # Each text is read once per batch; index has the batch's row of each query and target.
        texts, index = np.unique(np.concatenate(lists), return_inverse=True)
        index_of_list = torch.from_numpy(index).split([len(members) for members in lists])
        targets = pad_sequence([part[1:] for part in index_of_list], batch_first=True)
        golds = [self.gold[row] for row in rows]
        gold = pad_sequence(golds, batch_first=True, padding_value=-torch.inf)
        if self.has_static_shapes:
            # Texts and targets that no loss reads, so that batches have few shapes.
            texts = np.pad(texts, (0, -len(texts) % _TEXTS), mode="edge")
            missing = -gold.shape[1] % _TARGETS
            targets = pad(targets, (0, missing))
            gold = pad(gold, (0, missing), value=-torch.inf)
        return {
            "tokens": self.pad(self.tokens, texts),
            "queries": torch.stack([part[0] for part in index_of_list]),
            # Where gold is -inf, any row will do.
            "targets": targets,
            "gold": gold,
        }

    def forward(self, batch: Batch) -> Terms:
        vectors = self.embed(batch["tokens"])
        device = self.encoder.device
        gold = batch["gold"].to(device)
        queries = batch["queries"].to(device)
        targets = batch["targets"].to(device)
        # Rows are gathered at one width, that of the longest list of all processes.
        width = gold.shape[1]
        missing = max_over_processes(width, device) - width
        gold = pad(gold, (0, missing), value=-torch.inf)
        # Row 0 for what is not there: gold is -inf there, so that no loss reads it.
        targets = pad(targets, (0, missing))
        # [queries, 1, d] with [queries, width, d]: a query's cosines with its own targets alone.
        cosines = cosine_similarity(vectors[queries][:, None], vectors[targets], dim=2)
        cosines = cosines.masked_fill(gold == -torch.inf, -torch.inf)
        return {self.config.ranking: self._list_loss(gather_rows(cosines), gather_rows(gold))}

    def _list_loss(self, cosines: Scores, gold: Scores) -> Scalar:
        config = self.config
        tau = config.temperature
        values = {
            "temperature": tau,
            "student_temperature": tau,
            "teacher_temperature": config.gold_temperature,
            "scale": 1 / tau,
            "gain": config.gain,
            "exclude_positive": False,
        }
        # gold is in [0, 1] here; 2^5 - 1 = 31 is the usual gain of the best grade.
        if config.ranking == "approx_ndcg":
            gold = _TOP_GRADE * gold
        return named_loss(_LOSSES.get(config.ranking, config.ranking), values, cosines, gold)
