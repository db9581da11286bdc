"""Metrics in numpy: correlations in [-1, 1], and nan where a metric is undefined."""

from workbench.metrics.measures import (
    FEWEST_QUERIES as FEWEST_QUERIES,
    FEWEST_TARGETS as FEWEST_TARGETS,
    MEASURE_TITLES as MEASURE_TITLES,
    alignment as alignment,
    average_ranks as average_ranks,
    kendall as kendall,
    metrics_table as metrics_table,
    ndcg as ndcg,
    ranking_groups as ranking_groups,
    similar_third as similar_third,
    spearman as spearman,
    spearman_by_subset as spearman_by_subset,
    uniformity as uniformity,
)
from workbench.metrics.retrieval import (
    RETRIEVAL as RETRIEVAL,
    retrieval_metrics as retrieval_metrics,
)
from workbench.metrics.significance import (
    Interval as Interval,
    Measure as Measure,
    PermutationTest as PermutationTest,
    Spread as Spread,
    bootstrap_interval as bootstrap_interval,
    bootstrap_values as bootstrap_values,
    effects_of_pairs as effects_of_pairs,
    hierarchical_interval as hierarchical_interval,
    hierarchical_p as hierarchical_p,
    holm as holm,
    mean_over_sets as mean_over_sets,
    percentile_interval as percentile_interval,
    permutation_test as permutation_test,
    seed_interval as seed_interval,
    seed_spread as seed_spread,
    smallest_difference as smallest_difference,
)
