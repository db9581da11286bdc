"""Graded lists: each query's targets must be ranked as their gold scores rank them."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, pad
from torch.nn.utils.rnn import pad_sequence

from workbench.config import ListsConfig
from workbench.data import Pairs
from workbench.errors import DataError
from workbench.losses import approx_ndcg, cosent_lists, graded_listmle, listnet
from workbench.methods.base import Batch, Method, require_kind
from workbench.methods.distributed import gather_rows, max_over_processes
from workbench.metrics import ranking_groups

_LOG = logging.getLogger("workbench")
_GRADES = 5.0  # the top of the scale on which the gain 2^gold - 1 is computed


class Lists(Method):
    """Train on the mean over queries of a loss of each query's list; batches are of whole queries.

    A list has the cosines of a query with its targets. The queries are the sentences in four or more pairs whose gold
    scores are not all equal, on either side: the queries of KCC and NDCG. A list shorter than the longest of its
    batch is filled up with -inf, which every loss ignores.
    """

    config_class = ListsConfig
    config: ListsConfig

    def prepare(self, data: Any) -> None:
        require_kind(data, Pairs, "lists are made of scored pairs")
        groups = ranking_groups(data.sentence1, data.sentence2, data.gold).values()
        self.groups = [group for group in groups if np.ptp(group.gold)]
        if not self.groups:
            problem = f"{data.name}: no sentence is in four or more pairs whose gold scores are not all equal"
            raise DataError(f"{problem}, so there are no lists; train with cosent")
        used = len({pair for group in self.groups for pair in group.pairs.tolist()})
        if used < len(data):
            lists = f"{len(self.groups)} queries with {used} of {len(data)} pairs"
            _LOG.info("%s: %s; the other pairs are in no list", data.name, lists)
        texts = list(dict.fromkeys(text for group in self.groups for text in (group.query, *group)))
        row = {text: number for number, text in enumerate(texts)}
        self.members = [[row[text] for text in (group.query, *group)] for group in self.groups]
        self.tokens = self.encoder.token_rows(texts)
        if self.config.ranking in ("listnet", "approx_ndcg"):
            low, high = data.score_range
            gold = (data.gold - low) / (high - low)
        else:  # the rank of each label, because float32 must not make two labels equal
            gold = np.unique(data.gold, return_inverse=True)[1]
        self.gold = [gold[group.pairs].astype(np.float32) for group in self.groups]

    def examples(self, data: Any) -> int:
        """Return the number of queries."""
        return len(self.groups)

    def collate(self, rows: Sequence[int]) -> Batch:
        members = [self.members[row] for row in rows]
        texts, place = np.unique(np.concatenate(members), return_inverse=True)  # each text is read once per batch
        place = np.split(place, np.cumsum([*map(len, members)])[:-1])
        queries = torch.from_numpy(np.array([numbers[0] for numbers in place]))
        targets = [torch.from_numpy(numbers[1:]) for numbers in place]
        gold = [torch.from_numpy(self.gold[row]) for row in rows]
        return {
            "tokens": self.tokens.batch(texts),
            "queries": queries,
            "targets": pad_sequence(targets, batch_first=True),  # where gold is -inf, any row will do
            "gold": pad_sequence(gold, batch_first=True, padding_value=-torch.inf),
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        vectors = self.embed(batch["tokens"])
        place = self.encoder.device
        gold, queries, targets = (batch[name].to(place) for name in ("gold", "queries", "targets"))
        width = gold.shape[1]
        missing = max_over_processes(width, place) - width  # rows are gathered at one width
        gold = pad(gold, (0, missing), value=-torch.inf)
        targets = pad(targets, (0, missing))
        cosines = cosine_similarity(vectors[queries][:, None], vectors[targets], dim=2)
        cosines = cosines.masked_fill(gold == -torch.inf, -torch.inf)
        return {self.config.ranking: self._list_loss(gather_rows(cosines), gather_rows(gold))}

    def _list_loss(self, cosines: Float[Tensor, "n m"], gold: Float[Tensor, "n m"]) -> Float[Tensor, ""]:
        tau = self.config.temperature
        if self.config.ranking == "listnet":
            taus = {"student_temperature": tau, "teacher_temperature": self.config.gold_temperature}
            return listnet(cosines, gold, **taus, exclude_positive=False)
        if self.config.ranking == "cosent":
            return cosent_lists(cosines, gold, scale=1 / tau, exclude_positive=False)
        if self.config.ranking == "listmle":
            return graded_listmle(cosines, gold, temperature=tau)
        return approx_ndcg(cosines, _GRADES * gold, temperature=tau, gain=self.config.gain)
