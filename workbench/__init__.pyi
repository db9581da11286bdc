from . import config as config, data as data, encoder as encoder, evaluation as evaluation
from . import execution as execution
from . import (
    metrics as metrics,
    runs as runs,
    sweeps as sweeps,
    systems as systems,
    teaching as teaching,
    views as views,
)
from .config import (
    CONFIGS as CONFIGS,
    BaselineConfig as BaselineConfig,
    TrainingConfig as TrainingConfig,
)
from .config import (
    CompCSEConfig as CompCSEConfig,
    CoSENTConfig as CoSENTConfig,
    ListsConfig as ListsConfig,
)
from .config import MixedConfig as MixedConfig
from .config import (
    RankCSEConfig as RankCSEConfig,
    RankEncoderConfig as RankEncoderConfig,
    SimCSEConfig as SimCSEConfig,
)
from .data import (
    Pairs as Pairs,
    Sentences as Sentences,
    load_pairs as load_pairs,
    load_sentences as load_sentences,
)
from .data import load_dev as load_dev, load_suites as load_suites, load_training as load_training
from .encoder import Encoder as Encoder
from .errors import DataError as DataError, EncoderError as EncoderError, RunError as RunError
from .errors import SettingError as SettingError, WorkbenchError as WorkbenchError
from .evaluation import Report as Report, evaluate as evaluate, load_baseline as load_baseline
from .execution import run as run, run_notebook as run_notebook
from .methods import METHODS as METHODS
from .methods.compcse import CompCSE as CompCSE
from .methods.cosent import CoSENT as CoSENT
from .methods.lists import Lists as Lists
from .methods.mixed import Mixed as Mixed
from .methods.rankcse import RankCSE as RankCSE
from .methods.rank_mixture import RankMixture as RankMixture, rank_premise as rank_premise
from .methods.rankencoder import RankEncoder as RankEncoder
from .methods.simcse import SimCSE as SimCSE
from .runs import Run as Run, list_runs as list_runs
from .sweeps import sweep as sweep
from .teachers import cached_embeddings as cached_embeddings, load_teacher as load_teacher
from .training import fit as fit
from .notebook import check_parameters as check_parameters, runs_folder as runs_folder
