"""Compare systems: encoders, runs, and scores from elsewhere in one table with tests.

A system is whatever scores pairs or ranks targets. None of this needs torch, except to score with
an encoder."""

from workbench.systems._compare import compare_scores as compare_scores, pair_seeds as pair_seeds
from workbench.systems._mteb import read_mteb as read_mteb, write_mteb as write_mteb
from workbench.systems._scores import (
    SystemScores as SystemScores,
    join_systems as join_systems,
    metrics_of as metrics_of,
)
from workbench.systems._tables import (
    read_score_file as read_score_file,
    score_files as score_files,
)
from workbench.systems._trec import (
    is_judgements as is_judgements,
    read_qrels as read_qrels,
    read_runs as read_runs,
    write_trec as write_trec,
)
from workbench.systems._verdicts import (
    ALPHA as ALPHA,
    SystemComparison as SystemComparison,
    p_text as p_text,
)
