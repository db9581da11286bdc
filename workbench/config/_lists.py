"""Settings of training on graded lists."""

from typing import Literal

from workbench.config._settings import Count, Positive
from workbench.config._training import SetName, Suites, SupervisedConfig


class ListsConfig(SupervisedConfig):
    """Losses over the graded targets of each query, with the optimisation of CoSENT's paper."""

    method = "lists"

    ranking: Literal["listnet", "listmle", "cosent", "approx_ndcg"] = "listnet"
    """the loss of a list; listnet reads the values of gold, approx_ndcg those of its gains, the
    others its order [CoSENT eq. 10; RankCSE eqs. 4, 5; Qin 2010]"""
    temperature: Positive = 0.05
    """divides cosines, or in approx_ndcg their differences [RankCSE tau_2; CoSENT 1 / lambda]"""
    gain: Literal["exponential", "linear"] = "exponential"
    """approx_ndcg, of gold g scaled to 0 to 1; exponential: 2^5g - 1; linear: g, the
    reported NDCG's if gold begins at 0 [Qin 2010]"""
    gold_temperature: Positive = 0.2
    """listnet: divides gold, scaled to 0 to 1; the smaller, the more the best target counts
    [RankCSE tau_3]"""

    train_limit: Count | None = None
    """(queries) train on the pairs of a seeded sample of this many queries (a target in four of
    them is one too); none: all"""
    train: SetName = "sick-train"
    """scored pairs; a sentence with four or more partners is a query [CoSENT tab. II]"""
    dev: SetName = "sick-trial"
    """[CoSENT tab. II]"""
    suites: Suites = ["sick-test"]
    """[CoSENT tab. IV]"""
    batch_size: Count = 8
    """(queries) queries per step, each with all its targets, over all processes"""

    @property
    def trains_on_queries(self) -> bool:
        """Return True: an example, also for `train_limit`, is a query with all its targets."""
        return True
