"""Views of finished runs and their rankings: tables, figures, HTML, live views.

None needs torch to be imported."""

from workbench.notebook import (
    check_parameters as check_parameters,
    open_run as open_run,
    runs_folder as runs_folder,
)
from workbench.views.ask import Ask as Ask
from workbench.views.board import (
    Board as Board,
    board_page as board_page,
    read_board as read_board,
)
from workbench.views.comparison import (
    compare_runs as compare_runs,
    compare_with_start as compare_with_start,
    smallest_differences as smallest_differences,
)
from workbench.views.explorer import RankingExplorer as RankingExplorer
from workbench.views.export import export_html as export_html
from workbench.views.figures import (
    alignment_uniformity_path as alignment_uniformity_path,
    cosine_by_gold as cosine_by_gold,
    cosine_heatmap as cosine_heatmap,
    narrowing_interval as narrowing_interval,
    score_intervals as score_intervals,
    sentence_map as sentence_map,
    training_curve as training_curve,
)
from workbench.views.notebooks import (
    LiveCurve as LiveCurve,
    Mechanism as Mechanism,
    collapsible as collapsible,
    dev_table as dev_table,
    drawing as drawing,
    projector as projector,
    score_table as score_table,
    show_tables as show_tables,
    write_handout as write_handout,
    write_slides as write_slides,
)
from workbench.views.page import most_changed as most_changed, ranking_html as ranking_html
from workbench.views.pair_explorer import PairExplorer as PairExplorer
from workbench.views.papers import (
    paper_table as paper_table,
    runs_by_settings as runs_by_settings,
    show_measured as show_measured,
)
from workbench.views.phenomena import Phenomena as Phenomena, phenomena as phenomena
from workbench.views.run_picker import RunPicker as RunPicker
from workbench.views.run_tables import (
    describe_runs as describe_runs,
    finished_runs as finished_runs,
    read_or_warn as read_or_warn,
    result_line as result_line,
    seed_table as seed_table,
    warning_of as warning_of,
)
from workbench.views.system_sources import (
    compare_systems as compare_systems,
    comparison_html as comparison_html,
    comparison_page as comparison_page,
    read_systems as read_systems,
    score_encoders as score_encoders,
    score_scatter as score_scatter,
)
from workbench.views.watched import WatchedRanking as WatchedRanking
from workbench.views.why import Why as Why
