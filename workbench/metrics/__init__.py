"""What the field measures, in numpy: correlations in [-1, 1], nan where undefined, never a made-up 0."""

from workbench.metrics.correlation import average_ranks, kendall, ndcg, spearman, spearman_by_subset
from workbench.metrics.geometry import alignment, uniformity
from workbench.metrics.groups import FEWEST_TARGETS, RankingGroup, ranking_groups
from workbench.metrics.significance import (
    Interval,
    Measure,
    Method,
    PermutationTest,
    Spread,
    bootstrap_interval,
    holm,
    permutation_test,
    seed_spread,
)
