"""Looking at finished runs and their rankings: tables, figures, HTML, and an explorer. Never loads torch."""

from typing import TYPE_CHECKING, Any

from workbench.look.comparison import (
    TASKS,
    finished_runs,
    intervals,
    no_runs,
    paired_tests,
    parts,
    published_beside,
    published_numbers,
    rankings_of_runs,
    seed_table,
)
from workbench.look.comparison_figures import part_scores, rank_slopes, score_intervals
from workbench.look.figures import (
    alignment_uniformity_path,
    cosine_by_gold,
    cosine_maps,
    setting_sweep,
    training_curve,
)
from workbench.look.page import INK, SHADES, ranking_html
from workbench.look.queries import of_suite, ordered_queries, query_view, ranking_tables, suites_of
from workbench.look.rank_figures import (
    closed_against_exact,
    neighbour_bins,
    neighbours_and_gain,
    principal_plane,
    two_losses,
    vector_spaces,
)

if TYPE_CHECKING:
    from workbench.look.explorer import RankingExplorer

__all__ = [
    "INK",
    "SHADES",
    "TASKS",
    "RankingExplorer",
    "alignment_uniformity_path",
    "closed_against_exact",
    "cosine_by_gold",
    "cosine_maps",
    "finished_runs",
    "intervals",
    "neighbour_bins",
    "neighbours_and_gain",
    "no_runs",
    "of_suite",
    "ordered_queries",
    "paired_tests",
    "part_scores",
    "parts",
    "principal_plane",
    "published_beside",
    "published_numbers",
    "query_view",
    "rank_slopes",
    "ranking_html",
    "ranking_tables",
    "rankings_of_runs",
    "score_intervals",
    "seed_table",
    "setting_sweep",
    "suites_of",
    "training_curve",
    "two_losses",
    "vector_spaces",
]


def __getattr__(name: str) -> Any:
    if name != "RankingExplorer":
        raise AttributeError(f"module 'workbench.look' has no attribute {name!r}")
    from workbench.look.explorer import RankingExplorer  # ipywidgets, which only a notebook has use for

    return RankingExplorer
