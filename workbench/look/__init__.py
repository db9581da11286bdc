"""Looking at finished runs and their rankings: tables, figures, HTML, an explorer, questions of one's own.

Loads no torch; only what encodes, `Ask` and `Why`, needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.installation import naming_its_extra
from workbench.look._html import INK, SHADES
from workbench.look.compared import Comparison, compare
from workbench.look.comparison import (
    finished_runs,
    in_words,
    intervals,
    paired_tests,
    parts,
    seed_table,
    what_there_is,
)
from workbench.look.figures import (
    alignment_uniformity_path,
    cosine_by_gold,
    cosine_maps,
    part_scores,
    score_intervals,
    setting_sweep,
    training_curve,
)
from workbench.look.of_runs import encoders_of_runs, rankings_of_runs, scores_of_runs
from workbench.look.page import most_changed, ranking_html
from workbench.look.pairs import pair_table
from workbench.look.paper_cells import Cell, paper_cells, runs_by_settings
from workbench.look.paper_figures import paper_figure
from workbench.look.paper_tables import paper_table
from workbench.look.papers import TASKS, published_beside, published_numbers
from workbench.look.queries import of_suite, ordered_queries, query_view, ranking_tables, suites_of
from workbench.look.rank_figures import (
    closed_against_exact,
    neighbour_bins,
    neighbours_and_gain,
    principal_plane,
    two_losses,
    vector_spaces,
)
from workbench.look.response import chosen_on_dev, response, response_curves, response_map
from workbench.look.tables import beside, dev_table, show_tables, table_html

if TYPE_CHECKING:
    from workbench.look.ask import Ask
    from workbench.look.explorer import RankingExplorer
    from workbench.look.live_curve import LiveCurve
    from workbench.look.mechanisms import Composition, Ordering, TopOne
    from workbench.look.pair_explorer import PairExplorer
    from workbench.look.rank_plane import RankPlane
    from workbench.look.run_picker import RunPicker
    from workbench.look.why import Why

# Loaded when asked for: only a notebook has use for widgets.
_WIDGETS = {
    "Ask": "ask",
    "Composition": "mechanisms",
    "LiveCurve": "live_curve",
    "Ordering": "mechanisms",
    "PairExplorer": "pair_explorer",
    "RankPlane": "rank_plane",
    "RankingExplorer": "explorer",
    "RunPicker": "run_picker",
    "TopOne": "mechanisms",
    "Why": "why",
}

__all__ = [
    "INK",
    "SHADES",
    "TASKS",
    "Ask",
    "Cell",
    "Comparison",
    "Composition",
    "LiveCurve",
    "Ordering",
    "PairExplorer",
    "RankPlane",
    "RankingExplorer",
    "RunPicker",
    "TopOne",
    "Why",
    "alignment_uniformity_path",
    "beside",
    "chosen_on_dev",
    "closed_against_exact",
    "compare",
    "cosine_by_gold",
    "cosine_maps",
    "dev_table",
    "encoders_of_runs",
    "finished_runs",
    "in_words",
    "intervals",
    "most_changed",
    "neighbour_bins",
    "neighbours_and_gain",
    "of_suite",
    "ordered_queries",
    "pair_table",
    "paired_tests",
    "paper_cells",
    "paper_figure",
    "paper_table",
    "part_scores",
    "parts",
    "principal_plane",
    "published_beside",
    "published_numbers",
    "query_view",
    "ranking_html",
    "ranking_tables",
    "rankings_of_runs",
    "response",
    "response_curves",
    "response_map",
    "runs_by_settings",
    "score_intervals",
    "scores_of_runs",
    "seed_table",
    "setting_sweep",
    "show_tables",
    "suites_of",
    "table_html",
    "training_curve",
    "two_losses",
    "vector_spaces",
    "what_there_is",
]


def __getattr__(name: str) -> Any:
    if name not in _WIDGETS:
        raise AttributeError(f"module 'workbench.look' has no attribute {name!r}")
    try:
        return getattr(import_module(f"workbench.look.{_WIDGETS[name]}"), name)
    except ModuleNotFoundError as missing:
        raise naming_its_extra(missing) from None
